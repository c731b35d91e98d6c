/* heddle eval: accuracy and loss of a checkpoint on a test set, per class, and the confusion matrix; or scores of each
 * output. */
#include <math.h>

#include "cli/cli.h"

enum { NAME = 10, WIDE_NAME = 24 }; /* columns of a score's name */
enum {
  MATRIX_COLUMNS = 16, /* more classes: a list of the most frequent mistakes instead */
  WORST_SHOWN = 16,
  NAME_ROOM = 24,
  OUTPUTS_SHOWN = 64
};

static int digits_of(int64_t n) {
  int digits = 1;
  for (; n >= 10; n /= 10)
    digits++;
  return digits;
}

/* ---- Classes ---- */

static const char *name_of(const hd_evaluation *e, int c) {
  const char *name = e->class_names ? e->class_names[c] : NULL;
  return name ? name : "";
}

/* Of a name and a blank before it; 0: there are none. */
static int name_width(const hd_evaluation *e) {
  int width = 0;
  for (int c = 0; c < e->classes; c++)
    width = cli_width(name_of(e, c)) >= width && *name_of(e, c) ? cli_width(name_of(e, c)) + 1 : width;
  return width > NAME_ROOM ? NAME_ROOM : width;
}

static void print_name(const hd_evaluation *e, int c, int width) {
  const char *name = name_of(e, c);
  const int padding = width - cli_width(name) - 1;
  if (width > 0)
    cli_print(" %s%*s", name, padding > 0 ? padding : 0, "");
}

/* Widths of the table of classes, and of each column of the confusion matrix. */
typedef struct layout {
  int names, right, of, cell[MATRIX_COLUMNS];
} layout;

enum { CLASS = 5, ACCURACY = 8, GAP = 2, USUAL_CELL = 5 };

static int class_columns(const layout *l) { return CLASS + l->names + GAP + ACCURACY + GAP + l->right + 4 + l->of; }

static layout lay_out_classes(const hd_evaluation *e) {
  layout l = {.names = name_width(e), .right = 1, .of = 1};
  for (int c = 0; c < e->classes; c++) {
    const int right = cli_width(cli_grouped(e->class_right[c])), of = cli_width(cli_grouped(e->class_samples[c]));
    l.right = right > l.right ? right : l.right;
    l.of = of > l.of ? of : l.of;
  }
  return l;
}

/* Returns the width of the classes with the matrix beside them. */
static int lay_out_matrix(layout *l, const hd_evaluation *e, int least) {
  int all = class_columns(l);
  for (int c = 0; c < e->classes; c++) {
    int digits = digits_of(c);
    for (int row = 0; row < e->classes; row++) {
      const int needed = digits_of(e->confusion[row * e->classes + c]);
      digits = needed > digits ? needed : digits;
    }
    l->cell[c] = digits + 1 > least ? digits + 1 : least;
    all += l->cell[c];
  }
  return all;
}

/* "    7 seven   98.93 %  1,017 of 1,028" */
static void print_class(const hd_evaluation *e, int c, const layout *l) {
  cli_print("%*d", CLASS, c);
  print_name(e, c, l->names);
  if (e->class_samples[c] > 0)
    cli_print("  %6.2f %%  %*s of %*s", 100.0 * (double)e->class_right[c] / (double)e->class_samples[c], l->right,
              cli_grouped(e->class_right[c]), -l->of, cli_grouped(e->class_samples[c]));
  else
    cli_print("%*s%*s", GAP + ACCURACY, "-", class_columns(l) - CLASS - l->names - GAP - ACCURACY, "");
}

static void print_numbers(const hd_evaluation *e, const layout *l) {
  for (int c = 0; c < e->classes; c++)
    cli_print("%*d", l->cell[c], c);
  cli_print("\n");
}

static void print_row(const hd_evaluation *e, int row, const layout *l) {
  for (int c = 0; c < e->classes; c++) {
    const int64_t count = e->confusion[row * e->classes + c];
    if (count)
      cli_print("%*lld", l->cell[c], (long long)count);
    else
      cli_print("%*s", l->cell[c], ".");
  }
  cli_print("\n");
}

/* The matrix as a table of its own. */
static void print_apart(const hd_evaluation *e, const layout *l) {
  cli_print("\nclass%*s%*s\n", l->names, "", l->cell[0] + 9, "taken for");
  cli_print("%*s", CLASS + l->names, "");
  print_numbers(e, l);
  for (int row = 0; row < e->classes; row++) {
    cli_print("%*d", CLASS, row);
    print_name(e, row, l->names);
    print_row(e, row, l);
  }
}

/* A line for each class: its accuracy, and its row of the confusion matrix, which is a table of its own where the
 * screen has no room for both. */
static void print_matrix(const hd_evaluation *e) {
  const int columns = cli_columns();
  layout l = lay_out_classes(e);
  const bool apart = columns > 0 && lay_out_matrix(&l, e, USUAL_CELL) > columns && lay_out_matrix(&l, e, 0) > columns;
  if (columns == 0 || apart)
    lay_out_matrix(&l, e, USUAL_CELL);
  if (!apart)
    cli_print("%*s\n", class_columns(&l) + l.cell[0] + 8, "taken for");
  cli_print("class%*s  accuracy  %*s", l.names, "", -(l.right + 4 + l.of), "right");
  if (apart)
    cli_print("\n");
  else
    print_numbers(e, &l);
  for (int row = 0; row < e->classes; row++) {
    print_class(e, row, &l);
    if (apart)
      cli_print("\n");
    else
      print_row(e, row, &l);
  }
  if (apart)
    print_apart(e, &l);
}

static void print_mistake(const hd_evaluation *e, int cell, int names, int64_t times) {
  cli_print("%5d", cell / e->classes);
  print_name(e, cell / e->classes, names);
  cli_print("  %9d", cell % e->classes);
  print_name(e, cell % e->classes, names);
  cli_print("  %5lld\n", (long long)times);
}

/* The most frequent mistakes, most frequent first. */
static void print_worst(const hd_evaluation *e) {
  int64_t before = INT64_MAX;
  const int names = name_width(e);
  cli_print("\nlabel%*s  taken for%*s  times\n", names, "", names, "");
  for (int shown = 0; shown < WORST_SHOWN;) {
    int64_t next = 0;
    for (int i = 0; i < e->classes * e->classes; i++)
      if (i / e->classes != i % e->classes && e->confusion[i] < before && e->confusion[i] > next)
        next = e->confusion[i];
    if (next == 0)
      return;
    for (int i = 0; i < e->classes * e->classes && shown < WORST_SHOWN; i++)
      if (i / e->classes != i % e->classes && e->confusion[i] == next && ++shown)
        print_mistake(e, i, names, next);
    before = next;
  }
}

/* "   2 tree    81.20 %" */
static void print_iou(const hd_evaluation *e) {
  const int names = name_width(e);
  cli_print("\nclass%*s       IoU\n", names, "");
  for (int c = 0; c < e->classes; c++) {
    cli_print("%*d", CLASS, c);
    print_name(e, c, names);
    if (isnan(e->class_iou[c]))
      cli_print("  %*s\n", ACCURACY, "-");
    else
      cli_print("  %6.2f %%\n", 100 * e->class_iou[c]);
  }
}

static void print_classes(const hd_evaluation *e) {
  int64_t wrong = 0;
  for (int c = 0; c < e->classes; c++)
    wrong += e->class_samples[c] - e->class_right[c];
  cli_print("accuracy  %.2f %% (%s wrong)\n", 100 * e->accuracy, cli_grouped(wrong));
  cli_print("F1        %.4f\n", e->f1);
  if (!isnan(e->auc))
    cli_print("AUC       %.4f\n", e->auc);
  if (!isnan(e->iou))
    cli_print("IoU       %.4f\n", e->iou);
  cli_print("\n");
  if (e->classes <= MATRIX_COLUMNS) {
    print_matrix(e);
    return;
  }
  const layout l = lay_out_classes(e);
  cli_print("class%*s  accuracy  right\n", l.names, "");
  for (int c = 0; c < e->classes; c++) {
    print_class(e, c, &l);
    cli_print("\n");
  }
  print_worst(e);
}

/* ---- Outputs with targets of their own ---- */

/* "  0.8123", or "       -" */
static void print_score(double score, int width, int places) {
  if (isnan(score))
    cli_print("  %*s", width, "-");
  else if (places > 0)
    cli_print("  %*.*f", width, places, score);
  else
    cli_print("  %*.6g", width, score);
}

static void print_scores(const hd_output_score *o, bool labels, int64_t samples) {
  if (labels) {
    cli_print("  %7s of %-7s", cli_grouped(o->positives), cli_grouped(samples));
    print_score(o->f1, 8, 4);
    print_score(o->auc, 8, 4);
  } else {
    print_score(o->r2, 12, 6);
    print_score(o->mean_absolute_error, 19, 0);
    print_score(o->root_mean_square_error, 22, 0);
  }
  cli_print("\n");
}

/* "R2 is not defined for 1 of 3 outputs, the first of them 2: its targets are all equal; the mean leaves it out" */
static void print_undefined(const hd_evaluation *e, const char *what, bool labels, int score, const char *why) {
  int count = 0, first = 0;
  for (int k = e->outputs - 1; k >= 0; k--) {
    const hd_output_score *o = &e->output[k];
    const double is = score == 0 ? o->f1 : score == 1 ? o->auc : o->r2;
    count += isnan(is) && (!labels || o->binary);
    first = isnan(is) && (!labels || o->binary) ? k : first;
  }
  if (count > 0)
    cli_print("note: \t%s is not defined for %d of %d %s, first for %d: %s; the mean leaves %s out\n", what, count,
              e->outputs, labels ? "labels" : "outputs", first, why, count > 1 ? "them" : "it");
}

static void print_no_label(const hd_evaluation *e) {
  int count = 0, first = 0;
  for (int k = e->outputs - 1; k >= 0; k--) {
    count += !e->output[k].binary;
    first = e->output[k].binary ? first : k;
  }
  if (count > 0)
    cli_print("note: \t%d of %d labels, first %d, have targets between 0 and 1: F1 and AUC are not defined for these, "
              "nor over all labels\n",
              count, e->outputs, first);
}

static void print_outputs(const hd_evaluation *e, bool labels) {
  if (e->outputs > 1) {
    cli_print(labels ? "\nlabel  positives                F1       AUC\n"
                     : "\noutput            R2  mean absolute error  root mean square error\n");
    for (int k = 0; k < e->outputs && k < OUTPUTS_SHOWN; k++) {
      cli_print(labels ? "%5d" : "%6d", k);
      print_scores(&e->output[k], labels, e->samples);
    }
  }
  if (e->outputs > OUTPUTS_SHOWN)
    cli_print("and %s more, which --json lists\n", cli_grouped(e->outputs - OUTPUTS_SHOWN));
  if (labels) {
    print_undefined(e, "F1", true, 0, "no sample has this label, and none was predicted to have it");
    print_undefined(e, "AUC", true, 1, "its targets are all equal");
    print_no_label(e);
  } else {
    print_undefined(e, "R2", false, 2, "its targets are all equal");
  }
}

/* A regression's have errors. */
static bool are_labels(const hd_evaluation *e) { return e->outputs > 0 && isnan(e->mean_absolute_error); }

/* "F1        0.8123 macro, 0.8312 micro" */
static void print_means(const char *name, double macro, double micro) {
  cli_print("%-10s", name);
  if (isnan(macro))
    cli_print("not defined");
  else
    cli_print("%.4f macro", macro);
  if (!isnan(micro))
    cli_print(", %.4f micro", micro);
  cli_print("\n");
}

/* "samples   50, all of the data" */
static void print_samples(const hd_evaluation *e, int width) {
  static const char *const part[] = {[HD_EVALUATED_OWN] = "",
                                     [HD_EVALUATED_SAME] = ", the run's test set",
                                     [HD_EVALUATED_TEST] = ", the data's test set",
                                     [HD_EVALUATED_ALL] = ", all of the data",
                                     [HD_EVALUATED_CHANGED] =
                                         ", the test set of data that differ from the training data"};
  cli_print("%-*s%s%s", width, "samples", cli_grouped(e->samples), part[e->part]);
  if (e->skipped > 0)
    cli_print(" (%s more could not be read)", cli_grouped(e->skipped));
  cli_print("\n");
}

/* A line for each head. */
static void print_all_heads(const hd_evaluation *e) {
  cli_print("\nhead              loss               value  score\n");
  for (int k = 0; k < e->heads; k++) {
    const hd_head_score *h = &e->head[k];
    cli_print("%-16s  %-15s  %8.6f", h->name, h->loss_name, h->loss);
    if (!isnan(h->accuracy))
      cli_print("  accuracy %.2f %%", 100 * h->accuracy);
    if (!isnan(h->mean_absolute_error))
      cli_print("  mean absolute error %.6g", h->mean_absolute_error);
    if (!isnan(h->r2))
      cli_print(", R2 %.6f", h->r2);
    cli_print("\n");
  }
}

static void print_table(const hd_evaluation *e) {
  const bool labels = are_labels(e);
  const int width = (e->outputs > 0 && !labels) || !isnan(e->perplexity) ? WIDE_NAME : NAME;
  print_samples(e, width);
  cli_print("%-*s%.6f\n", width, "loss", e->loss);
  if (labels) {
    print_means("F1", e->f1, e->f1_micro);
    print_means("AUC", e->auc, e->auc_micro);
  } else if (e->outputs > 0) {
    cli_print("%-*s%.6g\n", width, "mean absolute error", e->mean_absolute_error);
    cli_print("%-*s%.6g\n", width, "root mean square error", e->root_mean_square_error);
    cli_print("%-*s", width, "R2");
    cli_print(isnan(e->r2) ? "not defined\n" : "%.6f\n", e->r2);
  }
  if (!isnan(e->perplexity))
    cli_print("%-*s%.4g\n", width, "perplexity", e->perplexity);
  if (!isnan(e->bits_per_byte))
    cli_print("%-*s%.4g\n", width, "bits per byte", e->bits_per_byte);
  if (e->classes == 0 && !isnan(e->accuracy))
    cli_print("%-*s%.2f %%\n", width, "accuracy", 100 * e->accuracy);
  if (e->outputs > 0)
    print_outputs(e, labels);
  if (e->classes > 0)
    print_classes(e);
  if (e->class_iou)
    print_iou(e);
  if (e->heads > 0)
    print_all_heads(e);
}

static void json_outputs(const hd_evaluation *e) {
  const bool labels = are_labels(e);
  if (labels)
    cli_json(", 'f1': %g, 'f1_micro': %g, 'auc': %g, 'auc_micro': %g, 'labels': [", e->f1, e->f1_micro, e->auc,
             e->auc_micro);
  else
    cli_json(", 'r2': %g, 'root_mean_square_error': %g, 'outputs': [", e->r2, e->root_mean_square_error);
  for (int k = 0; k < e->outputs; k++) {
    const hd_output_score *o = &e->output[k];
    if (labels)
      cli_json("%c{'positives': %lld, 'f1': %g, 'auc': %g}", k, (long long)o->positives, o->f1, o->auc);
    else
      cli_json("%c{'r2': %g, 'mean_absolute_error': %g, 'root_mean_square_error': %g}", k, o->r2,
               o->mean_absolute_error, o->root_mean_square_error);
  }
  cli_json("]");
}

static void json_heads(const hd_evaluation *e) {
  cli_json(", 'heads': [");
  for (int k = 0; k < e->heads; k++) {
    const hd_head_score *h = &e->head[k];
    cli_json("%c{'name': %s, 'loss_name': %s, 'loss': %g, 'accuracy': %g, 'r2': %g, 'mean_absolute_error': %g}", k,
             h->name, h->loss_name, h->loss, h->accuracy, h->r2, h->mean_absolute_error);
  }
  cli_json("]");
}

static void print_json(const hd_evaluation *e) {
  static const char *const part[] = {"test", "test", "test", "all", "changed"};
  cli_json("{'loss': %g, 'accuracy': %g", e->loss, e->accuracy);
  if (!isnan(e->mean_absolute_error))
    cli_json(", 'mean_absolute_error': %g", e->mean_absolute_error);
  if (!isnan(e->perplexity))
    cli_json(", 'perplexity': %g, 'bits_per_byte': %g", e->perplexity, e->bits_per_byte);
  cli_json(", 'per_class': [");
  for (int c = 0; c < e->classes; c++)
    cli_json("%c%g", c, e->class_samples[c] ? (double)e->class_right[c] / (double)e->class_samples[c] : NAN);
  cli_json("], 'confusion': [");
  for (int row = 0; row < e->classes; row++) {
    cli_json("%c[", row);
    for (int col = 0; col < e->classes; col++)
      cli_json("%c%lld", col, (long long)e->confusion[row * e->classes + col]);
    cli_json("]");
  }
  cli_json("]");
  if (e->class_names) {
    cli_json(", 'class_names': [");
    for (int c = 0; c < e->classes; c++)
      cli_json("%c%s", c, name_of(e, c));
    cli_json("]");
  }
  if (e->classes > 0)
    cli_json(", 'f1': %g, 'auc': %g", e->f1, e->auc);
  if (e->class_iou) {
    cli_json(", 'iou': %g, 'class_iou': [", e->iou);
    for (int c = 0; c < e->classes; c++)
      cli_json("%c%g", c, e->class_iou[c]);
    cli_json("]");
  }
  if (e->outputs > 0)
    json_outputs(e);
  if (e->heads > 0)
    json_heads(e);
  cli_json(", 'samples': %lld, 'part': %s", (long long)e->samples, part[e->part]);
  if (e->skipped > 0)
    cli_json(", 'skipped': %lld", (long long)e->skipped);
  cli_json("}\n");
}

static int run(hd_ctx *ctx, hd_config *config, int count, char **operand) {
  hd_evaluation e = {.struct_bytes = sizeof e};
  CLI_TRY(hd_evaluate(&e, ctx, operand[0], config));
  cli_note(ctx);
  (cli_wants_json(config) ? print_json : print_table)(&e);
  hd_evaluation_fini(&e);
  return CLI_OK;
}

const cli_command cli_eval = {
    .name = "eval",
    .data = "the run's",
    .help = "accuracy and loss of a checkpoint",
    .usage = "heddle eval CHECKPOINT [--data NAME|PATH] [--data-dir DIR] [--label NAME] [--weights NAME] [--header "
             "auto|yes|no] "
             "[--missing mean|refuse] [--categories N] [--normalize HOW] [--on-error stop|skip] [--exif apply|ignore] "
             "[--allow-empty] [--tta V] [--threads N] [--device D] [--json]",
    .options =
        (const char *const[]){"data", "data-dir", "label", "weights", "header", "missing", "categories", "normalize",
                              "on-error", "exif", "allow-empty", "tta", "threads", "device", "json", NULL},
    .operands = 1,
    .operand = "checkpoint (a run's folder or a step's)",
    .run = run};
