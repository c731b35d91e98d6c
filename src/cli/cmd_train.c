/* heddle train: the run's start line, its progress, its end. */
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/report.h"

/* State of the signal handler, which may run on any thread of the OpenMP runtime. */
static _Atomic(hd_session *) running;
static atomic_int handlers; /* handlers that may be using the session */
static atomic_int caught;
static _Atomic double caught_s; /* time of the signal */
static double apart_s;          /* after this time a signal counts as a second one; set before the handler */

static void on_signal(int number) {
  if (caught && cli_now_s() - caught_s >= apart_s) {
    signal(number, SIG_DFL);
    raise(number);
    return;
  }
  if (!caught)
    caught_s = cli_now_s();
  caught = number;
  atomic_fetch_add(&handlers, 1);
  hd_session *session = atomic_load(&running);
  if (session)
    hd_session_terminate(session);
  atomic_fetch_sub(&handlers, 1);
}

/* Waits until no handler uses the session; handlers may be running on other threads. */
static void forget_session(void) {
  atomic_store(&running, NULL);
  while (atomic_load(&handlers) > 0)
    sched_yield();
}

/* A second signal ends the process at once. A signal to a process group reaches a rank twice, from the sender and
 * from its parent, and counts once. SIGHUP stops the run too, unless it is ignored, as under nohup. */
static void catch_signals(int is_rank) {
  apart_s = is_rank ? 0.5 : 0;
  cli_catch_signals(on_signal);
}

/* What a line says of an evaluation: all; the accuracy without its split; no more than numbers, and no speed. */
typedef enum detail { WHOLE, SHORT, SHORTEST } detail;

typedef struct progress {
  hd_session *session;
  int terminal, quiet; /* quiet: not rank 0 */
  detail detail;       /* as much as fitted so far: lines of a run look alike */
  double shown_s;      /* when the progress line was last drawn */
} progress;

static void clear_line(const progress *p) {
  if (p->terminal)
    cli_clear_line();
}

static void draw_progress(progress *p, const hd_event *event) {
  double now = cli_now_s();
  if (now - p->shown_s < 0.05)
    return;
  p->shown_s = now;
  const hd_report *r = hd_session_report(p->session);
  int width = 24, full = r->steps_in_all > 0 ? (int)((double)width * (double)event->step / (double)r->steps_in_all) : 0;
  char bar[32];
  for (int i = 0; i < width; i++)
    bar[i] = i < full ? '#' : '.';
  bar[width] = 0;
  char line[160];
  snprintf(line, sizeof line, "[%s] epoch %lld, step %s of %s, loss %.4f", bar, (long long)event->epoch + 1,
           cli_grouped(event->step), cli_grouped(r->steps_in_all), event->loss);
  cli_draw_line(line);
}

enum { SCORE_BYTES = 96, RESULT_BYTES = 320 };

/* "test loss 0.0442, test accuracy 98.60 %"; "test 0.0442 (98.60 %)". Without classes there is no accuracy. */
static const char *score_text(char text[SCORE_BYTES], const char *split, double loss, double accuracy, detail is) {
  const int at = snprintf(text, SCORE_BYTES, "%s%s %.4f", split, is == SHORTEST ? "" : " loss", loss);
  if (isnan(accuracy))
    return text;
  if (is == SHORTEST)
    snprintf(text + at, SCORE_BYTES - (size_t)at, " (%.2f %%)", 100 * accuracy);
  else
    snprintf(text + at, SCORE_BYTES - (size_t)at, ", %s%saccuracy %.2f %%", is == WHOLE ? split : "",
             is == WHOLE ? " " : "", 100 * accuracy);
  return text;
}

/* "step 5: ", then what an evaluation gave, if there was one, then the speed. */
static const char *result_text(char text[RESULT_BYTES], const char *head, const hd_event *event, const char *speed,
                               detail is) {
  char score[SCORE_BYTES];
  int at = snprintf(text, RESULT_BYTES, "%s", head);
  if (!isnan(event->val_loss) && !isnan(event->test_loss))
    at += snprintf(text + at, RESULT_BYTES - (size_t)at, "%s, ",
                   score_text(score, "validation", event->val_loss, event->val_accuracy, is));
  if (!isnan(event->test_loss))
    at += snprintf(text + at, RESULT_BYTES - (size_t)at, "%s",
                   score_text(score, "test", event->test_loss, event->test_accuracy, is));
  if (*speed && (is != SHORTEST || isnan(event->test_loss)))
    snprintf(text + at, RESULT_BYTES - (size_t)at, "%s%s", isnan(event->test_loss) ? "" : ", ", speed);
  return text;
}

/* One line, whatever the width of the screen. */
static void print_result(progress *p, const char *head, const hd_event *event, const char *speed) {
  char text[RESULT_BYTES];
  const int columns = cli_columns();
  while (columns > 0 && p->detail < SHORTEST && cli_width(result_text(text, head, event, speed, p->detail)) > columns)
    p->detail++;
  cli_print("%s\n", result_text(text, head, event, speed, p->detail));
}

static void print_epoch(progress *p, const hd_event *event) {
  char head[64], speed[64] = "resumed";
  snprintf(head, sizeof head, "epoch %lld: loss %.4f, ", (long long)event->epoch + 1, event->loss);
  if (!isnan(event->samples_per_s))
    snprintf(speed, sizeof speed, "%s samples/s", cli_grouped((long long)event->samples_per_s));
  print_result(p, head, event, speed);
}

static void print_step_result(progress *p, const hd_event *event) {
  char head[64];
  snprintf(head, sizeof head, "step %lld: ", (long long)event->step);
  print_result(p, head, event, "");
}

/* A text of the network, line by line. */
static void print_sample(const hd_event *event) {
  cli_print("a text after step %s:\n", cli_grouped(event->step));
  for (const char *line = event->text + strspn(event->text, "\n"); *line; line += strspn(line, "\n")) {
    const int length = (int)strcspn(line, "\n");
    cli_print("  \t%.*s\n", length, line);
    line += length;
  }
}

enum { MANY_EPOCHS = 20 }; /* of as many, those that are evaluated have a line */

static void on_event(void *user, const hd_event *event) {
  progress *p = user;
  if (p->quiet)
    return;
  switch (event->kind) {
  case HD_EVENT_STEP:
    if (p->terminal)
      draw_progress(p, event);
    return;
  case HD_EVENT_LOG:
    if (!p->terminal) {
      cli_print("epoch %lld, step %lld: loss %.4f, lr %.3g, %s samples/s\n", (long long)event->epoch + 1,
                (long long)event->step, event->loss, event->lr, cli_grouped((long long)event->samples_per_s));
      fflush(stdout);
    }
    return;
  case HD_EVENT_EPOCH:
    if (isnan(event->test_loss) && hd_session_report(p->session)->epochs_asked >= MANY_EPOCHS)
      return;
    clear_line(p);
    print_epoch(p, event);
    break;
  case HD_EVENT_EVAL:
    clear_line(p);
    print_step_result(p, event);
    break;
  case HD_EVENT_NOTE:
    clear_line(p);
    cli_print("%s\n", event->text);
    break;
  case HD_EVENT_SAMPLE:
    clear_line(p);
    print_sample(event);
    break;
  case HD_EVENT_SAVED: return;
  }
  fflush(stdout);
}

/* "0-3" or "0,2". */
static void print_stage_ranks(const hd_stage *stage) {
  for (int i = 0; i < stage->ranks; i++) {
    int last = i;
    while (last + 1 < stage->ranks && stage->rank[last + 1].rank == stage->rank[last].rank + 1)
      last++;
    cli_print("%s%d", i > 0 ? "," : "", stage->rank[i].rank);
    if (last > i)
      cli_print("-%d", stage->rank[last].rank);
    i = last;
  }
}

static void print_stages(const hd_report *r) {
  for (int s = 0; s < r->stages; s++) {
    const hd_stage *stage = &r->stage[s];
    int threads = 0;
    for (int i = 0; i < stage->ranks; i++)
      threads += stage->rank[i].threads;
    cli_print("stage %d: \t%s to %s, %s parameters, %s", s, stage->first, stage->last, cli_grouped(stage->parameters),
              cli_counted(threads, "thread"));
    if (r->ranks > 1) {
      cli_print(" of rank%s ", stage->ranks == 1 ? "" : "s");
      print_stage_ranks(stage);
    }
    cli_print("\n");
  }
}

/* "4 ranks on 2 hosts over MPI of 2 threads", or "... of 1 to 3 threads, 8 in all,". */
static void describe_layout(char *text, size_t bytes, const hd_report *r) {
  char ranks[160] = "";
  int least = r->threads, most = r->threads, all = 0;
  for (int i = 0; i < r->ranks; i++) {
    least = r->rank[i].threads < least ? r->rank[i].threads : least;
    most = r->rank[i].threads > most ? r->rank[i].threads : most;
    all += r->rank[i].threads;
  }
  if (r->hosts > 1)
    snprintf(ranks, sizeof ranks, "%d ranks on %d hosts over %.64s of ", r->ranks, r->hosts, r->transport);
  else if (r->ranks > 1)
    snprintf(ranks, sizeof ranks, "%d ranks of ", r->ranks);
  if (least < most)
    snprintf(text, bytes, "%s%d to %d threads, %d in all,", ranks, least, most, all);
  else
    snprintf(text, bytes, "%s%s%s%s%s", ranks, cli_counted(least, "thread"), *r->threads_note ? " (" : "",
             r->threads_note, *r->threads_note ? ")" : "");
}

static void print_start(const hd_report *r) {
  char frozen[48] = "", layout[384];
  describe_layout(layout, sizeof layout, r);
  if (r->trainable < r->parameters)
    snprintf(frozen, sizeof frozen, ", %s trainable", cli_grouped(r->trainable));
  for (int i = 0; r->ranks > 1 && i < r->ranks; i++)
    cli_print("rank %d pid %d cpus %s%s%s\n", i, (int)r->rank[i].pid, r->rank[i].cpus, r->hosts > 1 ? " on " : "",
              r->hosts > 1 ? r->rank[i].host : "");
  cli_print("heddle %s: \t%s (%s parameters%s) on %s, batch %lld in %lld shards, %s, %s on %s, %s, %s "
            "arithmetic%s%s\n",
            hd_version(), r->model, cli_grouped(r->parameters), frozen, r->data, (long long)r->batch,
            (long long)r->shards, hd_choice_name(HD_OPT_OPTIMIZER, (int)r->optimizer), layout,
            cli_counted(r->all_cpus, "CPU"), r->isa, hd_choice_name(HD_OPT_ARITHMETIC, (int)r->arithmetic),
            *r->nccl ? ", gradients added by " : "", r->nccl);
  print_stages(r);
  if (*r->device_note)
    cli_print("%s\n", r->device_note);
  if (r->resumed_step > 0)
    cli_print("resumed at step %s\n", cli_grouped(r->resumed_step));
  if (*r->arithmetic_note)
    cli_print("%s\n", r->arithmetic_note);
  if (*r->input_note)
    cli_print("%s\n", r->input_note);
  fflush(stdout);
}

/* Warns if bfloat16 instructions are no faster than those for float32. */
static void warn_of_precision(const hd_report *r) {
  if (r->precision == HD_PRECISION_BF16 && !strcmp(r->device, "cpu") && strncmp(r->isa, "amx", 3) != 0)
    cli_complain(
        "warning: --precision bf16 is computed by %s kernels, without AMX, and may be slower than float32; use "
        "--precision f32 for speed",
        r->isa);
}

/* Warns of fewer threads than requested, which each rank does for itself. */
static void warn_of_limit(const hd_report *r, int64_t asked, int rank) {
  char of_rank[24] = "";
  if (r->ranks > 1)
    snprintf(of_rank, sizeof of_rank, " of rank %d", rank);
  if (asked > r->threads)
    cli_complain("warning: OMP_THREAD_LIMIT allows %d of %d threads%s; raise or unset it", r->threads, (int)asked,
                 of_rank);
}

/* Warns of more threads than CPUs. */
static void warn_of_threads(const hd_report *r) {
  int ranks = 0, threads = 0; /* on this host */
  for (int i = 0; i < r->ranks; i++)
    if (!strcmp(r->rank[i].host, r->rank[0].host)) {
      ranks++;
      threads += r->rank[i].threads;
    }
  if (threads <= r->cpus)
    return;
  char remedy[64];
  if (ranks <= r->cpus)
    snprintf(remedy, sizeof remedy, "--threads %d or fewer", r->cpus / ranks);
  else if (r->hosts > 1 || !getenv("HEDDLE_WORLD")) /* which heddle's own launcher sets */
    snprintf(remedy, sizeof remedy, "at most %d rank%s on each host", r->cpus, r->cpus == 1 ? "" : "s");
  else
    snprintf(remedy, sizeof remedy, "--procs %d%s%s", r->cpus, threads > ranks ? " --threads 1" : "",
             r->cpus == 1 || threads > ranks ? "" : " or fewer");
  cli_complain("warning: %d threads share %d CPU%s, which is slower; use %s", threads, r->cpus, r->cpus == 1 ? "" : "s",
               remedy);
}

/* The largest shares, and the share of waiting. */
static void print_profile(const hd_profile *p, int ranks) {
  enum { SHOWN = 6 };
  double rest = 1 - p->waiting;
  cli_print("profile         \t%s: of %s time ", p->path, p->waiter >= 0 ? "all threads'" : "the steps'");
  for (int i = 0; i < p->items && i < SHOWN; i++) {
    cli_print("%s %.0f %%, ", p->item[i].name, 100 * p->item[i].share);
    rest -= p->item[i].share;
  }
  cli_print("others %.0f %%", 100 * (rest > 0 ? rest : 0));
  if (p->waiting > 0)
    cli_print(", waiting %.1f %%", 100 * p->waiting);
  if (p->waiter >= 0 && ranks > 1)
    cli_print("; thread %d of rank %d waited for thread %d of rank %d for %.1f %% of its time", p->waiter,
              p->waiter_rank, p->awaited, p->awaited_rank, 100 * p->longest);
  else if (p->waiter >= 0)
    cli_print("; thread %d waited for thread %d for %.1f %% of its time", p->waiter, p->awaited, 100 * p->longest);
  cli_print("; %s of %s\n", cli_grouped(p->kept), cli_grouped_of(p->steps, "step"));
}

/* Where the time of each rank's threads went. */
static void print_ranks(const hd_report *r) {
  cli_print("rank     data s  compute s  waiting s  mostly for\n");
  for (int i = 0; i < r->ranks; i++) {
    const hd_rank_time *t = &r->rank_time[i];
    cli_print("%4d  %9.3f  %9.3f  %9.3f  ", i, t->data_s, t->compute_s, t->waiting_s);
    if (t->waited_for < 0)
      cli_print("none\n");
    else if (t->waited_for == i)
      cli_print("itself, %.3f s\n", t->waited_for_s);
    else
      cli_print("rank %d, %.3f s\n", t->waited_for, t->waited_for_s);
  }
}

static void print_gpu_memory(const hd_gpu_memory *m) {
  const double mib = 1 << 20;
  cli_print("%.1f MiB allocated, %.1f reserved, %.1f at its peak, of %.1f:", (double)m->allocated_bytes / mib,
            (double)m->reserved_bytes / mib, (double)m->peak_bytes / mib, (double)m->total_bytes / mib);
  const char *comma = "";
  for (int i = 0; i < HD_GPU_PARTS; i++)
    if (m->part[i].peak_bytes > 0) {
      cli_print("%s %s %.1f", comma, m->part[i].name, (double)m->part[i].peak_bytes / mib);
      comma = ",";
    }
  cli_print("; %.1f pinned on the host\n", (double)m->host_bytes / mib);
}

static void print_gpus(const hd_report *r) {
  for (int i = 0; i < r->gpus; i++) {
    cli_print("GPU memory      \t");
    if (r->ranks > 1)
      cli_print("rank %d, ", (int)r->gpu_memory[i].rank);
    if (r->gpus > 1)
      cli_print("GPU %d: ", (int)r->gpu_memory[i].index);
    print_gpu_memory(&r->gpu_memory[i]);
  }
}

static void print_end(const hd_report *r, const char *page) {
  if (!isnan(r->val_accuracy))
    cli_print("validation      %.2f %% of %s\n", 100 * r->val_accuracy, cli_grouped(r->val_samples));
  else if (!isnan(r->val_loss))
    cli_print("validation loss %.6g\n", r->val_loss);
  if (!isnan(r->test_accuracy))
    cli_print("test accuracy   %.2f %% (%s wrong)\n", 100 * r->test_accuracy, cli_grouped(r->wrong));
  else if (!isnan(r->test_loss))
    cli_print("test loss       %.6g\n", r->test_loss);
  if (!isnan(r->test_iou))
    cli_print("test IoU        %.2f %%\n", 100 * r->test_iou);
  if (!isnan(r->test_perplexity))
    cli_print("perplexity      %.4g\n", r->test_perplexity);
  if (!isnan(r->test_bits_per_byte))
    cli_print("bits per byte   %.4g\n", r->test_bits_per_byte);
  if (!isnan(r->test_mean_absolute_error))
    cli_print("test error      mean absolute %.6g, root mean square %.6g, R2 ", r->test_mean_absolute_error,
              r->test_root_mean_square_error);
  if (!isnan(r->test_mean_absolute_error))
    cli_print(isnan(r->test_r2) ? "not defined\n" : "%.6f\n", r->test_r2);
  const double metric = isnan(r->val_metric) ? r->test_metric : r->val_metric;
  if (*r->metric)
    cli_print("%-4s %-10s \t", isnan(r->val_metric) ? "test" : "val", r->metric);
  if (*r->metric)
    cli_print(isnan(metric) ? "not defined\n" : "%.6g\n", metric);
  if (r->skipped >= 0)
    cli_print("skipped         \t%s for training%s and %s for testing, which could not be read\n",
              cli_grouped(r->skipped), r->val_samples > 0 ? " or validation" : "", cli_grouped(r->test_skipped));
  if (r->steps > r->resumed_step)
    cli_print("trained         \t%s%s%s in %.2f s, %s samples/s\n",
              r->resumed_step ? cli_grouped(r->steps - r->resumed_step) : "", r->resumed_step ? " of " : "",
              cli_grouped_of(r->steps, "step"), r->train_s, cli_grouped((long long)r->samples_per_s));
  else
    cli_print("trained         \talready finished at step %s; raise --epochs or --max-steps to continue\n",
              cli_grouped(r->steps));
  if (r->workers > 0)
    cli_print("waited          \t%.2f s for %s, %.1f %% of that time\n", r->waited_s,
              cli_counted(r->workers, "loader worker"), r->train_s > 0 ? 100 * r->waited_s / r->train_s : 0);
  print_gpus(r);
  if (*r->library)
    cli_print("weights_sha256  \t%s (native, %s%s%s)\n", r->weights_sha256, r->library, *r->nccl ? ", " : "", r->nccl);
  else
    cli_print("weights_sha256  \t%s\n", r->weights_sha256);
  cli_print("saved           \t%s\n", r->out);
  if (r->wrong_png[0])
    cli_print("what it got wrong: %s\n", r->wrong_png);
  if (*page)
    cli_print("report          \t%s\n", page);
}

static void json_ranks(const hd_report *r) {
  cli_json("'rank_times': [");
  for (int i = 0; i < r->ranks; i++) {
    const hd_rank_time *t = &r->rank_time[i];
    cli_json("%c{'data_s': %.6f, 'compute_s': %.6f, 'waiting_s': %.6f, 'waited_for': %d, 'waited_for_s': %.6f}", i,
             t->data_s, t->compute_s, t->waiting_s, t->waited_for, t->waited_for_s);
  }
  cli_json("], ");
}

static void json_stages(const hd_report *r) {
  cli_json("'stages': [");
  for (int s = 0; s < r->stages; s++) {
    const hd_stage *stage = &r->stage[s];
    cli_json("%c{'first': %s, 'last': %s, 'parameters': %lld, 'stage_ranks': [", s, stage->first, stage->last,
             (long long)stage->parameters);
    for (int i = 0; i < stage->ranks; i++)
      cli_json("%c{'rank': %d, 'pid': %d, 'stage_threads': %d, 'stage_shards': %lld, 'waited_s': %.6f}", i,
               stage->rank[i].rank, stage->rank[i].pid, stage->rank[i].threads, (long long)stage->rank[i].shards,
               stage->rank[i].waited_s);
    cli_json("]}");
  }
  cli_json("], ");
}

static void json_gpu_memory(int index, const hd_gpu_memory *m) {
  cli_json("%c{'rank': %d, 'gpu': %d, 'allocated_bytes': %lld, 'reserved_bytes': %lld, 'peak_bytes': %lld, ", index,
           m->rank, m->index, (long long)m->allocated_bytes, (long long)m->reserved_bytes, (long long)m->peak_bytes);
  cli_json("'host_bytes': %lld, 'free_bytes': %lld, 'total_bytes': %lld, 'parts': {", (long long)m->host_bytes,
           (long long)m->free_bytes, (long long)m->total_bytes);
  for (int i = 0; i < HD_GPU_PARTS && m->part[i].name; i++)
    cli_json("%c%s: {'bytes': %lld, 'peak_bytes': %lld}", i, m->part[i].name, (long long)m->part[i].bytes,
             (long long)m->part[i].peak_bytes);
  cli_json("}}");
}

static void json_gpus(const hd_report *r) {
  cli_json("'gpu_memory': [");
  for (int i = 0; i < r->gpus; i++)
    json_gpu_memory(i, &r->gpu_memory[i]);
  cli_json("], ");
}

static void json_settings(const hd_report *r) {
  cli_json("{'model': %s, 'data': %s, 'epochs': %g, 'steps': %lld, 'batch': %lld, 'shards': %lld, 'accumulate': "
           "%lld, 'threads': %d, 'ranks': %d, ",
           r->model, r->data, r->epochs_asked, (long long)r->steps, (long long)r->batch, (long long)r->shards,
           (long long)r->accumulate, r->threads, r->ranks);
  if (r->hosts > 1)
    cli_json("'hosts': %d, ", r->hosts);
  if (r->stages > 0)
    json_stages(r);
  if (*r->threads_note)
    cli_json("'threads_note': %s, ", r->threads_note);
  cli_json("'workers': %d, 'device': %s, ", r->workers, r->device);
  if (*r->device_note)
    cli_json("'device_note': %s, ", r->device_note);
  if (r->idle_gpus > 0)
    cli_json("'idle_gpus': %d, ", r->idle_gpus);
  cli_json("'arithmetic': %s, ", hd_choice_name(HD_OPT_ARITHMETIC, (int)r->arithmetic));
  if (*r->library)
    cli_json("'library': %s, ", r->library);
  if (r->gpu_sums != HD_GPU_SUMS_NONE)
    cli_json("'gpu_sums': %s, ", r->gpu_sums == HD_GPU_SUMS_TREE ? "tree" : r->nccl);
  if (r->precision != HD_PRECISION_F32)
    cli_json("'precision': %s, ", hd_choice_name(HD_OPT_PRECISION, (int)r->precision));
  cli_json("'isa': %s, 'seed': %lld, ", r->isa, (long long)r->seed);
}

static void print_json(const hd_report *r, const char *page) {
  json_settings(r);
  cli_json("'train_loss': %g, ", r->train_loss);
  if (r->val_samples > 0)
    cli_json("'val_loss': %g, 'val_accuracy': %g, ", r->val_loss, r->val_accuracy);
  cli_json("'test_loss': %g, 'test_accuracy': %g, 'startup_s': %g, 'train_s': %g, ", r->test_loss, r->test_accuracy,
           r->startup_s, r->train_s);
  if (!isnan(r->val_iou))
    cli_json("'val_iou': %g, ", r->val_iou);
  if (!isnan(r->test_iou))
    cli_json("'test_iou': %g, ", r->test_iou);
  if (!isnan(r->test_perplexity))
    cli_json("'test_perplexity': %g, 'test_bits_per_byte': %g, ", r->test_perplexity, r->test_bits_per_byte);
  if (!isnan(r->test_mean_absolute_error))
    cli_json("'test_r2': %g, 'test_mean_absolute_error': %g, 'test_root_mean_square_error': %g, ", r->test_r2,
             r->test_mean_absolute_error, r->test_root_mean_square_error);
  if (*r->metric)
    cli_json("'metric': %s, 'val_metric': %g, 'test_metric': %g, ", r->metric, r->val_metric, r->test_metric);
  if (r->workers > 0)
    cli_json("'waited_s': %g, ", r->waited_s);
  cli_json("'wall_s': %g, 'samples_per_s': %g, 'peak_rss_bytes': %lld, ", r->wall_s,
           r->steps > r->resumed_step ? r->samples_per_s : NAN, /* null: there was nothing left to do */
           (long long)r->peak_rss_bytes);
  if (r->gpu_memory)
    json_gpus(r);
  if (r->skipped >= 0)
    cli_json("'skipped': %lld, 'test_skipped': %lld, ", (long long)r->skipped, (long long)r->test_skipped);
  if (r->rank_time)
    json_ranks(r);
  cli_json("'arithmetic_version': %d, ", r->arithmetic_version);
  cli_json("'weights_sha256': %s, 'out': %s, 'report': ", r->weights_sha256, r->out);
  cli_json(*page ? "%s}\n" : "null}\n", page);
}

/* The exit code of a stopped run: the signal's. A rank that stopped because another rank got the signal has not
 * failed: the job's exit code is that of the rank with the signal. */
static int interrupted_code(void) { return caught ? 128 + caught : CLI_OK; }

/* The exit code after training: success, a signal's, or a failure's. */
static int finish(hd_status status, hd_ctx *ctx, const hd_report *r, int json) {
  if (r->profile)
    print_profile(r->profile, r->ranks);
  if (r->rank_time && r->steps > r->resumed_step)
    print_ranks(r);
  if (status == HD_E_INTERRUPTED) {
    cli_complain("stopped after step %lld, saved in %s; continue with: heddle train --resume %s", (long long)r->steps,
                 r->out, r->out);
    return interrupted_code();
  }
  if (status != HD_OK)
    return cli_report(ctx, status);
  char page[4096];
  const int wrote = report_save(page, ctx, r->out);
  if (wrote != CLI_OK) {
    cli_report(ctx, wrote); /* the run has not failed */
    *page = 0;
  }
  print_end(r, page);
  if (json)
    print_json(r, page);
  return CLI_OK;
}

/* Results that all ranks reach at the same step are printed by rank 0 only. */
static int finish_quietly(hd_status status, hd_ctx *ctx) {
  if (status == HD_E_INTERRUPTED)
    return interrupted_code();
  if (status == HD_E_NOTFINITE)
    return CLI_FAILED;
  return cli_report(ctx, status);
}

static void on_wait(void *user, const char *text) {
  cli_print("%s\n", text);
  fflush(stdout);
}

/* Rank 0 prints the output. */
static int run_in(hd_ctx *ctx, const hd_config *config, const hd_group *group) {
  const int rank = hd_group_rank(group);
  hd_session *session;
  hd_ctx_on_wait(ctx, on_wait, NULL);
  hd_status status = hd_ddp(&session, ctx, config, group);
  if (status != HD_OK)
    return cli_report(ctx, status);
  running = session;
  catch_signals(group != NULL);
  warn_of_limit(hd_session_report(session), hd_config_get_int(config, HD_OPT_THREADS), rank);
  progress p = {.session = session, .terminal = rank == 0 && cli_is_terminal(), .quiet = rank > 0};
  if (!p.quiet) {
    print_start(hd_session_report(session));
    warn_of_threads(hd_session_report(session));
    warn_of_precision(hd_session_report(session));
  }
  status = hd_session_train(session, ctx, on_event, &p);
  clear_line(&p);
  int code =
      p.quiet ? finish_quietly(status, ctx) : finish(status, ctx, hd_session_report(session), cli_wants_json(config));
  forget_session();
  hd_session_destroy(session);
  return code;
}

static int run(hd_ctx *ctx, const hd_config *config, int is_rank) {
  hd_group *group = NULL;
  const hd_group_settings settings = {.struct_bytes = sizeof settings,
                                      .rank = -1,
                                      .world_size = -1,
                                      .timeout_s = hd_config_get_real(config, HD_OPT_STALL_TIMEOUT)};
  if (is_rank)
    CLI_TRY(hd_group_init(&group, ctx, &settings));
  int code = run_in(ctx, config, group);
  hd_group_destroy(group);
  return code;
}

/* A rank of a launched group takes the number of ranks from the group, unless --procs is given (hd_ddp compares
 * them), and resumes the run that HEDDLE_RESTART names. */
static int join_ranks(hd_config *config, hd_ctx *ctx, int ranks) {
  char text[16];
  const char *again = getenv("HEDDLE_RESTART");
  snprintf(text, sizeof text, "%d", ranks);
  if ((int)hd_config_get_int(config, HD_OPT_PROCS) <= 1)
    CLI_TRY(hd_config_set(config, ctx, "procs", text));
  return again && *again ? hd_config_set(config, ctx, "resume", again) : HD_OK;
}

static int start(hd_ctx *ctx, hd_config *config, int count, char **operand) {
  int32_t rank, ranks;
  const int is_rank = hd_launched(&rank, &ranks);
  if (is_rank)
    CLI_TRY(join_ranks(config, ctx, ranks));
  else if ((ranks = (int)hd_config_get_int(config, HD_OPT_PROCS)) > 1)
    return cli_launch_ranks(ctx, ranks, NULL, 0, NULL);
  return run(ctx, config, is_rank);
}

/* A rank with a wrong command line joins the others only to report the error: they would wait for it. heddle's launcher
 * detects its end without that. */
static void tell_ranks(hd_ctx *ctx, const char *why) {
  const hd_group_settings settings = {
      .struct_bytes = sizeof settings, .backend = HD_GROUP_SHM, .rank = -1, .world_size = -1, .timeout_s = 10};
  hd_group *group;
  int32_t rank, ranks;
  if (getenv("HEDDLE_WORLD") || !hd_launched(&rank, &ranks) || ranks == 1 ||
      hd_group_init(&group, ctx, &settings) != HD_OK)
    return;
  hd_group_give_up(group, why);
  hd_group_destroy(group);
}

const cli_command cli_train = {.name = "train",
                               .help = "train a model, evaluate it, save it",
                               .usage = "heddle train [options]: trains a model, evaluates it, saves it",
                               .run = start,
                               .refused = tell_ranks};
