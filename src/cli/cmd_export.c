/* heddle export: a trained network for other programs. */
#include "cli/cli.h"
#include "heddle/export.h"

static const char *path[2]; /* by format */

static void print_json(void) {
  int printed = 0;
  printf("{");
  if (path[HD_EXPORT_ONNX])
    cli_json("%c'onnx': %s", printed++, path[HD_EXPORT_ONNX]);
  if (path[HD_EXPORT_C])
    cli_json("%c'c': %s", printed++, path[HD_EXPORT_C]);
  printf("}\n");
}

static int run(hd_ctx *ctx, hd_config *config, int count, char **operand) {
  if (!path[HD_EXPORT_ONNX] && !path[HD_EXPORT_C])
    return hd_ctx_fail(ctx, HD_E_USAGE, "export expects --onnx FILE or --c FILE, found neither; give one");
  for (int format = HD_EXPORT_ONNX; format <= HD_EXPORT_C; format++) {
    if (!path[format])
      continue;
    CLI_TRY(hd_model_export(ctx, operand[0], (hd_export_format)format, path[format]));
    if (!cli_wants_json(config))
      cli_print("exported \t%s\n", path[format]);
  }
  cli_note(ctx);
  if (cli_wants_json(config))
    print_json();
  return CLI_OK;
}

static const cli_extra extra[] = {
    {"onnx", "FILE", "write an ONNX file (opset 17)", cli_take_text, .self = &path[HD_EXPORT_ONNX]},
    {"c", "FILE", "write one C file without dependencies that computes the same bits", cli_take_text,
     .self = &path[HD_EXPORT_C]},
    {0}};

const cli_command cli_export = {.name = "export",
                                .help = "write a trained network for other programs",
                                .usage = "heddle export CHECKPOINT [--onnx FILE] [--c FILE] [--json]: writes the "
                                         "network of a run or of one of its steps",
                                .options = (const char *const[]){"json", NULL},
                                .extra = extra,
                                .operands = 1,
                                .operand = "checkpoint (a run's folder or a step's)",
                                .run = run};
