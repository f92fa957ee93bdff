/* Batch normalization of random shapes, including means that are large relative to the deviation, and running
 * statistics. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "op/norm/batch_norm.h"
#include "norm_kit.h"

enum { EPS, MOMENTUM, EPILOGUE = 0, SAME /* its operand is x */ };

/* relu(y + operand) */
static clade__elt program(clade_dtype dtype) {
  clade__elt p = {.n_in = 2, .n_insn = 2, .in_dtype = {(uint8_t)dtype, (uint8_t)dtype}};
  p.insn[0] = (clade__elt_insn){.fn = clade__elt_by_name("add")->number, .dtype = (uint8_t)dtype, .arg = {0, 1}};
  p.insn[1] = (clade__elt_insn){.fn = clade__elt_by_name("relu")->number, .dtype = (uint8_t)dtype, .arg = {2}};
  return p;
}

static void draw(op_case *c, op_random *r) {
  const clade_shape x = norm_draw(c, r), channels = CLADE_SHAPE(x.dim[1]);
  double center = c->gradient || op_chance(r, 0.5) ? 0 : op_uniform(r, -100, 100);
  c->i[EPILOGUE] = !c->gradient && (c->small ? c->number % 5 > 0 : op_chance(r, 0.4));
  c->i[SAME] = c->i[EPILOGUE] && op_chance(r, 0.3);
  c->n_in = 5 + (c->i[EPILOGUE] && !c->i[SAME]);
  c->n_out = c->gradient ? 1 : 3; /* only the first is differentiable */
  c->in[0] = (op_input){.dtype = c->dtype, .shape = x, .low = center - 2, .high = center + 2};
  for (int i = 1; i < 5; i++) c->in[i] = (op_input){.dtype = CLADE_F32, .shape = channels, .low = -1.5, .high = 2};
  c->in[4].low = 0.1;
  if (c->n_in > 5) c->in[5] = (op_input){.dtype = c->dtype, .shape = x, .low = -3, .high = 3};
  c->differentiable = 7;
  c->f[EPS] = c->gradient ? 0.1 : op_chance(r, 0.5) ? 1e-5 : 1e-2;
  c->f[MOMENTUM] = op_chance(r, 0.2) ? 1 : 0.1;
  snprintf(c->note, sizeof c->note, "center %g eps %g epilogue %d%s", center, c->f[EPS], c->i[EPILOGUE],
           c->i[SAME] ? " of x" : "");
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  clade_val next[2];
  if (c->i[EPILOGUE]) {
    clade__batch_norm_attrs at;
    clade_val with[6], all[5];
    memcpy(with, in, 5 * sizeof *in);
    with[5] = in[c->i[SAME] ? 0 : 5];
    memset(&at, 0, sizeof at);
    at.eps = (float)c->f[EPS], at.momentum = (float)c->f[MOMENTUM], at.epilogue = program(c->dtype);
    clade_node_add(g, &clade__op_batch_norm, NULL, &at, 6, with, all);
    out[0] = all[0], out[1] = all[3], out[2] = all[4];
    return;
  }
  out[0] = clade__batch_norm(g, in, (float)c->f[EPS], (float)c->f[MOMENTUM], next);
  if (c->n_out == 3) out[1] = next[0], out[2] = next[1];
}

typedef struct moments {
  double mean, var, size; /* size: mean of absolute values */
} moments;

static moments moments_of(const op_array *x, int64_t channel, int64_t inner, int64_t count) {
  moments m = {0};
  int64_t channels = x->shape.dim[1];
  for (int pass = 0; pass < 2; pass++)
    for (int64_t k = 0; k < count; k++) {
      double v = x->v[(k / inner * channels + channel) * inner + k % inner];
      if (pass == 0)
        m.mean += v / (double)count, m.size += fabs(v) / (double)count;
      else
        m.var += (v - m.mean) * (v - m.mean) / (double)count;
    }
  return m;
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  const clade_shape *x = &in->shape;
  int64_t channels = x->dim[1], inner = 1;
  for (int i = 2; i < x->rank; i++) inner *= x->dim[i];
  int64_t count = x->dim[0] * inner;
  const double *added = in[c->i[SAME] ? 0 : 5].v;
  double eps = (double)(float)c->f[EPS], move = count ? (double)(float)c->f[MOMENTUM] : 0;
  op_result(&out[0], c->dtype, *x);
  for (int i = 1; i < c->n_out; i++) op_result(&out[i], CLADE_F32, in[1].shape);
  for (int64_t ch = 0; ch < channels; ch++) {
    moments m = moments_of(in, ch, inner, count);
    double rstd = 1 / sqrt(m.var + eps), w = in[1].v[ch], b = in[2].v[ch];
    double off_mean = 0x1p-20 * sqrt(m.var) + 0x1p-22 * m.size, off_var = 0x1p-17 * m.var + 4 * off_mean * off_mean;
    for (int64_t k = 0; k < count; k++) {
      int64_t at = (k / inner * channels + ch) * inner + k % inner;
      double hat = (in->v[at] - m.mean) * rstd;
      out[0].v[at] = hat * w + b;
      out[0].bound[at] =
          fabs(w) * rstd * (off_mean + fabs(hat) * (off_var * rstd + 0x1p-21 / rstd)) + 0x1p-22 * fabs(b);
      if (!c->i[EPILOGUE]) continue;
      out[0].bound[at] += 0x1p-23 * (fabs(out[0].v[at]) + fabs(added[at]));
      out[0].v[at] = fmax(0, out[0].v[at] + added[at]);
    }
    if (c->n_out < 3) continue;
    double unbiased = count > 1 ? (double)count / (double)(count - 1) : 0;
    out[1].v[ch] = (1 - move) * in[3].v[ch] + move * m.mean;
    out[1].bound[ch] = 0x1p-22 * fabs(in[3].v[ch]) + move * off_mean + 0x1p-22 * fabs(m.mean);
    out[2].v[ch] = (1 - move) * in[4].v[ch] + move * m.var * unbiased;
    out[2].bound[ch] = 0x1p-22 * in[4].v[ch] + (move * off_var + 0x1p-22 * m.var) * unbiased;
  }
}

const op_test op_test_batch_norm = {"batch_norm", op_computed_floats, draw, build, reference, NULL, 0, NULL};
