/* Picking and drawing the most confident mistakes: see session.h. */
#include "train/session/session.h"

#include <string.h>

#include "data/images/contact_sheet.h"
#include "data/loader/skipped_samples.h"

enum { MISTAKES_SHOWN = 40 };

/* The mistakes with the highest confidence, most confident first; returns the number of all mistakes. */
static int64_t pick_mistakes(const hd_session *s, hd_mistake shown[MISTAKES_SHOWN], int *count) {
  const hd_dataset *test = hd__data_test(s->input.data);
  int64_t wrong = 0;
  *count = 0;
  for (int64_t i = 0; i < test->count; i++) {
    if (s->report.guesses.guess[i] == test->labels[i] || !hd__target_counts(&s->run.network.target, test, i))
      continue;
    wrong++;
    int at = *count;
    while (at > 0 && shown[at - 1].confidence < s->report.guesses.probability[i])
      at--;
    if (at == MISTAKES_SHOWN)
      continue;
    int tail = *count < MISTAKES_SHOWN ? (*count)++ : MISTAKES_SHOWN - 1;
    memmove(&shown[at + 1], &shown[at], (size_t)(tail - at) * sizeof *shown);
    shown[at] = (hd_mistake){.label = test->labels[i],
                             .guess = s->report.guesses.guess[i],
                             .confidence = s->report.guesses.probability[i],
                             .index = i};
  }
  return wrong;
}

hd_status hd__session_draw_wrong(hd_session *s, hd_ctx *ctx) {
  hd_mistake shown[MISTAKES_SHOWN];
  const hd_dataset *test = hd__data_test(s->input.data);
  int count;
  if (!hd__target_judges(&s->run.network.target, test) || test->flat)
    return HD_OK; /* nothing to compare, or to draw */
  int64_t wrong = pick_mistakes(s, shown, &count);
  if (wrong == 0)
    return HD_OK;
  HD_TRY(hd__file_join(s->report.wrong_png, ctx, s->checkpoints.folder, "wrong.png"));
  hd_status status =
      hd__picture_mistakes(ctx, s->report.wrong_png, shown, count, wrong, test->count - hd__skips_count(test), test);
  if (status != HD_OK)
    s->report.wrong_png[0] = 0;
  return status;
}
