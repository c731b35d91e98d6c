/* exported IMAGES: the scores of a network that heddle exported to C, as raw floats, for the images of an IDX file of
 * 28 x 28 bytes; a smaller network sees the middle of them. NETWORK is its name, FILE_NAME its file. */
#include <stdio.h>
#include <stdlib.h>

#include FILE_NAME

#define JOINED(a, b) a##b
#define OF(name, what) JOINED(name, what)

enum { SIDE = 28, HEAD = 16 };

int main(int argc, char **argv) {
  static uint8_t image[SIDE * SIDE], pixel[OF(NETWORK, _pixels)];
  static float score[OF(NETWORK, _outputs)], memory[OF(NETWORK, _memory)];
  FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
  int side = 1;
  while (side * side < OF(NETWORK, _pixels))
    side++;
  if (!file || fread(image, 1, HEAD, file) != HEAD)
    return 2;
  while (fread(image, 1, sizeof image, file) == sizeof image) {
    const int first = (SIDE - side) / 2;
    for (int i = 0; i < side * side; i++)
      pixel[i] = image[(first + i / side) * SIDE + first + i % side];
    OF(NETWORK, _scores)(score, pixel, memory);
    fwrite(score, sizeof *score, OF(NETWORK, _outputs), stdout);
  }
  return ferror(stdout) != 0;
}
