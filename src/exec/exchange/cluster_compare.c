/* Comparing named values of all ranks: hd__cluster_compare, see cluster.h.
 *
 * Ranks gather a hash of the whole text, and nothing more if all are equal. Otherwise they gather a hash of each line
 * up to the first that differs, then that line in blocks up to the first difference, and what the message shows. Every
 * rank sees the same data and fails with the same message. */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "exec/exchange/cluster.h"

enum {
  BLOCK_BYTES = 1024,
  NAME_BYTES = 64,
  SHOWN_BYTES = 120,
  BEFORE_BYTES = 40,
  NUMBERS_BYTES = 80,
  RANKS_BYTES = 160
};

/* FNV-1a hash of a line or a text. */
static uint64_t sum_of(const char *text, size_t length) {
  uint64_t sum = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < length; i++)
    sum = (sum ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
  return sum;
}

/* Line number `n` of a text and its length; NULL behind the last line. */
static const char *line_of(size_t *length, const char *text, int n) {
  for (; n > 0 && *text; n--)
    text += strcspn(text, "\n") + (text[strcspn(text, "\n")] == '\n');
  *length = strcspn(text, "\n");
  return *text ? text : NULL;
}

/* The first rank whose entry differs from rank 0's; 0: none. */
static int first_odd(const hd_local_group *group, const void *all, size_t bytes) {
  for (int r = 1; r < hd__cluster_ranks(group); r++)
    if (memcmp(all, (const char *)all + (size_t)r * bytes, bytes) != 0)
      return r;
  return 0;
}

/* Finds the first line that differs, and a rank whose line is not rank 0's: there is one. */
static hd_status find_line(int *line, int *odd, hd_local_group *group, hd_ctx *ctx, const char *text) {
  HD_OWNED uint64_t *all = hd__malloc((size_t)hd__cluster_ranks(group) * sizeof *all);
  HD_TRY(HD_ALLOCATED(all, ctx, "out of memory for comparing ranks"));
  *odd = 0;
  for (*line = 0; *odd == 0; ++*line) {
    size_t length;
    const char *at = line_of(&length, text, *line);
    const uint64_t sum = at ? sum_of(at, length) : 0;
    HD_TRY(hd__cluster_gather(all, group, ctx, &sum, sizeof sum));
    *odd = first_odd(group, all, sizeof sum);
  }
  --*line;
  return HD_OK;
}

/* Where the lines of rank 0 and rank `odd` begin to differ. */
static hd_status find_byte(size_t *out, hd_local_group *group, hd_ctx *ctx, const char *line, size_t length, int odd) {
  char block[BLOCK_BYTES];
  HD_OWNED char *all = hd__malloc((size_t)hd__cluster_ranks(group) * sizeof block);
  HD_TRY(HD_ALLOCATED(all, ctx, "out of memory for comparing ranks"));
  const char *other = all + (size_t)odd * sizeof block;
  for (size_t from = 0;; from += sizeof block) {
    memset(block, 0, sizeof block);
    if (from < length)
      memcpy(block, line + from, length - from < sizeof block ? length - from : sizeof block);
    HD_TRY(hd__cluster_gather(all, group, ctx, block, sizeof block));
    for (size_t i = 0; i < sizeof block; i++)
      if (all[i] != other[i]) {
        *out = from + i;
        return HD_OK;
      }
  }
}

/* What a rank has, as the message shows it. */
typedef struct shown {
  uint64_t sum; /* of the line */
  char name[NAME_BYTES], value[SHOWN_BYTES];
} shown;

static bool continues_character(char c) { return ((unsigned char)c & 0xc0) == 0x80; }

/* The name and the value of a line, NULL for none; of a long value what lies around byte `at` of the line. */
static void show(shown *out, const char *line, size_t length, size_t at) {
  *out = (shown){.sum = line ? sum_of(line, length) : 0};
  if (!line)
    return;
  const char *tab = memchr(line, '\t', length), *value = tab ? tab + 1 : line + length, *end = line + length;
  snprintf(out->name, sizeof out->name, "%.*s", (int)(tab ? tab - line : (ptrdiff_t)length), line);
  const bool is_long = (size_t)(end - value) >= sizeof out->value;
  const char *from = is_long && line + at > value + BEFORE_BYTES ? line + at - BEFORE_BYTES : value;
  while (from > value && from < end && continues_character(*from))
    from++;
  const char *dots = from > value ? "..." : "";
  size_t room = sizeof out->value - 1 - strlen(dots) - strlen("...");
  const bool cut = (size_t)(end - from) > sizeof out->value - 1 - strlen(dots);
  while (cut && room > 0 && continues_character(from[room]))
    room--;
  snprintf(out->value, sizeof out->value, "%s%.*s%s", dots, cut ? (int)room : (int)(end - from), from,
           cut ? "..." : "");
}

/* "1" or "0,2-4": the ranks that have what rank `like` has, cut where they are many. */
static void list_numbers(char text[NUMBERS_BYTES], const shown *all, int ranks, int like) {
  size_t at = 0;
  for (int r = like, last; r < ranks && at < NUMBERS_BYTES; r = last + 1) {
    last = r;
    if (all[r].sum != all[like].sum)
      continue;
    while (last + 1 < ranks && all[last + 1].sum == all[like].sum)
      last++;
    if (at > NUMBERS_BYTES - 16) {
      snprintf(text + at, NUMBERS_BYTES - at, ",...");
      return;
    }
    at += (size_t)snprintf(text + at, NUMBERS_BYTES - at, last > r ? "%s%d-%d" : "%s%d", r > like ? "," : "", r, last);
  }
}

/* "rank 1 on b has", "ranks 0,2-4 have": with their host, where there are several and all of them are on one. */
static void list_ranks(char text[RANKS_BYTES], const hd_local_group *group, const shown *all, int like) {
  const int ranks = hd__cluster_ranks(group), host = hd__cluster_of(group, like);
  char numbers[NUMBERS_BYTES];
  bool has_place = !hd__cluster_is_one_host(group);
  int count = 0;
  for (int r = like; r < ranks; r++)
    if (all[r].sum == all[like].sum) {
      count++;
      has_place &= hd__cluster_of(group, r) == host;
    }
  list_numbers(numbers, all, ranks, like);
  snprintf(text, RANKS_BYTES, "%s %s%s%.64s %s", count == 1 ? "rank" : "ranks", numbers, has_place ? " on " : "",
           has_place ? hd__cluster_name(group, host) : "", count == 1 ? "has" : "have");
}

static void quote(char text[SHOWN_BYTES + 2], const char *value) {
  snprintf(text, SHOWN_BYTES + 2, *value ? "'%s'" : "none", value);
}

static hd_status differ(const hd_local_group *group, hd_ctx *ctx, const shown *all, int odd) {
  char first[RANKS_BYTES], second[RANKS_BYTES], has[SHOWN_BYTES + 2], other[SHOWN_BYTES + 2];
  list_ranks(first, group, all, 0);
  list_ranks(second, group, all, odd);
  quote(has, all[0].value);
  quote(other, all[odd].value);
  return hd__fail(ctx, HD_E_USAGE, "%s must be the same on all ranks: %s %s, and %s %s; give all ranks the same",
                  *all[0].name ? all[0].name : all[odd].name, first, has, second, other);
}

/* The texts of ranks differ. */
static hd_status name_difference(hd_local_group *group, hd_ctx *ctx, const char *text) {
  int line, odd;
  size_t length, at;
  shown this_rank;
  HD_OWNED shown *all = hd__malloc((size_t)hd__cluster_ranks(group) * sizeof *all);
  HD_TRY(HD_ALLOCATED(all, ctx, "out of memory for comparing ranks"));
  HD_TRY(find_line(&line, &odd, group, ctx, text));
  const char *found = line_of(&length, text, line);
  HD_TRY(find_byte(&at, group, ctx, found, length, odd));
  show(&this_rank, found, length, at);
  HD_TRY(hd__cluster_gather(all, group, ctx, &this_rank, sizeof this_rank));
  return differ(group, ctx, all, odd);
}

hd_status hd__cluster_compare(hd_local_group *group, hd_ctx *ctx, const char *text) {
  uint64_t all[HD_LOCAL_GROUP_MOST_RANKS];
  const uint64_t sum = sum_of(text, strlen(text));
  if (hd__cluster_ranks(group) == 1)
    return HD_OK;
  HD_TRY(hd__cluster_gather(all, group, ctx, &sum, sizeof sum));
  return first_odd(group, all, sizeof sum) ? name_difference(group, ctx, text) : HD_OK;
}
