/* pack: its result element by element, except padding; its gradient through unpack. */
#include <clade/ops.h>

#include <math.h>
#include <stdio.h>

#include <string.h>

#include "op/move/pack.h"

#include "blocked.h"
#include "fft_kit.h"

enum { AXIS, BLOCK, INTERLEAVE, RANK, DIMS, TILE = 20 }; /* TILE: of a layout that builders refuse, else 0 */

static clade_layout layout_of(const op_case *c) {
  return (clade_layout){
      .axis = (int16_t)c->i[AXIS], .block = (uint16_t)c->i[BLOCK], .interleave = (uint16_t)c->i[INTERLEAVE]};
}
static clade_shape shape_of(const op_case *c) {
  clade_shape shape = {.rank = c->i[RANK]};
  for (int i = 0; i < shape.rank; i++) shape.dim[i] = c->i[DIMS + i];
  return shape;
}

static void draw(op_case *c, op_random *r) {
  clade_shape shape;
  clade_layout layout = blocked_draw(c, r, &shape);
  if (strcmp(c->impl, "winograd") == 0 && c->dtype == CLADE_F32 && !c->gradient) {
    layout = (clade_layout){.axis = (int16_t)op_integer(r, 0, 1), .block = (uint16_t)(16 * op_integer(r, 1, 2))};
    shape = CLADE_SHAPE(op_integer(r, 1, 40), op_integer(r, 1, 40), 3, 3);
    int wide = (int)op_integer(r, 0, 1);
    if (c->brief) { /* two of eight kernels, which llvmpipe compiles slowly */
      wide = 0;
      layout.block = (uint16_t)(32 - 16 * layout.axis);
    }
    c->i[TILE] = 4 + 2 * wide;
  }
  if (strcmp(c->impl, "fft") == 0 && c->dtype == CLADE_F32 && !c->gradient) {
    layout = (clade_layout){.axis = (int16_t)op_integer(r, 0, 1), .block = 16};
    const bool few = c->light && op_chance(r, 0.9); /* large spectra are slow on llvmpipe */
    c->i[TILE] = 16 << (c->small || c->brief ? 0 : op_integer(r, 0, few ? 1 : 2)); /* one kernel each */
    shape = CLADE_SHAPE(op_integer(r, 1, few && layout.axis ? 4 : 20), op_integer(r, 1, 3), op_integer(r, 1, 12),
                        op_integer(r, 1, 12));
  }
  if (strcmp(c->impl, "panels") == 0 && !c->gradient) {
    shape = op_draw_shape(r, c, 2, 4, 5000);
    layout = (clade_layout){.axis = (int16_t)(shape.rank - op_integer(r, 1, 2)),
                            .block = (uint16_t)op_integer(r, 1, 33),
                            .interleave = (uint16_t)op_integer(r, 0, 4)};
    if (shape.rank == 4 && op_integer(r, 0, 1)) { /* convolution weights */
      layout.interleave = (uint16_t)op_integer(r, 0, 4);
      layout.axis = (int16_t)(layout.interleave > 1 ? op_integer(r, 0, 1) : 1);
    }
    c->i[TILE] = CLADE_PANELS;
  }
  c->i[AXIS] = layout.axis;
  c->i[BLOCK] = layout.block;
  c->i[INTERLEAVE] = layout.interleave;
  c->i[RANK] = shape.rank;
  for (int i = 0; i < shape.rank; i++) c->i[DIMS + i] = (int)shape.dim[i];
  c->n_in = 1;
  c->in[0] = (op_input){.dtype = c->dtype, .shape = shape};
  snprintf(c->note, sizeof c->note, "axis %d block %d interleave %d", layout.axis, layout.block, layout.interleave);
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  clade__pack_attrs base = {
      .axis = c->i[AXIS], .block = c->i[BLOCK], .interleave = c->i[INTERLEAVE], .tile = c->i[TILE]};
  clade_val packed =
      c->i[TILE] ? clade_node_add(g, &clade__op_pack, NULL, &base, 1, in, NULL) : clade_pack(g, in[0], layout_of(c));
  out[0] = c->gradient ? clade_unpack(g, packed) : clade_node_add(g, &blocked_to_dense, NULL, NULL, 1, &packed, NULL);
}

/* Winograd weights (panel, tap, inner channel, channel): transformed from both sides, flipped along axis 1. */
static void reference_base(const op_case *c, const op_array *in, op_array *out) {
  clade_shape w = shape_of(c);
  int tile = c->i[TILE], block = c->i[BLOCK], axis = c->i[AXIS];
  int64_t rows = w.dim[axis], inner = w.dim[!axis];
  double base[6][3];
  conv_winograd_weights(tile - 2, base);
  op_result(out, c->dtype, CLADE_SHAPE((rows + block - 1) / block, tile * tile, inner, block));
  for (int64_t o = 0; o < out->n; o++) {
    int64_t at[CLADE_MAX_RANK];
    op_unravel(&out->shape, o, at);
    int64_t row = at[0] * block + at[3], from = (axis ? at[2] * rows + row : row * inner + at[2]) * 9;
    for (int k = 0; k < 9 && row < rows; k++) {
      double product = base[at[1] / tile][k / 3] * base[at[1] % tile][k % 3] * in->v[from + (axis ? 8 - k : k)];
      out->v[o] += product;
      out->bound[o] += 0x1p-20 * fabs(product);
    }
    if (row >= rows) out->bound[o] = HUGE_VAL;
  }
}

/* Panels for units that multiply words: (panel, window position, step, position, element), zero-padded in the last
 * step. */
static void reference_words(const op_case *c, const op_array *in, op_array *out) {
  const clade_shape w = shape_of(c);
  const int axis = c->i[AXIS];
  const int64_t window = w.dim[2] * w.dim[3], wide = w.dim[axis], other = w.dim[!axis], each = c->i[INTERLEAVE];
  const clade_layout layout = layout_of(c);
  op_result(out, c->dtype, blocked_panels(&w, layout));
  const int64_t steps = (other + each - 1) / each, block = layout.block;
  for (int64_t o = 0; o < out->n; o++) {
    const int64_t step = o / (block * each), place = o / each % block + step / (steps * window) * block;
    const int64_t at = step % steps * each + o % each, tap = step / steps % window;
    if (place >= wide)
      out->bound[o] = HUGE_VAL;
    else if (at < other)
      out->v[o] = in->v[(axis ? at * wide + place : place * other + at) * window + tap];
  }
}

/* Panels (matrix, panel, step, position, element), zero-padded in the last step. For convolutions, a step is one
 * window position. */
static void reference_panels(const op_case *c, const op_array *in, op_array *out) {
  clade_shape dense = shape_of(c);
  clade_layout layout = layout_of(c);
  bool last = layout.axis == dense.rank - 1, windows = layout.axis < dense.rank - 2;
  if (windows && layout.interleave > 1) {
    reference_words(c, in, out);
    return;
  }
  int64_t window = windows ? dense.dim[2] * dense.dim[3] : 1, wide = dense.dim[layout.axis];
  int64_t other = windows ? dense.dim[0] * window : dense.dim[2 * dense.rank - 3 - layout.axis];
  op_result(out, c->dtype, blocked_panels(&dense, layout));
  for (int64_t o = 0; o < out->n; o++) {
    int64_t at[CLADE_MAX_RANK];
    op_unravel(&out->shape, o, at);
    int64_t place = at[1] * layout.block + at[3], step = at[2] * out->shape.dim[4] + at[4];
    if (place >= wide)
      out->bound[o] = HUGE_VAL;
    else if (windows)
      out->v[o] = in->v[(step / window * wide + place) * window + step % window];
    else if (step < other)
      out->v[o] = in->v[at[0] * wide * other + (last ? step * wide + place : place * other + step)];
  }
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  if (c->i[TILE] == CLADE_PANELS) {
    reference_panels(c, in, out);
    return;
  }
  if (c->i[TILE] >= CLADE_SPECTRUM) {
    const clade_shape w = shape_of(c);
    const int axis = c->i[AXIS], side = c->i[TILE];
    op_result(out, c->dtype, CLADE_SHAPE((w.dim[axis] + 15) / 16, side * (side / 2 + 1), w.dim[!axis], 32));
    fft_kit_weights(in->v, &w, axis, side, out);
    return;
  }
  if (c->i[TILE]) {
    reference_base(c, in, out);
    return;
  }
  clade_shape dense = shape_of(c), blocked = blocked_shape(&dense, layout_of(c));
  op_result(out, c->dtype, c->gradient ? dense : blocked);
  for (int64_t o = 0; o < out->n; o++) {
    int64_t index[CLADE_MAX_RANK];
    op_unravel(&blocked, o, index);
    int64_t from = c->gradient ? o : blocked_at(&dense, layout_of(c), index);
    if (from < 0)
      out->bound[o] = HUGE_VAL;
    else
      out->v[o] = in->v[from];
  }
}

const op_test op_test_pack = {"pack", op_all_types, draw, build, reference, NULL, 0, NULL};
