/* Rows of a CSV file for a run: see table_rows.h. */
#include "data/tables/table_rows.h"

#include "base/alloc.h"

void hd__table_rows_close(hd_table_rows *rows) {
  hd__csv_close(&rows->table);
  hd__free(rows->floats);
  hd__free(rows->numbers);
  *rows = (hd_table_rows){0};
}

/* The run's header and label, unless others are given. */
static hd_csv_options options_for(const hd_csv_options *given, const hd_features *features) {
  hd_csv_options options = *given;
  options.label = options.label ? options.label : "";
  options.categories = options.categories > 0 ? options.categories : HD_CSV_CATEGORIES;
  options.is_unlabelled = options.may_lack_weights = true;
  if (!features || features->columns == 0)
    return options;
  options.columns = features->columns;
  if (options.header == HD_CSV_HEADER_AUTO)
    options.header = features->feature[0].column ? HD_CSV_HEADER_YES : HD_CSV_HEADER_NO;
  return options;
}

hd_status hd__table_rows_open(hd_table_rows *out, hd_ctx *ctx, const char *path, const hd_features *features,
                              int32_t width, const hd_csv_options *given) {
  static const char NO_MEMORY[] = "%s: out of memory for %lld rows";
  const hd_csv_options options = options_for(given, features);
  HD_RELEASED(hd__features_fini) hd_features plain = {0};
  *out = (hd_table_rows){0};
  HD_TRY(hd__csv_open(&out->table, ctx, path, &options));
  const hd_csv_table *t = &out->table;
  HD_TRY(hd__table_check_empty(ctx, t, &options));
  if (!features || features->columns == 0) {
    HD_TRY(hd__table_plain(&plain, ctx, t, &options, width));
    features = &plain;
  }
  HD_TRY(HD_NEW_RAW(out->floats, t->count * features->count, ctx, NO_MEMORY, t->path, (long long)t->count));
  if (features != &plain)
    HD_TRY(HD_NEW_RAW(out->numbers, t->count * features->count, ctx, NO_MEMORY, t->path, (long long)t->count));
  HD_TRY(hd__table_numbers(out->floats, out->numbers, ctx, t, features));
  hd__features_fill(out->numbers, out->floats, features, t->count);
  return HD_OK;
}
