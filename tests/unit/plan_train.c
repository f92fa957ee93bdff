/* Plans of training steps: new values of variables are made in their places, also by an op that makes many of them. */
#include "plan_check.h"

static uint64_t seed_state;
static unsigned draw(unsigned n) {
  uint32_t x[4];
  clade__philox(2, seed_state++, 0, x);
  return x[0] % n;
}

/* (p, g, m) for each variable, then a rate: m' = m + g, p' = p + rate m'. One launch each. */
static int update_outputs(const void *attrs, int n_in) {
  (void)attrs;
  return n_in / 3 * 2;
}
static clade_status update_infer(clade_node *n) {
  for (int i = 0; i < n->n_out; i++) n->out[i] = n->in[i / 2 * 3];
  return CLADE_OK;
}
static uint64_t update_in_place(const clade_node *n, int out) {
  (void)n;
  return UINT64_C(1) << (out / 2 * 3 + (out % 2 ? 2 : 0));
}
static clade_status update_emit(clade_emit *e, const clade_query *q) {
  for (int i = 0; i < q->node->n_out / 2; i++) {
    int64_t n = q->node->in[3 * i].shape.dim[0];
    clade_kernel_step *s = clade_emit_kernel(e, "update");
    for (int k = 0; k < 3; k++) clade_emit_in(s, 3 * i + k);
    clade_emit_in(s, q->node->n_in - 1);
    for (int k = 0; k < 2; k++) clade_emit_out(s, 2 * i + k);
    clade_emit_index(s, n);
    kit_range(s, n);
  }
  return CLADE_OK;
}
static const clade_impl update_impls[] = {{.name = "ref", .emit = update_emit}, {0}};
static const clade_op update = {
    .size = sizeof(clade_op),
    .name = "train.update",
    .min_in = 4,
    .max_in = CLADE_MAX_OPERANDS,
    .infer = update_infer,
    .in_place = update_in_place,
    .impls = update_impls,
    .outputs = update_outputs,
    .source = "KERNEL(update)(ARG(float, p), ARG(float, g), ARG(float, m), ARG(float, rate), ARG(float, p2),\n"
              "               ARG(float, m2), const index_t n) {\n"
              "  USE(float, p); USE(float, g); USE(float, m); USE(float, rate); USE(float, p2); USE(float, m2);\n"
              "  index_t i = (index_t)get_global_id(0);\n"
              "  if (i >= n) return;\n"
              "  const float moment = m[i] + g[i];\n"
              "  m2[i] = moment;\n"
              "  p2[i] = p[i] + rate[0] * moment;\n"
              "}\n"};

/* (a + b, a - b) at once, in place of both */
static clade_status both_emit(clade_emit *e, const clade_query *q) {
  clade_kernel_step *s = clade_emit_kernel(e, "both");
  for (int k = 0; k < 2; k++) clade_emit_in(s, k);
  for (int k = 0; k < 2; k++) clade_emit_out(s, k);
  clade_emit_index(s, kit_count(q));
  kit_range(s, kit_count(q));
  return CLADE_OK;
}
static const clade_impl both_impls[] = {{.name = "ref", .emit = both_emit}, {0}};
static const clade_op both = {
    .size = sizeof(clade_op),
    .name = "train.both",
    .min_in = 2,
    .max_in = 2,
    .n_out = 2,
    .infer = kit_same,
    .in_place = kit_all,
    .impls = both_impls,
    .source = "KERNEL(both)(ARG(float, a), ARG(float, b), ARG(float, y), ARG(float, z), const index_t n) {\n"
              "  USE(float, a); USE(float, b); USE(float, y); USE(float, z);\n"
              "  index_t i = (index_t)get_global_id(0);\n"
              "  if (i >= n) return;\n"
              "  const float sum = a[i] + b[i], difference = a[i] - b[i];\n"
              "  y[i] = sum, z[i] = difference;\n"
              "}\n"};

static bool writes_variable(const char *steps, int index) {
  for (const char *line = steps; *line; line = strchr(line, '\n') + 1) {
    check_use use[CLADE_MAX_OPERANDS];
    int n = check_uses(line, " writes ", use, CLADE_MAX_OPERANDS);
    for (int i = 0; i < n; i++)
      if (strncmp(strchr(line, ' '), " kernel", 7) == 0 && strcmp(use[i].space, "variable") == 0 &&
          use[i].index == index)
        return true;
  }
  return false;
}

/* Many variables and moments through one node: as many launches as pairs, no copy, and nothing in the arena. */
static void many_at_once(void **state) {
  enum { PAIRS = 21, N = 40 };
  clade_graph *g = graph_new();
  clade_val in[3 * PAIRS + 1], out[2 * PAIRS];
  char name[32];
  for (int i = 0; i < PAIRS; i++) {
    snprintf(name, sizeof name, "p%d", i);
    in[3 * i] = clade_variable(g, name, CLADE_F32, CLADE_SHAPE(N), (clade_initial){CLADE_INIT_FILL, i, 0});
    snprintf(name, sizeof name, "g%d", i);
    in[3 * i + 1] = clade_input(g, name, CLADE_F32, CLADE_SHAPE(N));
    snprintf(name, sizeof name, "m%d", i);
    in[3 * i + 2] = clade_variable(g, name, CLADE_F32, CLADE_SHAPE(N), (clade_initial){0});
  }
  in[3 * PAIRS] = clade_variable(g, "rate", CLADE_F32, CLADE_SHAPE(1), (clade_initial){CLADE_INIT_FILL, 0.5, 0});
  clade_node_add(g, &update, NULL, NULL, 3 * PAIRS + 1, in, out);
  for (int i = 0; i < PAIRS; i++) {
    clade_assign(g, in[3 * i], out[2 * i]);
    clade_assign(g, in[3 * i + 2], out[2 * i + 1]);
  }
  clade_func *func = compiled(g, *state);
  clade_func_info info = {.size = sizeof info};
  check_plan(func, *state);
  OK(clade_func_get_info(func, &info));
  assert_int_equal(info.steps, PAIRS);
  assert_int_equal(info.arena_bytes, 0);
  clade_vars *vars;
  clade_run *run;
  clade_ticket ticket;
  OK(clade_vars_new(func, 0, &vars));
  OK(clade_run_new(func, vars, &run));
  float grad[N], have[N];
  clade_feed feeds[PAIRS];
  char names[PAIRS][8];
  for (int i = 0; i < N; i++) grad[i] = (float)i;
  for (int i = 0; i < PAIRS; i++) {
    snprintf(names[i], sizeof names[i], "g%d", i);
    feeds[i] = (clade_feed){names[i], grad, sizeof grad, NULL};
  }
  for (int step = 0; step < 3; step++) OK(clade_execute(run, PAIRS, feeds, &ticket));
  OK(clade_wait(run, ticket));
  for (int i = 0; i < PAIRS; i++) { /* moments 1, 2, 3 times g; so p grows by half of six times g */
    snprintf(name, sizeof name, "p%d", i);
    OK(clade_vars_get(vars, name, have, sizeof have));
    assert_floats(have, N, (float)i, 3);
    snprintf(name, sizeof name, "m%d", i);
    OK(clade_vars_get(vars, name, have, sizeof have));
    assert_floats(have, N, 0, 3);
  }
  clade_run_free(run);
  clade_vars_release(vars);
  clade_func_release(func);
}

/* What two outputs may both take over goes to one of them, also where nobody uses that one. */
static void one_taker(void **state) {
  enum { N = 30 };
  for (int used = 1; used < 4; used++) {
    clade_graph *g = graph_new();
    clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N)), in[2] = {fresh(g, x, 1, 0), x}, out[2];
    clade_node_add(g, &both, NULL, NULL, 2, in, out);
    if (used & 1) clade_output(g, "y", fresh(g, out[0], 1, 0));
    if (used & 2) clade_output(g, "z", fresh(g, out[1], 1, 0));
    clade_func *func = compiled(g, *state);
    clade_func_info info = {.size = sizeof info};
    assert_true(check_plan(func, *state) <= 1.1);
    OK(clade_func_get_info(func, &info));
    assert_int_equal(info.arena_bytes, 256); /* the second output has nothing to take over */
    clade_run *run;
    clade_ticket ticket;
    float data[N], have[N];
    OK(clade_run_new(func, NULL, &run));
    for (int i = 0; i < N; i++) data[i] = (float)i;
    OK(clade_execute(run, CLADE_FEEDS({"x", data, sizeof data, NULL}), &ticket));
    if (used & 1) OK(clade_read(run, ticket, "y", have, sizeof have));
    if (used & 1) assert_floats(have, N, 0, 2);
    if (used & 2) OK(clade_read(run, ticket, "z", have, sizeof have));
    if (used & 2) assert_floats(have, N, 0, 0);
    clade_run_free(run);
    clade_func_release(func);
  }
}

/* Two variables that become one another's sum and difference, where they are. */
static void both_in_their_places(void **state) {
  enum { N = 30 };
  clade_graph *g = graph_new();
  clade_val v[2], out[2];
  for (int i = 0; i < 2; i++)
    v[i] = clade_variable(g, i ? "b" : "a", CLADE_F32, CLADE_SHAPE(N), (clade_initial){CLADE_INIT_FILL, 5 - 2 * i, 0});
  clade_node_add(g, &both, NULL, NULL, 2, v, out);
  for (int i = 0; i < 2; i++) clade_assign(g, v[i], out[i]);
  clade_func *func = compiled(g, *state);
  char *steps;
  OK(clade_func_steps(func, &steps));
  assert_true(writes_variable(steps, 0) && writes_variable(steps, 1));
  assert_null(strstr(steps, " copy "));
  clade_text_free(steps);
  clade_vars *vars;
  clade_run *run;
  clade_ticket ticket;
  float have[N];
  OK(clade_vars_new(func, 0, &vars));
  OK(clade_run_new(func, vars, &run));
  for (int i = 0; i < 2; i++) OK(clade_execute(run, 0, NULL, &ticket)); /* (5, 3), (8, 2), (10, 6) */
  OK(clade_wait(run, ticket));
  OK(clade_vars_get(vars, "a", have, sizeof have));
  assert_floats(have, N, 10, 0);
  OK(clade_vars_get(vars, "b", have, sizeof have));
  assert_floats(have, N, 6, 0);
  clade_run_free(run);
  clade_vars_release(vars);
  clade_func_release(func);
}

/* Views of what dies, derivatives of elementwise functions and sums of gradients take over the memory of an operand. */
static void in_place(void **state) {
  enum { N = 4096 };
  for (int fused = 0; fused < 2; fused++) {
    clade_graph *g = graph_new();
    clade_val v = clade_variable(g, "v", CLADE_F32, CLADE_SHAPE(N), (clade_initial){0}), dv;
    clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N));
    clade_val h = clade_reshape(g, clade_mul(g, clade_mul(g, v, x), x), CLADE_SHAPE(64, N / 64));
    clade_val t = clade_tanh(g, h), s = clade_softmax(g, clade_add(g, clade_mul(g, t, t), t), 1); /* t three times */
    s = clade_softmax(g, clade_reshape(g, s, CLADE_SHAPE(N / 64, 64)), 1);
    OK(clade_gradients(g, clade_relu(g, s), (clade_val){0}, 1, &v, &dv));
    clade_assign(g, v, clade_sub(g, v, dv));
    clade_func *func = NULL;
    char *steps;
    OK(clade_compile(g, *state, &func, .no_fusion = !fused));
    OK(clade_func_steps(func, &steps));
    assert_int_equal(check_not_in_place(steps), 0);
    assert_true(writes_variable(steps, 0));
    assert_null(strstr(steps, " copy "));
    assert_true(check_plan(func, *state) <= 1.0);
    clade_text_free(steps);
    clade_func_release(func);
    clade_graph_release(g);
  }
  assert_int_equal(check_not_in_place("0 kernel eltwise_x reads - writes c1@arena:0:0:64 workspace -\n"
                                      "1 kernel eltwise_x reads c1@arena:0:0:64 writes c2@arena:0:64:64 workspace -\n"),
                   1);
}

/* ---- whole steps: forward, backward, update ---- */
/* An op of which only the memory matters: `n` elements out of any operands, by way of a workspace. Its derivative reads
 * what `needs` says. These graphs are planned and never run, so that their kernels are empty. */
enum { NEEDS_NOTHING, NEEDS_IN, NEEDS_OUT };
typedef struct any_attrs {
  int64_t n, workspace;
  int32_t needs, take; /* take: the operand whose memory may be taken over; -1: none */
} any_attrs;
static const clade_attr any_table[] = {{"n", CLADE_ATTR_I64, offsetof(any_attrs, n), 1},
                                       {"workspace", CLADE_ATTR_I64, offsetof(any_attrs, workspace), 1},
                                       {"needs", CLADE_ATTR_I32, offsetof(any_attrs, needs), 1},
                                       {"take", CLADE_ATTR_I32, offsetof(any_attrs, take), 1},
                                       {0}};
static clade_val any(clade_graph *g, const any_attrs *attrs, int n, const clade_val *in);

static clade_status any_infer(clade_node *n) {
  n->out[0] = (clade_type){.dtype = CLADE_F32, .shape = CLADE_SHAPE(((const any_attrs *)n->attrs)->n)};
  return CLADE_OK;
}
static clade_status any_grad(clade_grad *g) {
  const any_attrs *a = g->node->attrs;
  for (int i = 0; i < g->node->n_in; i++) {
    clade_val in[CLADE_MAX_OPERANDS] = {g->dout[0]};
    int n = 1;
    if (!g->wanted[i]) continue;
    if (a->needs == NEEDS_OUT) in[n++] = g->out[0];
    for (int k = 0; a->needs == NEEDS_IN && k < g->node->n_in; k++) /* dw of x, dx of w */
      if (k != i || g->node->n_in == 1) in[n++] = g->in[k];
    any_attrs own = {.n = g->node->in[i].shape.dim[0], .workspace = a->workspace, .take = -1};
    if (own.n == a->n && a->needs != NEEDS_IN) own.take = 0;
    g->din[i] = a->needs == NEEDS_NOTHING && own.n == a->n ? g->dout[0] : any(g->graph, &own, n, in);
  }
  return CLADE_OK;
}
static uint64_t any_in_place(const clade_node *n, int out) {
  (void)out;
  int32_t take = ((const any_attrs *)n->attrs)->take;
  return take < 0 ? 0 : UINT64_C(1) << take;
}
static size_t any_workspace(const clade_query *q) { return (size_t)((const any_attrs *)q->node->attrs)->workspace; }
static clade_status any_emit(clade_emit *e, const clade_query *q) {
  static const char *const kernels[] = {"any2", "any3", "any4", "any5"}; /* by what they touch */
  clade_kernel_step *s = clade_emit_kernel(e, kernels[q->node->n_in - 1 + (any_workspace(q) > 0)]);
  for (int i = 0; i < q->node->n_in; i++) clade_emit_in(s, i);
  clade_emit_out(s, 0);
  if (any_workspace(q)) clade_emit_workspace(s, 0, 1);
  kit_range(s, 16);
  return CLADE_OK;
}
static const clade_impl any_impls[] = {{.name = "ref", .workspace = any_workspace, .emit = any_emit}, {0}};
static const clade_op any_op = {.size = sizeof(clade_op),
                                .name = "train.any",
                                .min_in = 1,
                                .max_in = CLADE_MAX_OPERANDS,
                                .n_out = 1,
                                .attr_bytes = sizeof(any_attrs),
                                .attrs = any_table,
                                .infer = any_infer,
                                .grad = any_grad,
                                .in_place = any_in_place,
                                .impls = any_impls,
                                .source =
                                    "KERNEL(any2)(ARG(float, a), ARG(float, b)) {}\n"
                                    "KERNEL(any3)(ARG(float, a), ARG(float, b), ARG(float, c)) {}\n"
                                    "KERNEL(any4)(ARG(float, a), ARG(float, b), ARG(float, c), ARG(float, d)) {}\n"
                                    "KERNEL(any5)(ARG(float, a), ARG(float, b), ARG(float, c), ARG(float, d),\n"
                                    "             ARG(float, e)) {}\n"};
static clade_val any(clade_graph *g, const any_attrs *attrs, int n, const clade_val *in) {
  return clade_node_add(g, &any_op, NULL, attrs, n, in, NULL);
}

/* A model being built, with its parameters. */
enum { MOST_PARAMETERS = 400 };
typedef struct network {
  clade_graph *g;
  clade_val parameter[MOST_PARAMETERS];
  int n;
} network;

static clade_val parameter(network *m, int64_t n) {
  char name[16];
  snprintf(name, sizeof name, "p%d", m->n);
  assert_true(m->n < MOST_PARAMETERS);
  return m->parameter[m->n++] = clade_variable(m->g, name, CLADE_F32, CLADE_SHAPE(n), (clade_initial){0});
}
static clade_val layer(network *m, clade_val x, int64_t weights, int64_t n, int64_t workspace) {
  clade_val in[2] = {x, parameter(m, weights)};
  return any(m->g, &(any_attrs){.n = n, .workspace = workspace, .needs = NEEDS_IN, .take = -1}, 2, in);
}
static int64_t length(const network *m, clade_val x) {
  clade_type type;
  OK(clade_val_type(m->g, x, &type));
  return type.shape.dim[0];
}
static clade_val activation(network *m, clade_val x) {
  return any(m->g, &(any_attrs){.n = length(m, x), .needs = NEEDS_OUT}, 1, &x);
}
static clade_val normal(network *m, clade_val x, int64_t channels) {
  clade_val in[2] = {x, parameter(m, channels)};
  return any(m->g, &(any_attrs){.n = length(m, x), .needs = NEEDS_IN, .take = -1}, 2, in);
}
static clade_val sum_of(network *m, clade_val a, clade_val b) {
  return any(m->g, &(any_attrs){.n = length(m, a), .needs = NEEDS_NOTHING}, 2, (clade_val[]){a, b});
}

/* Momentum over groups of all parameters, in their places. */
static void learn(network *m, clade_val loss) {
  static clade_val grads[MOST_PARAMETERS];
  enum { GROUP = (CLADE_MAX_OPERANDS - 1) / 3 };
  clade_val rate = clade_variable(m->g, "rate", CLADE_F32, CLADE_SHAPE(1), (clade_initial){0});
  OK(clade_gradients(m->g, loss, (clade_val){0}, m->n, m->parameter, grads));
  for (int first = 0; first < m->n; first += GROUP) {
    clade_val in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
    int n = m->n - first < GROUP ? m->n - first : GROUP;
    for (int i = 0; i < n; i++) {
      char name[16];
      snprintf(name, sizeof name, "m%d", first + i);
      in[3 * i] = m->parameter[first + i];
      in[3 * i + 1] = grads[first + i];
      in[3 * i + 2] = clade_variable(m->g, name, CLADE_F32, CLADE_SHAPE(length(m, in[3 * i])), (clade_initial){0});
    }
    in[3 * n] = rate;
    clade_node_add(m->g, &update, NULL, NULL, 3 * n + 1, in, out);
    for (int i = 0; i < n; i++) {
      clade_assign(m->g, in[3 * i], out[2 * i]);
      clade_assign(m->g, in[3 * i + 2], out[2 * i + 1]);
    }
  }
  clade_output(m->g, "loss", loss);
}

static double plan_step(network *m, clade_device *device, const char *what) {
  clade_func *func = compiled(m->g, device);
  double ratio = check_plan(func, device);
  clade_func_info info = {.size = sizeof info};
  OK(clade_func_get_info(func, &info));
  if (what)
    print_message("%s: %d steps, arena %" PRIu64 ", %.3f of the bound\n", what, info.steps, info.arena_bytes, ratio);
  clade_func_release(func);
  return ratio;
}

static network network_new(int64_t n, clade_val *x) {
  network m = {.g = graph_new()};
  *x = clade_input(m.g, "x", CLADE_F32, CLADE_SHAPE(n));
  return m;
}

static void perceptron(clade_device *device, int batch, int depth) {
  clade_val x;
  network m = network_new(batch * 784, &x);
  for (int i = 0; i < depth; i++) x = activation(&m, layer(&m, x, i ? 256 * 256 : 784 * 256, batch * 256, 0));
  learn(&m, layer(&m, x, 2560, 1, 0));
  char what[48];
  snprintf(what, sizeof what, "perceptron of %d layers, batch %d", depth, batch);
  double ratio = plan_step(&m, device, what);
  assert_true(ratio <= 1.1);
}

/* The shape of ResNet-18 for 32x32 images. */
static void residual(clade_device *device, int batch) {
  int64_t channels = 64, size = 32 * 32;
  clade_val x;
  network m = network_new(batch * 3 * 32 * 32, &x);
  x = activation(&m, normal(&m, layer(&m, x, 3 * 64 * 9, batch * channels * size, 0), channels));
  for (int stage = 0; stage < 4; stage++)
    for (int block = 0; block < 2; block++) {
      int64_t from = channels;
      clade_val skip = x;
      if (stage && !block) channels *= 2, size /= 4;
      int64_t n = batch * channels * size;
      x = activation(&m, normal(&m, layer(&m, x, from * channels * 9, n, channels * from * 36), channels));
      x = normal(&m, layer(&m, x, channels * channels * 9, n, channels * channels * 36), channels);
      if (from != channels) skip = normal(&m, layer(&m, skip, from * channels, n, 0), channels);
      x = activation(&m, sum_of(&m, x, skip));
    }
  x = any(m.g, &(any_attrs){.n = batch * channels, .take = -1}, 1, &x);
  learn(&m, layer(&m, x, channels * 10, 1, 0));
  char what[48];
  snprintf(what, sizeof what, "ResNet-18, batch %d", batch);
  double ratio = plan_step(&m, device, what);
  assert_true(ratio <= 1.1);
}

static void training_steps(void **state) {
  perceptron(*state, 64, 3);
  perceptron(*state, 512, 12);
  for (int batch = 1; batch <= 64; batch *= 4) residual(*state, batch);
}

static void random_steps(void **state) {
  double worst = 0;
  for (int round = 0; round < 150; round++) {
    clade_val x, at[40];
    network m = network_new(1 + draw(3000), &x);
    int n = 4 + (int)draw(36);
    at[0] = x;
    for (int i = 1; i < n; i++) {
      clade_val from = at[draw(4) ? i - 1 : (int)draw((unsigned)i)];
      int64_t size = draw(2) ? length(&m, from) : 1 + (int64_t)draw(draw(4) ? 500 : 20000);
      switch (draw(6)) {
      case 0: at[i] = activation(&m, from); break;
      case 1: at[i] = normal(&m, from, 16); break;
      case 2:
      case 3:
        for (int k = i - 1; k >= 0; k--)
          if (at[k].id != from.id && length(&m, at[k]) == length(&m, from)) {
            from = sum_of(&m, from, at[k]);
            break;
          }
        at[i] = activation(&m, from);
        break;
      default: at[i] = layer(&m, from, 1 + draw(3000), size, draw(3) ? 0 : 4 * (int64_t)draw(3000)); break;
      }
    }
    learn(&m, layer(&m, at[n - 1], 64, 1, 0));
    double ratio = plan_step(&m, *state, NULL);
    worst = ratio > worst ? ratio : worst;
  }
  print_message("worst of 150 random steps: %.3f of the bound\n", worst);
  assert_true(worst <= 1.1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(many_at_once), cmocka_unit_test(one_taker),      cmocka_unit_test(both_in_their_places),
      cmocka_unit_test(in_place),     cmocka_unit_test(training_steps), cmocka_unit_test(random_steps),
  };
  return cmocka_run_group_tests_name("plan_train", tests, open_device, close_device);
}
