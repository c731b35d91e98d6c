/* Laying out the screen of heddle top.
 *
 * A canvas takes row after row and cuts each at the terminal's edge, so nothing here can wrap or scroll. From top to
 * bottom: the machine in two rows, its cores as bars (as numbers, as digits: what fits), memory, GPUs, the jobs with
 * details of the chosen one, and the keys. Texts of other programs are shown in ASCII, since the width of other
 * characters depends on the terminal. */
#include "cli/top_screen.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/machine_text.h"
#include "cli/topo.h"

enum {
  MOST_COLUMNS = 1000,
  BAR_LEAST = 10,
  NUMBER_WIDTH = 4,
  DETAIL_ROWS = 4,
  WIDE_BAR = 40,
  MOST_ROWS = 64,
  MOST_CURVE_ROWS = 14
};

typedef enum style { PLAIN, BOLD, DIM, LOW, MIDDLE, HIGH, CHOSEN } style;

typedef struct canvas {
  FILE *to;
  int rows, columns, colour;
  int row, used; /* finished rows, columns of the current one */
} canvas;

/* ---- The canvas ---- */

static const char *code_of(const canvas *c, style s) {
  static const char *const code[] = {"", "\033[1m", "\033[2m", "\033[32m", "\033[33m", "\033[31m", "\033[7m"};
  return (s == LOW || s == MIDDLE || s == HIGH) && !c->colour ? "" : code[s];
}

/* Replaces each multi-byte or unprintable character by '?' and cuts the text at `columns`. Returns the new length. */
static int make_ascii(char *text, int columns) {
  int width = 0;
  for (const unsigned char *from = (unsigned char *)text; *from && width < columns; from++)
    if ((*from & 0xc0) != 0x80)
      text[width++] = *from >= 0x20 && *from < 0x7f ? (char)*from : '?';
  text[width] = 0;
  return width;
}

/* The same, but a text that is cut ends with dots, which say so. */
static int shorten(char *text, int columns) {
  const int width = make_ascii(text, MOST_COLUMNS * 8), dots = columns < 6 ? 1 : 2;
  if (width <= columns || columns < 1)
    return make_ascii(text, columns);
  memset(text + columns - dots, '.', (size_t)dots);
  text[columns] = 0;
  return columns;
}

__attribute__((format(printf, 3, 4))) static void put(canvas *c, style s, const char *fmt, ...) {
  char text[MOST_COLUMNS + 1];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  if (c->row >= c->rows)
    return;
  const int width = shorten(text, c->columns - c->used);
  const char *code = code_of(c, s);
  fprintf(c->to, "%s%s%s", code, text, *code ? "\033[0m" : "");
  c->used += width;
}

static void go_to_row(canvas *c, int row) {
  c->row = row;
  c->used = 0;
  if (row < c->rows)
    fprintf(c->to, "\033[%d;1H", row + 1);
}

static void end_row(canvas *c) {
  if (c->row >= c->rows)
    return;
  if (c->used < c->columns)
    fputs("\033[K", c->to);
  go_to_row(c, c->row + 1);
}

/* ---- Bars ---- */

static style heat(double use) { return use < 0.5 ? LOW : use < 0.85 ? MIDDLE : HIGH; }

/* [||||||    text] of a width, with the share filled; an unknown one is empty. */
static void put_bar(canvas *c, double share, int width, const char *text) {
  char inner[MOST_COLUMNS + 1];
  const int room = (width < MOST_COLUMNS ? width : MOST_COLUMNS) - 2;
  const int length = (int)strlen(text);
  if (room < 1)
    return;
  const int full = isfinite(share) ? (int)(fmin(fmax(share, 0), 1) * room + 0.5) : 0;
  memset(inner, '|', (size_t)full);
  memset(inner + full, ' ', (size_t)(room - full));
  inner[room] = 0;
  if (length <= room)
    memcpy(inner + room - length, text, (size_t)length);
  put(c, PLAIN, "[");
  put(c, isfinite(share) ? heat(share) : PLAIN, "%.*s", full, inner);
  put(c, PLAIN, "%s]", inner + full);
}

/* ---- Cores ---- */

/* A core: its number, how busy its CPUs are on average, and whether the chosen job is bound to one. */
typedef struct core_use {
  int core, bound;
  double use;
} core_use;

static int is_bound(const hd_job *job, int cpu) {
  for (int r = 0; job && r < job->ranks; r++)
    for (int i = 0; i < job->rank[r].threads; i++)
      if (job->rank[r].cpu[i] == cpu)
        return 1;
  return 0;
}

static int list_cores(core_use *core, const hd_look *look, const hd_job *job) {
  const hd_topology *t = look->machine;
  int count = 0;
  for (int from = 0, end; from < t->cpus; from = end, count++) {
    double sum = 0;
    int known = 0;
    end = topo_end(t, from, TOPO_CORE);
    core[count] = (core_use){.core = t->cpu[from].core};
    for (int i = from; i < end; i++) {
      core[count].bound |= is_bound(job, t->cpu[i].cpu);
      known += isfinite(look->use[i]) != 0;
      sum += isfinite(look->use[i]) ? look->use[i] : 0;
    }
    core[count].use = known ? sum / known : NAN;
  }
  return count;
}

/* How cores are shown. */
typedef struct core_layout {
  enum { AS_BARS, AS_NUMBERS, AS_DIGITS } as;
  int per_row, rows, label; /* label: columns of the largest number */
} core_layout;

static int clamp(int value, int least, int most) { return value > most ? most : value < least ? least : value; }

static int rows_for(int count, int per_row) { return (count + per_row - 1) / per_row; }

static int round_down(int number, int to) { return number >= to ? number / to * to : number > 0 ? number : 1; }

static core_layout lay_out_cores(int count, int columns, int most_rows) {
  core_layout l = {.as = AS_BARS, .label = snprintf(NULL, 0, "%d", count - 1)};
  const int wide = columns / WIDE_BAR > 1 ? columns / WIDE_BAR : 1;
  l.per_row = rows_for(count, most_rows);
  l.per_row = l.per_row < wide ? wide : l.per_row;
  l.per_row = l.per_row > count ? count : l.per_row;
  if (columns / l.per_row < l.label + 4 + BAR_LEAST) {
    l.as = AS_NUMBERS;
    l.per_row = round_down((columns - l.label - 1) / NUMBER_WIDTH, 8);
  }
  if (rows_for(count, l.per_row) > most_rows) {
    l.as = AS_DIGITS;
    l.per_row = round_down(columns - l.label - 1, 16);
  }
  l.rows = rows_for(count, l.per_row);
  l.rows = l.rows > most_rows ? most_rows : l.rows;
  return l;
}

static void put_core_bar(canvas *c, const core_use *core, const core_layout *l, int width) {
  char percent[16] = "-";
  if (isfinite(core->use))
    snprintf(percent, sizeof percent, "%.0f%%", 100 * core->use);
  put(c, core->bound ? BOLD : PLAIN, "%*d%c", l->label + 1, core->core, core->bound ? '*' : ' ');
  put_bar(c, core->use, width - l->label - 3, percent);
  put(c, PLAIN, " ");
}

static void put_core(canvas *c, const core_use *core, const core_layout *l) {
  if (l->as == AS_BARS)
    put_core_bar(c, core, l, c->columns / l->per_row);
  else if (!isfinite(core->use))
    put(c, PLAIN, l->as == AS_NUMBERS ? "   -" : "-");
  else if (l->as == AS_NUMBERS)
    put(c, heat(core->use), "%4.0f", 100 * core->use);
  else
    put(c, heat(core->use), core->use >= 0.95 ? "#" : "%d", (int)(10 * core->use));
}

static void draw_cores(canvas *c, const core_use *core, int count, const core_layout *l) {
  const int all = rows_for(count, l->per_row);
  for (int row = 0, at = 0; row < l->rows; row++) {
    if (row > 0 && row + 1 == l->rows && all > l->rows) {
      put(c, DIM, "and %d more cores", count - at);
      at = count;
    } else if (l->as != AS_BARS) {
      put(c, DIM, "%*d ", l->label, core[at].core);
    }
    for (int i = 0; i < l->per_row && at < count; i++)
      put_core(c, &core[at++], l);
    end_row(c);
  }
}

/* ---- The machine ---- */

static void draw_title(canvas *c, const hd_look *look) {
  const hd_topology *t = look->machine;
  put(c, BOLD, "heddle top");
  if (isfinite(look->use_all))
    put(c, PLAIN, "   %3.0f %% busy", 100 * look->use_all);
  if (isfinite(look->load[0]))
    put(c, PLAIN, "   load %.2f %.2f %.2f", look->load[0], look->load[1], look->load[2]);
  if (isfinite(look->temperature_c))
    put(c, PLAIN, "   %.0f C", look->temperature_c);
  if (isfinite(look->power_w))
    put(c, PLAIN, "   %.1f W", look->power_w);
  put(c, PLAIN, "   %s", cli_counted(look->jobs, "job"));
  end_row(c);
  put(c, DIM, "%s%s%s, %s, %s", t->model, *t->model ? ", " : "", cli_counted(t->cores, "core"),
      cli_counted(t->cpus, "CPU"), look->isa);
  end_row(c);
}

static void draw_memory(canvas *c, const hd_look *look) {
  char text[LOOK_PART_BYTES];
  const int swaps = look->swap_used_bytes > 0, width = c->columns - 7;
  if (look->memory_used_bytes < 0 || look->memory_bytes <= 0)
    return;
  put(c, PLAIN, "memory ");
  put_bar(c, (double)look->memory_used_bytes / (double)look->memory_bytes, swaps ? width / 2 : width,
          look_part(text, look->memory_used_bytes, look->memory_bytes));
  if (swaps) {
    put(c, PLAIN, " swap ");
    put_bar(c, (double)look->swap_used_bytes / (double)look->swap_bytes, c->columns - c->used,
            look_part(text, look->swap_used_bytes, look->swap_bytes));
  }
  end_row(c);
}

static void draw_gpu(canvas *c, const hd_gpu *gpu) {
  char text[LOOK_PART_BYTES];
  const int name = c->columns * 3 / 10 < 28 ? c->columns * 3 / 10 : 28;
  put(c, PLAIN, "GPU %d %-*.*s ", gpu->index, name, name, gpu->name);
  if (gpu->trouble[0]) {
    put(c, HIGH, "%s", gpu->trouble);
    end_row(c);
    return;
  }
  snprintf(text, sizeof text, isfinite(gpu->use) ? "%.0f%%" : "-", 100 * gpu->use);
  put_bar(c, gpu->use, c->columns / 6, text);
  if (gpu->memory_bytes > 0)
    put(c, PLAIN, " %s", look_part(text, gpu->memory_used_bytes, gpu->memory_bytes));
  if (isfinite(gpu->temperature_c))
    put(c, PLAIN, "  %.0f C", gpu->temperature_c);
  if (isfinite(gpu->power_w))
    put(c, PLAIN, "  %.0f W", gpu->power_w);
  if (gpu->processes > 0 && c->columns - c->used >= 14)
    put(c, PLAIN, "  %d process%s", gpu->processes, gpu->processes == 1 ? "" : "es");
  end_row(c);
}

static void draw_gpus(canvas *c, const hd_look *look, int rows) {
  const int shown = look->gpus > rows ? rows - 1 : look->gpus;
  for (int i = 0; i < shown; i++)
    draw_gpu(c, &look->gpu[i]);
  if (shown < look->gpus)
    put(c, DIM, "and %d more GPUs", look->gpus - shown);
  if (look->gpus == 0)
    put(c, DIM, "%s", look->gpu_note);
  if (shown < look->gpus || look->gpus == 0)
    end_row(c);
}

/* ---- Jobs ---- */

/* A number in at most seven characters. */
static const char *short_number(char text[16], double value) {
  static const char unit[] = " kMGTP";
  int u = 0;
  if (!isfinite(value)) {
    snprintf(text, 16, "-");
    return text;
  }
  double size = value;
  for (; size >= (u ? 999999.5 : 9999999.5) && unit[u + 1]; u++)
    size /= 1000;
  snprintf(text, 16, u ? "%.0f%c" : "%.0f", fmin(size, 9999999), unit[u]);
  return text;
}

/* The columns of the table; as many as fit are shown, so the least important come last. A negative width sets left. */
typedef enum job_column {
  PID,
  MODEL,
  STATE,
  STEP,
  SPEED,
  LOSS,
  REST,
  THREADS,
  RANKS,
  EPOCH,
  TIME,
  DATA,
  FOLDER
} job_column;

static const struct {
  const char *title;
  int width;
} job_columns[] = {
    [PID] = {"PID", 7},         [MODEL] = {"MODEL", -10}, [STATE] = {"STATE", -10}, [STEP] = {"STEP/OF", 15},
    [SPEED] = {"SAMPLES/S", 9}, [LOSS] = {"LOSS", 7},     [REST] = {"LEFT", 7},     [THREADS] = {"THREADS", 7},
    [RANKS] = {"RANKS", 5},     [EPOCH] = {"EPOCH", 9},   [TIME] = {"TIME", 8},     [DATA] = {"DATA", -12},
    [FOLDER] = {"FOLDER", -200}};

enum { JOB_COLUMNS = sizeof job_columns / sizeof *job_columns };

static void format_loss(char *text, size_t bytes, double loss) {
  snprintf(text, bytes, !isfinite(loss) ? "-" : fabs(loss) < 99.99 ? "%.4f" : "%.1e", loss);
}

static void format_column(char *text, size_t bytes, const hd_job *job, job_column column) {
  char a[LOOK_TIME_BYTES], b[16];
  const char *slash = strrchr(job->data, '/');
  switch (column) {
  case PID: snprintf(text, bytes, "%d", job->pid); break;
  case MODEL: snprintf(text, bytes, "%s", job->model); break;
  case STATE: snprintf(text, bytes, "%s", hd_job_state_name(job->state)); break;
  case STEP:
    snprintf(text, bytes, "%s/%s", short_number(a, (double)job->step), short_number(b, (double)job->steps));
    break;
  case SPEED: snprintf(text, bytes, "%s", short_number(a, job->samples_per_s)); break;
  case LOSS: format_loss(text, bytes, job->loss); break;
  case REST: snprintf(text, bytes, "%s", *look_time(a, job->left_s) ? a : "-"); break;
  case THREADS: snprintf(text, bytes, "%d", job->threads); break;
  case RANKS: snprintf(text, bytes, "%d", job->ranks); break;
  case EPOCH: snprintf(text, bytes, "%lld/%lld", (long long)job->epoch + 1, (long long)job->epochs); break;
  case TIME: snprintf(text, bytes, "%s", look_time(a, job->elapsed_s)); break;
  case DATA: snprintf(text, bytes, "%s", slash && slash[1] ? slash + 1 : job->data); break; /* its last component */
  case FOLDER: snprintf(text, bytes, "%s", job->out); break;
  }
}

/* A row of the table, or its head (job NULL). */
static void draw_job(canvas *c, const hd_job *job, style s, const char *mark) {
  char row[MOST_COLUMNS + 256], text[HD_LOOK_PATH_BYTES];
  int at = snprintf(row, sizeof row, "%s", mark);
  for (int i = 0; i < JOB_COLUMNS; i++) {
    const int width = abs(job_columns[i].width), least = i + 1 == JOB_COLUMNS ? 12 : width + (i > 0);
    if (c->columns - at < least)
      break;
    snprintf(text, sizeof text, "%s", job_columns[i].title);
    if (job)
      format_column(text, sizeof text, job, (job_column)i);
    shorten(text, i + 1 == JOB_COLUMNS ? c->columns - at - 1 : width);
    at += snprintf(row + at, sizeof row - (size_t)at, "%s%*s", i ? " " : "", job_columns[i].width, text);
  }
  put(c, s, "%-*s", c->columns, row);
  end_row(c);
}

static void draw_chosen(canvas *c, const hd_job *job) {
  char cpus[TOPO_RANGES_BYTES];
  put(c, PLAIN, "folder  %s", job->out);
  end_row(c);
  put(c, PLAIN, "command %s", job->command);
  end_row(c);
  put(c, PLAIN, "threads");
  for (int i = 0; i < job->ranks; i++) {
    const hd_job_rank *rank = &job->rank[i];
    if (job->ranks > 1)
      put(c, PLAIN, "%s rank %d pid %d:", i ? "," : "", rank->rank, rank->pid);
    put(c, PLAIN, " %d", rank->threads);
    if (*look_cpus(cpus, rank))
      put(c, PLAIN, " on CPU%s %s", strpbrk(cpus, ",-") ? "s" : "", cpus);
    else
      put(c, PLAIN, ", not bound");
  }
  end_row(c);
}

/* ---- Curves ---- */

/* Where a curve is drawn: its range, and columns and rows of characters. */
typedef struct plot {
  double low, high;
  int width, rows;
} plot;

/* The row of dots, from the top, in which a column of a curve is: the mean of the values that fall on it. */
static int dot_of(const top_curve *v, const plot *p, int column) {
  const int columns = 2 * p->width, dots = 4 * p->rows;
  const int64_t from = column * v->count / columns, end = (column + 1) * v->count / columns;
  double sum = v->value[from];
  for (int64_t i = from + 1; i < end; i++)
    sum += v->value[i];
  const double mean = sum / (double)(end > from ? end - from : 1);
  return p->high > p->low ? (int)((p->high - mean) / (p->high - p->low) * (dots - 1) + 0.5) : dots / 2;
}

/* A row of a curve's characters, each of two columns of four dots; a column reaches to the dot of the one before. */
static void put_dots(canvas *c, const top_curve *v, const plot *p, int row) {
  static const unsigned char bit[2][4] = {{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}};
  for (int x = 0, before = -1; x < 2 * p->width; x += 2) {
    unsigned bits = 0;
    for (int side = 0; side < 2; side++) {
      const int y = dot_of(v, p, x + side), last = before < 0 ? y : before;
      for (int dot = 4 * row; dot < 4 * row + 4; dot++)
        if (dot >= (y < last ? y : last + (y > last)) && dot <= (y > last ? y : last - (y < last)))
          bits |= bit[side][dot % 4];
      before = y;
    }
    fprintf(c->to, "\342%c%c", 0xa0 | bits >> 6, 0x80 | (bits & 0x3f)); /* U+2800 and the dots */
  }
  c->used += p->width;
}

static void draw_curves(canvas *c, const top_curve *v, int count, int rows) {
  const int width = (c->columns - 2) / (count > 0 ? count : 1) - 2;
  plot p[TOP_CURVES];
  if (count == 0 || rows < 4 || width < 20)
    return;
  end_row(c);
  for (int i = 0; i < count; i++) {
    p[i] = (plot){v[i].value[0], v[i].value[0], width, rows - 2};
    for (int64_t k = 1; k < v[i].count; k++) {
      p[i].low = fmin(p[i].low, v[i].value[k]);
      p[i].high = fmax(p[i].high, v[i].value[k]);
    }
    put(c, PLAIN, "%*s%s %.4g", i * (width + 2) - c->used, "", v[i].name, v[i].value[v[i].count - 1]);
    put(c, DIM, ", from %.4g to %.4g", p[i].low, p[i].high);
  }
  end_row(c);
  for (int row = 0; row < rows - 2; row++) {
    for (int i = 0; i < count; i++) {
      put_dots(c, &v[i], &p[i], row);
      put(c, PLAIN, "  ");
    }
    end_row(c);
  }
}

static void draw_jobs(canvas *c, const hd_look *look, const top_view *view, int rows) {
  const int chosen = view->chosen;
  const int detail = chosen >= 0 && rows > DETAIL_ROWS + 2 ? DETAIL_ROWS : 0, room = rows - 1 - detail;
  int first = chosen >= room ? chosen - room + 1 : 0;
  draw_job(c, NULL, BOLD, " ");
  for (int i = first; i < look->jobs && i < first + room; i++)
    draw_job(c, &look->job[i], i == chosen ? CHOSEN : PLAIN, i == chosen ? ">" : " ");
  if (look->jobs == 0) {
    put(c, DIM, "  no heddle job is running");
    end_row(c);
  }
  if (!detail)
    return;
  end_row(c);
  draw_chosen(c, &look->job[chosen]);
  top_curve there[TOP_CURVES];
  int count = 0;
  for (int i = 0; i < TOP_CURVES; i++)
    if (view->curve[i].count > 1)
      there[count++] = view->curve[i];
  draw_curves(c, there, count, clamp(c->rows - c->row, 0, MOST_CURVE_ROWS));
}

static void draw_help(canvas *c) {
  static const char *const line[] = {"up, down   choose a job; * marks the cores that its threads are bound to",
                                     "t          tell it to end (SIGTERM): it finishes its step and saves",
                                     "K          kill it at once (SIGKILL), after a question",
                                     "?, h       this text; any key goes back",
                                     "q          quit",
                                     "",
                                     "SAMPLES/S  a job's recent speed; LEFT assumes that it stays the same",
                                     "THREADS    its compute threads over all RANKS, which are its processes"};
  for (size_t i = 0; i < sizeof line / sizeof *line; i++) {
    put(c, PLAIN, "  %s", line[i]);
    end_row(c);
  }
}

/* ---- The whole ---- */

static void draw_foot(canvas *c, const top_view *view) {
  while (c->row < c->rows)
    end_row(c);
  c->rows = view->rows;
  go_to_row(c, view->rows - 1);
  if (view->message)
    put(c, BOLD, "%s", view->message);
  else
    put(c, DIM, "up/down choose   t end   K kill   ? help   q quit");
  end_row(c);
}

void top_draw(FILE *to, const hd_look *look, const top_view *view) {
  canvas c = {.to = to,
              .rows = view->rows - 1, /* the last row is for the keys */
              .columns = clamp(view->columns, 1, MOST_COLUMNS),
              .colour = view->colour};
  const hd_job *job = view->chosen >= 0 ? &look->job[view->chosen] : NULL;
  core_use *core = malloc((size_t)look->machine->cpus * sizeof *core);
  go_to_row(&c, 0);
  draw_title(&c, look);
  if (core) {
    const int count = list_cores(core, look, job);
    const core_layout layout = lay_out_cores(count, c.columns, clamp(view->rows / 3, 1, MOST_ROWS));
    draw_cores(&c, core, count, &layout);
  }
  free(core);
  draw_memory(&c, look);
  draw_gpus(&c, look, clamp(view->rows / 4, 2, MOST_ROWS));
  end_row(&c);
  if (view->help)
    draw_help(&c);
  else
    draw_jobs(&c, look, view, c.rows - c.row);
  draw_foot(&c, view);
}
