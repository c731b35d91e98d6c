/* A tensor as text, the way PyTorch prints it.
 *
 * All numbers have one form and one width, chosen from those that are shown: whole floats as "1.", others with four
 * decimals, or with an exponent where they are very large, very small or far apart. More than 1000 elements are elided
 * to three at each end of a dimension. Decimal points are points in every locale. */
#include "tensor/eager.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rounding.h"

enum { LINE = 80, SHOWN_WHOLE = 1000, EDGE = 3, INDENT = 7 /* "tensor(" */, NUMBER_BYTES = 64 };

static const char new_lines[HD_TENSOR_MAX_DIMS + 1] = "\n\n\n\n\n\n\n\n";

/* The format of numbers. */
typedef struct number_form {
  bool whole, exponent; /* of floats */
  double least, most;   /* absolute values, finite and not 0; most = 0: none seen */
  int width;
} number_form;

/* printf writes the locale's decimal point. */
static void fix_point(char *number) {
  const char *point = localeconv()->decimal_point;
  char *found = strcmp(point, ".") ? strstr(number, point) : NULL;
  if (found) {
    *found = '.';
    memmove(found + 1, found + strlen(point), strlen(found + strlen(point)) + 1);
  }
}

static const char *number_text(char number[NUMBER_BYTES], const hd_tensor *x, const number_form *form, double value) {
  if (x->dtype != HD_F32)
    snprintf(number, NUMBER_BYTES, "%lld", (long long)value);
  else if (value != value)
    snprintf(number, NUMBER_BYTES, "nan");
  else if (isinf(value))
    snprintf(number, NUMBER_BYTES, value < 0 ? "-inf" : "inf");
  else if (form->exponent)
    snprintf(number, NUMBER_BYTES, "%.4e", value);
  else if (form->whole)
    snprintf(number, NUMBER_BYTES, "%.0f.", value);
  else
    snprintf(number, NUMBER_BYTES, "%.4f", value);
  fix_point(number);
  return number;
}

/* ---- Which numbers are shown ---- */

typedef struct viewer viewer;
typedef void visit_fn(viewer *v, double value);

struct viewer {
  const hd_tensor *x;
  number_form form;
  visit_fn *visit;
};

static bool elided(const hd_tensor *x, int dim) { return hd_tensor_elems(x) > SHOWN_WHOLE && x->size[dim] > 2 * EDGE; }

/* Calls v->visit for each number shown from element `offset` of dimension dim on. */
static void visit_all(viewer *v, int dim, int64_t offset) {
  const hd_tensor *x = v->x;
  if (dim == x->ndim) {
    v->visit(v, hd__load(x->dtype, x->data + offset * hd__dtype_bytes(x->dtype)));
    return;
  }
  for (int64_t i = 0; i < x->size[dim]; i++) {
    if (i == EDGE && elided(x, dim))
      i = x->size[dim] - EDGE;
    visit_all(v, dim + 1, offset + i * x->stride[dim]);
  }
}

static void note_range(viewer *v, double value) {
  number_form *form = &v->form;
  const double size = fabs(value);
  if (size == 0 || !isfinite(value))
    return;
  form->whole &= value == ceil(value);
  form->least = form->most == 0 || size < form->least ? size : form->least;
  form->most = size > form->most ? size : form->most;
}

/* As PyTorch does, the width is that of the finite numbers other than 0: so an inf may be wider. */
static void note_width(viewer *v, double value) {
  char number[NUMBER_BYTES];
  if (v->x->dtype == HD_F32 && (value == 0 || !isfinite(value)))
    return;
  const int width = (int)strlen(number_text(number, v->x, &v->form, value));
  v->form.width = width > v->form.width ? width : v->form.width;
}

static number_form find_form(const hd_tensor *x) {
  viewer v = {.x = x, .form = {.whole = true, .width = 1}, .visit = note_range};
  number_form *form = &v.form;
  visit_all(&v, 0, 0);
  form->exponent = form->most > 0 && (form->most / form->least > 1000 || form->most > 1e8 || form->least < 1e-4);
  v.visit = note_width;
  visit_all(&v, 0, 0);
  return *form;
}

/* ---- Brackets and lines ---- */

static void add_number(FILE *t, const hd_tensor *x, const number_form *form, int64_t offset) {
  char number[NUMBER_BYTES];
  number_text(number, x, form, hd__load(x->dtype, x->data + offset * hd__dtype_bytes(x->dtype)));
  fprintf(t, "%*s", form->width, number);
}

/* The last dimension: as many numbers in a line as fit. */
static void add_row(FILE *t, const hd_tensor *x, const number_form *form, int64_t offset, int indent) {
  const int dim = x->ndim - 1, fit = (LINE - indent) / (form->width + 2), per_line = fit > 1 ? fit : 1;
  int shown = 0;
  fputs("[", t);
  for (int64_t i = 0; i < x->size[dim]; i++, shown++) {
    const bool gap = i == EDGE && elided(x, dim);
    if (shown > 0 && shown % per_line == 0) {
      fprintf(t, ",\n%*s", indent + 1, "");
    } else if (shown > 0) {
      fputs(", ", t);
    }
    if (gap) {
      fputs(" ...", t);
      i = x->size[dim] - EDGE - 1;
    } else {
      add_number(t, x, form, offset + i * x->stride[dim]);
    }
  }
  fputs("]", t);
}

static void add_slices(FILE *t, const hd_tensor *x, const number_form *form, int dim, int64_t offset, int indent) {
  if (dim == x->ndim - 1) {
    add_row(t, x, form, offset, indent);
    return;
  }
  fputs("[", t);
  for (int64_t i = 0; i < x->size[dim]; i++) {
    if (i > 0) {
      fprintf(t, ",%.*s%*s", x->ndim - dim - 1, new_lines, indent + 1, "");
    }
    if (i == EDGE && elided(x, dim)) {
      fputs("...", t);
      i = x->size[dim] - EDGE - 1;
    } else {
      add_slices(t, x, form, dim + 1, offset + i * x->stride[dim], indent + 1);
    }
  }
  fputs("]", t);
}

/* Adds ", dtype=int32" and the like, on a new line where the last one is full. */
static void add_suffix(FILE *t, int *column, const char *suffix) {
  const int length = (int)strlen(suffix);
  const bool full = *column + length + 2 > LINE;
  fprintf(t, full ? ",\n%*s%s" : ", %*s%s", full ? INDENT : 0, "", suffix);
  *column = full ? INDENT + length : *column + length + 2;
}

/* `so_far`: the text without them. */
static void add_suffixes(FILE *t, const hd_tensor *x, const char *so_far) {
  char sizes[HD_SIZES_TEXT_BYTES], suffix[HD_SIZES_TEXT_BYTES + 16];
  const char *line = strrchr(so_far, '\n');
  int column = line ? (int)strlen(line) : (int)strlen(so_far) + 2;
  if (hd_tensor_elems(x) == 0 && x->ndim != 1) {
    hd__sizes_text(sizes, x->ndim, x->size);
    snprintf(suffix, sizeof suffix, "size=(%.*s)", (int)strlen(sizes) - 2, sizes + 1);
    add_suffix(t, &column, suffix);
  }
  if (x->dtype != HD_F32) {
    snprintf(suffix, sizeof suffix, "dtype=%s", hd__dtype_text(x->dtype));
    add_suffix(t, &column, suffix);
  }
}

static void add_tensor(FILE *t, const hd_tensor *x) {
  fputs("tensor(", t);
  if (hd_tensor_elems(x) == 0) {
    fputs("[]", t);
    return;
  }
  const number_form form = find_form(x);
  if (x->ndim == 0)
    add_number(t, x, &form, 0);
  else
    add_slices(t, x, &form, 0, 0, INDENT);
}

hd_status hd_tensor_text(char **out, hd_ctx *ctx, const hd_tensor *x) {
  HD_ROUNDING_TO_NEAREST;
  char *text = NULL;
  size_t length = 0;
  *out = NULL;
  HD_TRY(hd__tensor_here(ctx, x));
  FILE *t = open_memstream(&text, &length);
  if (t)
    add_tensor(t, x);
  bool failed = !t || fflush(t) != 0;
  if (!failed) {
    add_suffixes(t, x, text);
    fputs(")", t);
  }
  failed = (t && fclose(t) != 0) || failed;
  *out = failed ? NULL : hd__strdup(text);
  free(text);
  return HD_ALLOCATED(*out, ctx, "out of memory for the text of a tensor");
}

hd_status hd_tensor_print(const hd_tensor *x, hd_ctx *ctx, FILE *file) {
  char *shown;
  HD_TRY(hd_tensor_text(&shown, ctx, x));
  const bool written = fprintf(file, "%s\n", shown) >= 0;
  hd__free(shown);
  return written ? HD_OK : hd__fail(ctx, HD_E_IO, "cannot write the tensor to the file");
}
