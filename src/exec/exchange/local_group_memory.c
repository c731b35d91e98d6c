/* Memory that the ranks of a local group share: blocks of its memory file; see local_group.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "exec/exchange/local_group_state.h"

/* Of a block: HELD_BY(number of ranks); FREE; or TAKING: being allocated. Its room may be NO_ROOM. */
enum { TAKING = -1, FREE = 0, NO_ROOM = -1 };
#define HELD_BY(ranks) ((ranks) + 1) /* 1: the last rank is freeing it */

/* Takes the smallest free block that has room, or with NO_ROOM one without any; NULL: there is none. A block whose room
 * is 0 is being added to the table by another rank. */
static shared_block *reuse(hd_local_group *group, int64_t bytes) {
  const int count = atomic_load(&group->head->blocks);
  for (;;) {
    int free = FREE;
    shared_block *best = NULL;
    for (int i = 0; i < count && i < HD_LOCAL_GROUP_BLOCKS; i++) {
      shared_block *p = &group->block[i];
      if (atomic_load(&p->held) != FREE || (bytes == NO_ROOM && p->room != NO_ROOM))
        continue;
      if ((bytes == NO_ROOM || p->room > 0) && p->room >= bytes && (!best || p->room < best->room))
        best = p;
    }
    if (!best || atomic_compare_exchange_strong(&best->held, &free, TAKING))
      return best;
  }
}

static hd_status too_many_blocks(hd_ctx *ctx) {
  return hd__fail(ctx, HD_E_USAGE,
                  "expected at most %d blocks of memory that ranks share at a time, found more; destroy groups, "
                  "buffers and sessions that are no longer used",
                  HD_LOCAL_GROUP_BLOCKS);
}

hd_status hd__local_group_no_block(hd_ctx *ctx, hd_status why, const char *what) {
  return why == HD_E_USAGE
             ? too_many_blocks(ctx)
             : hd__fail(
                   ctx, why,
                   "no memory for %s: the ranks' shared file cannot grow; raise the limit on memory, or share less",
                   what);
}

/* Takes a new block of the table; NULL: the table is full. */
static shared_block *add_block(hd_local_group *group) {
  shared_block *spoiled = reuse(group, NO_ROOM);
  if (spoiled)
    return spoiled;
  const int which = atomic_fetch_add(&group->head->blocks, 1);
  if (which >= HD_LOCAL_GROUP_BLOCKS) {
    atomic_fetch_sub(&group->head->blocks, 1);
    return NULL;
  }
  atomic_store(&group->block[which].held, TAKING);
  return &group->block[which];
}

/* The file did not grow: frees the entry, and its range of the file unless another block was allocated behind it. */
static void discard_block(hd_local_group *group, shared_block *p, int64_t end) {
  atomic_compare_exchange_strong(&group->head->used, &end, p->offset);
  p->room = NO_ROOM;
  atomic_store(&p->held, FREE);
}

/* Appends a block to the file. Several ranks may do so at once: a write behind the end never shortens the file,
 * whereas a late ftruncate would. */
static hd_status lengthen(shared_block **out, hd_local_group *group, hd_ctx *ctx, int64_t bytes) {
  const int64_t align = HD_SEGMENT_ALIGN, room = bytes > 0 ? (bytes + align - 1) / align * align : align;
  shared_block *p = add_block(group);
  if (!p)
    return too_many_blocks(ctx);
  p->offset = atomic_fetch_add(&group->head->used, room + align);
  const int64_t end = p->offset + room + align; /* the last page is never freed */
  if (pwrite(group->fd, "", 1, (off_t)(end - 1)) != 1) {
    const int why = errno;
    discard_block(group, p, end);
    return hd__fail(ctx, HD_E_NOMEM, "cannot get %lld MiB of memory for the ranks to share: %s",
                    (long long)(bytes >> 20), strerror(why));
  }
  p->room = room;
  *out = p;
  return HD_OK;
}

static hd_status take(int32_t *block, hd_local_group *group, hd_ctx *ctx, size_t bytes, int holders, const char *name) {
  shared_block *p = reuse(group, (int64_t)bytes);
  if (!p)
    HD_TRY(lengthen(&p, group, ctx, (int64_t)bytes));
  p->bytes = (int64_t)bytes;
  p->number = atomic_fetch_add(&group->head->taken, 1);
  snprintf(p->name, sizeof p->name, "%s", name);
  *block = (int32_t)(p - group->block);
  atomic_store(&p->held, HELD_BY(holders));
  return HD_OK;
}

hd_status hd__local_group_allocate(int32_t *block, hd_local_group *group, hd_ctx *ctx, size_t bytes, int holders) {
  return take(block, group, ctx, bytes, holders, "");
}

void hd__local_group_release(hd_local_group *group, int32_t block) { atomic_store(&group->block[block].held, FREE); }

/* Offset and size of a block, read once: they are in memory that all ranks write. */
typedef struct span {
  int64_t offset;
  size_t bytes;
} span;

/* Checks that a block is inside the file: touching a page behind its end would end the process. */
static hd_status find_span(span *out, const hd_local_group *group, hd_ctx *ctx, const shared_block *p,
                           const char *what) {
  const volatile shared_block *shared = p;
  const int64_t offset = shared->offset, bytes = shared->bytes;
  hd_local_group sizes;
  struct stat file;
  const int64_t first = (int64_t)hd__local_group_lay_out(&sizes, NULL, group->ranks);
  *out = (span){offset, (size_t)bytes};
  if (fstat(group->fd, &file) == 0 && bytes >= 0 && bytes <= file.st_size && offset >= first &&
      offset <= file.st_size && offset % HD_SEGMENT_ALIGN == 0 &&
      (int64_t)hd__segment_bytes((size_t)bytes) <= file.st_size - offset)
    return HD_OK;
  return hd__fail(ctx, HD_E_FORMAT,
                  "expected %s inside the memory of the ranks, found %lld bytes at %lld of a file of %lld; another "
                  "process has overwritten that memory: start the ranks again",
                  what, (long long)bytes, (long long)offset, (long long)file.st_size);
}

hd_status hd__local_group_map(hd_segment *out, hd_local_group *group, hd_ctx *ctx, int32_t block, const char *what) {
  span at;
  *out = (hd_segment){0};
  if (block < 0 || block >= HD_LOCAL_GROUP_BLOCKS)
    return hd__fail(ctx, HD_E_FORMAT,
                    "expected %s in one of %d blocks of memory, found number %d; start the ranks again", what,
                    HD_LOCAL_GROUP_BLOCKS, block);
  shared_block *p = &group->block[block];
  HD_TRY(find_span(&at, group, ctx, p, what));
  HD_TRY(hd__segment_map(out, ctx, group->fd, at.offset, at.bytes, what));
  /* After a fault the block is kept: the parent saves from it. */
  hd__segment_count(out, group->fd, at.offset, &p->held, &group->record->state);
  return HD_OK;
}

/* What a rank requests; rank 0 adds the block. */
typedef struct request {
  char name[HD_LOCAL_GROUP_NAME_BYTES];
  int64_t bytes;
  int32_t block;
  hd_status status;
} request;

hd_status hd__local_group_memory(hd_segment *out, hd_local_group *group, hd_ctx *ctx, size_t bytes, const char *what) {
  *out = (hd_segment){0};
  if (!group)
    return hd__segment_create(out, ctx, bytes, what);
  request input = {.bytes = (int64_t)bytes};
  snprintf(input.name, sizeof input.name, "%s", what);
  if (group->rank == 0)
    input.status = take(&input.block, group, NULL, bytes, group->ranks, what);
  request *all;
  HD_TRY(HD_NEW(all, group->ranks, ctx, "out of memory for %s", what));
  hd_status status = hd__local_group_gather(all, group, ctx, &input, sizeof input);
  for (int r = 0; r < group->ranks; r++)
    all[r].name[sizeof all[r].name - 1] = 0;
  const request first = all[0];
  for (int r = 1; r < group->ranks && status == HD_OK; r++)
    if (all[r].bytes != first.bytes || strcmp(all[r].name, first.name))
      status = hd__fail(ctx, HD_E_USAGE,
                        "expected all ranks to share the same memory, but rank %d wants %lld bytes for %s and rank 0 "
                        "%lld for %s; do they run the same version with the same settings?",
                        r, (long long)all[r].bytes, all[r].name, (long long)first.bytes, first.name);
  hd__free(all);
  if (status == HD_OK && first.status != HD_OK)
    status = hd__local_group_no_block(ctx, first.status, what);
  return status == HD_OK ? hd__local_group_map(out, group, ctx, first.block, what) : status;
}

hd_status hd__local_group_find(hd_segment *out, hd_local_group *group, hd_ctx *ctx, const char *what) {
  const int count = atomic_load_explicit(&group->head->blocks, memory_order_acquire);
  const shared_block *last = NULL;
  *out = (hd_segment){0};
  for (int i = 0; i < count && i < HD_LOCAL_GROUP_BLOCKS; i++) {
    const shared_block *p = &group->block[i];
    if (atomic_load(&p->held) > HELD_BY(0) && !strncmp(p->name, what, sizeof p->name) &&
        (!last || p->number > last->number))
      last = p;
  }
  if (!last)
    return hd__fail(ctx, HD_E_USAGE, "expected the ranks to share %s, found nothing by that name", what);
  span at;
  HD_TRY(find_span(&at, group, ctx, last, what));
  return hd__segment_map(out, ctx, group->fd, at.offset, at.bytes, what);
}
