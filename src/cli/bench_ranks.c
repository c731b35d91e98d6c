/* heddle bench ranks: runs heddle train with the cores divided into ranks and threads in all ways, in turn.
 *
 * Each run is a separate process, started as a user would, which reports its settings and speed as JSON. Start-up
 * and evaluation are not in its speed. All runs train the same steps, so they must end in the same weights: a run
 * that does not is an error, not a row. */
#include "cli/bench.h"

#include <ftw.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "platform/this_program.h"

enum { MOST_WORDS = 96, FIRST_STEPS = 200, LINE_BYTES = 1 << 16 };

/* A run's report. */
typedef struct outcome {
  double rate, startup_s;
  char line[LINE_BYTES]; /* its JSON */
} outcome;

typedef struct sweep {
  const hd_config *config;
  bench_ranks_table *table;
  double (*rate)[BENCH_RANKS_ROUNDS]; /* per row */
  double (*startup_s)[BENCH_RANKS_ROUNDS];
  outcome last;
  char self[PATH_MAX], folder[PATH_MAX];
} sweep;

/* ---- One run ---- */

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where) { return remove(path); }

static void remove_all(const char *folder) { nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

/* Options of the run that differ from their defaults; a flag has no value. */
static int pass_on(const char **word, int count, const hd_config *config) {
  static const char *const fixed[] = {"procs", "threads", "json", NULL};
  for (int i = 0; hd_option_at(i) && count < MOST_WORDS - 16; i++) {
    const hd_option *option = hd_option_at(i);
    const char *value = hd_config_get(config, option->name);
    int is_fixed = 0;
    for (int k = 0; fixed[k]; k++)
      is_fixed |= !strcmp(option->name, fixed[k]);
    const int is_flag = option->type == HD_OPTION_FLAG;
    if (is_fixed || !value || !*value || !strcmp(value, is_flag ? "false" : option->fallback))
      continue;
    static char name[MOST_WORDS][48];
    snprintf(name[count], sizeof name[count], "--%s", option->name);
    word[count] = name[count];
    word[count + 1] = value;
    count += is_flag ? 1 : 2;
  }
  return count;
}

/* The text after "key": in the line; "" if there is none. */
static const char *value_of(const char *line, const char *key) {
  char quoted[48];
  snprintf(quoted, sizeof quoted, "\"%s\": ", key);
  const char *at = strstr(line, quoted);
  return at ? at + strlen(quoted) : "";
}

static void text_of(char *out, size_t bytes, const char *line, const char *key) {
  const char *at = value_of(line, key);
  at += *at == '"';
  snprintf(out, bytes, "%.*s", (int)strcspn(at, "\""), at);
}

/* Prints what a run has said on standard error; not how to go on after a signal, since its folder goes. */
static void print_errors(const char *path) {
  char part[4096];
  size_t got;
  FILE *errors = fopen(path, "re");
  while (errors && !bench_caught() && (got = fread(part, 1, sizeof part, errors)) > 0)
    fwrite(part, 1, got, stderr);
  if (errors)
    fclose(errors);
}

static int train(sweep *s, int ranks, int threads, long long steps) {
  char out[PATH_MAX + 16], errors[PATH_MAX + 16], procs[16], threads_text[16], most[32];
  const char *word[MOST_WORDS] = {s->self, "train"};
  snprintf(out, sizeof out, "%s/run", s->folder);
  snprintf(errors, sizeof errors, "%s/errors", s->folder);
  snprintf(procs, sizeof procs, "%d", ranks);
  snprintf(threads_text, sizeof threads_text, "%d", threads);
  snprintf(most, sizeof most, "%lld", steps);
  int count = pass_on(word, 2, s->config);
  const char *fixed_words[] = {"--procs", procs,   "--threads", threads_text,  "--max-steps", most,    "--epochs",
                               "100000",  "--out", out,         "--log-every", "1000000",     "--json"};
  for (size_t i = 0; i < sizeof fixed_words / sizeof *fixed_words; i++)
    word[count++] = fixed_words[i];
  s->last.line[0] = 0;
  int code = bench_child(s->last.line, LINE_BYTES, errors, (char *const *)word);
  print_errors(errors);
  if (code < 0) {
    cli_complain("cannot start %s: %s", word[0], strerror(-code));
    code = CLI_FAILED;
  }
  remove_all(out);
  s->last.rate = atof(value_of(s->last.line, "samples_per_s"));
  s->last.startup_s = atof(value_of(s->last.line, "startup_s"));
  if (code != CLI_OK || s->last.rate > 0)
    return code;
  cli_complain("expected the JSON of heddle train, found '%.80s'", s->last.line);
  return CLI_FAILED;
}

/* ---- The sweep ---- */

/* Powers of two and the whole; of each all ways to divide it. */
static void list_rows(bench_ranks_table *t, int most) {
  for (int cores = 1; cores <= most; cores = cores < most && 2 * cores > most ? most : 2 * cores)
    for (int ranks = 1; ranks <= cores && t->rows < BENCH_RANKS_ROWS; ranks++)
      if (cores % ranks == 0)
        t->row[t->rows++] = (bench_ranks_row){.cores = cores, .ranks = ranks, .threads = cores / ranks};
}

/* Reads the settings common to all runs from the first, and sets the number of steps for the requested time. */
static int begin(sweep *s, int most, double seconds) {
  bench_ranks_table *t = s->table;
  int code = train(s, 1, most, FIRST_STEPS);
  if (code != CLI_OK)
    return code;
  text_of(t->model, sizeof t->model, s->last.line, "model");
  text_of(t->data, sizeof t->data, s->last.line, "data");
  text_of(t->isa, sizeof t->isa, s->last.line, "isa");
  t->batch = atoll(value_of(s->last.line, "batch"));
  t->shards = atoll(value_of(s->last.line, "shards"));
  const double steps = ceil(seconds * s->last.rate / (double)t->batch);
  t->steps = steps < 10 ? 10 : (long long)steps;
  return CLI_OK;
}

static int measure(sweep *s, int index, int round) {
  bench_ranks_table *t = s->table;
  const bench_ranks_row *row = &t->row[index];
  char digest[HD_SHA256_TEXT_BYTES];
  int code = train(s, row->ranks, row->threads, t->steps);
  if (code != CLI_OK)
    return code;
  s->rate[index][round] = s->last.rate;
  s->startup_s[index][round] = s->last.startup_s;
  text_of(digest, sizeof digest, s->last.line, "weights_sha256");
  if (!t->digest[0])
    memcpy(t->digest, digest, sizeof digest);
  if (!strcmp(t->digest, digest))
    return CLI_OK;
  cli_complain("%d ranks of %d threads: expected the weights %s of the other settings, found %s", row->ranks,
               row->threads, t->digest, digest);
  return CLI_FAILED;
}

/* One round forwards, one backwards, so that drift cancels. */
static int measure_all(sweep *s) {
  bench_ranks_table *t = s->table;
  int code = CLI_OK;
  for (int round = 0; round < t->rounds && code == CLI_OK; round++)
    for (int i = 0; i < t->rows && code == CLI_OK; i++)
      code = measure(s, round % 2 ? t->rows - 1 - i : i, round);
  return code;
}

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Returns the median and the quartiles; sorts the values. */
static double median(double *low, double *high, double *value, int count) {
  qsort(value, (size_t)count, sizeof *value, ascending);
  *low = value[count / 4];
  *high = value[count - 1 - count / 4];
  return (value[(count - 1) / 2] + value[count / 2]) / 2;
}

static void conclude(sweep *s) {
  bench_ranks_table *t = s->table;
  double ratio[BENCH_RANKS_ROUNDS];
  int alone = 0;
  for (int i = 0; i < t->rows; i++) { /* ratios first: sorting loses the rounds */
    bench_ranks_row *row = &t->row[i];
    alone = row->ranks == 1 ? i : alone;
    for (int r = 0; r < t->rounds; r++)
      ratio[r] = s->rate[i][r] / s->rate[alone][r];
    row->ratio = median(&row->ratio_low, &row->ratio_high, ratio, t->rounds);
  }
  for (int i = 0; i < t->rows; i++) {
    bench_ranks_row *row = &t->row[i];
    double fastest, slowest;
    row->rate = median(&row->low, &row->high, s->rate[i], t->rounds);
    row->startup_s = median(&fastest, &slowest, s->startup_s[i], t->rounds);
  }
}

/* ---- Results ---- */

/* Columns of the whole table; a narrower screen has no column of cores, and shorter ranges. */
enum { WIDE = 95, RATE = 25, RATIO = 22, NARROW_RATE = 21, NARROW_RATIO = 19, RANGE_BYTES = 64, RATIO_BYTES = 96 };

/* "(35,761 to 43,665)", or "35,761-43,665" on a narrow screen. */
static const char *range_text(char text[RANGE_BYTES], const char *low, const char *high, bool narrow) {
  snprintf(text, RANGE_BYTES, narrow ? "%s-%s" : "(%s to %s)", low, high);
  return text;
}

static const char *ratio_text(char text[RATIO_BYTES], const bench_ranks_row *row, bool narrow) {
  char range[RANGE_BYTES], low[16], high[16];
  *text = 0;
  if (row->ranks == 1)
    return text;
  snprintf(low, sizeof low, "%.3f", row->ratio_low);
  snprintf(high, sizeof high, "%.3f", row->ratio_high);
  snprintf(text, RATIO_BYTES, "%5.3f %s", row->ratio, range_text(range, low, high, narrow));
  return text;
}

static void print_row(const bench_ranks_row *row, bool narrow) {
  char range[RANGE_BYTES], ratio[RATIO_BYTES];
  if (!narrow)
    cli_print("%5d  ", row->cores);
  cli_print("%5d x %-7d  %*s  ", row->ranks, row->threads, narrow ? 9 : 12, cli_grouped(llround(row->rate)));
  range_text(range, cli_grouped(llround(row->low)), cli_grouped(llround(row->high)), narrow);
  cli_print("%-*s  %-*s  %*.3f\n", narrow ? NARROW_RATE : RATE, range, narrow ? NARROW_RATIO : RATIO,
            ratio_text(ratio, row, narrow), narrow ? 6 : 7, row->startup_s);
}

static void print_text(const bench_ranks_table *t) {
  const bool narrow = cli_columns() > 0 && cli_columns() < WIDE;
  cli_print("%s, %s: %s on %s, batch %lld in %lld shards, %lld steps; medians of %s (their middle half)\n\n",
            t->cpu, t->isa, t->model, t->data, t->batch, t->shards, t->steps, cli_counted(t->rounds, "round"));
  cli_print(narrow
                ? "ranks x threads  samples/s  (middle half)          against threads    start s\n"
                : "cores  ranks x threads     samples/s  (middle half)              against threads     start-up s\n");
  for (int i = 0; i < t->rows; i++)
    print_row(&t->row[i], narrow);
  cli_print("\nweights_sha256  \t%s of all %s\n", t->digest, cli_counted(t->rows * t->rounds, "run"));
}

static void print_json(const bench_ranks_table *t) {
  cli_json("{'cpu': %s, 'isa': %s, 'model': %s, 'data': %s, 'batch': %lld, 'shards': %lld, 'steps': %lld, "
           "'rounds': %d, 'settings': [",
           t->cpu, t->isa, t->model, t->data, t->batch, t->shards, t->steps, t->rounds);
  for (int i = 0; i < t->rows; i++) {
    const bench_ranks_row *row = &t->row[i];
    cli_json("%c{'cores': %d, 'ranks': %d, 'threads': %d, 'samples_per_s': %.1f, 'low': %.1f, 'high': %.1f, ", i,
             row->cores, row->ranks, row->threads, row->rate, row->low, row->high);
    cli_json("'ratio': %.4f, 'ratio_low': %.4f, 'ratio_high': %.4f, 'startup_s': %.4f}", row->ratio, row->ratio_low,
             row->ratio_high, row->startup_s);
  }
  cli_json("], 'weights_sha256': %s}\n", t->digest);
}

/* ---- The command ---- */

/* The cores that a run here would use, and the CPU's name. */
static int look_at_machine(bench_ranks_table *t, int *cores, hd_ctx *ctx, const hd_config *config) {
  hd_topology *machine = NULL;
  hd_placement *place = NULL;
  CLI_TRY(hd_topology_create(&machine, ctx));
  const hd_status status = hd_config_place(&place, ctx, config, machine);
  if (status == HD_OK) {
    *cores = place->threads;
    snprintf(t->cpu, sizeof t->cpu, "%s", machine->model);
  }
  hd_placement_destroy(place);
  hd_topology_destroy(machine);
  return status;
}

static int run_sweep(sweep *s, int cores) {
  bench_ranks_table *t = s->table;
  s->rate = calloc((size_t)t->rows, sizeof *s->rate);
  s->startup_s = calloc((size_t)t->rows, sizeof *s->startup_s);
  if (!s->rate || !s->startup_s)
    return HD_E_NOMEM;
  hd__program_path(s->self, sizeof s->self);
  bench_catch_signals();
  CLI_TRY(bench_folder(s->folder, sizeof s->folder, "ranks", "runs"));
  int code = begin(s, cores, bench_asked.ranks_seconds);
  if (code == CLI_OK)
    code = measure_all(s);
  remove_all(s->folder);
  return bench_end(code);
}

int bench_ranks(hd_ctx *ctx, hd_config *config, int count, char **operand) {
  static bench_ranks_table table;
  static sweep s = {.table = &table};
  int cores = 1;
  CLI_TRY(look_at_machine(&table, &cores, ctx, config));
  table.rounds = bench_asked.rounds;
  list_rows(&table, cores);
  s.config = config;
  int code = run_sweep(&s, cores);
  if (code == CLI_OK) {
    conclude(&s);
    (cli_wants_json(config) ? print_json : print_text)(&table);
    code = cli_save_svg(bench_asked.svg, bench_ranks_draw, &table);
  }
  free(s.rate);
  free(s.startup_s);
  return code;
}
