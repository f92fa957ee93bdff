/* Random windows along one axis, and the positions that they cover. */
#include "unfold_kit.h"

#include <stdio.h>

enum { KERNEL, STRIDE, DILATION, PAD, SIZE = PAD + 2, IMAGES, CHANNELS, INNER, RANK = INNER + 2 };

clade__unfold_attrs unfold_window(const op_case *c) {
  clade__unfold_attrs w;
  memset(&w, 0, sizeof w);
  w.size = c->i[SIZE];
  w.kernel = c->i[KERNEL];
  w.stride = c->i[STRIDE];
  w.dilation = c->i[DILATION];
  for (int k = 0; k < 2; k++) w.pad[k] = c->i[PAD + k];
  return w;
}

void unfold_shapes(const op_case *c, clade_shape *x, clade_shape *y) {
  const int *i = c->i;
  int room = i[SIZE] + i[PAD] + i[PAD + 1] - (i[KERNEL] - 1) * i[DILATION] - 1;
  *x = (clade_shape){.rank = i[RANK], .dim = {i[IMAGES], i[CHANNELS], i[SIZE]}};
  *y = (clade_shape){.rank = i[RANK] + 1, .dim = {i[IMAGES], room / i[STRIDE] + 1, i[CHANNELS], i[KERNEL]}};
  for (int k = 3; k < x->rank; k++) x->dim[k] = y->dim[k + 1] = i[INNER + k - 3];
}

void unfold_draw(op_case *c, op_random *r, clade_shape *x, clade_shape *y) {
  bool few = c->small || c->gradient;
  int *i = c->i;
  i[RANK] = (int)op_integer(r, 3, 5);
  i[IMAGES] = !c->gradient && op_chance(r, 0.04) ? 0 : (int)op_integer(r, 1, 3);
  i[CHANNELS] = (int)op_integer(r, 1, few ? 2 : 7);
  i[SIZE] = (int)op_integer(r, 1, few ? 6 : 20);
  i[KERNEL] = (int)op_integer(r, 1, few ? 3 : 7);
  i[STRIDE] = op_chance(r, 0.4) ? 1 : (int)op_integer(r, 1, 4);
  i[DILATION] = op_chance(r, 0.5) ? 1 : (int)op_integer(r, 1, 3);
  for (int k = 0; k < 2; k++) {
    i[PAD + k] = op_chance(r, 0.4) ? 0 : (int)op_integer(r, 0, i[KERNEL]);
    i[INNER + k] = few ? (int)op_integer(r, 1, 3) : (int)op_draw_extent(r, c, k ? 20 : 70);
  }
  while (c->gradient && i[IMAGES] * i[CHANNELS] * i[SIZE] * i[INNER] * i[INNER + 1] > 40)
    i[i[IMAGES] > 1      ? IMAGES
      : i[CHANNELS] > 1  ? CHANNELS
      : i[INNER] > 1     ? INNER
      : i[INNER + 1] > 1 ? INNER + 1
                         : SIZE] = 1;
  int least = (i[KERNEL] - 1) * i[DILATION] + 1 - i[PAD] - i[PAD + 1];
  i[SIZE] = CLADE_MAX(i[SIZE], least);
  snprintf(c->note, sizeof c->note, "kernel %d stride %d dilation %d pads %d %d", i[KERNEL], i[STRIDE], i[DILATION],
           i[PAD], i[PAD + 1]);
  unfold_shapes(c, x, y);
}

int64_t unfold_source(const op_case *c, int64_t i) {
  clade_shape x, y;
  int64_t at[CLADE_MAX_RANK];
  unfold_shapes(c, &x, &y);
  op_unravel(&y, i, at);
  int64_t place = at[1] * c->i[STRIDE] + at[3] * c->i[DILATION] - c->i[PAD];
  if (place < 0 || place >= x.dim[2]) return -1;
  int64_t from = (at[0] * x.dim[1] + at[2]) * x.dim[2] + place;
  for (int k = 3; k < x.rank; k++) from = from * x.dim[k] + at[k + 1];
  return from;
}
