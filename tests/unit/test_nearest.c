/* The name that a mistyped word stands for: mistakes of a hand are fixed, other words are left alone. */
#include "tap.h"

#include "base/nearest.h"

static const char *nearest_of(const char *word) {
  static const char *const names[] = {"train", "eval", "batch-size", "batch", "lr", "top", "topo", "mnist-99", NULL};
  hd_nearest nearest = {.word = word};
  for (int i = 0; names[i]; i++)
    hd__nearest_try(&nearest, names[i]);
  return nearest.name ? nearest.name : "";
}

int main(void) {
  is_str(nearest_of("trian"), "train", "two letters exchanged");
  is_str(nearest_of("trainn"), "train", "one too many");
  is_str(nearest_of("rain"), "train", "one missing");
  is_str(nearest_of("trein"), "train", "one for another");
  is_str(nearest_of("mnist99"), "mnist-99", "a sign left out");
  is_str(nearest_of("batchsize"), "batch-size", "the nearest of two that begin alike");
  is_str(nearest_of("BATCH_SIZE"), "batch-size", "case and '_' for '-' are no mistakes");
  is_str(nearest_of("tpo"), "top", "a short word may hold one mistake");
  is_str(nearest_of("lx"), "lr", "even one of two letters");
  is_str(nearest_of("weave"), "", "another word resembles none");
  is_str(nearest_of("xx"), "", "nor does a short one");
  is_str(nearest_of(""), "", "nor does an empty one");
  char longest[300];
  memset(longest, 't', sizeof longest - 1);
  longest[sizeof longest - 1] = 0;
  is_str(nearest_of(longest), "", "nor one longer than any name");
  return done_testing();
}
