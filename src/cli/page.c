/* The frame of HTML pages: see page.h. */
#include "cli/page.h"

#include <string.h>

#include "base/embed.h"
#include "cli/svg.h"

void page_put(FILE *to, const char *name) {
  for (const hd_embedded *file = hd__embed_pages; file->name; file++)
    if (!strcmp(file->name, name))
      fwrite(file->bytes, 1, file->length, to);
}

void page_open(FILE *to, const char *title) {
  fprintf(to, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" "
              "content=\"width=device-width,initial-scale=1\">\n<title>");
  svg_escaped(to, title);
  fprintf(to, "</title>\n<style>\n");
  page_put(to, "style.css");
  fprintf(to, "</style></head><body>\n");
}

void page_close(FILE *to) { fprintf(to, "</body></html>\n"); }
