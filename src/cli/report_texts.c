/* The part of a report that is about a text: what the network wrote along the way, and which characters are hard. See
 * report.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "cli/page.h"
#include "cli/report.h"
#include "cli/svg.h"

enum { MOST_TEXTS = 8, MOST_CHARACTERS = 15, RARE = 1000 };

/* A text of several lines. The line feed behind the element's name is no part of it. */
static void put_lines(FILE *to, const char *text) {
  char line[4096];
  fprintf(to, "<pre>\n");
  for (size_t length; *text; text += length) {
    length = strcspn(text, "\n");
    snprintf(line, sizeof line, "%.*s", (int)length, text);
    svg_escaped(to, line);
    if (text[length]) {
      fputc('\n', to);
      length++;
    }
  }
  fprintf(to, "</pre>\n");
}

/* Of many texts the first, the last, and some between. */
static void put_texts(FILE *to, const report *r) {
  hd_run_numbers n = {.struct_bytes = sizeof n};
  if (hd_runs_numbers(&n, r->run[0].list, r->ctx, r->run[0].index, "samples") != HD_OK || n.count == 0)
    return;
  const int64_t count = n.count, shown = count < MOST_TEXTS ? count : MOST_TEXTS;
  fprintf(to, "<h2>Texts along the way</h2>\n");
  for (int64_t i = 0; i < shown; i++) {
    char key[64];
    const long long at = shown > 1 ? i * (count - 1) / (shown - 1) : 0;
    snprintf(key, sizeof key, "samples.%lld.step", at);
    page_put_text(to, "p", "soft", "After step %s", cli_grouped(llround(report_number(r, 0, key))));
    snprintf(key, sizeof key, "samples.%lld.text", at);
    put_lines(to, report_value(r, 0, key));
  }
}

typedef struct character {
  int number;
  double samples, loss;
} character;

static int harder(const void *a, const void *b) {
  const character *x = a, *y = b;
  return x->loss != y->loss ? (x->loss < y->loss) - (x->loss > y->loss) : x->number - y->number;
}

/* A list of history.jsonl, one number for each character. The caller frees it. */
static int read_characters(character **out, const report *r) {
  hd_run_numbers n = {.struct_bytes = sizeof n};
  if (hd_runs_numbers(&n, r->run[0].list, r->ctx, r->run[0].index, "character_samples") != HD_OK || n.count < 1)
    return 0;
  const int count = n.count < 65536 ? (int)n.count : 0;
  *out = calloc((size_t)count + 1, sizeof **out);
  for (int i = 0; i < count && *out; i++)
    (*out)[i] = (character){.number = i, .samples = n.value[i]};
  if (hd_runs_numbers(&n, r->run[0].list, r->ctx, r->run[0].index, "character_losses") != HD_OK || n.count != count)
    return 0;
  for (int i = 0; i < count && *out; i++)
    (*out)[i].loss = n.value[i];
  return *out ? count : 0;
}

/* Characters that are not seen have a word, other bytes than those of ASCII a number. Valid until the next call. */
static const char *shown_as(const report *r, int number) {
  static char one[2], shown[8];
  const bool byte = !strcmp(report_value(r, 0, "tokens"), "bytes");
  one[0] = (char)number;
  const char *const name = byte ? one : report_class(r, REPORT_NO_HEAD, number);
  const char *const word = !strcmp(name, " ")    ? "space"
                           : !strcmp(name, "\n") ? "end of line"
                           : !strcmp(name, "\t") ? "tab"
                                                 : NULL;
  if (word || !byte)
    return word ? word : name;
  hd__utf8_escape(shown, sizeof shown, one, 1);
  return shown;
}

static void put_rows(FILE *to, const report *r, const character *c, int count) {
  double samples = 0, loss = 0;
  for (int i = 0; i < count; i++) {
    samples += c[i].samples;
    loss += c[i].samples * c[i].loss;
  }
  for (int i = 0, rows = 0; i < count && rows < MOST_CHARACTERS; i++) {
    if (c[i].samples < samples / RARE || c[i].samples < 1)
      continue;
    rows++;
    fprintf(to, "<tr>");
    page_put_text(to, "td", "name", "%s", shown_as(r, c[i].number));
    fprintf(to, "<td>%s</td><td>%.2f %%</td><td>%.3f</td><td>%.1f %%</td><td>%.1f %%</td></tr>\n",
            cli_grouped(llround(c[i].samples)), 100 * c[i].samples / samples, c[i].loss, 100 * exp(-c[i].loss),
            100 * c[i].samples * c[i].loss / loss);
  }
}

static void put_characters(FILE *to, const report *r) {
  const char *const kind = strcmp(report_value(r, 0, "tokens"), "bytes") ? "character" : "byte";
  character *c = NULL;
  const int count = read_characters(&c, r);
  if (count > 0) {
    qsort(c, (size_t)count, sizeof *c, harder);
    fprintf(to,
            "<h2>Hard %ss</h2>\n<p class=\"soft\">The highest mean loss on the test set, of %ss that are "
            "at least one in %s of it.</p>\n<div class=\"table\"><table><thead><tr><th class=\"name\">%s</th>"
            "<th>times</th><th>of the text</th><th>loss</th><th>probability</th><th>of the loss</th></tr></thead>"
            "<tbody>\n",
            kind, kind, cli_grouped(RARE), kind);
    put_rows(to, r, c, count);
    fprintf(to, "</tbody></table></div>\n");
  }
  free(c);
}

void report_put_texts(FILE *to, const report *r) {
  put_texts(to, r);
  put_characters(to, r);
}
