/* heddle predict: the class of pictures and of items of a data set, with probabilities.
 *
 * One that cannot be read is complained of, the others are predicted all the same, and the exit code says that
 * something failed. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

enum { RUNNERS_UP = 2, BAR = 40, NAME_ROOM = 40 };

typedef struct predict {
  long long *index; /* of --index */
  int index_count;
  hd_ctx *ctx;
  hd_predictor *predictor;
  double *probability;
  int json, width, shown; /* width: of the longest name; shown: predictions so far */
} predict;

static int take_index(void *self, const char *value) {
  predict *p = self;
  char *end;
  errno = 0;
  long long index = strtoll(value, &end, 10);
  if (*value < '0' || *value > '9' || *end || errno) {
    cli_complain("--index expects a whole number from 0 up, found '%s'", value);
    return CLI_USAGE;
  }
  long long *more = realloc(p->index, ((size_t)p->index_count + 1) * sizeof *more);
  if (!more)
    return cli_fail(HD_E_NOMEM, NULL);
  p->index = more;
  p->index[p->index_count++] = index;
  return -1;
}

/* The class with the largest probability below that of `above`; earlier classes first among equals. */
static int next_best(const double *probability, int classes, int above) {
  int best = -1;
  for (int c = 0; c < classes; c++) {
    int below = probability[c] < probability[above] || (probability[c] == probability[above] && c > above);
    if (below && (best < 0 || probability[c] > probability[best]))
      best = c;
  }
  return best;
}

/* "seven.png   7   99.82 %   then 1 (0.11 %), 9 (0.04 %)" */
static void print_line(const predict *p, const char *name, int label) {
  int classes = hd_predictor_classes(p->predictor), c = hd_predict_class(p->probability, classes);
  printf("%-*s  %3d  %6.2f %%", p->width, name, c, 100 * p->probability[c]);
  for (int i = 0; i < RUNNERS_UP && (c = next_best(p->probability, classes, c)) >= 0; i++)
    printf("%s %d (%.2f %%)", i ? "," : "   then", c, 100 * p->probability[c]);
  if (label >= 0)
    printf("   label %d", label);
  printf("\n");
}

/* All classes with a bar each, for a single picture. */
static void print_bars(const predict *p) {
  static const char bar[] = "########################################";
  printf("\n");
  for (int c = 0; c < hd_predictor_classes(p->predictor); c++) {
    int length = isfinite(p->probability[c]) ? (int)(p->probability[c] * BAR + 0.5) : 0;
    printf("  %3d  %6.2f %%%s%.*s\n", c, 100 * p->probability[c], length ? "  " : "", length, bar);
  }
}

/* label -1: a file. */
static void print_json(const predict *p, const char *name, long long index, int label) {
  int classes = hd_predictor_classes(p->predictor);
  printf("%s{\"file\": ", p->shown ? ", " : "");
  cli_json_text(stdout, name);
  if (label >= 0)
    printf(", \"index\": %lld, \"label\": %d", index, label);
  printf(", \"class\": %d, \"probabilities\": [", hd_predict_class(p->probability, classes));
  for (int c = 0; c < classes; c++) {
    printf("%s", c ? ", " : "");
    cli_json_real(stdout, p->probability[c]);
  }
  printf("]}");
}

/* Returns an exit code. */
static int predict_file(predict *p, const char *path) {
  hd_status status = hd_predict_png(p->probability, p->predictor, p->ctx, path);
  if (status != HD_OK)
    return cli_fail(status, hd_ctx_message(p->ctx));
  if (p->json)
    print_json(p, path, 0, -1);
  else
    print_line(p, path, -1);
  p->shown++;
  return CLI_OK;
}

static int predict_item(predict *p, long long index) {
  char name[4160];
  int32_t label;
  hd_status status = hd_predict_item(p->probability, &label, p->predictor, p->ctx, index);
  if (status != HD_OK)
    return cli_fail(status, hd_ctx_message(p->ctx));
  const char *data = hd_predictor_data(p->predictor);
  snprintf(name, sizeof name, "%s[%lld]", data, index);
  if (p->json)
    print_json(p, data, index, label);
  else
    print_line(p, name, label);
  p->shown++;
  return CLI_OK;
}

static int predict_all(predict *p, int files, char **file) {
  int code = CLI_OK;
  for (int i = 0; i < files; i++)
    p->width = (int)strlen(file[i]) > p->width ? (int)strlen(file[i]) : p->width;
  p->width = p->width > NAME_ROOM ? NAME_ROOM : p->width;
  printf("%s", p->json ? "{\"predictions\": [" : "");
  for (int i = 0; i < files; i++)
    if (predict_file(p, file[i]) != CLI_OK)
      code = CLI_FAILED;
  for (int i = 0; i < p->index_count; i++) {
    int failed = predict_item(p, p->index[i]);
    code = failed != CLI_OK && code == CLI_OK ? failed : code;
  }
  if (p->json)
    printf("]}\n");
  else if (p->shown == 1)
    print_bars(p);
  return code;
}

static int run(predict *p, const hd_config *config, int operands, char **operand) {
  if (operands < 1) {
    cli_complain("predict expects a checkpoint (a run's folder or a step's), found none; see heddle predict --help");
    return CLI_USAGE;
  }
  if (operands == 1 && p->index_count == 0) {
    cli_complain(
        "predict expects PNG files or --index N behind the checkpoint, found neither; see heddle predict --help");
    return CLI_USAGE;
  }
  hd_status status = hd_predictor_create(&p->predictor, p->ctx, operand[0], config);
  if (status != HD_OK)
    return cli_fail(status, hd_ctx_message(p->ctx));
  p->json = !strcmp(hd_config_get(config, "json"), "true");
  p->probability = calloc((size_t)hd_predictor_classes(p->predictor), sizeof *p->probability);
  int code = p->probability ? predict_all(p, operands - 1, operand + 1) : cli_fail(HD_E_NOMEM, NULL);
  hd_predictor_destroy(p->predictor);
  free(p->probability);
  return code;
}

int cli_predict(int argc, char **argv) {
  static const char *const names[] = {"data", "data-dir", "threads", "json", NULL};
  predict p = {0};
  const cli_extra index = {"index", "N", "an item of the data's test set; may be given again", take_index, &p};
  hd_config *config;
  if (hd_ctx_create(&p.ctx) != HD_OK)
    return cli_fail(HD_E_NOMEM, NULL);
  int first = 0, code = hd_config_create(&config, p.ctx) == HD_OK ? -1 : cli_fail(HD_E_NOMEM, NULL);
  if (code < 0)
    code = cli_parse_with(&first, config, p.ctx, argc, argv, names, &index,
                          "usage: heddle predict CHECKPOINT [FILE.png...] [--index N...] [--data NAME|PATH] "
                          "[--data-dir DIR]\n                      [--threads N] [--json]");
  if (code < 0)
    code = run(&p, config, argc - first, argv + first);
  hd_config_destroy(config);
  hd_ctx_destroy(p.ctx);
  free(p.index);
  return code;
}
