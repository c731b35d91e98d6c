/* heddle eval: accuracy and loss of a checkpoint on a test set, per class, and the confusion matrix. */
#include <math.h>

#include "cli/cli.h"

enum { MATRIX_COLUMNS = 16, WORST_SHOWN = 16 }; /* more classes: a list of the most frequent mistakes instead */

static int digits_of(int64_t n) {
  int digits = 1;
  for (; n >= 10; n /= 10)
    digits++;
  return digits;
}

static int64_t largest_count(const hd_evaluation *e) {
  int64_t largest = 0;
  for (int i = 0; i < e->classes * e->classes; i++)
    largest = e->confusion[i] > largest ? e->confusion[i] : largest;
  return largest;
}

/* "    7    98.93 %   1,017 of 1,028" */
static void print_class(const hd_evaluation *e, int c) {
  if (e->class_samples[c] > 0)
    cli_print("%5d  %7.2f %%  %*s of %*s", c, 100.0 * (double)e->class_right[c] / (double)e->class_samples[c], 7,
              cli_grouped(e->class_right[c]), -7, cli_grouped(e->class_samples[c]));
  else
    cli_print("%5d        -                       ", c);
}

/* A line for each class: its accuracy, and its row of the confusion matrix. */
static void print_matrix(const hd_evaluation *e) {
  int width = digits_of(largest_count(e)) + 2;
  width = width < 5 ? 5 : width;
  cli_print("%*s\n", 33 + width + 9, "taken for");
  cli_print("class   accuracy            right  ");
  for (int c = 0; c < e->classes; c++)
    cli_print("%*d", width, c);
  cli_print("\n");
  for (int row = 0; row < e->classes; row++) {
    print_class(e, row);
    for (int c = 0; c < e->classes; c++) {
      int64_t count = e->confusion[row * e->classes + c];
      if (count)
        cli_print("%*lld", width, (long long)count);
      else
        cli_print("%*s", width, ".");
    }
    cli_print("\n");
  }
}

/* The most frequent mistakes, most frequent first. */
static void print_worst(const hd_evaluation *e) {
  int64_t before = INT64_MAX;
  cli_print("\nlabel  taken for  times\n");
  for (int shown = 0; shown < WORST_SHOWN;) {
    int64_t next = 0;
    for (int i = 0; i < e->classes * e->classes; i++)
      if (i / e->classes != i % e->classes && e->confusion[i] < before && e->confusion[i] > next)
        next = e->confusion[i];
    if (next == 0)
      return;
    for (int i = 0; i < e->classes * e->classes && shown < WORST_SHOWN; i++)
      if (i / e->classes != i % e->classes && e->confusion[i] == next && ++shown)
        cli_print("%5d  %9d  %5lld\n", i / e->classes, i % e->classes, (long long)next);
    before = next;
  }
}

static void print_table(const hd_evaluation *e) {
  int64_t wrong = 0;
  for (int c = 0; c < e->classes; c++)
    wrong += e->class_samples[c] - e->class_right[c];
  cli_print("samples   %s", cli_grouped(e->samples));
  if (e->skipped > 0)
    cli_print(" (%s more could not be read)", cli_grouped(e->skipped));
  cli_print("\nloss      %.6f\n", e->loss);
  if (!isnan(e->mean_absolute_error))
    cli_print("mean absolute error  %.6f\n", e->mean_absolute_error);
  if (!isnan(e->r2))
    cli_print("R2        %.6f\n", e->r2);
  if (e->classes == 0)
    return;
  cli_print("accuracy  %.2f %% (%s wrong)\n", 100 * e->accuracy, cli_grouped(wrong));
  cli_print("F1        %.4f\n", e->f1);
  if (!isnan(e->auc))
    cli_print("AUC       %.4f\n", e->auc);
  cli_print("\n");
  if (e->classes <= MATRIX_COLUMNS) {
    print_matrix(e);
    return;
  }
  cli_print("class   accuracy\n");
  for (int c = 0; c < e->classes; c++) {
    print_class(e, c);
    cli_print("\n");
  }
  print_worst(e);
}

static void print_json(const hd_evaluation *e) {
  cli_json("{'loss': %g, 'accuracy': %g", e->loss, e->accuracy);
  if (!isnan(e->mean_absolute_error))
    cli_json(", 'mean_absolute_error': %g", e->mean_absolute_error);
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
  if (e->classes > 0)
    cli_json(", 'f1': %g, 'auc': %g", e->f1, e->auc);
  if (!isnan(e->r2))
    cli_json(", 'r2': %g", e->r2);
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
    .help = "accuracy and loss of a checkpoint",
    .usage = "heddle eval CHECKPOINT [--data NAME|PATH] [--data-dir DIR] [--on-error stop|skip] [--exif apply|ignore] "
             "[--allow-empty] [--tta V] [--threads N] [--device D] [--json]",
    .options = (const char *const[]){"data", "data-dir", "on-error", "exif", "allow-empty", "tta", "threads", "device",
                                     "json", NULL},
    .operands = 1,
    .operand = "checkpoint (a run's folder or a step's)",
    .run = run};
