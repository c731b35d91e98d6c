/* Reads the JSON in the last line of standard input, strictly: no key twice, nothing behind it.
 * usage: json_get PATH...   values, in one line, texts without quotes; a path is keys and indices, separated by dots
 *        json_get           the keys of the object, in order, in one line */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *last_line(void) {
  char *line = NULL, *next = NULL;
  size_t room[2] = {0};
  json_error_t error;
  while (getline(&next, &room[1], stdin) > 0) {
    char *swap = line;
    line = next, next = swap;
    const size_t other = room[0];
    room[0] = room[1], room[1] = other;
  }
  json_t *whole = json_loads(line ? line : "", JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
  if (!whole)
    fprintf(stderr, "json_get: expected JSON, found %s, at %d of: %s\n", error.text, error.position, line ? line : "");
  free(line);
  free(next);
  return whole;
}

/* NULL: there is none. */
static const json_t *value_at(const json_t *value, char *path) {
  for (char *rest = path, *key; value && (key = strtok_r(rest, ".", &rest));)
    value = json_is_array(value) ? json_array_get(value, strtoul(key, NULL, 10)) : json_object_get(value, key);
  return value;
}

/* The shortest text that reads back equal. */
static void print_real(double value) {
  char text[40];
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    if (strtod(text, NULL) == value)
      break;
  }
  fputs(text, stdout);
}

static void print(const json_t *value, bool quoted);

static void print_parts(const json_t *value) {
  const bool array = json_is_array(value);
  const char *key, *between = "";
  size_t i;
  json_t *part;
  putchar(array ? '[' : '{');
  json_array_foreach(value, i, part) {
    fputs(i ? "," : "", stdout);
    print(part, true);
  }
  json_object_foreach((json_t *)value, key, part) {
    printf("%s\"%s\":", between, key);
    print(part, true);
    between = ",";
  }
  putchar(array ? ']' : '}');
}

static void print(const json_t *value, bool quoted) {
  if (!value)
    fputs("null", stdout);
  else if (json_is_string(value) && !quoted)
    fputs(json_string_value(value), stdout);
  else if (json_is_real(value))
    print_real(json_real_value(value));
  else if (json_is_array(value) || json_is_object(value))
    print_parts(value);
  else
    json_dumpf(value, stdout, JSON_COMPACT | JSON_ENCODE_ANY);
}

int main(int argc, char **argv) {
  json_t *whole = last_line();
  const char *key, *between = "";
  json_t *value;
  if (!whole || (argc == 1 && !json_is_object(whole)))
    return 1;
  json_object_foreach(argc == 1 ? whole : NULL, key, value) {
    printf("%s%s", between, key);
    between = " ";
  }
  for (int i = 1; i < argc; i++) {
    fputs(i > 1 ? " " : "", stdout);
    print(value_at(whole, argv[i]), false);
  }
  putchar('\n');
  json_decref(whole);
  return 0;
}
