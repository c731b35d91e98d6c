/* The frame that the commands' self-contained HTML pages share, with the files of data/pages inside. */
#pragma once

#include <stdio.h>

/* Begins a page with its style; ends it. The title is text. refresh_s: the browser loads the page again after so many
 * seconds; 0: never. */
void page_open(FILE *to, const char *title, int refresh_s);
void page_close(FILE *to);

/* An element with text of any length, which is escaped. */
void page_put_text(FILE *to, const char *element, const char *class, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* An embedded file of data/pages. */
const char *page_file(const char *name);
