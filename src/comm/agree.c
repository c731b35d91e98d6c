/* Comparing texts of all ranks line by line: hd__hosts_agree, see hosts.h. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "comm/hosts.h"

enum { LINE_TEXT_BYTES = 400 };

/* Line number `n` of a text, cut to the room there is; "" behind the last. */
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

/* FNV-1a: only unequal texts of unequal sums are looked at any closer. */
static uint64_t sum_of(const char *text) {
  uint64_t sum = UINT64_C(0xcbf29ce484222325);
  for (; *text; text++)
    sum = (sum ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
  return sum;
}

typedef struct opinion {
  uint64_t sum;
  int32_t lines;
} opinion;

/* " on NAME" where there are several hosts. */
static void where_is(char text[80], const hd_world *w, int rank) {
  *text = 0;
  for (int h = 0; h < hd__hosts_count(w) && hd__hosts_count(w) > 1; h++)
    for (int place = hd__hosts_first(w, h); place < hd__hosts_first(w, h + 1); place++)
      if (hd__hosts_member(w, place) == rank)
        snprintf(text, 80, " on %s", hd__hosts_name(w, h));
}

static hd_status differ(const hd_world *w, hd_ctx *ctx, const char *what, const char *first, int rank,
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

static hd_status name_difference(hd_world *w, hd_ctx *ctx, const char *what, const char *text, int lines) {
  char mine[LINE_TEXT_BYTES], *all = hd__malloc((size_t)hd__hosts_ranks(w) * sizeof mine);
  hd_status status = all ? HD_OK : hd__fail(ctx, HD_E_NOMEM, "out of memory for %s", what);
  for (int n = 0; n < lines && status == HD_OK; n++) {
    memset(mine, 0, sizeof mine);
    line_of(mine, text, n);
    status = hd__hosts_gather(all, w, ctx, mine, sizeof mine);
    for (int r = 1; r < hd__hosts_ranks(w) && status == HD_OK; r++)
      if (strcmp(all, all + (size_t)r * sizeof mine))
        status = differ(w, ctx, what, all, r, all + (size_t)r * sizeof mine);
  }
  hd__free(all);
  return status;
}

hd_status hd__hosts_agree(hd_world *w, hd_ctx *ctx, const char *what, const char *text) {
  opinion all[HD_WORLD_MOST_RANKS], mine = {.sum = sum_of(text), .lines = lines_of(text)};
  if (hd__hosts_ranks(w) == 1)
    return HD_OK;
  HD_TRY(hd__hosts_gather(all, w, ctx, &mine, sizeof mine));
  bool differs = false;
  int lines = 0;
  for (int r = 0; r < hd__hosts_ranks(w); r++) {
    differs |= all[r].sum != all[0].sum;
    lines = all[r].lines > lines ? all[r].lines : lines;
  }
  return differs ? name_difference(w, ctx, what, text, lines) : HD_OK;
}
