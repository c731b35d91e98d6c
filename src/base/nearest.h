/* The name nearest to a mistyped word. */
#pragma once

typedef struct hd_nearest {
  const char *word; /* as typed */
  const char *name; /* the nearest of those tried so far, the first of equals; NULL: none resembles the word */
  int distance;     /* letters to insert, delete, change or swap with the next, from word to name */
} hd_nearest;

/* Compares another name, which must outlive the result. Ignores case and the difference between '_' and '-'. */
void hd__nearest_try(hd_nearest *nearest, const char *name);
