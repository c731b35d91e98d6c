/* heddle export: a trained network for other programs. */
#include <string.h>

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
  if (path[HD_EXPORT_ONNX] && path[HD_EXPORT_C] && !strcmp(path[HD_EXPORT_ONNX], path[HD_EXPORT_C]))
    return hd_ctx_fail(ctx, HD_E_USAGE, "export expects two files, found %s for both; give one of them another name",
                       path[0]);
  int code = CLI_OK, written = 0;
  for (int format = HD_EXPORT_ONNX; format <= HD_EXPORT_C; format++) {
    if (!path[format])
      continue;
    const int result = hd_model_export(ctx, operand[0], (hd_export_format)format, path[format]);
    if (result == HD_E_UNSUPPORTED) { /* the other format may have what this one lacks */
      code = cli_report(ctx, result);
      hd_ctx_fail(ctx, HD_OK, "%s", "");
      path[format] = NULL;
      continue;
    }
    CLI_TRY(result);
    if (written++ == 0)
      cli_note(ctx);
    if (!cli_wants_json(config))
      cli_print("exported \t%s\n", path[format]);
  }
  if (cli_wants_json(config) && written)
    print_json();
  return code;
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
