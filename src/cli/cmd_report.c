/* heddle report: runs as a page, and its figures as files. With --follow the page is written again whenever a run's
 * files change, until no run continues. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/page.h"
#include "cli/report.h"
#include "cli/svg.h"
#include "platform/file_watch.h"

enum { REFRESH_S = 2, STATE_MS = 1000, APART_MS = 300 };

static struct {
  const char *output, *svg;
  int follow;
} asked;

static volatile sig_atomic_t caught;

/* ---- The runs ---- */

__attribute__((format(printf, 2, 3))) static void note(report *r, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  if (r->notes < REPORT_NOTES)
    vsnprintf(r->note[r->notes++], sizeof r->note[0], fmt, args);
  va_end(args);
}

enum { MOST_DAMAGED = 4 }; /* of a folder, noted each */

/* Adds the run in a folder, or else all runs in the folders inside it; damaged ones are noted. */
static int take_folder(report *r, const char *folder) {
  hd_runs *list;
  char path[4096];
  snprintf(path, sizeof path, "%s", folder);
  for (size_t length = strlen(path); length > 1 && path[length - 1] == '/'; length--)
    path[length - 1] = 0;
  CLI_TRY(hd_runs_open(&list, r->ctx, path));
  const int64_t count = hd_runs_count(list);
  int alone = 0;
  for (int64_t i = 0; i < count; i++)
    alone |= !strcmp(hd_runs_value(list, i, "run"), path);
  for (int64_t i = 0; i < count && r->runs < REPORT_RUNS; i++)
    if (!alone || !strcmp(hd_runs_value(list, i, "run"), path))
      r->run[r->runs++] = (report_run){.list = list, .index = i, .owns = alone || i == 0};
  int64_t damaged = 0;
  for (; count > 0 && !alone && hd_runs_damage(list, damaged); damaged++)
    if (damaged < MOST_DAMAGED)
      note(r, "left out: %s", hd_runs_damage(list, damaged));
  if (damaged > MOST_DAMAGED)
    note(r, "%lld more damaged runs in %s are left out", (long long)(damaged - MOST_DAMAGED), path);
  if (count > 0 && r->runs < REPORT_RUNS)
    return CLI_OK;
  if (count == 0) {
    if (hd_runs_damage(list, 0))
      cli_complain("%s", hd_runs_damage(list, 0));
    else
      cli_complain("%s: expected a run, found no run.json; give the folder of a run", folder);
    hd_runs_close(list);
  } else {
    cli_complain("expected fewer than %d runs, found more in %s; name those to compare", REPORT_RUNS, folder);
  }
  return CLI_FAILED;
}

static void note_run(report *r, int run) {
  hd_run_numbers loss = {.struct_bytes = sizeof loss};
  const char *name = r->runs > 1 ? report_name(r, run) : "the run", *state = report_value(r, run, "state");
  const double bad = report_number(r, run, "unreadable_lines");
  if (strcmp(state, "done") != 0)
    note(r, "%s is %s: the page shows what its files say so far", name, state);
  if (bad > 0)
    note(r,
         "%s: expected an object with a step in each line of metrics.jsonl, found %.0f other lines; they are left out",
         name, bad);
  if (hd_runs_numbers(&loss, r->run[run].list, r->ctx, r->run[run].index, "loss") != HD_OK)
    note(r, "%s; its contents are left out", hd_ctx_message(r->ctx));
  else if (loss.missing > 0)
    note(r,
         "%s: expected the loss of each step in losses.bin, found none of %lld steps; the curve shows the logged ones "
         "only",
         name, (long long)loss.missing);
}

/* Notes that readers of a comparison need. */
static void note_comparison(report *r) {
  int shared = 0;
  for (int k = 0; hd_option_at(k); k++)
    shared += hd_option_at(k)->kind == HD_OPTION_EXPERIMENT && !report_differs(r, hd_option_at(k)->name) &&
              *report_value(r, 0, hd_option_at(k)->name);
  if (shared == 0)
    note(r, "the runs have no settings in common; compare them with care");
  if (report_differs(r, "data.name") || report_differs(r, "data.test_samples"))
    note(r, "the runs were trained on different data; their results cannot be compared");
}

int report_open(report *r, hd_ctx *ctx, int count, const char *const *folder) {
  *r = (report){.ctx = ctx};
  for (int i = 0; i < count; i++)
    CLI_TRY(take_folder(r, folder[i]));
  for (int i = 0; i < r->runs; i++)
    note_run(r, i);
  if (r->runs > 1)
    note_comparison(r);
  report_draw(r);
  return CLI_OK;
}

void report_close(report *r) {
  for (int i = 0; i < r->runs; i++)
    if (r->run[i].owns)
      hd_runs_close(r->run[i].list);
  for (int i = 0; i < r->figures; i++)
    free(r->figure[i].text);
  r->runs = r->figures = 0;
}

/* ---- Files ---- */

typedef struct page_request {
  const report *report;
  int refresh_s;
} page_request;

static void draw_page(FILE *to, const void *what) {
  const page_request *p = what;
  report_write(to, p->report, p->refresh_s);
}

static void draw_figure(FILE *to, const void *what) {
  const report_figure *f = what;
  svg_open(to, f->width, f->height, page_file("figure.css"));
  fwrite(f->text, 1, f->length, to);
  svg_close(to);
}

int report_save(char path[4096], hd_ctx *ctx, const char *folder) {
  static report r;
  snprintf(path, 4096, "%s/report.html", folder);
  int code = report_open(&r, ctx, 1, &folder);
  const int error = code == CLI_OK ? cli_save(path, false, draw_page, &(page_request){&r, 0}) : 0;
  if (error) {
    cli_complain("warning: cannot write %s: %s; heddle report can write it later", path, strerror(error));
    code = CLI_FAILED;
  }
  report_close(&r);
  return code;
}

static int save_figures(const report *r) {
  char path[4096];
  if (asked.svg && mkdir(asked.svg, 0777) != 0 && errno != EEXIST) {
    cli_complain("--svg expects a folder that can be written, found %s: %s; choose another one", asked.svg,
                 strerror(errno));
    return CLI_FAILED;
  }
  for (int i = 0; asked.svg && i < r->figures; i++) {
    snprintf(path, sizeof path, "%s/%s.svg", asked.svg, r->figure[i].name);
    CLI_TRY(cli_save_svg(path, draw_figure, &r->figure[i]));
  }
  return CLI_OK;
}

/* ---- Following ---- */

static void on_signal(int number) { caught = number; }

static int goes_on(const report *r) {
  int on = 0;
  for (int i = 0; i < r->runs; i++)
    on |= !strcmp(report_value(r, i, "state"), "running");
  return asked.follow && on && !caught;
}

/* Watches the files that a running process writes; a file that was replaced is a new one. */
static void watch(int fd, const report *r) {
  static const char *const file[] = {"metrics.jsonl", "history.jsonl"};
  char path[4096];
  for (int i = 0; i < 2 * r->runs; i++) {
    snprintf(path, sizeof path, "%s/%s", report_value(r, i / 2, "run"), file[i % 2]);
    hd__file_watch_add(fd, path);
  }
}

/* Waits until a file changes, a signal arrives, or no run continues: a killed run may change no file. */
static void await_change(int fd, const report *r) {
  struct pollfd wanted = {.fd = fd, .events = POLLIN};
  const struct timespec apart = {.tv_nsec = APART_MS * 1000000L};
  while (poll(&wanted, 1, STATE_MS) == 0 && goes_on(r))
    ;
  nanosleep(&apart, NULL); /* many lines at once are one change */
  hd__file_watch_clear(fd);
}

/* ---- The command ---- */

static void print(const report *r, const char *path, int json) {
  for (int i = 0; i < r->notes; i++)
    cli_complain("warning: %s", r->note[i]);
  if (!json) {
    cli_print("report          \t%s\n", path);
    for (int i = 0; asked.svg && i < r->figures; i++)
      cli_print("figure          \t%s/%s.svg\n", asked.svg, r->figure[i].name);
    return;
  }
  cli_json("{'report': %s, 'runs': [", path);
  for (int i = 0; i < r->runs; i++)
    cli_json("%c%s", i, report_value(r, i, "run"));
  cli_json("], 'figures': [");
  for (int i = 0; i < r->figures; i++)
    cli_json("%c%s", i, r->figure[i].name);
  cli_json("], 'notes': [");
  for (int i = 0; i < r->notes; i++)
    cli_json("%c%s", i, r->note[i]);
  cli_json("]}\n");
}

/* Writes the page, and again after each change while a run continues, at last from what was read when none did any
 * more; then the figures. */
static int write_all(report *r, char path[4096], hd_ctx *ctx, int count, char **folder, int fd) {
  for (int on = 1, is_last = !asked.follow; on;) {
    report_close(r);
    CLI_TRY(report_open(r, ctx, count, (const char *const *)folder));
    watch(fd, r);
    if (asked.output)
      snprintf(path, 4096, "%s", asked.output);
    else
      snprintf(path, 4096, "%s%sreport.html", r->runs == 1 ? report_value(r, 0, "run") : "", r->runs == 1 ? "/" : "");
    on = goes_on(r);
    if (!on && !is_last) { /* the end came while the files were read, or before */
      on = is_last = 1;
      continue;
    }
    const int error = cli_save(path, asked.output != NULL, draw_page, &(page_request){r, on ? REFRESH_S : 0});
    if (error) {
      cli_complain("cannot write %s: %s; choose another file with --output", path, strerror(error));
      return CLI_FAILED;
    }
    if (on)
      await_change(fd, r);
  }
  return save_figures(r);
}

static int run(hd_ctx *ctx, hd_config *config, int count, char **operand) {
  static report r;
  char path[4096];
  const int fd = asked.follow ? hd__file_watch_open() : -1;
  if (count == 0) {
    cli_complain("report expects the folder of a run, found none; see heddle report --help");
    return CLI_USAGE;
  }
  if (asked.follow)
    cli_catch_signals(on_signal);
  const int code = write_all(&r, path, ctx, count, operand, fd);
  if (code == CLI_OK)
    print(&r, path, cli_wants_json(config));
  report_close(&r);
  return code == CLI_OK && caught ? 128 + caught : code;
}

static const cli_extra extra[] = {
    {"output", "FILE", "write the page here (default RUN/report.html; of several runs: report.html)", cli_take_text,
     .self = &asked.output, .letter = 'o'},
    {"svg", "DIR", "also write each figure as an SVG file into this folder", cli_take_text, .self = &asked.svg},
    {"follow", NULL, "rewrite the page whenever a run makes progress, until all have ended", cli_take_flag,
     .self = &asked.follow},
    {0}};

const cli_command cli_report_runs = {.name = "report",
                                     .help = "show runs on a page: curves, mistakes, time, network",
                                     .usage = "heddle report RUN... [--output FILE] [--svg DIR] [--follow] [--json]: "
                                              "one page that shows a run, or compares several",
                                     .options = (const char *const[]){"json", NULL},
                                     .extra = extra,
                                     .operands = CLI_ANY,
                                     .run = run};
