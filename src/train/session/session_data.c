/* Opening data for a network: see session_data.h. */
#include "train/session/session_data.h"

HD_RELEASER(release_graph, hd_graph, hd__graph_destroy)

/* Whether the input has neither channels nor height. */
static hd_status reads_rows(bool *out, hd_ctx *ctx, const hd_network *network) {
  HD_RELEASED(release_graph) hd_graph *graph = NULL;
  HD_TRY(hd__network_graph(&graph, ctx, network));
  const hd_shape *input = &graph->values[graph->input].shape;
  *out = input->rank < 3 || (input->dim[0] == 1 && input->dim[1] == 1);
  return HD_OK;
}

hd_status hd__session_data(hd_data **out, hd_ctx *ctx, hd_config *config, const hd_network *network) {
  hd_data_request request = hd__config_data(config);
  request.ignored = network->target.ignored;
  HD_TRY(reads_rows(&request.rows, ctx, network));
  request.mean = network->input.mean;
  request.std = network->input.std;
  request.columns = network->input.elems;
  HD_TRY(hd__data_open(out, ctx, &request));
  hd_status status = hd__data_is_table(*out) ? HD_OK : hd__config_check_no_table(config, ctx, hd__data_name(*out));
  HD_THEN(status, hd__config_settle(config, ctx, HD_OPT_NORMALIZE,
                                    hd_choice_name(HD_OPT_NORMALIZE, (int)hd__data_normalize(*out))));
  return HD_CREATED(status, out, hd__data_close);
}
