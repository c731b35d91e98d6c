/* What the commands' HTML pages share: the frame of a self-contained page, with the files of data/pages inside. */
#pragma once

#include <stdio.h>

/* Begins a page with its style; ends it. The title is text. */
void page_open(FILE *to, const char *title);
void page_close(FILE *to);

/* Writes an embedded file of data/pages as it is. */
void page_put(FILE *to, const char *name);
