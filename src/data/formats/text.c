/* A text, or tokens that another program made of one: a file, whose last tenth is the test set; or a folder with train,
 * val and test files (token_file.h). A sample is a window of as many tokens as the model reads; its labels are the
 * tokens that follow each. Windows lie side by side: those of training begin at an offset that is drawn for each epoch,
 * so that an epoch has every token once, but for fewer than two windows' worth at the ends; those of the other sets
 * hold every token, the last one with less. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "data/formats/formats.h"
#include "data/formats/token_file.h"

enum { FILES = 3, TRAIN = 0, VAL = 1, TEST = 2, DEFAULT_CONTEXT = 64 };

/* Tokens of a file. */
typedef struct range {
  const hd_token_file *file;
  int64_t first, count;
} range;

/* A split: its own tokens, and those of the validation set that belongs to it. */
typedef struct text_split {
  range own, validation;
} text_split;

typedef struct text {
  hd_token_file file[FILES];
  hd_alphabet alphabet;
  text_split split[2];
} text;

static void release(void *self) {
  text *t = self;
  for (int i = 0; i < FILES; i++)
    hd__token_file_close(&t->file[i]);
  hd__alphabet_fini(&t->alphabet);
}

/* ---- Windows ---- */

/* A token as a number of a sample; NAN where the file has changed meanwhile. */
static float number_of(int32_t token, int32_t classes) { return token >= 0 && token < classes ? (float)token : NAN; }
static int32_t label_of(int32_t token, int32_t classes) { return token < classes ? token : -1; }

/* Some tokens of a window, and the one behind them; `there`: how many of these the range has. */
static void write_tokens(float *x, int32_t *label, const int32_t *token, int64_t count, int64_t there,
                         int32_t classes) {
  for (int64_t i = 0; i < count && x; i++)
    x[i] = i < there ? number_of(token[i], classes) : 0;
  for (int64_t i = 0; i < count && label; i++)
    label[i] = i + 1 < there ? label_of(token[i + 1], classes) : -1;
}

static void read_window(float *x, int32_t *label, const hd_split *split, const hd_window *w) {
  enum { SOME = 256 };
  int32_t token[SOME + 1];
  const text_split *t = split->self;
  const int64_t own = split->count - split->validation;
  const range *from = w->sample < own ? &t->own : &t->validation;
  const int64_t begin =
      w->first + (w->sample < own ? w->sample * split->width + w->offset : (w->sample - own) * split->width);
  for (int64_t at = 0; at < w->count; at += SOME) {
    const int64_t count = w->count - at < SOME ? w->count - at : SOME, left = from->count - begin - at;
    const int64_t there = left < 0 ? 0 : left < count + 1 ? left : count + 1;
    hd__token_file_read(token, from->file, from->first + begin + at, there);
    write_tokens(x ? x + at : NULL, label ? label + at : NULL, token, count, there, split->classes);
  }
}

static hd_status get(void *elems, int size[2], hd_ctx *ctx, const hd_split *split, int64_t sample) {
  read_window(elems, NULL, split, &(hd_window){.sample = sample, .count = split->width});
  size[0] = 1;
  size[1] = split->width;
  return HD_OK;
}

/* ---- Files ---- */

static const char *const endings[] = {".txt", ".bin", ".npy"};

/* FOLDER/NAME with one of the endings; false: there is none. */
static bool find_file(char path[HD_PATH_BYTES], const char *folder, const char *name) {
  for (int i = 0; i < 3; i++) {
    const int length = snprintf(path, HD_PATH_BYTES, "%s/%s%s", folder, name, endings[i]);
    if (length < HD_PATH_BYTES && hd__file_exists(path) && !hd__file_is_folder(path))
      return true;
  }
  return false;
}

static bool takes(hd_ctx *ctx, const char *path) {
  char train[HD_PATH_BYTES];
  return hd__file_is_folder(path) ? find_file(train, path, "train")
                                  : hd__token_file_takes(path) && hd__file_exists(path);
}

static hd_status open_folder(text *t, hd_ctx *ctx, const char *folder, bool bytes) {
  static const char *const name[FILES] = {"train", "val", "test"};
  char path[HD_PATH_BYTES];
  for (int i = 0; i < FILES; i++) {
    if (!find_file(path, folder, name[i]))
      continue;
    HD_TRY(hd__token_file_open(&t->file[i], ctx, path, bytes));
    if (t->file[i].numbers != t->file[TRAIN].numbers)
      return hd__fail(ctx, HD_E_FORMAT, "%s: expected %s as %s is, found %s; give files of one kind", path,
                      t->file[TRAIN].numbers ? "tokens" : "text", t->file[TRAIN].path,
                      t->file[i].numbers ? "tokens" : "text");
  }
  if (t->file[VAL].count == 0 && t->file[TEST].count == 0)
    return hd__fail(ctx, HD_E_IO, "%s: expected a val or a test file beside %s, found none; add one, or give that file",
                    folder, t->file[TRAIN].path);
  return HD_OK;
}

static hd_status note_files(hd_dataset *out, hd_ctx *ctx, const text *t) {
  for (int i = 0; i < FILES; i++) {
    if (t->file[i].looks_wide)
      HD_TRY(
          hd__dataset_note(out, ctx,
                           "%s: every second token is 0, as if numbers of 32 bits had been written; tokens are read as "
                           "uint16",
                           t->file[i].path));
    if (t->file[i].has_mark)
      HD_TRY(hd__dataset_note(out, ctx, "%s: the byte order mark (U+FEFF) that it begins with is left out",
                              t->file[i].path));
  }
  return HD_OK;
}

/* The characters of a run, or of the training text. */
static hd_status find_alphabet(text *t, hd_ctx *ctx, const hd_dataset_request *request) {
  if (request->classes.count > 0)
    HD_TRY(hd__alphabet_of_names(&t->alphabet, ctx, request->classes.name, request->classes.count));
  else
    HD_TRY(hd__alphabet_of_text(&t->alphabet, ctx, &t->file[TRAIN]));
  for (int i = 0; i < FILES; i++)
    t->file[i].alphabet = &t->alphabet;
  return HD_OK;
}

/* ---- Splits ---- */

/* The test set is what comes with the training text, or its last tenth; or all of it is. */
static void divide(text *t, const hd_dataset_request *request) {
  const range all = {&t->file[TRAIN], 0, t->file[TRAIN].count};
  const range val = {&t->file[VAL], 0, t->file[VAL].count}, test = {&t->file[TEST], 0, t->file[TEST].count};
  text_split *split = t->split;
  split[0].own = split[1].own = all;
  if (test.count > 0 || val.count > 0) {
    split[1].own = test.count > 0 ? test : val;
    split[0].validation = test.count > 0 ? val : (range){0};
  } else if (!request->whole) {
    const int64_t tenth = all.count / 10;
    split[0].own.count = split[1].own.first = all.count - tenth;
    split[1].own.count = tenth;
  }
}

static hd_status check_length(hd_ctx *ctx, const range *r, int context, const char *what) {
  if (r->count > context)
    return HD_OK;
  return hd__fail(ctx, HD_E_FORMAT,
                  "%s: expected at least %d tokens for %s, a window of %d and the one that follows, found %lld; give a "
                  "longer text, or a smaller --context",
                  r->file->path, context + 1, what, context, (long long)r->count);
}

/* Windows that have every token but the last as a number, and every one but the first as a label. */
static int64_t windows_of(const range *r, int context) { return (r->count - 1 + context - 1) / context; }

static hd_status measure(hd_split *split, hd_ctx *ctx, const range *r) {
  int32_t largest;
  uint64_t sum;
  HD_TRY(hd__token_file_measure(&largest, &sum, ctx, r->file, r->first, r->count));
  split->key = (split->key << 1 | split->key >> 63) ^ sum;
  if (r->file->numbers && largest >= split->classes)
    split->classes = largest + 1;
  return HD_OK;
}

static hd_status fill_split(hd_split *split, hd_ctx *ctx, text_split *t, int context, bool trains) {
  *split = (hd_split){.elem = HD_ELEM_F32,
                      .channels = 1,
                      .height = 1,
                      .width = context,
                      .flat = true,
                      .get = get,
                      .window = read_window,
                      .self = t};
  HD_TRY(check_length(ctx, &t->own, context, trains ? "training" : "the test set"));
  HD_TRY(measure(split, ctx, &t->own));
  split->count = windows_of(&t->own, context);
  split->tokens = t->own.count;
  const int64_t predicted = t->own.count - 1; /* all but the first */
  split->token_bytes = (double)hd__token_file_bytes(t->own.file, t->own.first + 1, predicted) / (double)predicted;
  if (!trains)
    return HD_OK;
  split->count = t->own.count >= 2 * (int64_t)context ? t->own.count / context - 1 : 1;
  const int64_t places = t->own.count - split->count * context;
  split->offsets = places < context ? places : context;
  if (t->validation.count == 0)
    return HD_OK;
  HD_TRY(check_length(ctx, &t->validation, context, "validation"));
  HD_TRY(measure(split, ctx, &t->validation));
  split->validation = windows_of(&t->validation, context);
  split->tokens += t->validation.count;
  split->count += split->validation;
  return HD_OK;
}

/* The characters as names of classes. */
static hd_status name_classes(hd_names *names, hd_ctx *ctx, const hd_alphabet *alphabet) {
  names->text = hd__calloc((size_t)alphabet->count * 5 + 1, 1);
  names->name = hd__calloc((size_t)alphabet->count + 1, sizeof *names->name);
  HD_TRY(HD_ALLOCATED(names->text && names->name, ctx, "out of memory for an alphabet"));
  names->count = alphabet->count;
  for (int32_t i = 0; i < alphabet->count; i++) {
    hd__utf8_encode(names->text + (size_t)i * 5, alphabet->code[i]);
    names->name[i] = names->text + (size_t)i * 5;
  }
  return HD_OK;
}

static hd_status open_text(hd_dataset *out, hd_ctx *ctx, const hd_dataset_request *request) {
  enum { BYTES = 256 };
  const int context = request->context > 0 ? request->context : DEFAULT_CONTEXT;
  void *self;
  HD_TRY(hd__dataset_hold(&self, out, ctx, sizeof(text), release));
  text *t = self;
  HD_TRY(hd__file_is_folder(request->name) ? open_folder(t, ctx, request->name, request->bytes)
                                           : hd__token_file_open(&t->file[TRAIN], ctx, request->name, request->bytes));
  HD_TRY(note_files(out, ctx, t));
  const bool characters = !t->file[TRAIN].numbers && !request->bytes;
  if (characters)
    HD_TRY(find_alphabet(t, ctx, request));
  divide(t, request);
  for (int i = 0; i < 2; i++)
    HD_TRY(fill_split(&out->split[i], ctx, &t->split[i], context, i == 0 && !request->whole));
  int32_t classes = out->split[0].classes > out->split[1].classes ? out->split[0].classes : out->split[1].classes;
  if (characters) {
    HD_TRY(name_classes(&out->names, ctx, &t->alphabet));
    classes = t->alphabet.count;
  } else if (!t->file[TRAIN].numbers) {
    classes = BYTES;
  }
  for (int i = 0; i < 2; i++) {
    out->split[i].classes = classes;
    out->split[i].class_names = out->names.name;
  }
  if (t->file[VAL].count == 0 && t->file[TEST].count == 0)
    hd__dataset_share(out);
  return HD_OK;
}

const hd_format hd__format_text = {.name = "text",
                                   .takes = takes,
                                   .open = open_text,
                                   .folder = "train.txt and val.txt",
                                   .file = "a .txt",
                                   .text = true};
