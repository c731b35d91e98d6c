/* Replays the inputs kept under corpus/: each whole, cut short, and with a byte changed, at places spread over it. A
 * broken promise aborts; afterwards no memory may be missing. See fuzz.h. */
#include "scratch.h"

#include "fuzz.h"

enum { MOST_BYTES = 1 << 16, PLACES = 24, PATH_BYTES = 1024 };

static const char *corpus(void) {
  static char path[PATH_BYTES];
  const char *source = getenv("SRCDIR");
  snprintf(path, sizeof path, "%s/tests/fuzz/corpus", source ? source : ".");
  return path;
}

/* Exactly as long as the input, so that a sanitizer sees a read past its end. */
static void run_copy(const fuzz_target *target, const uint8_t *bytes, size_t length) {
  uint8_t *copy = malloc(length ? length : 1);
  if (!copy)
    bail_out("out of memory");
  memcpy(copy, bytes, length);
  target->run(copy, length);
  free(copy);
}

static void replay(const fuzz_target *target, uint8_t *bytes, size_t length) {
  run_copy(target, bytes, length);
  for (size_t i = 0; i < PLACES && length > 0; i++) {
    size_t at = i * length / PLACES;
    uint8_t was = bytes[at];
    run_copy(target, bytes, at);
    bytes[at] = (uint8_t)(was ^ (1u << i % 8));
    run_copy(target, bytes, length);
    bytes[at] = was;
  }
}

/* Every input of a target; how many there were. */
static int replay_all(const fuzz_target *target) {
  static uint8_t bytes[MOST_BYTES];
  char path[2 * PATH_BYTES];
  int count = 0;
  snprintf(path, sizeof path, "%s/%s", corpus(), target->name);
  DIR *folder = opendir(path);
  for (struct dirent *entry = NULL; folder && (entry = readdir(folder));) {
    if (entry->d_name[0] == '.')
      continue;
    snprintf(path, sizeof path, "%s/%s/%s", corpus(), target->name, entry->d_name);
    FILE *file = fopen(path, "rb");
    if (!file)
      bail_out("expected to read %s, found no way", path);
    replay(target, bytes, fread(bytes, 1, sizeof bytes, file));
    fclose(file);
    count++;
  }
  if (folder)
    closedir(folder);
  return count;
}

int main(void) {
  if (access(corpus(), R_OK) != 0)
    bail_out("expected inputs in %s, found none; set SRCDIR", corpus());
  for (const fuzz_target *t = fuzz_targets; t->name; t++) {
    fuzz_taken = fuzz_refused = 0;
    int count = replay_all(t); /* and what libraries keep is there from now on */
    ok(count > 0 && fuzz_taken > 0 && fuzz_refused > 0, "%s: %d inputs, %ld taken, %ld refused in one line", t->name,
       count, fuzz_taken, fuzz_refused);
    held before = held_now();
    replay_all(t);
    holds_same(before, "%s: nothing is left behind", t->name);
  }
  return done_testing();
}
