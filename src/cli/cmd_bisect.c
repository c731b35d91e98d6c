/* heddle bisect: the first step, node and element in which two runs differ. */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "heddle/evidence.h"

static hd_fault_place fault;
static double tolerance;
static volatile sig_atomic_t caught;

static void on_signal(int number) { caught = number; }

/* Takes "N" from *text, and the comma behind it; false: another text. */
static bool take_number(int64_t *out, const char **text, int64_t least) {
  char *end;
  if (**text < '0' || **text > '9')
    return false;
  errno = 0;
  *out = strtoll(*text, &end, 10);
  const bool more = *end == ',' && end[1];
  *text = more ? end + 1 : end;
  return errno == 0 && *out >= least && (more || !*end);
}

static int take_fault(const cli_extra *option, const char *value) {
  int64_t *const part[] = {&fault.step, &fault.result, &fault.element};
  const char *rest = value;
  bool is_whole = true;
  for (int i = 0; i < 3 && is_whole && (i == 0 || *rest); i++)
    is_whole = take_number(part[i], &rest, i == 0);
  if (is_whole && !*rest)
    return CLI_OK;
  cli_complain(
      "--inject expects the numbers STEP, STEP,RESULT or STEP,RESULT,ELEMENT, 5,12,100 for example, found '%s'; "
      "RESULT counts the step's results in the order in which they are computed, from 0",
      value);
  return CLI_USAGE;
}

static int on_step(void *user, int64_t step, int64_t steps) {
  cli_show_step(user, step, steps);
  return caught;
}

static const char *const verdict_name[] = {"equal", "differ", "not repeated", "not comparable"};

static void print_difference(const hd_bisection *f) {
  if (f->step > 0)
    cli_print("step         \t%s\n", cli_grouped(f->step));
  else
    cli_print("step         \tbefore the first\n");
  cli_print("computed by  \t%s\n", f->what);
  cli_print("element      \t%s\n", f->index);
  cli_print("a            \t%.9g\n", f->value[0]);
  cli_print("b            \t%.9g%s%s\n", f->value[1], f->ulps >= 0 ? ", units in the last place away: " : "",
            f->ulps >= 0 ? cli_grouped(f->ulps) : "");
}

static void print_text(const hd_bisection *f) {
  cli_print("runs         \t%s%s%s\n", verdict_name[f->verdict], f->verdict == HD_RUNS_DIFFER ? "" : ": ",
            f->verdict == HD_RUNS_DIFFER ? "" : f->why);
  if (f->loss_step > 0)
    cli_print("losses       \tdiffer from step %s on\n", cli_grouped(f->loss_step));
  if (*f->settings)
    cli_print("settings     \t%s\n", f->settings);
  if (*f->planted)
    cli_print("planted      \tstep %s, %s\n", cli_grouped(fault.step), f->planted);
  if (f->replays > 0)
    cli_print("repeated     \tfrom step %s, in %s\n", cli_grouped(f->from), cli_counted(f->replays, "replay"));
  if (f->verdict == HD_RUNS_DIFFER)
    print_difference(f);
}

/* A loss is a double, results are floats. */
static void json_difference(const hd_bisection *f) {
  const bool floats = (double)(float)f->value[0] == f->value[0] && (double)(float)f->value[1] == f->value[1];
  cli_json(", 'step': %lld, 'result': %lld, 'what': %s, 'index': %s", (long long)f->step, (long long)f->result, f->what,
           f->index);
  cli_json(floats ? ", 'a': %e, 'b': %e" : ", 'a': %g, 'b': %g", f->value[0], f->value[1]);
  cli_json(", 'ulps': %lld", (long long)f->ulps);
}

static void print_json(const hd_bisection *f) {
  cli_json("{'verdict': %s, 'loss_step': %lld, 'from': %lld, 'replays': %d", verdict_name[f->verdict],
           (long long)f->loss_step, (long long)f->from, f->replays);
  if (*f->settings)
    cli_json(", 'settings': %s", f->settings);
  if (*f->planted)
    cli_json(", 'planted': %s", f->planted);
  if (f->verdict == HD_RUNS_DIFFER)
    json_difference(f);
  else
    cli_json(", 'why': %s", f->why);
  cli_json("}\n");
}

/* 0 equal, 3 they differ, 4 not comparable. */
static int run(hd_ctx *ctx, hd_config *config, int count, char **operand) {
  if (count != (fault.step > 0 ? 1 : 2)) {
    cli_complain("bisect expects two runs, or one with --inject, found %d; see heddle bisect --help", count);
    return CLI_USAGE;
  }
  cli_step_line line = {.terminal = cli_is_terminal()};
  hd_bisection f = {.struct_bytes = sizeof f};
  const hd_bisect_request request = {.struct_bytes = sizeof request,
                                     .a = operand[0],
                                     .b = count > 1 ? operand[1] : NULL,
                                     .fault = fault,
                                     .progress = on_step,
                                     .user = &line,
                                     .tolerance = tolerance};
  cli_catch_signals(on_signal);
  const hd_status status = hd_bisect(&f, ctx, config, &request);
  cli_clear_step(&line);
  if (status == HD_E_INTERRUPTED && caught)
    return cli_stopped_by(caught);
  CLI_TRY(status);
  (cli_wants_json(config) ? print_json : print_text)(&f);
  return f.verdict == HD_RUNS_EQUAL ? CLI_OK : f.verdict == HD_RUNS_NOT_COMPARABLE ? CLI_NOT_COMPARABLE : CLI_FOUND;
}

static const cli_extra extra[] = {
    {"inject", "STEP,RESULT,ELEMENT",
     "change one element of one result by one unit in the last place, and find it: a test of bisect; RESULT is a "
     "number, from 0 in the order in which the step computes them",
     .take = take_fault},
    {"tolerance", "X",
     "DUMP: elements count as equal up to this difference, relative to the largest element (default 0.001)",
     cli_take_real, &tolerance, .least = 1e-12, .most = 1},
    {0}};

const cli_command cli_bisect = {
    .name = "bisect",
    .data = "the run's",
    .help = "the first step, node and element in which two runs differ",
    .usage =
        "heddle bisect A B|DUMP [--json]: repeats two runs up to their first difference; DUMP: results from PyTorch",
    .notes = "Exit codes: 0 the runs are equal, 3 they differ, 4 not comparable.",
    .options = (const char *const[]){"data", "data-dir", "json", NULL},
    .extra = extra,
    .operands = CLI_ANY,
    .operand = "runs (their folders)",
    .run = run};
