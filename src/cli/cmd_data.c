/* heddle data: contents of a data set, its unreadable samples, and a contact sheet. */

#include <string.h>

#include "cli/cli.h"

enum { CLASSES_SHOWN = 200, COLUMNS_SHOWN = 20, NAME_ROOM = 32, TEXT_BYTES = 32 };

static struct {
  const char *sheet; /* NULL: none */
  int check;
} asked;

/* "1x28x28", or "3 channels, 20x20 to 640x480". */
static void print_shape(const hd_data_facts *f) {
  cli_print("shape      \t");
  if (f->height)
    cli_print("%dx%dx%d", f->channels, f->height, f->width);
  else
    cli_print("%s, heights %d to %d, widths %d to %d", cli_counted(f->channels, "channel"), f->smallest[0],
              f->largest[0], f->smallest[1], f->largest[1]);
  cli_print(", %s\n", f->dtype == HD_U8 ? "bytes" : "floats");
}

static void print_channels(const char *what, const double *value, int channels) {
  cli_print("%-10s\t", what);
  for (int c = 0; c < channels; c++)
    cli_print(" %.4f", value[c]);
  cli_print("\n");
}

static int padding(int width, const char *name) { return cli_width(name) < width ? width - cli_width(name) : 0; }

/* "rooms    numbers          4.48          2.29    0.0 %", a line for each column; the first, if there are many. */
static void print_columns(const hd_data_facts *f) {
  const int shown = f->columns < COLUMNS_SHOWN ? f->columns : COLUMNS_SHOWN;
  char text[TEXT_BYTES];
  int width = (int)strlen("column 12");
  for (int i = 0; i < shown; i++)
    width = f->column[i].name && cli_width(f->column[i].name) > width ? cli_width(f->column[i].name) : width;
  width = width > NAME_ROOM ? NAME_ROOM : width;
  cli_print("\n%-*s  %-10s  %12s  %12s  %7s\n", width, "column", "holds", "mean", "std", "empty");
  for (int i = 0; i < shown; i++) {
    const hd_data_column *c = &f->column[i];
    snprintf(text, sizeof text, "column %d", c->number + 1);
    cli_print("%s%*s", c->name ? c->name : text, padding(width, c->name ? c->name : text), "");
    snprintf(text, sizeof text, "%d texts", c->texts);
    cli_print("  %-10s", c->texts ? text : "numbers");
    if (c->texts)
      cli_print("  %12s  %12s", "-", "-");
    else
      cli_print("  %12.6g  %12.6g", c->mean, c->std);
    cli_print("  %5.1f %%\n", 100 * c->empty);
  }
  if (f->columns > shown)
    cli_print("and %s more, which --json lists\n", cli_grouped(f->columns - shown));
}

static const char *name_of(const hd_data_facts *f, int c) { return f->class_names ? f->class_names[c] : ""; }

/* A line for each class, or token: its number, its name, its samples, or how often it follows others. */
static void print_classes(const hd_data_facts *f) {
  int width = 0;
  for (int c = 0; c < f->classes && c < CLASSES_SHOWN; c++)
    width = cli_width(name_of(f, c)) > width ? cli_width(name_of(f, c)) : width;
  width = width > NAME_ROOM ? NAME_ROOM : width;
  cli_print("\n%s  %-*s      train        test\n", f->window ? "token" : "class", width, "");
  for (int c = 0; c < f->classes && c < CLASSES_SHOWN; c++)
    cli_print("%5d  %s%*s %10s  %10s\n", c, name_of(f, c), padding(width, name_of(f, c)), "",
              cli_grouped(f->per_class[0][c]), cli_grouped(f->per_class[1][c]));
  if (f->classes > CLASSES_SHOWN)
    cli_print("and %s more, which --json lists\n", cli_grouped(f->classes - CLASSES_SHOWN));
}

static void print_numbers(const hd_data_facts *f) {
  print_shape(f);
  cli_print("size       \t%s bytes to train, %s to test\n", cli_grouped(f->bytes[0]), cli_grouped(f->bytes[1]));
  if (f->columns == 0) {
    print_channels("mean", f->channel_mean, f->channels);
    print_channels("std", f->channel_std, f->channels);
  }
  if (f->classes)
    cli_print("classes    %s\n", cli_grouped(f->classes));
  else
    cli_print("targets    %d per sample, %.6g to %.6g\n", f->outputs, f->target_low, f->target_high);
}

/* Windows of tokens, and how many tokens there are of how many kinds. */
static void print_text(const hd_data_facts *f) {
  cli_print("window     \t%s %s, each followed by the next\n", cli_grouped(f->window), f->tokens_are);
  cli_print("text       \t%s %s to train, %s to test\n", cli_grouped(f->tokens[0]), f->tokens_are,
            cli_grouped(f->tokens[1]));
  cli_print("vocabulary \t%s %s\n", cli_grouped(f->classes), f->tokens_are);
}

static void print_facts(const hd_data_facts *f) {
  const char *samples = f->window ? "windows    " : "samples    ";
  cli_print("data       \t%s: %s\n", f->name, f->format);
  if (f->validation)
    cli_print("%s\t%s to train, %s of them for validation, %s to test\n", samples, cli_grouped(f->samples[0]),
              cli_grouped(f->validation), cli_grouped(f->samples[1]));
  else
    cli_print("%s\t%s to train, %s to test\n", samples, cli_grouped(f->samples[0]), cli_grouped(f->samples[1]));
  (f->window ? print_text : print_numbers)(f);
  if (f->columns > 0)
    print_columns(f);
  if (f->classes)
    print_classes(f);
  if (f->notes[0])
    cli_print("\n");
  for (int i = 0; f->notes[i]; i++)
    cli_print("note       \t%s\n", f->notes[i]);
}

static void print_bad(const hd_data_facts *f) {
  cli_print("\n");
  for (int64_t i = 0; i < f->bad_count; i++)
    cli_print("bad        \t%s %lld: %s\n", f->bad[i].part ? "test" : "train", (long long)f->bad[i].sample,
              f->bad[i].why);
  cli_print("checked    \t%s: ", cli_grouped_of(f->samples[0] + f->samples[1], "sample"));
  if (f->bad_count)
    cli_print("%s cannot be read\n", cli_grouped(f->bad_count));
  else
    cli_print("all can be read\n");
}

static void json_counts(const char *key, const int64_t *count, int classes) {
  cli_json(", %s: [", key);
  for (int c = 0; c < classes; c++)
    cli_json("%c%lld", c, (long long)count[c]);
  cli_json("]");
}

/* A number, or a list for several channels. */
static void json_channels(const char *key, const double *value, int channels) {
  cli_json(channels > 1 ? ", %s: [" : ", %s: ", key);
  for (int c = 0; c < channels; c++)
    cli_json("%c%g", c, value[c]);
  if (channels > 1)
    cli_json("]");
}

static void json_classes(const hd_data_facts *f) {
  cli_json(", 'classes': %d", f->classes);
  json_counts("per_class", f->per_class[0], f->classes);
  json_counts("test_per_class", f->per_class[1], f->classes);
  if (!f->class_names)
    return;
  cli_json(", 'class_names': [");
  for (int c = 0; c < f->classes; c++)
    cli_json("%c%s", c, f->class_names[c]);
  cli_json("]");
}

static void json_bad(const hd_data_facts *f) {
  cli_json(", 'bad': [");
  for (int64_t i = 0; i < f->bad_count; i++)
    cli_json("%c{'part': %s, 'sample': %lld, 'why': %s}", i != 0 ? 1 : 0, f->bad[i].part ? "test" : "train",
             (long long)f->bad[i].sample, f->bad[i].why);
  cli_json("]");
}

static void json_columns(const hd_data_facts *f) {
  cli_json(", 'columns': [");
  for (int i = 0; i < f->columns; i++) {
    const hd_data_column *c = &f->column[i];
    cli_json("%c{'name': ", i);
    cli_json(c->name ? "%s" : "null", c->name);
    cli_json(", 'number': %d, 'texts': %d, 'empty': %g, 'mean': %g, 'std': %g}", c->number, c->texts, c->empty, c->mean,
             c->std);
  }
  cli_json("]");
}

static void json_notes(const hd_data_facts *f) {
  cli_json(", 'notes': [");
  for (int i = 0; f->notes[i]; i++)
    cli_json("%c%s", i, f->notes[i]);
  cli_json("]");
}

static void json_window(const hd_data_facts *f) {
  cli_json(", 'window': %d, 'tokens_are': %s, 'tokens': %lld, 'test_tokens': %lld", f->window, f->tokens_are,
           (long long)f->tokens[0], (long long)f->tokens[1]);
}

static void json_shape(const hd_data_facts *f) {
  if (f->height)
    cli_json(", 'shape': [%d, %d, %d]", f->channels, f->height, f->width);
  else
    cli_json(", 'shape': [%d, null, null], 'smallest': [%d, %d], 'largest': [%d, %d]", f->channels, f->smallest[0],
             f->smallest[1], f->largest[0], f->largest[1]);
  cli_json(", 'type': %s, 'bytes': %lld, 'test_bytes': %lld", f->dtype == HD_U8 ? "u8" : "f32", (long long)f->bytes[0],
           (long long)f->bytes[1]);
}

static void print_json(const hd_data_facts *f) {
  cli_json("{'data': %s, 'format': %s, 'samples': %lld, 'test_samples': %lld", f->name, f->format,
           (long long)f->samples[0], (long long)f->samples[1]);
  if (f->validation)
    cli_json(", 'validation_samples': %lld", (long long)f->validation);
  (f->window ? json_window : json_shape)(f);
  if (f->classes)
    json_classes(f);
  else
    cli_json(", 'outputs': %d, 'target_low': %e, 'target_high': %e", f->outputs, f->target_low, f->target_high);
  if (!f->window) {
    json_channels("mean", f->channel_mean, f->channels);
    json_channels("std", f->channel_std, f->channels);
  }
  if (f->columns > 0)
    json_columns(f);
  if (f->notes[0])
    json_notes(f);
  if (asked.check)
    json_bad(f);
  cli_json("}\n");
}

static int show(const hd_data_look *look, hd_ctx *ctx, bool json) {
  const hd_data_facts *f = hd_data_look_facts(look);
  if (asked.sheet)
    CLI_TRY(hd_data_look_sheet(look, ctx, asked.sheet));
  if (json) {
    print_json(f);
  } else {
    print_facts(f);
    if (asked.check)
      print_bad(f);
    if (asked.sheet && !asked.check)
      cli_print("\n");
    if (asked.sheet)
      cli_print("sheet      \t%s\n", asked.sheet);
  }
  return f->bad_count ? CLI_FOUND : CLI_OK;
}

/* An error of the set as a whole also counts as a finding. */
static int open_data(hd_data_look **out, hd_ctx *ctx, hd_config *config, const char *data) {
  CLI_TRY(hd_config_set(config, ctx, "data", data));
  if (asked.check)
    CLI_TRY(hd_config_set(config, ctx, "on-error", "skip"));
  const hd_status status = hd_data_look_create(out, ctx, config);
  return asked.check && status == HD_E_FORMAT ? (cli_report(ctx, status), CLI_FOUND) : status;
}

static int run(hd_ctx *ctx, hd_config *config, int count, char **operand) {
  hd_data_look *look;
  CLI_TRY(open_data(&look, ctx, config, operand[0]));
  const int code = show(look, ctx, cli_wants_json(config));
  hd_data_look_destroy(look);
  return code;
}

static const cli_extra extra[] = {
    {"sheet", "FILE.png", "draw a dozen samples of each class into this file", cli_take_text, .self = &asked.sheet},
    {"check", NULL, "read every sample and list those that cannot be read; exit code 3 if there are any", cli_take_flag,
     .self = &asked.check},
    {0}};

const cli_command cli_data = {
    .name = "data",
    .help = "what a data set holds, and which samples cannot be read",
    .usage = "heddle data NAME|PATH [--data-dir DIR] [--label NAME] [--weights NAME] [--header auto|yes|no] "
             "[--missing mean|refuse] [--categories N] [--normalize HOW] [--exif apply|ignore] "
             "[--allow-empty] [--tokens characters|bytes] [--context N] [--sheet FILE.png] [--check] [--json]",
    .options = (const char *const[]){"data-dir", "label", "weights", "header", "missing", "categories", "normalize",
                                     "exif", "allow-empty", "tokens", "context", "json", NULL},
    .extra = extra,
    .operands = 1,
    .operand = "data set (a name or a path)",
    .run = run};
