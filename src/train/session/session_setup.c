/* From a configuration to a session that is ready to train. All that can fail without training fails here. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "exec/exchange/cluster.h"
#include "exec/gpu/gpu_executor.h"
#include "data/loader/skipped_samples.h"
#include "train/settings/settings_agreement.h"
#include "train/settings/transform_options.h"
#include "train/settings/thread_count.h"
#include "train/settings/device_option.h"
#include "train/session/initial_weights.h"
#include "train/settings/sampler_option.h"
#include "train/settings/run_plan.h"
#include "train/session/rank_threads.h"
#include "train/settings/run_record.h"
#include "train/session/session.h"

/* Takes over the choice of --device auto, which was made for this model and this data. */
static hd_status adopt_device(hd_session *s, hd_ctx *ctx) {
  if (strcmp(hd__record_setting(s->record, HD_OPT_device), "auto"))
    return HD_OK;
  const char *chosen = json_string_value(json_object_get(json_object_get(s->record, "machine"), "device"));
  snprintf(s->resumed_device, sizeof s->resumed_device, "%s", chosen ? chosen : "");
  return hd__config_suggest(s->config, ctx, HD_OPT_device, "auto");
}

/* Reads a resumed run: its record, the experiment in it, the folder to load from. */
static hd_status adopt_run(hd_session *s, hd_ctx *ctx, char folder[HD_PATH_BYTES]) {
  const char *from = hd__config_text(s->config, HD_OPT_resume);
  HD_TRY(hd__checkpoint_find(folder, ctx, from));
  HD_TRY(hd__checkpoint_record(&s->record, ctx, folder));
  HD_TRY(hd__record_adopt(s->config, ctx, s->record, from));
  HD_TRY(adopt_device(s, ctx));
  const char *text = json_string_value(json_object_get(s->record, "model_yaml"));
  hd_status status = hd__network_from_text(&s->network, ctx, text, hd__config_text(s->config, HD_OPT_model));
  return status == HD_OK ? HD_OK : hd__fail_in(ctx, status, "%s/run.json", folder);
}

static hd_status choose_threads(hd_session *s, hd_ctx *ctx) {
  const hd_placement_request request = hd_config_placement(s->config);
  return hd__rank_threads_open(&s->threads, ctx, s->local, &request);
}

/* Opens the number and the places of threads that were found best. CPUs are shared with other jobs only under the
 * placement that the user gave. */
static hd_status choose_best_threads(hd_session *s, hd_ctx *ctx, const hd_best *best) {
  hd_placement_request request = {
      .threads = best->threads, .policy = best->placement, .workers = hd_config_placement(s->config).workers};
  HD_TRY(hd__threads_open(&s->threads, ctx, &request));
  const hd_placement_policy policy = hd_config_placement(s->config).policy;
  if (request.policy == policy || !hd__threads_disputed(s->threads))
    return HD_OK;
  hd__threads_destroy(s->threads);
  s->threads = NULL;
  request.policy = policy;
  return hd__threads_open(&s->threads, ctx, &request);
}

/* The last epoch may be incomplete; a run has at least one step. */
static int64_t steps_of(double epochs, int64_t steps_per_epoch) {
  const double steps = floor(epochs * (double)steps_per_epoch + 0.5);
  return steps < 1 ? 1 : (int64_t)steps;
}

/* Derives batch, shards and steps. */
static hd_status choose_steps(hd_session *s, hd_ctx *ctx, int32_t *shards) {
  const hd_config *c = s->config;
  int64_t samples = s->train_feed.count;
  s->batch = s->train_feed.batch = hd__config_int(c, HD_OPT_batch);
  HD_TRY(hd__planned_shards(shards, ctx, c));
  bool drop = hd__config_flag(c, HD_OPT_drop_last);
  s->steps_per_epoch = drop ? samples / s->batch : (samples + s->batch - 1) / s->batch;
  if (s->steps_per_epoch == 0)
    return hd__fail(ctx, HD_E_USAGE,
                    "--drop-last expects at least one full batch of %lld, found %lld samples; use a smaller --batch",
                    (long long)s->batch, (long long)samples);
  s->steps_in_all = steps_of(hd__config_real(c, HD_OPT_epochs), s->steps_per_epoch);
  HD_TRY(hd__schedule_init(&s->schedule, ctx, c, s->steps_in_all, s->steps_per_epoch));
  if (hd__config_has(c, HD_OPT_max_steps) && hd__config_int(c, HD_OPT_max_steps) < s->steps_in_all)
    s->steps_in_all = hd__config_int(c, HD_OPT_max_steps);
  return HD_OK;
}

static hd_status make_plan(hd_plan **out, hd_session *s, hd_ctx *ctx, bool train) {
  hd_graph *graph;
  HD_TRY(hd__network_graph(&graph, ctx, &s->network));
  hd_status status = hd__planned_rules(graph, ctx, s->config);
  if (status != HD_OK) {
    hd__graph_destroy(graph);
    return status;
  }
  hd_plan_settings settings = hd__planned_passes(s->config, train);
  return hd__plan_create(out, ctx, graph, s->cuda ? hd__kernels_cuda() : s->kernels, &settings);
}

static hd_status check_fit(const hd_session *s, hd_ctx *ctx) {
  const char *name = hd__data_name(s->data);
  HD_TRY(hd__augment_check(ctx, &s->train_feed, &s->network, s->plan->graph, name));
  return hd__augment_check(ctx, &s->test_feed, &s->network, s->plan->graph, name);
}

static hd_status make_plans(hd_session *s, hd_ctx *ctx) {
  HD_TRY(make_plan(&s->plan, s, ctx, true));
  HD_TRY(make_plan(&s->eval_plan, s, ctx, false));
  HD_TRY(check_fit(s, ctx));
  return hd__store_create(&s->store, ctx, s->local, s->plan, s->schedule.states);
}

/* Steps that a GPU may have in flight: as many as loader workers have buffers for, since a batch is released when its
 * step has counted. */
static int32_t steps_ahead(const hd_session *s) {
  const int64_t workers = hd__config_int(s->config, HD_OPT_workers);
  const int64_t room = workers * hd__config_int(s->config, HD_OPT_prefetch_factor);
  const int64_t fitting = room < s->steps_per_epoch ? room : s->steps_per_epoch;
  return workers == 0 || fitting > INT32_MAX ? INT32_MAX : (int32_t)fitting;
}

static hd_status make_executors(hd_session *s, hd_ctx *ctx, int32_t shards) {
  hd_exec_settings train = hd__planned_training(s->config, shards, s->schedule.op);
  hd_exec_settings eval = hd__planned_evaluation(s->config);
  train.local = eval.local = s->local;
  train.cuda = eval.cuda = s->cuda;
  train.native = s->cuda && s->cuda->native;
  train.precision = train.native ? hd__device_precision(s->config) : HD_CUDA_F32;
  train.lookahead = steps_ahead(s);
  const bool labels = s->plan->graph->values[s->plan->graph->label].dtype == HD_I32;
  if (s->cuda && labels && hd__config_int(s->config, HD_OPT_workers) == 0 &&
      hd__feed_resident(&s->resident, &s->train_feed))
    train.resident = &s->resident;
  train.fetch_bytes = hd__feed_scratch_bytes(&s->train_feed);
  const int64_t test = hd__feed_scratch_bytes(&s->test_feed);
  const int64_t val = s->val_feed.count > 0 ? hd__feed_scratch_bytes(&s->val_feed) : 0;
  eval.fetch_bytes = val > test ? val : test;
  if (s->cuda) {
    train.executor = eval.executor = &hd__gpu_executor;
    eval.batch = hd__planned_gpu_samples(s->eval_plan, eval.batch);
  }
  HD_TRY(hd__exec_create(&s->exec, ctx, s->plan, s->store, s->threads, &train));
  return hd__exec_create(&s->eval_exec, ctx, s->eval_plan, s->store, s->threads, &eval);
}

hd_status hd__session_equip(hd_session *s, hd_ctx *ctx, int32_t shards) {
  HD_TRY(make_plans(s, ctx));
  return make_executors(s, ctx, shards);
}

static hd_status augment_feeds(hd_session *s, hd_ctx *ctx) {
  const hd_augment lists = hd__augment_of(s->config);
  hd_feed *const feed[3] = {&s->train_feed, &s->test_feed, &s->val_feed};
  for (int i = 0; i < 3; i++)
    if (feed[i]->count > 0)
      HD_TRY(hd__augment_feed(feed[i], ctx, &lists, i == 0 ? HD_PIPELINE_TRAINING : HD_PIPELINE_EVALUATION,
                              hd__data_mean(s->data), hd__data_std(s->data),
                              (uint64_t)hd__config_int(s->config, HD_OPT_seed)));
  s->network.target.of_classes = hd__augment_of_classes(&s->train_feed);
  if (hd__augment_of_classes(&s->test_feed) != s->network.target.of_classes)
    return hd__fail(
        ctx, HD_E_USAGE,
        "--eval-transforms expects one_hot as --transforms does, found it in one list alone; give it in both");
  return HD_OK;
}

static hd_status make_feeds(hd_session *s, hd_ctx *ctx) {
  const double *mean = hd__data_mean(s->data), *std = hd__data_std(s->data);
  const hd_dataset *test = hd__data_test(s->data);
  double held_out = hd__config_real(s->config, HD_OPT_val_split);
  HD_TRY(hd__feed_init(&s->train_feed, ctx, hd__data_train(s->data), s->kernels, mean, std));
  HD_TRY(hd__feed_init(&s->test_feed, ctx, test, s->kernels, mean, std));
  if (held_out > 0)
    HD_TRY(
        hd__feed_split(&s->val_feed, &s->train_feed, ctx, held_out, (uint64_t)hd__config_int(s->config, HD_OPT_seed)));
  HD_TRY(hd__order_feed(&s->train_feed, ctx, s->config, hd__data_name(s->data)));
  HD_TRY(augment_feeds(s, ctx));
  return HD_OK;
}

/* Shared memory for guesses: each rank fills in the samples that its threads evaluate. */
static hd_status make_guesses(hd_session *s, hd_ctx *ctx) {
  const int64_t test = hd__data_test(s->data)->count, most = s->val_feed.count > test ? s->val_feed.count : test;
  const size_t each = sizeof(float) + sizeof(float) + sizeof(int32_t);
  HD_TRY(hd__local_group_memory(&s->guess_memory, s->local, ctx, (size_t)most * each, "the evaluation's samples"));
  s->guesses.loss = s->guess_memory.base;
  s->guesses.probability = s->guesses.loss + most;
  s->guesses.guess = (int32_t *)(s->guesses.probability + most);
  return HD_OK;
}

/* Shares the marks of samples that a rank could not read: all ranks leave them out and count them. */
static hd_status share_skips(hd_session *s, hd_ctx *ctx) {
  const hd_dataset *train = hd__data_train(s->data), *test = hd__data_test(s->data);
  const size_t first = (hd__skips_bytes(train) + 7) / 8 * 8, bytes = first + hd__skips_bytes(test);
  if (hd__local_group_ranks(s->local) == 1 || bytes == 0)
    return HD_OK;
  HD_TRY(hd__local_group_memory(&s->skip_memory, s->local, ctx, bytes, "the marks of samples"));
  if (hd__skips_bytes(train) > 0)
    hd__skips_share(train, s->skip_memory.base);
  if (hd__skips_bytes(test) > 0)
    hd__skips_share(test, (char *)s->skip_memory.base + first);
  return hd__local_group_barrier(s->local, ctx);
}

static int by_number(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* Leaders: exchanges the marks that hosts have found, found[h] samples of host h; *distinct is the number of different
 * samples. */
static hd_status join_marks(int64_t *distinct, hd_session *s, hd_ctx *ctx, const hd_dataset *split,
                            const int64_t *found) {
  const int hosts = hd__cluster_count(s->local), this_host = hd__cluster_this_host(s->local);
  int64_t all = 0, before = 0, *bytes = hd__calloc((size_t)hosts, sizeof *bytes);
  for (int h = 0; h < hosts; h++) {
    before += h < this_host ? found[h] : 0;
    all += found[h];
  }
  int64_t *list = hd__calloc((size_t)all + 1, sizeof *list);
  hd_status status = HD_OK;
  if (!list || !bytes)
    status = hd__fail(ctx, HD_E_NOMEM, "out of memory for the marks of %lld samples", (long long)all);
  for (int h = 0; h < hosts && status == HD_OK; h++)
    bytes[h] = found[h] * (int64_t)sizeof *list;
  if (status == HD_OK) {
    hd__skips_list(list + before, split, found[this_host]);
    status = hd__cluster_join_blocks(NULL, s->local, ctx, &(hd_blocks){.data = list, .bytes = bytes}, 1, NULL);
  }
  if (status == HD_OK)
    qsort(list, (size_t)all, sizeof *list, by_number);
  *distinct = 0;
  for (int64_t i = 0; i < all && status == HD_OK; i++) {
    hd__skips_mark(split, list[i]);
    *distinct += i == 0 || list[i] != list[i - 1];
  }
  hd__free(list);
  hd__free(bytes);
  return status;
}

/* `counts` are those of all ranks, this split's at [r][which]. Nothing is exchanged unless a host found a sample since
 * all had the same marks; all ranks know how many those were. */
static hd_status spread_marks(hd_session *s, hd_ctx *ctx, const int64_t (*counts)[2], int which) {
  const hd_dataset *split = which ? hd__data_test(s->data) : hd__data_train(s->data);
  const int hosts = hd__cluster_count(s->local);
  int64_t *found = hd__calloc((size_t)hosts, sizeof *found), distinct = 0;
  int64_t *here = hd__calloc((size_t)hd__local_group_ranks(s->local), sizeof *here);
  bool news = false;
  hd_status status = found && here ? HD_OK : hd__fail(ctx, HD_E_NOMEM, "out of memory for the marks of samples");
  for (int h = 0; h < hosts && status == HD_OK; h++) {
    found[h] = counts[hd__cluster_member(s->local, hd__cluster_first(s->local, h))][which];
    news |= found[h] != s->spread_skips[which];
  }
  if (news && hd__local_group_rank(s->local) == 0)
    status = join_marks(&distinct, s, ctx, split, found);
  if (news && status == HD_OK)
    status = hd__local_group_gather(here, s->local, ctx, &distinct, sizeof distinct);
  if (news && status == HD_OK)
    s->spread_skips[which] = here[0];
  hd__free(found);
  hd__free(here);
  return status;
}

hd_status hd__session_spread_skips(hd_session *s, hd_ctx *ctx) {
  const hd_dataset *train = hd__data_train(s->data), *test = hd__data_test(s->data);
  if (hd__cluster_count(s->local) == 1 || hd__skips_bytes(train) + hd__skips_bytes(test) == 0)
    return HD_OK;
  const int64_t this_rank[2] = {hd__skips_count(train), hd__skips_count(test)};
  int64_t(*all)[2] = hd__malloc((size_t)hd__cluster_ranks(s->local) * sizeof *all);
  if (!all)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the marks of samples");
  hd_status status = hd__cluster_gather(all, s->local, ctx, this_rank, sizeof this_rank);
  for (int which = 0; which < 2 && status == HD_OK; which++)
    status = spread_marks(s, ctx, (const int64_t(*)[2])all, which);
  hd__free(all);
  return status;
}

/* Sets the first weights: drawn, from --init, or from the checkpoint. */
static hd_status fill_store(hd_session *s, hd_ctx *ctx, const char *resumed) {
  char path[HD_PATH_BYTES];
  s->counters = (hd_counters){.best_score = -INFINITY, .best_loss = INFINITY, .step_loss = NAN};
  if (resumed) {
    HD_TRY(hd__checkpoint_load_state(s->store, &s->counters, ctx, s->schedule.op, resumed, s->record));
    HD_TRY(hd__file_join(path, ctx, resumed, "model.safetensors"));
    HD_TRY(hd__checkpoint_load_weights(s->store, ctx, path, s->record));
  } else if (hd__config_has(s->config, HD_OPT_init)) {
    HD_TRY(hd__checkpoint_load_weights(s->store, ctx, hd__config_text(s->config, HD_OPT_init), NULL));
  } else {
    hd__init_params(s->store, s->plan, (uint64_t)hd__config_int(s->config, HD_OPT_seed));
  }
  hd__store_pack(s->store, s->plan);
  return HD_OK;
}

/* Copies the first host's weights and states to the other hosts. */
static hd_status copy_to_hosts(hd_session *s, hd_ctx *ctx, uint64_t version) {
  hd_store *store = s->store;
  const hd_directory *d = store->directory;
  if (hd__cluster_count(s->local) > 1 && hd__local_group_rank(s->local) == 0) {
    hd__store_set_version(store, version);
    const int half = hd__store_buffer(store);
    HD_TRY(hd__cluster_broadcast(s->local, ctx, store->weights[half], d->param_elems * (int64_t)sizeof(float)));
    for (int i = 0; i < d->states; i++)
      HD_TRY(hd__cluster_broadcast(s->local, ctx, store->state[half][i], d->trained_elems * (int64_t)sizeof(float)));
    hd__store_pack(store, s->plan);
  }
  return hd__local_group_barrier(s->local, ctx);
}

/* Rank 0 sets the weights for all ranks, and broadcasts the counters that belong to them. */
static hd_status fill_weights(hd_session *s, hd_ctx *ctx, const char *resumed) {
  typedef struct filled {
    hd_counters counters;
    uint64_t version;
  } filled;
  filled this_rank, *all = hd__malloc((size_t)hd__cluster_ranks(s->local) * sizeof *all);
  if (!all)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the counters of %d ranks", hd__cluster_ranks(s->local));
  hd_status status = hd__session_writes(s) ? fill_store(s, ctx, resumed) : HD_OK;
  this_rank = (filled){s->counters, hd__store_version(s->store)};
  if (status == HD_OK)
    status = hd__cluster_gather(all, s->local, ctx, &this_rank, sizeof this_rank);
  if (status == HD_OK) {
    s->counters = all[0].counters;
    status = copy_to_hosts(s, ctx, all[0].version);
  }
  hd__free(all);
  return status;
}

const char *hd__session_library(const hd_session *s) {
  if (!s->cuda)
    return hd__planned_library(s->config);
  return s->cuda->native ? hd__cuda_native_name(s->cuda->native) : "";
}

const char *hd__session_isa(const hd_session *s) { return s->cuda ? s->cuda->arch : s->kernels->isa; }

int64_t hd__session_bytes(const hd_session *s) {
  return (int64_t)s->store->segment.bytes + hd__exec_bytes(s->exec) + hd__exec_bytes(s->eval_exec) + s->saver.bytes;
}

static void note_sums(hd_session *s) {
  const char *why = hd__exec_gpu_sums_why(s->exec);
  if (*why)
    snprintf(s->device_note, sizeof s->device_note, "gradients of GPUs are added along the tree, not by NCCL: %s", why);
}

static void fill_report(hd_session *s, int32_t shards) {
  int64_t parameters = 0, trainable = 0;
  for (int p = 0; p < s->plan->param_count; p++) {
    const hd_param *param = &s->plan->graph->params[p];
    parameters += param->running ? 0 : hd__param_elems(param);
    trainable += s->plan->params[p].trained ? hd__param_elems(param) : 0;
  }
  s->report = (hd_report){.model = s->network.name,
                          .data = hd__data_name(s->data),
                          .optimizer = hd__config_text(s->config, HD_OPT_optimizer),
                          .device = s->device,
                          .arithmetic = hd__config_text(s->config, HD_OPT_arithmetic),
                          .precision = hd__config_text(s->config, HD_OPT_precision),
                          .isa = hd__session_isa(s),
                          .device_note = s->device_note,
                          .library = hd__session_library(s),
                          .gpu_sums = hd__exec_gpu_sums(s->exec),
                          .out = s->out,
                          .epochs = (int64_t)ceil(hd__config_real(s->config, HD_OPT_epochs)),
                          .steps = s->counters.step,
                          .batch = s->batch,
                          .shards = shards,
                          .accumulate = hd__config_int(s->config, HD_OPT_accumulate),
                          .seed = hd__config_int(s->config, HD_OPT_seed),
                          .steps_in_all = s->steps_in_all,
                          .parameters = parameters,
                          .trainable = trainable,
                          .threads = hd__threads_count(s->threads),
                          .ranks = hd__cluster_ranks(s->local),
                          .hosts = hd__cluster_count(s->local),
                          .transport = hd__cluster_transport(s->local),
                          .rank = s->places,
                          .cpus = hd__threads_cpus(s->threads),
                          .val_samples = s->val_feed.count,
                          .train_loss = NAN,
                          .val_loss = NAN,
                          .val_accuracy = NAN,
                          .test_loss = NAN,
                          .test_accuracy = NAN,
                          .memory_bytes = hd__session_bytes(s),
                          .resumed_step = s->counters.step,
                          .wrong = -1,
                          .skipped = -1,
                          .test_skipped = -1,
                          .wrong_png = s->wrong_png};
}

/* Gathers the places of all ranks, for the report. */
static hd_status find_places(hd_session *s, hd_ctx *ctx) {
  const int threads = hd__threads_count(s->threads), ranks = hd__cluster_ranks(s->local);
  hd_rank_place this_rank = {.pid = (int32_t)getpid(), .threads = threads};
  snprintf(this_rank.host, sizeof this_rank.host, "%s", hd__cluster_name(s->local, hd__cluster_this_host(s->local)));
  size_t at = 0;
  for (int i = 0; i < threads && at < sizeof this_rank.cpus && hd__threads_cpu(s->threads, i) >= 0; i++)
    at += (size_t)snprintf(this_rank.cpus + at, sizeof this_rank.cpus - at, "%s%d", i ? "," : "",
                           hd__threads_cpu(s->threads, i));
  if (at == 0)
    snprintf(this_rank.cpus, sizeof this_rank.cpus, "any");
  s->places = hd__calloc((size_t)ranks, sizeof *s->places);
  if (!s->places)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the places of ranks");
  return hd__cluster_gather(s->places, s->local, ctx, &this_rank, sizeof this_rank);
}

/* --threads auto: uses the number that was found best. A number given by the user stands, also by --cpus,
 * hd_set_num_threads or OMP_NUM_THREADS. */
static hd_status settle_threads(hd_session *s, hd_ctx *ctx, int32_t shards) {
  const char *omp = getenv("OMP_NUM_THREADS");
  bool given = strcmp(hd__config_text(s->config, HD_OPT_threads), "auto") || hd__config_has(s->config, HD_OPT_cpus);
  if (given || ctx->threads || (omp && *omp) || s->local || s->cuda)
    return HD_OK;
  hd_best best = hd__best_threads_recall(s);
  if (!best.threads)
    best = hd__best_threads_search(s, ctx);
  const bool placed = best.placement == hd_config_placement(s->config).policy;
  if (!best.threads || (best.threads == hd__threads_count(s->threads) && placed))
    return HD_OK;
  hd__exec_destroy(s->exec);
  hd__exec_destroy(s->eval_exec);
  hd__threads_destroy(s->threads);
  s->exec = s->eval_exec = NULL;
  s->threads = NULL;
  HD_TRY(choose_best_threads(s, ctx, &best));
  HD_TRY(make_executors(s, ctx, shards));
  fill_report(s, shards);
  return HD_OK;
}

hd_status hd__session_supply(hd_supply **out, hd_ctx *ctx, hd_session *s, const hd_threads *threads, int workers,
                             int64_t repeats) {
  const hd_graph *graph = s->plan->graph;
  const hd_value *input = &graph->values[graph->input], *label = &graph->values[graph->label];
  const hd_supply_settings settings = {.feed = &s->train_feed,
                                       .seed = (uint64_t)s->report.seed,
                                       .batch = s->batch,
                                       .steps_per_epoch = s->steps_per_epoch,
                                       .sample_elems = hd__shape_elems(&input->shape),
                                       .outputs = label->dtype == HD_F32 ? (int32_t)hd__shape_elems(&label->shape) : 0,
                                       .workers = workers,
                                       .prefetch_factor = (int32_t)hd__config_int(s->config, HD_OPT_prefetch_factor),
                                       .pin = hd__config_flag(s->config, HD_OPT_pin_memory),
                                       .exec = s->local ? s->exec : NULL, /* other ranks read the other rows */
                                       .repeats = repeats,
                                       .place = hd__threads_workers(threads)};
  *out = NULL;
  return workers > 0 ? hd__supply_create(out, ctx, &settings) : HD_OK;
}

hd_status hd__session_setup(hd_session *s, hd_ctx *ctx) {
  char folder[HD_PATH_BYTES];
  int32_t shards;
  bool resumes = hd__config_has(s->config, HD_OPT_resume);
  if (resumes)
    HD_TRY(adopt_run(s, ctx, folder));
  HD_TRY(hd__config_complete(s->config, ctx));
  if (!resumes)
    HD_TRY(hd__network_find(&s->network, ctx, hd__config_text(s->config, HD_OPT_model)));
  if (hd__config_has(s->config, HD_OPT_label_smoothing))
    s->network.label_smoothing = hd__config_real(s->config, HD_OPT_label_smoothing);
  HD_TRY(hd__device_open(&s->cuda, s->device, sizeof s->device, ctx, s->config, s->local));
  HD_TRY(s->cuda ? hd__planned_kernels(&s->kernels, ctx) : hd__planned_run_kernels(&s->kernels, ctx, s->config));
  if (resumes)
    HD_TRY(hd__record_check_library(ctx, s->record, hd__session_library(s), hd__config_text(s->config, HD_OPT_resume)));
  HD_TRY(choose_threads(s, ctx));
  HD_TRY(find_places(s, ctx));
  hd_data_request request = hd__config_data(s->config);
  request.ignored = s->network.target.ignored;
  HD_TRY(hd__data_open(&s->data, ctx, &request));
  if (resumes)
    HD_TRY(hd__record_check_data(ctx, s->record, s->data, hd__config_text(s->config, HD_OPT_resume)));
  HD_TRY(make_feeds(s, ctx));
  HD_TRY(hd__agree(s, ctx));
  HD_TRY(share_skips(s, ctx));
  HD_TRY(make_guesses(s, ctx));
  HD_TRY(choose_steps(s, ctx, &shards));
  HD_TRY(hd__session_equip(s, ctx, shards));
  HD_TRY(fill_weights(s, ctx, resumes ? folder : NULL));
  note_sums(s);
  fill_report(s, shards);
  HD_TRY(settle_threads(s, ctx, shards));
  HD_TRY(hd__rank_times_init(&s->rank_times, ctx, s->exec, s->places, hd__cluster_ranks(s->local), s->cuda != NULL));
  HD_TRY(hd__gpu_accounts_gather(&s->gpu_memory, ctx, s->local, s->cuda));
  json_decref(s->record);
  s->record = NULL;
  HD_TRY(hd__record_make(&s->record, ctx, s->config, &s->network, s->data, shards, hd__threads_count(s->threads)));
  HD_TRY(hd__record_note_device(s->record, ctx, s->device, hd__session_isa(s)));
  HD_TRY(hd__record_note_library(s->record, ctx, hd__session_library(s)));
  return hd__session_count_skips(s, ctx);
}
