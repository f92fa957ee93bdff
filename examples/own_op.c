/* A custom op outside of Clade's source tree: y = v sin(f v), with kernel source and derivative. Applied to v = x w;
 * the weights w are replaced between executions without a compilation. own_op [device] */
#include <math.h>
#include <stddef.h>

#include "check.h"

typedef struct swirl_attrs {
  float f;
} swirl_attrs;

static clade_status infer(clade_node *n) {
  if (n->in[0].dtype != CLADE_F32) return clade_fail(CLADE_DTYPE, "x is %s, not f32", clade_dtype_name(n->in[0].dtype));
  n->out[0] = n->in[0];
  return CLADE_OK;
}

/* dx = dy (sin(f x) + f x cos(f x)), in terms of Clade's ops. */
static clade_status grad(clade_grad *g) {
  const swirl_attrs *a = g->node->attrs;
  clade_val f = clade_fill(g->graph, CLADE_F32, CLADE_SCALAR, (double)a->f);
  clade_val fx = clade_mul(g->graph, g->in[0], f);
  clade_val slope = clade_add(g->graph, clade_sin(g->graph, fx), clade_mul(g->graph, fx, clade_cos(g->graph, fx)));
  g->din[0] = clade_mul(g->graph, g->dout[0], slope);
  return clade_graph_status(g->graph);
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  const swirl_attrs *a = q->node->attrs;
  int64_t n;
  clade_status status = clade_shape_elements(&q->node->in[0].shape, &n);
  if (status != CLADE_OK) return status;
  clade_kernel_step *s = clade_emit_kernel(e, "swirl_forward_ref");
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade_emit_f32(s, a->f);
  clade_emit_index(s, n);
  clade_emit_range(s, 1, (size_t[]){(size_t)n}, (size_t[]){64}); /* a fixed work-group size; the shape is an argument */
  return CLADE_OK;
}

/* cl_kernels/prelude.cl is put in front; it defines KERNEL, ARG, USE and index_t. */
static const char source[] = "KERNEL(swirl_forward_ref)(ARG(float, x), ARG(float, y), const float f, const index_t n)\n"
                             "{\n"
                             "  USE(float, x);\n"
                             "  USE(float, y);\n"
                             "  const index_t i = (index_t)get_global_id(0);\n"
                             "  if (i < n) y[i] = x[i] * sin(f * x[i]);\n"
                             "}\n";

static const clade_attr attrs[] = {{"f", CLADE_ATTR_F32, offsetof(swirl_attrs, f), 1}, {0}};
static const clade_impl *const impls[] = {CLADE_IMPL(.name = "ref", .emit = emit), NULL};
static const clade_op swirl = {.size = sizeof swirl,
                               .name = "acme.swirl", /* names with a dot are reserved for custom ops */
                               .min_in = 1,
                               .max_in = 1,
                               .n_out = 1,
                               .attr_bytes = sizeof(swirl_attrs),
                               .attrs = attrs,
                               .infer = infer,
                               .grad = grad,
                               .impls = impls,
                               .source = source};

static clade_val acme_swirl(clade_graph *g, clade_val x, float f) {
  clade_val y;
  return clade_node_add(g, &swirl, NULL, &(swirl_attrs){f}, 1, &x, &y);
}

enum { N = 1000 };

/* Largest difference to the result in C. */
static double difference(const float *x, const float *w, const float *y, const float *dw) {
  double worst = 0;
  for (int i = 0; i < N; ++i) {
    double v = (double)x[i] * (double)w[i], fv = 3 * v;
    worst = fmax(worst, fabs((double)y[i] - v * sin(fv)));
    worst = fmax(worst, fabs((double)dw[i] - (double)x[i] * (sin(fv) + fv * cos(fv))));
  }
  return worst;
}

static clade_graph *build(void) {
  clade_graph *g;
  clade_val dw;
  CHECK(clade_graph_new(&g));
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N));
  clade_val w = clade_variable(g, "w", CLADE_F32, CLADE_SHAPE(N), (clade_initial){CLADE_INIT_FILL, 1, 0});
  clade_val y = acme_swirl(g, clade_mul(g, x, w), 3);
  CHECK(clade_gradients(g, y, (clade_val){0}, 1, &w, &dw));
  clade_output(g, "y", y);
  clade_output(g, "dw", dw);
  return g;
}

int main(int argc, char **argv) {
  clade_device *device;
  clade_func *func;
  clade_vars *vars;
  clade_run *run;
  clade_ticket ticket;
  CHECK(clade_device_find(argc > 1 ? argv[1] : NULL, &device));
  clade_graph *g = build();
  CHECK(clade_compile(g, device, &func));
  CHECK(clade_vars_new(func, 42, &vars));
  CHECK(clade_run_new(func, vars, &run));

  float x[N], w[N], y[N], dw[N];
  for (int i = 0; i < N; ++i) x[i] = (float)(i - N / 2) * 0.01f;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < N; ++i) w[i] = 1 - 0.25f * (float)round;
    CHECK(clade_vars_set(vars, "w", w, sizeof w));
    CHECK(clade_execute(run, CLADE_FEEDS({.name = "x", .data = x, .bytes = sizeof x}), &ticket));
    CHECK(clade_read(run, ticket, "y", y, sizeof y));
    CHECK(clade_read(run, ticket, "dw", dw, sizeof dw));
    double worst = difference(x, w, y, dw);
    printf("w = %.2f: acme.swirl and its derivative at most %.2g from the C reference\n", (double)w[0], worst);
    EXPECT(worst < 1e-4);
  }

  clade_run_free(run);
  clade_vars_release(vars);
  clade_func_release(func);
  clade_graph_release(g);
  clade_device_release(device);
  return 0;
}
