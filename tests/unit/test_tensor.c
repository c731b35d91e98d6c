/* Eager tensors: values against loops written here, text against PyTorch's, errors by their line, equal bits for any
 * number of threads and instruction set, and every allocation failing once. */
#include "tap.h"

#include "base/alloc.h"
#include "base/digest.h"
#include "heddle.h"
#include "heddle/experimental.h"
#include "tensor/blas.h"
#include "tensor/eager.h"

/* Under a sanitizer, too, memory that is not there is a NULL. */
const char *__asan_default_options(void), *__tsan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }
const char *__tsan_default_options(void) { return "allocator_may_return_null=1"; }

static hd_ctx *ctx;

/* What a test made: destroyed together at its end. */
enum { MOST_TENSORS = 512 };
static hd_tensor *made[MOST_TENSORS];
static int made_count;

static void drop_all(void) {
  while (made_count > 0)
    hd_tensor_destroy(made[--made_count]);
}

static hd_tensor *keep(hd_status status, hd_tensor *const *out, int line) {
  hd_tensor *x = *out;
  if (status != HD_OK)
    diag("line %d: status %d, '%s'", line, (int)status, hd_ctx_message(ctx));
  if (x && made_count < MOST_TENSORS)
    made[made_count++] = x;
  return x;
}

/* MAKE(add, a, b): the new tensor of hd_tensor_add(&out, ctx, a, b), NULL after a failure. */
static hd_tensor *fresh;
#define MAKE(name, ...) keep(hd_tensor_##name(&fresh, ctx, __VA_ARGS__), &fresh, __LINE__)

static hd_tensor *floats(int ndim, const int64_t *size, const float *value) {
  return MAKE(from, HD_F32, value, ndim, size);
}
#define FLOATS(dims, ...) floats(dims, (const float[]){__VA_ARGS__})
#define D(...) HD_DIMS(__VA_ARGS__)

static double get(const hd_tensor *x, int ndim, const int64_t *index) {
  double value = NAN;
  hd_tensor_get(&value, ctx, x, ndim, index);
  return value;
}

static double item(const hd_tensor *x) {
  double value = NAN;
  hd_tensor_item(&value, ctx, x);
  return value;
}

/* The i-th element in row-major order. */
static double flat(const hd_tensor *x, int64_t i) {
  int64_t index[HD_TENSOR_MAX_DIMS];
  for (int d = hd_tensor_ndim(x) - 1; d >= 0; d--) {
    index[d] = i % hd_tensor_size(x, d);
    i /= hd_tensor_size(x, d);
  }
  return get(x, hd_tensor_ndim(x), index);
}

static int same_number(double a, double b) { return a == b || (a != a && b != b); }

/* The elements in row-major order are these, the sizes multiply to their count. */
static void has(const hd_tensor *x, int count, const double *want, const char *name) {
  int wrong = hd_tensor_elems(x) != count;
  for (int i = 0; !wrong && i < count; i++)
    if (!same_number(flat(x, i), want[i])) {
      diag("element %d: expected %g, found %g", i, want[i], flat(x, i));
      wrong = 1;
    }
  ok(x && !wrong, "%s", name);
}
#define HAS(x, name, ...)                                                                                              \
  has(x, (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (const double[]){__VA_ARGS__}, name)

static void has_sizes(const hd_tensor *x, int ndim, const int64_t *size, const char *name) {
  char found[HD_SIZES_TEXT_BYTES], want[HD_SIZES_TEXT_BYTES];
  hd__sizes_text(want, ndim, size);
  is_str(x ? hd__sizes_text(found, x->ndim, x->size) : NULL, want, "%s", name);
}

static void prints(const hd_tensor *x, const char *want) {
  char *text = NULL;
  hd_tensor_text(&text, ctx, x);
  is_str(text, want, "prints as PyTorch does");
  free(text);
}

/* ---- Text ---- */

static void test_text(void) {
  const float big[] = {1e10f, -1, 0}, small[] = {1e-5f, 1}, far[] = {1, 2000.5f},
              odd[] = {NAN, INFINITY, -INFINITY, 1.5f};
  const float whole_odd[] = {NAN, 2, -INFINITY}, zeros[] = {0, NAN};
  prints(MAKE(full, HD_F32, 3.25, HD_NO_DIMS), "tensor(3.2500)");
  prints(MAKE(full, HD_F32, 3, HD_NO_DIMS), "tensor(3.)");
  prints(MAKE(full, HD_I32, -3, HD_NO_DIMS), "tensor(-3, dtype=int32)");
  prints(floats(D(3), big), "tensor([ 1.0000e+10, -1.0000e+00,  0.0000e+00])");
  prints(floats(D(2), small), "tensor([1.0000e-05, 1.0000e+00])");
  prints(floats(D(2), far), "tensor([1.0000e+00, 2.0005e+03])");
  prints(floats(D(4), odd), "tensor([   nan,    inf,   -inf, 1.5000])");
  prints(floats(D(3), whole_odd), "tensor([nan, 2., -inf])");
  prints(floats(D(2), zeros), "tensor([0., nan])");
  prints(MAKE(zeros, HD_F32, D(0)), "tensor([])");
  prints(MAKE(zeros, HD_U8, D(2, 0, 3)), "tensor([], size=(2, 0, 3), dtype=uint8)");
  prints(MAKE(reshape, MAKE(arange, HD_I32, -4, 4, 1), D(2, 2, 2)), "tensor([[[-4, -3],\n"
                                                                    "         [-2, -1]],\n"
                                                                    "\n"
                                                                    "        [[ 0,  1],\n"
                                                                    "         [ 2,  3]]], dtype=int32)");
  prints(MAKE(arange, HD_F32, 0, 20, 1),
         "tensor([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12., 13.,\n"
         "        14., 15., 16., 17., 18., 19.])");
  prints(MAKE(arange, HD_F32, 0, 1001, 1), "tensor([   0.,    1.,    2.,  ...,  998.,  999., 1000.])");
  prints(MAKE(reshape, MAKE(arange, HD_F32, 0, 2000, 1), D(1000, 2)), "tensor([[0.0000e+00, 1.0000e+00],\n"
                                                                      "        [2.0000e+00, 3.0000e+00],\n"
                                                                      "        [4.0000e+00, 5.0000e+00],\n"
                                                                      "        ...,\n"
                                                                      "        [1.9940e+03, 1.9950e+03],\n"
                                                                      "        [1.9960e+03, 1.9970e+03],\n"
                                                                      "        [1.9980e+03, 1.9990e+03]])");
  prints(MAKE(full, HD_U8, 100, D(13)),
         "tensor([100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100],\n       dtype=uint8)");
  char *text = NULL;
  ok(hd_tensor_text(&text, ctx, MAKE(randn, 1, D(9, 9, 9, 9))) == HD_OK && strlen(text) > 1000, "four dimensions");
  free(text);
  drop_all();
}

/* ---- Creating ---- */

static void test_create(void) {
  HAS(MAKE(arange, HD_F32, 0, 1, 0.25), "arange by a quarter", 0, 0.25, 0.5, 0.75);
  HAS(MAKE(arange, HD_I32, 5, -2, -3), "arange downwards", 5, 2, -1);
  is_int(hd_tensor_elems(MAKE(arange, HD_F32, 1, 0, 1)), 0, "arange the wrong way is empty");
  HAS(MAKE(full, HD_U8, 255, D(2)), "full of bytes", 255, 255);
  const int32_t four[] = {1, -2, 3, -4};
  hd_tensor *x = MAKE(from, HD_I32, four, D(2, 2));
  HAS(x, "from data", 1, -2, 3, -4);
  HAS(MAKE(to_dtype, x, HD_F32), "i32 to f32", 1, -2, 3, -4);
  HAS(MAKE(to_dtype, x, HD_U8), "i32 to u8 keeps eight bits", 1, 254, 3, 252);
  HAS(MAKE(to_dtype, FLOATS(D(6), 1.9f, -1.9f, 300, -5, NAN, INFINITY), HD_U8), "f32 to u8 cuts and holds", 1, 0, 255,
      0, 0, 255);
  HAS(MAKE(to_dtype, FLOATS(D(5), -1.9f, 3e9f, -3e9f, NAN, 7), HD_I32), "f32 to i32 cuts and holds", -1, 2147483647,
      -2147483648.0, 0, 7);
  hd_tensor *a = MAKE(rand, 7, D(1000)), *b = MAKE(rand, 7, D(10, 100)), *c = MAKE(rand, 8, D(1000));
  ok(!memcmp(hd_tensor_data(a), hd_tensor_data(b), 4000), "a seed's numbers do not depend on the shape");
  ok(memcmp(hd_tensor_data(a), hd_tensor_data(c), 4000), "another seed, other numbers");
  near(item(MAKE(mean, a, HD_ALL_DIMS, 0)), 0.5, 0.05, "uniform: mean");
  ok(item(MAKE(min, a, HD_ALL_DIMS, 0)) >= 0 && item(MAKE(max, a, HD_ALL_DIMS, 0)) < 1, "uniform: in [0, 1)");
  hd_tensor *n = MAKE(randn, 7, D(100003));
  near(item(MAKE(mean, n, HD_ALL_DIMS, 0)), 0, 0.02, "normal: mean");
  near(item(MAKE(mean, MAKE(mul, n, n), HD_ALL_DIMS, 0)), 1, 0.02, "normal: variance");
  drop_all();
}

/* ---- Views ---- */

static void test_views(void) {
  hd_tensor *x = MAKE(reshape, MAKE(arange, HD_F32, 0, 24, 1), D(2, 3, 4));
  HAS(MAKE(select, x, 0, 1), "select", 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23);
  HAS(MAKE(select, x, -1, -2), "select from the end", 2, 6, 10, 14, 18, 22);
  HAS(MAKE(slice, MAKE(select, x, 0, 0), 1, 1, HD_END, 2), "every second column", 1, 3, 5, 7, 9, 11);
  HAS(MAKE(slice, MAKE(select, x, 0, 0), 0, -2, 100, 1), "an end beyond the end", 4, 5, 6, 7, 8, 9, 10, 11);
  is_int(hd_tensor_elems(MAKE(slice, x, 1, 2, 1, 1)), 0, "an end before the start: empty");
  is_int(hd_tensor_elems(MAKE(slice, x, 1, INT64_MIN, INT64_MIN, 1)), 0, "ends at the far end of int64");
  is_int(hd_tensor_elems(MAKE(slice, x, 1, 0, HD_END, INT64_MAX)), 8, "a step beyond the end takes the first");
  hd_tensor *t = MAKE(transpose, x, 0, 2);
  has_sizes(t, D(4, 3, 2), "transpose turns sizes");
  is_int((long long)get(t, D(3, 1, 1)), 19, "transpose turns elements");
  hd_tensor *p = MAKE(permute, x, D(2, 0, -2));
  has_sizes(p, D(4, 2, 3), "permute");
  is_int((long long)get(p, D(3, 1, 2)), 23, "permute, an element");
  ok(hd_tensor_data(MAKE(reshape, x, D(4, -1))) == hd_tensor_data(x), "a reshape is a view");
  ok(hd_tensor_data(MAKE(reshape, t, D(4, 6))) != hd_tensor_data(x), "of a transpose a copy");
  HAS(MAKE(reshape, MAKE(select, t, 2, 0), D(2, 6)), "with the right elements", 0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11);
  ok(hd_tensor_data(MAKE(reshape, MAKE(slice, x, 2, 0, 2, 1), D(6, 2))) == hd_tensor_data(x),
     "rows may be joined where columns are cut");
  has_sizes(MAKE(reshape, MAKE(slice, x, 2, 0, 2, 1), D(6, 1, 2, 1)), D(6, 1, 2, 1), "sizes of 1 come and go");
  HAS(MAKE(reshape, MAKE(full, HD_F32, 3, HD_NO_DIMS), D(1, 1)), "one number becomes a matrix", 3);
  HAS(MAKE(expand, FLOATS(D(2, 1), 1, 2), D(2, 2, 3)), "expand", 1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2);
  drop_all();
}

static void test_sharing(void) {
  hd_tensor *x, *row, *column;
  hd_tensor_zeros(&x, ctx, HD_F32, D(3, 3));
  hd_tensor_select(&row, ctx, x, 0, 1);
  hd_tensor_select(&column, ctx, x, 1, 2);
  hd_tensor_destroy(x);
  hd_tensor_fill(row, ctx, 5);
  is_int((long long)get(column, D(1)), 5, "views share elements after their origin went");
  hd_tensor_destroy(row);
  hd_tensor_set(column, ctx, 7, D(-1));
  HAS(column, "and after each other", 0, 5, 7);
  hd_tensor_destroy(column);

  hd_tensor *y = MAKE(arange, HD_F32, 0, 6, 1), *head = MAKE(slice, y, 0, 0, 5, 1), *tail = MAKE(slice, y, 0, 1, 6, 1);
  is_int(hd_tensor_copy(tail, ctx, head), HD_OK, "a copy onto itself, one further");
  HAS(y, "reads before it writes", 0, 0, 1, 2, 3, 4);
  hd_tensor *square = MAKE(reshape, MAKE(arange, HD_I32, 0, 4, 1), D(2, 2));
  hd_tensor_copy(square, ctx, MAKE(transpose, square, 0, 1));
  HAS(square, "a matrix turned in place", 0, 2, 1, 3);
  hd_tensor_copy(square, ctx, FLOATS(D(2), 8.7f, 9));
  HAS(square, "a row copied to all rows, converted", 8, 9, 8, 9);
  drop_all();
}

/* ---- Element by element ---- */

static void test_arithmetic(void) {
  hd_tensor *a = FLOATS(D(2, 1), 1, 2), *b = FLOATS(D(3), 10, 20, 40);
  HAS(MAKE(add, a, b), "add", 11, 21, 41, 12, 22, 42);
  HAS(MAKE(sub, a, b), "sub", -9, -19, -39, -8, -18, -38);
  HAS(MAKE(mul, a, b), "mul", 10, 20, 40, 20, 40, 80);
  HAS(MAKE(div, b, a), "div", 10, 20, 40, 5, 10, 20);
  HAS(MAKE(div_scalar, b, 0), "a division by zero", INFINITY, INFINITY, INFINITY);
  HAS(MAKE(sub_scalar, b, 0.5), "sub_scalar", 9.5, 19.5, 39.5);
  HAS(MAKE(neg, a), "neg", -1, -2);
  HAS(MAKE(relu, FLOATS(D(4), -1, 0, 2, NAN)), "relu lets NaN through", 0, 0, 2, NAN);
  HAS(MAKE(abs, FLOATS(D(3), -1, 2, -INFINITY)), "abs", 1, 2, INFINITY);
  HAS(MAKE(sqrt, FLOATS(D(3), 4, -1, INFINITY)), "sqrt", 2, NAN, INFINITY);
  HAS(MAKE(log, FLOATS(D(4), 1, 0, -1, INFINITY)), "log", 0, -INFINITY, NAN, INFINITY);
  HAS(MAKE(exp, FLOATS(D(4), 0, -INFINITY, INFINITY, NAN)), "exp", 1, 0, INFINITY, NAN);
  HAS(MAKE(tanh, FLOATS(D(4), 0, 100, -INFINITY, NAN)), "tanh", 0, 1, -1, NAN);
  hd_tensor *x = MAKE(arange, HD_F32, 0.1, 5, 0.37), *e = MAKE(exp, x), *l = MAKE(log, x), *t = MAKE(tanh, x);
  double worst = 0;
  for (int i = 0; i < hd_tensor_elems(x); i++) {
    const double v = flat(x, i);
    worst = fmax(worst, fabs(flat(e, i) / exp(v) - 1));
    worst = fmax(worst, fabs(flat(l, i) - log(v)) / fmax(0.1, fabs(log(v))));
    worst = fmax(worst, fabs(flat(t, i) / tanh(v) - 1));
  }
  ok(worst < 3e-7, "exp, log, tanh are near the exact values (%g)", worst);
  drop_all();
}

static void test_types(void) {
  hd_tensor *bytes = MAKE(arange, HD_U8, 250, 256, 1), *ints = MAKE(arange, HD_I32, -3, 3, 1);
  HAS(MAKE(add_scalar, bytes, 10), "bytes wrap around", 4, 5, 6, 7, 8, 9);
  HAS(MAKE(neg, bytes), "also negated", 6, 5, 4, 3, 2, 1);
  HAS(MAKE(add, bytes, ints), "u8 and i32 make i32", 247, 249, 251, 253, 255, 257);
  is_int(hd_tensor_dtype(MAKE(add, bytes, ints)), HD_I32, "and that is its type");
  is_int(hd_tensor_dtype(MAKE(add, ints, MAKE(zeros, HD_F32, D(1)))), HD_F32, "i32 and f32 make f32");
  is_int(hd_tensor_dtype(MAKE(mul_scalar, ints, 2)), HD_I32, "a whole number leaves i32");
  HAS(MAKE(mul_scalar, ints, 0.5), "another makes f32", -1.5, -1, -0.5, 0, 0.5, 1);
  HAS(MAKE(div_scalar, bytes, 500), "a division is done in f32", 0.5f, 0.502f, 0.504f, 0.506f, 0.508f, 0.51f);
  HAS(MAKE(add_scalar, MAKE(full, HD_I32, 2147483647, D(1)), 1), "i32 wraps around", -2147483648.0);
  HAS(MAKE(abs, ints), "abs of i32", 3, 2, 1, 0, 1, 2);
  HAS(MAKE(relu, ints), "relu of i32", 0, 0, 0, 0, 1, 2);
  is_int(hd_tensor_dtype(MAKE(exp, ints)), HD_F32, "exp of i32 is f32");
  drop_all();
}

static void test_comparison(void) {
  hd_tensor *a = FLOATS(D(4), 1, 2, NAN, 4), *b = FLOATS(D(4), 1, 3, NAN, 2);
  HAS(MAKE(eq, a, b), "eq", 1, 0, 0, 0);
  HAS(MAKE(ne, a, b), "ne", 0, 1, 1, 1);
  HAS(MAKE(lt, a, b), "lt", 0, 1, 0, 0);
  HAS(MAKE(le, a, b), "le", 1, 1, 0, 0);
  HAS(MAKE(gt, a, b), "gt", 0, 0, 0, 1);
  HAS(MAKE(ge, a, b), "ge", 1, 0, 0, 1);
  is_int(hd_tensor_dtype(MAKE(ge, a, b)), HD_U8, "comparisons give u8");
  hd_tensor *condition = MAKE(gt, a, FLOATS(D(1), 1.5f));
  HAS(MAKE(where, condition, a, FLOATS(D(2, 1), 0, -1)), "where, all three broadcast", 0, 2, 0, 4, -1, 2, -1, 4);
  HAS(MAKE(sum, MAKE(eq, a, a), HD_ALL_DIMS, 0), "comparisons can be counted", 3);
  drop_all();
}

/* Odd sizes, cut and turned: against an addition of single elements. */
static void test_strided(void) {
  hd_tensor *x = MAKE(randn, 3, D(7, 33, 41)), *y = MAKE(randn, 4, D(41, 33, 1));
  hd_tensor *cut = MAKE(slice, MAKE(slice, x, 2, 1, 40, 3), 1, 5, HD_END, 2); /* 7, 14, 13 */
  hd_tensor *turned = MAKE(permute, cut, D(2, 1, 0));                         /* 13, 14, 7 */
  hd_tensor *other = MAKE(slice, MAKE(slice, y, 0, 0, 13, 1), 1, 3, 17, 1);   /* 13, 14, 1 */
  hd_tensor *sum = MAKE(add, turned, other);
  int wrong = 0;
  for (int i = 0; i < 13; i++)
    for (int j = 0; j < 14; j++)
      for (int k = 0; k < 7; k++)
        wrong +=
            (float)get(sum, D(i, j, k)) != (float)get(x, D(k, 5 + 2 * j, 1 + 3 * i)) + (float)get(y, D(i, 3 + j, 0));
  is_int(wrong, 0, "sums of cut and turned tensors");
  hd_tensor *target = MAKE(zeros, HD_F32, D(7, 33, 41)), *window = MAKE(slice, target, 1, 1, 29, 2);
  is_int(hd_tensor_copy(MAKE(slice, window, 2, 0, 39, 3), ctx, cut), HD_OK, "a copy into a window");
  for (int i = 0; i < 7; i++)
    for (int j = 0; j < 33; j++)
      for (int k = 0; k < 41; k++) {
        const int inside = j % 2 == 1 && j < 29 && k % 3 == 0 && k < 39;
        wrong += get(target, D(i, j, k)) != (inside ? get(cut, D(i, (j - 1) / 2, k / 3)) : 0);
      }
  is_int(wrong, 0, "writes there and nowhere else");
  drop_all();
}

/* ---- Reductions ---- */

static void test_reductions(void) {
  hd_tensor *x = MAKE(reshape, MAKE(arange, HD_F32, 0, 24, 1), D(2, 3, 4));
  HAS(MAKE(sum, x, HD_ALL_DIMS, 0), "sum of all", 276);
  HAS(MAKE(sum, x, D(0), 0), "sum over the first", 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34);
  HAS(MAKE(sum, x, D(-1, 0), 0), "sum over first and last", 60, 92, 124);
  HAS(MAKE(mean, x, D(1, 2), 0), "mean", 5.5, 17.5);
  has_sizes(MAKE(mean, x, D(1, 2), 1), D(2, 1, 1), "keepdim");
  has_sizes(MAKE(sum, x, HD_ALL_DIMS, 1), D(1, 1, 1), "keepdim of all");
  HAS(MAKE(max, MAKE(transpose, x, 0, 2), D(0, 1), 0), "max of a turned tensor", 11, 23);
  HAS(MAKE(min, x, D(2), 0), "min", 0, 4, 8, 12, 16, 20);
  HAS(MAKE(argmax, FLOATS(D(2, 4), 1, 5, 5, 2, 3, NAN, 9, NAN), D(1), 0), "argmax: the first; a NaN wins", 1, 1);
  HAS(MAKE(argmax, x, HD_ALL_DIMS, 0), "argmax over all", 23);
  HAS(MAKE(max, FLOATS(D(3), 1, NAN, 2), HD_ALL_DIMS, 0), "max of NaN", NAN);
  HAS(MAKE(sum, MAKE(full, HD_U8, 200, D(5000)), HD_ALL_DIMS, 0), "a sum of bytes is i32", 1000000);
  HAS(MAKE(sum, MAKE(zeros, HD_F32, D(2, 0)), D(1), 0), "a sum of nothing", 0, 0);
  HAS(MAKE(mean, MAKE(zeros, HD_F32, D(2, 0)), D(1), 0), "a mean of nothing", NAN, NAN);
  is_int(hd_tensor_elems(MAKE(max, MAKE(zeros, HD_F32, D(0, 2)), D(1), 0)), 0, "a max over nothing, of nothing");
  HAS(MAKE(sum, MAKE(full, HD_F32, 4, HD_NO_DIMS), HD_ALL_DIMS, 0), "sum of one number", 4);

  hd_tensor *late = MAKE(zeros, HD_F32, D(5000));
  hd_tensor_set(late, ctx, 1, D(4100));
  hd_tensor_set(late, ctx, 1, D(4500));
  HAS(MAKE(argmax, late, HD_ALL_DIMS, 0), "argmax over several blocks: the first", 4100);
  hd_tensor_set(late, ctx, NAN, D(4600));
  hd_tensor_set(late, ctx, NAN, D(4999));
  HAS(MAKE(argmax, late, HD_ALL_DIMS, 0), "or the first NaN", 4600);
  near(item(MAKE(sum, MAKE(full, HD_F32, 0.1, D(10000000)), HD_ALL_DIMS, 0)), 1e6, 1, "ten million tenths");
  drop_all();
}

/* The order that docs/determinism.md states, written out once more. */
static float sum_by_definition(const float *x, int64_t count) {
  static float block[64];
  int64_t blocks = 0;
  for (int64_t b = 0; b * 1024 < count; b++) {
    float s[16] = {0};
    for (int64_t i = b * 1024; i < count && i < (b + 1) * 1024; i++)
      s[i % 16] += x[i];
    for (int half = 8; half > 0; half /= 2)
      for (int i = 0; i < half; i++)
        s[i] += s[i + half];
    block[blocks++] = s[0];
  }
  for (; blocks > 1; blocks = (blocks + 1) / 2)
    for (int64_t b = 0; b < blocks; b += 2)
      block[b / 2] = b + 1 < blocks ? block[b] + block[b + 1] : block[b];
  return block[0];
}

static void test_order(void) {
  int wrong = 0;
  for (int count = 1; count < 50000; count = count * 3 / 2 + 1) {
    hd_tensor *x = MAKE(randn, (uint64_t)count, D(count)),
              *columns = MAKE(expand, MAKE(reshape, x, D(count, 1)), D(count, 19));
    const float want = sum_by_definition(hd_tensor_data(x), count);
    wrong += (float)item(MAKE(sum, x, HD_ALL_DIMS, 0)) != want;
    hd_tensor *sums = MAKE(sum, columns, D(0), 0), *apart = MAKE(clone, columns);
    hd_tensor *some = MAKE(sum, MAKE(slice, apart, 1, 2, HD_END, 1), D(0), 0);
    for (int i = 0; i < 19; i++)
      wrong += (float)flat(sums, i) != want || (float)flat(some, i < 17 ? i : 0) != want;
    drop_all();
  }
  is_int(wrong, 0, "sums have the order of docs/determinism.md, whatever the strides");
}

/* ---- Products ---- */

static int product_is_wrong(const hd_tensor *c, const hd_tensor *a, const hd_tensor *b, int m, int n, int k) {
  double worst = 0;
  for (int at = 0; at < 200; at++) {
    const int i = at * 7919 % m, j = at * 104729 % n;
    double sum = 0, size = 0;
    for (int l = 0; l < k; l++) {
      const double term = get(a, D(i, l)) * get(b, D(l, j));
      sum += term;
      size += fabs(term);
    }
    worst = fmax(worst, fabs(get(c, D(i, j)) - sum) / (size + 1e-30));
  }
  return !(worst < 1e-6);
}

static void test_matmul(void) {
  static const int sizes[][3] = {{1, 1, 1},    {2, 3, 4},     {65, 1, 17},     {1, 70, 130},
                                 {64, 64, 64}, {63, 129, 47}, {130, 140, 150}, {300, 257, 31}};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    const int m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
    int wrong = 0;
    for (int turned = 0; turned < 4; turned++) {
      hd_tensor *a = turned & 1 ? MAKE(transpose, MAKE(randn, 1, D(k, m)), 0, 1) : MAKE(randn, 1, D(m, k));
      hd_tensor *b = turned & 2 ? MAKE(transpose, MAKE(randn, 2, D(n, k)), 0, 1) : MAKE(randn, 2, D(k, n));
      wrong += product_is_wrong(MAKE(matmul, a, b), a, b, m, n, k);
    }
    is_int(wrong, 0, "%d x %d, %d deep, turned or not", m, n, k);
    drop_all();
  }
}

static void test_matmul_shapes(void) {
  hd_tensor *row = FLOATS(D(2), 1, 10), *m = MAKE(reshape, MAKE(arange, HD_F32, 1, 7, 1), D(2, 3));
  HAS(MAKE(matmul, row, m), "a row by a matrix", 41, 52, 63);
  HAS(MAKE(matmul, m, FLOATS(D(3), 1, 0, 2)), "a matrix by a column", 7, 16);
  HAS(MAKE(matmul, row, row), "a row by a column", 101);
  is_int(hd_tensor_ndim(MAKE(matmul, row, row)), 0, "is one number");
  HAS(MAKE(matmul, MAKE(zeros, HD_F32, D(2, 0)), MAKE(zeros, HD_F32, D(0, 2))), "nothing deep", 0, 0, 0, 0);
  hd_tensor *a = MAKE(randn, 1, D(3, 1, 5, 4)), *b = MAKE(randn, 2, D(2, 4, 6)), *c = MAKE(matmul, a, b);
  has_sizes(c, D(3, 2, 5, 6), "batches are broadcast");
  int wrong = 0;
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 2; j++) {
      hd_tensor *want = MAKE(matmul, MAKE(select, MAKE(select, a, 0, i), 0, 0), MAKE(select, b, 0, j));
      hd_tensor *found = MAKE(select, MAKE(select, c, 0, i), 0, j);
      wrong += item(MAKE(sum, MAKE(ne, want, found), HD_ALL_DIMS, 0)) != 0;
    }
  is_int(wrong, 0, "each of them is a separate product");
  hd_tensor *wide = MAKE(expand, MAKE(randn, 3, D(1, 160)), D(160, 160)),
            *large = MAKE(matmul, wide, MAKE(randn, 1, D(160, 160)));
  is_int(product_is_wrong(large, wide, MAKE(randn, 1, D(160, 160)), 160, 160, 160), 0, "repeated rows");
  drop_all();
}

/* How operands lie changes no bit: turned twice, and as every other row and column of more. */
static void test_matmul_views(void) {
  hd_tensor *a = MAKE(randn, 1, D(2, 300, 410)), *b = MAKE(randn, 2, D(410, 190)), *want = MAKE(matmul, a, b);
  hd_tensor *a_copy = MAKE(clone, MAKE(transpose, a, 1, 2)), *b_copy = MAKE(clone, MAKE(transpose, b, 0, 1));
  hd_tensor *turned = MAKE(matmul, MAKE(transpose, a_copy, 1, 2), MAKE(transpose, b_copy, 0, 1));
  is_int(item(MAKE(sum, MAKE(ne, want, turned), HD_ALL_DIMS, 0)) != 0, 0, "turned operands give the same bits");
  hd_tensor *wide = MAKE(zeros, HD_F32, D(820, 380)), *b_far = MAKE(slice, wide, 0, 0, 820, 2);
  b_far = MAKE(slice, b_far, 1, 0, 380, 2);
  is_int(hd_tensor_copy(b_far, ctx, b), HD_OK, "every other element of more");
  is_int(item(MAKE(sum, MAKE(ne, want, MAKE(matmul, a, b_far)), HD_ALL_DIMS, 0)) != 0, 0, "gives the same bits");
  drop_all();
}

static void test_matmul_into(void) {
  hd_tensor *a = MAKE(randn, 1, D(2, 30, 41)), *b = MAKE(randn, 2, D(41, 19)), *want = MAKE(matmul, a, b);
  hd_tensor *x = MAKE(full, HD_F32, 7, D(2, 30, 19)), *none = MAKE(zeros, HD_F32, D(3, 0));
  is_int(hd_tensor_matmul_into(x, ctx, a, b), HD_OK, "a product into a tensor that is there");
  is_int(item(MAKE(sum, MAKE(ne, want, x), HD_ALL_DIMS, 0)) != 0, 0, "has the bits of one into a new tensor");
  hd_tensor *full = MAKE(full, HD_F32, 7, D(3, 3));
  is_int(hd_tensor_matmul_into(full, ctx, none, MAKE(zeros, HD_F32, D(0, 3))), HD_OK, "a product over nothing");
  HAS(full, "is zero", 0, 0, 0, 0, 0, 0, 0, 0, 0);
  is_int(hd_tensor_matmul_into(full, ctx, a, b), HD_E_SHAPE, "other sizes are refused");
  ok(strstr(hd_ctx_message(ctx), "expected float32 of sizes [2, 30, 19]") != NULL, "and named: %s",
     hd_ctx_message(ctx));
  is_int(hd_tensor_matmul_into(MAKE(zeros, HD_I32, D(2, 30, 19)), ctx, a, b), HD_E_SHAPE, "so are integers");
  hd_tensor *square = MAKE(randn, 3, D(5, 5)), *turned = MAKE(transpose, MAKE(zeros, HD_F32, D(5, 5)), 0, 1);
  is_int(hd_tensor_matmul_into(square, ctx, square, square), HD_E_USAGE, "so is an operand");
  is_int(hd_tensor_matmul_into(turned, ctx, square, square), HD_E_USAGE, "so is what does not lie in rows");
  is_int(hd_tensor_matmul_into(NULL, ctx, square, square), HD_E_USAGE, "so is nothing");
  drop_all();
}

static void test_blas(void) {
  hd_blas none;
  ok(!hd__blas_open(&none, "libno-such-blas.so.0"), "a missing library is not there");
  if (!hd__blas()) {
    skip(2, "no OpenBLAS here");
    return;
  }
  ok(*hd__blas()->name, "found %s", hd__blas()->name);
  enum { N = 300 };
  hd_tensor *a = MAKE(randn, 1, D(N, N)), *b = MAKE(randn, 2, D(N, N)), *own = MAKE(matmul, a, b);
  hd_tensor *expected_product = MAKE(zeros, HD_F32, D(N, N));
  hd__blas()->sgemm(HD_BLAS_ROW_MAJOR, HD_BLAS_NO_TRANS, HD_BLAS_NO_TRANS, N, N, N, 1, hd_tensor_data(a), N,
                    hd_tensor_data(b), N, 0, hd_tensor_data(expected_product), N);
  const double apart = item(MAKE(max, MAKE(abs, MAKE(sub, own, expected_product)), HD_ALL_DIMS, 0));
  ok(apart < 1e-4, "OpenBLAS and heddle's kernel agree within %g", apart);
  drop_all();
}

/* ---- Bits ---- */

/* One of everything, large enough for threads; the bits of all results. */
static uint64_t bits_of_everything(void) {
  hd_tensor *x = MAKE(randn, 11, D(57, 31, 43)), *y = MAKE(rand, 12, D(43, 1, 57)), *m = MAKE(randn, 13, D(211, 307));
  hd_tensor *turned = MAKE(transpose, x, 0, 2), *positive = MAKE(abs, x), *m_turned = MAKE(transpose, m, 0, 1);
  hd_tensor *ints = MAKE(to_dtype, MAKE(mul_scalar, x, 1000), HD_I32);
  hd_tensor *result[] = {x,
                         y,
                         MAKE(matmul, m, m_turned),
                         MAKE(add, turned, MAKE(expand, y, D(43, 31, 57))),
                         MAKE(div, x, positive),
                         MAKE(exp, x),
                         MAKE(log, positive),
                         MAKE(sqrt, positive),
                         MAKE(tanh, x),
                         MAKE(relu, x),
                         MAKE(sum, x, HD_ALL_DIMS, 0),
                         MAKE(sum, x, D(0), 0),
                         MAKE(sum, turned, D(1, 2), 0),
                         MAKE(mean, x, D(2), 1),
                         MAKE(max, x, D(0, 2), 0),
                         MAKE(argmax, turned, D(0), 0),
                         MAKE(gt, turned, y),
                         MAKE(where, MAKE(lt, x, positive), x, MAKE(neg, positive)),
                         MAKE(sum, ints, D(1), 0),
                         MAKE(mul, ints, ints),
                         MAKE(arange, HD_F32, 0, 50000, 0.1),
                         MAKE(clone, turned)};
  uint64_t bits = 0;
  for (size_t i = 0; i < sizeof result / sizeof *result; i++) {
    const uint64_t both[2] = {bits,
                              result[i] ? hd__xxh3(hd_tensor_data(result[i]), (size_t)result[i]->storage->bytes) : 0};
    bits = hd__xxh3(both, sizeof both);
  }
  drop_all();
  return bits;
}

/* The same on every machine. A change to it changes what users compute. */
static const uint64_t EVERYTHING = UINT64_C(0x0107dec800f97051);

static void test_bits(void) {
  static const int threads[] = {1, 2, 3, 5, 8};
  for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
    is_int(hd_tensor_set_threads(ctx, threads[i]), HD_OK, "%d threads", threads[i]);
    const uint64_t bits = bits_of_everything();
    if (!ok(bits == EVERYTHING, "the bits of everything with %d threads", threads[i]))
      diag("found 0x%016llx", (unsigned long long)bits);
  }
  hd_tensor_set_threads(ctx, 0);
}

/* Extremes among many equals, infinities and NaN: the first of them, whichever chain has it. */
static int extremes_are_wrong(const hd_array_kernels *table, const hd_array_kernels *reference, int count) {
  static const float values[] = {1, 1, 0, -0.0f, -1, 1, INFINITY, -INFINITY, NAN};
  float x[HD_ARRAY_BLOCK];
  int wrong = 0;
  for (int kinds = 1; kinds <= 9; kinds++) {
    for (int i = 0; i < count; i++)
      x[i] = values[(unsigned)(i * 7919 + count * 31) % 1009u % (unsigned)kinds];
    for (int e = 0; e < HD_EXTREME_COUNT; e++)
      wrong += reference->find[e][HD_F32](x, count) != table->find[e][HD_F32](x, count);
  }
  return wrong;
}

/* Each instruction set's kernels over plain arrays, against the reference's bits. */
static int table_is_wrong(const hd_array_kernels *table, const hd_array_kernels *reference, int count) {
  static float a[HD_ARRAY_BLOCK], b[HD_ARRAY_BLOCK], want[HD_ARRAY_BLOCK], found[HD_ARRAY_BLOCK];
  hd_tensor *x = MAKE(randn, 21, D(count)), *y = MAKE(rand, 22, D(count));
  int wrong = 0;
  memcpy(a, hd_tensor_data(x), sizeof *a * (size_t)count);
  memcpy(b, hd_tensor_data(y), sizeof *b * (size_t)count);
  a[count / 2] = -0.0f;
  for (int d = 0; d < HD_DTYPE_COUNT; d++) {
    for (int u = 0; u < HD_UNARY_COUNT; u++)
      if (reference->unary[u][d]) {
        memset(want, 0, sizeof want);
        memset(found, 0, sizeof found);
        reference->unary[u][d](want, u == HD_UNARY_SQRT || u == HD_UNARY_LOG ? b : a, count);
        table->unary[u][d](found, u == HD_UNARY_SQRT || u == HD_UNARY_LOG ? b : a, count);
        wrong += memcmp(want, found, sizeof want) != 0;
      }
    for (int o = 0; o < HD_BINARY_COUNT; o++)
      if (reference->binary[o][d]) {
        memset(want, 0, sizeof want);
        memset(found, 0, sizeof found);
        reference->binary[o][d](want, a, b, count);
        table->binary[o][d](found, a, b, count);
        wrong += memcmp(want, found, sizeof want) != 0;
      }
    const hd_number one = reference->sum[d](a, count), other = table->sum[d](a, count);
    wrong += d == HD_F32 ? one.f != other.f : one.i != other.i;
    if (d == HD_F32) {
      reference->sum_columns(want, a, count / 7, 7, 7);
      table->sum_columns(found, a, count / 7, 7, 7);
      wrong += memcmp(want, found, 7 * sizeof *want) != 0;
    }
    for (int e = 0; e < HD_EXTREME_COUNT; e++)
      wrong += reference->find[e][d](a, count) != table->find[e][d](a, count);
  }
  drop_all();
  return wrong;
}

static void test_tables(void) {
  static const char *const sets[] = {"scalar", "avx2", "avx512", "neon"};
  const hd_array_kernels *reference = &hd__kernels_reference()->array;
  for (size_t s = 0; s < sizeof sets / sizeof *sets; s++) {
    const hd_kernels *table = hd__kernels_of(sets[s]);
    int wrong = 0;
    if (!table) {
      skip(1, "no %s here", sets[s]);
      continue;
    }
    for (int count = 1; count <= HD_ARRAY_BLOCK; count = count < 40 ? count + 1 : count * 3 / 2)
      wrong += table_is_wrong(&table->array, reference, count) + extremes_are_wrong(&table->array, reference, count);
    is_int(wrong, 0, "%s has the reference's bits", sets[s]);
  }
}

/* ---- Errors ---- */

static void refused(hd_status status, hd_status want, hd_tensor *out, const char *says, const char *name) {
  const int good = status == want && !out && strstr(hd_ctx_message(ctx), says) && !strchr(hd_ctx_message(ctx), '\n');
  if (!ok(good, "%s is refused", name))
    diag("status %d, expected %d with '%s', found '%s'", (int)status, (int)want, says, hd_ctx_message(ctx));
}
#define REFUSED(want, says, name, call, ...)                                                                           \
  do {                                                                                                                 \
    hd_tensor *out = (hd_tensor *)(void *)ctx;                                                                         \
    hd_status status_ = hd_tensor_##call(&out, ctx, __VA_ARGS__);                                                      \
    refused(status_, want, out, says, name);                                                                           \
  } while (0)

static void test_errors_creating(void) {
  const int64_t far = INT64_C(1) << 40;
  REFUSED(HD_E_SHAPE, "0 to 8 dimensions, found 9", "a ninth dimension", zeros, HD_F32, D(1, 1, 1, 1, 1, 1, 1, 1, 1));
  REFUSED(HD_E_SHAPE, "found -1", "a negative number of dimensions", zeros, HD_F32, -1, NULL);
  REFUSED(HD_E_SHAPE, "found 2", "sizes that are not there", zeros, HD_F32, 2, NULL);
  REFUSED(HD_E_SHAPE, "sizes of 0 or more, found [2, -3]", "a negative size", zeros, HD_F32, D(2, -3));
  REFUSED(HD_E_SHAPE, "fits in memory, found [1099511627776, 1099511627776]", "an overflow", zeros, HD_U8, D(far, far));
  REFUSED(HD_E_SHAPE, "fits in memory", "an overflow beside a size of 0", zeros, HD_U8, D(far, far, 0));
  REFUSED(HD_E_SHAPE, "fits in memory", "an overflow in bytes", zeros, HD_F32, D(INT64_MAX / 4 + 1));
  REFUSED(HD_E_SHAPE, "fits in memory", "the last size of all", zeros, HD_U8, D(INT64_MAX));
  REFUSED(HD_E_NOMEM, "out of memory for a tensor of sizes [4611686018427387904]", "more than there is", zeros, HD_U8,
          D(INT64_MAX / 2 + 1));
  REFUSED(HD_E_USAGE, "found type 7", "an unknown type", zeros, (hd_dtype)7, D(1));
  REFUSED(HD_E_USAGE, "found type -1", "a negative type", zeros, (hd_dtype)-1, D(1));
  REFUSED(HD_E_USAGE, "from 0 to 255 for uint8, found 256", "a byte of 256", full, HD_U8, 256, D(1));
  REFUSED(HD_E_USAGE, "found 0.5", "half an integer", full, HD_I32, 0.5, D(1));
  REFUSED(HD_E_USAGE, "found nan", "an integer NaN", full, HD_I32, NAN, D(1));
  REFUSED(HD_E_USAGE, "found NULL", "data that are not there", from, HD_F32, NULL, D(1));
  REFUSED(HD_E_USAGE, "a step that is not 0", "a step of 0", arange, HD_F32, 0, 1, 0);
  REFUSED(HD_E_USAGE, "finite", "an infinite range", arange, HD_F32, 0, INFINITY, 1);
  REFUSED(HD_E_USAGE, "found 0.5", "integers by halves", arange, HD_I32, 0, 3, 0.5);
  REFUSED(HD_E_USAGE, "found 300", "bytes to 300", arange, HD_U8, 0, 301, 100);
  REFUSED(HD_E_SHAPE, "larger step", "a range without end", arange, HD_F32, 0, 1e300, 1e-300);
  is_int(hd_tensor_set_threads(ctx, -1), HD_E_USAGE, "-1 threads are refused");
  is_int(hd_tensor_set_threads(ctx, 100000), HD_E_USAGE, "100000 threads are refused");
  is_int(hd_tensor_set_threads(NULL, 2), HD_E_USAGE, "no context is refused");
  drop_all();
}

static void test_errors_views(void) {
  hd_tensor *x = MAKE(zeros, HD_F32, D(2, 3)), *one = MAKE(zeros, HD_F32, HD_NO_DIMS);
  double value;
  REFUSED(HD_E_USAGE, "from -2 to 1, found 2", "dimension 2 of 2", select, x, 2, 0);
  REFUSED(HD_E_USAGE, "from -2 to 1, found -3", "dimension -3", select, x, -3, 0);
  REFUSED(HD_E_USAGE, "index from -3 to 2 in dimension 1, found 3", "index 3 of 3", select, x, 1, 3);
  REFUSED(HD_E_USAGE, "found -4", "index -4 of 3", select, x, -1, -4);
  REFUSED(HD_E_USAGE, "found a single number", "a dimension of a number", select, one, 0, 0);
  REFUSED(HD_E_USAGE, "step of 1 or more, found 0", "a step of 0", slice, x, 0, 0, 2, 0);
  REFUSED(HD_E_USAGE, "step of 1 or more, found -1", "a step backwards", slice, x, 0, 2, 0, -1);
  REFUSED(HD_E_SHAPE, "6 elements of [2, 3], at most one of them -1, found [4, 2]", "a reshape to 8", reshape, x,
          D(4, 2));
  REFUSED(HD_E_SHAPE, "found [-1, -1]", "two open sizes", reshape, x, D(-1, -1));
  REFUSED(HD_E_SHAPE, "found [4, -1]", "an open size that does not divide", reshape, x, D(4, -1));
  REFUSED(HD_E_SHAPE, "found [0, -1]", "an open size beside 0", reshape, x, D(0, -1));
  REFUSED(HD_E_SHAPE, "found [-2, -3]", "negative sizes whose product fits", reshape, x, D(-2, -3));
  REFUSED(HD_E_SHAPE, "found [4294967296, 4294967296, 6]", "sizes that overflow to 0", reshape, x,
          D(INT64_C(1) << 32, INT64_C(1) << 32, 6));
  REFUSED(HD_E_USAGE, "2 dimensions, one for each of the tensor's, found 1", "a permutation of 1", permute, x, D(0));
  REFUSED(HD_E_USAGE, "each dimension once, found [0, -2]", "a dimension twice", permute, x, D(0, -2));
  REFUSED(HD_E_SHAPE, "sizes that [2, 3] can be repeated to, found [2, 4]", "an expansion of 3 to 4", expand, x,
          D(2, 4));
  REFUSED(HD_E_SHAPE, "repeated to", "an expansion without bounds", expand, one, D(INT64_C(1) << 62, 4));
  is_int(hd_tensor_get(&value, ctx, x, D(0, 3)), HD_E_USAGE, "an index too far is refused");
  is_int(hd_tensor_get(&value, ctx, x, D(0)), HD_E_USAGE, "an index too few is refused");
  is_int(hd_tensor_set(x, ctx, 1, D(-3, 0)), HD_E_USAGE, "so is one for writing");
  is_int(hd_tensor_item(&value, ctx, x), HD_E_SHAPE, "six elements are not one number");
  is_int(hd_tensor_fill(MAKE(expand, one, D(3)), ctx, 1), HD_E_USAGE, "repeated elements are not written");
  ok(strstr(hd_ctx_message(ctx), "write to a clone") != NULL, "and the line has a remedy");
  is_int(hd_tensor_copy(one, ctx, x), HD_E_SHAPE, "a matrix does not fit a number");
  is_int(hd_tensor_fill(MAKE(zeros, HD_U8, D(2)), ctx, -1), HD_E_USAGE, "a byte is not -1");
  drop_all();
}

static void test_errors_computing(void) {
  hd_tensor *a = MAKE(zeros, HD_F32, D(2, 3)), *b = MAKE(zeros, HD_F32, D(4, 3)), *ints = MAKE(full, HD_I32, 2e9, D(2));
  REFUSED(HD_E_SHAPE, "found [2, 3] and [4, 3], which differ in dimension -2", "2 and 4 rows", add, a, b);
  REFUSED(HD_E_SHAPE, "left as rows on the right, found [2, 3] by [4, 3]", "3 columns by 4 rows", matmul, a, b);
  REFUSED(HD_E_SHAPE, "use hd_tensor_mul", "a number in a product", matmul, a, MAKE(zeros, HD_F32, HD_NO_DIMS));
  REFUSED(HD_E_USAGE, "found int32 by int32", "a product of integers", matmul, ints, ints);
  REFUSED(HD_E_SHAPE, "differ in dimension -1", "batches of 2 and 3", matmul, MAKE(zeros, HD_F32, D(2, 1, 1)),
          MAKE(zeros, HD_F32, D(3, 1, 1)));
  REFUSED(HD_E_USAGE, "found 300", "a byte plus 300", add_scalar, MAKE(zeros, HD_U8, D(1)), 300);
  REFUSED(HD_E_USAGE, "condition of uint8, found float32", "a float condition", where, a, a, a);
  REFUSED(HD_E_USAGE, "found 2", "a sum over dimension 2", sum, a, D(2), 0);
  REFUSED(HD_E_USAGE, "once, found [0, -2]", "a sum over a dimension twice", sum, a, D(0, -2), 0);
  REFUSED(HD_E_USAGE, "found 9", "a sum over 9 dimensions", sum, a, 9, (const int64_t[9]){0}, 0);
  REFUSED(HD_E_USAGE, "fit in int32", "a sum of integers that is too large", sum, ints, HD_ALL_DIMS, 0);
  REFUSED(HD_E_USAGE, "expected float32, found int32", "a mean of integers", mean, ints, HD_ALL_DIMS, 0);
  REFUSED(HD_E_SHAPE, "at least one element", "the largest of nothing", max, MAKE(zeros, HD_F32, D(2, 0)), D(1), 0);
  REFUSED(HD_E_SHAPE, "2147483647 elements", "an index beyond int32", argmax,
          MAKE(expand, a, D(INT64_C(1) << 40, 2, 3)), D(0), 0);
  drop_all();
}

static void test_devices(void) {
  hd_tensor *a = MAKE(zeros, HD_F32, D(2)), far = *a;
  setenv("HEDDLE_CUDA_DRIVER", "/no/such/driver", 1);
  far.device = (hd_device){HD_CUDA, 0};
  const char *mixed = "expected both tensors on cpu, found cuda:0; move one with hd_tensor_to";
  REFUSED(HD_E_USAGE, mixed, "cpu + cuda:0", add, a, &far);
  REFUSED(HD_E_USAGE, "expected both tensors on cuda:0, found cpu", "cuda:0 @ cpu", matmul, &far, a);
  REFUSED(HD_E_USAGE, "move one", "where over devices", where, MAKE(eq, a, a), a, &far);
  is_int(hd_tensor_copy(a, ctx, &far), HD_E_USAGE, "a copy over devices is refused");
  REFUSED(HD_E_UNSUPPORTED, "found cuda:0", "arithmetic elsewhere", neg, &far);
  REFUSED(HD_E_UNSUPPORTED, "expects NVIDIA's driver, found none", "a device that is not there", to, a,
          ((hd_device){HD_CUDA, 1}));
  REFUSED(HD_E_USAGE, "found kind 5", "an unknown device", to, a, ((hd_device){(hd_device_kind)5, 0}));
  ok(hd_tensor_data(MAKE(to, a, ((hd_device){HD_CPU, 0}))) == hd_tensor_data(a), "to where it is: a view");
  is_int(hd_tensor_device(a).kind, HD_CPU, "tensors have their device");
  drop_all();
}

static void test_nothing(void) {
  hd_ctx *silent = NULL, *good = ctx;
  hd_tensor *alone;
  char *text;
  double value;
  hd_ctx_create(&ctx);
  REFUSED(HD_E_USAGE, "expected a tensor, found NULL", "NULL", add, NULL, NULL);
  REFUSED(HD_E_SHAPE, "found [-1]", "a bad size", zeros, HD_F32, D(-1));
  REFUSED(HD_E_USAGE, "found [-1]", "the NULL it left, with the first message kept,", exp, NULL);
  REFUSED(HD_E_USAGE, "found [-1]", "NULL in a sum", sum, NULL, HD_ALL_DIMS, 0);
  REFUSED(HD_E_USAGE, "found [-1]", "NULL in a view", reshape, NULL, D(1));
  is_int(hd_tensor_text(&text, ctx, NULL), HD_E_USAGE, "NULL has no text");
  is_int(hd_tensor_item(&value, ctx, NULL), HD_E_USAGE, "NULL has no number");
  is_int(hd_tensor_fill(NULL, ctx, 1), HD_E_USAGE, "NULL is not filled");
  is_int(hd_tensor_ndim(NULL) + hd_tensor_elems(NULL) + hd_tensor_size(NULL, 0), 0, "NULL has no sizes");
  is_int(hd_tensor_zeros(&alone, silent, HD_F32, D(-1)), HD_E_SHAPE, "without a context there is no message");
  is_int(hd_tensor_zeros(&alone, silent, HD_F32, D(300, 300)), HD_OK, "and one thread");
  hd_tensor_destroy(alone);
  hd_tensor_destroy(NULL);
  hd_ctx_destroy(ctx);
  ctx = good;
}

/* ---- Memory ---- */

static hd_status some_of_everything(hd_ctx *own) {
  enum { COUNT = 12 };
  hd_tensor *x[COUNT] = {NULL};
  char *text = NULL;
  hd_status status = hd_tensor_set_threads(own, 2);
  /* A NULL operand keeps the message, so the chain may go on. */
  hd_tensor_randn(&x[0], own, 1, D(200, 200));
  hd_tensor_reshape(&x[1], own, x[0], D(100, 400));
  hd_tensor_transpose(&x[2], own, x[0], 0, 1);
  hd_tensor_reshape(&x[3], own, x[2], D(-1));
  hd_tensor_add(&x[4], own, x[0], x[2]);
  hd_tensor_add_scalar(&x[5], own, x[4], 2);
  hd_tensor_matmul(&x[6], own, x[2], x[5]);
  hd_tensor_matmul(&x[7], own, x[6], x[2]);
  hd_tensor_sum(&x[8], own, x[7], D(0), 1);
  hd_tensor_to_dtype(&x[9], own, x[8], HD_I32);
  hd_tensor_where(&x[10], own, NULL, x[9], x[9]);
  hd_tensor_full(&x[11], own, HD_F32, 1, D(5));
  if (x[0] && x[11])
    hd_tensor_copy(x[0], own, x[2]);
  for (int i = 0; i < COUNT && status == HD_OK; i++)
    status = i != 10 && !x[i] ? HD_E_NOMEM : HD_OK;
  if (status == HD_OK)
    status = hd_tensor_text(&text, own, x[9]);
  free(text);
  for (int i = 0; i < COUNT; i++)
    hd_tensor_destroy(x[i]);
  return status;
}

static void test_no_memory(void) {
  hd_status status = HD_E_NOMEM;
  int wrong = 0;
  long count = 0;
  for (; status != HD_OK && count < 1000; count++) {
    hd_ctx *own;
    hd_ctx_create(&own);
    hd__alloc_fail_after(count);
    status = some_of_everything(own);
    hd__alloc_fail_after(-1);
    if (status != HD_OK && (status != HD_E_NOMEM || !strstr(hd_ctx_message(own), "memory"))) {
      wrong++;
      diag("allocation %ld: status %d, '%s'", count, (int)status, hd_ctx_message(own));
    }
    hd_ctx_destroy(own);
  }
  ok(count > 20 && status == HD_OK, "gets through once %ld allocations succeed", count - 1);
  is_int(wrong, 0, "each failed allocation is reported as such");
}

int main(void) {
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("out of memory");
  test_text();
  test_create();
  test_views();
  test_sharing();
  test_arithmetic();
  test_types();
  test_comparison();
  test_strided();
  test_reductions();
  test_order();
  test_matmul();
  test_matmul_shapes();
  test_matmul_views();
  test_matmul_into();
  test_blas();
  test_bits();
  test_tables();
  test_errors_creating();
  test_errors_views();
  test_errors_computing();
  test_devices();
  test_nothing();
  test_no_memory();
  hd_ctx_destroy(ctx);
  return done_testing();
}
