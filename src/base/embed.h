/* Files embedded at build time. In the library: model descriptions, recipes, a font, and the headers of operations,
 * which networks exported to C carry. In the command: the scripts that run its peers, and parts of its pages.
 *
 * Tables end with an entry without a name. Bytes are followed by a NUL that `length` does not count. */
#pragma once

#include <stddef.h>

typedef struct hd_embedded {
  const char *name; /* without folder */
  const unsigned char *bytes;
  size_t length;
} hd_embedded;

extern const hd_embedded hd__embed_models[];
extern const hd_embedded hd__embed_recipes[];
extern const hd_embedded hd__embed_font[];
extern const hd_embedded hd__embed_chains[];
extern const hd_embedded hd__embed_peers[];
extern const hd_embedded hd__embed_pages[];
extern const hd_embedded hd__embed_sets[];
