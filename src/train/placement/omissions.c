/* Reading HEDDLE_PLAN, and tables of kernels without some: see omissions.h. */
#include "train/placement/omissions.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "op/op.h"

static const struct {
  const char *name;
  uint32_t passes;
  size_t flag; /* or a flag of hd_omissions */
} names[] = {
    {"relu", HD_OMIT_RELU, 0},
    {"recompute", HD_OMIT_RECOMPUTE, 0},
    {"needed", HD_OMIT_NEEDED, 0},
    {"reuse", HD_OMIT_REUSE, 0},
    {"in-place", HD_OMIT_IN_PLACE, 0},
    {"form", 0, offsetof(hd_omissions, form)},
    {"outputs", 0, offsetof(hd_omissions, outputs)},
};
#if defined(__SANITIZE_ADDRESS__)
enum { IS_SANITIZED = 1 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
enum { IS_SANITIZED = 1 };
#else
enum { IS_SANITIZED = 0 };
#endif
#else
enum { IS_SANITIZED = 0 };
#endif

enum { NAMES = sizeof names / sizeof *names };

static hd_status unknown(hd_ctx *ctx, const char *list, const char *item, int length) {
  char known[256] = "";
  for (int i = 0; i < NAMES; i++)
    snprintf(known + strlen(known), sizeof known - strlen(known), "%s-%s", i ? ", " : "", names[i].name);
  return hd__fail(
      ctx, HD_E_USAGE,
      "HEDDLE_PLAN expects a list of check, plain, %s and operations (-conv2d, -conv2d_dx), found '%.*s' in "
      "'%s'; unset it for the fastest plan",
      known, length, item, list);
}

static bool is_item(const char *item, int length, const char *name) {
  return length == (int)strlen(name) && !strncmp(item, name, (size_t)length);
}

static void leave_out_all(hd_omissions *out) {
  out->plain = out->form = out->outputs = true;
  out->passes = HD_OMIT_ALL;
}

/* An item of the list. */
static bool take(hd_omissions *out, const char *item, int length) {
  char name[64];
  if (is_item(item, length, "check"))
    return out->check = true;
  if (is_item(item, length, "plain")) {
    leave_out_all(out);
    return true;
  }
  if (length < 2 || length > (int)sizeof name || *item != '-')
    return false;
  snprintf(name, sizeof name, "%.*s", length - 1, item + 1);
  for (int i = 0; i < NAMES; i++)
    if (!strcmp(name, names[i].name)) {
      out->passes |= names[i].passes;
      if (names[i].flag)
        *(bool *)((char *)out + names[i].flag) = true;
      return true;
    }
  const hd_op op = hd__op_find(name);
  if (op < HD_OP_COUNT)
    out->op[op] = true;
  return op < HD_OP_COUNT;
}

hd_status hd__omissions_read(hd_omissions *out, hd_ctx *ctx) {
  const char *list = getenv("HEDDLE_PLAN");
  *out = (hd_omissions){.check = IS_SANITIZED};
  if (!list || !*list)
    return HD_OK;
  for (const char *item = list; item; item = strchr(item, ',') ? strchr(item, ',') + 1 : NULL) {
    const int length = (int)strcspn(item, ",");
    if (!take(out, item, length))
      return unknown(ctx, list, item, length);
  }
  return HD_OK;
}

static void leave_out_op(hd_kernels *table, const hd_kernels *plain, hd_op op) {
  table->supports[op] = plain->supports[op];
  table->run[op] = plain->run[op];
  table->update[op] = plain->update[op];
  table->form[op] = plain->form[op];
  table->forms[op] = plain->forms[op];
  table->form_columns[op] = plain->form_columns[op];
  table->form_rows[op] = plain->form_rows[op];
  table->form_scratch_bytes[op] = plain->form_scratch_bytes[op];
  table->merges[op] = plain->merges[op];
  table->run_outputs[op] = plain->run_outputs[op];
  table->scratch_bytes[op] = plain->scratch_bytes[op];
  table->packed_elems[op] = plain->packed_elems[op];
  table->pack[op] = plain->pack[op];
}

static void leave_out(hd_kernels *table, const hd_kernels *reference, const hd_omissions *o) {
  for (int op = 0; op < HD_OP_COUNT; op++) {
    if (o->op[op])
      leave_out_op(table, reference, (hd_op)op);
    if (o->form)
      table->form[op] = NULL;
    if (o->outputs)
      table->run_outputs[op] = NULL;
  }
}

/* A table that was made. */
typedef struct made {
  const hd_kernels *of;
  hd_omissions omissions;
  hd_kernels table;
  struct made *next;
} made;

hd_status hd__omissions_kernels(const hd_kernels **table, hd_ctx *ctx, const hd_kernels *reference,
                                const hd_omissions *omissions) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static const hd_omissions none;
  static made *all;
  hd_status status = HD_OK;
  hd_omissions wanted = *omissions;
  wanted.plain = wanted.check = false; /* these are no kernels */
  wanted.passes = 0;
  if (!memcmp(&wanted, &none, sizeof none))
    return HD_OK;
  pthread_mutex_lock(&lock);
  made *m = all;
  while (m && (m->of != *table || memcmp(&m->omissions, &wanted, sizeof wanted) != 0))
    m = m->next;
  if (!m && (m = hd__calloc(1, sizeof *m))) {
    m->of = *table;
    m->omissions = wanted;
    m->table = **table;
    m->next = all;
    all = m;
    leave_out(&m->table, reference, &wanted);
  }
  if (m)
    *table = &m->table;
  else
    status = hd__fail(ctx, HD_E_NOMEM, "out of memory for a table of kernels");
  pthread_mutex_unlock(&lock);
  return status;
}
