/* conv2d_weights on CPUs for few positions: each sum is completed in registers, without parts. */
#include "op/conv/weights.h"

#include <math.h>

/* Sizes of the kernel's private buffers in floats; columns of a block; pieces of lines. */
enum { LINES = 36864, TURNED = 73728, COLUMNS = 2048, PIECES = 512, ROOM = 8 };

typedef struct plan {
  int64_t rows, channels, items; /* of a block; number of blocks */
  double cycles;                 /* until the last core finishes */
} plan;

/* Size of a channel's lines in floats; 0: they have too many pieces. */
static int64_t line_of(const clade_query *q, const clade__weights *p) {
  const clade__window *w = clade__conv_window(q->node);
  clade__conv_axis a[2];
  for (int i = 0; i < 2; i++)
    a[i] = clade__conv_axis_of(clade__window_covers(w, i), p->result[i], p->source[i], p->kernel[i], 0);
  int64_t all = p->n * a[0].pitch * a[1].pitch + a[0].span * a[1].pitch + a[1].span, kinds = a[0].kinds * a[1].kinds;
  int64_t length = clade__up(all, 32) + 16;
  return kinds * (length / CLADE_MAX(a[1].pitch, 1) + 2) <= PIECES ? kinds * length : 0;
}

/* In cycles of a core that starts two vector operations per cycle. Each panel reads all rows of a block, which stay in
 * L2. */
static plan plan_of(const clade_query *q) {
  enum { DOWN = 4 };
  clade__weights p = clade__weights_of(q->node, false);
  int64_t line = line_of(q, &p), taps = p.kernel[0] * p.kernel[1], panel = clade__weights_panel(q),
          tile = clade__weights_tile_rows(q);
  double places = (double)(p.n * p.result[0] * p.result[1]), units = CLADE_MAX(q->device->compute_units, 1u);
  double l2 = (double)clade__second_cache(q->device);
  plan best = {.cycles = INFINITY};
  for (int64_t channels = 1; line > 0 && channels <= p.inner; channels++) {
    int64_t columns = clade__up(channels * taps, panel);
    if (columns > COLUMNS || channels * line > LINES || columns * ((int64_t)places + ROOM) > TURNED) break;
    for (int64_t down = 1; down <= DOWN; down++) {
      int64_t rows = clade__up((p.rows + down - 1) / down, tile);
      if ((double)rows * places * sizeof(float) > l2 / 2) continue;
      int64_t blocks = ((p.rows + rows - 1) / rows) * ((p.inner + channels - 1) / channels);
      double multiply = (double)(rows / tile) * (double)(columns / panel) * (places * (double)tile * 1.04 + 80);
      double copy = 0.6 * (double)(channels * line) + (0.7 * places + 10) * (double)columns;
      double time = ceil((double)blocks / units) * (multiply + copy + 2000);
      if (time >= best.cycles) continue;
      best = (plan){rows, channels, blocks, time};
    }
  }
  return best;
}

const char *clade__weights_columns_accept(const clade_query *q) {
  const char *reason = clade__conv_vec_accept(q);
  clade__weights p = clade__weights_of(q->node, false);
  if (reason) return reason;
  if (p.kernel[0] * p.kernel[1] < 2) return "made for windows of more than one place";
  if (p.groups != 1) return "made for one group";
  if (p.n * p.outputs * p.result[0] * p.result[1] < 1) return "made for what is not empty";
  return plan_of(q).items ? NULL : "made for fewer places";
}

double clade__weights_columns_cost(const clade_query *q) {
  double units = CLADE_MAX(q->device->compute_units, 1u);
  double flops = plan_of(q).cycles * units * 2 * q->device->vector_f32;
  return clade__cost(q->device, flops, clade__node_bytes(q->node), 1);
}

size_t clade__weights_columns_workspace(const clade_query *q) { return clade__weights_scratch(q, 1, false); }

clade_status clade__weights_columns_emit(clade_emit *e, const clade_query *q) {
  clade__weights p = clade__weights_of(q->node, false);
  plan cut = plan_of(q);
  clade_kernel_step *s = clade__weights_begin(e, q, "conv2d_weights_columns", &p, 1);
  clade_emit_define(s, "WIDTH", clade__weights_lanes(q));
  clade_emit_define(s, "VECTORS", 2);
  clade_emit_define(s, "ROWS", clade__weights_tile_rows(q));
  clade_emit_define(s, "LINES", LINES);
  clade_emit_define(s, "TURNED", TURNED);
  clade_emit_define(s, "COLUMNS", COLUMNS);
  clade_emit_define(s, "PIECES", PIECES);
  clade_emit_index8(s, 2, (int64_t[]){cut.rows, cut.channels});
  clade_emit_range(s, 1, &(size_t){(size_t)cut.items}, &(size_t){1});
  clade__weights_join(e, q, 1, false, false);
  return CLADE_OK;
}
