/* Forged runs: a byte or a setting of a run's data, certificate, checkpoints, losses, metrics or record is altered, all
 * checksums are made right again, and hd_verify must not call the run verified. As it was, it is.
 *
 * `make check` makes some of the alterations, `make check-long` a thousand.
 *
 * Of a certificate by itself every entry is altered in turn, in each way that JSON has: another type, another name, one
 * more, none. */
#include "scratch.h"

#include <jansson.h>
#include <stdint.h>

#include "base/philox.h"
#include "heddle.h"
#include "heddle/evidence.h"
#include "train/checkpoint/checkpoint.h"
#include "train/evidence/certificate.h"

enum { TRAIN = 40, TEST = 12, SIDE = 4, PIXELS = SIDE * SIDE, CLASSES = 3, KINDS = 11, SOME = 77, ALL = 1001 };

static const char model[] = "model: forged\ninput: [1, 4, 4]\nlayers:\n  - flat: {op: flatten}\n"
                            "  - fc: {op: linear, out: 3}\n";

static hd_ctx *ctx;
static char run[SCRATCH_PATH_BYTES / 2], data[SCRATCH_PATH_BYTES / 2];
static int64_t drawn;

/* A number below `below`. */
static int64_t draw(int64_t below) {
  uint32_t word[4];
  hd__rng_block(word, 5, HD_RNG_TEST, 0, 0, 0, (uint32_t)drawn++);
  return (int64_t)(((uint64_t)word[0] * (uint64_t)below) >> 32);
}

/* ---- Files ---- */

typedef struct text {
  char path[SCRATCH_PATH_BYTES], *bytes;
  size_t length;
} text;

static text read_text(const char *folder, const char *name) {
  text t;
  snprintf(t.path, sizeof t.path, "%s/%s", folder, name);
  FILE *from = fopen(t.path, "r");
  if (!from || fseek(from, 0, SEEK_END) != 0)
    bail_out("expected %s, found none", t.path);
  t.length = (size_t)ftell(from);
  rewind(from);
  t.bytes = malloc(t.length + 1);
  t.length = fread(t.bytes, 1, t.length, from);
  t.bytes[t.length] = 0;
  fclose(from);
  return t;
}

static void write_text(const text *t) {
  FILE *to = fopen(t->path, "w");
  fwrite(t->bytes, 1, t->length, to);
  fclose(to);
}

static void write_npy(const char *name, const char *shape, const uint8_t *bytes, size_t length) {
  char path[SCRATCH_PATH_BYTES], head[128];
  snprintf(path, sizeof path, "%s/%s", data, name);
  FILE *to = fopen(path, "w");
  memset(head, ' ', sizeof head);
  memcpy(head, "\x93NUMPY\x01\x00\x76\x00", 10);
  const int n =
      snprintf(head + 10, sizeof head - 10, "{'descr': '|u1', 'fortran_order': False, 'shape': (%s), }", shape);
  head[10 + n] = ' ';
  head[127] = '\n';
  fwrite(head, 1, sizeof head, to);
  fwrite(bytes, 1, length, to);
  fclose(to);
}

static void write_data(void) {
  uint8_t bytes[TRAIN * PIXELS];
  for (int i = 0; i < TRAIN * PIXELS; i++)
    bytes[i] = (uint8_t)(i * 37 + i / 5 * 11);
  write_npy("x_train.npy", "40, 1, 4, 4", bytes, TRAIN * PIXELS);
  write_npy("x_test.npy", "12, 1, 4, 4", bytes + 7, TEST * PIXELS);
  for (int i = 0; i < TRAIN; i++)
    bytes[i] = (uint8_t)(i * i % CLASSES);
  write_npy("y_train.npy", "40,", bytes, TRAIN);
  write_npy("y_test.npy", "12,", bytes + 5, TEST);
}

/* ---- Runs ---- */

static void train(void) {
  const char *const settings[] = {
      "model",      model, "data", data, "batch", "8", "lr",        "0.05", "epochs",  "3", "log-every",     "2",
      "save-every", "4",   "keep", "99", "out",   run, "val-split", "0.2",  "threads", "1", "stall-timeout", "60"};
  hd_config *config;
  hd_session *session;
  hd_config_create(&config, ctx);
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i += 2)
    hd_config_set(config, ctx, settings[i], settings[i + 1]);
  if (hd_session_create(&session, ctx, config) != HD_OK || hd_session_train(session, ctx, NULL, NULL) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  hd_session_destroy(session);
  hd_config_destroy(config);
}

static bool is_verified(const char *what, int spot, char why[1024]) {
  hd_verification v = {.struct_bytes = sizeof v};
  const hd_verify_request request = {.struct_bytes = sizeof request, .what = what, .spot = spot, .seed = draw(1 << 20)};
  hd_config *config;
  hd_config_create(&config, ctx);
  hd_config_set(config, ctx, "threads", "1");
  const hd_status status = hd_verify(&v, ctx, config, &request);
  hd_config_destroy(config);
  snprintf(why, 1024, "%s", status == HD_OK ? v.why : hd_ctx_message(ctx));
  return status == HD_OK && v.verdict == HD_VERIFIED;
}

/* ---- Alterations ---- */

static json_t *parsed(const text *t) { return json_loadb(t->bytes, t->length, 0, NULL); }

/* As heddle writes a certificate or a record. */
static void replace(text *t, json_t *with, bool ordered) {
  free(t->bytes);
  char *dumped = json_dumps(with, JSON_INDENT(2) | (ordered ? JSON_PRESERVE_ORDER : 0));
  t->length = (size_t)asprintf(&t->bytes, "%s\n", dumped);
  free(dumped);
  json_decref(with);
}

/* Another byte, one that may stand in a text. */
static void alter_byte(text *t, size_t from) {
  char *at = &t->bytes[from + (size_t)draw((int64_t)(t->length - from))];
  const char before = *at;
  while (*at == before)
    *at = (char)(' ' + draw(95));
}

static void flip_bit(text *t, size_t from) {
  t->bytes[from + (size_t)draw((int64_t)(t->length - from))] ^= (char)(1 << draw(8));
}

/* The first digit of a number that the run did not measure by a clock. */
static void alter_number(text *t) {
  static const char clocked[] = "\"samples_per_s\":";
  char *at;
  do
    at = &t->bytes[sizeof clocked + (size_t)draw((int64_t)(t->length - sizeof clocked))];
  while (*at < '0' || *at > '9' || at[-1] != ':' || !memcmp(at - strlen(clocked), clocked, strlen(clocked)));
  *at = *at == '9' ? '0' : (char)(*at + 1);
}

static const char *alter_setting(json_t *settings) {
  static const char *const other[][2] = {{"lr", "0.051"}, {"batch", "4"},           {"seed", "1"},
                                         {"eps", "1e-7"}, {"betas", "0.9,0.99"},    {"epochs", "2"},
                                         {"shards", "2"}, {"val-split", "0.1"},     {"optimizer", "adam"},
                                         {"warmup", "1"}, {"sampler", "sequential"}};
  const int64_t which = draw(sizeof other / sizeof *other);
  json_object_set_new(settings, other[which][0], json_string(other[which][1]));
  return other[which][0];
}

/* Makes the checksums of a checkpoint's files right. */
static void fix_checkpoint(const char *folder) {
  static const char *const name[] = {"model.safetensors", "state.safetensors"};
  text record = read_text(folder, "run.json");
  json_t *is = parsed(&record);
  for (int i = 0; i < 2; i++) {
    char sum[HD_CHECKSUM_BYTES];
    text file = read_text(folder, name[i]);
    hd__checksum_text(sum, hd__xxh3(file.bytes, file.length));
    json_object_set_new(json_object_get(json_object_get(is, "files"), name[i]), "xxh3", json_string(sum));
    free(file.bytes);
  }
  replace(&record, is, false);
  write_text(&record);
  free(record.bytes);
}

/* Makes the digests of the data right, in the certificate and in the records. */
static void fix_data(void) {
  hd_config *config;
  hd_dataset *opened;
  char hex[HD_DATA_PARTS][HD_SHA256_HEX_BYTES];
  text certificate = read_text(run, "certificate.json"), record = read_text(run, "run.json");
  json_t *is = parsed(&certificate), *of = parsed(&record);
  hd_config_create(&config, ctx);
  if (hd__certificate_data(&opened, ctx, is, config) != HD_OK || hd__data_sha256(hex, ctx, opened) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  for (int i = 0; i < HD_DATA_PARTS; i++) {
    char sum[24];
    snprintf(sum, sizeof sum, "%016llx", (unsigned long long)opened->statistics.checksum[i]);
    json_array_set_new(json_object_get(json_object_get(is, "data"), "sha256"), (size_t)i, json_string(hex[i]));
    json_array_set_new(json_object_get(json_object_get(of, "data"), "xxh3"), (size_t)i, json_string(sum));
  }
  hd__dataset_close(opened);
  hd_config_destroy(config);
  replace(&certificate, is, true);
  replace(&record, of, false);
  write_text(&certificate);
  write_text(&record);
  free(certificate.bytes);
  free(record.bytes);
}

static void in_checkpoint(char folder[SCRATCH_PATH_BYTES]) {
  snprintf(folder, SCRATCH_PATH_BYTES, "%s/step-%d", run, 4 * (int)(1 + draw(3))); /* 4, 8, 12; it has 12 steps */
}

/* Alters one thing; returns what, and the file with its content before. */
static const char *alter(text *before, int kind) {
  static const char *const of_data[] = {"x_train.npy", "y_train.npy", "x_test.npy", "y_test.npy"};
  static const char *const of_step[] = {"model.safetensors", "state.safetensors"};
  char folder[SCRATCH_PATH_BYTES];
  text t;
  in_checkpoint(folder);
  const char *where = kind < 4 ? data : kind == 6 || kind == 7 ? folder : run;
  const char *name = kind < 4                 ? of_data[kind]
                     : kind == 4 || kind == 5 ? "certificate.json"
                     : kind < 8               ? of_step[kind - 6]
                     : kind == 8              ? "losses.bin"
                     : kind == 9              ? "metrics.jsonl"
                                              : "run.json";
  t = read_text(where, name);
  *before = read_text(where, name);
  json_t *is = kind == 5 || kind == 10 ? parsed(&t) : NULL;
  if (kind == 1 || kind == 3) {
    char *label = &t.bytes[128 + draw((int64_t)t.length - 128)];
    *label = (char)((*label + 1) % CLASSES);
  } else if (kind < 4 || (kind >= 6 && kind < 9)) {
    flip_bit(&t, kind < 4 ? 128 : 0);
  } else if (kind == 4) {
    alter_byte(&t, 0);
  } else if (kind == 9) {
    alter_number(&t);
  } else {
    alter_setting(json_object_get(is, "settings"));
    replace(&t, is, kind == 5);
  }
  write_text(&t);
  free(t.bytes);
  if (kind == 6 || kind == 7)
    fix_checkpoint(folder);
  if (kind < 4)
    fix_data();
  return name;
}

/* ---- Entries of a certificate ---- */

enum { WAYS = 12 };

/* "aB" of "ab": another name with the same letters. */
static void rename_key(char out[64], const char *key) {
  snprintf(out, 64, "%s", key);
  out[strlen(out) - 1] ^= ' ';
}

/* Another value for a text: longer, shorter, of other letters. */
static json_t *other_text(const char *before, int way) {
  char longer[2048];
  snprintf(longer, sizeof longer, way == 0 ? "%sdeadbeef" : way == 1 ? " %s" : "%.0s", before);
  if (way == 2)
    snprintf(longer, sizeof longer, "%.*s", (int)strlen(before) - 1, before);
  return json_string(longer);
}

/* The value in one of the ways, or NULL: this value has no such way. */
static json_t *other_value(json_t *value, int way) {
  const char *before = json_string_value(value);
  switch (way) {
  case 0: return json_is_null(value) ? NULL : json_null();
  case 1: return json_pack("[O]", value);
  case 2: return json_pack("{s:O}", "value", value);
  case 3: return json_true();
  case 4: return json_is_real(value) ? json_integer((json_int_t)json_real_value(value)) : json_real(0.5);
  case 5: return before ? json_integer(atoll(before)) : json_string("0.5");
  case 6: return json_is_integer(value) ? json_real((double)json_integer_value(value)) : json_integer(-7);
  case 7:
  case 8:
  case 9: return before && *before ? other_text(before, way - 7) : NULL;
  default: return NULL;
  }
}

/* Alters an entry of an object: its value or, in the last ways, its name, or that it is there. */
static bool alter_entry(json_t *object, const char *key, int way) {
  char other[64];
  json_t *value = json_object_get(object, key);
  if (way < WAYS - 2) {
    json_t *altered = other_value(value, way);
    return altered && json_object_set_new(object, key, altered) == 0;
  }
  if (way == WAYS - 2) {
    rename_key(other, key);
    json_object_set(object, other, value);
  }
  return json_object_del(object, key) == 0;
}

/* The n-th object of a certificate, or NULL. */
static json_t *object_at(json_t *certificate, int n) {
  static const char *const name[] = {"settings", "data", "result"};
  return n == 0  ? certificate
         : n < 4 ? json_object_get(certificate, name[n - 1])
                 : json_array_get(json_object_get(certificate, "chain"), (size_t)(n - 4));
}

/* Whether the altered certificate is verified, by itself. */
static bool is_taken(text *t, json_t *altered, const char *what) {
  char why[1024];
  replace(t, altered, true);
  write_text(t);
  const bool taken = is_verified(t->path, 0, why);
  if (taken && *what)
    diag("verified: %s", what);
  return taken;
}

/* A text whose bytes are a number of the same value is the same setting. */
static bool is_same(const json_t *object, const char *key, const json_t *before) {
  const char *a = json_string_value(json_object_get(object, key)), *b = json_string_value(before);
  return a && b && *b >= '0' && *b <= '9' && strcmp(key, "betas") && strlen(b) < 24 &&
         strtod(a, NULL) == strtod(b, NULL);
}

static int alter_entries(const text *certificate, text *t, int n, int *count) {
  int taken = 0;
  json_t *is = parsed(certificate), *value;
  const char *key;
  char what[256];
  json_object_foreach(object_at(is, n), key, value) {
    for (int way = 0; way < WAYS; way++) {
      json_t *altered = parsed(certificate), *object = object_at(altered, n);
      if (!alter_entry(object, key, way) || is_same(object, key, value)) {
        json_decref(altered);
        continue;
      }
      snprintf(what, sizeof what, "object %d, %s, way %d", n, key, way);
      taken += is_taken(t, altered, what);
      ++*count;
    }
  }
  json_t *more = parsed(certificate);
  json_object_set_new(object_at(more, n), "best_test_accuracy", json_real(1));
  taken += is_taken(t, more, "one more entry");
  ++*count;
  json_decref(is);
  return taken;
}

/* What no single entry has: members of lists, and entries that belong together. */
static int alter_lists(const text *certificate, text *t, int *count) {
  static const char *const change[] = {"no digest of data", "one more digest of data", "no mark", "one more mark",
                                       "a digest without initial weights"};
  int taken = 0;
  for (size_t i = 0; i < sizeof change / sizeof *change; i++) {
    json_t *altered = parsed(certificate), *chain = json_object_get(altered, "chain"),
           *sums = json_object_get(json_object_get(altered, "data"), "sha256");
    if (i == 0)
      json_array_remove(sums, 3);
    else if (i == 1)
      json_array_append(sums, json_array_get(sums, 0));
    else if (i == 2)
      json_array_remove(chain, 0);
    else if (i == 3)
      json_array_append(chain, json_array_get(chain, 0));
    else
      json_object_set(altered, "init_sha256", json_object_get(altered, "weights_sha256"));
    taken += is_taken(t, altered, change[i]);
    ++*count;
  }
  return taken;
}

static void alter_certificate(void) {
  text certificate = read_text(run, "certificate.json"), t = {.path = ""};
  int count = 0, taken = 0;
  snprintf(t.path, sizeof t.path, "%s", in_scratch("alone.json"));
  ok(!is_taken(&t, json_null(), "nothing"), "no certificate is not verified");
  json_t *is = parsed(&certificate);
  for (int n = 0; object_at(is, n); n++)
    taken += alter_entries(&certificate, &t, n, &count);
  taken += alter_lists(&certificate, &t, &count);
  ok(count > 400, "%d alterations of its entries", count);
  is_int(taken, 0, "none of these certificates is verified");
  ok(is_taken(&t, is, ""), "as it was, it is by itself");
  free(certificate.bytes);
  free(t.bytes);
}

/* A record with a setting that heddle does not know. */
static void alter_record(void) {
  char why[1024];
  text certificate = read_text(run, "certificate.json"), record = read_text(run, "run.json"),
       t = read_text(run, "run.json");
  json_t *is = parsed(&record);
  json_object_set_new(json_object_get(is, "settings"), "LR", json_string("0.5"));
  replace(&t, is, false);
  write_text(&t);
  ok(!is_verified(run, 0, why) && strstr(why, "LR"), "a setting that heddle does not know is refused: %s", why);
  unlink(certificate.path);
  ok(!is_verified(run, 0, why) && strstr(why, "LR"), "without a certificate too: %s", why);
  write_text(&record);
  write_text(&certificate);
  free(certificate.bytes);
  free(record.bytes);
  free(t.bytes);
}

int main(void) {
  const int count = check_depth() > 2 ? ALL : SOME;
  char why[1024];
  int found = 0;
  hd_ctx_create(&ctx);
  snprintf(run, sizeof run, "%s", in_scratch("run"));
  snprintf(data, sizeof data, "%s", in_scratch("data"));
  mkdir(data, 0777);
  write_data();
  train();
  is_int(hd_certify(ctx, run, NULL), HD_OK, "the run is certified");
  ok(is_verified(run, 0, why), "it is what it claims: %s", why);
  ok(is_verified(run, 2, why), "and so are two segments: %s", why);
  for (int i = 0; i < count; i++) {
    text kept[2] = {read_text(run, "certificate.json"), read_text(run, "run.json")}, before;
    const int kind = i % KINDS;
    const char *name = alter(&before, kind);
    const bool verified = is_verified(run, 0, why);
    found += !verified;
    if (verified || i < KINDS)
      diag("%s: %s", name, verified ? "verified" : why);
    write_text(&before);
    write_text(&kept[0]);
    if (kind != 10)
      write_text(&kept[1]);
    if (kind == 6 || kind == 7) {
      char *slash = strrchr(before.path, '/');
      *slash = 0;
      fix_checkpoint(before.path);
    }
    free(before.bytes);
    free(kept[0].bytes);
    free(kept[1].bytes);
  }
  is_int(found, count, "of %d alterations none is verified", count);
  alter_certificate();
  alter_record();
  ok(is_verified(run, 0, why), "as it was, it is what it claims: %s", why);
  hd_ctx_destroy(ctx);
  return done_testing();
}
