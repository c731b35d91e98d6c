/* The loops of rank_sums.c for one type of elements: ELEMENT is the type, SUMMED the type of sums and products
 * (unsigned for integers, which wrap); IS_NAN; NAME(x) makes the name of a function. */

enum { NAME(run) = 256 / sizeof(ELEMENT) };

static inline ELEMENT NAME(one)(hd_reduce_op op, ELEMENT x, ELEMENT y) {
  switch (op) {
  case HD_REDUCE_PROD: return (ELEMENT)((SUMMED)x * (SUMMED)y);
  case HD_REDUCE_MIN: return y < x || IS_NAN(y) ? y : x;
  case HD_REDUCE_MAX: return y > x || IS_NAN(y) ? y : x;
  default: return (ELEMENT)((SUMMED)x + (SUMMED)y);
  }
}

/* Runs of a fixed length become vectors; `op` is a constant where this is called. */
static inline __attribute__((always_inline)) void NAME(loop)(hd_reduce_op op, ELEMENT *out, const ELEMENT *a,
                                                             const ELEMENT *b, int64_t count) {
  ELEMENT x[NAME(run)], y[NAME(run)];
  int64_t i = 0;
  for (; i + NAME(run) <= count; i += NAME(run)) {
    memcpy(x, a + i, sizeof x);
    memcpy(y, b + i, sizeof y);
    for (int j = 0; j < NAME(run); j++)
      x[j] = NAME(one)(op, x[j], y[j]);
    memcpy(out + i, x, sizeof x);
  }
  for (; i < count; i++)
    out[i] = NAME(one)(op, a[i], b[i]);
}

VECTORS static void NAME(sum)(void *out, const void *a, const void *b, int64_t count) {
  NAME(loop)(HD_REDUCE_SUM, out, a, b, count);
}
VECTORS static void NAME(min)(void *out, const void *a, const void *b, int64_t count) {
  NAME(loop)(HD_REDUCE_MIN, out, a, b, count);
}
VECTORS static void NAME(max)(void *out, const void *a, const void *b, int64_t count) {
  NAME(loop)(HD_REDUCE_MAX, out, a, b, count);
}
VECTORS static void NAME(prod)(void *out, const void *a, const void *b, int64_t count) {
  NAME(loop)(HD_REDUCE_PROD, out, a, b, count);
}

static void NAME(divide)(void *out, int ranks, int64_t count) {
  ELEMENT *x = out;
  for (int64_t i = 0; i < count; i++)
    x[i] = (ELEMENT)(x[i] / ranks);
}

#undef ELEMENT
#undef SUMMED
#undef IS_NAN
#undef NAME
