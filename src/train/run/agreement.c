/* Comparing what all ranks must have in common: see agreement.h. Each part is a text with a line "NAME<tab>VALUE" for
 * each value, which hd__cluster_compare compares. */
#include "train/run/agreement.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json_text.h"
#include "base/number.h"
#include "base/version.h"
#include "exec/exchange/cluster.h"
#include "op/op.h"
#include "optimizer/optimizer.h"
#include "reduce/reduction_tree.h"

/* ---- A text of named values ---- */

typedef struct values {
  FILE *to;
  char *text;
  size_t bytes;
} values;

static hd_status begin(values *v, hd_ctx *ctx) {
  *v = (values){0};
  v->to = open_memstream(&v->text, &v->bytes);
  return HD_ALLOCATED(v->to, ctx, "out of memory for comparing ranks");
}

static hd_status compare(values *v, const hd_session *s, hd_ctx *ctx) {
  const hd_status status = fclose(v->to) == 0 ? hd__cluster_compare(s->compute.local, ctx, v->text)
                                              : hd__fail(ctx, HD_E_NOMEM, "out of memory for comparing ranks");
  free(v->text);
  return status;
}

/* A value of several lines becomes one line. */
static void put_text(FILE *to, const char *text) {
  for (; *text; text++)
    fputs(*text == '\n' ? "\\n" : (char[]){*text, 0}, to);
}

/* Each line of a text as a value of its own. */
static void put_lines(FILE *to, const char *name, const char *text) {
  for (int line = 1; *text; line++) {
    const int length = (int)strcspn(text, "\n");
    fprintf(to, "line %d of %s\t%.*s\n", line, name, length, text);
    text += length + (text[length] == '\n');
  }
}

/* ---- Settings ---- */

/* The ways in which ranks may differ in an option. */
typedef enum difference {
  NONE,      /* all have the same value */
  IN_VALUES, /* all give it or none does; rank 0 reads it */
  FREE       /* ranks that differ in it wait for each other in the same calls */
} difference;

/* The options that are not compared by value, and why. A new option is compared. */
static const struct {
  hd_option_id id;
  difference may;
} exempt[] = {
    {HD_OPT_MODEL, FREE},           /* a path: the description is compared */
    {HD_OPT_DATA, FREE},            /* a path: the samples are compared */
    {HD_OPT_DATA_DIR, FREE},        /* where a host has them */
    {HD_OPT_CACHE, FREE},           /* likewise */
    {HD_OPT_DEVICE, FREE},          /* which GPU: its kind is compared */
    {HD_OPT_PROCS, FREE},           /* compared with the number of ranks that were started */
    {HD_OPT_NO_SHUFFLE, FREE},      /* compared as --sampler sequential */
    {HD_OPT_THREADS, FREE},         /* hosts may have other numbers of CPUs; those of a host: rank_threads.h */
    {HD_OPT_CPUS, FREE},            /* likewise */
    {HD_OPT_PLACEMENT, FREE},       /* likewise */
    {HD_OPT_WORKERS, FREE},         /* a rank reads its samples by itself */
    {HD_OPT_PREFETCH_FACTOR, FREE}, /* likewise */
    {HD_OPT_PIN_MEMORY, FREE},      /* likewise */
    {HD_OPT_STALL_TIMEOUT, FREE},   /* the shortest one ends a wait */
    {HD_OPT_OUT, FREE},             /* rank 0 writes the run's folder, */
    {HD_OPT_TENSORBOARD, FREE},     /* the event files */
    {HD_OPT_JSON, FREE},            /* and the output */
    {HD_OPT_INIT, IN_VALUES},       /* a path: rank 0 sends the weights */
    {HD_OPT_RESUME, IN_VALUES},     /* a path: the checkpoint is compared */
    {HD_OPT_PROFILE, IN_VALUES},    /* rank 0 writes it, all ranks fill it */
};

static difference difference_in(hd_option_id id) {
  for (size_t i = 0; i < sizeof exempt / sizeof *exempt; i++)
    if (exempt[i].id == id)
      return exempt[i].may;
  return NONE;
}

static void put_number(FILE *to, double value) {
  char number[HD_NUMBER_BYTES];
  hd__format_double(number, value);
  fputs(number, to);
}

/* The optimizer's weight decay if none is given. */
static double default_decay(const hd_config *config) {
  hd_update_settings update;
  hd__config_updates(&update, config);
  hd__optimizer_complete(&update);
  return update.value[HD_SET_weight_decay];
}

/* The value as it was read, so that 1e-3 is 0.001, or the default, also if it depends on other options; nothing for an
 * option without either, which may differ from 0. */
static void put_value(FILE *to, const hd_config *config, hd_option_id id) {
  const hd_settings *settings = hd__settings(config);
  const hd_option_type type = hd_option_at((int)id)->type;
  if (type == HD_OPTION_FLAG) {
    fputs(hd__settings_int(settings, id) ? "true" : "false", to);
  } else if (type == HD_OPTION_REAL && hd__config_has(config, id)) {
    put_number(to, hd__settings_real(settings, id));
  } else if (id == HD_OPT_WEIGHT_DECAY) {
    put_number(to, default_decay(config));
  } else if (type == HD_OPTION_PAIR) {
    put_number(to, hd__settings_pair(settings, id)[0]);
    fputc(',', to);
    put_number(to, hd__settings_pair(settings, id)[1]);
  } else if (id == HD_OPT_SHARDS && !hd__config_has(config, id)) {
    fprintf(to, "%d", (int)hd__tree_default_shards(settings->batch));
  } else if (type == HD_OPTION_INT && hd__config_has(config, id)) {
    fprintf(to, "%lld", (long long)hd__settings_int(settings, id));
  } else {
    put_text(to, hd__config_shown(config, id));
  }
}

/* The options in which ranks may differ in this way. */
static void put_options(FILE *to, const hd_config *config, difference may) {
  for (int i = 0; hd_option_at(i); i++) {
    const hd_option_id id = (hd_option_id)i;
    if (difference_in(id) != may)
      continue;
    fprintf(to, "--%s\t", hd_option_at(i)->name);
    if (may == NONE)
      put_value(to, config, id);
    else
      fputs(hd__config_has(config, id) ? "a path" : "", to);
    fputc('\n', to);
  }
}

/* The versions of what computes. Instruction sets may differ: their tables have the same operations and the same
 * bits. */
static void put_versions(FILE *to) {
  const char *plan = getenv("HEDDLE_PLAN");
  uint64_t sum = UINT64_C(0xcbf29ce484222325);
  for (int op = 0; op < HD_OP_COUNT; op++)
    for (const char *name = hd__op_info((hd_op)op)->name; *name; name++)
      sum = (sum ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
  fprintf(to, "the version of heddle\t%s\n", hd__version());
  fprintf(to, "the version of the arithmetic\t%d\n", HD_ARITHMETIC_VERSION);
  fprintf(to, "the table of operations\t%d operations, %016llx\n", (int)HD_OP_COUNT, (unsigned long long)sum);
  fprintf(to, "HEDDLE_PLAN\t");
  put_text(to, plan ? plan : "");
  fputc('\n', to);
}

/* The checksums of the files of the checkpoint that is resumed. */
static hd_status put_resumed(FILE *to, const hd_session *s, hd_ctx *ctx) {
  json_t *files = json_object_get(s->run.record, "files");
  char *text = files ? hd__json_dump(files, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
  const hd_status status = HD_ALLOCATED(!files || text, ctx, "out of memory for comparing ranks");
  fprintf(to, "the checkpoint of --resume\t%s\n", text ? text : "");
  free(text);
  return status;
}

hd_status hd__agree_on_settings(const hd_session *s, hd_ctx *ctx) {
  values v;
  if (hd__cluster_ranks(s->compute.local) == 1)
    return HD_OK;
  HD_TRY(begin(&v, ctx));
  put_versions(v.to);
  put_options(v.to, s->run.config, IN_VALUES); /* first: a run that is resumed has more settings */
  const hd_status wrote = put_resumed(v.to, s, ctx);
  fprintf(v.to, "--model\t");
  put_text(v.to, s->run.network.name);
  fputc('\n', v.to);
  put_options(v.to, s->run.config, NONE);
  put_lines(v.to, "the model", s->run.network.text);
  const hd_status status = compare(&v, s, ctx);
  return wrote == HD_OK ? status : wrote;
}

/* ---- Data, device and plan ---- */

static void put_data(FILE *to, const hd_dataset *data) {
  fprintf(to, "the data\t%lld training and %lld test samples, checksums", (long long)hd__dataset_train(data)->count,
          (long long)hd__dataset_test(data)->count);
  for (int i = 0; i < HD_DATA_PARTS; i++)
    fprintf(to, " %016llx", (unsigned long long)data->statistics.checksum[i]);
  fputc('\n', to);
}

/* The ranks of a host share copies of the weights that are packed for one table of kernels. Other hosts may have
 * another one, for the same bits. */
static hd_status compare_kernels(const hd_session *s, hd_ctx *ctx) {
  typedef struct table {
    char isa[32];
  } table;
  const hd_local_group *local = s->compute.local;
  const int ranks = hd__cluster_ranks(local);
  table this_rank = {{0}};
  HD_OWNED table *all = hd__malloc((size_t)ranks * sizeof *all);
  HD_TRY(HD_ALLOCATED(all, ctx, "out of memory for comparing ranks"));
  snprintf(this_rank.isa, sizeof this_rank.isa, "%s", s->compute.kernels->isa);
  HD_TRY(hd__cluster_gather(all, s->compute.local, ctx, &this_rank, sizeof this_rank));
  for (int r = 0; r < ranks; r++) {
    const int first = hd__cluster_member(local, hd__cluster_first(local, hd__cluster_of(local, r)));
    if (strcmp(all[first].isa, all[r].isa) != 0)
      return hd__fail(ctx, HD_E_USAGE,
                      "the ranks of a host must have the same kernels: rank %d has '%s', and rank %d on the same host "
                      "has '%s'; set the same HEDDLE_ISA on both",
                      first, all[first].isa, r, all[r].isa);
  }
  return HD_OK;
}

hd_status hd__agree_on_input(const hd_session *s, hd_ctx *ctx) {
  const bool is_native = s->run.settings->arithmetic != HD_ARITHMETIC_PORTABLE;
  values v;
  if (hd__cluster_ranks(s->compute.local) == 1)
    return HD_OK;
  HD_TRY(begin(&v, ctx));
  put_data(v.to, s->input.data);
  fprintf(v.to, "the kind of --device\t%s\n", s->compute.device.kind);
  fprintf(v.to, "the library of --arithmetic native\t%s\n", hd__session_library(s));
  fprintf(v.to, "the instruction set of --arithmetic native\t%s\n", is_native ? s->compute.kernels->isa : "");
  HD_TRY(compare(&v, s, ctx));
  return compare_kernels(s, ctx);
}

hd_status hd__agree_on_plan(const hd_session *s, hd_ctx *ctx, const hd_plan *plan) {
  char *text = NULL;
  size_t bytes;
  values v;
  if (hd__cluster_ranks(s->compute.local) == 1)
    return HD_OK;
  FILE *to = open_memstream(&text, &bytes);
  HD_TRY(HD_ALLOCATED(to, ctx, "out of memory for comparing ranks"));
  hd__plan_print(plan, to);
  hd_status status = fclose(to) == 0 ? begin(&v, ctx) : hd__fail(ctx, HD_E_NOMEM, "out of memory for comparing ranks");
  if (status == HD_OK) {
    put_lines(v.to, "the plan", text);
    status = compare(&v, s, ctx);
  }
  free(text);
  return status;
}

hd_status hd__agree_on_end(const hd_session *s, hd_ctx *ctx, int64_t end) {
  char text[80];
  snprintf(text, sizeof text, "the step up to which a call trains\t%lld\n", (long long)end);
  return hd__cluster_compare(s->compute.local, ctx, text);
}
