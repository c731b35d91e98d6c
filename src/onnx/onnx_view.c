/* Views: tensors of an ONNX file as the elements of layers, and what follows from their axes alone; see onnx_reader.h.
 * Nothing here makes a layer; onnx_move.c does. */
#ifdef HD_HAVE_ONNX

#include <string.h>

#include "onnx/onnx_reader.h"

int64_t hd__onnx_sample(const hd_onnx_view *v) {
  int64_t elems = 1;
  for (int i = 0; i < v->atoms; i++)
    elems *= v->atom[i].size;
  return elems;
}

int hd__onnx_axis(const hd_onnx_view *v, int64_t axis) {
  axis += axis < 0 ? v->rank : 0;
  return axis < 0 || axis >= v->rank ? -1 : (int)axis;
}

static void add_atom(hd_onnx_view *v, int axis, int64_t size, int64_t step) {
  if (size != 1 && v->atoms < HD_ONNX_ATOMS)
    v->atom[v->atoms++] = (hd_onnx_atom){axis, size, step};
}

void hd__onnx_whole(hd_onnx_view *v, const char *layer, int rank, bool flat, int64_t c, int64_t h, int64_t w) {
  *v = (hd_onnx_view){.flat = flat, .c = c, .h = h, .w = w, .rank = rank};
  snprintf(v->layer, sizeof v->layer, "%s", layer);
  add_atom(v, 1, c, h * w);
  if (rank > 3)
    add_atom(v, 2, h, w);
  add_atom(v, rank > 3 ? 3 : 2, rank > 3 ? w : h * w, 1);
}

void hd__onnx_merge(hd_onnx_view *v) {
  int n = 0;
  for (int i = 1; i < v->atoms; i++) {
    hd_onnx_atom *last = &v->atom[n];
    const hd_onnx_atom *next = &v->atom[i];
    if (last->axis == next->axis && last->step == next->size * next->step) {
      last->size *= next->size;
      last->step = next->step;
    } else {
      v->atom[++n] = *next;
    }
  }
  v->atoms = v->atoms > 0 ? n + 1 : 0;
}

bool hd__onnx_repeats(const hd_onnx_view *v) {
  for (int i = 0; i < v->atoms; i++)
    if (v->atom[i].step == 0)
      return true;
  return false;
}

bool hd__onnx_in_order(const hd_onnx_view *v) {
  int64_t step = 1;
  for (int i = v->atoms - 1; i >= 0; step *= v->atom[i--].size)
    if (v->atom[i].step != step)
      return false;
  return true;
}

void hd__onnx_rename_axes(hd_onnx_view *v, const int *to, int rank) {
  hd_onnx_view out = *v;
  out.atoms = 0;
  for (int axis = 0; axis < rank; axis++)
    for (int i = 0; i < v->atoms; i++)
      if (to[v->atom[i].axis] == axis)
        add_atom(&out, axis, v->atom[i].size, v->atom[i].step);
  out.rank = rank;
  out.batch = to[v->batch];
  *v = out;
}

bool hd__onnx_same_places(const hd_onnx_view *a, const hd_onnx_view *b) {
  bool same = a->flat == b->flat && a->c == b->c && a->h == b->h && a->w == b->w && a->atoms == b->atoms;
  for (int i = 0; i < a->atoms && same; i++)
    same =
        a->atom[i].axis == b->atom[i].axis && a->atom[i].size == b->atom[i].size && a->atom[i].step == b->atom[i].step;
  return same;
}

uint32_t hd__onnx_strip(hd_onnx_view *v) {
  uint32_t repeated = 0;
  int n = 0;
  for (int i = 0; i < v->atoms; i++) {
    if (v->atom[i].step == 0)
      repeated |= 1u << v->atom[i].axis;
    else
      v->atom[n++] = v->atom[i];
  }
  v->atoms = n;
  return repeated;
}

/* ---- After a layer ---- */

hd_status hd__onnx_set_channels(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int axis,
                                int64_t channels) {
  const hd_onnx_view before = *v;
  const int64_t pixels = hd__onnx_pixels(v);
  v->atoms = 0;
  for (int i = 0; i < before.atoms; i++)
    v->atoms += before.atom[i].step < pixels;
  if (v->atoms == HD_ONNX_ATOMS)
    return hd__onnx_refuse(r, node, "expected pixels of at most %d parts, found more; transpose and reshape them less",
                           HD_ONNX_ATOMS - 1);
  v->atoms = 0;
  for (int i = 0; i < before.atoms; i++)
    if (before.atom[i].axis < axis && before.atom[i].step < pixels)
      v->atom[v->atoms++] = before.atom[i];
  add_atom(v, axis, channels, pixels);
  for (int i = 0; i < before.atoms; i++)
    if (before.atom[i].axis >= axis && before.atom[i].step < pixels)
      v->atom[v->atoms++] = before.atom[i];
  v->c = channels;
  return HD_OK;
}

static void keep_atoms(hd_onnx_view *v, bool channels, int64_t divisor) {
  const int64_t pixels = hd__onnx_pixels(v);
  int n = 0;
  for (int i = 0; i < v->atoms; i++)
    if ((v->atom[i].step >= pixels) == channels) {
      v->atom[n] = v->atom[i];
      v->atom[n++].step /= divisor;
    }
  v->atoms = n;
}

void hd__onnx_drop_channels(hd_onnx_view *v) {
  keep_atoms(v, false, 1);
  v->c = 1;
}

void hd__onnx_drop_pixels(hd_onnx_view *v) {
  keep_atoms(v, true, hd__onnx_pixels(v));
  v->h = v->w = 1;
}

/* ---- Other axes, elements ---- */

bool hd__onnx_divide(hd_onnx_view *out, const hd_onnx_view *v, const int64_t *side, int rank) {
  int next = 0;
  hd_onnx_atom left = {0, 1, 1};
  *out = *v;
  out->atoms = 0;
  out->rank = rank;
  for (int axis = 0; axis < rank; axis++)
    for (int64_t need = side[axis]; need > 1;) {
      if (left.size == 1) {
        if (next == v->atoms)
          return false;
        left = v->atom[next++];
      }
      const int64_t part = left.size < need ? left.size : need;
      if (left.size % part != 0 || need % part != 0 || out->atoms == HD_ONNX_ATOMS)
        return false;
      left.size /= part;
      add_atom(out, axis, part, left.step * left.size);
      need /= part;
    }
  return next == v->atoms && left.size == 1;
}

void hd__onnx_places(int64_t *place, const hd_onnx_view *v) {
  const int64_t elems = hd__onnx_sample(v);
  for (int64_t e = 0; e < elems; e++) {
    int64_t left = e;
    place[e] = 0;
    for (int i = v->atoms - 1; i >= 0; left /= v->atom[i--].size)
      place[e] += left % v->atom[i].size * v->atom[i].step;
  }
}

#endif
