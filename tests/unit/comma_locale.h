/* A locale that writes 1,5: one that is installed, or one made in the scratch folder where the sources of locales
 * are. To be included behind scratch.h. */
#ifndef HD_TESTS_COMMA_LOCALE_H
#define HD_TESTS_COMMA_LOCALE_H

#include <locale.h>

#include "scratch.h"

/* Sets it for the whole process; its name, or NULL where none can be had. */
static const char *set_comma_locale(void) {
  static const char *const name[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "nl_NL.UTF-8", "de_DE.UTF-8"};
  enum { NAMES = sizeof name / sizeof *name };
  for (int i = 0; i < NAMES; i++) {
    char command[2 * SCRATCH_PATH_BYTES];
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 '%s' >'%s' 2>&1", in_scratch("de_DE.UTF-8"),
             in_scratch("localedef.out"));
    if (i == NAMES - 1 && (system(command) < 0 || setenv("LOCPATH", scratch(), 1) != 0))
      return NULL;
    if (setlocale(LC_ALL, name[i]) && *localeconv()->decimal_point == ',')
      return name[i];
  }
  setlocale(LC_ALL, "C");
  return NULL;
}

#endif
