/* Opening data for a network: see session_data.h. */
#include "train/session/session_data.h"

#include <string.h>

HD_RELEASER(release_graph, hd_graph, hd__graph_destroy)

/* Whether the input has neither channels nor height. */
static hd_status reads_rows(bool *out, hd_ctx *ctx, const hd_network *network) {
  HD_RELEASED(release_graph) hd_graph *graph = NULL;
  HD_TRY(hd__network_graph(&graph, ctx, network));
  const hd_shape *input = &graph->values[graph->input].shape;
  *out = input->rank < 3 || (input->dim[0] == 1 && input->dim[1] == 1);
  return HD_OK;
}

static hd_status check_options(hd_ctx *ctx, const hd_config *config, const hd_data *data) {
  static const hd_option_id of_tables[] = {HD_OPT_LABEL, HD_OPT_HEADER, HD_OPT_MISSING, HD_OPT_CATEGORIES};
  for (size_t i = 0; i < sizeof of_tables / sizeof *of_tables && !hd__data_is_table(data); i++)
    if (strcmp(hd__config_shown(config, of_tables[i]), hd_option_at((int)of_tables[i])->fallback) != 0)
      return hd__fail(ctx, HD_E_USAGE, "--%s is for CSV files, expected one as --data, found %s; leave --%s out",
                      hd_option_at((int)of_tables[i])->name, hd__data_name(data),
                      hd_option_at((int)of_tables[i])->name);
  return HD_OK;
}

hd_status hd__session_data(hd_data **out, hd_ctx *ctx, hd_config *config, const hd_network *network) {
  hd_data_request request = hd__config_data(config);
  request.ignored = network->target.ignored;
  HD_TRY(reads_rows(&request.rows, ctx, network));
  HD_TRY(hd__data_open(out, ctx, &request));
  hd_status status = check_options(ctx, config, *out);
  HD_THEN(status, hd__config_settle(config, ctx, HD_OPT_NORMALIZE,
                                    hd_choice_name(HD_OPT_NORMALIZE, (int)hd__data_normalize(*out))));
  return HD_CREATED(status, out, hd__data_close);
}
