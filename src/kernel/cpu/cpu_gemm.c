/* The product of two matrices, for the gradients of linear layers and for eager tensors.
 *
 * Groups lie along the columns of c. A block of rows by groups fills the registers and stays there for all p; a
 * panel, the columns of one block, is multiplied with all rows before the next. A long sum is computed in parts that
 * keep the panel's part of b in a near cache: between two parts the chains are stored in c and then continued, so
 * that an element's chain is the same for any shape and part. Rows and panels are divided evenly: blocks differ by
 * one row at most.
 *
 * Columns of b that are not contiguous are first transposed, a panel's part at a time. A part is also copied where rows
 * of b lie far apart and many rows of a use it, and where its last group is short and masks are expensive. */
#include "kernel/cpu/blocks.h"
#include "kernel/cpu/cpu_fill.h"
#include "kernel/cpu/group16.h"

/* A part of a panel is 96 KB at most, and is used for SLAB_ROWS rows of a: more would not fit the second-level
 * cache. */
enum { GROUPS = GEMM_GROUPS, FILL = GEMM_FILL };
enum { MAX_ROWS = 12, WIDTH = 16 * GROUPS, PART_STEPS = 384, SLAB_ROWS = 384 };

/* Rows of b that lie a page or so apart share few sets of the caches, and no processor fetches them ahead. From this
 * distance and size on a panel's part is copied together where many rows of a use it; where few do, parts are shorter,
 * and the next panel's rows are fetched while this one's are used. */
enum { FAR_STEP = 256, FAR_ELEMS = 512 << 10, FAR_STEPS = 128, COPY_ROWS = 512 };

/* How b is read. */
typedef enum reading { IN_PLACE, FETCHED_AHEAD, COPIED } reading;

/* One panel of c for one part of the sum. */
typedef struct panel {
  const float *a, *b;
  int64_t a_row, a_step, b_step, steps;
  float *c;
  int64_t c_row, rows;
  int groups, left;   /* columns in the last group */
  int first;          /* the chains begin here */
  const float *ahead; /* the panel that is next reads from here on: a line of each row is fetched in a step */
  int64_t ahead_step;
} panel;

G16 int max_rows(int groups) { return FILL / groups < MAX_ROWS ? FILL / groups : MAX_ROWS; }

/* The last group of a row of c or of b. */
G16 g16 load_last(const float *x, int left) {
  return MASKS_ARE_FREE ? g16_load_mask(x, g16_first(left)) : g16_load_some(x, left);
}

G16 void store_last(float *x, g16 value, int left) {
  if (MASKS_ARE_FREE)
    g16_store_first(x, value, left);
  else
    g16_store_some(x, value, left);
}

G16 void begin(g16 (*acc)[GROUPS], const panel *p, const float *c, int rows, int groups) {
  if (p->first) {
    UNROLL_FOR (r, rows)
      UNROLL_FOR (v, groups)
        acc[r][v] = g16_zero();
    return;
  }
  UNROLL_FOR (r, rows) {
    const float *row = c + r * p->c_row;
    UNROLL_FOR (v, groups - 1)
      acc[r][v] = g16_load(row + 16 * v);
    acc[r][groups - 1] = load_last(row + 16 * (groups - 1), p->left);
  }
}

/* One step of the chains; b is whole in the last group, or masks are free. */
G16 void step(g16 (*acc)[GROUPS], const float *a, int64_t a_row, const float *b, int left, int rows, int groups) {
  g16 bv[GROUPS];
  UNROLL_FOR (v, groups - 1)
    bv[v] = g16_load(b + 16 * v);
  bv[groups - 1] = MASKS_ARE_FREE ? load_last(b + 16 * (groups - 1), left) : g16_load(b + 16 * (groups - 1));
  UNROLL_FOR (r, rows) {
    g16 av = g16_all(a[r * a_row]);
    UNROLL_FOR (v, groups)
      acc[r][v] = g16_fma(av, bv[v], acc[r][v]);
  }
}

/* Rows i .. i + rows - 1; both counts are constants where this is inlined. */
G16 void block(const panel *p, int64_t i, int rows, int groups) {
  const int64_t a_row = p->a_row, a_step = p->a_step, b_step = p->b_step;
  const float *a = p->a + i * a_row, *b = p->b, *ahead = p->ahead + i / rows % groups * 16;
  float *c = p->c + i * p->c_row;
  const int left = p->left;
  g16 acc[MAX_ROWS][GROUPS];
  begin(acc, p, c, rows, groups);
  if (p->ahead_step > 0)
    for (int64_t s = p->steps; s > 0; s--, a += a_step, b += b_step, ahead += p->ahead_step) {
      g16_fetch_to_l2(ahead);
      step(acc, a, a_row, b, left, rows, groups);
    }
  else
    for (int64_t s = p->steps; s > 0; s--, a += a_step, b += b_step)
      step(acc, a, a_row, b, left, rows, groups);
  UNROLL_FOR (r, rows) {
    float *row = c + r * p->c_row;
    UNROLL_FOR (v, groups - 1)
      g16_store(row + 16 * v, acc[r][v]);
    store_last(row + 16 * (groups - 1), acc[r][groups - 1], left);
  }
}

#define ROWS(count)                                                                                                    \
  case count:                                                                                                          \
    if (count <= max_rows(groups))                                                                                     \
      block(p, i, count, groups);                                                                                      \
    break

/* All m rows of a panel; `groups` is a constant where this is inlined. */
G16 void rows_of(const panel *p, int64_t m, int groups) {
  const int most = max_rows(groups);
  int64_t i = 0;
  for (int64_t blocks = (m + most - 1) / most; blocks > 0; blocks--) {
    const int rows = (int)((m - i + blocks - 1) / blocks);
    switch (rows) { CASES_12(ROWS) }
    i += rows;
  }
}

static void run_panel(const panel *p, int64_t m) {
  if (p->groups == 1)
    rows_of(p, m, 1);
  else if (GROUPS > 1 && p->groups == 2)
    rows_of(p, m, GROUPS > 1 ? 2 : 1);
  else if (GROUPS > 1 && p->groups == 3)
    rows_of(p, m, GROUPS > 1 ? 3 : 1);
  else
    rows_of(p, m, GROUPS);
}

/* ---- Packing ---- */

typedef float quad __attribute__((vector_size(16), aligned(4)));

/* Four rows of four floats, `apart` from each other, become columns. */
G16 void turn(float *to, int64_t to_apart, const float *from, int64_t apart) {
  quad a, b, c, d;
  memcpy(&a, from, sizeof a);
  memcpy(&b, from + apart, sizeof b);
  memcpy(&c, from + 2 * apart, sizeof c);
  memcpy(&d, from + 3 * apart, sizeof d);
  quad ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  quad x = __builtin_shufflevector(ab, cd, 0, 1, 4, 5), y = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
  memcpy(to, &x, sizeof x);
  memcpy(to + to_apart, &y, sizeof y);
  ab = __builtin_shufflevector(a, b, 2, 6, 3, 7), cd = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  x = __builtin_shufflevector(ab, cd, 0, 1, 4, 5), y = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
  memcpy(to + 2 * to_apart, &x, sizeof x);
  memcpy(to + 3 * to_apart, &y, sizeof y);
}

/* Columns that lie apart, with contiguous elements: into rows of `width`, sixteen elements of four columns at a
 * time. */
static void copy_turned(float *to, const float *from, int64_t column, int64_t steps, int columns, int width) {
  for (int64_t s = 0; s < steps; s += 16)
    for (int j = 0; j < columns; j += 4)
      if (s + 16 <= steps && j + 4 <= columns)
        for (int q = 0; q < 16; q += 4)
          turn(to + (s + q) * width + j, width, from + j * column + s + q, column);
      else
        for (int64_t q = s; q < s + 16 && q < steps; q++)
          for (int r = j; r < j + 4 && r < columns; r++)
            to[q * width + r] = from[r * column + q];
}

/* The panel's part of b, with zeros behind the last column. */
static void copy_together(float *to, const hd_gemm *g, const panel *p) {
  const int width = 16 * p->groups, columns = width - 16 + p->left;
  if (g->b_column == 1) {
    for (int64_t s = 0; s < p->steps; s++)
      for (int v = 0; v < columns; v += 16)
        g16_store(to + s * width + v, g16_load_some(p->b + s * p->b_step + v, columns - v));
    return;
  }
  if (columns < width)
    memset(to, 0, (size_t)(p->steps * width) * sizeof *to);
  if (g->b_step == 1)
    copy_turned(to, p->b, g->b_column, p->steps, columns, width);
  else
    for (int64_t s = 0; s < p->steps; s++)
      for (int j = 0; j < columns; j++)
        to[s * width + j] = p->b[s * p->b_step + j * g->b_column];
}

static void run_part(const hd_gemm *g, panel *p, reading how) {
  _Alignas(64) float copy[PART_STEPS * WIDTH];
  if (how == COPIED || (p->left < 16 && !MASKS_ARE_FREE)) {
    copy_together(copy, g, p);
    p->b = copy;
    p->b_step = 16 * p->groups;
  }
  run_panel(p, p->rows);
}

/* Rows i .. i + rows - 1, steps s .. s + steps - 1 of their sums. */
static void run_steps(const hd_gemm *g, reading how, int64_t i, int64_t rows, int64_t s, int64_t steps) {
  const int64_t all = (g->n + 15) / 16;
  int64_t group = 0;
  for (int64_t panels = (all + GROUPS - 1) / GROUPS; panels > 0; panels--) {
    const int groups = (int)((all - group + panels - 1) / panels);
    const int64_t j = 16 * group, left = g->n - j - 16 * (groups - 1);
    const bool last = panels == 1 && s + steps == g->k;
    const float *b = g->b + s * g->b_step + j * g->b_column;
    panel p = {.a = g->a + i * g->a_row + s * g->a_step,
               .b = b,
               .a_row = g->a_row,
               .a_step = g->a_step,
               .b_step = g->b_step,
               .steps = steps,
               .c = g->c + i * g->c_row + j,
               .c_row = g->c_row,
               .rows = rows,
               .groups = groups,
               .left = left < 16 ? (int)left : 16,
               .first = s == 0,
               .ahead = last         ? b
                        : panels > 1 ? b + 16 * groups * g->b_column
                                     : g->b + (s + steps) * g->b_step,
               .ahead_step = how == FETCHED_AHEAD && !last ? g->b_step : 0};
    run_part(g, &p, how);
    group += groups;
  }
}

static reading reading_of(const hd_gemm *g, int64_t rows) {
  const bool far = g->b_step >= FAR_STEP && g->k * g->b_step >= FAR_ELEMS && rows > MAX_ROWS;
  if (g->b_column != 1 || (far && g->m >= COPY_ROWS))
    return COPIED;
  return far ? FETCHED_AHEAD : IN_PLACE;
}

void HD_SYM(gemm)(const hd_gemm *g) {
  int64_t i = 0;
  for (int64_t slabs = (g->m + SLAB_ROWS - 1) / SLAB_ROWS; slabs > 0; slabs--) {
    const int64_t rows = (g->m - i + slabs - 1) / slabs;
    const reading how = reading_of(g, rows);
    const int64_t most = how == FETCHED_AHEAD ? FAR_STEPS : PART_STEPS;
    int64_t s = 0;
    for (int64_t parts = (g->k + most - 1) / most; parts > 0; parts--) {
      const int64_t steps = (g->k - s + parts - 1) / parts;
      run_steps(g, how, i, rows, s, steps);
      s += steps;
    }
    i += rows;
  }
}

void HD_SYM(gemm_fill)(hd_kernels *table) { table->gemm = HD_SYM(gemm); }
