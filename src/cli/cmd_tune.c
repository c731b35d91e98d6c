/* heddle tune: the thread-count experiment, as a table, JSON, CSV and a page. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/tune_page.h"

static struct {
  double seconds;
  uint32_t sweep;
  const char *html, *csv;
} asked = {.seconds = 15};

static int refuse_sweep(const char *value) {
  cli_complain("--sweep expects threads, placement, workers, or several with commas, found '%s'; write --sweep "
               "threads,workers, for example",
               value);
  return CLI_USAGE;
}

static int take_sweep(const cli_extra *option, const char *value) {
  asked.sweep = 0;
  for (const char *at = value, *comma; at; at = comma ? comma + 1 : NULL) {
    char name[16];
    comma = strchr(at, ',');
    snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ","), at);
    if (!strcmp(name, "threads"))
      asked.sweep |= HD_TUNE_THREADS;
    else if (!strcmp(name, "placement"))
      asked.sweep |= HD_TUNE_PLACEMENT;
    else if (!strcmp(name, "workers"))
      asked.sweep |= HD_TUNE_WORKERS;
    else
      return refuse_sweep(value);
  }
  return 0;
}

static int show_progress(void *user, double done, double seconds) {
  fprintf(stderr, "\rtune %3.0f of %.0f s", fmin(done, seconds), seconds);
  return 0;
}

/* Columns of a row without placement and workers. */
enum { ROW_COLUMNS = 71, WORKERS_COLUMNS = 9 };

/* A setting's placement; with the names of equal policies, if these differ between rows. */
static const char *row_places(char *text, size_t bytes, const hd_tune *t, const hd_tune_setting *s) {
  snprintf(text, bytes, "%s", tune_placement(s));
  return tune_look(t).same_everywhere ? text : tune_places(text, bytes, s, " = ");
}

static int places_width(const hd_tune *t) {
  char place[64];
  int width = (int)strlen("placement");
  for (int i = 0; i < t->count; i++) {
    const int length = (int)strlen(row_places(place, sizeof place, t, &t->settings[i]));
    width = length > width ? length : width;
  }
  return width;
}

/* narrow: no room for the names of equal policies. */
static void print_row(const hd_tune *t, int index, int width, int narrow) {
  const hd_tune_setting *s = &t->settings[index];
  char place[64];
  cli_print("%7d  ", s->threads);
  if (tune_look(t).has_workers)
    cli_print("%7d  ", s->workers);
  cli_print("%-*s  %9s  %9s", width, narrow ? tune_placement(s) : row_places(place, sizeof place, t, s),
            cli_grouped((long long)(s->samples_per_s + 0.5)), cli_grouped((long long)(s->low + 0.5)));
  cli_print(" - %-9s  %8.2f  %8.0f %%%s\n", cli_grouped((long long)(s->high + 0.5)), s->speedup, 100 * s->efficiency,
            index == t->best ? "  best" : "");
}

static void print_rows(const hd_tune *t) {
  char place[64];
  const int columns = cli_columns();
  const tune_facts f = tune_look(t);
  int width = places_width(t);
  const int narrow = columns > 0 && ROW_COLUMNS + (f.has_workers ? WORKERS_COLUMNS : 0) + width > columns;
  if (narrow)
    width = (int)strlen("placement");
  cli_print("threads  %s%-*s  samples/s  95 %% interval          speed-up  efficiency\n",
            f.has_workers ? "workers  " : "", width, "placement");
  for (int i = 0; i < t->count; i++)
    print_row(t, i, width, narrow);
  if (f.same_everywhere)
    cli_print("\nplacement       \t%s give the same CPUs here: measured once\n",
              tune_places(place, sizeof place, &t->settings[0], ", "));
  else if (narrow)
    cli_print("\n");
  for (int i = 0; narrow && !f.same_everywhere && i < t->count; i++)
    if (t->settings[i].same)
      cli_print("%-7d         \t%s\n", t->settings[i].threads,
                tune_places(place, sizeof place, &t->settings[i], " = "));
}

static void print_table(const hd_tune *t) {
  cli_print("%s on %s, batch %lld, %s, %s of %s\n\n", t->model, t->data, (long long)t->batch, t->isa,
            cli_counted(t->cpus, "CPU"), t->cpu);
  print_rows(t);
  char text[TUNE_LAW_BYTES];
  cli_print("\nAmdahl          \t%s\n", tune_amdahl(text, t));
  cli_print("scalability     \tcontention %.4f, coherence %.6f: %s\n", t->contention, t->coherence,
            tune_limit(text, t));
  if (t->busy)
    cli_print("not saved       \tother processes kept %.1f CPUs busy meanwhile; measure again on an idle machine\n",
              t->load);
  cli_print("weights_sha256  \t%s after %lld steps, at every setting\n", t->weights_sha256, (long long)t->proof_steps);
}

static void json_setting(int index, const hd_tune_setting *s) {
  cli_json("%c{'threads': %d, 'workers': %d, 'placement': %s, 'same': [", index, s->threads, s->workers,
           tune_placement(s));
  for (int p = 0, found = 0; s->same >> p; p++)
    if (s->same >> p & 1)
      cli_json("%c%s", found++, hd_choice_name(HD_OPT_PLACEMENT, p));
  cli_json("], 'turns': %d, 'samples_per_s': %.1f, 'low': %.1f, 'high': %.1f, 'speedup': %.4f, 'efficiency': %.4f}",
           s->turns, s->samples_per_s, s->low, s->high, s->speedup, s->efficiency);
}

static void print_json(const hd_tune *t) {
  const hd_tune_setting *best = &t->settings[t->best];
  cli_json("{'model': %s, 'data': %s, 'isa': %s, 'batch': %lld, 'cpus': %d, 'cpu': %s, 'settings': [", t->model,
           t->data, t->isa, (long long)t->batch, t->cpus, t->cpu);
  for (int i = 0; i < t->count; i++)
    json_setting(i, &t->settings[i]);
  cli_json("], 'best': {'threads': %d, 'workers': %d, 'placement': %s, 'samples_per_s': %.1f}, ", best->threads,
           best->workers, tune_placement(best), best->samples_per_s);
  cli_json("'law': {'amdahl': %.6g, 'contention': %.6g, 'coherence': %.6g, 'best': %g}, 'steps': %lld, ", t->amdahl,
           t->contention, t->coherence, t->predicted_best, (long long)t->proof_steps);
  cli_json("'load': %.2f, 'busy': ", t->load);
  printf("%s", t->busy ? "true" : "false");
  cli_json(", 'weights_sha256': %s}\n", t->weights_sha256);
}

/* Before the experiment, so that an unwritable file is an error at the start. */
static int check_file(const char *path) {
  const int error = path ? cli_can_save(path) : 0;
  if (error)
    cli_complain("cannot write %s: %s; name a file in a folder that exists and can be written", path, strerror(error));
  return error ? CLI_FAILED : CLI_OK;
}

static void draw_page(FILE *to, const void *tune) { tune_write_page(to, tune); }

static void draw_csv(FILE *to, const void *tune) { tune_write_csv(to, tune); }

static int save_file(const char *path, void (*draw)(FILE *to, const void *tune), const hd_tune *tune) {
  const int error = path ? cli_save(path, true, draw, tune) : 0;
  if (error)
    cli_complain("cannot write %s: %s; free some space", path, strerror(error));
  return error ? CLI_FAILED : CLI_OK;
}

static int run(hd_ctx *ctx, hd_config *config, int count, char **operand) {
  static hd_tune tune = {.struct_bytes = sizeof tune};
  const int terminal = isatty(STDERR_FILENO);
  const hd_tune_request wanted = {.struct_bytes = sizeof wanted,
                                  .seconds = asked.seconds,
                                  .sweep = asked.sweep,
                                  .progress = terminal ? show_progress : NULL};
  CLI_TRY(check_file(asked.html));
  CLI_TRY(check_file(asked.csv));
  const hd_status status = hd_tune_run(&tune, ctx, config, &wanted);
  if (terminal)
    fprintf(stderr, "\r%24s\r", "");
  CLI_TRY(status);
  (cli_wants_json(config) ? print_json : print_table)(&tune);
  CLI_TRY(save_file(asked.html, draw_page, &tune));
  return save_file(asked.csv, draw_csv, &tune);
}

static const cli_extra extra[] = {
    {"seconds", "S", "seconds to measure (default 15)", cli_take_real, &asked.seconds, .least = 0.1, .most = 86400},
    {"html", "FILE", "write a page with charts", cli_take_text, .self = &asked.html},
    {"csv", "FILE", "write all measurements as a table", cli_take_text, .self = &asked.csv},
    {"sweep", "LIST",
     "vary these, separated by commas: threads, placement, workers (default threads,placement; with --cpus or "
     "--placement: threads)",
     .take = take_sweep},
    {0}};

const cli_command cli_tune = {
    .name = "tune",
    .help = "how many threads are best for a model on this machine",
    .usage = "heddle tune [options of train]: how many threads are best for this model on this machine, and where?",
    .extra = extra,
    .run = run};
