/* See drawn_network.h. */
#include "plan/drawn_network.h"

#include <stdio.h>
#include <string.h>

#include "heddle.h"
#include "train/run/session.h"

static uint64_t state;
static uint32_t draw(uint32_t below) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return (uint32_t)((state >> 33) % below);
}
static bool chance(uint32_t percent) { return draw(100) < percent; }

enum {
  SETTINGS_TRIES = 8,  /* of a layer: many do not fit, such as a kernel that is larger than its image */
  MOST_MACS = 1 << 20, /* of a sample: transposed convolutions with strides in a row make large images */
  MOST_LARGE_MACS = 1 << 22
};

/* Every fourth network has wide layers, large kernels, strides and paddings. */
static bool is_large;

/* ---- Text ---- */

/* Ends with what makes scores of the last value. */
void drawn_text(char text[DRAWN_TEXT], const drawn_network *s) {
  const size_t room = DRAWN_TEXT;
  int n = snprintf(text, room, "model: drawn\ninput: [%d, %d, %d]\nlayers:\n", s->input[0], s->input[1], s->input[2]);
  for (int i = 0; i < s->layers; i++)
    n += snprintf(text + n, room - (size_t)n, "  - %s}\n", s->line[i]);
  snprintf(text + n, room - (size_t)n, "%s  - scores: {op: linear, out: %d}\n%s%s",
           s->flat ? "" : "  - flat: {op: flatten}\n", s->outputs, s->loss, s->rules);
}

static bool is_small(const hd_graph *graph) {
  int64_t macs = 0;
  for (int i = 0; i < graph->node_count; i++)
    macs += hd__op_macs(graph->nodes[i].op, &graph->nodes[i].geom);
  return macs <= (is_large ? MOST_LARGE_MACS : MOST_MACS);
}

static bool is_valid_text(const char *text) {
  hd_ctx ctx = {0};
  hd_network network;
  hd_graph *graph = NULL;
  if (hd__network_find(&network, &ctx, text) != HD_OK)
    return false;
  const bool read = hd__network_graph(&graph, &ctx, &network) == HD_OK, valid = read && is_small(graph);
  if (read)
    hd__graph_destroy(graph);
  hd__network_fini(&network);
  return valid;
}

bool drawn_is_valid(drawn_network *s) {
  char text[DRAWN_TEXT];
  for (int flat = 0; flat < 2; flat++) {
    s->flat = flat;
    drawn_text(text, s);
    if (is_valid_text(text))
      return true;
  }
  return false;
}

/* ---- Layers ---- */

/* Of each network: a few operations that follow one another often find more than all of them mixed. */
static bool is_chosen[HD_OP_COUNT];

static bool is_layer(hd_op op) {
  const hd_op_info *info = hd__op_info(op);
  return info->rule && info->rule->fewest > 0 && info->role == HD_ROLE_FORWARD && !info->rule->numbers;
}

/* Of each network: layers of equal width fit each other, in an add or with shared weights. */
static int usual_width;

static int draw_width(void) {
  static const int widths[] = {1, 2, 3, 4, 5, 8, 10, 16, 17, 20}, large[] = {16, 33, 64, 128, 200, 512};
  if (is_large && chance(60))
    return large[draw(sizeof large / sizeof *large)];
  return widths[draw(sizeof widths / sizeof *widths)];
}

static void choose_ops(void) {
  const uint32_t percent = chance(50) ? 10 : 15 + draw(70);
  int chosen = 0;
  while (chosen < 2) {
    chosen = 0;
    for (hd_op op = 0; op < HD_OP_COUNT; op++) {
      is_chosen[op] = is_layer(op) && chance(op == HD_OP_batch_norm ? 50 : percent); /* it cuts plans into segments */
      chosen += is_chosen[op];
    }
  }
}

static void draw_weights(char *value, size_t bytes, int count) {
  size_t n = 0;
  for (int i = 0; i < count; i++)
    n += (size_t)snprintf(value + n, bytes - n, "%s%.2f", i ? ", " : "[", 0.25 + draw(8) / 4.0);
  snprintf(value + n, bytes - n, "]");
}

/* Heads must divide the channels, so they are few. */
static int draw_number(const char *key) {
  if (!strcmp(key, "num_layers"))
    return 1 + (int)draw(2);
  return strstr(key, "heads") ? 1 << draw(3) : chance(65) ? usual_width : draw_width();
}

static void draw_setting(char *line, size_t room, const drawn_network *s, hd_op op, const hd_op_setting *o) {
  char value[128] = "";
  const double high = o->high < 6 ? o->high : 6, low = o->low > -6 ? o->low : -6;
  switch (o->type) {
  case HD_SETTING_INT: snprintf(value, sizeof value, "%d", draw_number(o->key)); break;
  case HD_SETTING_FLAG: snprintf(value, sizeof value, "%s", draw(2) ? "true" : "false"); break;
  case HD_SETTING_REAL: snprintf(value, sizeof value, "%.3f", low + (high - low) * draw(1000) / 1000.0); break;
  case HD_SETTING_SIDES:
    snprintf(value, sizeof value, "%d", (int)low + (int)draw(is_large && chance(40) ? 40 : 4));
    break;
  case HD_SETTING_CHOICE: snprintf(value, sizeof value, "%s", o->choices[draw(o->choices[2] ? 3 : 2)]); break;
  case HD_SETTING_WEIGHTS: draw_weights(value, sizeof value, s->outputs); break;
  case HD_SETTING_LAYER:
    for (int i = s->layers - 1; i >= 0 && !*value; i--)
      if (s->op[i] == op)
        snprintf(value, sizeof value, "n%d", i);
    break;
  }
  if (*value)
    snprintf(line + strlen(line), room - strlen(line), ", %s: %s", o->key, value);
}

static bool has_shared_weights(const hd_op_setting *settings) {
  while (settings && settings->key && settings->type != HD_SETTING_LAYER)
    settings++;
  return settings && settings->key;
}

/* The settings of the last layer of the kind, and its weights; false if there is none. */
static bool share(char *line, size_t room, const drawn_network *s, hd_op op) {
  int i = s->layers - 1;
  while (i >= 0 && s->op[i] != op)
    i--;
  if (i < 0)
    return false;
  const char *settings = strchr(s->line[i], ',');
  if (settings && !strncmp(settings, ", from:", 7))
    settings = strchr(settings + 1, ',');
  const char *shared = settings ? strstr(settings, ", share:") : NULL;
  const int length = settings ? (int)(shared ? shared - settings : (int)strlen(settings)) : 0;
  snprintf(line + strlen(line), room - strlen(line), "%.*s, share: n%d", length, settings ? settings : "", i);
  return true;
}

static void draw_settings(char *line, size_t room, const drawn_network *s, hd_op op) {
  if (has_shared_weights(hd__op_info(op)->rule->settings) && chance(60) && share(line, room, s, op))
    return;
  for (const hd_op_setting *o = hd__op_info(op)->rule->settings; o && o->key; o++)
    if (o->required || chance(30))
      draw_setting(line, room, s, op, o);
}

/* A layer with drawn settings that reads `from`, "" for the one above; whether the network is valid with it. */
static bool add(drawn_network *s, hd_op op, const char *from) {
  char *line = s->line[s->layers];
  if (s->layers == DRAWN_MOST_LAYERS)
    return false;
  snprintf(line, DRAWN_LINE, "n%d: {op: %s", s->layers, hd__op_info(op)->name);
  if (*from)
    snprintf(line + strlen(line), DRAWN_LINE - strlen(line), ", from: %s", from);
  draw_settings(line, DRAWN_LINE, s, op);
  s->op[s->layers++] = op;
  if (drawn_is_valid(s))
    return true;
  s->layers--;
  return false;
}

static hd_op draw_op(const drawn_network *s) {
  if (s->layers > 0 && chance(10))
    return chance(70) ? HD_OP_add : HD_OP_concat;
  if (s->layers > 0 && chance(8))
    return HD_OP_relu;
  if (s->layers > 0 && chance(15))
    return s->op[s->layers - 1];
  if (!s->flat && chance(5))
    return HD_OP_flatten;
  const bool with_weights = chance(20);
  for (;;) {
    const hd_op op = (hd_op)draw(HD_OP_COUNT);
    if (with_weights ? is_layer(op) && hd__op_info(op)->rule->macs : is_chosen[op])
      return op;
  }
}

/* A number below `count`, most often a small one. */
static int steps_back(int count) {
  const int step = (int)draw(4);
  return step < 3 && step < count ? step : (int)draw((uint32_t)count);
}

/* "[n3, n1]": the layer above and others, the same one perhaps several times. */
static void draw_joined(char *from, size_t bytes, const drawn_network *s, int most) {
  int n = snprintf(from, bytes, "[n%d", s->layers - 1);
  const int more = chance(75) ? 1 : 1 + (int)draw((uint32_t)most - 1);
  int other = s->layers - 1 - steps_back(s->layers);
  for (int i = 0; i < more; i++) {
    n += snprintf(from + n, bytes - (size_t)n, ", n%d", other);
    other = chance(50) ? other : s->layers - 1 - steps_back(s->layers);
  }
  snprintf(from + n, bytes - (size_t)n, "]");
}

/* A layer that reads an earlier one, and an add or concat of both ends: only together are they valid, since the layer
 * above has no other reader. */
static void add_branch(drawn_network *s, hd_op op) {
  const drawn_network before = *s;
  char from[64], line[64];
  snprintf(from, sizeof from, "n%d", s->layers - 2 - steps_back(s->layers - 1));
  static const hd_op join[] = {HD_OP_add, HD_OP_concat, HD_OP_mul, HD_OP_sub, HD_OP_div};
  const hd_op joins = join[chance(45) ? 0 : chance(50) ? 1 : 2 + (int)draw(3)];
  snprintf(line, sizeof line, "[n%d, n%d]", s->layers, s->layers - 1);
  snprintf(s->line[s->layers], DRAWN_LINE, "n%d: {op: %s, from: %s", s->layers, hd__op_info(op)->name, from);
  draw_settings(s->line[s->layers], DRAWN_LINE, s, op);
  s->op[s->layers++] = op;
  if (s->layers == DRAWN_MOST_LAYERS || !add(s, joins, line))
    *s = before;
}

/* Channels for queries, keys and values, which others do not happen to have, and rotary positions or attention. */
static void add_heads(drawn_network *s, hd_op op) {
  const drawn_network before = *s;
  const int heads = 1 << draw(3), key_heads = chance(50) ? heads : 1, width = 2 * (1 + (int)draw(3));
  if (s->layers + 2 > DRAWN_MOST_LAYERS)
    return;
  snprintf(s->line[s->layers], DRAWN_LINE, "n%d: {op: conv2d, out: %d, kernel: 1", s->layers,
           (heads + 2 * key_heads) * width);
  s->op[s->layers++] = HD_OP_conv2d;
  snprintf(s->line[s->layers], DRAWN_LINE, "n%d: {op: %s, heads: %d, key_heads: %d%s", s->layers, hd__op_info(op)->name,
           heads, key_heads,
           chance(50)           ? ""
           : op == HD_OP_rotary ? ", base: 2.5"
                                : ", dropout: 0.3, causal: false");
  s->op[s->layers++] = op;
  if (!drawn_is_valid(s))
    *s = before;
}

/* An image whose elements are known, in another shape. */
static void add_reshape(drawn_network *s) {
  const drawn_network before = *s;
  const int a = 1 + (int)draw(4), b = 1 + (int)draw(3), height = 1 + (int)draw(3), width = 1 + (int)draw(3);
  const int channels = a * b * (1 + (int)draw(4));
  if (s->layers + 3 > DRAWN_MOST_LAYERS)
    return;
  snprintf(s->line[s->layers], DRAWN_LINE, "n%d: {op: adaptive_avg_pool2d, size: [%d, %d]", s->layers, height, width);
  s->op[s->layers++] = HD_OP_adaptive_avg_pool2d;
  snprintf(s->line[s->layers], DRAWN_LINE, "n%d: {op: conv2d, out: %d, kernel: 1", s->layers, channels);
  s->op[s->layers++] = HD_OP_conv2d;
  snprintf(s->line[s->layers], DRAWN_LINE, "n%d: {op: reshape, out: %d, size: [%d, %d], swap: [%d, %d], inner: %d",
           s->layers, draw(2) ? channels : channels * width, height, 1, a, b, draw(2) ? 1 : width);
  if (draw(2))
    snprintf(s->line[s->layers], DRAWN_LINE, "n%d: {op: reshape, out: %d, size: [%d, %d], swap: [%d, %d]", s->layers,
             channels, width, height, a, b);
  s->op[s->layers++] = HD_OP_reshape;
  if (!drawn_is_valid(s))
    *s = before;
}

/* A kernel that may be larger than its image, with the padding that leaves some windows, over many channels. */
static void add_large_kernel(drawn_network *s) {
  static const int channels[] = {16, 33, 64, 130, 200};
  const drawn_network before = *s;
  int side[2], kernel[2], padding[2];
  if (s->layers + 3 > DRAWN_MOST_LAYERS)
    return;
  for (int i = 0; i < 2; i++) {
    side[i] = 1 + (int)draw(4);
    kernel[i] = chance(30) ? 1 + (int)draw(3) : 1 + (int)draw(40);
    padding[i] = kernel[i] > side[i] ? (kernel[i] - side[i] + 1 + (int)draw(3)) / 2 : (int)draw(2);
  }
  snprintf(s->line[s->layers], DRAWN_LINE, "n%d: {op: adaptive_avg_pool2d, size: [%d, %d]", s->layers, side[0],
           side[1]);
  s->op[s->layers++] = HD_OP_adaptive_avg_pool2d;
  snprintf(s->line[s->layers], DRAWN_LINE, "n%d: {op: conv2d, out: %d, kernel: 1", s->layers, channels[draw(5)]);
  s->op[s->layers++] = HD_OP_conv2d;
  snprintf(s->line[s->layers], DRAWN_LINE, "n%d: {op: conv2d, out: %d, kernel: [%d, %d], padding: [%d, %d], stride: %d",
           s->layers, 1 + (int)draw(8), kernel[0], kernel[1], padding[0], padding[1],
           chance(70) ? 1 : 1 + (int)draw(9));
  s->op[s->layers++] = HD_OP_conv2d;
  if (!drawn_is_valid(s))
    *s = before;
}

/* A recurrent layer along a line of places. */
static void add_states(drawn_network *s, hd_op op) {
  const drawn_network before = *s;
  if (s->layers + 2 > DRAWN_MOST_LAYERS)
    return;
  snprintf(s->line[s->layers], DRAWN_LINE, "n%d: {op: adaptive_avg_pool2d, size: [1, %d]", s->layers, 1 + (int)draw(6));
  s->op[s->layers++] = HD_OP_adaptive_avg_pool2d;
  if (!add(s, op, ""))
    *s = before;
}

static void add_some(drawn_network *s) {
  char from[96] = "";
  const hd_op op = s->layers > 1 && chance(8) ? HD_OP_relu : draw_op(s); /* what is fused may be read elsewhere */
  const hd_op_rule *rule = hd__op_info(op)->rule;
  if ((op == HD_OP_rotary || op == HD_OP_attention) && chance(60)) {
    add_heads(s, op);
    return;
  }
  if (rule->gates > 0 && chance(70)) {
    add_states(s, op);
    return;
  }
  if (is_large && chance(20)) {
    add_large_kernel(s);
    return;
  }
  if (op == HD_OP_reshape) {
    add_reshape(s);
    return;
  }
  if (rule->fewest == 1 && s->layers > 1 && chance(25)) {
    add_branch(s, op);
    return;
  }
  if (rule->fewest > 1 && s->layers > 0)
    draw_joined(from, sizeof from, s, rule->most < 5 ? rule->most : 5);
  for (int tries = 0; tries < SETTINGS_TRIES && !add(s, op, from); tries++) {
  }
}

/* ---- The loss, rules, stages ---- */

static void draw_loss(drawn_network *s) {
  const drawn_network before = *s;
  if (chance(60))
    return;
  do
    s->loss_op = (hd_op)draw(HD_OP_COUNT);
  while (!hd__op_info(s->loss_op)->rule || !hd__op_info(s->loss_op)->rule->loss ||
         hd__op_info(s->loss_op)->rule->several || hd__op_info(s->loss_op)->role != HD_ROLE_FORWARD);
  s->outputs = hd__op_info(s->loss_op)->rule->labels ? 10 : 1 + (int)draw(5);
  snprintf(s->loss, sizeof s->loss, "loss: {op: %s", hd__op_info(s->loss_op)->name);
  draw_settings(s->loss, sizeof s->loss - 4, s, s->loss_op);
  strcat(s->loss, "}\n");
  if (!drawn_is_valid(s))
    *s = before;
}

void draw_network(drawn_network *s, uint64_t seed) {
  static const int channels[] = {1, 1, 2, 3, 3, 4};
  state = seed * 0x9e3779b97f4a7c15ull + 1;
  for (int i = 0; i < 8; i++)
    draw(2);
  *s = (drawn_network){
      .input = {channels[draw(6)], 1 + (int)draw(9), 1 + (int)draw(9)}, .outputs = 10, .loss_op = HD_OP_cross_entropy};
  const int wanted = 2 + (int)draw(9);
  is_large = seed % 4 == 3;
  choose_ops();
  usual_width = draw_width();
  if (chance(25))
    add(s, HD_OP_flatten, "");
  for (int tries = 0; s->layers < wanted && tries < 60 && s->layers < DRAWN_MOST_LAYERS - 4; tries++)
    add_some(s);
  drawn_is_valid(s);
  draw_loss(s);
}

/* "stage: 1" begins at some layer. */
static void draw_stage(drawn_network *s) {
  const drawn_network before = *s;
  if (s->layers < 2 || !chance(15))
    return;
  char *line = s->line[1 + draw((uint32_t)s->layers - 1)];
  snprintf(line + strlen(line), DRAWN_LINE - strlen(line), ", stage: 1");
  if (!drawn_is_valid(s))
    *s = before;
}

void draw_rules(drawn_network *s) {
  static const char *const rules[] = {"requires_grad: false", "lr: 0.003", "weight_decay: 0.1", "epochs: 0.4"};
  draw_stage(s);
  const drawn_network before = *s;
  char *end = s->rules;
  if (chance(45))
    end += snprintf(end, DRAWN_LINE, "parameters:\n");
  if (*s->rules && chance(30))
    end += snprintf(end, DRAWN_LINE, "  - {match: '*.weight', op: linear, optimizer: muon}\n");
  if (*s->rules)
    snprintf(end, DRAWN_LINE, "  - {match: '%s.*', %s}\n", s->layers && chance(80) ? "n?" : "scores", rules[draw(4)]);
  if (!drawn_is_valid(s))
    *s = before;
}

/* ---- The experiment ---- */

static void set(drawn_experiment *e, const char *key, const char *value) {
  snprintf(e->key[e->options], sizeof *e->key, "%s", key);
  snprintf(e->value[e->options++], sizeof *e->value, "%s", value);
}

static void set_number(drawn_experiment *e, const char *key, int value, const char *format) {
  char text[32];
  snprintf(text, sizeof text, format, value);
  set(e, key, text);
}

/* By the name of its row. */
static void set_flag(drawn_experiment *e, const char *name) {
  set(e, name, "true");
  for (char *at = e->key[e->options - 1]; *at; at++)
    *at = *at == '_' ? '-' : *at;
}

/* One for parameters of any shape. */
static const hd_optimizer_rule *draw_optimizer(void) {
  uint32_t count = 0;
  while (hd__optimizer_at((int)count))
    count++;
  const hd_optimizer_rule *rule = hd__optimizer_at((int)draw(count));
  return rule->matrices ? draw_optimizer() : rule;
}

/* What decides which states it keeps, and other flags. */
static void draw_settings_of(drawn_experiment *e, const hd_optimizer_rule *rule) {
  const bool momentum = hd__optimizer_takes(rule, HD_SET_momentum) && chance(60);
  if (momentum)
    set(e, "momentum", "0.9");
  for (const hd_update_setting *s = hd__update_settings; s->name; s++)
    if (s->kind == HD_UPDATE_FLAG && hd__optimizer_takes(rule, s->value) && (momentum || s->value != HD_SET_nesterov) &&
        chance(50))
      set_flag(e, s->name);
}

/* Three steps are an epoch: the last batch is whole, a part, or one sample. */
void draw_experiment(drawn_experiment *e) {
  const int batch = 1 + (int)draw(20);
  const hd_optimizer_rule *optimizer = draw_optimizer();
  *e = (drawn_experiment){.samples = 2 * batch + (chance(40) ? 1 : 1 + (int)draw((uint32_t)batch))};
  set_number(e, "batch", batch, "%d");
  set_number(e, "lr", 1 + (int)draw(5), "0.0%d");
  set(e, "optimizer", optimizer->name);
  set(e, "precision", chance(25) ? "bf16" : "f32");
  draw_settings_of(e, optimizer);
  if (chance(30))
    set(e, "weight-decay", "0.01");
  if (chance(30))
    set(e, "clip-grad-norm", "0.5");
  if (chance(20))
    set(e, "ema", "0.9");
  else if (chance(10))
    set(e, "lookahead", "2");
  if (chance(25))
    set(e, "schedule", "cosine");
  if (chance(25))
    set_number(e, "shards", 1 + (int)draw((uint32_t)batch), "%d");
}

/* ---- Shrinking ---- */

static bool still_fails(drawn_network *smaller, bool (*fails)(void *arg, const drawn_network *network), void *arg) {
  return drawn_is_valid(smaller) && fails(arg, smaller);
}

void drawn_shrink(drawn_network *s, bool (*fails)(void *arg, const drawn_network *network), void *arg) {
  drawn_network smaller = *s;
  *smaller.rules = 0;
  if (*s->rules && still_fails(&smaller, fails, arg))
    *s = smaller;
  smaller = *s;
  *smaller.loss = 0;
  smaller.outputs = 10;
  smaller.loss_op = HD_OP_cross_entropy;
  if (*s->loss && still_fails(&smaller, fails, arg))
    *s = smaller;
  for (int i = s->layers - 1; i >= 0; i--) {
    smaller = *s;
    memmove(smaller.line[i], smaller.line[i + 1], (size_t)(s->layers - 1 - i) * sizeof *s->line);
    memmove(&smaller.op[i], &smaller.op[i + 1], (size_t)(s->layers - 1 - i) * sizeof *s->op);
    smaller.layers--;
    if (still_fails(&smaller, fails, arg))
      *s = smaller;
  }
}
