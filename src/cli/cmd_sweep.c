/* heddle sweep: many runs side by side, their progress, and the tables. Under mpirun each process is a worker of its
 * own, and rank 0 alone prints. */
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/machine_text.h"
#include "cli/sweep_page.h"

enum { SHOWN = 20, BAR = 24, PATH_BYTES = 4096 };

enum { NUMBERS = 51 /* columns behind the settings of a row of the summary */ };

static struct {
  int draws, halving, folds, jobs;
  const char *metric;
} asked;

static _Atomic(hd_sweep *) running;
static atomic_int caught;

/* A second signal ends the process at once. */
static void on_signal(int number) {
  if (caught) {
    signal(number, SIG_DFL);
    raise(number);
    return;
  }
  caught = number;
  hd_sweep_stop(running);
}

static void catch_signals(hd_sweep *sweep) {
  running = sweep;
  cli_catch_signals(on_signal);
}

/* ---- Progress ---- */

typedef struct progress {
  hd_sweep *sweep;
  int terminal, quiet;
  double began_s;
  int64_t trained;
} progress;

/* "lr 0.01, seed 3" */
static const char *values_of(char text[512], const hd_sweep *s, int64_t run, bool with_repeats) {
  const hd_sweep_report *r = hd_sweep_result(s);
  size_t at = 0;
  *text = 0;
  for (int k = 0; k < r->keys && at < 512; k++)
    if (with_repeats || !hd_sweep_repeats(r->key[k]))
      at += (size_t)snprintf(text + at, 512 - at, "%s%s %s", at ? ", " : "", hd_option_at((int)r->key[k])->name,
                             hd_sweep_value(s, run, k));
  return text;
}

static void draw_progress(const progress *p, const hd_sweep_event *event) {
  char bar[BAR + 1], left[LOOK_TIME_BYTES], line[256];
  int at;
  memset(bar, '.', BAR);
  memset(bar, '#', (size_t)(BAR * event->ended / event->trainings));
  bar[BAR] = 0;
  at = snprintf(line, sizeof line, "[%s] %s of %s", bar, cli_grouped(event->ended),
                cli_grouped_of(event->trainings, "run"));
  if (p->trained > 0)
    at += snprintf(
        line + at, sizeof line - (size_t)at, ", %s left",
        look_time(left, (cli_now_s() - p->began_s) / (double)p->trained * (double)(event->trainings - event->ended)));
  if (event->best >= 0)
    snprintf(line + at, sizeof line - (size_t)at, ", best %s %.4f (%s)", hd_sweep_result(p->sweep)->metric,
             event->best_metric, sweep_name(event->best));
  cli_draw_line(line);
}

static void print_wait(const progress *p, const hd_sweep_event *event) {
  if (p->quiet)
    return;
  if (p->terminal)
    cli_clear_line();
  cli_print("%s: \t%s\n", event->run < 0 ? "sweep" : sweep_name(event->run), event->text);
  fflush(stdout);
}

static void on_event(void *user, const hd_sweep_event *event) {
  progress *p = user;
  char text[512];
  if (event->text) {
    print_wait(p, event);
    return;
  }
  p->trained += event->trained;
  if (p->quiet)
    return;
  if (p->terminal) {
    draw_progress(p, event);
  } else if (event->trained) {
    cli_print("%s: \t%s: %s", sweep_name(event->run), values_of(text, p->sweep, event->run, true),
              hd_sweep_state_name(event->state));
    if (!isnan(event->metric))
      cli_print(", %s %.6g", hd_sweep_result(p->sweep)->metric, event->metric);
    cli_print(" (%s of %s)\n", cli_grouped(event->ended), cli_grouped(event->trainings));
  }
  fflush(stdout);
}

/* ---- The end ---- */

/* The settings of a group; where each has a single run that is done, all of that run's: such runs and groups go by the
 * same numbers. */
static const char *settings_of(char text[512], const hd_sweep *s, int64_t group) {
  const hd_sweep_report *r = hd_sweep_result(s);
  const bool single = r->groups == r->done;
  return values_of(text, s, single ? r->order[group] : r->group[group].first, single);
}

static void print_summary(const hd_sweep *s) {
  const hd_sweep_report *r = hd_sweep_result(s);
  char text[512];
  int width = 8;
  cli_print("%s of %s done%s%s, %s; best first\n\n", cli_grouped(r->done), cli_grouped_of(r->runs, "run"),
            r->failed ? ", failed: " : "", r->failed ? cli_grouped(r->failed) : "", r->metric);
  for (int64_t g = 0; g < r->groups && g < SHOWN; g++) {
    const int needed = cli_width(settings_of(text, s, g));
    width = needed > width ? needed : width;
  }
  if (cli_columns() > 0 && width > cli_columns() - NUMBERS)
    width = cli_columns() > NUMBERS + 8 ? cli_columns() - NUMBERS : 8;
  cli_print("%-*s  %5s  %10s  %9s  95 %% interval\n", width, "settings", "n", "mean", "deviation");
  for (int64_t g = 0; g < r->groups && g < SHOWN; g++) {
    const hd_sweep_group *is = &r->group[g];
    const bool has_room = cli_width(settings_of(text, s, g)) <= width;
    if (!has_room) /* a line of its own */
      cli_print("%s\n", text);
    cli_print("%-*s  %5lld  %10.6g", width, has_room ? text : "", (long long)is->n, is->mean);
    if (is->n > 1)
      cli_print("  %9.3g  %.4g to %.4g", is->deviation, is->low, is->high);
    cli_print("\n");
  }
  if (r->groups > SHOWN)
    cli_print("and %s more in %s/summary.csv\n", cli_grouped(r->groups - SHOWN), r->folder);
  cli_print("\ntable           \t%s/table.csv\n", r->folder);
  cli_print("page            \t%s/sweep.html\n", r->folder);
  cli_print("table_sha256    \t%s\n", r->table_sha256);
}

static void print_json(const hd_sweep *s) {
  const hd_sweep_report *r = hd_sweep_result(s);
  cli_json("{'runs': %lld, 'done': %lld, 'failed': %lld, 'metric': %s, 'groups': [", (long long)r->runs,
           (long long)r->done, (long long)r->failed, r->metric);
  for (int64_t g = 0; g < r->groups; g++) {
    const hd_sweep_group *is = &r->group[g];
    cli_json("%c{'settings': {", (int)(g > 0));
    for (int k = 0, shown = 0; k < r->keys; k++)
      if (!hd_sweep_repeats(r->key[k]))
        cli_json("%c%s: %s", shown++, hd_option_at((int)r->key[k])->name, hd_sweep_value(s, is->first, k));
    cli_json("}, 'n': %lld, 'mean': %g, 'deviation': %g, 'low': %g, 'high': %g}", (long long)is->n, is->mean,
             is->deviation, is->low, is->high);
  }
  cli_json("], 'out': %s, 'table_sha256': %s}\n", r->folder, r->table_sha256);
}

static int write_page(const hd_sweep *s) {
  char path[PATH_BYTES];
  snprintf(path, sizeof path, "%s/sweep.html", hd_sweep_result(s)->folder);
  const int error = cli_save(path, true, sweep_write_page, s);
  if (error)
    cli_complain("cannot write %s: %s; free some space", path, strerror(error));
  return error ? CLI_FAILED : CLI_OK;
}

static int finish(const progress *p, hd_ctx *ctx, hd_status status, bool json) {
  const hd_sweep_report *r = hd_sweep_result(p->sweep);
  if (p->terminal)
    cli_clear_line();
  if (status == HD_E_INTERRUPTED) {
    cli_complain("%s, saved in %s; continue with: heddle sweep --out %s", hd_ctx_message(ctx), r->folder, r->folder);
    return caught ? 128 + caught : CLI_FAILED;
  }
  if (status != HD_OK)
    return cli_report(ctx, status);
  if (!p->quiet) {
    CLI_TRY(write_page(p->sweep));
    print_summary(p->sweep);
    if (json)
      print_json(p->sweep);
  }
  if (r->failed && !p->quiet)
    cli_complain("%lld of %lld runs failed; see the reasons in %s/table.csv", (long long)r->failed, (long long)r->runs,
                 r->folder);
  return r->failed ? CLI_FAILED : CLI_OK;
}

static int run(hd_ctx *ctx, hd_config *config, int count, char **operand) {
  int32_t rank, ranks;
  hd_launched(&rank, &ranks);
  progress p = {.terminal = rank == 0 && cli_is_terminal(), .quiet = rank > 0};
  const char **vary = calloc((size_t)count + 1, sizeof *vary);
  for (int i = 0; vary && i < count; i++)
    vary[i] = operand[i];
  const hd_sweep_request request = {.struct_bytes = sizeof request,
                                    .folder = hd_config_get(config, "out"),
                                    .vary = vary,
                                    .draws = asked.draws,
                                    .halving = asked.halving,
                                    .metric = asked.metric,
                                    .jobs = asked.jobs,
                                    .folds = asked.folds,
                                    .on_event = on_event,
                                    .user = &p};
  hd_status status = vary ? hd_sweep_create(&p.sweep, ctx, config, &request) : HD_E_NOMEM;
  free(vary);
  CLI_TRY(status);
  catch_signals(p.sweep);
  if (!p.quiet)
    cli_print("sweep: %s in %s, %s\n", cli_grouped_of(hd_sweep_result(p.sweep)->runs, "run"),
              hd_sweep_result(p.sweep)->folder, cli_counted(hd_sweep_result(p.sweep)->jobs, "job"));
  fflush(stdout);
  p.began_s = cli_now_s();
  status = hd_sweep_run(p.sweep, ctx);
  const int code = finish(&p, ctx, status, cli_wants_json(config));
  for (int s = 0; s < 3; s++)
    signal((const int[]){SIGINT, SIGTERM, SIGHUP}[s], SIG_IGN); /* the sweep ends with the process */
  hd_sweep_destroy(p.sweep);
  return code;
}

static int take_jobs(const cli_extra *option, const char *value) {
  return strcmp(value, "auto") ? cli_take_whole(option, value) : CLI_OK;
}

static const cli_extra extra[] = {
    {"jobs", "N|auto",
     "runs at the same time, each on one thread unless --threads says more (default: one for each CPU, as far as "
     "memory allows)",
     take_jobs, .self = &asked.jobs, .least = 1, .most = HD_MAX_THREADS},
    {"draws", "N", "random search: draw keys such as lr=log(1e-4,1e-1) N times (default: a grid)", cli_take_whole,
     .self = &asked.draws, .least = 1, .most = 100000},
    {"folds", "N",
     "cross-validation: train each run N times, each time testing on another part of the training set (default: off)",
     cli_take_whole, .self = &asked.folds, .least = 2, .most = 10000},
    {"halving", "K",
     "successive halving: start all runs with few steps, continue the best 1/K with K "
     "times as many, and so on (default: off)",
     cli_take_whole, .self = &asked.halving, .least = 2, .most = 100000},
    {"rank-by", "NAME",
     "rank runs by this: test_accuracy, test_loss, val_accuracy, val_loss, train_loss "
     "(default test_accuracy, without classes: test_loss)",
     cli_take_text, .self = &asked.metric},
    {0}};

const cli_command cli_sweep = {
    .name = "sweep",
    .help = "many runs side by side: grids, seeds, folds, random draws, successive halving",
    .usage = "heddle sweep FILE.yaml|KEY=VALUES... --out DIR [options of train]: trains a run for each combination of "
             "values, a,b,c or 0..9 or, with --draws, log(a,b) or uniform(a,b)",
    .extra = extra,
    .operands = CLI_ANY,
    .run = run};
