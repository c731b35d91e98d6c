/* heddle top: the state of the machine and its jobs, each second: a screen on a terminal, else plain lines or JSON.
 *
 * A job is chosen by its process and that process's start, never by its place in the list. When it ends nothing is
 * chosen until the user chooses again, so a late key press ends no other job. */
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/machine_text.h"
#include "cli/terminal.h"
#include "cli/top_screen.h"
#include "heddle/evidence.h"

enum { MOST_TOLD = 64, MESSAGE_BYTES = 512 };

/* The first reading follows after a short interval, and so does --once, unless --interval is given. */
static const double SOON_S = 0.25, INTERVAL_S = 1;

static struct {
  double interval_s; /* 0: not given */
  int once;
} asked;

/* A process, identified by pid and start. */
typedef struct identity {
  int32_t pid; /* 0: none */
  uint64_t start;
} identity;

typedef struct top {
  hd_ctx *ctx;
  hd_monitor *monitor;
  const hd_look *look;
  identity chosen, doomed; /* doomed: the job to be signalled once the user confirms */
  int doom;                /* by this signal */
  identity told[MOST_TOLD];
  int told_count; /* of jobs that got SIGTERM */
  int help, colour, json;
  char message[MESSAGE_BYTES];
  hd_runs *run[TOP_CURVES]; /* the chosen job's, one for each curve */
  top_curve curve[TOP_CURVES];
  double curves_s; /* when they are read next */
} top;

__attribute__((format(printf, 2, 3))) static void set_message(top *t, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  vsnprintf(t->message, sizeof t->message, fmt, args);
  va_end(args);
}

/* ---- Which job ---- */

static identity of(const hd_job *job) { return (identity){job->pid, job->start}; }

static int same(identity a, identity b) { return a.pid == b.pid && a.start == b.start; }

/* Its index in the list, -1: not found. */
static int find(const top *t, identity job) {
  for (int i = 0; i < t->look->jobs && job.pid; i++)
    if (same(of(&t->look->job[i]), job))
      return i;
  return -1;
}

/* Updates the choice after a look: a job that ended is no longer chosen; the first job is if there were none before. */
static void follow(top *t, int jobs_before) {
  if (t->chosen.pid && find(t, t->chosen) < 0) {
    set_message(t, "job %d has ended", t->chosen.pid);
    t->chosen = (identity){0};
    memset(t->curve, 0, sizeof t->curve);
  }
  if (!t->chosen.pid && jobs_before == 0 && t->look->jobs > 0)
    t->chosen = of(&t->look->job[0]);
}

static void choose(top *t, int by) {
  const int at = find(t, t->chosen), jobs = t->look->jobs;
  int next = at < 0 ? (by > 0 ? 0 : jobs - 1) : at + by;
  if (jobs == 0)
    return;
  next = next < 0 ? 0 : next >= jobs ? jobs - 1 : next;
  t->chosen = of(&t->look->job[next]);
  memset(t->curve, 0, sizeof t->curve); /* the next reading has the curves of this job */
  t->curves_s = 0;
}

/* ---- Ending it ---- */

static void end_job(top *t, identity job, int number) {
  const int at = find(t, job);
  if (at < 0)
    set_message(t, "job %d has ended", job.pid);
  else if (hd_job_signal(t->ctx, &t->look->job[at], number) != HD_OK)
    set_message(t, "%s", hd_ctx_message(t->ctx));
  else
    set_message(t, number == SIGTERM ? "told job %d to end: it finishes its step and saves" : "killed job %d", job.pid);
}

/* A second SIGTERM would end it before it has saved. */
static int was_told(const top *t, identity job) {
  for (int i = 0; i < t->told_count && i < MOST_TOLD; i++)
    if (same(t->told[i], job))
      return 1;
  return 0;
}

static void ask(top *t, int number) {
  if (number == SIGTERM && was_told(t, t->chosen)) {
    set_message(t, "job %d was already told to end: it finishes its step and saves; K kills it", t->chosen.pid);
    return;
  }
  t->doomed = t->chosen;
  t->doom = number;
  set_message(t,
              number == SIGTERM ? "end job %d? It will finish its step and save. y: yes, any other key: no"
                                : "kill job %d at once? Unsaved work is lost. y: yes, any other key: no",
              t->doomed.pid);
}

static void end_doomed(top *t) {
  if (t->doom == SIGTERM)
    t->told[t->told_count++ % MOST_TOLD] = t->doomed;
  end_job(t, t->doomed, t->doom);
}

/* ---- Keys ---- */

/* 0: quit. */
static int take_key(top *t, int key) {
  t->message[0] = 0;
  if (t->doomed.pid) {
    if (key == 'y' || key == 'Y')
      end_doomed(t);
    t->doomed = (identity){0};
    return 1;
  }
  if (t->help && key != 'q') {
    t->help = 0; /* the jobs are hidden: keys do not apply to them */
    return 1;
  }
  if ((key == 't' || key == 'K') && !t->chosen.pid) {
    set_message(t, t->look->jobs ? "choose a job first, with the up and down keys" : "no heddle job is running");
    return 1;
  }
  switch (key) {
  case TERMINAL_UP: choose(t, -1); break;
  case TERMINAL_DOWN: choose(t, 1); break;
  case '?':
  case 'h': t->help = 1; break;
  case 't': ask(t, SIGTERM); break;
  case 'K': ask(t, SIGKILL); break;
  case 'q': return 0;
  default: break;
  }
  return 1;
}

/* ---- The screen ---- */

/* Reads what the chosen job has written, if this user may; seldom where that takes long. */
static void read_curves(top *t) {
  static const char *const key[TOP_CURVES] = {"loss", "test_accuracy"}, *const name[TOP_CURVES] = {"loss", "accuracy"};
  const int at = find(t, t->chosen);
  const double began_s = cli_now_s();
  for (int i = 0; i < TOP_CURVES; i++) {
    hd_run_numbers n = {.struct_bytes = sizeof n};
    hd_runs_close(t->run[i]);
    t->run[i] = NULL;
    if (at >= 0 && hd_runs_open(&t->run[i], t->ctx, t->look->job[at].out) == HD_OK && hd_runs_count(t->run[i]) > 0 &&
        hd_runs_numbers(&n, t->run[i], t->ctx, 0, key[i]) != HD_OK)
      n.count = 0;
    t->curve[i] = (top_curve){name[i], n.count, n.value};
  }
  t->curves_s = cli_now_s() + 20 * (cli_now_s() - began_s);
}

/* Whether characters beyond ASCII are shown. */
static int is_utf8(void) {
  const char *const name[] = {getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG")};
  for (size_t i = 0; i < sizeof name / sizeof *name; i++)
    if (name[i] && *name[i])
      return strcasestr(name[i], "utf-8") || strcasestr(name[i], "utf8");
  return 0;
}

static int draw(top *t) {
  char *text = NULL;
  size_t length = 0;
  top_view view = {
      .chosen = find(t, t->chosen), .colour = t->colour, .help = t->help, .message = t->message[0] ? t->message : NULL};
  memcpy(view.curve, t->curve, sizeof view.curve);
  terminal_size(&view.rows, &view.columns);
  FILE *to = open_memstream(&text, &length);
  if (!to)
    return -1;
  top_draw(to, t->look, &view);
  int failed = fclose(to) != 0;
  failed = failed || terminal_write(text, length) != 0;
  free(text);
  return failed ? -1 : 0;
}

static hd_status look_again(top *t) {
  const int jobs = t->look ? t->look->jobs : 0;
  hd_status status = hd_monitor_look(&t->look, t->monitor, t->ctx);
  if (status == HD_OK)
    follow(t, jobs);
  return status;
}

/* Runs until the user quits or a signal arrives; each event redraws the screen at once. */
static hd_status watch(top *t) {
  double next = cli_now_s() + fmin(asked.interval_s, SOON_S);
  hd_status status = HD_OK;
  while (status == HD_OK) {
    int event = terminal_wait(next - cli_now_s());
    if (event == TERMINAL_END || (event >= 0 && t->look && !take_key(t, event)) || (event == 'q' && !t->look))
      return HD_OK;
    if (event == TERMINAL_TIME && cli_now_s() >= next) {
      status = look_again(t);
      if (status == HD_OK && is_utf8() && cli_now_s() >= t->curves_s)
        read_curves(t);
      next = cli_now_s() + asked.interval_s;
    }
    if (status == HD_OK && t->look && draw(t) != 0)
      return HD_OK; /* the terminal is gone */
  }
  return status;
}

static int show_screen(top *t) {
  const hd_status status = watch(t);
  terminal_close();
  for (int i = 0; i < TOP_CURVES; i++)
    hd_runs_close(t->run[i]);
  CLI_TRY(status);
  return terminal_signal() ? 128 + terminal_signal() : CLI_OK;
}

/* ---- Plain lines ---- */

static void print(const top *t) {
  if (t->json) {
    look_json(t->look);
    return;
  }
  look_print_use(stdout, t->look);
  look_print_cpus(stdout, t->look);
  look_print_gpus(stdout, t->look);
  look_print_jobs(stdout, t->look);
  if (!asked.once)
    printf("\n");
}

static void sleep_s(double seconds) {
  struct timespec time = {.tv_sec = (time_t)seconds, .tv_nsec = (long)(1e9 * (seconds - (double)(time_t)seconds))};
  while (nanosleep(&time, &time) != 0)
    ;
}

/* Runs until a signal ends it or standard output is closed. */
static int show_lines(top *t) {
  double wait_s = fmin(asked.interval_s, SOON_S);
  do {
    sleep_s(asked.once ? asked.interval_s : wait_s);
    wait_s = asked.interval_s;
    CLI_TRY(look_again(t));
    print(t);
  } while (!asked.once && fflush(stdout) == 0);
  return CLI_OK;
}

/* ---- The command ---- */

static int run(hd_ctx *ctx, hd_config *config, int count, char **operand) {
  const char *no_colour = getenv("NO_COLOR");
  top t = {.ctx = ctx, .colour = !no_colour || !*no_colour, .json = cli_wants_json(config)};
  if (asked.interval_s == 0)
    asked.interval_s = asked.once ? SOON_S : INTERVAL_S;
  CLI_TRY(hd_monitor_create(&t.monitor, ctx));
  const int screen = !asked.once && !t.json && terminal_open() == 0;
  const int code = screen ? show_screen(&t) : show_lines(&t);
  hd_monitor_destroy(t.monitor);
  return code;
}

static const cli_extra extra[] = {{"once", NULL, "print the state once and exit", cli_take_flag, .self = &asked.once},
                                  {"interval", "S", "seconds between two updates (default 1)", cli_take_real,
                                   &asked.interval_s, .least = 0.1, .most = 3600},
                                  {0}};

const cli_command cli_top = {.name = "top",
                             .help = "what runs on this machine, live",
                             .usage = "heddle top [--once] [--interval S] [--json]: what runs on this machine, live",
                             .options = (const char *const[]){"json", NULL},
                             .extra = extra,
                             .run = run};
