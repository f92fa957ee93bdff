/* Random pooling windows, and the pixels that each covers. */
#include "pool_kit.h"

#include <stdio.h>

enum { COUNT_PAD = 20 };

conv pool_of(const op_case *c) {
  conv v = conv_of(c);
  v.y.dim[1] = v.x.dim[1];
  return v;
}

conv pool_draw(op_case *c, op_random *r) {
  bool triples = strcmp(c->impl, "triples") == 0; /* supports one kind of window */
  conv_draw(c, r);
  if (op_chance(r, 0.4) || triples) conv_common(c, r);
  while (triples && (conv_of(c).window.kernel[0] != 3 || conv_of(c).window.pad[0] != 1)) conv_common(c, r);
  conv v = pool_of(c);
  c->i[COUNT_PAD] = op_chance(r, 0.5);
  if (!c->small && c->number % 2) c->told.last_cache = 128; /* results exceed such a cache */
  c->n_in = 1;
  c->in[0] = (op_input){.dtype = c->dtype, .shape = v.x, .low = -2, .high = 2};
  return v;
}

bool pool_counts_pad(const op_case *c) { return c->i[COUNT_PAD]; }

clade_pool2d_opt pool_opt(const op_case *c, clade_val x) {
  const clade__window w = conv_of(c).window;
  clade_pool2d_opt opt = {.size = sizeof opt, .x = x, .count_pad = c->i[COUNT_PAD]};
  for (int i = 0; i < 2; i++) {
    opt.kernel[i] = w.kernel[i];
    opt.stride[i] = w.stride[i] == w.kernel[i] ? 0 : w.stride[i];
    opt.dilation[i] = w.dilation[i];
  }
  for (int i = 0; i < 4; i++) opt.pads[i] = w.pad[i];
  return opt;
}

clade__pool_attrs pool_attrs(const op_case *c) {
  clade__pool_attrs at;
  memset(&at, 0, sizeof at);
  at.window = conv_of(c).window;
  at.count_pad = c->i[COUNT_PAD];
  return at;
}

static int64_t pixels_of(const conv *v, const int64_t *window, void (*fn)(void *, int64_t, int64_t, int64_t),
                         void *user, int64_t y, int64_t covered) {
  const clade__window *w = &v->window;
  int64_t height = v->x.dim[2], width = v->x.dim[3], count = 0;
  for (int64_t k = 0; k < w->kernel[0] * w->kernel[1]; k++) {
    int64_t py = window[2] * w->stride[0] - w->pad[0] + k / w->kernel[1] * w->dilation[0];
    int64_t px = window[3] * w->stride[1] - w->pad[1] + k % w->kernel[1] * w->dilation[1];
    if (py < 0 || py >= height || px < 0 || px >= width) continue;
    count++;
    if (fn) fn(user, ((window[0] * v->x.dim[1] + window[1]) * height + py) * width + px, y, covered);
  }
  return count;
}

void pool_each(const conv *v, void (*fn)(void *, int64_t x, int64_t y, int64_t covered), void *user) {
  int64_t windows = op_elements(&v->y);
  for (int64_t y = 0; y < windows; y++) {
    int64_t at[CLADE_MAX_RANK];
    op_unravel(&v->y, y, at);
    pixels_of(v, at, fn, user, y, pixels_of(v, at, NULL, NULL, y, 0));
  }
}
