/* How normalisation by channels cuts a value into pieces of work. */
#include "op/batch_norm.h"

/* Elements that are summed one after the other, sixteen at a time or, where runs are short, alone. */
enum { CHUNK = 2048, SHORT_CHUNK = 256, MOST_CHUNKS = 4096 };

clade__channels clade__channels_of(const clade_shape *x) {
  clade__channels c = {.samples = x->dim[0], .channels = x->dim[1], .inner = clade__product(x, 2, x->rank)};
  c.count = c.samples * c.inner;
  c.chunk = c.inner < 16 ? SHORT_CHUNK : CHUNK;
  while (c.chunk < c.count / MOST_CHUNKS) c.chunk *= 2;
  c.chunks = CLADE_MAX((c.count + c.chunk - 1) / c.chunk, 1);
  return c;
}

/* Twice through a chunk, in runs of `inner`. */
const char *clade__channels_accept(const clade_query *q) {
  clade__channels c = clade__channels_of(&q->node->in[0].shape);
  double runs = (double)c.chunk / (double)CLADE_MAX(c.inner, 1) + 2;
  double in_run = (double)CLADE_MIN(c.inner, c.chunk), passes = 2 * runs * (in_run / 16 + CLADE_MIN(in_run, 15) + 3);
  return clade__cut_short(q->device, CLADE_MAX(passes, 2 * (double)c.chunks + 2));
}

size_t clade__channels_workspace(const clade_query *q) {
  clade__channels c = clade__channels_of(&q->node->in[0].shape);
  return (size_t)(c.channels * c.chunks) * 2 * sizeof(float);
}

clade_status clade__want_channels(const clade_node *n, int first, int count, const char *const *names) {
  const clade_shape *x = &n->in[0].shape;
  char text[2][200];
  for (int i = 0; i < count; i++) {
    const clade_type *t = &n->in[first + i];
    if (t->dtype != CLADE_F32)
      return CLADE_FAIL(DTYPE, "%s: %s is %s; expected f32", n->op->name, names[i], clade_dtype_name(t->dtype));
    if (t->shape.rank != 1 || t->shape.dim[0] != x->dim[1])
      return CLADE_FAIL(SHAPE, "%s: %s is %s; expected one number for each channel (axis 1) of x, %s", n->op->name,
                        names[i], clade_shape_text(&t->shape, text[0], sizeof text[0]),
                        clade_shape_text(x, text[1], sizeof text[1]));
  }
  return CLADE_OK;
}
