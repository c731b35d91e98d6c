/* The frame of HTML pages: see page.h. */
#include "cli/page.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/embed.h"
#include "cli/svg.h"

const char *page_file(const char *name) {
  const hd_embedded *file = hd__embed_pages;
  while (file->name && strcmp(file->name, name) != 0)
    file++;
  return file->name ? (const char *)file->bytes : "";
}

void page_put_text(FILE *to, const char *element, const char *class, const char *fmt, ...) {
  char *text = NULL;
  va_list args;
  va_start(args, fmt);
  if (vasprintf(&text, fmt, args) >= 0) {
    fprintf(to, "<%s class=\"%s\">", element, class);
    svg_escaped(to, text);
    fprintf(to, "</%s>\n", element);
    free(text);
  }
  va_end(args);
}

void page_open(FILE *to, const char *title, int refresh_s) {
  fprintf(to, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" "
              "content=\"width=device-width,initial-scale=1\">\n");
  if (refresh_s > 0)
    fprintf(to, "<meta http-equiv=\"refresh\" content=\"%d\">\n", refresh_s);
  page_put_text(to, "title", "", "%s", title);
  fprintf(to, "<style>\n%s%s</style></head><body>\n", page_file("figure.css"), page_file("style.css"));
}

void page_close(FILE *to) { fprintf(to, "</body></html>\n"); }
