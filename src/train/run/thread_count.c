/* Storing and searching the best number of threads: see thread_count.h. */
#include "train/run/thread_count.h"

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/digest.h"
#include "base/json_text.h"
#include "op/op.h"
#include "platform/clock.h"
#include "platform/machine.h"
#include "platform/file.h"
#include "train/run/rehearsal.h"

/* The share of the run's time that a search may take, and its limit; a shorter run makes none. */
static const double SHARE = 0.05, MOST_S = 0.3, WORTH_S = 0.02, TURN_S = 0.02;
/* Teams whose speeds differ by less count as equal: then fewer threads are preferred. */
static const double SAME = 0.03;
/* How long to wait for another process that stores a result. */
static const double LOCK_S = 5;
/* FLOPs a second on one core. Unused outputs and zero gradients are left out, so that a rate of dense FLOPs exceeds the
 * peak. */
static const double FAST_FLOPS = 300e9;

/* The days after which a stored result is measured again: kernels, compilers and neighbours change. */
static const double KEPT_DAYS = 30;

enum { KEY_BYTES = 512, MOST_TEAMS = 16, FIRST_ROUNDS = 2, MAX_ROUNDS = 100, WORTH_STEPS = 64, MOST_NAMED = 5 };

static hd_status path_of(char path[HD_PATH_BYTES], char folder[HD_PATH_BYTES]) {
  const char *given = getenv("HEDDLE_CACHE"), *home = getenv("HOME");
  if ((!given || !*given) && (!home || !*home))
    return HD_E_IO;
  snprintf(folder, HD_PATH_BYTES, "%s%s", given && *given ? given : home, given && *given ? "" : "/.cache/heddle");
  return hd__file_in_shared(path, NULL, folder, "threads.json");
}

static const char ANY[] = "any placement";

/* The placement that the configuration asks for: a policy's name, or any. */
static const char *placement_asked(const hd_session *s) {
  return hd__config_given(s->run.config, HD_OPT_PLACEMENT) ? hd__config_shown(s->run.config, HD_OPT_PLACEMENT) : ANY;
}

/* The key of an entry: all that the best number depends on. */
static void key_of(char key[KEY_BYTES], const hd_session *s, const char *asked) {
  char digest[HD_SHA256_HEX_BYTES], cpu[128];
  hd_sha256 *sha = hd__sha256_create();
  snprintf(digest, sizeof digest, "?");
  if (sha) {
    const hd_settings *is = s->run.settings;
    const char *const text[] = {is->transforms, is->freeze, is->unfreeze};
    hd__sha256_update(sha, s->run.network.text, s->run.network.length);
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
      hd__sha256_update(sha, text[i], strlen(text[i]));
    hd__sha256_finish(sha, digest);
  }
  hd__cpu_name(cpu, sizeof cpu);
  snprintf(key, KEY_BYTES,
           "%.64s %.12s, batch %lld in %lld shards and %lld micro-batches, %s %s, %.16s on %d CPUs of %s",
           s->run.network.name, digest, (long long)s->run.batch, (long long)s->report.facts.shards,
           (long long)s->report.facts.accumulate, s->compute.kernels->isa,
           hd_choice_name(HD_OPT_PRECISION, (int)s->report.facts.precision), asked,
           hd__threads_cpus(s->compute.threads), cpu);
}

/* The folder may be shared: what another user may have written counts as absent, and a pipe must not block. */
static json_t *read_all(const char *path) {
  HD_MAPPED file = {0};
  hd_ctx quiet = {0};
  const bool there = hd__file_map_guarded(&file, &quiet, path) == HD_OK;
  json_t *all = there ? json_loadb((const char *)file.bytes, file.length, 0, NULL) : NULL;
  if (json_is_object(all))
    return all;
  json_decref(all);
  return json_object();
}

/* The policy of this name, or the session's. */
static hd_placement_choice policy_of(const hd_session *s, const char *name) {
  for (int p = 0; name && p < HD_PLACEMENT_POLICIES; p++)
    if (!strcmp(name, hd_choice_name(HD_OPT_PLACEMENT, p)))
      return (hd_placement_choice)p;
  return hd__config_placement(s->run.config).policy;
}

/* The date of an entry, and its text; false if it has none, or one that is too old or in the future. */
static bool read_day(const json_t *entry, char day[16]) {
  const char *text = json_string_value(json_object_get(entry, "measured"));
  struct tm at = {0};
  if (!text || sscanf(text, "%4d-%2d-%2d", &at.tm_year, &at.tm_mon, &at.tm_mday) != 3)
    return false;
  snprintf(day, 16, "%04d-%02d-%02d", at.tm_year, at.tm_mon, at.tm_mday);
  at.tm_year -= 1900;
  at.tm_mon -= 1;
  const double days = difftime(time(NULL), timegm(&at)) / 86400;
  return days < KEPT_DAYS && days > -1;
}

hd_best hd__best_threads_recall(const hd_session *s) {
  char path[HD_PATH_BYTES], folder[HD_PATH_BYTES], key[KEY_BYTES];
  hd_best best = {0};
  if (path_of(path, folder) != HD_OK)
    return best;
  key_of(key, s, placement_asked(s));
  json_auto_t *all = read_all(path);
  const json_t *entry = json_object_get(all, key);
  json_int_t threads = json_integer_value(json_object_get(entry, "threads"));
  char day[16];
  if (threads < 1 || threads > hd__threads_cpus(s->compute.threads) || !read_day(entry, day))
    return best;
  best = (hd_best){.threads = (int)threads,
                   .placement = policy_of(s, json_string_value(json_object_get(entry, "placement"))),
                   .samples_per_s = json_number_value(json_object_get(entry, "samples_per_s"))};
  snprintf(best.why, sizeof best.why, "saved by `tune` on %s", day);
  return best;
}

static hd_status write_all(FILE *to, hd_ctx *ctx, void *all) {
  hd__file_guard(to);
  return hd__json_write(to, all, JSON_INDENT(1) | JSON_SORT_KEYS) ? HD_E_IO : HD_OK;
}

void hd__best_threads_remember(const hd_session *s, const char *asked, const hd_best *best) {
  char path[HD_PATH_BYTES], folder[HD_PATH_BYTES], key[KEY_BYTES];
  if (path_of(path, folder) != HD_OK || hd__file_make_folder(NULL, folder) != HD_OK)
    return;
  key_of(key, s, asked ? asked : ANY);
  int lock;
  if (hd__file_lock_folder(&lock, NULL, folder, LOCK_S) != HD_OK)
    return;
  json_auto_t *all = read_all(path); /* no entry that another process adds is lost */
  const time_t now = time(NULL);
  struct tm utc;
  char measured[32];
  gmtime_r(&now, &utc);
  strftime(measured, sizeof measured, "%Y-%m-%dT%H:%M:%SZ", &utc);
  json_t *entry = json_pack("{s:i, s:s, s:f, s:s, s:o}", "threads", best->threads, "placement",
                            hd_choice_name(HD_OPT_PLACEMENT, best->placement), "samples_per_s",
                            round(best->samples_per_s), "measured", measured, "load",
                            isnan(best->load) ? json_null() : json_real(round(best->load * 100) / 100));
  json_object_set_new(all, key, entry);
  (void)hd__file_write(NULL, path, write_all, all);
  hd__file_unlock(&lock);
}

/* ---- The search ----
 *
 * Teams of the session's first threads run in turn: all N threads, one, then the numbers between. If N threads do the
 * work of N - 1 single ones, fewer cannot be faster, and nothing else is tried. The measure is the work that a team did
 * in its total time, without its worst turn: on a busy machine large teams sometimes wait long, as they will in the
 * run. */

typedef struct team {
  int threads, turns;
  hd_rehearsal *rehearsal;
  hd_paced all, worst; /* of the turns */
} team;

typedef struct search {
  hd_session *session;
  team team[MOST_TEAMS];
  int teams;
  double begin_s, budget_s;
} search;

static int fewer(int threads) { return threads > 4 ? threads * 2 / 3 : threads - 1; }

static void choose_teams(search *s, int most) {
  s->team[s->teams++].threads = most;
  s->team[s->teams++].threads = 1;
  for (int n = fewer(most); n > 1 && s->teams < MOST_TEAMS; n = fewer(n))
    s->team[s->teams++].threads = n;
}

/* On the first of the session's threads: a run with fewer threads would place them there. */
static hd_status rehearse(team *t, hd_session *s, hd_ctx *ctx) {
  hd_threads *threads;
  HD_TRY(hd__threads_first(&threads, ctx, s->compute.threads, t->threads));
  return hd__rehearsal_create(&t->rehearsal, ctx, s, threads, (int)s->run.settings->workers);
}

static hd_status take_turn(team *t, hd_session *s, hd_ctx *ctx, double seconds) {
  double speed;
  if (!t->rehearsal)
    HD_TRY(rehearse(t, s, ctx));
  HD_TRY(hd__rehearsal_time(&speed, t->rehearsal, ctx, seconds));
  const hd_paced now = hd__rehearsal_paced(t->rehearsal);
  t->all.samples += now.samples;
  t->all.seconds += now.seconds;
  if (t->turns++ == 0 || now.samples * t->worst.seconds < t->worst.samples * now.seconds)
    t->worst = now;
  return HD_OK;
}

/* Samples a second; 0 before the first turn. */
static double speed_of(const team *t) {
  if (t->turns < 3)
    return t->turns > 0 ? t->all.samples / t->all.seconds : 0;
  return (t->all.samples - t->worst.samples) / (t->all.seconds - t->worst.seconds);
}

/* No fewer threads can be faster than all: each would have to do more work than a single thread does alone. */
static bool needs_all(const search *s) {
  return speed_of(&s->team[0]) >= (s->team[0].threads - 1) * speed_of(&s->team[1]);
}

static hd_status compare_teams(search *s, hd_ctx *ctx) {
  const double turn = fmin(TURN_S, s->budget_s / s->teams / 3);
  for (int round = 0; round < MAX_ROUNDS; round++) {
    const bool first = round < FIRST_ROUNDS;
    for (int i = 0; i < (first ? 2 : s->teams); i++) {
      HD_TRY(take_turn(&s->team[i], s->session, ctx, first ? turn / 4 : turn));
      if (i > 0 && hd__clock_s() - s->begin_s > s->budget_s)
        return HD_OK;
    }
    if (round == FIRST_ROUNDS - 1 && needs_all(s))
      return HD_OK;
  }
  return HD_OK;
}

static double steps_left(const hd_session *s) { return (double)(s->run.steps_in_all - s->run.counters.step); }

/* A lower bound of the time of a step on one thread. */
static double least_step_s(const hd_session *s) {
  double flops = 0;
  for (int i = 0; i < s->compute.plan->graph->node_count; i++) {
    const hd_node *node = &s->compute.plan->graph->nodes[i];
    flops += (double)hd__op_flops(node->op, &node->geom);
  }
  return flops * (double)s->run.batch / FAST_FLOPS;
}

/* A first turn of all threads estimates the run's time, and so the budget. */
static hd_status find_budget(search *s, hd_ctx *ctx) {
  HD_TRY(take_turn(&s->team[0], s->session, ctx, 0));
  const double run_s = steps_left(s->session) * (double)s->session->run.batch / speed_of(&s->team[0]);
  const double spent_s = hd__clock_s() - s->begin_s;
  s->budget_s = run_s < WORTH_S ? 0 : fmin(MOST_S, SHARE * run_s);
  if (spent_s > s->budget_s) /* another team would take as long again */
    s->budget_s = 0;
  return HD_OK;
}

/* "searched just now: 8, 5 and 1 were slower". */
static void explain(char why[HD_BEST_WHY_BYTES], const search *s, const team *best) {
  bool slower = true;
  int others = 0, at = snprintf(why, HD_BEST_WHY_BYTES, "searched just now: ");
  for (int i = 0; i < s->teams; i++)
    if (&s->team[i] != best && s->team[i].turns > 0) {
      slower = slower && speed_of(&s->team[i]) < speed_of(best);
      others++;
    }
  if (others == 0) {
    snprintf(why, HD_BEST_WHY_BYTES, "the search had no time for other numbers");
    return;
  }
  for (int i = 0, named = 0; i < s->teams && others <= MOST_NAMED; i++)
    if (&s->team[i] != best && s->team[i].turns > 0) {
      const char *between = named == 0 ? "" : named == others - 1 ? " and " : ", ";
      at += snprintf(why + at, (size_t)(HD_BEST_WHY_BYTES - at), "%s%d", between, s->team[i].threads);
      named++;
    }
  snprintf(why + at, (size_t)(HD_BEST_WHY_BYTES - at), "%s %s %s", others > MOST_NAMED ? "others" : "",
           others == 1 ? "was" : "were", slower ? "slower" : "no faster");
}

static hd_best best_team(const search *s) {
  const team *best = &s->team[0];
  for (int i = 1; i < s->teams; i++) {
    const team *t = &s->team[i];
    const double least = speed_of(best) * (t->threads < best->threads ? 1 - SAME : 1 / (1 - SAME));
    if (t->turns > 0 && speed_of(t) > least)
      best = t;
  }
  hd_best found = {best->threads, hd__config_placement(s->session->run.config).policy, speed_of(best), NAN, ""};
  explain(found.why, s, best);
  return found;
}

hd_best hd__best_threads_search(hd_session *session, hd_ctx *ctx) {
  search s = {.session = session, .begin_s = hd__clock_s()};
  hd_best best = {0};
  const int most = hd__threads_count(session->compute.threads);
  if (most == 1 || steps_left(session) < WORTH_STEPS || least_step_s(session) > MOST_S / 8)
    return best;
  choose_teams(&s, most);
  hd__feed_shuffle(&session->input.train, (uint64_t)session->report.facts.seed, 0);
  hd_status status = find_budget(&s, ctx);
  if (status == HD_OK && s.budget_s > 0)
    status = compare_teams(&s, ctx);
  if (status == HD_OK && s.budget_s > 0)
    best = best_team(&s);
  for (int i = 0; i < s.teams; i++)
    hd__rehearsal_destroy(s.team[i].rehearsal);
  return best;
}
