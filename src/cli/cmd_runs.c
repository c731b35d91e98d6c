/* heddle runs: the runs in a folder, as a table, JSON or CSV. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/nearest.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "heddle/evidence.h"

enum { MOST_COLUMNS = 32, MOST_TERMS = 16, NAME_BYTES = 64, LEAST_TEXT = 12 };

static const char default_columns[] = "run,model,state,step,test_accuracy,lr,train_s",
                  columns_of_numbers[] = "run,model,state,step,test_loss,outputs.0.r2,lr,train_s"; /* no classes */

/* Values besides the settings that every run can have, though a run that is not finished lacks some. */
static const char *const own_key[] = {
    "run",          "state",      "step",         "epoch",     "time",          "command",        "unreadable_lines",
    "train_loss",   "val_loss",   "val_accuracy", "test_loss", "test_accuracy", "wrong",          "startup_s",
    "train_s",      "evaluate_s", "save_s",       "wall_s",    "samples_per_s", "peak_rss_bytes", "weights_sha256",
    "outputs.0.r2", NULL};

/* A condition of --where: KEY=VALUE. */
typedef struct term {
  char key[NAME_BYTES];
  const char *value;
} term;

static struct {
  const char *sort, *columns;
  int csv, terms;
  term term[MOST_TERMS];
} asked;

static int take_term(const cli_extra *option, const char *value) {
  const char *equals = strchr(value, '=');
  if (!equals || equals == value || equals - value >= NAME_BYTES || asked.terms == MOST_TERMS) {
    cli_complain("--where expects KEY=VALUE, lr=0.01 for example, at most %d times, found '%s'; %s", MOST_TERMS, value,
                 asked.terms == MOST_TERMS ? "leave some out" : "write a setting's name, = and a value");
    return CLI_USAGE;
  }
  term *t = &asked.term[asked.terms++];
  snprintf(t->key, sizeof t->key, "%.*s", (int)(equals - value), value);
  t->value = equals + 1;
  return CLI_OK;
}

/* ---- Values ---- */

typedef struct listing {
  hd_runs *runs;
  int columns;
  char column[MOST_COLUMNS][NAME_BYTES];
  int64_t count, *order; /* the runs that are shown */
} listing;

static bool is_number(double *out, const char *text) { return cli_number(out, text) && !isspace((unsigned char)*text); }

/* Below 0, 0 or above: numbers by value and before texts, texts bytewise, a missing value last. */
static int compare(const char *a, const char *b) {
  double x, y;
  const bool of_a = is_number(&x, a), of_b = is_number(&y, b);
  if (of_a && of_b)
    return (x > y) - (x < y);
  if (of_a || of_b || !*a || !*b)
    return of_a || (*a && !*b) ? -1 : of_b || (*b && !*a) ? 1 : 0;
  return strcmp(a, b);
}

static bool is_wanted(const hd_runs *runs, int64_t run) {
  for (int i = 0; i < asked.terms; i++)
    if (compare(hd_runs_value(runs, run, asked.term[i].key), asked.term[i].value) != 0)
      return false;
  return true;
}

/* A run's place in the table, by the value of --sort. */
typedef struct place {
  char *value;
  int64_t run;
  int falls; /* largest first */
} place;

static int by_value(const void *a, const void *b) {
  const place *x = a, *y = b;
  const bool missing = !*x->value || !*y->value;
  const int order = compare(x->value, y->value);
  return order ? (x->falls && !missing ? -order : order) : (x->run > y->run) - (x->run < y->run);
}

static int sort_runs(listing *l) {
  place *all = calloc((size_t)l->count + 1, sizeof *all);
  const int falls = asked.sort[0] == '-';
  bool whole = all != NULL;
  for (int64_t i = 0; whole && i < l->count; i++) {
    all[i] = (place){strdup(hd_runs_value(l->runs, l->order[i], asked.sort + falls)), l->order[i], falls};
    whole = all[i].value != NULL;
  }
  if (whole) {
    qsort(all, (size_t)l->count, sizeof *all, by_value);
    for (int64_t i = 0; i < l->count; i++)
      l->order[i] = all[i].run;
  }
  for (int64_t i = 0; all && i < l->count; i++)
    free(all[i].value);
  free(all);
  return whole ? CLI_OK : HD_E_NOMEM;
}

static bool has_key(const hd_runs *runs, const char *key) {
  for (int i = 0; own_key[i]; i++)
    if (!strcmp(key, own_key[i]))
      return true;
  for (int i = 0; hd_option_at(i); i++)
    if (!strcmp(key, hd_option_at(i)->name))
      return true;
  for (int64_t run = 0; run < hd_runs_count(runs); run++)
    if (*hd_runs_value(runs, run, key))
      return true;
  return false;
}

/* A key that no run has is a mistyped one. */
static int check_key(const hd_runs *runs, const char *option, const char *key) {
  hd_nearest nearest = {.word = key};
  if (has_key(runs, key))
    return CLI_OK;
  for (int i = 0; own_key[i]; i++)
    hd__nearest_try(&nearest, own_key[i]);
  for (int i = 0; hd_option_at(i); i++)
    hd__nearest_try(&nearest, hd_option_at(i)->name);
  if (nearest.name)
    cli_complain("%s expects a value that a run has, found '%s'; did you mean %s?", option, key, nearest.name);
  else
    cli_complain("%s expects a value that a run has, found '%s'; a run's run.json and history.jsonl name them", option,
                 key);
  return CLI_USAGE;
}

static int check_keys(const listing *l) {
  for (int c = 0; asked.columns && c < l->columns; c++)
    CLI_TRY(check_key(l->runs, "--columns", l->column[c]));
  for (int i = 0; i < asked.terms; i++)
    CLI_TRY(check_key(l->runs, "--where", asked.term[i].key));
  return asked.sort ? check_key(l->runs, "--sort", asked.sort + (asked.sort[0] == '-')) : CLI_OK;
}

/* Whether some runs have ended, and none of them with an accuracy. */
static bool are_of_numbers(const hd_runs *runs) {
  bool some = false;
  for (int64_t run = 0; run < hd_runs_count(runs); run++) {
    if (*hd_runs_value(runs, run, "test_accuracy"))
      return false;
    some |= *hd_runs_value(runs, run, "test_loss") != 0;
  }
  return some;
}

static int choose_columns(listing *l) {
  const char *at = asked.columns ? asked.columns : are_of_numbers(l->runs) ? columns_of_numbers : default_columns;
  for (size_t length; *at; at += length + (at[length] == ',')) {
    length = strcspn(at, ",");
    if (l->columns == MOST_COLUMNS || length == 0 || length >= NAME_BYTES) {
      cli_complain("--columns expects at most %d names separated by commas, found '%s'; %s", MOST_COLUMNS,
                   asked.columns, l->columns == MOST_COLUMNS ? "leave some out" : "write run,state, for example");
      return CLI_USAGE;
    }
    snprintf(l->column[l->columns++], NAME_BYTES, "%.*s", (int)length, at);
  }
  return CLI_OK;
}

/* ---- Printing ---- */

static const char *value_of(const listing *l, int64_t row, int column) {
  return hd_runs_value(l->runs, l->order[row], l->column[column]);
}

/* As the table shows it: numbers with at most 4 decimals, "-" for a missing one. */
static const char *shown(char text[512], const char *value) {
  double number;
  if (!*value)
    return "-";
  if (!strchr(value, '.') || !is_number(&number, value))
    return value;
  snprintf(text, 512, "%.4g", number);
  return text;
}

/* The bytes of the first characters of a text. */
static int bytes_of(const char *text, int characters) {
  int bytes = 0;
  while (text[bytes] && characters-- > 0)
    do
      bytes++;
    while (((unsigned char)text[bytes] & 0xc0) == 0x80);
  return bytes;
}

/* Numbers stand at the right of their column; a text that is wider than its column ends in "..". */
static void print_cell(const char *value, int width, int last) {
  double number;
  char text[512];
  const bool right = is_number(&number, value) || !*value;
  const char *is = shown(text, value);
  const int blanks = width - cli_width(is);
  if (blanks < 0)
    cli_print("%.*s..", bytes_of(is, width - 2), is);
  else
    cli_print("%*s%s%*s", right ? blanks : 0, "", is, right || last ? 0 : blanks, "");
  cli_print(last ? "\n" : "  ");
}

/* Of each column, and the least to which it can be cut: numbers are never cut. */
static void find_widths(int width[MOST_COLUMNS], int least[MOST_COLUMNS], const listing *l) {
  char text[512];
  double number;
  for (int c = 0; c < l->columns; c++) {
    width[c] = cli_width(l->column[c]);
    least[c] = width[c] > LEAST_TEXT ? width[c] : LEAST_TEXT;
    for (int64_t row = 0; row < l->count; row++) {
      const char *value = value_of(l, row, c);
      const int needed = cli_width(shown(text, value));
      width[c] = needed > width[c] ? needed : width[c];
      least[c] = is_number(&number, value) && needed > least[c] ? needed : least[c];
    }
  }
}

/* Cuts the widest columns of text until the table fits the screen; false: it cannot. */
static bool fit(int width[MOST_COLUMNS], const int least[MOST_COLUMNS], const listing *l) {
  int all = 2 * (l->columns - 1);
  for (int c = 0; c < l->columns; c++)
    all += width[c];
  for (const int columns = cli_columns(); columns > 0 && all > columns; all--) {
    int widest = -1;
    for (int c = 0; c < l->columns; c++)
      if (width[c] > least[c] && (widest < 0 || width[c] > width[widest]))
        widest = c;
    if (widest < 0)
      return false;
    width[widest]--;
  }
  return true;
}

/* A line for each value: for a screen that is too narrow for the table. */
static void print_lines(const listing *l) {
  char text[512];
  int width = 0;
  for (int c = 0; c < l->columns; c++)
    width = cli_width(l->column[c]) > width ? cli_width(l->column[c]) : width;
  for (int64_t row = 0; row < l->count; row++)
    for (int c = 0; c < l->columns; c++)
      cli_print(row > 0 && c == 0 ? "\n%-*s  \t%s\n" : "%-*s  \t%s\n", width, l->column[c],
                shown(text, value_of(l, row, c)));
}

static void print_table(const listing *l) {
  int width[MOST_COLUMNS], least[MOST_COLUMNS];
  find_widths(width, least, l);
  if (!fit(width, least, l)) {
    print_lines(l);
    return;
  }
  for (int c = 0; c < l->columns; c++)
    cli_print("%s%*s%s", l->column[c], c + 1 < l->columns ? width[c] - cli_width(l->column[c]) : 0, "",
              c + 1 < l->columns ? "  " : "");
  cli_print("\n");
  for (int64_t row = 0; row < l->count; row++)
    for (int c = 0; c < l->columns; c++)
      print_cell(value_of(l, row, c), width[c], c + 1 == l->columns);
}

static void print_json(const listing *l) {
  cli_json("[");
  for (int64_t row = 0; row < l->count; row++) {
    cli_json("%c{", (int)(row > 0));
    for (int c = 0; c < l->columns; c++) {
      double number;
      const char *value = value_of(l, row, c);
      cli_json("%c%s: ", c, l->column[c]);
      if (!*value)
        cli_json("null");
      else if (is_number(&number, value))
        cli_json("%g", number);
      else
        cli_json("%s", value);
    }
    cli_json("}");
  }
  cli_json("]\n");
}

/* Quoted where needed, as RFC 4180 has it. Names of folders are untrusted, and standard output may be a terminal. */
static void print_csv_cell(const char *value, int last) {
  const bool quoted = strpbrk(value, ",\"") != NULL;
  if (quoted)
    putchar('"');
  for (size_t bytes; *value; value += bytes ? bytes : 1) {
    bytes = hd__utf8_shown(value, strnlen(value, 4));
    if (*value == '"')
      putchar('"');
    printf("%.*s", bytes ? (int)bytes : 1, bytes ? value : "?");
  }
  printf(quoted ? "\"%s" : "%s", last ? "\n" : ",");
}

static void print_csv(const listing *l) {
  for (int c = 0; c < l->columns; c++)
    print_csv_cell(l->column[c], c + 1 == l->columns);
  for (int64_t row = 0; row < l->count; row++)
    for (int c = 0; c < l->columns; c++)
      print_csv_cell(value_of(l, row, c), c + 1 == l->columns);
}

static int list_runs(listing *l, int json) {
  l->order = calloc((size_t)hd_runs_count(l->runs) + 1, sizeof *l->order);
  if (!l->order)
    return HD_E_NOMEM;
  for (int64_t i = 0; i < hd_runs_count(l->runs); i++)
    if (is_wanted(l->runs, i))
      l->order[l->count++] = i;
  if (asked.sort)
    CLI_TRY(sort_runs(l));
  (json ? print_json : asked.csv ? print_csv : print_table)(l);
  for (int64_t i = 0; hd_runs_damage(l->runs, i); i++)
    cli_complain("left out: %s", hd_runs_damage(l->runs, i));
  return CLI_OK;
}

static int run(hd_ctx *ctx, hd_config *config, int count, char **operand) {
  listing l = {0};
  if (count > 1) {
    cli_complain("runs expects one folder, found '%s' too; see heddle runs --help", operand[1]);
    return CLI_USAGE;
  }
  if (count == 0 && access("runs", F_OK) != 0) {
    cli_complain("expected a folder of runs, found no folder runs here; give the folder: heddle runs DIR");
    return CLI_FAILED;
  }
  CLI_TRY(hd_runs_open(&l.runs, ctx, count ? operand[0] : "runs"));
  int code = choose_columns(&l);
  if (code == CLI_OK)
    code = check_keys(&l);
  if (code == CLI_OK)
    code = list_runs(&l, cli_wants_json(config));
  free(l.order);
  hd_runs_close(l.runs);
  return code;
}

static const cli_extra extra[] = {
    {"sort", "KEY", "sort by this value; -KEY: largest first (default: by folder)", cli_take_text, .self = &asked.sort},
    {"where", "KEY=VALUE", "only runs with this value; may be repeated, for runs with all of them", .take = take_term},
    {"columns", "KEYS", "columns to show: run, state, step, time, test_loss, any setting, machine.cpu and so on",
     cli_take_text, .self = &asked.columns},
    {"csv", NULL, "print comma-separated values", cli_take_flag, .self = &asked.csv},
    {0}};

const cli_command cli_runs = {
    .name = "runs",
    .help = "the runs in a folder, as a table",
    .usage = "heddle runs [DIR] [--sort KEY] [--where KEY=VALUE] [--columns KEYS] [--csv] [--json]: the runs in "
             "a folder (default runs)",
    .options = (const char *const[]){"json", NULL},
    .extra = extra,
    .operands = CLI_ANY,
    .run = run};
