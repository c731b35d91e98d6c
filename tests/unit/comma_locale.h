/* A locale that writes 1,5: one that is installed, or one made in the scratch folder where the sources of locales
 * are. To be included behind scratch.h. */
#ifndef HD_TESTS_COMMA_LOCALE_H
#define HD_TESTS_COMMA_LOCALE_H

#include <locale.h>

#include "scratch.h"

/* Sets it for the whole process; its name, or NULL where none can be had. */
static const char *set_comma_locale(void) {
  static const char *const installed[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "nl_NL.UTF-8"};
  for (size_t i = 0; i < sizeof installed / sizeof *installed; i++)
    if (setlocale(LC_ALL, installed[i]) && *localeconv()->decimal_point == ',')
      return installed[i];
  const char *source = getenv("SRCDIR");
  char command[3 * SCRATCH_PATH_BYTES];
  snprintf(command, sizeof command, "localedef -c -i '%s/tests/comma.locale' -f ANSI_X3.4-1968 '%s' >'%s' 2>&1",
           source ? source : ".", in_scratch("comma"), in_scratch("localedef.out"));
  if (system(command) >= 0 && setenv("LOCPATH", scratch(), 1) == 0 && setlocale(LC_ALL, "comma") &&
      *localeconv()->decimal_point == ',')
    return "comma";
  setlocale(LC_ALL, "C");
  return NULL;
}

#endif
