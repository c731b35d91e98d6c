/* Contexts and the texts of status codes. No global state: two trainers in one process share nothing here. */
#include "base/status.h"
#include "base/alloc.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *hd_status_text(hd_status status) {
  switch (status) {
  case HD_OK: return "ok";
  case HD_E_USAGE: return "wrong usage";
  case HD_E_NOMEM: return "out of memory";
  case HD_E_IO: return "input or output failed";
  case HD_E_FORMAT: return "malformed file";
  case HD_E_SHAPE: return "shapes do not fit";
  case HD_E_NOTFINITE: return "a value is not finite";
  case HD_E_UNSUPPORTED: return "not supported here";
  case HD_E_INTERRUPTED: return "interrupted";
  case HD_E_SYSTEM: return "the operating system refused";
  case HD_E_TIMEOUT: return "out of time";
  case HD_E_PEER: return "another rank has ended";
  }
  return "unknown status";
}

hd_status hd_ctx_create(hd_ctx **out) {
  hd_ctx *ctx = hd__calloc(1, sizeof *ctx);
  *out = ctx;
  return ctx ? HD_OK : HD_E_NOMEM;
}

void hd_ctx_destroy(hd_ctx *ctx) {
  if (ctx && ctx->service)
    ctx->end_service(ctx->service);
  if (ctx && ctx->custom_data)
    ctx->end_custom_data(ctx->custom_data);
  for (int i = 0; ctx && i < ctx->custom_op_count; i++)
    hd__free(ctx->custom_op[i]);
  if (ctx)
    hd__free(ctx->custom_transforms);
  hd__free(ctx);
}

const char *hd_ctx_message(const hd_ctx *ctx) { return ctx ? ctx->message : ""; }

/* Removes line breaks and control characters, which quoted text may contain, from a message. */
static void keep_one_line(char message[HD_MESSAGE_BYTES]) {
  hd__utf8_clean(message, HD_MESSAGE_BYTES, message, HD_MESSAGE_BYTES);
}

hd_status hd_ctx_fail(hd_ctx *ctx, hd_status status, const char *format, ...) {
  if (!ctx)
    return status;
  va_list args;
  va_start(args, format);
  vsnprintf(ctx->message, sizeof ctx->message, format, args);
  va_end(args);
  keep_one_line(ctx->message);
  return status;
}

void hd_ctx_on_wait(hd_ctx *ctx, void (*on_wait)(void *user, const char *text), void *user) {
  ctx->on_wait = on_wait;
  ctx->wait_user = user;
}

void hd__tell_wait(const hd_ctx *ctx, const char *fmt, ...) {
  char text[HD_MESSAGE_BYTES];
  if (!ctx || !ctx->on_wait)
    return;
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  keep_one_line(text);
  ctx->on_wait(ctx->wait_user, text);
}

hd_status hd__fail_in(hd_ctx *ctx, hd_status code, const char *fmt, ...) {
  if (!ctx)
    return code;
  char prefix[HD_MESSAGE_BYTES];
  va_list args;
  va_start(args, fmt);
  vsnprintf(prefix, sizeof prefix - 2, fmt, args);
  va_end(args);
  strcat(prefix, ": ");
  size_t n = strlen(prefix);
  memmove(ctx->message + n, ctx->message, sizeof ctx->message - n);
  memcpy(ctx->message, prefix, n);
  ctx->message[sizeof ctx->message - 1] = 0;
  keep_one_line(ctx->message);
  return code;
}
