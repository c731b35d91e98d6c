/* The screen of heddle top at every size: nothing beyond the edges, what matters in view. A small terminal
 * emulator interprets the output of top_draw and keeps what is not overwritten; of a character in braille it keeps '.'
 * if it is empty, else '#'. */
#include "scratch.h"

#include "cli/machine_text.h"
#include "cli/top_screen.h"

enum { ROWS = 120, COLUMNS = 400 };

/* ---- The terminal ---- */

static char screen[ROWS][COLUMNS + 1];
static int rows, columns, outside, colours;

static void play(const char *text) {
  int row = 0, column = 0;
  for (const char *c = text; *c; c++) {
    if (*c == '\033') {
      int first = 0, second = 0;
      char letter = 0;
      if (sscanf(c, "\033[%d;%d%c", &first, &second, &letter) < 3 && sscanf(c, "\033[%d%c", &first, &letter) < 2)
        letter = c[2];
      if (letter == 'H') {
        row = first - 1;
        column = second - 1;
      } else if (letter == 'K') {
        memset(screen[row] + column, ' ', (size_t)(columns - column));
      } else if (letter == 'm') {
        colours += first >= 30 && first < 40;
      }
      c = strchr(c, letter);
    } else if (row >= 0 && row < rows && column < columns && (unsigned char)c[0] == 0xe2 &&
               ((unsigned char)c[1] & 0xfc) == 0xa0 && ((unsigned char)c[2] & 0xc0) == 0x80) {
      screen[row][column++] = c[1] == '\240' && c[2] == '\200' ? '.' : '#';
      c += 2;
    } else if (row < 0 || row >= rows || column >= columns || (unsigned char)*c < 0x20 || (unsigned char)*c > 0x7e) {
      outside++;
    } else {
      screen[row][column++] = *c;
    }
  }
}

/* Draws on a terminal that is full of rubbish. */
static void draw(const hd_look *look, int r, int c, const top_view *wanted) {
  char *text;
  size_t length;
  top_view view = *wanted;
  rows = view.rows = r;
  columns = view.columns = c;
  outside = colours = 0;
  memset(screen, 0, sizeof screen);
  for (int i = 0; i < rows; i++)
    memset(screen[i], '~', (size_t)columns);
  FILE *to = open_memstream(&text, &length);
  top_draw(to, look, &view);
  fclose(to);
  play(text);
  free(text);
}

/* The row that holds a text, -1: none. */
static int row_of(const char *text) {
  for (int i = 0; i < rows; i++)
    if (strstr(screen[i], text))
      return i;
  return -1;
}

static int rubbish_left(void) {
  int left = 0;
  for (int i = 0; i < rows; i++)
    left += strchr(screen[i], '~') != NULL;
  return left;
}

static void show(void) {
  for (int i = 0; i < rows; i++)
    diag("|%s|", screen[i]);
}

/* ---- What is shown ---- */

static hd_cpu cpu[1024];
static double use[1024];
static hd_topology machine = {.model = "AMD EPYC 9654", .packages = 1, .cpu = cpu};
static hd_gpu gpu[12];
static hd_job job[40];
static hd_job_rank rank[40];
static int bound[2] = {1, 3};

static hd_look look_at(int cores, int pus, int gpus, int jobs) {
  machine.cores = cores;
  machine.cpus = cores * pus;
  for (int i = 0; i < machine.cpus; i++) {
    cpu[i] = (hd_cpu){.cpu = i, .core = i / pus};
    use[i] = i % 7 == 6 ? NAN : (double)(i % 11) / 10;
  }
  for (int i = 0; i < gpus; i++) {
    gpu[i] = (hd_gpu){.index = i, .name = "NVIDIA H100 80GB HBM3", .use = 0.97, .processes = 2};
    gpu[i].memory_bytes = 80LL << 30;
    gpu[i].memory_used_bytes = 41LL << 30;
    gpu[i].temperature_c = 61;
    gpu[i].power_w = 412;
  }
  if (gpus > 1)
    strcpy(gpu[1].trouble, "GPU is lost");
  for (int i = 0; i < jobs; i++) {
    rank[i] = (hd_job_rank){.pid = 1000 + i, .threads = 2, .cpu = bound};
    job[i] = (hd_job){.pid = 1000 + i, .start = 5, .state = HD_JOB_TRAINING, .step = 1234, .steps = 2814, .epoch = 1};
    snprintf(job[i].model, sizeof job[i].model, "model%d", i);
    strcpy(job[i].data, "../shared/mnist");
    snprintf(job[i].out, sizeof job[i].out, "/home/user/runs/run-%d", i);
    strcpy(job[i].command,
           "heddle train --model cnn --data ../shared/mnist --epochs 3 --batch 64 --threads 4 --seed 1");
    job[i].epochs = 3;
    job[i].loss = 0.1234;
    job[i].samples_per_s = 45678;
    job[i].left_s = 95;
    job[i].elapsed_s = 4000;
    job[i].threads = 2;
    job[i].ranks = 1;
    job[i].rank = &rank[i];
  }
  return (hd_look){.machine = &machine,
                   .isa = "avx512",
                   .use = use,
                   .use_all = 0.5,
                   .memory_bytes = 16LL << 30,
                   .memory_used_bytes = 5LL << 30,
                   .swap_bytes = 8LL << 30,
                   .temperature_c = 54,
                   .power_w = 38.5,
                   .load = {1.25, 0.8, 0.5},
                   .gpus = gpus,
                   .gpu = gpu,
                   .gpu_note = gpus ? "" : "no GPU: NVIDIA's library libnvidia-ml.so.1 cannot be loaded",
                   .jobs = jobs,
                   .job = job};
}

/* Any size, any machine: nothing outside, nothing left over, keys in the last row. */
static void test_sizes(void) {
  static const int sizes[][2] = {{24, 80}, {24, 200}, {50, 200}, {100, 400}, {10, 40},
                                 {3, 20},  {1, 1},    {2, 5},    {24, 13}};
  static const int cores[] = {1, 4, 6, 16, 96, 128, 1024};
  static const int counts[][2] = {{0, 0}, {1, 1}, {2, 3}, {12, 40}};
  int wrong = 0;
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (size_t c = 0; c < sizeof cores / sizeof *cores; c++)
      for (size_t n = 0; n < sizeof counts / sizeof *counts; n++)
        for (int chosen = -1; chosen < counts[n][1]; chosen += 13) {
          const hd_look look = look_at(cores[c], cores[c] <= 512 ? 2 : 1, counts[n][0], counts[n][1]);
          const top_view view = {.chosen = chosen, .colour = s % 2 == 0, .help = n == 2 && chosen < 0};
          draw(&look, sizes[s][0], sizes[s][1], &view);
          const int keys = sizes[s][1] < 20 || row_of("up/down choose") == rows - 1;
          if (outside || rubbish_left() || !keys || (!view.colour && colours)) {
            wrong++;
            diag("%d x %d, %d cores, %d GPUs, %d jobs, chosen %d: %d outside, %d rows left over", rows, columns,
                 cores[c], counts[n][0], counts[n][1], chosen, outside, rubbish_left());
            show();
          }
        }
  is_int(wrong, 0, "every size holds every machine");
}

/* A column has seven characters. */
static void test_numbers(void) {
  static const struct {
    double speed;
    const char *shown;
  } of[] = {{9000001, "9000001"}, {9999999, "9999999"}, {9999999.6, "10000k"}, {5e9, "5000M"}, {NAN, "      -"}};
  hd_look look = look_at(4, 1, 0, 1);
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    job[0].samples_per_s = of[i].speed;
    draw(&look, 24, 80, &(top_view){.chosen = -1});
    char row[64];
    snprintf(row, sizeof row, " %s  0.1234 ", of[i].shown);
    ok(row_of(row) > 0, "%.1f samples a second are%s", of[i].speed, row);
  }
}

static void test_small(void) {
  hd_look look = look_at(4, 1, 0, 2);
  draw(&look, 24, 80, &(top_view){.chosen = 1, .colour = 1});
  ok(row_of("heddle top") == 0 && row_of("load 1.25 0.80 0.50") == 0 && row_of("54 C") == 0 && row_of("38.5 W") == 0,
     "80 x 24, 4 cores: the title");
  ok(row_of("AMD EPYC 9654, 4 cores, 4 CPUs, avx512") == 1, "the machine");
  ok(row_of(" 0 [") == 2 && row_of(" 1*[") == 2 && row_of(" 3*[") == 3, "cores, two in a row, the job's marked");
  ok(row_of("5.0 of 16.0 GiB]") == 4, "memory");
  ok(row_of("no GPU: ") == 5, "no GPU");
  const int head = row_of("PID MODEL      STATE");
  ok(head == 7 && row_of("SAMPLES/S    LOSS    LEFT THREADS") == head, "the table of jobs");
  ok(row_of("    1000 model0") == head + 1 && row_of(">   1001 model1") == head + 2, "two jobs, the second one chosen");
  ok(row_of("1234/2814") == head + 1 && row_of("45678  0.1234    1:35       2") == head + 1, "how far, how fast");
  ok(row_of("folder  /home/user/runs/run-1") > 0 && row_of("threads 2 on CPUs 1,3") > 0,
     "the details of the chosen one");
  ok(colours > 0, "with colours");
  draw(&look, 24, 80, &(top_view){.chosen = 1});
  is_int(colours, 0, "and without");
  draw(&look, 24, 80, &(top_view){.chosen = 0, .message = "job 1000 has ended"});
  is_int(row_of("job 1000 has ended"), 23, "a message stands in the last row");
  draw(&look, 24, 80, &(top_view){.chosen = 0, .help = 1});
  ok(row_of("tell it to end (SIGTERM)") > 0 && row_of("PID MODEL") < 0, "help stands in place of the jobs");
  draw(&look, 24, 200, &(top_view){.chosen = 0});
  ok(row_of("RANKS     EPOCH     TIME DATA         FOLDER") > 0 && row_of("2/3  1:06:40 mnist") > 0 &&
         row_of("/home/user/runs/run-0") > 0,
     "200 columns: what else there is");
  ok(row_of(" 3*[") == 2, "all four cores in one row");
  strcpy(job[0].model, "mod\303\250le\033[2J\n");
  draw(&look, 24, 80, &(top_view){.chosen = 0});
  ok(row_of(" mod?le?[.. training") > 0 && !outside, "a model's name cannot write where it likes, and ends with dots");
  snprintf(job[0].command, sizeof job[0].command,
           "heddle train --model resnet --data /home/user/pictures --batch 128 "
           "--epochs 100");
  draw(&look, 24, 80, &(top_view){.chosen = 0});
  ok(row_of("command heddle train --model resnet --data /home/user/pictures --batch 128 --e..") > 0 && !outside,
     "a command that is cut says so");
}

static void test_curves(void) {
  double falling[1000], rising[3] = {0.9, 0.95, 0.99};
  for (int i = 0; i < 1000; i++)
    falling[i] = 1000 - i;
  hd_look look = look_at(4, 1, 0, 1);
  top_view view = {.chosen = 0, .curve = {{"loss", 1000, falling}, {"accuracy", 3, rising}}};
  draw(&look, 24, 80, &view);
  const int head = row_of("loss 1, from 1 to 1000");
  ok(head > row_of("threads 2 on CPUs") && strstr(screen[head], "accuracy 0.99, from 0.9 to 0.99"), "80 x 24: curves");
  ok(screen[head + 1][0] == '#' && screen[head + 1][36] == '.' && screen[22][0] == '.' && screen[22][36] == '#',
     "the one falls");
  ok(screen[head + 1][39] == '.' && screen[head + 1][75] == '#' && screen[22][39] == '#' && screen[22][75] == '.',
     "the other rises");
  ok(!outside && !rubbish_left() && row_of("up/down choose") == 23, "within the edges");
  draw(&look, 16, 80, &view);
  ok(row_of("loss 1,") < 0 && row_of("threads 2 on CPUs") > 0, "without room there are none");
  view.curve[0].count = 1;
  draw(&look, 24, 80, &view);
  ok(row_of("loss 1,") < 0 && row_of("accuracy 0.99") > 0, "a single value is no curve");
  int wrong = 0;
  for (int r = 1; r < 60; r++)
    for (int c = 1; c < 200; c += 7) {
      draw(&look, r, c, &view);
      wrong += outside || rubbish_left();
    }
  is_int(wrong, 0, "at any size");
}

static void test_large(void) {
  hd_look look = look_at(128, 1, 8, 30);
  draw(&look, 24, 80, &(top_view){.chosen = 29});
  ok(row_of("  0    0") == 2 && row_of(" 16 ") == 3 && row_of("112 ") == 9, "80 x 24, 128 cores: numbers, 16 in a row");
  ok(row_of("GPU 0 NVIDIA H100 80GB HBM3") > 0 && row_of("41.0 of 80.0 GiB  61 C  412 W") > 0, "GPUs");
  ok(row_of("GPU is lost") > 0 && row_of("and 3 more GPUs") > 0, "a lost one, and those that have no place");
  ok(row_of(">   1029 model29") > 0 && row_of("1000 model0") < 0, "the chosen job is in view");
  draw(&look, 50, 200, &(top_view){.chosen = 0});
  ok(row_of("  0 [") == 2 && row_of("127 [") == 17, "200 x 50, 128 cores: bars, 8 in a row");
  ok(row_of("GPU 7") > 0 && row_of(">   1000 model0") > 0, "GPUs and jobs");
  look = look_at(1024, 1, 0, 1);
  draw(&look, 24, 80, &(top_view){.chosen = 0});
  ok(row_of("   0 0123456789") < 0 && row_of("   0 012345-789") == 2, "80 x 24, 1024 cores: a digit each");
  ok(row_of("and 576 more cores") == 9, "and those that have no place");
  look = look_at(64, 2, 0, 1);
  draw(&look, 24, 80, &(top_view){.chosen = 0});
  ok(row_of("48 ") == 5 && row_of("memory [") == 6, "64 cores with two CPUs each are 64 cores");
}

static void test_times(void) {
  static const struct {
    double seconds;
    const char *text;
  } list[] = {{0, "0:00"},       {59.9, "0:59"},     {3599, "59:59"},   {3600, "1:00:00"},   {35999, "9:59:59"},
              {36000, "10h00m"}, {359999, "99h59m"}, {360000, "4d04h"}, {86400000, "1000d"}, {999999999, "11574d"},
              {1e9, ""},         {-1, ""},           {NAN, ""},         {INFINITY, ""}};
  char text[LOOK_TIME_BYTES];
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    is_str(look_time(text, list[i].seconds), list[i].text, "%g s", list[i].seconds);
}

int main(void) {
  test_times();
  test_numbers();
  test_small();
  test_curves();
  test_large();
  test_sizes();
  if (getenv("SHOW"))
    show();
  return done_testing();
}
