/* heddle predict: the class of pictures and of items of a data set, with probabilities; or a model's numbers.
 *
 * An unreadable one is reported, the others are predicted, and the exit code is that of a failure. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

enum { RUNNERS_UP = 2, BAR = 40, NAME_ROOM = 40 };

static struct {
  long long *index; /* of --index */
  int count;
} asked;

typedef struct predict {
  hd_ctx *ctx;
  hd_predictor *predictor;
  hd_prediction gives;
  double *value;                 /* `count` of them */
  int count, json, width, shown; /* width: of the longest name; shown: predictions so far */
} predict;

static int take_index(const cli_extra *option, const char *value) {
  char *end;
  errno = 0;
  long long index = strtoll(value, &end, 10);
  if (*value < '0' || *value > '9' || *end || errno) {
    cli_complain("--index expects a whole number from 0 up, found '%s'", value);
    return CLI_USAGE;
  }
  long long *more = realloc(asked.index, ((size_t)asked.count + 1) * sizeof *more);
  if (!more)
    return HD_E_NOMEM;
  asked.index = more;
  asked.index[asked.count++] = index;
  return 0;
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

/* "   7   99.82 %   then 1 (0.11 %), 9 (0.04 %)" */
static void print_classes(const predict *p) {
  int c = hd_predict_class(p->value, p->count);
  cli_print("  %3d  %6.2f %%", c, 100 * p->value[c]);
  for (int i = 0; i < RUNNERS_UP && (c = next_best(p->value, p->count, c)) >= 0; i++)
    cli_print("%s %d (%.2f %%)", i ? "," : "   then", c, 100 * p->value[c]);
}

/* "seven.png", then the classes, "   99.82 %    0.04 %" or "      6.98413       0.25" */
static void print_line(const predict *p, const char *name, int label) {
  cli_print("%-*s", p->width, name);
  if (p->gives == HD_PREDICTS_CLASSES)
    print_classes(p);
  for (int i = 0; i < p->count && p->gives != HD_PREDICTS_CLASSES; i++)
    if (p->gives == HD_PREDICTS_CHANCES)
      cli_print("  %6.2f %%", 100 * p->value[i]);
    else
      cli_print("  %11.6g", p->value[i]);
  if (label >= 0)
    cli_print("   label %d", label);
  cli_print("\n");
}

/* All classes with a bar each, for a single picture. */
static void print_bars(const predict *p) {
  static const char bar[] = "########################################";
  cli_print("\n");
  for (int c = 0; c < p->count; c++) {
    int length = isfinite(p->value[c]) ? (int)(p->value[c] * BAR + 0.5) : 0;
    cli_print("  %3d  %6.2f %%%s%.*s\n", c, 100 * p->value[c], length ? "  " : "", length, bar);
  }
}

/* index -1: a file. label -1: unknown. */
static void print_json(const predict *p, const char *name, long long index, int label) {
  cli_json("%c{'file': %s", p->shown, name);
  if (index >= 0)
    cli_json(", 'index': %lld", index);
  if (label >= 0)
    cli_json(", 'label': %d", label);
  if (p->gives == HD_PREDICTS_CLASSES)
    cli_json(", 'class': %d", hd_predict_class(p->value, p->count));
  cli_json(", %s: [", p->gives == HD_PREDICTS_NUMBERS ? "outputs" : "probabilities");
  for (int i = 0; i < p->count; i++)
    cli_json("%c%g", i, p->value[i]);
  cli_json("]}");
}

static int predict_file(predict *p, const char *path) {
  CLI_TRY(hd_predict_picture(p->value, p->predictor, p->ctx, path));
  if (p->json)
    print_json(p, path, -1, -1);
  else
    print_line(p, path, -1);
  p->shown++;
  return CLI_OK;
}

static int predict_item(predict *p, long long index) {
  char name[4160];
  int32_t label;
  CLI_TRY(hd_predict_item(p->value, &label, p->predictor, p->ctx, index));
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
    if (cli_report(p->ctx, predict_file(p, file[i])) != CLI_OK)
      code = CLI_FAILED;
  for (int i = 0; i < asked.count; i++) {
    const int failed = cli_report(p->ctx, predict_item(p, asked.index[i]));
    code = code == CLI_OK ? failed : code;
  }
  if (p->json)
    printf("]}\n");
  else if (p->shown == 1 && p->gives != HD_PREDICTS_NUMBERS)
    print_bars(p);
  return code;
}

static int run(hd_ctx *ctx, hd_config *config, int count, char **operand) {
  predict p = {.ctx = ctx, .json = cli_wants_json(config)};
  if (count < 1)
    return hd_ctx_fail(
        ctx, HD_E_USAGE,
        "predict expects a checkpoint (a run's folder or a step's), found none; see heddle predict --help");
  if (count == 1 && asked.count == 0)
    return hd_ctx_fail(
        ctx, HD_E_USAGE,
        "predict expects PNG files or --index N behind the checkpoint, found neither; see heddle predict --help");
  CLI_TRY(hd_predictor_create(&p.predictor, ctx, operand[0], config));
  cli_note(ctx);
  p.gives = hd_predictor_gives(p.predictor);
  p.count = hd_predictor_count(p.predictor);
  p.value = calloc((size_t)p.count, sizeof *p.value);
  const int code = p.value ? predict_all(&p, count - 1, operand + 1)
                           : hd_ctx_fail(ctx, HD_E_NOMEM, "out of memory for %d values", p.count);
  hd_predictor_destroy(p.predictor);
  free(p.value);
  free(asked.index);
  return code;
}

static const cli_extra extra[] = {
    {"index", "N", "an item of the data's test set; may be given again", .take = take_index}, {0}};

const cli_command cli_predict = {
    .name = "predict",
    .help = "classes of pictures, with probabilities",
    .usage = "heddle predict CHECKPOINT [FILE...] [--index N...] [--data NAME|PATH] [--data-dir DIR] [--tta V] "
             "[--threads N] [--device D] [--json]",
    .options = (const char *const[]){"data", "data-dir", "tta", "threads", "device", "json", NULL},
    .extra = extra,
    .operands = CLI_ANY,
    .run = run};
