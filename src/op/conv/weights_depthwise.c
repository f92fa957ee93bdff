/* Depthwise conv2d_weights on CPUs. The partition of sums depends only on the sizes, for reproducibility. */
#include "op/conv/weights.h"

#include <math.h>

/* Channels of a block; most taps; sizes of private buffers in floats for sums and for transposed images. */
enum { LANES = 16, MOST_TAPS = 63, SUMS_ROOM = MOST_TAPS * 3 * LANES, SOURCE = 32768, BLOCK = 16384 };

static int64_t blocks_of(const clade__weights *p) { return (p->groups + LANES - 1) / LANES; }
static bool turned(const clade_query *q) { return !q->node->in[0].layout.block; }

/* Lines of y that a work-item transposes at a time, limited by its buffers. */
static int64_t at_once(const clade_query *q, const clade__weights *p) {
  clade__map_1d m = clade__window_covers(clade__conv_window(q->node), 0);
  int64_t source = SOURCE / LANES / CLADE_MAX(p->source[1], 1), result = BLOCK / LANES / CLADE_MAX(p->result[1], 1);
  int64_t reach = CLADE_MIN((p->kernel[0] - 1) * m.delta + 1, p->source[0]);
  if (source < reach) return 0;
  return CLADE_MIN(CLADE_MIN((source - reach) / m.mul + 1, result), CLADE_MAX(p->result[0], 1));
}

/* Estimated cycles of all work-items with `lines` lines each, plus the longest one for each core. */
static double cycles(const clade_query *q, const clade__weights *p, int64_t lines) {
  double all = (double)(p->n * p->result[0]), count = ceil(all / (double)lines),
         vectors = 16.0 / clade__vector_width(q->device);
  double nines = ceil((double)p->kernel[0] / 3) * ceil((double)p->kernel[1] / 3), wide = (double)p->result[1];
  double line = vectors * nines * (wide * 5.5 + 20);
  if (turned(q))
    line += vectors * 3 * (wide + (double)(p->source[0] * p->source[1]) / CLADE_MAX((double)p->result[0], 1));
  double own = 20 * (double)(p->kernel[0] * p->kernel[1]) + 400, blocks = (double)blocks_of(p);
  return blocks * (all * line + count * own) + CLADE__WEIGHTS_UNITS * ((double)lines * line + own) +
         clade__weights_join_cycles(p, (int64_t)count);
}

static int64_t lines_of(const clade_query *q, const clade__weights *p) { /* of a part */
  int64_t all = CLADE_MAX(p->n * p->result[0], 1), best = all;
  for (int64_t lines = all; lines > 1; lines = (lines + 1) / 2)
    if (cycles(q, p, lines) < cycles(q, p, best)) best = lines;
  return best;
}

static int64_t parts_of(const clade_query *q, const clade__weights *p) {
  int64_t lines = lines_of(q, p);
  return CLADE_MAX((p->n * p->result[0] + lines - 1) / lines, 1);
}

const char *clade__weights_depthwise_accept(const clade_query *q) {
  const char *reason = clade__conv_vec_accept(q);
  clade__weights p = clade__weights_of(q->node, false);
  if (reason) return reason;
  bool fits = p.rows == 1 && p.inner == 1 && p.groups > 1 && p.kernel[0] * p.kernel[1] <= MOST_TAPS;
  if (!fits) return "made for groups of one row and one channel, and small windows";
  return q->config[0] == CLADE__BLOCKED || at_once(q, &p) ? NULL
                                                          : "a window's lines are too many for a work-item's memory";
}

double clade__weights_depthwise_cost(const clade_query *q) {
  clade__weights p = clade__weights_of(q->node, false);
  double flops = cycles(q, &p, lines_of(q, &p)) * 2 * q->device->vector_f32;
  return clade__cost(q->device, flops, clade__node_bytes(q->node), 1);
}

size_t clade__weights_depthwise_workspace(const clade_query *q) {
  clade__weights p = clade__weights_of(q->node, false);
  return clade__weights_scratch(q, parts_of(q, &p), false);
}

clade_status clade__weights_depthwise_emit(clade_emit *e, const clade_query *q) {
  clade__weights p = clade__weights_of(q->node, false);
  int64_t parts = parts_of(q, &p), lines = turned(q) ? at_once(q, &p) : CLADE_MAX(p.result[0], 1);
  clade_kernel_step *s = clade__weights_begin(e, q, "conv2d_weights_depthwise", &p, parts);
  clade_emit_define(s, "WIDTH", clade__vector_width(q->device));
  clade_emit_define(s, "X_BLOCKED", !turned(q));
  clade_emit_define(s, "SUMS_ROOM", SUMS_ROOM);
  clade_emit_define(s, "SOURCE", SOURCE);
  clade_emit_define(s, "BLOCK", BLOCK);
  clade_emit_index8(s, 2, (int64_t[]){lines_of(q, &p), lines});
  clade_emit_range(s, 1, &(size_t){(size_t)(blocks_of(&p) * parts)}, &(size_t){1});
  clade__weights_join(e, q, parts, false, false);
  return CLADE_OK;
}
