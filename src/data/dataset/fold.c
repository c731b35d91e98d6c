/* A fold of a data set that has a test set: its training samples are divided, and the test set is left out.
 *
 * Only samples in memory are divided here, into memory of their own, since a format's may be a file. Other formats
 * leave out a test set and divide the rest themselves. */
#include "base/alloc.h"
#include "data/dataset/dataset_finish.h"
#include "data/dataset/format.h"

/* The rows of `all` with this mark; NULL if there is not enough memory. */
static void *gather(const void *all, int64_t count, int64_t taken, size_t row_bytes, const uint8_t *marks, int mark) {
  const uint8_t *from = all;
  uint8_t *const rows = hd__malloc((size_t)taken * row_bytes + 1), *to = rows;
  for (int64_t i = 0; i < count && rows; i++)
    if (marks[i] == mark) {
      memcpy(to, from + (size_t)i * row_bytes, row_bytes);
      to += row_bytes;
    }
  return rows;
}

/* One part of the samples of `all`; `numbers` of its rows, or NULL. False if there is not enough memory. */
static bool take_part(hd_split *split, hd_split_memory *memory, const hd_split *all, const double *numbers,
                      const uint8_t *marks, int mark) {
  const int64_t count = all->count;
  const size_t elems = (size_t)hd__split_elems(all), outputs = (size_t)all->outputs;
  *split = *all;
  split->count = 0;
  for (int64_t i = 0; i < count; i++)
    split->count += marks[i] == mark;
  const int64_t taken = split->count;
  if (all->images)
    split->images = memory->images = gather(all->images, count, taken, elems, marks, mark);
  if (all->floats)
    split->floats = memory->floats = gather(all->floats, count, taken, elems * sizeof(float), marks, mark);
  if (all->labels)
    split->labels = memory->labels = gather(all->labels, count, taken, sizeof(int32_t), marks, mark);
  if (all->targets)
    split->targets = memory->targets = gather(all->targets, count, taken, outputs * sizeof(float), marks, mark);
  if (numbers)
    memory->numbers = gather(numbers, count, taken, elems * sizeof(double), marks, mark);
  return (!all->images || memory->images) && (!all->floats || memory->floats) && (!all->labels || memory->labels) &&
         (!all->targets || memory->targets) && (!numbers || memory->numbers);
}

hd_status hd__dataset_take_fold(hd_dataset *data, hd_ctx *ctx, const char *name) {
  const hd_split all = data->split[0];
  hd_split_memory part[2] = {{0}};
  HD_OWNED uint8_t *marks = NULL;
  bool enough = true;
  if (data->fold.of == 0 || data->divided)
    return HD_OK;
  if (!hd__split_in_memory(&all))
    return hd__fail(ctx, HD_E_UNSUPPORTED, "%s: --fold expects samples in memory or a set without a test set, found %s",
                    name, "others; leave --fold out");
  HD_TRY(hd__dataset_note(data, ctx,
                          "%s: --fold divides the training set; the %lld samples of its test set are left out", name,
                          (long long)data->split[1].count));
  HD_TRY(hd__dataset_mark_test(&marks, data, ctx, name, all.count, all.labels));
  for (int s = 0; s < 2; s++)
    enough = enough && take_part(&data->split[s], &part[s], &all, data->memory[0].numbers, marks, s);
  for (int s = 0; s < 2; s++) {
    hd__split_memory_fini(&data->memory[s]);
    data->memory[s] = part[s];
  }
  return HD_ALLOCATED(enough, ctx, "%s: out of memory for the fold of %lld samples", name, (long long)all.count);
}
