/* Opening data for a network: see session_data.h. */
#include "train/run/session_data.h"

hd_status hd__session_data(hd_data **out, hd_ctx *ctx, hd_config *config, const hd_network *network) {
  hd_data_request request = hd__network_request(network, config);
  /* A network that normalises its input by itself reads rows as they are; a map for each element is done here. */
  request.rows = network->reads_rows && (!network->input.maps || network->input.elems > 0);
  request.mean = network->input.mean;
  request.std = network->input.std;
  request.columns = network->input.elems;
  HD_TRY(hd__data_open(out, ctx, &request));
  hd_status status = hd__config_check_used(config, ctx, *out);
  HD_THEN(status, hd__config_settle(config, ctx, HD_OPT_NORMALIZE,
                                    hd_choice_name(HD_OPT_NORMALIZE, (int)hd__data_normalize(*out))));
  return HD_CREATED(status, out, hd__data_close);
}
