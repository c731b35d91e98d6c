/* heddle summary: a network's layers, their costs, and the memory of a run. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

enum { COLUMNS = 7, CELL_BYTES = 80 };

/* One line of the table. Texts stand left, numbers right. */
typedef struct row {
  char cell[COLUMNS][CELL_BYTES];
} row;

static const int is_number[COLUMNS] = {0, 0, 0, 1, 1, 1, 1};

static int32_t input[3]; /* of --input */
static int wants_plan;

static int take_input(const cli_extra *option, const char *value) {
  int end = 0;
  if (strspn(value, "0123456789x") == strlen(value) && strlen(value) <= 24 &&
      sscanf(value, "%9d%*1[x]%9d%*1[x]%9d%n", &input[0], &input[1], &input[2], &end) == 3 && !value[end] &&
      input[0] > 0 && input[1] > 0 && input[2] > 0)
    return 0;
  cli_complain("--input expects CHANNELSxHEIGHTxWIDTH, for example 1x28x28, found '%s'; write three whole numbers",
               value);
  return CLI_USAGE;
}

static void shape_text(char *text, const hd_summary_layer *layer) {
  int at = 0;
  for (int i = 0; i < layer->rank; i++)
    at += snprintf(text + at, (size_t)(CELL_BYTES - at), "%s%d", i ? "x" : "", layer->shape[i]);
}

/* "10,171,296"; "10.2M" where the screen is too narrow for that. */
static void put_number(row *r, int column, int64_t value, int brief) {
  static const char unit[] = "kMGTPE";
  double scaled = (double)value;
  int u = -1;
  for (; scaled >= 999.5; u++)
    scaled /= 1000;
  if (value == 0)
    snprintf(r->cell[column], CELL_BYTES, "-");
  else if (brief && u >= 0)
    snprintf(r->cell[column], CELL_BYTES, "%.*f%c", scaled < 9.995 ? 2 : scaled < 99.95, scaled, unit[u]);
  else
    snprintf(r->cell[column], CELL_BYTES, "%s", cli_grouped(value));
}

static void put_costs(row *r, int64_t params, int64_t macs, int64_t forward, int64_t backward, int brief) {
  put_number(r, 3, params, brief);
  put_number(r, 4, macs, brief);
  put_number(r, 5, forward, brief);
  put_number(r, 6, backward, brief);
}

/* Column heads, the layers, the total: layer_count + 2 rows. */
static void fill_rows(row *rows, const hd_summary *s, int brief) {
  static const char *const head[COLUMNS] = {"layer", "operation", "output",   "parameters",
                                            "MACs",  "FLOPs fwd", "FLOPs bwd"};
  for (int c = 0; c < COLUMNS; c++)
    snprintf(rows[0].cell[c], CELL_BYTES, "%s", brief && c == 3 ? "params" : head[c]);
  for (int i = 0; i < s->layer_count; i++) {
    const hd_summary_layer *l = &s->layers[i];
    row *r = &rows[i + 1];
    snprintf(r->cell[0], CELL_BYTES, "%s", l->name);
    snprintf(r->cell[1], CELL_BYTES, "%s", l->op);
    shape_text(r->cell[2], l);
    put_costs(r, l->params, l->macs, l->flops_fwd, l->flops_bwd, brief);
  }
  row *total = &rows[s->layer_count + 1];
  snprintf(total->cell[0], CELL_BYTES, "total");
  put_costs(total, s->params, s->macs, s->flops_fwd, s->flops_bwd, brief);
}

static void print_row(const row *r, const int width[COLUMNS]) {
  for (int c = 0; c < COLUMNS; c++)
    cli_print("%s%*s", c ? "  " : "", is_number[c] ? width[c] : -width[c], r->cell[c]);
  cli_print("\n");
}

static void print_rule(int columns) {
  while (columns-- > 0)
    cli_print("-");
  cli_print("\n");
}

/* Widths of the columns, and of the table. */
static int find_widths(int width[COLUMNS], const row *rows, int layers) {
  int all = 2 * (COLUMNS - 1);
  for (int c = 0; c < COLUMNS; c++) {
    width[c] = 0;
    for (int i = 0; i < layers + 2; i++)
      width[c] = (int)strlen(rows[i].cell[c]) > width[c] ? (int)strlen(rows[i].cell[c]) : width[c];
    all += width[c];
  }
  return all;
}

static void print_table(row *rows, const hd_summary *s) {
  const int layers = s->layer_count, columns = cli_columns();
  int width[COLUMNS];
  fill_rows(rows, s, 0);
  int all = find_widths(width, rows, layers);
  if (columns > 0 && all > columns) {
    fill_rows(rows, s, 1);
    all = find_widths(width, rows, layers);
  }
  print_row(&rows[0], width);
  print_rule(all);
  for (int i = 1; i <= layers; i++)
    print_row(&rows[i], width);
  print_rule(all);
  print_row(&rows[layers + 1], width);
}

static void print_memory(const hd_summary *s) {
  const hd_memory *m = &s->memory;
  const struct {
    const char *what;
    int64_t bytes;
  } lines[] = {{"weights, two versions", m->weights_bytes},
               {"state of the optimizer, two versions", m->optimizer_bytes},
               {"weights packed for the kernels", m->packed_bytes},
               {"activations and their gradients", m->activations_bytes},
               {"samples in the transforms' buffers", m->samples_bytes},
               {"gradients of parameters", m->gradients_bytes},
               {"evaluation", m->evaluation_bytes},
               {"copies for checkpoints", m->checkpoint_bytes},
               {"bookkeeping and page alignment", m->other_bytes}};
  cli_print("\nmemory to train with batch %lld in %lld shards, %s, %s, %s kernels:\n", (long long)s->batch,
            (long long)s->shards, hd_choice_name(HD_OPT_OPTIMIZER, (int)s->optimizer),
            cli_counted(s->threads, "thread"), s->isa);
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    if (lines[i].bytes > 0)
      cli_print("  %-46s %10.2f MB\n", lines[i].what, 1e-6 * (double)lines[i].bytes);
  cli_print("  %-46s %10.2f MB\n", "in all, without the program and the data", 1e-6 * (double)m->total_bytes);
}

static void print_stages(const hd_summary *s) {
  int64_t flops = 0;
  for (int i = 0; i < s->stage_count; i++)
    flops += s->stages[i].flops;
  if (s->stage_count > 0)
    cli_print("\nstages:\n");
  for (int i = 0; i < s->stage_count; i++) {
    const hd_summary_stage *stage = &s->stages[i];
    cli_print("  %d  %s to %s: %s parameters, %.0f %% of the FLOPs, %s, %.2f MB of weights and state, %.2f MB of "
              "activations\n",
              i, stage->first, stage->last, cli_grouped(stage->params), 100 * (double)stage->flops / (double)flops,
              cli_counted(stage->threads, "thread"), 1e-6 * (double)stage->weights_bytes,
              1e-6 * (double)stage->activations_bytes);
  }
}

static int print_all(const hd_summary *s) {
  row *rows = calloc((size_t)s->layer_count + 2, sizeof *rows);
  if (!rows)
    return HD_E_NOMEM;
  cli_print("%s, input %dx%dx%d; multiply-adds (MACs) and FLOPs of one sample\n\n", s->model, s->input[0], s->input[1],
            s->input[2]);
  print_table(rows, s);
  cli_print("\nparameters: %s, trainable: %s\n", cli_grouped(s->params), cli_grouped(s->trainable));
  print_stages(s);
  print_memory(s);
  free(rows);
  return CLI_OK;
}

static void json_stages(const hd_summary *s) {
  cli_json("'stages': [");
  for (int i = 0; i < s->stage_count; i++) {
    const hd_summary_stage *stage = &s->stages[i];
    cli_json("%c{'first': %s, 'last': %s, 'params': %lld, 'flops': %lld, 'stage_threads': %d, 'weights_bytes': %lld, "
             "'activations_bytes': %lld}",
             i, stage->first, stage->last, (long long)stage->params, (long long)stage->flops, stage->threads,
             (long long)stage->weights_bytes, (long long)stage->activations_bytes);
  }
  cli_json("], ");
}

static int print_json(const hd_summary *s) {
  cli_json("{'layers': [");
  for (int i = 0; i < s->layer_count; i++) {
    const hd_summary_layer *l = &s->layers[i];
    cli_json("%c{'name': %s, 'op': %s, 'shape': [", i, l->name, l->op);
    for (int d = 0; d < l->rank; d++)
      cli_json("%c%d", d, l->shape[d]);
    cli_json("], 'params': %lld, 'macs': %lld, 'flops_fwd': %lld, 'flops_bwd': %lld}", (long long)l->params,
             (long long)l->macs, (long long)l->flops_fwd, (long long)l->flops_bwd);
  }
  cli_json("], ");
  if (s->stage_count > 0)
    json_stages(s);
  cli_json("'params': %lld, 'trainable': %lld, 'macs': %lld, 'memory_bytes': %lld}\n", (long long)s->params,
           (long long)s->trainable, (long long)s->macs, (long long)s->memory.total_bytes);
  return CLI_OK;
}

/* The bytes before the column in which the rest of a plan's line continues: behind the number and the operation of
 * "3   conv2d   pool2[64x5x5] <- ...". */
static int head_of(const char *line, int length) {
  int at = 0;
  for (int word = 0; word < 2; word++) {
    at += (int)strcspn(line + at, " \n");
    at += (int)strspn(line + at, " ");
  }
  return *line < '0' || *line > '9' || at > length ? 0 : at;
}

static void print_lines(const char *text) {
  for (const char *end; *text; text = end + 1) {
    end = strchr(text, '\n');
    const int length = (int)(end - text), head = head_of(text, length);
    cli_print("%.*s\t%.*s\n", head, text, length - head, text + head);
  }
}

static int print_plans(const hd_summary *s) {
  cli_print("a step\n\n");
  print_lines(s->plan);
  cli_print("\nan evaluation\n\n");
  print_lines(s->evaluation_plan);
  return CLI_OK;
}

static int run(hd_ctx *ctx, hd_config *config, int count, char **operand) {
  hd_summary *s;
  if (wants_plan && cli_wants_json(config)) {
    cli_complain("--plan expects a summary without --json, found both; leave one out");
    return CLI_USAGE;
  }
  CLI_TRY(hd_summary_create(&s, ctx, config, input[0] ? input : NULL));
  const int code = (wants_plan ? print_plans : cli_wants_json(config) ? print_json : print_all)(s);
  hd_summary_destroy(s);
  return code;
}

static const cli_extra extra[] = {
    {"input", "CxHxW", "shape of samples, such as 1x28x28 (default: the model's)", .take = take_input},
    {"plan", NULL, "print what a step and an evaluation do instead: kernel calls by phase, and where outputs go",
     .take = cli_take_flag, .self = &wants_plan},
    {0}};

const cli_command cli_summary = {
    .name = "summary",
    .help = "layers, parameters, costs and memory of a model",
    .usage = "heddle summary [options]: layers, parameters, costs, and the memory of a run",
    .options =
        (const char *const[]){
            "model",          "recipe",     "batch",           "shards",   "optimizer",  "momentum",
            "clip-grad-norm", "parameters", "precision",       "threads",  "stages",     "schedule-stages",
            "accumulate",     "transforms", "eval-transforms", "centered", "data",       "data-dir",
            "label",          "weights",    "header",          "missing",  "categories", "loss",
            "exif",           "on-error",   "allow-empty",     "json",     NULL},
    .extra = extra,
    .remedy = "use --model NAME or --model FILE.yaml",
    .run = run};
