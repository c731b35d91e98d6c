/* Reading --device: see device_choice.h. */
#include "train/settings/device_choice.h"

#include <stdint.h>
#include <string.h>

#include "base/number.h"

/* "0,3" */
static bool parse_list(hd_device_choice *c, const char *text) {
  for (const char *at = text;; at++) {
    char one[8] = "";
    const size_t length = strcspn(at, ",");
    int64_t number;
    if (length >= sizeof one || c->count == HD_DEVICE_MOST_GPUS)
      return false;
    memcpy(one, at, length);
    if (!hd__parse_int64(&number, one) || number < 0 || number > 1023)
      return false;
    c->index[c->count++] = (int)number;
    at += length;
    if (!*at)
      return true;
  }
}

static bool parse(hd_device_choice *c, const char *text) {
  *c = (hd_device_choice){
      .automatic = !strcmp(text, "auto"), .first = !strcmp(text, "cuda"), .all = !strcmp(text, "cuda:all")};
  c->gpus = !c->automatic && strcmp(text, "cpu") != 0;
  return !c->gpus || c->first || c->all || (!strncmp(text, "cuda:", 5) && parse_list(c, text + 5));
}

hd_status hd__device_read(hd_device_choice *out, hd_ctx *ctx, const char *text) {
  hd_device_choice c;
  if (!parse(&c, text))
    return hd__fail(ctx, HD_E_USAGE,
                    "--device expects auto, cpu, cuda, cuda:N, a list such as cuda:0,1 or cuda:all, found '%.60s'",
                    text);
  for (int i = 0; i < c.count; i++)
    for (int j = 0; j < i; j++)
      if (c.index[i] == c.index[j])
        return hd__fail(ctx, HD_E_USAGE, "--device expects each GPU once, found GPU %d twice in '%.60s'; name it once",
                        c.index[i], text);
  *out = c;
  return HD_OK;
}
