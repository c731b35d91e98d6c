/* Comparing texts of all ranks line by line: hd__cluster_compare, see cluster.h. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "exec/exchange/cluster.h"

enum { LINE_TEXT_BYTES = 400 };

/* Line number `n` of a text, cut to the room there is; "" behind the last line. */
static void line_of(char line[LINE_TEXT_BYTES], const char *text, int n) {
  for (; n > 0 && *text; n--)
    text += strcspn(text, "\n") + (text[strcspn(text, "\n")] == '\n');
  snprintf(line, LINE_TEXT_BYTES, "%.*s", (int)strcspn(text, "\n"), text);
}

static int lines_of(const char *text) {
  int lines = 1;
  for (; *text; text++)
    lines += *text == '\n';
  return lines;
}

/* FNV-1a hash of a text: texts are compared line by line only if their hashes differ. */
static uint64_t sum_of(const char *text) {
  uint64_t sum = UINT64_C(0xcbf29ce484222325);
  for (; *text; text++)
    sum = (sum ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
  return sum;
}

typedef struct summary {
  uint64_t sum;
  int32_t lines;
} summary;

/* " on NAME" if there are several hosts. */
static void where_is(char text[80], const hd_local_group *w, int rank) {
  *text = 0;
  for (int h = 0; h < hd__cluster_count(w) && hd__cluster_count(w) > 1; h++)
    for (int place = hd__cluster_first(w, h); place < hd__cluster_first(w, h + 1); place++)
      if (hd__cluster_member(w, place) == rank)
        snprintf(text, 80, " on %s", hd__cluster_name(w, h));
}

static hd_status differ(const hd_local_group *w, hd_ctx *ctx, const char *what, const char *first, int rank,
                        const char *other) {
  char here[80], there[80];
  where_is(here, w, 0);
  where_is(there, w, rank);
  return hd__fail(
      ctx, HD_E_USAGE,
      "expected all ranks to have the same %s, found that rank 0%s has '%s' and rank %d%s '%s'; give all of them "
      "the same",
      what, here, first, rank, there, other);
}

static hd_status name_difference(hd_local_group *w, hd_ctx *ctx, const char *what, const char *text, int lines) {
  char input[LINE_TEXT_BYTES], *all = hd__malloc((size_t)hd__cluster_ranks(w) * sizeof input);
  hd_status status = all ? HD_OK : hd__fail(ctx, HD_E_NOMEM, "out of memory for %s", what);
  for (int n = 0; n < lines && status == HD_OK; n++) {
    memset(input, 0, sizeof input);
    line_of(input, text, n);
    status = hd__cluster_gather(all, w, ctx, input, sizeof input);
    for (int r = 1; r < hd__cluster_ranks(w) && status == HD_OK; r++)
      if (strcmp(all, all + (size_t)r * sizeof input))
        status = differ(w, ctx, what, all, r, all + (size_t)r * sizeof input);
  }
  hd__free(all);
  return status;
}

hd_status hd__cluster_compare(hd_local_group *w, hd_ctx *ctx, const char *what, const char *text) {
  summary all[HD_LOCAL_GROUP_MOST_RANKS], input = {.sum = sum_of(text), .lines = lines_of(text)};
  if (hd__cluster_ranks(w) == 1)
    return HD_OK;
  HD_TRY(hd__cluster_gather(all, w, ctx, &input, sizeof input));
  bool differs = false;
  int lines = 0;
  for (int r = 0; r < hd__cluster_ranks(w); r++) {
    differs |= all[r].sum != all[0].sum;
    lines = all[r].lines > lines ? all[r].lines : lines;
  }
  return differs ? name_difference(w, ctx, what, text, lines) : HD_OK;
}
