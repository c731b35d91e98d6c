/* Schedules as PyTorch defines them, by step. step is StepLR, whose epochs are counted from the end of the warm-up;
 * cosine is CosineAnnealingLR down to end_factor of the rate, linear a LinearLR down to it. triangular is two
 * of them: from start_factor up to the whole rate at step int(peak * steps), and down to end_factor; its lr at step i
 * is the one of airbench's triangle(steps, start, end, peak)[i]. onecycle, which includes a warm-up, is OneCycleLR with
 * its defaults: cosine from lr/25 up to lr over the first 30 % of the steps, then down to lr/25/1e4; the momentum, or
 * the first of betas, changes inversely, from 0.95 to 0.85 and back; a momentum of 0 stays, as with
 * cycle_momentum=False. */
#include "optimizer/schedule_rules.h"

#include "base/hdmath.h"
#include "base/text_buffer.h"

static const double PI = 3.14159265358979323846;

static double cosine_between(double from, double to, double share) {
  return to + (from - to) / 2 * (1 + hd__cos(PI * share));
}

/* Between two factors, where `left` of `length` steps are left. */
static double line(double from, double to, int64_t left, int64_t length) {
  return to + (from - to) * ((double)left / (double)length);
}

static void constant_at(double *lr, double *cycled, const hd_curve *c, int64_t step) {}

static const hd_curve_rule hd__curve_const = {.name = "const", .at = constant_at};

static void step_at(double *lr, double *cycled, const hd_curve *c, int64_t step) {
  *lr *= hd__pow_int(c->gamma, (uint64_t)(step / c->every));
}

static const hd_curve_rule hd__curve_step = {
    .name = "step", .settings = {HD_SET_step_size, HD_SET_gamma}, .needs = HD_SET_step_size, .at = step_at};

static void cosine_at(double *lr, double *cycled, const hd_curve *c, int64_t step) {
  *lr = cosine_between(c->lr, c->end_factor * c->lr, (double)step / (double)c->length);
}

static const hd_curve_rule hd__curve_cosine = {.name = "cosine", .settings = {HD_SET_end_factor}, .at = cosine_at};

static void linear_at(double *lr, double *cycled, const hd_curve *c, int64_t step) {
  *lr *= line(1, c->end_factor, c->length - step, c->length);
}

static const hd_curve_rule hd__curve_linear = {.name = "linear", .settings = {HD_SET_end_factor}, .at = linear_at};

static void onecycle_at(double *lr, double *cycled, const hd_curve *c, int64_t step) {
  const double low = c->lr / 25, least = low / 1e4, at = (double)step;
  const double top = 0.3 * (double)c->length - 1, end = (double)(c->length - 1);
  if (at <= top) {
    const double share = top > 0 ? at / top : 1;
    *lr = cosine_between(low, c->lr, share);
    *cycled = cosine_between(0.95, 0.85, share);
  } else {
    double share = end > top ? (at - top) / (end - top) : 1;
    share = share > 1 ? 1 : share;
    *lr = cosine_between(c->lr, least, share);
    *cycled = cosine_between(0.85, 0.95, share);
  }
}

static const hd_curve_rule hd__curve_onecycle = {
    .name = "onecycle", .warms_up = true, .cycles = true, .at = onecycle_at};

static void triangular_at(double *lr, double *cycled, const hd_curve *c, int64_t step) {
  *lr *= step < c->top ? line(c->start_factor, 1, c->top - step, c->top)
                       : line(1, c->end_factor, c->length - step, c->length - c->top);
}

static const hd_curve_rule hd__curve_triangular = {
    .name = "triangular", .settings = {HD_SET_start_factor, HD_SET_end_factor, HD_SET_peak}, .at = triangular_at};

/* ---- The table ---- */

static const hd_curve_rule *const table[] = {
#define SCHEDULE(name) &hd__curve_##name,
#include "optimizer/schedules.def"
    NULL};

const hd_curve_rule *hd__curve_at(int choice) { return table[choice]; }

bool hd__curve_takes(const hd_curve_rule *rule, hd_update_value setting) {
  for (const hd_update_value *s = rule->settings; *s; s++)
    if (*s == setting)
      return true;
  return false;
}

const char *hd__curves_list(char *text, size_t bytes, hd_update_value setting, const char *last) {
  hd_line l = {.text = text, .bytes = bytes};
  int left = 0;
  *text = 0;
  for (int i = 0; table[i]; i++)
    left += hd__curve_takes(table[i], setting);
  for (int i = 0; table[i]; i++)
    if (hd__curve_takes(table[i], setting))
      hd__line_add(&l, "%s%s", l.length == 0 ? "" : --left > 1 ? ", " : last, table[i]->name);
  return text;
}
