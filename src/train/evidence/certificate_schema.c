/* The schema of certificates: see certificate_schema.h, and certificate.h for what the entries mean.
 *
 * It is closed. An entry that nothing reads would be a claim that nothing verifies, and one of another type than
 * expected would be read as its default. So both are refused here, before anything is repeated. What this file accepts
 * is exactly what certificate.c writes. */
#include "train/evidence/certificate_schema.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_text.h"
#include "train/evidence/certificate.h"
#include "train/settings/model_source.h"
#include "train/settings/run_record.h"

/* A SCORE that was not measured may be null; so may a LOSS. */
typedef enum entry_kind { COUNT, LOSS, SCORE, TEXT, DIGEST, OBJECT, LIST } entry_kind;

typedef struct entry {
  const char *name;
  entry_kind kind;
  int64_t low; /* of a COUNT */
  bool optional;
} entry;

enum { MOST_ENTRIES = 16, SHOWN_BYTES = 80 };
static const int64_t MOST = (int64_t)1 << 53;

/* An object of the schema: its name in messages, and its entries. */
typedef struct shape {
  const char *name;
  entry entry[MOST_ENTRIES]; /* ends with an entry without a name */
} shape;

static const shape top = {"the certificate",
                          {{"certificate", COUNT, 1, false},
                           {"arithmetic_version", COUNT, 1, false},
                           {"model_yaml", TEXT, 0, false},
                           {"settings", OBJECT, 0, false},
                           {"init_sha256", DIGEST, 0, true},
                           {"data", OBJECT, 0, false},
                           {"steps", COUNT, 1, false},
                           {"chain", LIST, 0, false},
                           {"weights_sha256", DIGEST, 0, false},
                           {"result", OBJECT, 0, false}}};
static const shape data = {"data",
                           {{"train_samples", COUNT, 1, false},
                            {"test_samples", COUNT, 0, false},
                            {"sha256", LIST, 0, false},
                            {"rules", COUNT, 1, true}}};
static const shape mark = {"chain", {{"step", COUNT, 1, false}, {"sha256", DIGEST, 0, false}}};
static const shape result = {"result",
                             {{"train_loss", LOSS, 0, false},
                              {"val_loss", LOSS, 0, false},
                              {"val_accuracy", SCORE, 0, false},
                              {"test_loss", LOSS, 0, false},
                              {"test_accuracy", SCORE, 0, false},
                              {"wrong", COUNT, -1, false}}};

#define REMEDY "; make a certificate with heddle certify RUN"

static hd_status refuse(hd_ctx *ctx, const char *path, const char *name, const char *where, const char *expected,
                        const json_t *found) {
  if (!found)
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected '%s' in %s, found none" REMEDY, path, name, where);
  char *text = hd__json_dump(found, JSON_ENCODE_ANY | JSON_COMPACT);
  hd__fail(ctx, HD_E_FORMAT, "%s: expected %s as '%s' in %s, found %.*s" REMEDY, path, expected, name, where,
           SHOWN_BYTES, text ? text : "another");
  free(text);
  return HD_E_FORMAT;
}

static bool is_digest(const json_t *value) {
  const char *text = json_string_value(value);
  return text && strlen(text) == HD_SHA256_HEX_BYTES - 1 && strspn(text, "0123456789abcdef") == strlen(text);
}

static bool is_share(const json_t *value) {
  const double share = json_real_value(value);
  return json_is_real(value) && !signbit(share) && share <= 1;
}

/* What an entry must be, for a message; NULL: the entry is right. */
static const char *flaw(const entry *e, const json_t *value) {
  const int64_t count = json_integer_value(value);
  switch (e->kind) {
  case COUNT:
    return json_is_integer(value) && count >= e->low && count <= MOST ? NULL
           : e->low > 0                                               ? "a whole number above 0"
           : e->low < 0                                               ? "a whole number, or -1"
                                                                      : "a whole number";
  case LOSS: return json_is_real(value) || json_is_null(value) ? NULL : "a number with a point, or null";
  case SCORE: return is_share(value) || json_is_null(value) ? NULL : "a number from 0.0 to 1.0, or null";
  case TEXT: return json_is_string(value) ? NULL : "a text";
  case DIGEST: return is_digest(value) ? NULL : "64 hexadecimal digits";
  case OBJECT: return json_is_object(value) ? NULL : "an object";
  case LIST: return json_is_array(value) ? NULL : "a list";
  }
  return NULL;
}

static const entry *find(const shape *s, const char *name) {
  const entry *e = s->entry;
  while (e->name && strcmp(e->name, name))
    e++;
  return e->name ? e : NULL;
}

static hd_status unknown(hd_ctx *ctx, const char *path, const char *name, const char *where) {
  return hd__fail(ctx, HD_E_FORMAT, "%s: expected no '%.80s' in %s, found one, which cannot be verified" REMEDY, path,
                  name, where);
}

/* Checks that an object has the entries of its shape, of their kinds. */
static hd_status check_shape(hd_ctx *ctx, json_t *object, const shape *s, const char *path) {
  const char *name;
  json_t *value;
  if (!json_is_object(object))
    return refuse(ctx, path, s->name, "the certificate", "an object", object);
  for (const entry *e = s->entry; e->name; e++) {
    const json_t *found = json_object_get(object, e->name);
    const char *expected = found || !e->optional ? flaw(e, found) : NULL;
    if (expected)
      return refuse(ctx, path, e->name, s->name, expected, found);
  }
  json_object_foreach(object, name, value) if (!find(s, name)) return unknown(ctx, path, name, s->name);
  return HD_OK;
}

static hd_status check_data(hd_ctx *ctx, json_t *is, const char *path) {
  HD_TRY(check_shape(ctx, is, &data, path));
  const json_t *list = json_object_get(is, "sha256");
  for (size_t i = 0; i < HD_DATA_PARTS; i++)
    if (!is_digest(json_array_get(list, i)))
      return refuse(ctx, path, "sha256", data.name, "digests of 64 hexadecimal digits", list);
  return json_array_size(list) == HD_DATA_PARTS ? HD_OK : refuse(ctx, path, "sha256", data.name, "four digests", list);
}

int64_t hd__certificate_every(int64_t steps) { return (steps + HD_CERTIFICATE_MARKS - 1) / HD_CERTIFICATE_MARKS; }

/* Digests stand at equal distances, and at the last step. */
static hd_status check_chain(hd_ctx *ctx, const json_t *chain, int64_t steps, const char *path) {
  const int64_t every = hd__certificate_every(steps), count = (steps + every - 1) / every;
  for (int64_t i = 0; i < (int64_t)json_array_size(chain); i++) {
    json_t *is = json_array_get(chain, (size_t)i);
    HD_TRY(check_shape(ctx, is, &mark, path));
    const json_int_t step = json_integer_value(json_object_get(is, "step"));
    if (step != (i + 1 < count ? (i + 1) * every : steps))
      return hd__fail(ctx, HD_E_FORMAT,
                      "%s: expected a chain of digests every %lld steps up to step %lld, found one at step %lld" REMEDY,
                      path, (long long)every, (long long)steps, (long long)step);
  }
  return (int64_t)json_array_size(chain) == count
             ? HD_OK
             : hd__fail(ctx, HD_E_FORMAT, "%s: expected a chain of %lld digests up to step %lld, found %zu" REMEDY,
                        path, (long long)count, (long long)steps, json_array_size(chain));
}

/* ---- Settings ---- */

bool hd__certificate_states(int option) {
  return option == HD_OPT_DATA || option == HD_OPT_INIT ||
         (hd_option_at(option)->kind == HD_OPTION_EXPERIMENT && option != HD_OPT_RECIPE);
}

static int find_option(const char *name) {
  int id = 0;
  while (hd_option_at(id) && (!hd__certificate_states(id) || strcmp(hd_option_at(id)->name, name)))
    id++;
  return hd_option_at(id) ? id : -1;
}

/* A list is stated in full, not by the name of a file with it. */
static bool is_stated(int id, const char *text) {
  const bool list = id == HD_OPT_PARAMETERS || id == HD_OPT_TRANSFORMS || id == HD_OPT_EVAL_TRANSFORMS;
  return !list || *text == '[';
}

static hd_status read_settings(hd_config *config, hd_ctx *ctx, json_t *settings, const char *path) {
  const char *name;
  json_t *value;
  HD_TRY(hd__config_suggest(config, ctx, HD_OPT_NORMALIZE, hd_choice_name(HD_OPT_NORMALIZE, HD_NORMALIZE_CHANNEL)));
  json_object_foreach(settings, name, value) {
    const int id = find_option(name);
    if (id < 0)
      return unknown(ctx, path, name, "settings");
    if (!json_is_string(value) || !is_stated(id, json_string_value(value)))
      return refuse(ctx, path, name, "settings", json_is_string(value) ? "a list" : "a text", value);
    if (hd_config_set_text(config, ctx, (hd_option_id)id, json_string_value(value)) != HD_OK)
      return hd__fail_in(ctx, HD_E_FORMAT, "%s: settings", path);
  }
  return HD_OK;
}

/* The last option of 0.2.0, whose certificates lack later ones, and the version of the data's rules. */
enum { LAST_OLD_OPTION = HD_OPT_EVAL_EPOCHS };

/* A run records an option that has a value and applies, and no other. */
static hd_status check_present(const hd_config *config, hd_ctx *ctx, const json_t *certificate, const char *path) {
  json_t *settings = json_object_get(certificate, "settings");
  const bool old = !json_object_get(json_object_get(certificate, "data"), "rules");
  for (int id = 0; hd_option_at(id); id++) {
    const char *name = hd_option_at(id)->name;
    const bool is_there = json_object_get(settings, name);
    const bool applies = hd__config_applies(config, (hd_option_id)id);
    if (is_there && !applies)
      return hd__fail(ctx, HD_E_FORMAT,
                      "%s: expected no '%s' in settings, found one, which the other settings do not use" REMEDY, path,
                      name);
    const bool has = id == HD_OPT_SHARDS || hd__config_has(config, (hd_option_id)id);
    const bool recorded = id != HD_OPT_INIT && hd__certificate_states(id) && (id <= LAST_OLD_OPTION || !old);
    if (!is_there && recorded && applies && has)
      return refuse(ctx, path, name, "settings", "a text", NULL);
  }
  return HD_OK;
}

/* A run's model leaves nothing to the data, and has the loss of the option. */
static hd_status check_resolved(hd_ctx *ctx, const json_t *certificate, const hd_network *network, const char *path) {
  const char *asked = hd__record_setting(certificate, HD_OPT_LOSS), *loss = hd__target_loss(&network->target);
  if (network->asks_input || network->asks_classes)
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected numbers in 'model_yaml', found %s" REMEDY, path,
                    network->asks_input ? "'input: data'" : "'out: classes'");
  if (!*asked || !strcmp(asked, loss))
    return HD_OK;
  return hd__fail(ctx, HD_E_FORMAT,
                  "%s: expected the loss of 'model_yaml', %s, as 'loss' in settings, found %.80s" REMEDY, path, loss,
                  asked);
}

/* The option model is a description, or the name of one: built in, or a file, which may be gone. */
static hd_status check_model(hd_ctx *ctx, const json_t *certificate, const char *path) {
  const char *stated = hd__record_setting(certificate, HD_OPT_MODEL), *text = hd__json_text(certificate, "model_yaml");
  hd_network network, built_in;
  HD_TRY(hd__network_from_text(&network, ctx, text, "model_yaml"));
  bool same = true;
  hd_status status = strchr(stated, '\n') ? hd__network_is_of(&same, ctx, text, stated) : HD_OK;
  if (hd__network_is_built_in(stated) && hd__network_find(&built_in, ctx, stated) == HD_OK) {
    same = !strcmp(built_in.name, network.name);
    hd__network_fini(&built_in);
  }
  if (status == HD_OK && !same)
    status = hd__fail(ctx, HD_E_FORMAT,
                      "%s: expected the model of 'model_yaml', %.80s, as 'model' in settings, found "
                      "%.80s" REMEDY,
                      path, network.name, strchr(stated, '\n') ? "a different description" : stated);
  HD_THEN(status, check_resolved(ctx, certificate, &network, path));
  hd__network_fini(&network);
  return status;
}

static hd_status check_settings(hd_ctx *ctx, const json_t *certificate, const char *path) {
  HD_CONFIG_OWNED *config = NULL;
  json_t *settings = json_object_get(certificate, "settings");
  const bool has_init = json_object_get(settings, hd_option_at(HD_OPT_INIT)->name);
  HD_TRY(hd_config_create(&config, ctx));
  HD_TRY(read_settings(config, ctx, settings, path));
  HD_TRY(hd__record_take_rules(config, ctx, certificate, path));
  if (hd__config_complete(config, ctx) != HD_OK)
    return hd__fail_in(ctx, HD_E_FORMAT, "%s: settings", path);
  HD_TRY(check_present(config, ctx, certificate, path));
  HD_TRY(check_model(ctx, certificate, path));
  if (has_init == (json_object_get(certificate, "init_sha256") != NULL))
    return HD_OK;
  return has_init
             ? refuse(ctx, path, "init_sha256", top.name, "64 hexadecimal digits", NULL)
             : hd__fail(ctx, HD_E_FORMAT,
                        "%s: expected no 'init_sha256' of a run without 'init' in settings, found one" REMEDY, path);
}

hd_status hd__certificate_check(hd_ctx *ctx, json_t *certificate, const char *path) {
  const json_t *version = json_object_get(certificate, "certificate");
  if (!json_is_integer(version))
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected a certificate, found another file; make one with heddle certify RUN", path);
  if (json_integer_value(version) != HD_CERTIFICATE_VERSION)
    return hd__fail(ctx, HD_E_UNSUPPORTED, "%s: expected a certificate of version %d, found %lld; use a newer heddle",
                    path, HD_CERTIFICATE_VERSION, (long long)json_integer_value(version));
  HD_TRY(check_shape(ctx, certificate, &top, path));
  HD_TRY(check_data(ctx, json_object_get(certificate, "data"), path));
  HD_TRY(check_chain(ctx, json_object_get(certificate, "chain"),
                     json_integer_value(json_object_get(certificate, "steps")), path));
  HD_TRY(check_shape(ctx, json_object_get(certificate, "result"), &result, path));
  return check_settings(ctx, certificate, path);
}
