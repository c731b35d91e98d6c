/* Nearest names by edit distance: see nearest.h. */
#include "base/nearest.h"

#include <ctype.h>
#include <string.h>

enum { MOST_LETTERS = 63, LETTERS_A_MISTAKE = 3 };

static int letter(char c) { return c == '_' ? '-' : tolower((unsigned char)c); }

static int least(int a, int b) { return a < b ? a : b; }

/* Levenshtein distance in which swapping two neighbours is one edit; computed row by row of its table, with three rows
 * kept. */
static int distance(const char *a, int rows, const char *b, int columns) {
  int table[3][MOST_LETTERS + 1];
  for (int j = 0; j <= columns; j++)
    table[0][j] = j;
  for (int i = 1; i <= rows; i++) {
    int *row = table[i % 3], *above = table[(i + 2) % 3], *second = table[(i + 1) % 3];
    row[0] = i;
    for (int j = 1; j <= columns; j++) {
      const int x = letter(a[i - 1]), y = letter(b[j - 1]);
      row[j] = least(above[j - 1] + (x != y), least(above[j], row[j - 1]) + 1);
      if (i > 1 && j > 1 && x == letter(b[j - 2]) && y == letter(a[i - 2]))
        row[j] = least(row[j], second[j - 2] + 1);
    }
  }
  return table[rows % 3][columns];
}

void hd__nearest_try(hd_nearest *nearest, const char *name) {
  const size_t rows = strlen(nearest->word), columns = strlen(name);
  if (rows == 0 || rows > MOST_LETTERS || columns > MOST_LETTERS)
    return;
  const int found = distance(nearest->word, (int)rows, name, (int)columns);
  const int most = ((int)(rows > columns ? rows : columns) + 1) / LETTERS_A_MISTAKE;
  if (found <= most && (!nearest->name || found < nearest->distance)) {
    nearest->name = name;
    nearest->distance = found;
  }
}
