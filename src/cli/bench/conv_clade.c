/* Clade's contestants for convolutions: dense NCHW, and operands and results in preferred layouts. */
#include <math.h>
#include <stdio.h>

#include "cli/bench/conv.h"
#include "pass/pass.h"

enum { MOST_WAYS = 8, TRIES = 3 };

const char *const bench_conv_ops[] = {"conv2d", "conv2d_data", "conv2d_weights"};
/* Operands of each op, followed by its result. */
static const bench_role roles[3][BENCH_ROLES] = {
    {BENCH_X, BENCH_W, BENCH_Y}, {BENCH_Y, BENCH_W, BENCH_X}, {BENCH_X, BENCH_Y, BENCH_W}};

static bool is_result(const bench_conv_work *w, int role) { return role == (int)bench_conv_result(w); }

static clade_type type_of(const bench_conv_data *d, int role) {
  return (clade_type){
      .dtype = bench_conv_type(d->work, role), .layout = d->layout[role], .shape = d->work->shape[role]};
}

clade_val bench_convolve(clade_graph *g, const bench_conv_work *w, clade_val x, clade_val weight) {
  const bench_axis *a = &w->along[BENCH_AXES - 1]; /* all axes have the same window */
  const int stride = (int)a->stride, pad = (int)a->pad, dilation = (int)a->dilation, groups = (int)w->groups;
  if (w->axes == 1)
    return clade_conv1d(g, x, weight, .stride = stride, .pad = pad, .dilation = dilation, .groups = groups);
  if (w->axes == 2)
    return clade_conv2d(g, x, weight, .stride = {stride, stride}, .pad = {pad, pad}, .dilation = {dilation, dilation},
                        .groups = groups);
  return clade_conv3d(g, x, weight, .stride = {stride, stride, stride}, .pad = {pad, pad, pad},
                      .dilation = {dilation, dilation, dilation}, .groups = groups);
}

/* The variable of a tensor in a call. The tensor that is the result of this pass becomes an unused variable:
 * clade_gradients needs it only for its shape. */
static clade_val operand(bench_clade *c, const bench_conv_data *d, int role, int call) {
  static const char letter[] = "xwy";
  clade_type type = type_of(d, role);
  char name[24];
  size_t bytes;
  snprintf(name, sizeof name, "%c%d", letter[role], call);
  if (is_result(d->work, role))
    return clade_variable(c->graph, name, type.dtype, type.shape, (clade_initial){CLADE_INIT_ZERO, 0, 0});
  if (clade_type_bytes(&type, &bytes)) return (clade_val){0};
  const void *data = (char *)d->raw[role] + (size_t)call * bytes;
  if (role == BENCH_W) return bench_variable(c, name, type.dtype, type.shape, data, BENCH_WEIGHT);
  return bench_laid(c, name, &type, data);
}

clade_status bench_conv_build(const void *work, bench_clade *c) {
  const bench_conv_data *d = work;
  const bench_conv_work *w = d->work;
  clade_val v[BENCH_ROLES] = {{0}}, result;
  char name[24];
  c->out = type_of(d, (int)bench_conv_result(w));
  c->out_elements = w->elements[bench_conv_result(w)];
  c->prefer = d->prefer;
  for (int i = 0; i < (int)w->chain; i++) {
    for (int role = 0; role < BENCH_ROLES; role++) {
      bool once = role == BENCH_W || is_result(w, role);
      if (!(once && i) && !(w->pass == BENCH_FORWARD && role == BENCH_Y)) v[role] = operand(c, d, role, i);
    }
    result = bench_convolve(c->graph, w, v[BENCH_X], v[BENCH_W]);
    if (w->pass != BENCH_FORWARD)
      CLADE_TRY(clade_gradients(c->graph, result, v[BENCH_Y], 1, &v[bench_conv_result(w)], &result));
    if (c->out.layout.block) result = clade_pack(c->graph, result, c->out.layout);
    snprintf(name, sizeof name, "y%d", i);
    clade_output(c->graph, name, result);
  }
  return CLADE_OK;
}

/* ---- preferred layouts ---- */
typedef struct way {
  char prefer[96];
  clade_layout layout[BENCH_ROLES];
} way;

/* Fills in the layouts that an implementation prefers for the node. false: it refuses, or prefers dense ones only. */
static bool ask(const clade_device_info *device, const bench_conv_work *w, const clade_impl *impl, int alternative,
                const clade_node *node, way *out) {
  clade_query q = {sizeof q, node, device, NULL};
  clade_layout at[BENCH_ROLES] = {{0}};
  int32_t config[CLADE_MAX_PARAMS];
  bool blocked = false;
  clade__query_alternative(&q, impl, alternative, config);
  if (!impl->layouts || clade__impl_unfit(impl, &q)) return false;
  impl->layouts(&q, at, at + 2);
  snprintf(out->prefer, sizeof out->prefer, "%s=%s/%d", bench_conv_ops[w->pass], impl->name, alternative);
  for (int i = 0; i < BENCH_ROLES; i++) {
    bench_role role = roles[w->pass][i];
    bool weight = role == BENCH_W && !is_result(w, (int)role);
    out->layout[role] = weight ? (clade_layout){0} : at[i];
    blocked |= out->layout[role].block > 0;
  }
  return blocked;
}

/* All implementations of the node with a blocked layout. One and three axes have none: the op's operands are there
 * reshaped or unfolded. */
static int find_ways(const bench_job *job, const bench_conv_work *w, const clade_graph *g, way ways[MOST_WAYS]) {
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_node node;
  int n = 0;
  clade__id id = 1;
  clade_device_info device = {.size = sizeof device}; /* with its matrix units, which were asked for meanwhile */
  if (clade_device_get_info(job->device, &device) != CLADE_OK) return 0;
  while (id < g->n_nodes && strcmp(g->nodes[id].op->name, bench_conv_ops[w->pass])) id++;
  if (id == g->n_nodes || w->axes != 2) return 0;
  clade__node_view(g, id, in, out, &node);
  for (const clade_impl *const *impl = clade__impls(node.op); *impl; impl++)
    for (int a = 0; a < clade__alternatives(*impl) && n < MOST_WAYS; a++)
      n += ask(&device, w, *impl, a, &node, &ways[n]);
  return n;
}

static void show_layouts(const way *it, char *text, size_t size) {
  static const char letter[] = "xwy";
  size_t at = 0;
  for (int i = 0; i < BENCH_ROLES && at < size; i++) {
    clade_layout l = it->layout[i];
    if (!l.block) continue;
    at += (size_t)snprintf(text + at, size - at, "%s%c axis %d in blocks of %d", at ? ", " : "", letter[i], l.axis,
                           l.block);
    if (l.interleave > 1 && at < size) at += (size_t)snprintf(text + at, size - at, " by %d", l.interleave);
  }
}

static clade_status lay(const bench_conv_data *dense, const way *it, bench_conv_data *out) {
  *out = *dense;
  out->prefer = it->prefer;
  memcpy(out->layout, it->layout, sizeof out->layout);
  for (int role = 0; role < BENCH_ROLES; role++)
    if (out->layout[role].block) out->raw[role] = NULL;
  for (int role = 0; role < BENCH_ROLES; role++) {
    clade_type type = type_of(out, role), plain = type_of(dense, role);
    int64_t n = bench_conv_count(dense->work, role);
    size_t from, to;
    if (!type.layout.block || is_result(dense->work, role)) continue;
    CLADE_TRY(clade_type_bytes(&plain, &from));
    CLADE_TRY(clade_type_bytes(&type, &to));
    if (!(out->raw[role] = clade__new((size_t)n, to))) return CLADE_NO_MEMORY;
    for (int64_t i = 0; i < n; i++)
      bench_pack(&type, (char *)dense->raw[role] + (size_t)i * from, (char *)out->raw[role] + (size_t)i * to);
  }
  return CLADE_OK;
}

static clade_status seconds_of(const bench_side *side, double *best) {
  *best = INFINITY;
  for (int i = 0; i < TRIES; i++) {
    CLADE_TRY(side->refresh(side->state));
    double start = clade__now();
    CLADE_TRY(side->call(side->state));
    *best = fmin(*best, clade__now() - start);
  }
  return CLADE_OK;
}

static void forget(bench_conv_data *d, bench_side *side) {
  if (side->free) side->free(side->state);
  *side = (bench_side){0};
  for (int i = 0; i < BENCH_ROLES; i++) {
    if (d->layout[i].block) clade__free(d->raw[i]);
    d->layout[i] = (clade_layout){0};
  }
}

void bench_conv_own_free(bench_conv_data *own) { forget(own, &(bench_side){0}); }

/* Measures an implementation and keeps it if it is faster than the best one. */
static clade_status try(const bench_job *job, const bench_conv_data *dense, const way *it, double *best,
                        bench_conv_data *own, bench_side *side, bool *better) {
  bench_conv_data data = {0};
  bench_side one = {0};
  double seconds = INFINITY;
  clade_status status = lay(dense, it, &data);
  if (status == CLADE_OK) status = bench_clade_side(job, bench_conv_build, &data, &one);
  if (status == CLADE_OK) status = seconds_of(&one, &seconds);
  *better = status == CLADE_OK && seconds < *best;
  if (*better) {
    *best = seconds;
    forget(own, side);
    *own = data;
    *side = one;
  } else {
    forget(&data, &one);
  }
  return status;
}

clade_status bench_conv_own(const bench_job *job, const bench_conv_data *dense, const bench_side *nchw,
                            bench_conv_data *own, bench_side *side, bench_row *row) {
  const bench_clade *c = nchw->state;
  way ways[MOST_WAYS];
  int n = find_ways(job, dense->work, c->graph, ways);
  double best;
  bool better;
  row->own.impl[0] = 0;
  CLADE_TRY(seconds_of(nchw, &best));
  for (int i = 0; i < n; i++) {
    CLADE_TRY(try(job, dense, &ways[i], &best, own, side, &better));
    if (!better) continue;
    const char *impl = strchr(ways[i].prefer, '=') + 1;
    snprintf(row->own.impl, sizeof row->own.impl, "%.*s", (int)strcspn(impl, "/"), impl);
    show_layouts(&ways[i], row->own.layouts, sizeof row->own.layouts);
  }
  if (*row->own.impl) side->name = "clade_own", side->ours = true;
  return CLADE_OK;
}
