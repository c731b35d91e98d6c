/* Repeating a run: see replay.h. */
#include "train/evidence/replay.h"

#include <stdlib.h>
#include <unistd.h>

#include "train/evidence/compare_runs.h"
#include "train/settings/run_record.h"

static hd_status adopt(hd_config *config, hd_ctx *ctx, const json_t *record) {
  HD_TRY(hd__record_adopt(config, ctx, record, "the record"));
  return hd_config_set_text(config, ctx, HD_OPT_MODEL, hd__json_text(record, "model_yaml"));
}

hd_status hd__replay_configure(hd_config **out, hd_ctx *ctx, const hd_config *layout, const json_t *record,
                               const char *resume) {
  HD_TRY(hd__record_check_functions(ctx, record, layout, "the run"));
  HD_TRY(hd__config_copy(out, ctx, layout));
  const hd_status status = *resume ? hd_config_set_text(*out, ctx, HD_OPT_RESUME, resume) : adopt(*out, ctx, record);
  return HD_CREATED(status, out, hd_config_destroy);
}

hd_status hd__scratch_make(char folder[HD_PATH_BYTES], char run[HD_PATH_BYTES], hd_ctx *ctx) {
  const char *where = getenv("TMPDIR");
  HD_TRY(hd__file_join(folder, ctx, where && *where ? where : "/tmp", "heddle-verify-XXXXXX"));
  if (!mkdtemp(folder))
    return hd__fail(ctx, HD_E_IO, "%s: cannot create a folder: %m; choose another in TMPDIR", folder);
  return hd__file_join(run, ctx, folder, "run");
}

void hd__scratch_remove(const char *folder, const char *run) {
  if (!*folder)
    return;
  hd__remove_run(run);
  rmdir(folder);
}

/* ---- Step by step ---- */

static bool next_step(void *self, hd_step *step) {
  hd_replay *r = self;
  if (r->handed)
    return false;
  hd__session_describe(step, r->session, r->step);
  hd__recorder_step(&r->recorder, r->step + 1, step->cursor);
  return r->handed = true;
}

static hd_status fetch(void *self, hd_ctx *ctx, const hd_step *step, int64_t first, int64_t rows, const hd_slots *to) {
  return hd__session_read(((hd_replay *)self)->session, NULL, ctx, step, first, rows, to);
}

static uint32_t report(void *self, const hd_step *step, double loss_sum, bool counts) {
  ((hd_replay *)self)->loss_sum = loss_sum;
  return 0;
}

hd_status hd__replay_open(hd_replay *out, hd_ctx *ctx, const hd_config *config) {
  *out = (hd_replay){0};
  HD_TRY(hd__session_create(&out->session, ctx, config, &(hd_session_use){.rehearses = true, .lock = -1}));
  hd_session *s = out->session;
  out->step = s->run.counters.step;
  return hd__recorder_init(&out->recorder, ctx, s->compute.plan, s->compute.store);
}

/* A step of the other stage has another plan. */
static hd_status enter_stage(hd_replay *r, hd_ctx *ctx) {
  hd_session *s = r->session;
  const hd_plan *before = s->compute.plan;
  HD_TRY(hd__session_stage_for(s, ctx, r->step));
  if (s->compute.plan == before)
    return HD_OK;
  hd__recorder_fini(&r->recorder);
  return hd__recorder_init(&r->recorder, ctx, s->compute.plan, s->compute.store);
}

hd_status hd__replay_step(hd_replay *r, hd_ctx *ctx) {
  const hd_step_source source = {.self = r, .next = next_step, .fetch = fetch};
  const session_run *run = &r->session->run;
  uint32_t flags;
  HD_TRY(enter_stage(r, ctx));
  hd__feed_shuffle(&r->session->input.train, (uint64_t)run->settings->seed,
                   (uint32_t)(run->earlier_epochs + r->step / run->steps_per_epoch));
  r->handed = false;
  hd__recorder_enter(&r->recorder);
  const hd_status status = hd__exec_run(r->session->compute.exec, ctx, &source, report, &flags);
  hd__recorder_leave();
  r->step++;
  return status == HD_OK && r->recorder.out_of_memory
             ? hd__fail(ctx, HD_E_NOMEM, "out of memory for a record of a step")
             : status;
}

void hd__replay_close(hd_replay *r) {
  hd_session_destroy(r->session);
  hd__recorder_fini(&r->recorder);
  *r = (hd_replay){0};
}
