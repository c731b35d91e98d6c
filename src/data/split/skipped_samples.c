/* Finds unreadable samples and their stand-ins; see skipped_samples.h. */
#include "data/split/skipped_samples.h"

#include <stdatomic.h>

#include "base/alloc.h"
#include "base/digest.h"
#include "base/event_log.h"
#include "platform/parallel_for.h"

enum { GRAIN = 16 };

/* State that changes while other threads read. */
typedef struct marks {
  int64_t found;
  uint8_t of[]; /* unreadable samples */
} marks;

struct hd_skips {
  int64_t count, trained; /* trained: those before the validation set */
  marks *marks, *local;   /* local: before they were shared */
  int32_t *labels;
  float *targets; /* the split's, with those of stand-ins */
};

static bool marked(const hd_skips *s, int64_t sample) {
  return __atomic_load_n(&s->marks->of[sample], __ATOMIC_RELAXED);
}

static void mark(hd_skips *s, int64_t sample) {
  if (!__atomic_exchange_n(&s->marks->of[sample], 1, __ATOMIC_RELAXED))
    __atomic_add_fetch(&s->marks->found, 1, __ATOMIC_RELAXED);
}

/* The next one in a circle: of the samples to train on, or of the validation set. */
static int64_t next_of(const hd_skips *s, int64_t sample) {
  const bool validation = sample >= s->trained;
  if (sample + 1 < (validation ? s->count : s->trained))
    return sample + 1;
  return validation ? s->trained : 0;
}

/* The sample, or the next without a mark, which exists. */
static int64_t stand_in(const hd_skips *s, int64_t sample) {
  while (marked(s, sample))
    sample = next_of(s, sample);
  return sample;
}

bool hd__skips_has(const hd_split *split, int64_t sample) { return split->skips && marked(split->skips, sample); }

int64_t hd__skips_count(const hd_split *split) {
  return split->skips ? __atomic_load_n(&split->skips->marks->found, __ATOMIC_RELAXED) : 0;
}

int64_t hd__skips_unread(const hd_split *split) { return hd__skips_count(split) + split->left_out; }

int64_t hd__skips_list(int64_t *sample, const hd_split *split, int64_t most) {
  int64_t found = 0;
  for (int64_t i = 0; i < split->count && found < most; i++)
    if (hd__skips_has(split, i))
      sample[found++] = i;
  return found;
}

void hd__skips_mark(const hd_split *split, int64_t sample) {
  if (sample >= 0 && sample < split->skips->count)
    mark(split->skips, sample);
}

size_t hd__skips_bytes(const hd_split *split) { return split->skips ? sizeof(marks) + (size_t)split->skips->count : 0; }

void hd__skips_share(const hd_split *split, void *memory) {
  hd_skips *s = split->skips;
  s->marks = memory;
  for (int64_t i = 0; i < s->count; i++)
    if (s->local->of[i])
      mark(s, i);
}

hd_status hd__skips_get(void *elems, int size[2], hd_ctx *ctx, const hd_split *split, int64_t *sample) {
  hd_skips *s = split->skips;
  if (!s)
    return hd__split_get(elems, size, ctx, split, *sample);
  for (int64_t tried = 0; tried < s->count; tried++, *sample = next_of(s, *sample)) {
    if (marked(s, *sample))
      continue;
    hd_status status = hd__split_get(elems, size, ctx, split, *sample);
    if (status == HD_OK || status == HD_E_NOMEM)
      return status;
    mark(s, *sample);
    HD_LOG(DATA, "sample %lld skipped: %s", (long long)*sample, hd_ctx_message(ctx));
  }
  return hd__fail(ctx, HD_E_IO, "expected samples that can be read, found none left of %lld; check the files",
                  (long long)s->count);
}

/* Samples that several threads try to read. */
typedef struct trial {
  hd_skips *skips;
  const hd_split *split;
  int64_t *elems; /* NULL, or the number of elements of each sample */
  atomic_bool starved;
} trial;

static void try_some(void *arg, int64_t first, int64_t end) {
  trial *t = arg;
  HD_OWNED void *room = hd__malloc((size_t)hd__split_most_bytes(t->split));
  for (int64_t i = first; i < end; i++) {
    hd_ctx ctx = {0};
    int size[2] = {0};
    const hd_status status = room ? hd__split_get(room, size, &ctx, t->split, i) : HD_E_NOMEM;
    if (status == HD_E_NOMEM)
      atomic_store(&t->starved, true);
    else if (status != HD_OK)
      mark(t->skips, i);
    else if (t->elems)
      t->elems[i] = (int64_t)size[0] * size[1] * t->split->channels;
  }
}

/* Reads all samples; elems[i], if not NULL, gets the number of elements of sample i. */
static hd_status mark_all(hd_skips *s, const hd_split *split, int64_t *elems, hd_ctx *ctx) {
  trial t = {.skips = s, .split = split, .elems = elems};
  hd__parallel_for(s->count, GRAIN, try_some, &t);
  return t.starved ? hd__fail(ctx, HD_E_NOMEM, "out of memory for a sample") : HD_OK;
}

/* The message of the first sample, if none of [first, end) can be read. */
static hd_status check_some(const hd_skips *s, const hd_split *split, hd_ctx *ctx, int64_t first, int64_t end) {
  int size[2];
  for (int64_t i = first; i < end; i++)
    if (!marked(s, i))
      return HD_OK;
  HD_OWNED void *room = hd__malloc((size_t)hd__split_most_bytes(split));
  hd_status status = room ? hd__split_get(room, size, ctx, split, first) : HD_E_NOMEM;
  if (status == HD_E_NOMEM || status == HD_OK)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for a sample");
  return hd__fail_in(ctx, status, "no sample of %lld can be read", (long long)(end - first));
}

/* Whether training and validation samples have one each that can be read. */
static hd_status check_rest(const hd_skips *s, const hd_split *split, hd_ctx *ctx) {
  HD_TRY(check_some(s, split, ctx, 0, s->trained));
  return s->trained < s->count ? check_some(s, split, ctx, s->trained, s->count) : HD_OK;
}

/* Copies labels and targets, with those of stand-ins. */
static hd_status adopt_labels(hd_skips *s, hd_split *split, hd_ctx *ctx) {
  const size_t outputs = (size_t)split->outputs;
  if (split->labels)
    s->labels = hd__malloc((size_t)s->count * sizeof *s->labels);
  if (split->targets)
    s->targets = hd__malloc((size_t)s->count * outputs * sizeof *s->targets);
  if ((split->labels && !s->labels) || (split->targets && !s->targets))
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the labels of %lld samples", (long long)s->count);
  for (int64_t i = 0; i < s->count; i++) {
    const int64_t from = stand_in(s, i);
    if (s->labels)
      s->labels[i] = split->labels[from];
    if (s->targets)
      memcpy(s->targets + (size_t)i * outputs, split->targets + (size_t)from * outputs, outputs * sizeof *s->targets);
  }
  split->labels = s->labels;
  split->targets = s->targets;
  return HD_OK;
}

/* Replaces unreadable samples by stand-ins. */
static hd_status adopt(hd_skips *s, hd_split *split, const int64_t *elems, hd_ctx *ctx) {
  HD_TRY(check_rest(s, split, ctx));
  if (s->marks->found == 0)
    return HD_OK;
  HD_TRY(adopt_labels(s, split, ctx));
  split->all_elems = 0;
  for (int64_t i = 0; elems && i < s->count; i++)
    split->all_elems += elems[stand_in(s, i)];
  if (split->key) { /* caches on disk contain the stand-ins */
    const uint64_t both[2] = {split->key, hd__xxh3(s->marks->of, (size_t)s->count)};
    split->key = hd__xxh3(both, sizeof both);
  }
  return HD_OK;
}

hd_status hd__skips_find(hd_skips **out, hd_split *split, hd_ctx *ctx) {
  hd_skips *s = *out = hd__calloc(1, sizeof *s);
  HD_TRY(HD_ALLOCATED(s, ctx, "out of memory for a list of samples"));
  s->count = split->count;
  s->trained = split->count - split->validation;
  s->marks = s->local = hd__calloc(1, sizeof(marks) + (size_t)s->count);
  HD_OWNED int64_t *elems = split->mixed ? hd__calloc((size_t)s->count, sizeof *elems) : NULL;
  hd_status status = HD_ALLOCATED(s->marks && (elems || !split->mixed), ctx, "out of memory for a list of %lld samples",
                                  (long long)s->count);
  HD_THEN(status, mark_all(s, split, elems, ctx));
  HD_THEN(status, adopt(s, split, elems, ctx));
  split->skips = s;
  return status;
}

void hd__skips_destroy(hd_skips *s) {
  if (!s)
    return;
  hd__free(s->local);
  hd__free(s->labels);
  hd__free(s->targets);
  hd__free(s);
}
