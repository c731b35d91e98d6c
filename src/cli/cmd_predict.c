/* heddle predict: the class of pictures, of rows in files and of items of a data set, with probabilities; or a model's
 * numbers; or masks, the class of each pixel.
 *
 * An unreadable sample is reported, the others are predicted, and the exit code is that of a failure. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "cli/mask_files.h"

enum { TOP = 3, BAR = 40, NAME_ROOM = 40, CLASS_ROOM = 24, ROWS_AT_ONCE = 256, NAME_BYTES = 4160 };

static struct {
  long long *index; /* of --index */
  int count;
  int top; /* of --top; 0: not given */
  const char *csv, *out;
} asked;

typedef struct predict {
  hd_ctx *ctx;
  hd_predictor *predictor;
  hd_prediction gives;
  cli_saved csv;                 /* of --csv; without it there is no file */
  mask_files *masks;             /* of --out, or NULL */
  size_t cut;                    /* characters of files' names that are not shown: the folder they are in */
  double *value, *target;        /* `count` of them */
  int count, json, width, shown; /* width: of the longest name; shown: predictions so far */
  int class_width;               /* of the longest name of a class; 0: they have none */
} predict;

/* A sample to predict, and its known facts. */
typedef struct sample {
  const char *name, *file; /* for people; for scripts */
  long long index, line;   /* in the file, or -1 and 0 */
  int label;               /* the number of its class, or -1 */
  const char *truth;       /* the label as the file has it, or NULL */
  const double *target;    /* `targets` numbers */
  int targets;
  long long place;  /* among those of the last prediction */
  const char *mask; /* the file of its mask, or NULL */
} sample;

static int take_index(const cli_extra *option, const char *value) {
  char *end;
  errno = 0;
  long long index = strtoll(value, &end, 10);
  if (*value < '0' || *value > '9' || *end || errno) {
    cli_complain("--index expects a whole number from 0, found '%s'; write one such as 0", value);
    return CLI_USAGE;
  }
  long long *more = realloc(asked.index, ((size_t)asked.count + 1) * sizeof *more);
  if (!more)
    return HD_E_NOMEM;
  asked.index = more;
  asked.index[asked.count++] = index;
  return 0;
}

/* The class with the largest probability below that of `above`; earlier classes first among equals. */
static int next_best(const double *probability, int classes, int above) {
  int best = -1;
  for (int c = 0; c < classes; c++) {
    int below = probability[c] < probability[above] || (probability[c] == probability[above] && c > above);
    if (below && (best < 0 || probability[c] > probability[best]))
      best = c;
  }
  return best;
}

/* "   7" or "   7 seven", in as many columns for every class. */
static void print_class(const predict *p, const char *before, int c, int width) {
  const char *name = hd_predictor_class_name(p->predictor, c);
  const int own = name ? cli_width(name) : -1; /* without a name, not even the blank before it */
  const int padding = width > own && width > 0 ? width - own : 0;
  cli_print("%s%*d%s%.*s%*s", before, width ? 3 : 1, c, name ? " " : "", name ? (int)strlen(name) : 0, name ? name : "",
            padding, "");
}

/* Columns of ", 1 dog (0.11 %)". */
static int columns_of(const predict *p, int c) {
  const char *name = hd_predictor_class_name(p->predictor, c);
  char text[64];
  return snprintf(text, sizeof text, "%s%d (%.2f %%)", name ? ",  " : ", ", c, 100 * p->value[c]) +
         (name ? cli_width(name) : 0);
}

/* "   7   99.82 %   then 1 (0.11 %), 9 (0.04 %)". Without --top, no more than a line holds. */
static void print_classes(const predict *p) {
  int c = hd_predict_class(p->value, p->count), room = cli_columns() - p->width - p->class_width - 22;
  const int more = (asked.top > 0 ? (int)asked.top : TOP) - 1;
  print_class(p, "  ", c, p->class_width ? p->class_width : -1);
  cli_print("  %6.2f %%", 100 * p->value[c]);
  for (int i = 0; i < more && (c = next_best(p->value, p->count, c)) >= 0; i++) {
    room -= columns_of(p, c);
    if (asked.top == 0 && cli_columns() > 0 && room < 0)
      return;
    print_class(p, i ? ", " : "   then ", c, 0);
    cli_print(" (%.2f %%)", 100 * p->value[c]);
  }
}

/* "   61.20 % 2 road, 30.10 % 0 sky": classes that some pixel has, as many as a line holds. */
static void print_shares(const predict *p) {
  int room = cli_columns() - p->width - 2;
  for (int c = hd_predict_class(p->value, p->count), shown = 0; c >= 0 && p->value[c] > 0; shown++) {
    room -= columns_of(p, c);
    if (shown > 0 && cli_columns() > 0 && room < 0)
      return;
    cli_print("%s%.2f %%", shown ? ", " : "  ", 100 * p->value[c]);
    print_class(p, " ", c, 0);
    c = next_best(p->value, p->count, c);
  }
}

/* "   label 7 seven", "   target 3.5" */
static void print_truth(const predict *p, const sample *s) {
  if (s->label >= 0)
    print_class(p, "   label ", s->label, 0);
  else if (s->truth && *s->truth && s->targets == 0)
    cli_print("   label %s, which the model does not know", s->truth);
  for (int i = 0; i < s->targets; i++)
    cli_print("%s%.6g", i ? "  " : s->targets > 1 ? "   targets " : "   target ", s->target[i]);
}

/* "   digit 7 (99.82 %)   size 0.25  1.5" */
static void print_heads(const predict *p) {
  hd_predicted_head head;
  for (int k = 0; hd_predictor_head(&head, p->predictor, k); k++) {
    const double *value = p->value + head.first;
    cli_print("   %s", head.name);
    if (head.gives == HD_PREDICTS_CLASSES) {
      const int c = hd_predict_class(value, head.count);
      const char *name = hd_predictor_head_class(p->predictor, k, c);
      cli_print(" %d%s%s (%.2f %%)", c, name ? " " : "", name ? name : "", 100 * value[c]);
    }
    for (int i = 0; i < head.count && head.gives != HD_PREDICTS_CLASSES; i++)
      cli_print(head.gives == HD_PREDICTS_CHANCES ? " %.2f %%" : " %.6g",
                head.gives == HD_PREDICTS_CHANCES ? 100 * value[i] : value[i]);
  }
}

/* "seven.png", then the classes, "   99.82 %    0.04 %" or "      6.98413       0.25" */
static void print_line(const predict *p, const sample *s) {
  cli_print("%-*s", p->width, s->name + p->cut);
  if (p->gives == HD_PREDICTS_CLASSES)
    print_classes(p);
  if (p->gives == HD_PREDICTS_HEADS)
    print_heads(p);
  if (p->gives == HD_PREDICTS_PIXELS)
    print_shares(p);
  const bool numbers = p->gives == HD_PREDICTS_NUMBERS || p->gives == HD_PREDICTS_CHANCES;
  for (int i = 0; i < p->count && numbers; i++)
    if (p->gives == HD_PREDICTS_CHANCES)
      cli_print("  %6.2f %%", 100 * p->value[i]);
    else
      cli_print("  %11.6g", p->value[i]);
  print_truth(p, s);
  cli_print("\n");
}

/* All classes with a bar each, for a single sample. */
static void print_bars(const predict *p) {
  static const char bar[] = "########################################";
  cli_print("\n");
  for (int c = 0; c < p->count; c++) {
    int length = isfinite(p->value[c]) ? (int)(p->value[c] * BAR + 0.5) : 0;
    print_class(p, "  ", c, p->class_width ? p->class_width : -1);
    cli_print("  %6.2f %%%s%.*s\n", 100 * p->value[c], length ? "  " : "", length, bar);
  }
}

static void json_values(const predict *p, const char *key, int first, int count) {
  cli_json(", %s: [", key);
  for (int i = 0; i < count; i++)
    cli_json("%c%g", i, p->value[first + i]);
  cli_json("]");
}

static void json_heads(const predict *p) {
  hd_predicted_head head;
  cli_json(", 'heads': [");
  for (int k = 0; hd_predictor_head(&head, p->predictor, k); k++) {
    const int c = head.gives == HD_PREDICTS_CLASSES ? hd_predict_class(p->value + head.first, head.count) : -1;
    cli_json("%c{'name': %s", k, head.name);
    if (c >= 0)
      cli_json(", 'class': %d", c);
    if (hd_predictor_head_class(p->predictor, k, c))
      cli_json(", 'class_name': %s", hd_predictor_head_class(p->predictor, k, c));
    json_values(p, head.gives == HD_PREDICTS_NUMBERS ? "outputs" : "probabilities", head.first, head.count);
    cli_json("}");
  }
  cli_json("]");
}

static void print_json(const predict *p, const sample *s) {
  const char *name;
  cli_json("%c{'file': %s", p->shown, s->file);
  if (s->index >= 0)
    cli_json(", 'index': %lld", s->index);
  if (s->line > 0)
    cli_json(", 'line': %lld", s->line);
  if (s->label >= 0)
    cli_json(", 'label': %d", s->label);
  if (s->label >= 0 && (name = hd_predictor_class_name(p->predictor, s->label)))
    cli_json(", 'label_name': %s", name);
  else if (s->label < 0 && s->truth && *s->truth && s->targets == 0)
    cli_json(", 'label_name': %s", s->truth);
  if (p->gives == HD_PREDICTS_CLASSES) {
    const int c = hd_predict_class(p->value, p->count);
    cli_json(", 'class': %d", c);
    if ((name = hd_predictor_class_name(p->predictor, c)))
      cli_json(", 'class_name': %s", name);
  }
  if (s->mask)
    cli_json(", 'mask': %s", s->mask);
  if (p->gives == HD_PREDICTS_HEADS)
    json_heads(p);
  else
    json_values(p,
                p->gives == HD_PREDICTS_NUMBERS  ? "outputs"
                : p->gives == HD_PREDICTS_PIXELS ? "shares"
                                                 : "probabilities",
                0, p->count);
  for (int i = 0; i < s->targets; i++)
    cli_json(i ? ", %e" : ", 'targets': [%e", s->target[i]);
  cli_json(s->targets ? "]}" : "}");
}

static void put_cell(FILE *to, const char *text) {
  const int quoted = strpbrk(text, ",\"\n\r") != NULL;
  fputs(quoted ? "\"" : "", to);
  for (; *text; text++)
    fputs(*text == '"' ? "\"\"" : (char[]){*text, 0}, to);
  fputs(quoted ? "\"" : "", to);
}

/* "size.0", "kind.cat" */
static void put_output(const predict *p, const hd_predicted_head *head, int k, int i) {
  char text[2 * NAME_BYTES];
  const char *name = hd_predictor_head_class(p->predictor, k, i);
  if (name)
    snprintf(text, sizeof text, "%s.%s", head->name, name);
  else
    snprintf(text, sizeof text, "%s.%d", head->name, i);
  fputs(",", p->csv.file);
  put_cell(p->csv.file, text);
}

/* file,class,name,probability, then a column for each class; or file and a column for each number, of several heads
 * called "size.0". */
static void put_head(const predict *p) {
  hd_predicted_head head;
  fputs(p->gives == HD_PREDICTS_CLASSES ? "file,class,name,probability" : "file", p->csv.file);
  for (int k = 0; hd_predictor_head(&head, p->predictor, k); k++)
    for (int i = 0; i < head.count; i++)
      put_output(p, &head, k, i);
  for (int i = 0; i < p->count && p->gives != HD_PREDICTS_HEADS; i++) {
    const char *name = hd_predictor_class_name(p->predictor, i);
    fprintf(p->csv.file, name ? "," : ",%d", i);
    put_cell(p->csv.file, name ? name : "");
  }
  fputs("\n", p->csv.file);
}

static void put_row(const predict *p, const sample *s) {
  if (p->shown == 0)
    put_head(p);
  put_cell(p->csv.file, s->name);
  if (p->gives == HD_PREDICTS_CLASSES) {
    const int c = hd_predict_class(p->value, p->count);
    const char *name = hd_predictor_class_name(p->predictor, c);
    fprintf(p->csv.file, ",%d,", c);
    put_cell(p->csv.file, name ? name : "");
    fprintf(p->csv.file, ",%.9g", p->value[c]);
  }
  for (int i = 0; i < p->count; i++)
    fprintf(p->csv.file, ",%.9g", p->value[i]);
  fputs("\n", p->csv.file);
}

/* Writes its mask, if they are written: as FOLDER/NAME.png of a file, else of the name with its number. */
static int write_mask(predict *p, sample *s) {
  const char *inside = s->name + p->cut, *slash = strrchr(inside, '/');
  char numbered[NAME_BYTES + 32];
  if (!p->masks)
    return CLI_OK;
  if (p->cut == 0 && slash)
    inside = slash + 1;
  if (s->index >= 0) {
    const char *end = strrchr(inside, '[');
    end -= end - inside > 4 && !strncasecmp(end - 4, ".npy", 4) ? 4 : 0;
    snprintf(numbered, sizeof numbered, "%.*s-%lld.png", (int)(end - inside), inside, s->index);
    inside = numbered;
  }
  CLI_TRY(mask_files_name(&s->mask, p->masks, p->ctx, s->index < 0 ? s->file : NULL, inside));
  return hd_predictor_write_mask(p->predictor, p->ctx, s->place, s->mask);
}

static int show(predict *p, sample *s) {
  CLI_TRY(write_mask(p, s));
  if (p->csv.file)
    put_row(p, s);
  if (p->json)
    print_json(p, s);
  else
    print_line(p, s);
  p->shown++;
  return CLI_OK;
}

/* ---- Rows ---- */

static int is_rows(const char *path) {
  static const char *const end[] = {".csv", ".npy"};
  const size_t length = strlen(path);
  for (int i = 0; i < 2; i++)
    if (length >= 4 && !strcasecmp(path + length - 4, end[i]))
      return 1;
  return !strcmp(path, "-");
}

/* "rows.csv:5", as messages have it; "x.npy[3]". Returns its length. */
static int name_row(char name[NAME_BYTES], const hd_rows *rows, const char *path, int64_t row) {
  const long long line = hd_rows_line(rows, row);
  path = strcmp(path, "-") ? path : "row";
  return line > 0 ? snprintf(name, NAME_BYTES, "%s:%lld", path, line)
                  : snprintf(name, NAME_BYTES, "%s[%lld]", path, (long long)row);
}

static int show_row(predict *p, hd_rows *rows, const char *path, int64_t row, int64_t place) {
  char name[NAME_BYTES];
  double target;
  sample s = {
      .name = name, .file = path, .index = row, .line = hd_rows_line(rows, row), .target = &target, .place = place};
  name_row(name, rows, path, row);
  s.truth = hd_rows_truth(&s.label, &target, rows, row);
  s.targets = !isnan(target);
  return show(p, &s);
}

static int predict_rows(predict *p, const char *path) {
  hd_rows *rows;
  CLI_TRY(hd_rows_open(&rows, p->ctx, p->predictor, path));
  const int64_t count = hd_rows_count(rows);
  char last[NAME_BYTES];
  const int width = name_row(last, rows, path, count - 1);
  p->width = width > p->width && width <= NAME_ROOM ? width : p->width;
  double *value = malloc(ROWS_AT_ONCE * (size_t)p->count * sizeof *value), *own = p->value;
  int code = value ? CLI_OK : hd_ctx_fail(p->ctx, HD_E_NOMEM, "out of memory for the predictions");
  for (int64_t first = 0; first < count && code == CLI_OK; first += ROWS_AT_ONCE) {
    const int64_t some = count - first < ROWS_AT_ONCE ? count - first : ROWS_AT_ONCE;
    code = hd_predict_rows(value, p->predictor, p->ctx, rows, first, some);
    for (int64_t i = 0; i < some && code == CLI_OK; i++) {
      p->value = value + i * p->count;
      code = show_row(p, rows, path, first + i, i);
    }
  }
  if (p->shown == 1 && code == CLI_OK) /* for its bars */
    memcpy(own, p->value, (size_t)p->count * sizeof *own);
  p->value = own;
  free(value);
  hd_rows_close(rows);
  return code;
}

static int predict_picture(predict *p, const char *path) {
  CLI_TRY(hd_predict_picture(p->value, p->predictor, p->ctx, path));
  return show(p, &(sample){.name = path, .file = path, .index = -1, .label = -1});
}

/* A line for each picture, with its name inside the folder; those that fail are reported. */
static int predict_folder(predict *p, const char *path) {
  hd_pictures *pictures;
  int code = CLI_OK, width = 0;
  CLI_TRY(hd_pictures_open(&pictures, p->ctx, path));
  cli_note(p->ctx);
  p->cut = strlen(path) + (path[strlen(path) - 1] != '/');
  for (int64_t i = 0; i < hd_pictures_count(pictures); i++) {
    const int own = cli_width(hd_pictures_path(pictures, i) + p->cut);
    width = own > width ? own : width;
  }
  p->width = width < NAME_ROOM ? width : NAME_ROOM;
  for (int64_t i = 0; i < hd_pictures_count(pictures); i++)
    if (cli_report(p->ctx, predict_picture(p, hd_pictures_path(pictures, i))) != CLI_OK)
      code = CLI_FAILED;
  p->cut = 0;
  hd_pictures_close(pictures);
  return code;
}

static int is_folder(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static int predict_file(predict *p, const char *path) {
  return is_folder(path) ? predict_folder(p, path) : is_rows(path) ? predict_rows(p, path) : predict_picture(p, path);
}

static int predict_item(predict *p, long long index) {
  char name[NAME_BYTES];
  sample s = {.name = name, .index = index, .target = p->target};
  int32_t label;
  CLI_TRY(hd_predict_item(p->value, &label, p->predictor, p->ctx, index));
  s.file = hd_predictor_data(p->predictor);
  s.label = label;
  s.targets = hd_predict_item_targets(p->target, p->predictor, index);
  snprintf(name, sizeof name, "%s[%lld]", s.file, index);
  return show(p, &s);
}

static int predict_all(predict *p, int files, char **file) {
  int code = CLI_OK;
  for (int i = 0; i < files; i++)
    p->width = (int)strlen(file[i]) > p->width ? (int)strlen(file[i]) : p->width;
  p->width = p->width > NAME_ROOM ? NAME_ROOM : p->width;
  printf("%s", p->json ? "{\"predictions\": [" : "");
  for (int i = 0; i < files; i++)
    if (cli_report(p->ctx, predict_file(p, file[i])) != CLI_OK)
      code = CLI_FAILED;
  for (int i = 0; i < asked.count; i++) {
    const int failed = cli_report(p->ctx, predict_item(p, asked.index[i]));
    code = code == CLI_OK ? failed : code;
  }
  if (p->json)
    printf("]}\n");
  else if (p->shown == 1 && p->gives != HD_PREDICTS_NUMBERS && p->gives != HD_PREDICTS_HEADS)
    print_bars(p);
  return code;
}

/* Options that this network has no use for. */
static int check_asked(const predict *p) {
  static const char *const gives[] = {[HD_PREDICTS_CLASSES] = "classes",
                                      [HD_PREDICTS_CHANCES] = "independent probabilities",
                                      [HD_PREDICTS_NUMBERS] = "numbers",
                                      [HD_PREDICTS_HEADS] = "what each of its heads does",
                                      [HD_PREDICTS_PIXELS] = "a class for each pixel"};
  if (asked.top > 0 && p->gives != HD_PREDICTS_CLASSES)
    return hd_ctx_fail(p->ctx, HD_E_USAGE,
                       "--top expects a network that predicts one class for each sample, found one that predicts %s; "
                       "leave it out",
                       gives[p->gives]);
  if (asked.out && p->gives != HD_PREDICTS_PIXELS)
    return hd_ctx_fail(p->ctx, HD_E_USAGE,
                       "--out expects a network that predicts a class for each pixel, whose masks it writes, found one "
                       "that predicts %s; leave it out, or write a table with --csv",
                       gives[p->gives]);
  return CLI_OK;
}

/* Room for a prediction, and what it is written to. */
static int make_room(predict *p) {
  p->gives = hd_predictor_gives(p->predictor);
  p->count = hd_predictor_count(p->predictor);
  p->value = calloc(2 * (size_t)p->count, sizeof *p->value);
  if (!p->value)
    return hd_ctx_fail(p->ctx, HD_E_NOMEM, "out of memory for %d values", p->count);
  p->target = p->value + p->count;
  for (int c = 0; c < p->count; c++) {
    const char *name = hd_predictor_class_name(p->predictor, c);
    const int width = name ? cli_width(name) : 0;
    p->class_width = width > p->class_width ? width : p->class_width;
  }
  p->class_width = p->class_width > CLASS_ROOM ? CLASS_ROOM : p->class_width;
  CLI_TRY(check_asked(p));
  if (asked.out)
    CLI_TRY(mask_files_open(&p->masks, p->ctx, asked.out));
  const int error = asked.csv ? cli_save_open(&p->csv, asked.csv, true) : 0;
  if (error)
    return hd_ctx_fail(p->ctx, HD_E_IO, "cannot write %s: %s; name a file in a folder that exists and can be written",
                       asked.csv, strerror(error));
  return CLI_OK;
}

static int run(hd_ctx *ctx, hd_config *config, int count, char **operand) {
  predict p = {.ctx = ctx, .json = cli_wants_json(config)};
  if (count < 1)
    return hd_ctx_fail(
        ctx, HD_E_USAGE,
        "predict expects a checkpoint (a run's folder or a step's), found none; see heddle predict --help");
  if (count == 1 && asked.count == 0)
    return hd_ctx_fail(ctx, HD_E_USAGE,
                       "predict expects pictures, CSV or NPY files, - or --index N after the checkpoint, found none; "
                       "see heddle predict --help");
  CLI_TRY(hd_predictor_create(&p.predictor, ctx, operand[0], config));
  cli_note(ctx);
  int code = make_room(&p);
  if (code == CLI_OK)
    code = predict_all(&p, count - 1, operand + 1);
  const int error = p.csv.file ? cli_save_close(&p.csv, code == CLI_OK || p.shown > 0) : 0;
  if (error)
    code = hd_ctx_fail(ctx, HD_E_IO, "cannot write %s: %s; free some space, or name another file", asked.csv,
                       strerror(error));
  mask_files_close(p.masks);
  hd_predictor_destroy(p.predictor);
  free(p.value);
  free(asked.index);
  return code;
}

static const cli_extra extra[] = {
    {"index", "N", "predict sample N of the test set of --data; may be repeated", .take = take_index, .most = 1e15},
    {"top", "K", "show the K most probable classes (default 3, as far as a line holds them)", cli_take_whole,
     &asked.top, .least = 1, .most = 1000},
    {"csv", "FILE", "write all predictions as a table", cli_take_text, .self = &asked.csv},
    {"out", "DIR", "write a mask for each sample, the class of each pixel as PNG", cli_take_text, .self = &asked.out},
    {0}};

const cli_command cli_predict = {
    .name = "predict",
    .data = "the run's",
    .help = "classes of pictures and rows with their probabilities, or predicted numbers",
    .usage =
        "heddle predict CHECKPOINT [FILE...] [--index N]... [options]: the classes, or the numbers, that a trained "
        "model predicts",
    .notes = "FILE is a picture (.png or .jpg), a folder of pictures, a table (.csv; - reads one from standard input) "
             "or an array of samples "
             "(.npy). CHECKPOINT is the folder of a run or of one of its steps.",
    .options = (const char *const[]){"data", "data-dir", "label", "weights", "header", "missing", "categories", "tta",
                                     "threads", "device", "json", NULL},
    .extra = extra,
    .operands = CLI_ANY,
    .run = run};
