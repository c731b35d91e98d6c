/* The steps of a session's set-up, as train/run/session_setup.c lists them: what a step needs is made before it, once
 * in each kind of session, and all that is made is needed. The steps are printed. */
#include <string.h>

#include "tap.h"
#include "train/run/session.h"

enum { MOST_STEPS = 64, WORD_BYTES = 32 };

/* The next word of a list; false: there is none. */
static bool next(char word[WORD_BYTES], const char **list) {
  const size_t length = strcspn(*list, " ");
  snprintf(word, WORD_BYTES, "%.*s", (int)length, *list);
  *list += length + ((*list)[length] == ' ');
  return length > 0;
}

static bool has(const char *list, const char *wanted) {
  char word[WORD_BYTES];
  while (next(word, &list))
    if (!strcmp(word, wanted))
      return true;
  return false;
}

/* Whether one session can take both steps. */
static bool go_together(const hd_setup_step *a, const hd_setup_step *b) {
  const int both = 1 << a->when | 1 << b->when;
  return both != (1 << HD_SETUP_NEW | 1 << HD_SETUP_RESUMED) && both != (1 << HD_SETUP_KEPT | 1 << HD_SETUP_REHEARSED);
}

/* The first need of step `at` that no earlier step makes, or a later one does; "": there is none. */
static const char *missing(const hd_setup_step *steps, int count, int at) {
  static char word[WORD_BYTES];
  const char *needs = steps[at].needs;
  while (next(word, &needs)) {
    bool before = false, later = false;
    for (int i = 0; i < count; i++)
      if (has(steps[i].makes, word))
        *(i < at ? &before : &later) = true;
    if (!before || later)
      return word;
  }
  return "";
}

/* The first word that step `at` makes although another one does in the same session, or that no step needs. */
static const char *useless(const hd_setup_step *steps, int count, int at) {
  static char word[WORD_BYTES];
  const char *makes = steps[at].makes;
  while (next(word, &makes)) {
    bool again = false, needed = false;
    for (int i = 0; i < count; i++) {
      again = again || (i != at && has(steps[i].makes, word) && go_together(&steps[i], &steps[at]));
      needed = needed || has(steps[i].needs, word);
    }
    if (again || !needed)
      return word;
  }
  return "";
}

static int count_wrong(const hd_setup_step *steps, int count) {
  int wrong = 0;
  for (int i = 0; i < count; i++)
    wrong += *missing(steps, count, i) || *useless(steps, count, i);
  return wrong;
}

int main(void) {
  static const char *const when[] = {[HD_SETUP_ALWAYS] = "",
                                     [HD_SETUP_NEW] = " (a new run)",
                                     [HD_SETUP_RESUMED] = " (a resumed run)",
                                     [HD_SETUP_REHEARSED] = " (a rehearsal)",
                                     [HD_SETUP_KEPT] = " (a run with a folder)"};
  int count;
  const hd_setup_step *steps = hd__session_steps(&count);
  for (int i = 0; i < count; i++) {
    is_str(missing(steps, count, i), "", "%s%s: what it needs is made before", steps[i].name, when[steps[i].when]);
    is_str(useless(steps, count, i), "", "%s: what it makes is made once and needed", steps[i].name);
    diag("%2d %s%s: needs %s; makes %s", i + 1, steps[i].name, when[steps[i].when],
         *steps[i].needs ? steps[i].needs : "nothing", *steps[i].makes ? steps[i].makes : "nothing");
  }
  hd_setup_step other[MOST_STEPS];
  ok(count > 1 && count <= MOST_STEPS, "%d steps", count);
  for (int moved = 1; moved < count && count <= MOST_STEPS; moved++) {
    if (!*steps[moved].needs)
      continue;
    other[0] = steps[moved];
    memcpy(other + 1, steps, (size_t)moved * sizeof *steps);
    memcpy(other + moved + 1, steps + moved + 1, (size_t)(count - moved - 1) * sizeof *steps);
    ok(count_wrong(other, count) > 0, "%s: it cannot be the first", steps[moved].name);
  }
  return done_testing();
}
