/* Random graphs computed in slices give the results of the whole. `tensor_graphs 200 [first]` sets their number. */
#include "tensor_kit.h"

enum { POOL = 6, LONGEST = 400 };

typedef struct drawing {
  tk_model *m;
  uint64_t state;
  clade_val pool[POOL];
  int n, layer;
} drawing;

static uint64_t next(drawing *d) {
  d->state += 0x9E3779B97F4A7C15u;
  uint64_t z = d->state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}
static int below(drawing *d, int n) { return (int)(next(d) % (uint64_t)n); }

static clade_shape shape_of(const drawing *d, clade_val v) {
  clade_type type = {0};
  OK(clade_val_type(d->m->g, v, &type));
  return type.shape;
}

static int64_t length(const clade_shape *s) {
  int64_t n = 1;
  for (int i = 0; i < s->rank; i++) n *= s->dim[i];
  return n;
}

static const char *name(drawing *d, char text[32]) {
  snprintf(text, 32, "layer%d", d->layer++);
  return text;
}

static clade_val any(drawing *d) { return d->pool[below(d, d->n)]; }

static clade_val keep(drawing *d, clade_val v) {
  const clade_shape s = shape_of(d, v);
  if (length(&s) > LONGEST) v = clade_mean(d->m->g, v, .n_axes = 1, .axes = {below(d, s.rank)}, .keep = true);
  d->pool[d->n < POOL ? d->n++ : below(d, POOL)] = v;
  if (d->m->marks && below(d, 4) == 0) {
    const clade_shape t = shape_of(d, v);
    if (t.rank) clade_graph_split(d->m->g, v, below(d, t.rank));
  }
  return v;
}

/* ---- generators ---- */
static clade_val linear(drawing *d, clade_val x) {
  char text[32];
  return clade_nn_linear(d->m->g, name(d, text), x, .out = 2 + below(d, 9), .no_bias = below(d, 3) == 0);
}

static clade_val unary(drawing *d, clade_val x) {
  clade_graph *g = d->m->g;
  switch (below(d, 5)) {
  case 0: return clade_tanh(g, x);
  case 1: return clade_gelu(g, x);
  case 2: return clade_mul(g, x, clade_fill(g, CLADE_F32, shape_of(d, x), 0.5));
  case 3: return clade_select(g, clade_gt(g, x, clade_fill(g, CLADE_F32, CLADE_SCALAR, 0)), x, clade_tanh(g, x));
  default: return clade_sub(g, x, clade_stop_gradient(g, clade_sigmoid(g, x)));
  }
}

/* With a parameter over some of its axes, or another value over all. */
static clade_val binary(drawing *d, clade_val x) {
  clade_graph *g = d->m->g;
  const clade_shape s = shape_of(d, x);
  char text[32];
  for (int i = 0; i < d->n; i++) {
    const clade_shape t = shape_of(d, d->pool[i]);
    if (d->pool[i].id != x.id && clade_shape_equal(&s, &t) && below(d, 2)) return clade_add(g, x, d->pool[i]);
  }
  clade_shape t = {.rank = 1 + below(d, s.rank)};
  for (int i = 0; i < t.rank; i++) t.dim[i] = below(d, 3) ? s.dim[s.rank - t.rank + i] : 1;
  const clade_val p = clade_parameter(g, name(d, text), CLADE_F32, t, (clade_initial){CLADE_INIT_UNIFORM, -1, 1});
  return below(d, 2) ? clade_mul(g, x, p) : clade_add(g, x, p);
}

static clade_val other_shape(drawing *d, clade_val x) {
  clade_graph *g = d->m->g;
  const clade_shape s = shape_of(d, x);
  const int at = below(d, s.rank);
  clade_shape t = {0};
  for (int i = 0; i < s.rank; i++) {
    int64_t by = 0;
    for (int64_t k = 2; i == at && s.rank < 5 && k < s.dim[i]; k++)
      if (s.dim[i] % k == 0) by = k;
    if (by && below(d, 2)) {
      t.dim[t.rank++] = by;
      t.dim[t.rank++] = s.dim[i] / by;
    } else if (i == at && i + 1 < s.rank) {
      t.dim[t.rank++] = s.dim[i] * s.dim[i + 1];
      i++;
    } else {
      t.dim[t.rank++] = s.dim[i];
    }
  }
  return clade_reshape(g, x, t);
}

static clade_val permuted(drawing *d, clade_val x) {
  const clade_shape s = shape_of(d, x);
  int axes[CLADE_MAX_RANK] = {0};
  for (int i = 0; i < s.rank; i++) axes[i] = i;
  for (int i = s.rank - 1; i > 0; i--) {
    const int k = below(d, i + 1), a = axes[i];
    axes[i] = axes[k];
    axes[k] = a;
  }
  return clade_transpose(d->m->g, x, s.rank, axes);
}

static clade_val normalized(drawing *d, clade_val x) {
  clade_graph *g = d->m->g;
  const clade_shape s = shape_of(d, x);
  char text[32];
  if (below(d, 3) == 0) return clade_softmax(g, x, below(d, s.rank));
  if (s.dim[s.rank - 1] < 2) return x;
  if (s.rank >= 2 && s.dim[1] > 1 && s.dim[0] > 2 && below(d, 2)) return clade_nn_batch_norm(g, name(d, text), x);
  if (s.rank >= 3 && s.dim[1] % 2 == 0) return clade_nn_group_norm(g, name(d, text), x, .groups = (int)s.dim[1] / 2);
  return below(d, 2) ? clade_nn_layer_norm(g, name(d, text), x) : clade_nn_rms_norm(g, name(d, text), x);
}

static clade_val reduced(drawing *d, clade_val x) {
  clade_graph *g = d->m->g;
  const clade_shape s = shape_of(d, x);
  const clade_reduce_opt opt = {
      .size = sizeof opt, .x = x, .n_axes = 1, .axes = {below(d, s.rank)}, .keep = s.rank < 2 || below(d, 2)};
  switch (below(d, 3)) {
  case 0: return clade_sum_(g, &opt);
  case 1: return clade_mean_(g, &opt);
  default: return clade_reduce_max_(g, &opt);
  }
}

/* x times itself or a weight, batched over all but the last two axes. */
static clade_val product(drawing *d, clade_val x) {
  clade_graph *g = d->m->g;
  const clade_shape s = shape_of(d, x);
  char text[32];
  if (s.rank < 2) return linear(d, x);
  if (below(d, 2)) return clade_gemm(g, x, x, .trans_b = true, .alpha = 0.3f);
  const bool ta = below(d, 2), tb = below(d, 2);
  const int64_t k = s.dim[s.rank - (ta ? 2 : 1)], n = 2 + below(d, 7);
  clade_shape t = {.rank = 2, .dim = {tb ? n : k, tb ? k : n}};
  if (s.rank > 2 && below(d, 2)) t = (clade_shape){.rank = 3, .dim = {s.dim[s.rank - 3], t.dim[0], t.dim[1]}};
  const clade_val p = clade_parameter(g, name(d, text), CLADE_F32, t, (clade_initial){CLADE_INIT_UNIFORM, -0.6, 0.6});
  return clade_gemm(g, x, p, .trans_a = ta, .trans_b = tb);
}

static clade_val framed(drawing *d, clade_val x) {
  clade_graph *g = d->m->g;
  const clade_shape s = shape_of(d, x);
  const int at = below(d, s.rank);
  clade_shape begin = {.rank = s.rank}, size = s, none = {.rank = s.rank};
  if (below(d, 3) == 0) return clade_concat(g, 2, (clade_val[]){x, clade_tanh(g, x)}, at);
  begin.dim[at] = s.dim[at] / 3;
  if (below(d, 2)) return clade_pad(g, x, begin, none, 0.5);
  size.dim[at] -= begin.dim[at];
  return clade_slice(g, x, begin, size);
}

static clade_val spread(drawing *d, clade_val x) {
  clade_shape s = shape_of(d, x), t = {.rank = s.rank + 1, .dim = {2 + below(d, 4)}};
  if (s.rank > 3) return x;
  for (int i = 0; i < s.rank; i++) t.dim[i + 1] = s.dim[i];
  return clade_broadcast(d->m->g, x, t);
}

static clade_val picked(drawing *d, clade_val x) {
  clade_graph *g = d->m->g;
  const clade_shape s = shape_of(d, x);
  const int at = below(d, s.rank);
  int32_t ids[6];
  for (int i = 0; i < 6; i++) ids[i] = below(d, (int)s.dim[at] + 1); /* the last one is out of range */
  return clade_gather(g, x, clade_constant(g, CLADE_I32, CLADE_SHAPE(6), ids), .axis = at);
}

static clade_val window(drawing *d, clade_val x) {
  clade_graph *g = d->m->g;
  const clade_shape s = shape_of(d, x);
  char text[32];
  if (s.rank != 4) return other_shape(d, x);
  if (s.dim[2] < 2 || s.dim[3] < 2) return permuted(d, x);
  if (below(d, 3) == 0) return clade_max_pool2d(g, x, .kernel = {2, 2}, .stride = {1, 1});
  const int groups = s.dim[1] > 1 && below(d, 3) == 0 ? (int)s.dim[1] : 1;
  if (groups == 1 && below(d, 3) == 0)
    return clade_nn_conv2d_transpose(g, name(d, text), x, .out = 3 + below(d, 4), .kernel = {2, 2});
  return clade_nn_conv2d(g, name(d, text), x, .out = groups * (1 + below(d, 3)), .kernel = {2, 2}, .groups = groups);
}

static clade_val dropped(drawing *d, clade_val x) {
  char text[32];
  return clade_nn_dropout(d->m->g, name(d, text), x, .p = 0.3f);
}

static void draw(tk_model *m) {
  static clade_val (*const steps[])(drawing *, clade_val) = {linear,     unary,   binary, other_shape, permuted,
                                                             normalized, reduced, linear, window,      product,
                                                             framed,     spread,  picked, dropped};
  drawing d = {.m = m, .state = (uint64_t)m->number * 7919 + 1};
  clade_graph *g = m->g;
  const int rank = 2 + below(&d, 3);
  clade_shape s = {.rank = rank};
  for (int i = 0; i < rank; i++) s.dim[i] = 2 + below(&d, rank == 2 ? 9 : 4);
  keep(&d, tk_floats(m, "x", s));
  keep(&d, linear(&d, d.pool[0]));
  for (int i = 0, n = 5 + below(&d, 8); i < n && clade_graph_status(g) == CLADE_OK; i++) {
    const clade_val x = any(&d);
    const clade_shape of = shape_of(&d, x);
    if (of.rank) keep(&d, steps[below(&d, (int)CLADE_COUNT(steps))](&d, x));
  }
  clade_val loss = clade_fill(g, CLADE_F32, CLADE_SCALAR, 0.25);
  for (int i = 0; i < d.n; i++) {
    clade_val y = clade_tanh(g, d.pool[i]);
    loss = clade_add(g, loss,
                     clade_mean(g, clade_mul(g, y, clade_add(g, y, clade_fill(g, CLADE_F32, CLADE_SCALAR, 0.3)))));
  }
  clade_output(g, "loss", loss);
  OK(clade_graph_status(g));
}

/* Whether the requested axes can be split. */
static bool can_be_split(int number, int ranks, bool dear) {
  const tk_options o = {.ranks = ranks, .number = number, .marks = true, .dear = dear};
  clade_comm *comms[TK_MOST];
  OK(clade_comm_new_local(ranks, comms));
  tk_rank r = {.comm = comms[0], .build = draw, .o = &o};
  tk_model m = {0};
  clade_graph *g = NULL;
  const clade_status status = tk_graph(&r, &m, &g, NULL);
  if (status != CLADE_OK && !strstr(clade_last_error(), "clade_graph_split"))
    fail_msg("graph %d: %s", number, clade_last_error());
  clade_graph_release(g);
  tk_model_free(&m);
  for (int i = 0; i < ranks; i++) clade_comm_release(comms[i]);
  return status == CLADE_OK;
}

static int how_many = 3, first = 0;

static void graphs(void **state) {
  int parts = 0;
  for (int i = first; i < first + how_many; i++) {
    const int ranks = 2 + i % 3;
    const bool dear = i % 4 == 3;
    int own = 0;
    const tk_options o = {
        .ranks = ranks, .number = i, .dear = dear, .marks = i % 2 && can_be_split(i, ranks, dear), .gradients = 2e-4};
    if (getenv("TENSOR_EXPLAIN")) print_message("graph %d\n", i);
    tk_compare(*state, draw, &o, NULL, &own);
    parts += own > 0;
  }
  assert_true(parts > how_many / 4); /* otherwise nothing was tested */
}

int main(int argc, char **argv) {
  if (argc > 1) how_many = atoi(argv[1]);
  if (argc > 2) first = atoi(argv[2]);
  const struct CMUnitTest tests[] = {cmocka_unit_test(graphs)};
  return cmocka_run_group_tests(tests, open_device, close_device);
}
