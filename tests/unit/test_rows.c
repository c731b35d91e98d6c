/* The rows of a file for a predictor, by the public functions alone: their number, lines and truth, predictions of
 * parts of them, and what is refused. */
#include <math.h>
#include <stdbool.h>

#include "scratch.h"

#include "heddle.h"

static hd_ctx *ctx;

/* A run on named classes, or on numbers, of a table with two columns. */
static hd_predictor *predictor_of(const char *model, const char *table, const char *name) {
  const char *const pair[][2] = {{"model", model}, {"data", table}, {"epochs", "2"}, {"threads", "1"}};
  hd_config *config;
  hd_session *session;
  hd_predictor *predictor;
  hd_config_create(&config, ctx);
  for (size_t i = 0; i < sizeof pair / sizeof *pair; i++)
    hd_config_set(config, ctx, pair[i][0], pair[i][1]);
  hd_config_set(config, ctx, "out", in_scratch("%s", name));
  if (hd_session_create(&session, ctx, config) != HD_OK || hd_session_train(session, ctx, NULL, NULL) != HD_OK ||
      hd_predictor_create(&predictor, ctx, in_scratch("%s", name), NULL) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  hd_session_destroy(session);
  hd_config_destroy(config);
  return predictor;
}

static const char *put(const char *name, const char *text) {
  const char *path = in_scratch("%s", name);
  put_file(path, text, strlen(text));
  return path;
}

/* Twenty rows whose last column is one of two texts, or a number. */
static const char *table(const char *name, bool named) {
  char text[1024] = "a,b,y\n";
  for (int i = 0; i < 20; i++) {
    char line[48];
    if (named)
      snprintf(line, sizeof line, "%d,%d,%s\n", i % 4, i % 7, i % 4 > 1 ? "high" : "low");
    else
      snprintf(line, sizeof line, "%d,%d,%d\n", i % 4, i % 7, 100 * (i % 4) + i % 7);
    strcat(text, line);
  }
  return put(name, text);
}

static void test_classes(void) {
  hd_predictor *p = predictor_of("linear", table("named.csv", true), "named");
  hd_rows *rows;
  double all[3 * 2], one[2], target = 0;
  int32_t label = 7;
  is_int(hd_rows_open(&rows, ctx, p, put("own.csv", "y,b,a\nhigh,1,3\n\n,2,0\nother,3,1\n")), HD_OK, "a file");
  is_int(hd_rows_count(rows), 3, "has three rows");
  is_int(hd_rows_line(rows, 1), 4, "an empty line is none, but counts");
  is_str(hd_rows_truth(&label, &target, rows, 0), "high", "the label's text");
  ok(label == 0 && isnan(target), "is the first class, and no number");
  is_str(hd_rows_truth(&label, &target, rows, 1), "", "an empty label");
  is_int(label, -1, "is no class");
  is_str(hd_rows_truth(NULL, &target, rows, 2), "other", "a text that is none of the model's");
  is_int(hd_predict_rows(all, p, ctx, rows, 0, 3), HD_OK, "all are predicted");
  for (int i = 0; i < 3; i++) {
    is_int(hd_predict_rows(one, p, ctx, rows, i, 1), HD_OK, "row %d alone", i);
    is_bytes(one, all + 2 * i, sizeof one, "is the same");
  }
  is_int(hd_predict_rows(one, p, ctx, rows, 3, 0), HD_OK, "no row is nothing to do");
  const int64_t bad[][2] = {{-1, 1}, {0, -1}, {0, 4}, {3, 1}, {INT64_MAX, 1}, {1, INT64_MAX}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    is_int(hd_predict_rows(one, p, ctx, rows, bad[i][0], bad[i][1]), HD_E_USAGE, "rows beyond the file's");
  hd_rows_close(rows);
  hd_rows_close(NULL);
  is_int(hd_rows_open(&rows, ctx, p, put("bare.csv", "b,a\n1,3\n")), HD_OK, "a file without labels");
  ok(!hd_rows_truth(&label, &target, rows, 0) && label == -1 && isnan(target), "has no truth");
  is_int(hd_predict_rows(one, p, ctx, rows, 0, 1), HD_OK, "and is predicted");
  is_bytes(one, all, sizeof one, "as with labels");
  hd_rows_close(rows);
  hd_predictor_destroy(p);
}

static void test_numbers(void) {
  hd_predictor *p = predictor_of("regression", table("numbers.csv", false), "numbers");
  hd_rows *rows;
  double target = 0;
  int32_t label = 7;
  is_int(hd_rows_open(&rows, ctx, p, put("own.csv", "a,b,y\n1,2,3.5\n1,2,\n")), HD_OK, "a file");
  is_str(hd_rows_truth(&label, &target, rows, 0), "3.5", "a target's text");
  ok(label == -1 && target == 3.5, "is a number, and no class");
  hd_rows_truth(&label, &target, rows, 1);
  ok(isnan(target), "an empty one is none");
  hd_rows_close(rows);
  const struct refused {
    const char *text, *says;
    hd_status status;
  } refused[] = {{"a,b,y\n1,x,3\n", "own.csv:2: expected a finite number in column 'b'", HD_E_FORMAT},
                 {"a,y\n1,3\n", "own.csv: expected column 'b' as in training", HD_E_FORMAT},
                 {"a,b,y\n1,2,much\n", "own.csv:2: expected a finite number in column 'y'", HD_E_FORMAT},
                 {"", "own.csv: expected at least one row", HD_E_FORMAT}};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    is_int(hd_rows_open(&rows, ctx, p, put("own.csv", refused[i].text)), refused[i].status, "%s", refused[i].says);
    ok(!rows && strstr(hd_ctx_message(ctx), refused[i].says), "says so, and leaves nothing: %s", hd_ctx_message(ctx));
  }
  is_int(hd_rows_open(&rows, ctx, p, in_scratch("none.csv")), HD_E_IO, "no such file");
  hd_predictor_destroy(p);
}

int main(void) {
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("out of memory");
  test_classes();
  test_numbers();
  hd_ctx_destroy(ctx);
  return done_testing();
}
