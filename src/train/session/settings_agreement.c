/* Comparing the settings of ranks, line by line: see settings_agreement.h. */
#include "train/session/settings_agreement.h"

#include <stdio.h>
#include <stdlib.h>

#include "exec/exchange/cluster.h"
#include "train/session/run_plan.h"

static void write_settings(FILE *to, const hd_config *config) {
  for (int i = 0; hd_option_at(i); i++)
    if (hd_option_at(i)->kind == HD_OPTION_EXPERIMENT)
      fprintf(to, "%s %s\n", hd_option_at(i)->name, hd__config_shown(config, (hd_option_id)i));
}

static void write_data(FILE *to, const hd_data *data) {
  fprintf(to, "data %s", hd__data_name(data));
  for (int i = 0; i < HD_DATA_PARTS; i++)
    fprintf(to, " %016llx", (unsigned long long)hd__data_checksums(data)[i]);
  fprintf(to, " %lld training, %lld test samples\n", (long long)hd__data_train(data)->count,
          (long long)hd__data_test(data)->count);
}

hd_status hd__agree(hd_session *s, hd_ctx *ctx) {
  char *text = NULL;
  size_t bytes;
  if (hd__cluster_ranks(s->compute.local) == 1)
    return HD_OK;
  FILE *to = open_memstream(&text, &bytes);
  HD_TRY(HD_ALLOCATED(to, ctx, "out of memory for comparing ranks"));
  write_settings(to, s->run.config);
  write_data(to, s->input.data);
  fprintf(to, "profile %s\n", *s->run.settings->profile ? "yes" : "no"); /* all or none */
  fprintf(to, "device %s\n", s->compute.cuda ? "cuda" : "cpu");          /* all or none */
  fprintf(to, "library %s\n", hd__session_library(s));
  if (s->run.settings->arithmetic != HD_ARITHMETIC_PORTABLE)
    fprintf(to, "instructions %s\n", s->compute.kernels->isa);
  fprintf(to, "%s", s->run.network.text);
  const int closed = fclose(to);
  hd_status status = closed == 0 ? hd__cluster_compare(s->compute.local, ctx, "experiment", text)
                                 : hd__fail(ctx, HD_E_NOMEM, "out of memory for comparing ranks");
  free(text);
  return status;
}
