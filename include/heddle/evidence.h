/* Runs as evidence: listing them, certifying one, verifying what a run or its certificate claims, and finding where
 * two runs part.
 *
 *     hd_certify(ctx, "runs/cnn-1", NULL);                    // writes runs/cnn-1/certificate.json
 *     hd_verification v = {.struct_bytes = sizeof v};
 *     const hd_verify_request request = {.struct_bytes = sizeof request, .what = "runs/cnn-1", .seed = -1};
 *     hd_verify(&v, ctx, config, &request);
 *     printf("%s\n", v.verdict == HD_VERIFIED ? "verified" : v.why);
 *
 * A certificate is a JSON file of a few kilobytes: the settings and the model that define the run, digests of its
 * data, a chain of digests over the losses of its steps, its results and the digest of its weights. A program that
 * has the data repeats the run on any layout and finds the same bits. An entry beside these is refused, and so is
 * one of another type than heddle writes.
 *
 * Thread safety: calls with separate contexts may run at the same time. */
#ifndef HEDDLE_EVIDENCE_H
#define HEDDLE_EVIDENCE_H

#include <stddef.h>
#include <stdint.h>

#include "heddle/config.h"
#include "heddle/group.h"
#include "heddle/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes the certificate of a run that has ended, to a path or with NULL to RUN/certificate.json. HD_E_USAGE if the run
 * has not ended, or lacks losses of earlier steps; HD_E_FORMAT if its files do not agree; the data must be there. */
HD_API hd_status hd_certify(hd_ctx *ctx, const char *run, const char *path);

typedef enum hd_verdict {
  HD_VERIFIED,
  HD_REFUTED,       /* something differs: `why` */
  HD_NOT_COMPARABLE /* another arithmetic version, or the data or checkpoints are not there: `why` */
} hd_verdict;

/* Called at the end of each step that was repeated; of all ranks rank 0 calls. Non-zero ends the work with
 * HD_E_INTERRUPTED. */
typedef int hd_verify_progress_fn(void *user, int64_t step, int64_t steps);

typedef struct hd_verify_request {
  size_t struct_bytes;             /* sizeof(hd_verify_request) */
  const char *what;                /* a run's folder, or a certificate */
  int32_t spot;                    /* segments between checkpoints to repeat, drawn at random; 0: the whole run */
  int64_t seed;                    /* of the draw; -1: a new one */
  hd_group *group;                 /* of ranks that share each step; may be NULL */
  hd_verify_progress_fn *progress; /* may be NULL */
  void *user;
} hd_verify_request;

typedef struct hd_verification {
  size_t struct_bytes; /* sizeof(hd_verification) */
  hd_verdict verdict;
  int64_t steps; /* repeated */
  int64_t step;  /* refuted: the first step that differs, counted from 1; 0: none does, or something else differs */
  int64_t seed;  /* of the draw; -1 without one */
  char why[1024];
  char weights_sha256[65]; /* that the certificate claims */
} hd_verification;

/* Repeats a run, or segments of it, and compares losses, checkpoints and results. Of the configuration it takes the
 * layout (threads, procs, accumulate, device and the like), data and data-dir. Collective over the ranks of the group;
 * all get the same verdict. A failure that says nothing of the run, such as memory, is a status. */
HD_API hd_status hd_verify(hd_verification *out, hd_ctx *ctx, const hd_config *layout,
                           const hd_verify_request *request);

typedef enum hd_bisect_verdict {
  HD_RUNS_EQUAL,         /* as far as both went */
  HD_RUNS_DIFFER,        /* the first result that differs is known */
  HD_RUN_NOT_REPEATED,   /* repeated, a run does not have the losses or weights that it states: `why` */
  HD_RUNS_NOT_COMPARABLE /* they compute different things, or losses or data are not there: `why` */
} hd_bisect_verdict;

/* A fault of one unit in the last place, in an element (modulo their number) of a result of a step. Results of a
 * step, from 0: what each call reads of the samples and computes, each gradient, each update, in the order in which
 * one thread computes them. A fault in a result that has no floats is planted in the next one. */
typedef struct hd_fault_place {
  int64_t step; /* counted from 1; 0: none */
  int64_t result, element;
} hd_fault_place;

typedef struct hd_bisect_request {
  size_t struct_bytes; /* sizeof(hd_bisect_request) */
  const char *a, *b; /* folders of runs; b NULL: run a, repeated with the fault; b a file: another program's results */
  hd_fault_place fault;
  hd_verify_progress_fn *progress; /* may be NULL */
  void *user;
  double tolerance; /* of b's results if it is a file, relative to the largest element of a tensor; 0: 1e-3 */
} hd_bisect_request;

typedef struct hd_bisection {
  size_t struct_bytes; /* sizeof(hd_bisection) */
  hd_bisect_verdict verdict;
  int64_t loss_step;  /* the first step whose losses differ, as losses.bin has them; 0: none */
  int64_t from;       /* the step that both runs were repeated from */
  int64_t step;       /* DIFFER: the step of the first result that differs; 0: weights before the first step */
  int64_t result;     /* its number in that step */
  int32_t replays;    /* how often a run was repeated, from `from` on or as a whole */
  char what[192];     /* what computed it: "conv1 forward", "conv1.weight, update" */
  char index[96];     /* its first element that differs, "[3, 12, 5, 7]", as in PyTorch; the first is the sample */
  double value[2];    /* that element in both runs, */
  int64_t ulps;       /* and their distance in units in the last place; -1: they are no floats */
  int64_t results;    /* of the step with the fault */
  char planted[320];  /* what and index of the fault; "" without one */
  char settings[256]; /* the first setting that differs, "" if none does */
  char why[1024];
} hd_bisection;

/* Finds the first result of any kernel in which two runs differ. Their losses name a step; both are repeated from the
 * last checkpoint before it that is equal in both, on one thread, and every result of every step is compared. Of the
 * configuration it takes data and data-dir. */
HD_API hd_status hd_bisect(hd_bisection *out, hd_ctx *ctx, const hd_config *layout, const hd_bisect_request *request);

/* Runs in a folder, and what their files say. */
typedef struct hd_runs hd_runs;

/* Reads the runs in a folder and in the folders in it, by name; the caller owns the list. A folder that is not a run is
 * passed over; hd_runs_damage names those whose run.json cannot be read. */
HD_API hd_status hd_runs_open(hd_runs **out, hd_ctx *ctx, const char *folder);
HD_API void hd_runs_close(hd_runs *runs);
HD_API int64_t hd_runs_count(const hd_runs *runs);

/* What is wrong with a run that was left out for it, by index from 0, in a line that names its file; NULL: there are no
 * more. Owned by the list. */
HD_API const char *hd_runs_damage(const hd_runs *runs, int64_t index);

/* A value of a run as text, "" if it has none: "run" (its folder), "state" (done, stopped, failed, running, or
 * unfinished), "time", a setting's name, a path of its last line of history.jsonl ("test_accuracy", "outputs.0.r2"),
 * a path of run.json ("data.name"), "samples.0.step" and "samples.0.text" (texts of --sample-every), "command" (as a
 * shell takes it), or "unreadable_lines" (of metrics.jsonl, which were passed over). Owned by the list, valid until the
 * next call. */
HD_API const char *hd_runs_value(const hd_runs *runs, int64_t run, const char *key);

/* Numbers of a run, in order. Owned by the list, valid until the next call. */
typedef struct hd_run_numbers {
  size_t struct_bytes; /* sizeof(hd_run_numbers) */
  int64_t count;
  const double *step;  /* that each belongs to, from 1; of a list: its place */
  const double *value; /* finite */
  int64_t missing;     /* of "loss": steps that losses.bin lacks; those that were logged are among the numbers */
} hd_run_numbers;

/* The numbers with a key: "loss", the mean loss of each step; another key of the lines of metrics.jsonl ("lr",
 * "test_loss"); or a list in history.jsonl, with all numbers in it: "confusion" (of the test set, classes x classes,
 * row: label, column: guess), "rank_times" (of each rank data_s, compute_s, waiting_s), "outputs.0.scatter" (targets
 * of the test set, each with its output), "character_samples" and "character_losses" (of a text's characters or bytes,
 * how often the test set has them, and the mean loss there), "samples" (steps of its texts). Of a list in metrics.jsonl
 * ("test_classes"), the last. None where a run has no such key. */
HD_API hd_status hd_runs_numbers(hd_run_numbers *out, hd_runs *runs, hd_ctx *ctx, int64_t run, const char *key);

#ifdef __cplusplus
}
#endif
#endif
