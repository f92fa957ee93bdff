/* Images that a small network learns in few steps: one square per class at its own position, with noise. */
#ifndef TESTS_EMULATED_SQUARES_H
#define TESTS_EMULATED_SQUARES_H

#include <stdint.h>

enum { SIDE = 28, CLASSES = 10 };

/* The batch of a step: n images with labels. */
static inline void draw_squares(int step, int n, float *x, int32_t *label) {
  uint32_t state = 12345u + (uint32_t)step;
  for (int i = 0; i < n * SIDE * SIDE; i++) {
    state = state * 1664525u + 1013904223u;
    x[i] = (float)(state >> 8) * 0x1p-25f;
  }
  for (int i = 0; i < n; i++) {
    label[i] = (i * 7 + step) % CLASSES;
    float *corner = x + (i * SIDE + label[i] / 4 * 8) * SIDE + label[i] % 4 * 7;
    for (int p = 0; p < 36; p++) corner[p / 6 * SIDE + p % 6] += 1.0f;
  }
}

#endif
