/* Training, evaluating and saving, driven by a configuration.
 *
 *     hd_ctx *ctx; hd_config *config; hd_session *session;
 *     hd_ctx_create(&ctx);
 *     hd_config_create(&config, ctx);
 *     hd_config_set_text(config, ctx, HD_OPT_MODEL, "cnn");
 *     hd_session_create(&session, ctx, config);
 *     hd_session_train(session, ctx, on_event, NULL);
 *     printf("%s\n", hd_session_report(session)->weights_sha256);
 *
 * A custom training loop calls hd_session_step instead, until hd_session_done.
 *
 * Thread safety: a session may be used by one thread at a time, except hd_session_stop and hd_session_terminate.
 * Sessions share no state: any number may exist in one process and train in separate threads, each with its own context
 * and run folder. The library never prints: progress is reported by a callback.
 *
 * Stack: the calling thread computes too. Creating a session, a predictor or an evaluation on a thread with less than
 * 240 KB of stack is HD_E_SYSTEM.
 *
 * Forks: a child may create sessions, and use its copies of contexts, tensors and predictors. Sessions, loaders with
 * workers, pools and groups stay with the process that created them: in a child their calls fail with HD_E_USAGE, and
 * destroying them leaves the parent's as they are. */
#ifndef HEDDLE_SESSION_H
#define HEDDLE_SESSION_H

#include <stddef.h>
#include <stdint.h>

#include "heddle/config.h"
#include "heddle/device.h"
#include "heddle/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { HD_SHA256_TEXT_BYTES = 65, HD_MAX_CLASSES_REPORTED = 4096 };

typedef struct hd_session hd_session;

/* A share of the threads' time inside of steps: an operation of a layer, "conv1 forward" or "conv1 dx" (the gradient
 * of its input) or "conv1 dw" (of its parameters); "samples", "update" and the like. */
typedef struct hd_profile_item {
  const char *name;
  double share; /* of all threads' time, a fraction */
} hd_profile_item;

/* Results of the option profile. A long run keeps its first and its last steps; shares are of those. */
typedef struct hd_profile {
  const char *path;
  int64_t steps, kept; /* run by this session; kept in the file */
  int32_t items;
  const hd_profile_item *item; /* largest first */
  double waiting;              /* share spent at barriers; with the items' shares nearly 1 */
  int32_t waiter, awaited;     /* the thread of all ranks that waited longest, and for which; -1 with one thread */
  int32_t waiter_rank, awaited_rank;
  double longest; /* the share of that thread's time spent waiting for the other */
} hd_profile;

/* A rank of a run: its process, where it runs, and the CPUs that its threads are bound to, "0,2" or "any". */
typedef struct hd_rank_place {
  int32_t pid, threads;
  char host[72], cpus[248];
} hd_rank_place;

/* Where the time of a rank's threads went inside of steps: seconds, on average over its threads. */
typedef struct hd_rank_time {
  double data_s;       /* samples: read by threads, or waited for and copied from loader workers */
  double compute_s;    /* everything except samples and waiting */
  double waiting_s;    /* for threads that came later */
  int32_t waited_for;  /* the rank it waited longest for; may be itself, for its other threads; -1: none */
  double waited_for_s; /* of waiting_s */
} hd_rank_time;

/* The work of a rank for a stage, on a number of its threads. */
typedef struct hd_stage_rank {
  int32_t rank, pid, threads;
  int64_t shards;  /* that were taken forward and backward */
  double waited_s; /* a thread's mean wait for other stages: the pipeline's bubble */
} hd_stage_rank;

/* A stage of a network that is cut into several (the option stages): its layers, and the ranks that computed them. */
typedef struct hd_stage {
  const char *first, *last;
  int64_t parameters;
  int32_t ranks;
  const hd_stage_rank *rank;
} hd_stage;

/* What adds the gradients of several GPUs: heddle, in the order of the reduction tree; or NCCL. */
typedef enum hd_gpu_sums { HD_GPU_SUMS_NONE, HD_GPU_SUMS_TREE, HD_GPU_SUMS_NCCL } hd_gpu_sums;

/* Settings and results of a run; texts are owned by the session. Times are in seconds, memory in bytes, accuracies
 * are fractions. Losses are means, also of an unfinished epoch. NAN: not measured. One struct with all of them, as the
 * last line of `heddle train --json` has them. */
typedef struct hd_report {
  const char *model, *data, *device, *isa, *out;
  hd_optimizer_choice optimizer;
  hd_arithmetic_choice arithmetic;
  hd_precision_choice precision;
  const char *device_note; /* one line: why --device auto chose it, that a GPU is idle, why NCCL is not used; else "" */
  const char *library;     /* of the arithmetic native, with its core type; else "" */
  hd_gpu_sums gpu_sums;    /* what adds the gradients of several GPUs */
  const char *nccl;        /* "NCCL 2.28.3" if it adds them, else "" */
  int64_t epochs, steps, batch, shards, accumulate, seed;
  int64_t steps_in_all;            /* at the run's end: by --epochs or --max-steps */
  int64_t parameters, trainable;   /* all, and those that are not frozen */
  int32_t threads, ranks, workers; /* as they run; threads and workers of this rank */
  const hd_rank_place *rank;       /* each of them */
  const hd_rank_time *rank_time;   /* of each; NULL without other ranks, and before the first step */
  int32_t hosts;                   /* on which ranks run */
  const char *transport;           /* between hosts, "Open MPI v4.1.4"; "" on one */
  int32_t cpus;                    /* that this process may use */
  int64_t val_samples;             /* held out by --val-split */
  double train_loss, val_loss, val_accuracy, test_loss, test_accuracy;
  double startup_s, train_s, wall_s; /* from the start of the process to the first step; of this session's steps; from
                                      * the start of the process to now */
  double samples_per_s;              /* of this session's steps; 0 before one */
  double waited_s;                   /* of train_s, mean wait of a thread for loader workers */
  int64_t peak_rss_bytes;            /* the most memory of this process since its program began, this rank's alone */
  int32_t idle_gpus;                 /* GPUs that were idle at the end of hd_session_train, if the CPU computed */
  const hd_gpu_memory *gpu_memory;   /* of each GPU, rank after rank; other ranks' as when training began. NULL on the
                                    * CPU, and before the end of hd_session_train or hd_session_step */
  int32_t gpus;                      /* entries of gpu_memory */
  int64_t memory_bytes; /* allocated for weights, state, activations, gradients, copies: hd_summary predicts it */
  char weights_sha256[HD_SHA256_TEXT_BYTES];
  int64_t resumed_step;       /* 0 for a fresh run */
  int32_t arithmetic_version; /* of the numbers, docs/arithmetic.md */
  int32_t resumed_arithmetic; /* the version of the steps before; 0 for a fresh run */
  int stopped;                /* ended by hd_session_stop */
  int64_t wrong;              /* test samples that the model got wrong, -1 before an evaluation */
  int64_t skipped,
      test_skipped;          /* samples to train on, and to test, that could not be read; -1 unless on-error is skip */
  const hd_profile *profile; /* NULL without the option, and before it was written */
  const char *wrong_png;     /* the picture of these, "" if none was drawn */
  const char *metric;        /* the option's text, "" without one, */
  double val_metric, test_metric; /* and its value */
  int32_t stages;                 /* 0: the network is not cut */
  const hd_stage *stage;          /* each of them; what was done is known after hd_session_train */
  const char *arithmetic_note;    /* one line: what an earlier version of the arithmetic means here; else "" */
  const char *input_note;         /* one line: how an ONNX file normalises its input, and the data with it; else "" */
  double epochs_asked;            /* the option: 1.5, for which `epochs` is 2 */
  int32_t all_cpus;               /* that the ranks of all hosts may use */
  double test_r2, test_mean_absolute_error,
      test_root_mean_square_error; /* with the losses mse, l1 and huber, in the targets' numbers; else NAN */
  const char *threads_note;        /* why --threads auto chose this number, "" if it did not choose */
  double test_perplexity;          /* of a text: exp(test_loss), of a token; else NAN */
  double test_bits_per_byte;       /* of a text whose tokens are characters or bytes; else NAN */
  double val_iou, test_iou;        /* where each pixel has a class: the mean IoU over classes; else NAN. The accuracies
                                    * and `wrong` are of pixels then */
} hd_report;

typedef enum hd_event_kind {
  HD_EVENT_STEP,  /* each step */
  HD_EVENT_LOG,   /* each --log-every steps: the line that went to metrics.jsonl */
  HD_EVENT_EPOCH, /* an epoch ended and was saved and, as --eval-epochs has it, evaluated */
  HD_EVENT_EVAL,  /* an evaluation within an epoch */
  HD_EVENT_SAVED, /* a checkpoint is on its way to the disk */
  HD_EVENT_NOTE,  /* a message: `text` */
  HD_EVENT_SAMPLE /* --sample-every: a text that the network writes, `text` */
} hd_event_kind;

typedef struct hd_event {
  hd_event_kind kind;
  int64_t step;  /* done so far, counted from 1 */
  int64_t epoch; /* counted from 0 */
  double loss;   /* STEP, LOG: of that step, before its update; EPOCH: mean over the epoch */
  double lr;
  double samples_per_s;            /* NAN before this session has trained a step */
  double val_loss, val_accuracy;   /* EPOCH, EVAL; NAN without a validation split or an evaluation */
  double test_loss, test_accuracy; /* EPOCH, EVAL; NAN without an evaluation */
  const char *text;                /* NOTE, SAMPLE; valid during the call */
  double loss_sum;                 /* STEP: the sum whose mean is `loss`, as losses.bin has it */
} hd_event;

/* Called on the thread that called hd_session_train; STEP and LOG events while the other threads compute, so it
 * should return quickly. */
typedef void hd_event_fn(void *user, const hd_event *event);

/* Opens the data, plans the model, allocates everything. Errors that do not depend on training occur here. */
HD_API hd_status hd_session_create(hd_session **out, hd_ctx *ctx, const hd_config *config);
HD_API void hd_session_destroy(hd_session *session);

/* Trains to the end, evaluates and saves at each epoch's end. HD_E_INTERRUPTED after hd_session_stop: the step was
 * finished and the state saved. HD_E_NOTFINITE: the last good checkpoint is untouched. */
HD_API hd_status hd_session_train(hd_session *session, hd_ctx *ctx, hd_event_fn *on_event, void *user);

/* Of a session, an event's function may call hd_session_stop, hd_session_save and what only reads; at EPOCH and EVAL
 * also hd_session_evaluate and hd_session_set_lr. Others are HD_E_USAGE there.
 *
 * Like hd_session_train, but trains `steps` more steps (1 or more; fewer at the run's end), without a callback.
 * Evaluates and saves at the end of an epoch and of the run, as hd_session_train does. *loss (may be NULL) gets the
 * mean over the samples of these steps, each before its update; NAN if there was no step left. The number of steps
 * per call does not change the weights. A final hd_session_train trains the remaining steps and completes the
 * report. HD_E_USAGE: ranks asked for different numbers of steps; nothing has changed. */
HD_API hd_status hd_session_step(double *loss, hd_session *session, hd_ctx *ctx, int64_t steps);

/* Every step has been trained. */
HD_API int hd_session_done(const hd_session *session);

/* Evaluates the weights as they are: test_loss, test_accuracy and wrong of the report. Changes no weights. */
HD_API hd_status hd_session_evaluate(hd_session *session, hd_ctx *ctx);

/* Saves a checkpoint of the weights as they are, and completes weights_sha256. Several ranks call it together, and it
 * is on the disk when it returns HD_OK to any of them. */
HD_API hd_status hd_session_save(hd_session *session, hd_ctx *ctx);

/* Writes what the option profile recorded so far, as hd_session_train does at its end, and sums it up in the report.
 * Several ranks call it together, and rank 0 writes. HD_E_USAGE without that option. */
HD_API hd_status hd_session_profile(hd_session *session, hd_ctx *ctx);

/* The session's device; and moving it to another device for the remaining steps: the weights and the optimizer's
 * state keep their bits, and checkpoints continue in the same folder. On failure the session stays on its device:
 * HD_E_UNSUPPORTED if there is no such GPU, or the run uses a feature of the CPU only; HD_E_NOMEM. */
HD_API hd_device hd_session_device(const hd_session *session);
HD_API hd_status hd_session_to(hd_session *session, hd_ctx *ctx, hd_device device);

/* The learning rate of the next step; and setting it, in the place of what the schedule has there: later rates of the
 * schedule, and those of parameters with rates of their own, change in the same proportion. To be called between steps:
 * between calls of hd_session_step, or by a callback at HD_EVENT_EPOCH and HD_EVENT_EVAL; then the layout changes no
 * bit. Checkpoints have the proportion, so a resumed run goes on with it; such a run cannot be certified or verified,
 * since its options do not define it. HD_E_USAGE: during steps, a negative or infinite rate, or a schedule that is at
 * 0; HD_E_UNSUPPORTED: with several ranks. */
HD_API double hd_session_lr(const hd_session *session);
HD_API hd_status hd_session_set_lr(hd_session *session, hd_ctx *ctx, double lr);

/* Before the first step: takes over the weights, the optimizer's state and its number of steps from a checkpoint (a
 * run's folder or a step's) of the same model and optimizer, which was trained on other data or on the same. The
 * session's own steps and epochs are counted from its beginning; samples are shuffled, and random numbers drawn, as
 * after `epochs` epochs, those that were trained before. So sessions of an epoch each, on the same data, train to the
 * bits of one run. The run is recorded as one that went on: it can be resumed, but neither certified nor verified.
 * HD_E_USAGE: after the first step, another model, optimizer or arithmetic; HD_E_UNSUPPORTED: several ranks, loader
 * workers, lookahead, a learning rate that is not constant. After another failure destroy the session. */
HD_API hd_status hd_session_go_on(hd_session *session, hd_ctx *ctx, const char *checkpoint, int64_t epochs);

/* Asks a running hd_session_train or hd_session_step to finish its step, save and return. Safe in a signal handler and
 * from any thread. */
HD_API void hd_session_stop(hd_session *session);

/* Likewise, where the process is going to be killed soon, as mpirun kills ranks a moment after SIGTERM: until the steps
 * have ended, another host counts as lost (HD_E_PEER) if it is silent for 0.3 s, so that there is time left to save. */
HD_API void hd_session_terminate(hd_session *session);

/* Owned by the session; complete after hd_session_train. */
HD_API const hd_report *hd_session_report(const hd_session *session);

/* The scores of an output with targets of its own: of a regression (mse, l1, huber), or of a label if a sample may have
 * several (bce_with_logits on float targets). NAN: not defined, see docs/data.md. */
typedef struct hd_output_score {
  int64_t positives; /* samples with the label */
  int32_t binary;    /* each target is 0 or 1, without which a label has no score */
  double f1, auc;    /* of a label */
  double r2, mean_absolute_error, root_mean_square_error; /* of a number */
} hd_output_score;

/* What a head of a network with several losses does. NAN: not of its loss. */
enum { HD_HEAD_NAME_BYTES = 65, HD_LOSS_NAME_BYTES = 32 };
typedef struct hd_head_score {
  char name[HD_HEAD_NAME_BYTES]; /* the layer's */
  char loss_name[HD_LOSS_NAME_BYTES];
  double loss;                    /* its mean, without its weight */
  double accuracy;                /* cross_entropy; bce_with_logits: of all its outputs, above 0.5 or not */
  double r2, mean_absolute_error; /* mse, l1, huber: the means over its outputs */
} hd_head_score;

/* Which samples hd_evaluate took. */
typedef enum hd_evaluated {
  HD_EVALUATED_OWN,    /* the run's test set */
  HD_EVALUATED_SAME,   /* also, of the data given, which are the run's */
  HD_EVALUATED_TEST,   /* the test set of other data */
  HD_EVALUATED_ALL,    /* all of other data, which have no test set */
  HD_EVALUATED_CHANGED /* the test set of the run's data, which are not as in training */
} hd_evaluated;

typedef struct hd_evaluation {
  size_t struct_bytes; /* sizeof(hd_evaluation) */
  int64_t samples;
  int64_t skipped;                      /* unreadable samples, not counted in `samples` (the option on-error) */
  double loss, accuracy;                /* accuracy: NAN if the model predicts no classes */
  double mean_absolute_error;           /* of the outputs, with the losses mse, l1 and huber; else NAN */
  int32_t classes;                      /* 0 if the model predicts none */
  int64_t *class_samples, *class_right; /* of each class */
  int64_t *confusion;                   /* classes x classes, row: label, column: guess */
  double f1, auc;                       /* of classes, see docs/data.md; else NAN */
  double r2;                            /* of the outputs, with the losses mse, l1 and huber; else NAN */
  double root_mean_square_error;        /* of these; the mean over the outputs, as the two above */
  int32_t outputs;                      /* that have targets of their own; else 0 */
  hd_output_score *output;              /* of each; f1 and auc above are the means over those that have one (macro) */
  double f1_micro, auc_micro;           /* over all labels as if they were one; else NAN */
  char **class_names;                   /* a class that the run's data had no name for: NULL; no names: NULL */
  hd_evaluated part;                    /* the samples */
  double perplexity, bits_per_byte;     /* as those of hd_report */
  double iou;                           /* where each pixel has a class: the mean IoU over classes; else NAN. Counts of
                                         * classes, `confusion`, accuracy and f1 are of pixels then, auc is NAN */
  double *class_iou;                    /* of each class, NAN where there is none; NULL with `iou` NAN */
  int32_t heads;                        /* of a model with several losses, whose weighted sum `loss` is; else 0 */
  hd_head_score *head;
} hd_evaluation;

/* Evaluates a checkpoint (a run's folder or a step's) on the test set of the configuration's data, or of the run's
 * data if `data` is not set; other data without a test set are evaluated whole. Uses only the configuration's data,
 * data-dir, on-error, threads and device. Release the result with hd_evaluation_fini. If an earlier heddle stored some
 * weights in another order, the context's message notes that they were converted. */
HD_API hd_status hd_evaluate(hd_evaluation *out, hd_ctx *ctx, const char *checkpoint, const hd_config *config);
HD_API void hd_evaluation_fini(hd_evaluation *evaluation);

/* SHA-256 over the weights of a checkpoint (a run's folder, a step's folder or a model.safetensors), as 64
 * hex digits. */
HD_API hd_status hd_digest(char text[HD_SHA256_TEXT_BYTES], hd_ctx *ctx, const char *checkpoint);

#ifdef __cplusplus
}
#endif
#endif
