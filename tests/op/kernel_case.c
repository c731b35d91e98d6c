/* See kernel_case.h. */
#include "op/kernel_case.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "op/op.h"

static uint32_t draw(random_stream *random) {
  if (random->drawn % 4 == 0)
    hd__rng_block(random->block, random->seed, HD_RNG_TEST, 0, 0, 0, random->drawn / 4);
  return random->block[random->drawn++ % 4];
}

uint32_t random_below(random_stream *random, uint32_t bound) { return hd__rng_below(draw(random), bound); }

float random_float(random_stream *random) { return 2 * hd__rng_uniform(draw(random)) - 1; }

static arg floats(int64_t elems) { return (arg){ARG_FLOATS, true, elems, (elems + 15) / 16 * 16}; }
static arg bytes(int64_t elems) { return (arg){ARG_BYTES, true, elems, (elems + 63) / 64 * 64}; }
static arg param(int64_t elems) { return (arg){ARG_FLOATS, false, elems, (elems + 15) / 16 * 16}; }

/* The image or flat value that the operation's rule takes, with the settings that a geometry stands for. */
static bool shapes_of(hd_op_shapes *s, hd_op op, const hd_geom *g, bool bias) {
  static hd_attrs attrs; /* what the shapes point to */
  const hd_op_info *info = hd__op_info(op);
  attrs = (hd_attrs){.out = g->co,
                     .kernel = {g->window.kh, g->window.kw},
                     .stride = {g->window.sh, g->window.sw},
                     .padding = {g->window.ph, g->window.pw},
                     .dilation = {g->window.dilation[0], g->window.dilation[1]},
                     .output_padding = {g->conv_transpose2d.output_padding[0], g->conv_transpose2d.output_padding[1]},
                     .tokens = g->embedding.tokens,
                     .heads = g->attention.heads,
                     .key_heads = g->attention.key_heads,
                     .causal = g->attention.causal,
                     .p = g->attention.dropout,
                     .base = 10000,
                     .groups = g->norm.groups > 1 ? g->norm.groups : g->conv.groups,
                     .num_parameters = g->prelu.num_parameters,
                     .size = {g->sides.out[0], g->sides.out[1]},
                     .over = g->line.channels,
                     .start = g->slice.start,
                     .end = {g->slice.start + g->co},
                     .swap = {g->reshape.swap[0], g->reshape.swap[1]},
                     .inner = g->reshape.inner,
                     .ceil_mode = g->window.ceil_mode,
                     .bias = bias};
  if (op == HD_OP_pad) {
    attrs.mode = g->pad.mode;
    for (int i = 0; i < 2; i++) {
      attrs.padding[i] = g->pad.before[i];
      attrs.end[i] = g->sides.out[i] - (i ? g->wi : g->hi) - g->pad.before[i];
    }
  }
  *s = (hd_op_shapes){.layer = "case", .op = info->name, .attrs = &attrs, .inputs = 1};
  const int least = g->hi * g->wi > 1 ? 3 : 1; /* rank */
  for (int rank = 3; rank >= least && info->rule->shapes; rank -= 2) {
    s->x[0] = (hd_shape){rank, {g->ci, g->hi, g->wi}};
    s->x[1] = s->x[0];
    s->params = 0;
    if (info->rule->shapes(s) == HD_OK)
      return true;
  }
  return false;
}

/* The arguments of a layer: x, further inputs, parameters; y and what is kept for the gradient. */
static void describe_forward(kernel_case *c, hd_op op, const hd_geom *g, bool drop) {
  const hd_op_info *info = hd__op_info(op);
  const hd_op_rule *rule = info->rule;
  const int64_t pixels = (int64_t)g->hi * g->wi;
  hd_op_shapes s;
  shapes_of(&s, op, g, !drop);
  c->in[0] = floats(g->ci * pixels);
  c->out[0] = floats((int64_t)g->hp * g->wp * g->co);
  if (info->class == HD_CLASS_STATS)
    c->out[0] = c->out[1] = param(g->ci);
  for (int i = 0; i < s.params && (info->class != HD_CLASS_SHARD || !s.param[i].running); i++)
    c->in[1 + i] = param(hd__shape_elems(&s.param[i].shape));
  if (info->class == HD_CLASS_SHARD)
    c->out[1] = c->out[2] = param(g->ci);
  if (!drop && (s.argmax || g->conv.pool > 1))
    c->out[1] = bytes(c->out[0].elems);
  if (s.kept.rank > 0)
    c->out[1] = floats(hd__shape_elems(&s.kept));
  if (rule->dx_kind == HD_DX_SAME)
    c->in[1] = c->in[0];
  for (int i = 0; rule->part && i < rule->most; i++) {
    hd_geom part = *g;
    rule->part(&part, g, i);
    c->in[i] = part.ci > 0 ? floats((int64_t)part.ci * part.hi * part.wi) : (arg){0};
  }
  if (op == HD_OP_weigh)
    c->in[1] = floats(g->weigh.at + 1);
  if (!rule->loss)
    return;
  c->in[1] = rule->labels && !g->cross_entropy.soft_labels ? (arg){ARG_LABELS, true, pixels, pixels} : floats(g->ci);
  c->in[2] = hd__op_weights(rule) && !drop ? param(g->ci) : (arg){0};
  c->out[0] = (arg){ARG_FLOATS, true, 1, 1};
}

/* The layer that has `op` as a kernel of its gradient. */
static hd_op layer_of(hd_op op) {
  for (hd_op layer = 0; layer < HD_OP_COUNT; layer++) {
    const hd_op_rule *rule = hd__op_info(layer)->rule;
    if (rule && ((rule->dx.in[0] && rule->dx.op == op) || (rule->dw.in[0] && rule->dw.op == op)))
      return layer;
  }
  return op;
}

const hd_backward *kernel_case_backward(hd_op *layer, hd_op op) {
  *layer = layer_of(op);
  const hd_op_rule *rule = hd__op_info(*layer)->rule;
  return *layer == op ? NULL : rule->dx.op == op ? &rule->dx : &rule->dw;
}

/* ---- Random shapes ---- */

bool kernel_case_uses(hd_op op, size_t field) {
  const hd_op_rule *rule = hd__op_info(layer_of(op))->rule;
  for (int i = 0; i < rule->sample_count; i++)
    if (*(const int32_t *)(const void *)((const char *)&rule->samples[i] + field))
      return true;
  return false;
}

#define USES(field) kernel_case_uses(op, offsetof(hd_geom, field))

hd_geom flat_geom(int32_t in, int32_t out) {
  return (hd_geom){.ci = in,
                   .hi = 1,
                   .wi = 1,
                   .co = out,
                   .ho = 1,
                   .wo = 1,
                   .window = {.kh = 1, .kw = 1, .sh = 1, .sw = 1},
                   .conv = {.pool = 1},
                   .hp = 1,
                   .wp = 1};
}

bool kernel_case_takes(hd_op op, hd_geom *g) {
  const hd_op layer = layer_of(op);
  hd_op_shapes s;
  if (kernel_case_uses(op, offsetof(hd_geom, reshape.inner)) && g->reshape.inner == 0)
    return false; /* of another layer, without its settings */
  if (!hd__geom_finish(g))
    return false;
  if (!hd__op_info(layer)->rule->shapes)
    return true;
  if (!shapes_of(&s, layer, g, true))
    return false;
  g->sides = s.geom.sides;
  g->co = s.geom.co;
  if (layer == HD_OP_instance_norm)
    g->norm.groups = g->ci;
  g->window.kh = s.geom.window.kh; /* where the image decides it */
  g->window.kw = s.geom.window.kw;
  return hd__geom_finish(g);
}

static int32_t between(random_stream *random, int32_t low, int32_t high) {
  return low + (int32_t)random_below(random, (uint32_t)(high - low + 1));
}

#define CHOOSE(random, ...)                                                                                            \
  ((const int32_t[]){__VA_ARGS__}[random_below(random, sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))])

/* Heads, whose scores are all there are. */
static void draw_heads(hd_geom *g, random_stream *random) {
  hd_weighted_sum_geom *sum = &g->weighted_sum;
  *sum = (hd_weighted_sum_geom){.heads = between(random, 2, HD_LOSS_HEADS)};
  g->ci = 0;
  for (int k = 0; k < sum->heads; k++) {
    hd_loss_head *h = &sum->head[k];
    h->loss = between(random, HD_HEAD_CROSS_ENTROPY, HD_HEAD_BCE_WITH_LOGITS);
    h->first = g->ci;
    g->ci += h->count = between(random, 1, 20);
    h->target = k > 0 ? h[-1].target + (h[-1].loss == HD_HEAD_CROSS_ENTROPY ? 1 : h[-1].count) : 0;
    h->share = 0.25f * (float)between(random, 1, 8);
    h->setting = h->loss == HD_HEAD_HUBER ? 0.5f : h->loss == HD_HEAD_CROSS_ENTROPY ? 0.1f * (float)(k % 2) : 0;
  }
}

/* Groups stay groups, one for each channel too; `more`: no fewer channels, so that wide layers stay wide. */
static void draw_channels(hd_geom *g, hd_op op, bool more, random_stream *random) {
  int32_t *const side[] = {&g->ci, &g->co};
  int32_t *const groups = g->norm.groups > 1 ? &g->norm.groups : &g->conv.groups;
  const bool depthwise = *groups > 1 && g->ci == *groups && g->co == *groups && USES(co);
  if (*groups > 1)
    *groups = CHOOSE(random, 2, 3, 5, 16, 17);
  for (int i = 0; i < 2; i++)
    *side[i] = *groups > 1 ? *groups * (depthwise ? 1 : CHOOSE(random, 1, 1, 2, 3, 8, 17))
               : more      ? between(random, *side[i], 3 * *side[i])
               : !USES(hi) ? between(random, 1, random_below(random, 4) ? 70 : 600)
                           : CHOOSE(random, 1, 1, 2, 3, 4, 8, 15, 16, 17, 24, 32, 33, 48, 64, 70);
  if (USES(concat.part)) {
    memset(g->concat.part, 0, sizeof g->concat.part);
    g->ci = 0;
    for (int i = 0, parts = between(random, 2, HD_CONCAT_INPUTS); i < parts; i++)
      g->ci += g->concat.part[i] = between(random, 1, 20);
  }
  if (USES(weighted_sum.heads))
    draw_heads(g, random);
  if (!USES(co))
    g->co = g->ci;
  if (USES(prelu.num_parameters))
    g->prelu.num_parameters = random_below(random, 2) ? g->ci : 1;
}

/* Numbers of rows of a weight, heads of attention, and gates. */
static void draw_places(hd_geom *g, hd_op op, random_stream *random) {
  if (USES(embedding.tokens)) {
    g->ci = 1;
    g->embedding.tokens = between(random, 1, 40);
  }
  if (hd__op_info(op)->rule->gates > 0) {
    g->co = CHOOSE(random, 1, 2, 3, 8, 15, 16, 17, 32, 33);
    g->ci = g->co * hd__op_info(op)->rule->gates;
    g->wi = between(random, 1, 9);
  }
  if (USES(attention.heads)) {
    const int32_t width = CHOOSE(random, 1, 2, 3, 8, 15, 16, 17, 32, 33) * (USES(co) ? 1 : 2); /* rotary: pairs */
    g->attention.key_heads = between(random, 1, 3);
    g->attention.heads = g->attention.key_heads * between(random, 1, 2);
    g->attention.causal = (int32_t)random_below(random, 2);
    g->ci = (g->attention.heads + 2 * g->attention.key_heads) * width;
    g->co = USES(co) ? g->attention.heads * width : g->ci;
  }
}

static void draw_window(hd_geom *g, hd_op op, random_stream *random) {
  g->window.kh = between(random, 1, 5);
  g->window.kw = random_below(random, 3) ? g->window.kh : between(random, 1, 5);
  if (USES(window.sh)) {
    g->window.sh = random_below(random, 3) ? 1 : between(random, 1, 3);
    g->window.sw = random_below(random, 3) ? g->window.sh : between(random, 1, 3);
  }
  for (int axis = 0; axis < 2 && USES(window.dilation); axis++)
    g->window.dilation[axis] = random_below(random, 4) ? 1 : between(random, 2, 4);
  if (USES(conv.pool) && g->conv.groups == 1)
    g->conv.pool = CHOOSE(random, 1, 1, 2, 2, 3);
}

/* Less than the stride or the dilation, where windows end before the image does. */
static void draw_output_padding(hd_geom *g, random_stream *random) {
  const hd_window_geom *w = &g->window;
  for (int axis = 0; axis < 2; axis++) {
    const int32_t stride = axis ? w->sw : w->sh, step = stride > w->dilation[axis] ? stride : w->dilation[axis];
    g->conv_transpose2d.output_padding[axis] = step > 1 ? between(random, 0, step - 1) : 0;
  }
}

/* Numbers and choices are those of any sample. */
static void draw_settings(hd_geom *g, hd_op op, random_stream *random) {
  const hd_op_rule *rule = hd__op_info(op)->rule;
  const hd_geom *const from = rule->samples;
  const uint32_t samples = (uint32_t)rule->sample_count;
  g->relu = USES(relu) && random_below(random, 2);
  for (const hd_op_setting *o = rule->settings; o && o->key; o++)
    if (o->geom && o->type != HD_SETTING_INT)
      memcpy((char *)g + o->geom, (const char *)&from[random_below(random, samples)] + o->geom, sizeof(int32_t));
  g->weigh.at = from[random_below(random, samples)].weigh.at;
  g->shifted_linear.shift = from[random_below(random, samples)].shifted_linear.shift;
  g->cross_entropy.ignore_index = from[random_below(random, samples)].cross_entropy.ignore_index;
}

/* A divisor of `number`, at most `most`. */
static int32_t divisor_of(int32_t number, int32_t most, random_stream *random) {
  int32_t divisor = between(random, 1, most);
  while (number % divisor != 0)
    divisor--;
  return divisor;
}

/* Another shape of as many elements, and parts that divide them; or a shuffle of channels. */
static void draw_reshape(hd_geom *g, random_stream *random) {
  const int32_t elems = g->ci * g->hi * g->wi;
  if (random_below(random, 3) == 0) {
    g->sides.out[0] = g->hi, g->sides.out[1] = g->wi, g->co = g->ci;
    g->reshape.swap[0] = divisor_of(g->ci, 8, random);
    g->reshape.swap[1] = divisor_of(g->ci / g->reshape.swap[0], 20, random);
    g->reshape.inner = g->hi * g->wi;
    return;
  }
  g->sides.out[0] = divisor_of(elems, 12, random);
  g->sides.out[1] = divisor_of(elems / g->sides.out[0], 12, random);
  g->co = elems / g->sides.out[0] / g->sides.out[1];
  g->reshape.swap[0] = divisor_of(elems, 20, random);
  g->reshape.swap[1] = divisor_of(elems / g->reshape.swap[0], 20, random);
  g->reshape.inner = divisor_of(elems / g->reshape.swap[0] / g->reshape.swap[1], 20, random);
}

static bool is_small(const hd_geom *g, hd_op op, int64_t most) {
  return (int64_t)g->ci * g->hi * g->wi <= most && (int64_t)g->co * g->hp * g->wp <= most &&
         hd__op_flops(op, g) <= 40 * most;
}

void random_geom(hd_geom *g, hd_op op, int64_t most, random_stream *random) {
  const hd_op layer = layer_of(op);
  const hd_op_info *info = hd__op_info(layer);
  do {
    const bool near = random_below(random, 2);
    hd__op_sample(g, layer, (int)random_below(random, (uint32_t)info->rule->sample_count));
    draw_channels(g, layer, near, random);
    draw_places(g, layer, random);
    draw_settings(g, layer, random);
    if (kernel_case_uses(layer, offsetof(hd_geom, window.kh)) && !near)
      draw_window(g, layer, random);
    if (kernel_case_uses(layer, offsetof(hd_geom, window.ph))) {
      g->window.ph = between(random, 0, near ? 3 : 2);
      g->window.pw = between(random, 0, near ? 3 : 2);
    }
    if (kernel_case_uses(layer, offsetof(hd_geom, conv_transpose2d.output_padding)))
      draw_output_padding(g, random);
    if (kernel_case_uses(layer, offsetof(hd_geom, hi))) {
      g->hi = between(random, 1, 12);
      g->wi = between(random, 1, 12);
    }
    for (int axis = 0; axis < 2 && kernel_case_uses(layer, offsetof(hd_geom, sides.out)); axis++)
      g->sides.out[axis] = layer == HD_OP_pad ? g->pad.before[axis] + (axis ? g->wi : g->hi) + between(random, 0, 3)
                                              : between(random, 1, 12);
    if (layer == HD_OP_reshape)
      draw_reshape(g, random);
  } while (!kernel_case_takes(layer, g) || !is_small(g, layer, most));
  if (hd__op_info(op)->role == HD_ROLE_DX && info->rule->part)
    info->rule->part(g, g, 1);
}

static arg arg_of(const kernel_case *forward, hd_arg from) {
  if (from == HD_ARG_DY)
    return forward->out[0];
  if (from >= HD_ARG_DX)
    return forward->in[0];
  if (from >= HD_ARG_DW)
    return forward->in[1 + from - HD_ARG_DW];
  return from >= HD_ARG_Y ? forward->out[from - HD_ARG_Y] : from >= HD_ARG_X ? forward->in[from - HD_ARG_X] : (arg){0};
}

/* A kernel of a gradient takes arguments of its layer. `drop`: without the gradient of the bias. */
static void describe(kernel_case *c, const hd_geom *g, bool drop) {
  hd_op layer;
  const hd_backward *backward = kernel_case_backward(&layer, c->op);
  const hd_op_rule *rule = hd__op_info(layer)->rule;
  if (!backward) {
    describe_forward(c, c->op, g, drop);
    return;
  }
  kernel_case forward = {0};
  describe_forward(&forward, layer, g, drop && rule->loss);
  for (int i = 0; i < HD_MAX_IN; i++)
    c->in[i] = arg_of(&forward, backward->in[i]);
  if (backward == &rule->dx) {
    c->out[0] = rule->part ? floats((int64_t)g->ci * g->hi * g->wi) : forward.in[0];
    c->out[1] = rule->dx1 ? forward.in[0] : (arg){0};
    return;
  }
  c->out[0] = forward.in[1];
  c->out[1] = drop ? (arg){0} : forward.in[2];
}

static float fill_value(random_stream *random, fill_kind fill) {
  static const float special[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 0.0f, -0.0f, 1e-30f};
  if (fill == FILL_ZEROS && random_below(random, 3))
    return random_below(random, 4) ? 0.0f : -0.0f;
  if (fill == FILL_SPECIAL && !random_below(random, 24))
    return special[random_below(random, 8)];
  return random_float(random);
}

static int64_t slots(const kernel_case *c, const arg *a) { return a->rows ? c->rows : 1; }

static size_t elem_bytes(const arg *a) { return a->kind == ARG_BYTES ? 1 : 4; }

static size_t arg_bytes(const kernel_case *c, const arg *a) {
  return (size_t)(slots(c, a) * a->stride) * elem_bytes(a);
}

/* What goes through an exponential spreads over its range; other values lie in (-1, 1). */
static float spread(const kernel_case *c, uint32_t seed) {
  hd_op layer;
  const hd_backward *backward = kernel_case_backward(&layer, c->op);
  const hd_op_rule *rule = hd__op_info(layer)->rule;
  if (rule->loss || (rule->in_place && (!backward || backward->in[1] == HD_ARG_X)))
    return (float[]){1, 8, 60}[seed % 3];
  return 1;
}

static void fill_input(kernel_case *c, const arg *a, void *data, fill_kind fill, random_stream *random) {
  float scale = spread(c, random->seed);
  uint32_t positions = (uint32_t)(c->g.conv.pool > 1 ? c->g.conv.pool * c->g.conv.pool : 1);
  for (int64_t s = 0; s < slots(c, a); s++)
    for (int64_t i = 0; i < a->stride; i++) {
      int64_t at = s * a->stride + i;
      if (a->kind == ARG_FLOATS)
        ((float *)data)[at] = i < a->elems ? scale * fill_value(random, fill) : NAN;
      else if (a->kind == ARG_BYTES)
        ((uint8_t *)data)[at] = (uint8_t)(i < a->elems ? random_below(random, positions) : 255);
      else
        ((int32_t *)data)[at] = (int32_t)random_below(random, (uint32_t)c->g.ci);
    }
}

/* Positions that a maximum can have come from: what the reference took from random pixels. */
static void fill_argmax(kernel_case *c, hd_op layer, int input, random_stream *random) {
  kernel_case forward;
  kernel_case_create(&forward, layer, &c->g, c->rows, FILL_PLAIN, false, random->seed + 1);
  kernel_result result;
  if (kernel_case_run(&result, &forward, hd__kernels_reference(), 1))
    abort();
  memcpy(c->input[input].data, result.output[1].data, c->input[input].bytes);
  kernel_result_destroy(&result);
  kernel_case_destroy(&forward);
}

/* A variance. */
static void make_positive(kernel_case *c, int input) {
  float *x = (float *)(void *)c->input[input].data;
  for (int64_t i = 0; i < c->in[input].elems; i++)
    x[i] = x[i] < 0 ? -x[i] : x[i];
}

/* A divisor, where a quotient is to be smooth. */
static void move_from_zero(kernel_case *c, int input) {
  float *x = (float *)(void *)c->input[input].data;
  for (int64_t i = 0; i < slots(c, &c->in[input]) * c->in[input].stride; i++)
    x[i] += x[i] < 0 ? -0.5f : 0.5f;
}

/* Numbers of rows, and with special values one in eight that is none. */
static void make_numbers(kernel_case *c, int input, fill_kind fill, random_stream *random) {
  float *x = (float *)(void *)c->input[input].data;
  for (int64_t i = 0; i < slots(c, &c->in[input]) * c->in[input].stride; i++)
    if (i % c->in[input].stride < c->in[input].elems && (fill != FILL_SPECIAL || random_below(random, 8)))
      x[i] = (float)random_below(random, (uint32_t)c->g.embedding.tokens);
}

/* Inputs that are not any numbers: statistics, positions in windows, divisors, and numbers of rows. */
static void restrict_inputs(kernel_case *c, fill_kind fill, random_stream *random) {
  hd_op layer;
  const hd_backward *backward = kernel_case_backward(&layer, c->op);
  for (int i = 0; i < HD_MAX_IN; i++) {
    const bool variance = backward ? backward->in[i] == HD_ARG_IN4 || backward->in[i] == HD_ARG_OUT2 : i == 4;
    if (i == 0 && c->g.embedding.tokens > 0)
      make_numbers(c, i, fill, random);
    else if (c->in[i].kind == ARG_BYTES && c->g.conv.pool == 1)
      fill_argmax(c, layer, i, random);
    else if (layer == HD_OP_div && fill == FILL_PLAIN && (backward ? backward->in[i] == HD_ARG_W : i == 1))
      move_from_zero(c, i);
    else if (variance && c->in[i].kind == ARG_FLOATS && !c->in[i].rows)
      make_positive(c, i);
  }
}

void kernel_case_create(kernel_case *c, hd_op op, const hd_geom *g, int64_t rows, fill_kind fill, bool drop,
                        uint32_t seed) {
  random_stream random = {.seed = seed};
  *c = (kernel_case){.op = op, .g = *g, .rows = rows, .divisor = (float)(1 + random_below(&random, 300))};
  c->draw = (hd_draw){.seed = seed, .epoch = seed % 3, .position = random_below(&random, 1000), .node = seed % 7};
  describe(c, g, drop);
  for (int i = 0; i < HD_MAX_IN; i++)
    if (c->in[i].kind != ARG_NONE) {
      c->input[i] = guarded_create(arg_bytes(c, &c->in[i]), 0);
      fill_input(c, &c->in[i], c->input[i].data, fill, &random);
    }
  restrict_inputs(c, fill, &random);
}

void kernel_case_destroy(kernel_case *c) {
  for (int i = 0; i < HD_MAX_IN; i++)
    guarded_destroy(&c->input[i]);
}

guarded kernel_case_pack(const kernel_case *c, const hd_kernels *table) {
  int64_t elems = hd_packed_elems(table, c->op, &c->g);
  if (elems <= 0)
    return (guarded){0};
  guarded packed = guarded_create((size_t)elems * sizeof(float), 0);
  memset(packed.data, 0, packed.bytes);
  const bool turned = c->g.window.transposed || hd__op_info(c->op)->rule->gates > 0;
  const int32_t rows = turned ? c->g.ci : c->g.co, middle = rows / 2; /* of the weight */
  table = hd_kernels_for(table, c->op, &c->g);
  const float *w = (const float *)c->input[1].data;
  table->pack[c->op](&c->g, w, (float *)packed.data, middle, rows);
  if (middle > 0)
    table->pack[c->op](&c->g, w, (float *)packed.data, 0, middle);
  return packed;
}

static void *row_of(const arg *a, unsigned char *data, int64_t row) {
  if (a->kind == ARG_NONE)
    return NULL;
  return a->rows ? data + (size_t)(row * a->stride) * elem_bytes(a) : data;
}

static void call_rows(const kernel_case *c, const hd_kernels *table, kernel_result *out, hd_call *call, int64_t row0,
                      int64_t row1) {
  call->rows = row1 - row0;
  call->draw = c->draw;
  call->draw.position += (uint32_t)row0;
  for (int i = 0; i < HD_MAX_IN; i++) {
    call->in[i] = row_of(&c->in[i], c->input[i].data, row0);
    call->in_stride[i] = c->in[i].stride;
  }
  for (int i = 0; i < HD_MAX_OUT; i++) {
    call->out[i] = row_of(&c->out[i], out->output[i].data, row0);
    call->out_stride[i] = c->out[i].stride;
  }
  hd_kernels_for(table, c->op, &c->g)->run[c->op](call);
}

static const char *find_damage(const kernel_case *c, const kernel_result *out, const kernel_case *copy) {
  for (int i = 0; i < HD_MAX_IN; i++) {
    if (!guarded_is_intact(&c->input[i]))
      return "wrote beside an input";
    if (c->input[i].base && memcmp(c->input[i].data, copy->input[i].data, c->input[i].bytes) != 0)
      return "wrote into an input";
  }
  for (int i = 0; i < HD_MAX_OUT; i++)
    if (!guarded_is_intact(&out->output[i]))
      return "wrote beside an output";
  return NULL;
}

static kernel_case copy_inputs(const kernel_case *c) {
  kernel_case copy = {0};
  for (int i = 0; i < HD_MAX_IN; i++)
    if (c->input[i].base) {
      copy.input[i] = guarded_create(c->input[i].bytes, 0);
      memcpy(copy.input[i].data, c->input[i].data, c->input[i].bytes);
    }
  return copy;
}

void kernel_case_text(char *text, size_t size, const kernel_case *c, const hd_kernels *table) {
  const hd_geom *g = &c->g;
  const hd_window_geom *w = &g->window;
  snprintf(text, size,
           "%s %s, %d rows, in %dx%dx%d, out %dx%dx%d, window %dx%d, stride %dx%d, padding %dx%d, dilation %dx%d, "
           "output padding %dx%d, groups %d, pool %d, relu %d",
           table->name, hd__op_info(c->op)->name, (int)c->rows, g->ci, g->hi, g->wi, g->co, g->ho, g->wo, w->kh, w->kw,
           w->sh, w->sw, w->ph, w->pw, w->dilation[0], w->dilation[1], g->conv_transpose2d.output_padding[0],
           g->conv_transpose2d.output_padding[1], g->conv.groups * g->norm.groups, g->conv.pool, g->relu);
}

/* Handler of accesses beyond guarded memory: prints the case, then lets the signal end the process. */
static struct {
  const kernel_case *c;
  const hd_kernels *table;
  struct sigaction before;
} running;

static void name_the_case(int signal) {
  char text[256];
  kernel_case_text(text, sizeof text, running.c, running.table);
  printf("# accesses memory beyond its arguments: %s\n", text);
  fflush(stdout);
  sigaction(signal, &running.before, NULL);
}

static void run_named(const kernel_case *c, const hd_kernels *table, kernel_result *out, hd_call *call, int cuts) {
  const struct sigaction name = {.sa_handler = name_the_case};
  running.c = c, running.table = table;
  sigaction(SIGSEGV, &name, &running.before);
  for (int cut = 0; cut < cuts; cut++)
    call_rows(c, table, out, call, c->rows * cut / cuts, c->rows * (cut + 1) / cuts);
  sigaction(SIGSEGV, &running.before, NULL);
}

/* Into outputs that exist; merges, slot: as of hd_call. */
static const char *run_into(kernel_result *out, const kernel_case *c, const hd_kernels *table, int cuts, int merges,
                            int64_t slot) {
  kernel_case copy = copy_inputs(c);
  int64_t scratch_bytes = hd_scratch_bytes(table, c->op, &c->g);
  guarded packed = kernel_case_pack(c, table), scratch = {0};
  if (scratch_bytes > 0)
    scratch = guarded_create((size_t)scratch_bytes, 0);
  hd_call call = {.g = &c->g, .packed = (const float *)packed.data, .scratch = scratch.data, .divisor = c->divisor};
  call.batch_rows = c->rows;
  call.merges = merges;
  call.slot = slot;
  run_named(c, table, out, &call, cuts);
  const char *wrong = find_damage(c, out, &copy);
  if (!guarded_is_intact(&packed) || !guarded_is_intact(&scratch))
    wrong = "wrote beside its scratch or packed copy";
  kernel_case_destroy(&copy);
  guarded_destroy(&packed);
  guarded_destroy(&scratch);
  return wrong;
}

const char *kernel_case_run(kernel_result *out, const kernel_case *c, const hd_kernels *table, int cuts) {
  *out = (kernel_result){0};
  for (int i = 0; i < HD_MAX_OUT; i++)
    if (c->out[i].kind != ARG_NONE)
      out->output[i] = guarded_create(arg_bytes(c, &c->out[i]), 0);
  return run_into(out, c, table, cuts, 0, 0);
}

/* Adds what lies in slots to an output of one array, and leaves the sums in the first slot. */
static void merge_output(float *slots_of, const float *own, int64_t elems, int merges, int64_t slot) {
  for (int64_t i = 0; i < elems; i++) {
    float sum = own[i];
    for (int m = merges; m-- > 0;)
      sum = slots_of[m * slot + i] + sum;
    slots_of[i] = sum;
  }
}

const char *kernel_case_merge(const kernel_case *c, const hd_kernels *table, const kernel_result *plain, int merges,
                              random_stream *random) {
  const int64_t slot = (c->out[0].elems > c->out[1].elems ? c->out[0].elems : c->out[1].elems) + 5;
  kernel_result got = {0}, want = {0};
  for (int o = 0; o < HD_MAX_OUT; o++)
    if (c->out[o].kind != ARG_NONE) {
      const int64_t count = merges * slot + c->out[o].elems;
      got.output[o] = guarded_create((size_t)count * sizeof(float), 4);
      want.output[o] = guarded_create((size_t)count * sizeof(float), 0);
      float *x = (float *)(void *)got.output[o].data;
      for (int64_t i = 0; i < count; i++)
        x[i] = random_float(random);
      memcpy(want.output[o].data, x, (size_t)count * sizeof(float));
      merge_output((float *)(void *)want.output[o].data, (const float *)(const void *)plain->output[o].data,
                   c->out[o].elems, merges, slot);
    }
  const char *wrong = run_into(&got, c, table, 1, merges, slot);
  if (!wrong && !kernel_results_equal(c, &want, &got))
    wrong = "other bits when it adds the sums of shards before";
  kernel_result_destroy(&got);
  kernel_result_destroy(&want);
  return wrong;
}

void kernel_result_destroy(kernel_result *result) {
  for (int i = 0; i < HD_MAX_OUT; i++)
    guarded_destroy(&result->output[i]);
}

bool floats_equal(const float *a, const float *b, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    if (memcmp(&a[i], &b[i], sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i])))
      return false;
  return true;
}

bool kernel_results_equal(const kernel_case *c, const kernel_result *a, const kernel_result *b) {
  for (int o = 0; o < HD_MAX_OUT; o++) {
    const arg *slot = &c->out[o];
    for (int64_t s = 0; slot->kind != ARG_NONE && s < slots(c, slot); s++) {
      const void *left = row_of(slot, a->output[o].data, s), *right = row_of(slot, b->output[o].data, s);
      if (slot->kind == ARG_FLOATS ? !floats_equal(left, right, slot->elems)
                                   : memcmp(left, right, (size_t)slot->elems) != 0)
        return false;
    }
  }
  return true;
}
