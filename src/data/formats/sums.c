/* The built-in sums: all sums of two numbers from 10 to 99 as a text to complete, "37+58=95", in a drawn order. What
 * follows '=', the end of the line included, are the labels; a sum is right if all of it is. A fifth is the test
 * set. */
#include "data/formats/formats.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "data/loader/sampler.h"

enum { LOWEST = 10, NUMBERS = 90, ALL = NUMBERS * NUMBERS, TEST_SUMS = ALL / 5, CONTEXT = 9, PROMPT = 6 };

static const char ALPHABET[] = "\n+0123456789=";
enum { TOKENS = sizeof ALPHABET - 1 };

typedef struct sums {
  uint16_t pair[ALL]; /* training, then test */
} sums;

static bool takes(hd_ctx *ctx, const char *name) { return !strcmp(name, "sums"); }

static void write_sum(float *x, int32_t *label, const hd_split *split, const hd_window *w) {
  const uint16_t pair = ((const uint16_t *)split->self)[w->sample];
  const int a = LOWEST + pair / NUMBERS, b = LOWEST + pair % NUMBERS;
  char line[CONTEXT + 2] = "";
  const int length = snprintf(line, sizeof line, "%d+%d=%d\n", a, b, a + b);
  for (int i = w->first; i < w->first + w->count; i++) {
    const char now = i < length ? line[i] : '\n', next = i + 1 < length ? line[i + 1] : '\n';
    if (x)
      x[i - w->first] = (float)(strchr(ALPHABET, now) - ALPHABET);
    if (label)
      label[i - w->first] = i + 1 >= PROMPT && i + 1 < length ? (int32_t)(strchr(ALPHABET, next) - ALPHABET) : -1;
  }
}

static hd_status get(void *elems, int size[2], hd_ctx *ctx, const hd_split *split, int64_t sample) {
  write_sum(elems, NULL, split, &(hd_window){.sample = sample, .count = CONTEXT});
  size[0] = 1;
  size[1] = CONTEXT;
  return HD_OK;
}

static hd_status open_sums(hd_dataset *out, hd_ctx *ctx, const hd_dataset_request *request) {
  void *self;
  HD_OWNED uint64_t *scratch = hd__malloc(hd__permute_words(ALL) * sizeof *scratch);
  HD_TRY(HD_ALLOCATED(scratch, ctx, "out of memory for sums"));
  HD_TRY(hd__dataset_hold(&self, out, ctx, sizeof(sums), NULL));
  sums *s = self;
  const uint64_t *sorted = hd__permute(scratch, ALL, 0, HD_RNG_SUMS, 0);
  for (int i = 0; i < ALL; i++)
    s->pair[i] = (uint16_t)sorted[i];
  out->names.text = hd__calloc(TOKENS, 2);
  out->names.name = hd__calloc(TOKENS, sizeof *out->names.name);
  HD_TRY(HD_ALLOCATED(out->names.text && out->names.name, ctx, "out of memory for sums"));
  out->names.count = TOKENS;
  for (int i = 0; i < TOKENS; i++) {
    out->names.text[2 * i] = ALPHABET[i];
    out->names.name[i] = out->names.text + (size_t)i * 2;
  }
  for (int i = 0; i < 2; i++)
    out->split[i] = (hd_split){.count = i ? TEST_SUMS : ALL - TEST_SUMS,
                               .elem = HD_ELEM_F32,
                               .channels = 1,
                               .height = 1,
                               .width = CONTEXT,
                               .flat = true,
                               .get = get,
                               .window = write_sum,
                               .whole_answers = true,
                               .self = s->pair + (i ? ALL - TEST_SUMS : 0),
                               .key = (uint64_t)i + 1,
                               .classes = TOKENS,
                               .class_names = out->names.name};
  return HD_OK;
}

const hd_format hd__format_sums = {
    .name = "sums to complete", .takes = takes, .open = open_sums, .names = {"sums"}, .text = true};
