/* Copies of images with a border of zeros, see conv2d_cpu.h: whole, or sixteen channels of them. */
#include "op/conv2d/conv2d_cpu.h"

void HD_SYM(conv_frame_fill)(float *out, const conv_frame *frame, const float *image) {
  int64_t line = (int64_t)frame->width * frame->channels;
  int left = most(frame->left, 0), right = least(frame->width, frame->left + frame->image_width);
  for (int y = 0; y < frame->height; y++, out += line) {
    int from = y - frame->top;
    memset(out, 0, (size_t)line * sizeof *out);
    if (from < 0 || from >= frame->image_height)
      continue;
    const float *pixel = image + (from * (int64_t)frame->image_width + left - frame->left) * frame->pixel;
    if (frame->pixel == frame->channels && left < right)
      memcpy(out + (int64_t)left * frame->channels, pixel,
             (size_t)(right - left) * (size_t)frame->channels * sizeof *out);
    else
      for (int x = left; x < right; x++, pixel += frame->pixel)
        memcpy(out + (int64_t)x * frame->channels, pixel, (size_t)frame->channels * sizeof *out);
  }
  memset(out, 0, FRAME_SLACK * sizeof *out);
}

static void fill_pixels(float *out, int count, const float *pixel, int64_t step, int channels) {
  for (int x = 0; x < count; x++, pixel += step)
    g16_store(out + 16 * (int64_t)x, channels ? g16_load_some(pixel, channels) : g16_zero());
}

void HD_SYM(conv_slice_fill)(float *out, const conv_frame *f, const float *image, int channels) {
  int left = most(f->left, 0), right = least(f->width, f->left + f->image_width);
  for (int y = 0; y < f->height; y++, out += 16 * (int64_t)f->width) {
    int from = y - f->top;
    if (from < 0 || from >= f->image_height || left >= right) {
      fill_pixels(out, f->width, NULL, 0, 0);
      continue;
    }
    const float *pixel = image + ((int64_t)from * f->image_width + left - f->left) * f->pixel;
    fill_pixels(out, left, NULL, 0, 0);
    fill_pixels(out + 16 * (int64_t)left, right - left, pixel, f->pixel, channels);
    fill_pixels(out + 16 * (int64_t)right, f->width - right, NULL, 0, 0);
  }
}
