/* Optimizers by groups of sixteen elements, which are independent. Values that are not finite are collected in a group,
 * which is checked once at the end; lanes beyond a short tail are left out, as zeros there may divide by zero. */
#pragma once

#include "kernel/cpu/cpu_fill.h"
#include "kernel/cpu/group16.h"

/* The part of an update that a group of elements uses: `left` elements from `i`, 16 or more for a whole group. */
typedef struct update16 {
  const hd_update *u;
  int64_t i, left;
  hd_streams streams; /* a constant where this is inlined; not none: the group is whole, and a line of each output */
} update16;

G16 g16 update16_take(const float *from, update16 at) {
  if (at.streams)
    g16_fetch(from + at.i);
  return g16_load_some(from + at.i, at.left);
}

/* Writes a result, past the caches or not, and records values that are not finite. */
G16 g16 update16_write(float *to, g16 value, update16 at, g16 seen, int streams) {
  if (streams)
    g16_stream(to + at.i, value);
  else
    g16_store_some(to + at.i, value, at.left);
  if (at.left < 16)
    value = g16_choose(g16_first((int)at.left), value, g16_zero());
  return g16_note_not_finite(seen, value);
}

G16 g16 update16_put_state(float *to, g16 value, update16 at, g16 seen) {
  return update16_write(to, value, at, seen, at.streams >= HD_STREAM_STATES);
}

G16 g16 update16_put_weight(float *to, g16 value, update16 at, g16 seen) {
  if (at.u->kept)
    g16_store_some(at.u->kept + at.i, value, at.left);
  return update16_write(to, value, at, seen, at.streams >= HD_STREAM_ALL);
}

/* A group's new version; values that are not finite are recorded in `seen`. `rule` is a constant where this is
 * inlined. */
typedef g16 update16_group(update16 at, g16 seen, int rule);

/* The elements before the first whole line of all outputs; all of them where their lines begin at different ones. */
static inline int64_t update16_head(const hd_update *u) {
  const uintptr_t at = (uintptr_t)u->w1 / sizeof(float) % 16;
  for (int s = 0; s < HD_MAX_STATES; s++)
    if (u->s1[s] && (uintptr_t)u->s1[s] / sizeof(float) % 16 != at)
      return u->count;
  return (int64_t)(16 - at) % 16;
}

/* The scalars are copied: no store can change the copy, so they stay in registers. */
G16 int update16_all(const hd_update *given, update16_group *group, int rule) {
  const hd_hyper hyper = *given->hyper;
  hd_update u = *given;
  u.hyper = &hyper;
  g16 seen = g16_zero();
  int64_t i = 0;
  const int64_t head = u.streams ? update16_head(&u) : u.count;
  if (head + 16 <= u.count) {
    if (head > 0)
      seen = group((update16){&u, 0, head, HD_STREAM_NONE}, seen, rule);
    i = head;
    if (u.streams == HD_STREAM_ALL)
      for (; i + 16 <= u.count; i += 16)
        seen = group((update16){&u, i, 16, HD_STREAM_ALL}, seen, rule);
    else
      for (; i + 16 <= u.count; i += 16)
        seen = group((update16){&u, i, 16, HD_STREAM_STATES}, seen, rule);
    g16_end_streams();
  }
  for (; i + 16 <= u.count; i += 16)
    seen = group((update16){&u, i, 16, HD_STREAM_NONE}, seen, rule);
  if (i < u.count)
    seen = group((update16){&u, i, u.count - i, HD_STREAM_NONE}, seen, rule);
  return g16_any_noted(seen);
}
