/* Status codes, the context that carries an error's message, and the library's version.
 *
 * Every fallible call returns hd_status: 0 (HD_OK) or a negative code. The message of the last failure is stored in
 * the context that was passed in; it is one line with what was expected, what was found and a remedy.
 *
 * Pointers: an argument is NULL only where its function says that it may be. Elsewhere the library does not check for
 * NULL, neither of a configuration nor of an object: that is an error of the program, not a status.
 *
 * Thread safety: a context may be used by one thread at a time. Two contexts never share state. */
#ifndef HEDDLE_STATUS_H
#define HEDDLE_STATUS_H

#include "heddle/version.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define HD_API __attribute__((visibility("default")))
#else
#define HD_API
#endif

/* The version of the library that runs, "MAJOR.MINOR.PATCH", with "-dev" behind it until its release; and as a number,
 * to compare: HD_VERSION_NUMBER is that of the headers (heddle/version.h). */
HD_API const char *hd_version(void);
HD_API int hd_version_number(void);

typedef enum hd_status {
  HD_OK = 0,
  HD_E_USAGE = -1,       /* a setting or an argument is out of range or contradicts another */
  HD_E_NOMEM = -2,       /* an allocation failed */
  HD_E_IO = -3,          /* the operating system refused a file operation */
  HD_E_FORMAT = -4,      /* a file's content violates its format */
  HD_E_SHAPE = -5,       /* shapes do not fit each other */
  HD_E_NOTFINITE = -6,   /* a loss, a gradient or a weight is not finite */
  HD_E_UNSUPPORTED = -7, /* valid, but this build or this machine cannot do it */
  HD_E_INTERRUPTED = -8, /* stopped on request, state saved */
  HD_E_SYSTEM = -9,      /* threads, memory mapping or another service of the system failed */
  HD_E_TIMEOUT = -10,    /* the time limit was exceeded */
  HD_E_PEER = -11        /* another rank of the run has ended or failed */
} hd_status;

typedef struct hd_ctx hd_ctx;

/* A short English text for a code, never NULL. Static storage. */
HD_API const char *hd_status_text(hd_status status);

/* Creates a context; the caller owns it and ends it with hd_ctx_destroy (NULL allowed). */
HD_API hd_status hd_ctx_create(hd_ctx **out);
HD_API void hd_ctx_destroy(hd_ctx *ctx);

/* The last failure's message, "" before the first; some calls, where documented, store a warning here. Owned by the
 * context, valid until its next failure. */
HD_API const char *hd_ctx_message(const hd_ctx *ctx);

/* Calls `on_wait` during calls with this context that wait for another process, such as one that still writes to the
 * folder of a resumed run: once for each wait longer than 0.2 s, on the waiting thread, with a line that says for what.
 * NULL: never, as at first. The text is valid during the call. */
HD_API void hd_ctx_on_wait(hd_ctx *ctx, void (*on_wait)(void *user, const char *text), void *user);

/* For caller code that the library calls (a task, an operation): stores a message as printf does, and returns
 * `status`. ctx may be NULL. */
HD_API hd_status hd_ctx_fail(hd_ctx *ctx, hd_status status, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

#ifdef __cplusplus
}
#endif
#endif
