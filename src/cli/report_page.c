/* The page of a report: see report.h. Texts of files are untrusted: they go through page_put_text or svg_escaped. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/page.h"
#include "cli/report.h"
#include "cli/svg.h"

/* The number at a run's end, or the last one that it logged; NAN for none. */
static double latest(const report *r, int run, const char *key) {
  hd_run_numbers n = {.struct_bytes = sizeof n};
  const double at_end = report_number(r, run, key);
  if (isfinite(at_end) || hd_runs_numbers(&n, r->run[run].list, r->ctx, r->run[run].index, key) != HD_OK || !n.count)
    return at_end;
  return n.value[n.count - 1];
}

/* Steps of the first run, which may not have ended: its history then has those with which it started. */
static double steps_of(const report *r) {
  hd_run_numbers n = {.struct_bytes = sizeof n};
  const double at_end = report_number(r, 0, "step");
  if (hd_runs_numbers(&n, r->run[0].list, r->ctx, r->run[0].index, "loss") != HD_OK || n.count == 0)
    return at_end;
  return fmax(at_end, n.step[n.count - 1]); /* at_end may be NAN */
}

static const report_figure *figure_of(const report *r, const char *name) {
  for (int i = 0; i < r->figures; i++)
    if (!strcmp(r->figure[i].name, name))
      return &r->figure[i];
  return NULL;
}

static void put_figure(FILE *to, const report_figure *f) {
  if (!f)
    return;
  fprintf(to, "<figure class=\"%s\">", f->fixed ? "fixed" : "");
  page_put_text(to, "figcaption", "", "%s", f->caption);
  fprintf(to, "<div class=\"table\"><svg viewBox=\"0 0 %d %d\"", f->width, f->height);
  if (f->fixed)
    fprintf(to, " width=\"%d\" height=\"%d\"", f->width, f->height);
  fprintf(to, " role=\"img\" aria-label=\"");
  svg_escaped(to, f->caption);
  fprintf(to, "\">\n");
  fwrite(f->text, 1, f->length, to);
  fprintf(to, "</svg></div></figure>\n");
}

/* ---- A single run ---- */

/* Of an output, or the mean of all. */
static double score_of(const report *r, int output, const char *key) {
  char path[80];
  if (output < 0)
    snprintf(path, sizeof path, "scores.%s", key);
  else
    snprintf(path, sizeof path, "outputs.%d.%s", output, key);
  return report_number(r, 0, path);
}

/* Counts and times of the run, as far as it has them. */
static void put_facts(FILE *to, const report *r) {
  const double step = steps_of(r), train_s = report_number(r, 0, "train_s");
  const double speed = report_number(r, 0, "samples_per_s"), bytes = report_number(r, 0, "peak_rss_bytes");
  const double wrong = report_number(r, 0, "wrong"), tested = report_number(r, 0, "data.test_samples");
  fprintf(to, "<p class=\"say\">%s", cli_grouped_of(llround(step > 0 ? step : 0), "step"));
  if (train_s > 0)
    fprintf(to, " in %.2f s", train_s);
  if (speed > 0)
    fprintf(to, ", %s samples per second", cli_grouped(llround(speed)));
  if (bytes > 0)
    fprintf(to, ", %.0f MiB of memory", bytes / (1 << 20));
  if (isfinite(score_of(r, -1, "r2")))
    fprintf(to, "; R2 %.4f on the test set", score_of(r, -1, "r2"));
  if (isfinite(score_of(r, -1, "f1")))
    fprintf(to, "; F1 %.4f on the test set, the mean over all labels", score_of(r, -1, "f1"));
  if (wrong >= 0 && isfinite(latest(r, 0, "test_iou")))
    fprintf(to, "; %s wrong in %s test samples, test loss %.6g", cli_grouped_of(llround(wrong), "pixel"),
            cli_grouped(llround(tested)), latest(r, 0, "test_loss"));
  else if (wrong >= 0)
    fprintf(to, "; %s of %s test samples wrong", cli_grouped(llround(wrong)), cli_grouped(llround(tested)));
  fprintf(to, ".</p>\n");
}

/* When, where, and with what. */
static void put_origin(FILE *to, const report *r) {
  static const char *const part[][2] = {{"", "time"},
                                        {", ", "machine.cpu"},
                                        {", ", "machine.isa"},
                                        {", threads: ", "machine.threads"},
                                        {", ranks: ", "machine.ranks"},
                                        {", heddle ", "heddle"}};
  fprintf(to, "<p class=\"soft\">");
  for (size_t i = 0; i < sizeof part / sizeof *part; i++)
    if (*report_value(r, 0, part[i][1])) {
      fprintf(to, "%s", part[i][0]);
      svg_escaped(to, report_value(r, 0, part[i][1]));
    }
  fprintf(to, "</p>\n");
}

static void put_result(FILE *to, const report *r) {
  const double accuracy = latest(r, 0, "test_accuracy"), loss = latest(r, 0, "test_loss"),
               iou = latest(r, 0, "test_iou");
  const char *text = report_value(r, 0, "model"),
             *data = report_value(r, 0, "data.name"); /* the text of a file, or its name */
  const int length = (int)strcspn(text, "\n");
  if (isfinite(iou))
    page_put_text(to, "h1", "", "%.2f %% test IoU, %.2f %% of pixels right: %.*s on %s", 100 * iou, 100 * accuracy,
                  length, text, data);
  else if (isfinite(accuracy))
    page_put_text(to, "h1", "", "%.2f %% test accuracy: %.*s on %s", 100 * accuracy, length, text, data);
  else if (isfinite(loss))
    page_put_text(to, "h1", "", "Test loss %.6g: %.*s on %s", loss, length, text, data);
  else
    page_put_text(to, "h1", "", "%.*s on %s", length, text, data);
  put_facts(to, r);
  put_origin(to, r);
  const char *command = report_value(r, 0, "command");
  if (*command) {
    while (strcspn(command, "/") < strcspn(command, " '")) /* where the program was is of no use elsewhere */
      command += strcspn(command, "/") + 1;
    page_put_text(to, "pre", "", "%s", command);
  }
  if (report_number(r, 0, "step") > 0 && *report_value(r, 0, "weights_sha256"))
    page_put_text(to, "p", "digest", "SHA-256 of the weights: %s", report_value(r, 0, "weights_sha256"));
}

/* Of a class of the confusion matrix. */
typedef struct class_counts {
  const double *row; /* of its samples, or pixels, those taken for each class */
  double samples, guesses;
  int worst; /* what it is most often taken for, or itself */
} class_counts;

static class_counts count_class(const double *matrix, int classes, int c) {
  class_counts is = {.row = matrix + c * classes, .worst = c ? 0 : 1 % classes};
  for (int i = 0; i < classes; i++) {
    is.samples += is.row[i];
    is.guesses += matrix[i * classes + c];
    is.worst = i != c && is.row[i] > is.row[is.worst] ? i : is.worst;
  }
  return is;
}

static void put_share(FILE *to, double count, double of) {
  fprintf(to, of > 0 ? "<td>%.2f %%</td>" : "<td>-</td>", 100 * count / of);
}

/* `pixels`: each has a class, and a class an IoU. */
static void put_class(FILE *to, const report *r, const class_counts *n, int head, int c, bool pixels) {
  const double right = n->row[c];
  fprintf(to, "<tr>");
  page_put_text(to, "td", "", *report_class(r, head, c) ? "%d %s" : "%d", c, report_class(r, head, c));
  fprintf(to, "<td>%s</td><td>%s</td>", cli_grouped(llround(n->samples)), cli_grouped(llround(right)));
  put_share(to, right, n->samples);
  put_share(to, right, n->guesses);
  if (pixels)
    put_share(to, right, n->samples + n->guesses - right);
  if (n->worst != c && n->row[n->worst] > 0)
    page_put_text(to, "td", "", *report_class(r, head, n->worst) ? "%d %s (%.0f)" : "%d%s (%.0f)", n->worst,
                  report_class(r, head, n->worst), n->row[n->worst]);
  else
    fprintf(to, "<td>-</td>");
  fprintf(to, "</tr>\n");
}

static void put_classes(FILE *to, const report *r, int head) {
  const bool pixels = isfinite(latest(r, 0, "test_iou"));
  const double *matrix;
  const int classes = report_confusion(&matrix, r, head);
  if (classes == 0)
    return;
  fprintf(to,
          "<div class=\"table\"><table><thead><tr><th>class</th><th>%s</th><th>right</th><th>accuracy</th>"
          "<th>precision</th>%s<th>most often taken for</th></tr></thead><tbody>\n",
          pixels ? "pixels" : "samples", pixels ? "<th>IoU</th>" : "");
  for (int c = 0; c < classes; c++) {
    const class_counts of = count_class(matrix, classes, c);
    put_class(to, r, &of, head, c, pixels);
  }
  fprintf(to, "</tbody></table></div>\n");
}

/* ---- Outputs with targets of their own ---- */

typedef struct column {
  const char *key, *title;
} column;

static const column of_labels[] = {{"positives", "samples with it"}, {"f1", "F1"}, {"auc", "AUC"}, {0}};
static const column of_numbers[] = {{"r2", "R2"},
                                    {"mean_absolute_error", "mean absolute error"},
                                    {"root_mean_square_error", "root mean square error"},
                                    {0}};

static void put_titles(FILE *to, const char *first, const column *columns) {
  fprintf(to, "<div class=\"table\"><table><thead><tr><th>%s</th>", first);
  for (const column *c = columns; c->key; c++)
    fprintf(to, "<th>%s</th>", c->title);
  fprintf(to, "</tr></thead><tbody>\n");
}

static void put_number(FILE *to, double number) {
  if (isfinite(number))
    fprintf(to, "<td>%.6g</td>", number);
  else
    fprintf(to, "<td>-</td>");
}

static void put_output(FILE *to, const report *r, const column *columns, const char *name, int output) {
  fprintf(to, "<tr><td>%s</td>", name);
  for (const column *c = columns; c->key; c++)
    put_number(to, score_of(r, output, c->key));
  fprintf(to, "</tr>\n");
}

static void put_outputs(FILE *to, const report *r) {
  const bool labels = isfinite(score_of(r, -1, "positives"));
  const column *columns = labels ? of_labels : of_numbers;
  char name[32];
  if (!labels && !isfinite(score_of(r, -1, "mean_absolute_error")))
    return;
  put_titles(to, labels ? "label" : "output", columns);
  for (int k = 0; isfinite(score_of(r, k, columns[labels ? 0 : 1].key)); k++) {
    snprintf(name, sizeof name, "%d", k);
    put_output(to, r, columns, name, k);
  }
  put_output(to, r, columns, labels ? "all (macro)" : "mean", -1);
  fprintf(to, "</tbody></table></div>\n");
}

/* The heads of a network with several losses, each with its own loss and scores. */
static void put_heads(FILE *to, const report *r) {
  static const column columns[] = {
      {"loss", "value"}, {"accuracy", "accuracy"}, {"r2", "R2"}, {"mean_absolute_error", "mean absolute error"}, {0}};
  char key[80];
  if (!*report_value(r, 0, "heads.0.name"))
    return;
  put_titles(to, "head</th><th>loss", columns);
  for (int k = 0; snprintf(key, sizeof key, "heads.%d.name", k), *report_value(r, 0, key); k++) {
    fprintf(to, "<tr>");
    page_put_text(to, "td", "", "%s", report_value(r, 0, key));
    snprintf(key, sizeof key, "heads.%d.loss_name", k);
    page_put_text(to, "td", "", "%s", report_value(r, 0, key));
    for (const column *c = columns; c->key; c++) {
      snprintf(key, sizeof key, "heads.%d.%s", k, c->key);
      put_number(to, report_number(r, 0, key));
    }
    fprintf(to, "</tr>\n");
  }
  fprintf(to, "</tbody></table></div>\n");
  for (int k = 0; k < REPORT_HEADS; k++) {
    snprintf(key, sizeof key, "confusion-%d", k);
    put_figure(to, figure_of(r, key));
    put_classes(to, r, k);
  }
}

/* A picture of the run's folder as part of the page. */
static void put_picture(FILE *to, const report *r, const char *name, const char *caption) {
  static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  char path[4096];
  unsigned char in[3];
  struct stat file; /* a link may lead to something else than a picture, and a pipe never ends */
  snprintf(path, sizeof path, "%s/%s", report_value(r, 0, "run"), name);
  if (lstat(path, &file) != 0 || !S_ISREG(file.st_mode))
    return;
  FILE *from = fopen(path, "re");
  if (!from) {
    fprintf(to, "<p>%s cannot be read: %s</p>\n", name, strerror(errno));
    return;
  }
  fprintf(to, "<figure><figcaption>%s</figcaption><img alt=\"%s\" src=\"data:image/png;base64,", caption, caption);
  for (size_t got; memset(in, 0, 3), (got = fread(in, 1, 3, from)) > 0;) {
    const unsigned bits = (unsigned)in[0] << 16 | (unsigned)in[1] << 8 | in[2];
    for (size_t i = 0; i < 4; i++)
      fputc(i <= got ? digit[bits >> (18 - 6 * i) & 63] : '=', to);
  }
  fprintf(to, "\"></figure>\n");
  fclose(from);
}

static void put_ranks(FILE *to, const report *r) {
  hd_run_numbers n = {.struct_bytes = sizeof n};
  if (hd_runs_numbers(&n, r->run[0].list, r->ctx, r->run[0].index, "rank_times") != HD_OK || n.count < 6)
    return;
  fprintf(to, "<div class=\"table\"><table><thead><tr><th>rank</th><th>data</th><th>computing</th><th>waiting</th></tr>"
              "</thead><tbody>\n");
  for (int64_t i = 0; i + 2 < n.count; i += 3)
    fprintf(to, "<tr><td>%lld</td><td>%.3f s</td><td>%.3f s</td><td>%.3f s</td></tr>\n", (long long)i / 3, n.value[i],
            n.value[i + 1], n.value[i + 2]);
  fprintf(to, "</tbody></table></div>\n");
}

static void put_settings(FILE *to, const report *r) {
  fprintf(to, "<h2>Settings</h2><ul class=\"settings\">\n");
  for (int i = 0; hd_option_at(i); i++) {
    const hd_option *option = hd_option_at(i);
    const char *value = report_value(r, 0, option->name);
    if (*value && option->kind != HD_OPTION_FILES)
      page_put_text(to, "li", strcmp(value, option->fallback) ? "given" : "", "%s %.*s", option->name,
                    (int)strcspn(value, "\n"), value);
  }
  fprintf(to, "</ul>\n");
}

static void put_single(FILE *to, const report *r) {
  put_result(to, r);
  for (int i = 0; i < r->notes; i++)
    page_put_text(to, "p", "note", "%s", r->note[i]);
  put_figure(to, figure_of(r, "loss"));
  put_figure(to, figure_of(r, "accuracy"));
  put_figure(to, figure_of(r, "lr"));
  report_put_texts(to, r);
  put_figure(to, figure_of(r, "confusion"));
  put_classes(to, r, REPORT_NO_HEAD);
  for (int i = 0; i < r->figures; i++)
    if (!strncmp(r->figure[i].name, "scatter-", 8))
      put_figure(to, &r->figure[i]);
  put_outputs(to, r);
  put_heads(to, r);
  put_picture(to, r, "wrong.png", "The most confident mistakes, with label and guess");
  put_figure(to, figure_of(r, "time"));
  put_ranks(to, r);
  put_figure(to, figure_of(r, "network"));
  put_settings(to, r);
}

/* ---- Several runs ---- */

static void put_table(FILE *to, const report *r) {
  static const char *const result[] = {"state",     "step",    "test_accuracy", "wrong",
                                       "test_loss", "train_s", "weights_sha256"};
  const char *key[128];
  int keys = 0;
  for (size_t i = 0; i < sizeof result / sizeof *result; i++)
    key[keys++] = result[i]; /* first: settings may be long */
  for (int i = 0; hd_option_at(i) && keys < 100; i++)
    if (hd_option_at(i)->kind != HD_OPTION_FILES && report_differs(r, hd_option_at(i)->name))
      key[keys++] = hd_option_at(i)->name;
  fprintf(to, "<div class=\"table\"><table class=\"runs\"><thead><tr><th class=\"name\">run</th>");
  for (int k = 0; k < keys; k++)
    page_put_text(to, "th", "", "%s", key[k]);
  fprintf(to, "</tr></thead><tbody>\n");
  for (int i = 0; i < r->runs; i++) {
    fprintf(to,
            "<tr><td class=\"name\"><svg class=\"swatch\" viewBox=\"0 0 10 10\"><rect class=\"f%d\" width=\"10\" "
            "height=\"10\" rx=\"2\"/></svg>",
            i % SVG_COLOURS);
    svg_escaped(to, report_name(r, i));
    fprintf(to, "</td>");
    for (int k = 0; k < keys; k++) {
      const char *value = report_value(r, i, key[k]);
      if (strchr(value, '.') && isfinite(report_number(r, i, key[k])))
        fprintf(to, "<td>%.4g</td>", report_number(r, i, key[k]));
      else
        page_put_text(to, "td", "", "%.*s", strlen(value) == 64 ? 12 : 40, *value ? value : "-");
    }
    fprintf(to, "</tr>\n");
  }
  fprintf(to, "</tbody></table></div>\n");
}

static void put_several(FILE *to, const report *r) {
  int best = -1;
  for (int i = 0; i < r->runs; i++)
    if (isfinite(report_number(r, i, "test_accuracy")) &&
        (best < 0 || report_number(r, i, "test_accuracy") > report_number(r, best, "test_accuracy")))
      best = i;
  page_put_text(to, "h1", "", "%d runs", r->runs);
  if (best >= 0)
    page_put_text(to, "p", "say", "Best test accuracy: %.2f %%, %s.", 100 * report_number(r, best, "test_accuracy"),
                  report_name(r, best));
  for (int i = 0; i < r->notes; i++)
    page_put_text(to, "p", "note", "%s", r->note[i]);
  put_table(to, r);
  for (int i = 0; i < r->figures; i++)
    put_figure(to, &r->figure[i]);
}

void report_write(FILE *to, const report *r, int refresh_s) {
  char title[256];
  snprintf(title, sizeof title, "%s, heddle report", r->runs > 1 ? "Runs" : report_value(r, 0, "run"));
  page_open(to, title, refresh_s);
  (r->runs > 1 ? put_several : put_single)(to, r);
  fprintf(to, "<script>\n%s</script>\n", page_file("curves.js"));
  page_close(to);
}
