/* The machine as an SVG: packages hold groups (one L3 cache in one NUMA node), groups hold cores, cores hold CPUs.
 *
 *     package ┌──────────────────────────┐   Sizes come from the inside: a group's cores have one size, given by the
 *             │ group ┌────────────────┐ │   one with most CPUs, a package's groups one, given by the largest. Both
 *             │       │ core ┌──┐┌──┐  │ │   stand in rows as long as keeps the picture no wider than a page.
 *             │       │      └──┘└──┘  │ │
 *             │       └────────────────┘ │   The text uses the system's fonts; a legend explains the colours, which are
 *             └──────────────────────────┘   redundant: threads have numbers, unusable CPUs a dashed line. */
#include <string.h>

#include "cli/cli.h"
#include "cli/svg.h"
#include "cli/topo.h"

enum {
  CPU_WIDTH = 66,
  CPU_HEIGHT = 36,
  GAP = 8,
  HEAD = 20, /* a rectangle's title */
  MARGIN = 20,
  TOP = 84,          /* the picture's title and its two lines */
  BOTTOM = 40,       /* the legend */
  GROUP_TITLE = 280, /* the width of a group's title */
  LEAST_WIDTH = 720
};

/* A grid of equal rectangles inside a rectangle with a title. */
typedef struct grid {
  int columns, width, height; /* of the grid; pixels of the outer rectangle */
} grid;

typedef struct drawing {
  FILE *file;
  const hd_topology *t;
  const hd_placement *p;
  grid core, group, package; /* the largest of each */
} drawing;

static const char style[] =
    ".mid{font-size:11px}.bold{font-weight:bold}.light{fill:#fff}rect{stroke:#9ca3af;fill:#fff}.package{fill:#f3f4f6}"
    ".core{fill:#f9fafb}.kind1{fill:#fef3c7}.kind2{fill:#fde68a}.thread{fill:#1d4ed8;stroke:#1d4ed8}"
    ".free{fill:#dbeafe;stroke:#93c5fd}.off{fill:#fff;stroke-dasharray:3 3}";

static const char *const shade[] = {"core", "core kind1", "core kind2"}; /* of kinds of cores */

static int max(int a, int b) { return a > b ? a : b; }

static grid grid_of(int count, int columns, int width, int height) {
  const int rows = (count + columns - 1) / columns;
  return (grid){columns, columns * (width + GAP) + GAP, HEAD + rows * (height + GAP)};
}

static int count_inside(const hd_topology *t, int from, int end, topo_level level) {
  int count = 0;
  for (int at = from; at < end; at = topo_end(t, at, level))
    count++;
  return count;
}

/* The largest number of `inner` in any `outer`; of CPUs in a core if both are TOPO_CORE. */
static int most_inside(const hd_topology *t, topo_level outer, topo_level inner) {
  int most = 1;
  for (int from = 0, end; from < t->cpus; from = end) {
    end = topo_end(t, from, outer);
    most = max(most, outer == inner ? end - from : count_inside(t, from, end, inner));
  }
  return most;
}

static int columns_for(int count) { return count <= 4 ? count : count <= 8 ? 4 : count <= 64 ? 8 : 16; }

static void measure(drawing *d) {
  const int cpus = most_inside(d->t, TOPO_CORE, TOPO_CORE), cores = most_inside(d->t, TOPO_GROUP, TOPO_CORE);
  const int groups = most_inside(d->t, TOPO_PACKAGE, TOPO_GROUP);
  d->core = grid_of(cpus, cpus <= 2 ? cpus : (cpus + 1) / 2, CPU_WIDTH, CPU_HEIGHT);
  d->group = grid_of(cores, columns_for(cores), d->core.width, d->core.height);
  d->group.width = max(d->group.width, GROUP_TITLE);
  int across = 1200 / (d->group.width + GAP);
  across = across < 1 ? 1 : across > groups ? groups : across;
  d->package = grid_of(groups, across, d->group.width, d->group.height);
}

static void box(drawing *d, int x, int y, int width, int height, const char *class) {
  svg_rect(d->file, (svg_box){x, y, width, height}, 4, class);
}

static void draw_cpu(drawing *d, const hd_cpu *cpu, int x, int y) {
  const int thread = topo_thread(d->p, cpu->cpu, 0);
  const int more = thread >= 0 && topo_thread(d->p, cpu->cpu, thread + 1) >= 0;
  box(d, x, y, CPU_WIDTH, CPU_HEIGHT, !cpu->usable ? "off" : thread >= 0 ? "thread" : "free");
  svg_text(d->file, x + CPU_WIDTH / 2, y + 15, thread >= 0 ? "mid light" : "mid", "CPU %d", cpu->cpu);
  if (thread >= 0)
    svg_text(d->file, x + CPU_WIDTH / 2, y + 29, "mid bold light", more ? "thread %d +" : "thread %d", thread);
}

static void draw_core(drawing *d, int from, int end, int x, int y) {
  const int kind = d->t->kinds > 1 ? d->t->cpu[from].kind : 0;
  box(d, x, y, d->core.width, d->core.height, shade[kind < 2 ? kind : 2]);
  svg_text(d->file, x + GAP, y + 15, "small", d->t->kinds > 1 ? "core %d, %c" : "core %d", d->t->cpu[from].core,
           hd_core_type_name(d->t->kind[kind].type)[0]);
  for (int i = from; i < end; i++)
    draw_cpu(d, &d->t->cpu[i], x + GAP + (i - from) % d->core.columns * (CPU_WIDTH + GAP),
             y + HEAD + (i - from) / d->core.columns * (CPU_HEIGHT + GAP));
}

static void draw_group(drawing *d, int from, int end, int x, int y) {
  char text[160] = "";
  const hd_cpu *cpu = &d->t->cpu[from];
  int n = 0, i = 0;
  box(d, x, y, d->group.width, d->group.height, "group");
  if (cpu->numa >= 0)
    n = snprintf(text, sizeof text, "NUMA node %d, %s", d->t->numa[cpu->numa].node,
                 topo_bytes(d->t->numa[cpu->numa].memory_bytes));
  if (cpu->l3 >= 0)
    snprintf(text + n, sizeof text - (size_t)n, "%sL3 group %d, %s", n ? "; " : "", cpu->l3,
             topo_bytes(topo_l3_bytes(d->t)));
  svg_text(d->file, x + GAP, y + 15, "small", "%s", text);
  for (int at = from; at < end; i++) {
    const int next = topo_end(d->t, at, TOPO_CORE);
    draw_core(d, at, next, x + GAP + i % d->group.columns * (d->core.width + GAP),
              y + HEAD + i / d->group.columns * (d->core.height + GAP));
    at = next;
  }
}

static void draw_package(drawing *d, int from, int end, int x, int y) {
  int i = 0;
  box(d, x, y, d->package.width, d->package.height, "package");
  svg_text(d->file, x + GAP, y + 15, "bold", "package %d", d->t->cpu[from].package);
  for (int at = from; at < end; i++) {
    const int next = topo_end(d->t, at, TOPO_GROUP);
    draw_group(d, at, next, x + GAP + i % d->package.columns * (d->group.width + GAP),
               y + HEAD + i / d->package.columns * (d->group.height + GAP));
    at = next;
  }
}

static void draw_legend(drawing *d, int x, int y) {
  static const struct {
    const char *class, *text;
  } item[] = {{"thread", "a thread runs here"}, {"free", "may be used"}, {"off", "may not be used"}};
  for (int i = 0; i < 3; i++, x += 150) {
    box(d, x, y, 16, 12, item[i].class);
    svg_text(d->file, x + 22, y + 11, "small", "%s", item[i].text);
  }
  for (int k = 0; d->t->kinds > 1 && k < d->t->kinds; k++, x += 110) {
    box(d, x, y, 16, 12, shade[k < 2 ? k : 2]);
    svg_text(d->file, x + 22, y + 11, "small", "%s", hd_core_type_name(d->t->kind[k].type));
  }
}

static void draw_head(drawing *d, int width, int height) {
  const hd_topology *t = d->t;
  svg_open(d->file, width, height, style);
  svg_text(d->file, MARGIN, 30, "title", "%s%s%d cores, %d CPUs, %s of memory", t->model, *t->model ? ": " : "",
           t->cores, t->cpus, topo_bytes(t->memory_bytes));
  svg_text(d->file, MARGIN, 50, "", "budget %d: %s", t->budget.cpus, t->budget.why);
  svg_text(d->file, MARGIN, 68, "", "%s: %s", cli_counted(d->p->threads, "thread"), d->p->why);
}

/* The width of the two lines in the head, at about 7 pixels a letter. */
static int text_width(const hd_topology *t, const hd_placement *p) {
  return 7 * (max((int)strlen(t->budget.why), (int)strlen(p->why)) + 12) + 2 * MARGIN;
}

void topo_draw(FILE *file, const hd_topology *t, const hd_placement *p) {
  drawing d = {.file = file, .t = t, .p = p};
  measure(&d);
  const int packages = count_inside(t, 0, t->cpus, TOPO_PACKAGE);
  const int height = TOP + packages * (d.package.height + GAP) + BOTTOM;
  int y = TOP;
  draw_head(&d, max(max(d.package.width + 2 * MARGIN, LEAST_WIDTH), text_width(t, p)), height);
  for (int from = 0, end; from < t->cpus; from = end, y += d.package.height + GAP) {
    end = topo_end(t, from, TOPO_PACKAGE);
    draw_package(&d, from, end, MARGIN, y);
  }
  draw_legend(&d, MARGIN, y + GAP);
  svg_close(file);
}
