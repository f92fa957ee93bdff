/* Work-group primitives (cl_kernels/prelude_group.cl) by an op of its own: sums, maximum with position, scans, for
 * teams of several sizes with adjacent or strided work-items, against C. */
#include <math.h>
#include <stdio.h>

#include <clade/nn.h>
#include <clade/ops.h>

#include "op/norm/batch_norm.h"
#include "op/update/update.h"
#include "pass/pass.h"
#include "plan_kit.h"

static const char source[] =
    "typedef struct { float v; int at; } FN(best);\n"
    "KERNEL(team)(ARG(const float, x), ARG(float, sums), ARG(float, most), ARG(int, places), ARG(int, upto),\n"
    "             ARG(int, before), ARG(float, copy), const index_t lines, const index_t n, const index_t inner) {\n"
    "  TEAM_ROOM(float2, pairs);\n"
    "  TEAM_ROOM(float, numbers);\n"
    "  TEAM_ROOM(FN(best), bests);\n"
    "  TEAM_ROOM(int, counts);\n"
    "  if (TEAM_FIRST >= lines) return;\n"
    "  USE(const float, x);\n"
    "  USE(float, sums); USE(float, most); USE(int, places); USE(int, upto); USE(int, before); USE(float, copy);\n"
    "  const bool own = TEAM_LINE < lines, whole = TEAM_WHOLE(x, n) && TEAM_WHOLE(copy, n);\n"
    "  const index_t line = (index_t)TEAM_LINE, count = own ? n : 0;\n"
    "  const index_t base = line / inner * n * inner + line % inner;\n"
    "  TEAM_FLOAT s = 0, lost = 0, top = -INFINITY;\n"
    "  FN(best) best = {-INFINITY, INT_MAX};\n"
    "  TEAM_FOR(i, count) {\n"
    "    const TEAM_FLOAT v = TEAM_LOAD(f32, x, base, i, count, inner, whole, 0.0f);\n"
    "    TEAM_TAKE(s, lost, v)\n"
    "    const TEAM_FLOAT w = TEAM_LOAD(f32, x, base, i, count, inner, whole, -INFINITY);\n"
    "    top = TEAM_LARGER(top, w);\n"
    "    for (int l = 0; l < TEAM_PIECE && i + l < count; l++) {\n"
    "      const FN(best) one = {x[base + (i + l) * inner], (int)(i + l)};\n"
    "      TEAM_FIRST_MOST(best, one)\n"
    "    }\n"
    "    TEAM_STORE(f32, copy, base, i, count, inner, whole, v);\n"
    "  }\n"
    "  float2 sum;\n"
    "  float largest = TEAM_LARGEST(top);\n"
    "  TEAM_PAIR(sum, s, lost);\n"
    "  TEAM_REDUCE(float2, sum, pairs, TEAM_ADD)\n"
    "  TEAM_REDUCE(float, largest, numbers, TEAM_MOST)\n"
    "  TEAM_REDUCE(FN(best), best, bests, TEAM_FIRST_MOST)\n"
    "  int up = (int)(line % 5) + 3 * TEAM_LANE, down = up;\n"
    "#define PLUS(a, b) { (a) += (b); }\n"
    "  TEAM_SCAN(int, up, counts, PLUS)\n"
    "  TEAM_SCAN_BEFORE(int, down, counts, PLUS, -1)\n"
    "#undef PLUS\n"
    "  if (own) {\n"
    "    upto[line * TEAM + TEAM_LANE] = up;\n"
    "    before[line * TEAM + TEAM_LANE] = down;\n"
    "  }\n"
    "  const int tells = own & (TEAM_LANE == TEAM - 1);\n" /* all work-items must have the result */
    "  if (tells) {\n"
    "    sums[line] = TEAM_TOTAL(sum);\n"
    "    most[line] = largest;\n"
    "    places[line] = best.at;\n"
    "  }\n"
    "}\n";

enum { SUMS, MOST, PLACES, UPTO, BEFORE, COPY, OUTPUTS };
static const char *const names[OUTPUTS] = {"sums", "most", "places", "upto", "before", "copy"};

typedef struct attrs {
  int32_t team, beside, spread;
} attrs;
static const clade_attr table[] = {{"team", CLADE_ATTR_I32, offsetof(attrs, team), 1},
                                   {"beside", CLADE_ATTR_I32, offsetof(attrs, beside), 1},
                                   {"spread", CLADE_ATTR_I32, offsetof(attrs, spread), 1},
                                   {0}};

static clade_status infer(clade_node *n) { /* [outer, n, inner] */
  const int64_t *dim = n->in[0].shape.dim, lines = dim[0] * dim[2], team = ((const attrs *)n->attrs)->team;
  for (int i = 0; i < OUTPUTS; i++)
    n->out[i] = (clade_type){.dtype = i < PLACES || i == COPY ? CLADE_F32 : CLADE_I32, .shape = CLADE_SHAPE(lines)};
  n->out[UPTO].shape = n->out[BEFORE].shape = CLADE_SHAPE(lines, team);
  n->out[COPY].shape = n->in[0].shape;
  return CLADE_OK;
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  const int64_t *dim = q->node->in[0].shape.dim;
  const attrs *a = q->node->attrs;
  clade_kernel_step *s = clade_emit_kernel(e, "team");
  clade_emit_in(s, 0);
  for (int i = 0; i < OUTPUTS; i++) clade_emit_out(s, i);
  clade_emit_index(s, dim[0] * dim[2]);
  clade_emit_index(s, dim[1]);
  clade_emit_index(s, dim[2]);
  clade__emit_groups(s, q, &(clade__group){a->team, a->beside, a->spread}, dim[0] * dim[2]);
  return CLADE_OK;
}

static const clade_impl *const impls[] = {CLADE_IMPL(.name = "group", .emit = emit), NULL};
static const clade_op team = {.size = sizeof team,
                              .name = "kit.team",
                              .min_in = 1,
                              .max_in = 1,
                              .n_out = OUTPUTS,
                              .attr_bytes = sizeof(attrs),
                              .attrs = table,
                              .infer = infer,
                              .impls = impls,
                              .source = source};

/* ---- reference in C ---- */
typedef struct wanted {
  double sum, size;
  float most;
  int place;
} wanted;
static wanted line_of(const float *x, int64_t n, int64_t inner) {
  wanted w = {.most = -INFINITY, .place = INT32_MAX};
  for (int64_t i = 0; i < n; i++) {
    float v = x[i * inner];
    w.sum += v;
    w.size += fabs(v);
    if (v > w.most || (isnan(v) && !isnan(w.most)) || w.place == INT32_MAX) w.most = v, w.place = (int)i;
  }
  return w;
}

static void compare(const attrs *a, int64_t outer, int64_t n, int64_t inner, const float *x, void *const *got) {
  const int64_t lines = outer * inner;
  char what[160];
  assert_memory_equal(got[COPY], x, (size_t)(lines * n) * sizeof(float));
  for (int64_t line = 0; line < lines; line++) {
    const wanted w = line_of(x + line / inner * n * inner + line % inner, n, inner);
    const float sum = ((float *)got[SUMS])[line], most = ((float *)got[MOST])[line];
    const int place = ((int *)got[PLACES])[line];
    snprintf(what, sizeof what, "teams of %d, %d beside, spread %d: line %d of [%d, %d, %d]", a->team, a->beside,
             a->spread, (int)line, (int)outer, (int)n, (int)inner);
    if (isnan(w.sum) ? !isnan(sum) : isinf(w.sum) ? sum != w.sum : fabs(sum - w.sum) > 0x1p-23 * w.size)
      fail_msg("%s: the sum is %.9g instead of %.9g", what, (double)sum, w.sum);
    if (isnan(w.most) ? !isnan(most) : most != w.most)
      fail_msg("%s: the largest is %g instead of %g", what, (double)most, (double)w.most);
    if (place != w.place) fail_msg("%s: the largest is at %d instead of %d", what, place, w.place);
    for (int lane = 0, all = 0; lane < a->team; lane++) {
      const int up = ((int *)got[UPTO])[line * a->team + lane], down = ((int *)got[BEFORE])[line * a->team + lane];
      if (down != (lane ? all : -1)) fail_msg("%s: before lane %d there are %d instead of %d", what, lane, down, all);
      all += (int)(line % 5) + 3 * lane;
      if (up != all) fail_msg("%s: up to lane %d there are %d instead of %d", what, lane, up, all);
    }
  }
}

/* Summands that differ by 2^60, so that plain additions lose most of them. Ties, and NaN in some lines. */
static void fill(float *x, int64_t elements, uint32_t seed) {
  for (int64_t i = 0; i < elements; i++) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = (float)(int)(seed >> 20) / 64 - 32;
    if (seed >> 8 % 32 & 1 && seed % 7 == 0) x[i] = ldexpf(x[i], (int)(seed >> 10 & 31));
  }
  for (int64_t i = 3; i < elements; i += 171) x[i] = i % 5 == 0 ? NAN : i % 5 == 1 ? INFINITY : x[i];
}

static void check(clade_device *device, const attrs *a, int64_t outer, int64_t n, int64_t inner) {
  const int64_t elements = outer * n * inner;
  float *x = calloc((size_t)elements + 1, sizeof *x);
  void *got[OUTPUTS];
  clade_graph *g = graph_new();
  clade_val in = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(outer, n, inner)), out[OUTPUTS];
  clade_run *run;
  clade_ticket ticket;
  clade_node_add(g, &team, NULL, a, 1, &in, out);
  for (int i = 0; i < OUTPUTS; i++) clade_output(g, names[i], out[i]);
  clade_func *func = compiled(g, device);
  OK(clade_run_new(func, NULL, &run));
  fill(x, elements, (uint32_t)(elements + a->team));
  OK(clade_execute(run, CLADE_FEEDS({"x", x, (size_t)elements * sizeof *x, NULL}), &ticket));
  for (int i = 0; i < OUTPUTS; i++) {
    const int64_t each = i == COPY ? n : i == UPTO || i == BEFORE ? a->team : 1;
    const size_t bytes = (size_t)(outer * inner * each) * 4;
    got[i] = calloc(bytes + 1, 1);
    OK(clade_read(run, ticket, names[i], got[i], bytes));
  }
  OK(clade__run_check_guards(run));
  compare(a, outer, n, inner, x, got);
  for (int i = 0; i < OUTPUTS; i++) free(got[i]);
  clade_run_free(run);
  clade_func_release(func);
  free(x);
}

static const attrs teams[] = {{2, 32, 0}, {8, 32, 0}, {64, 4, 0}, {256, 1, 0}, {8, 32, 1}, {128, 2, 1}};

static void all_teams(void **state) {
  static const int64_t shapes[][3] = {{1, 1, 1},   {5, 3, 1},    {33, 4, 1},  {3, 7, 1},
                                      {70, 33, 1}, {2, 1000, 1}, {1, 3001, 1}};
  static const int64_t spread[][3] = {{1, 1, 2}, {3, 5, 33}, {2, 100, 3}, {1, 1500, 2}, {70, 9, 1}};
  for (size_t t = 0; t < CLADE_COUNT(teams); t++) {
    const int64_t(*all)[3] = teams[t].spread ? spread : shapes;
    const size_t n = teams[t].spread ? CLADE_COUNT(spread) : CLADE_COUNT(shapes);
    for (size_t i = 0; i < n; i++) check(*state, &teams[t], all[i][0], all[i][1], all[i][2]);
  }
}

/* Groups and parts depend on sizes alone, and few variants are compiled. */
static void choices(void **state) {
  (void)state;
  for (int64_t n = 0; n < 3000; n += 7)
    for (int64_t inner = 1; inner < 100; inner += 3) {
      const clade__group g = clade__group_of(n, inner);
      assert_true(g.team == 8 || g.team == 256);
      assert_int_equal(g.team * g.beside, CLADE__GROUP_ITEMS);
      assert_int_equal(g.spread, inner > 1);
      assert_true(!(g.spread && inner >= 32) || g.beside == 32);
    }
  assert_int_equal(clade__group_part(1, 4095), 4096);
  assert_int_equal(clade__group_part(4096, 1 << 20), 1 << 20);
  assert_int_equal(clade__group_part(1, 1 << 24), 1 << 14);
  assert_int_equal(clade__group_part(0, 8), 8);
}

/* ---- selection for a GPU that need not exist ---- */
static const char *const by_groups[] = {
    "eltwise",         "reduce",          "arg_max",         "softmax",         "softmax_grad",
    "transpose",       "square_sum",      "cross_entropy",   "batch_norm",      "layer_norm",
    "layer_norm_grad", "max_pool2d",      "max_pool2d_grad", "avg_pool2d",      "conv2d_weights",
    "conv2d_data",     "conv2d",          "broadcast",       "frame",           "gather",
    "scatter_add",     "batch_norm_grad", "dropout",         "avg_pool2d_grad", "cross_entropy_grad"};

/* Ops on images as in mobile networks, and on rows of a table. */
static clade_val of_images(clade_graph *g, clade_val x, clade_val w) {
  clade_val ids = clade_input(g, "ids", CLADE_I32, CLADE_SHAPE(8));
  clade_val y = clade_conv2d(g, x, w, .groups = 16, .pad = {1, 1});
  y = clade_dropout(g, y, 0.5, 1, clade_fill(g, CLADE_I64, CLADE_SCALAR, 1));
  y = clade_max_pool2d(g, y, .kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1});
  y = clade_avg_pool2d(g, clade_pad(g, y, CLADE_SHAPE(0, 0, 1, 1), CLADE_SHAPE(0, 0, 0, 0), 0), .kernel = {2, 2});
  y = clade_gather(g, y, ids);
  return clade_sum(g, clade_mul(g, y, clade_broadcast(g, clade_gather(g, y, ids), CLADE_SHAPE(2, 8, 16, 4, 4))));
}

static clade_graph *of_all(void) {
  clade_graph *g = graph_new();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(8, 16, 14, 14)), d[2], next[2], of[5] = {x};
  for (int i = 1; i < 5; i++) of[i] = clade_fill(g, CLADE_F32, CLADE_SHAPE(16), 1);
  clade_val y = clade_relu(g, clade__batch_norm(g, of, 1e-5f, 0.1f, next));
  y = clade_layer_norm(g, y, (clade_val){0}, (clade_val){0}, 1, 1e-5);
  y = clade_transpose(g, clade_softmax(g, y, 1), 4, (int[]){0, 2, 3, 1});
  clade_arg_max(g, y, 3);
  clade_reduce_opt all = {.size = sizeof all, .x = y, .n_axes = 3, .axes = {0, 1, 2}};
  clade_val means = clade_mean_(g, &all), labels = clade_input(g, "labels", CLADE_I32, CLADE_SHAPE(8, 14, 14));
  clade_val loss = clade_add(g, clade_cross_entropy(g, y, labels), clade_sum(g, means));
  clade_val one = clade_fill(g, CLADE_F32, CLADE_SCALAR, 1), w = clade_fill(g, CLADE_F32, CLADE_SHAPE(16, 1, 3, 3), 1);
  loss = clade_add(g, loss, of_images(g, x, w));
  assert_int_equal(clade_gradients(g, loss, one, 2, (clade_val[]){x, w}, d), CLADE_OK);
  clade__square_sum(g, 1, d, one, INFINITY, one);
  assert_int_equal(clade_graph_status(g), CLADE_OK);
  return g;
}

static const char *cheapest(const clade_node *n, const clade_device_info *device) {
  clade_query q = {sizeof q, n, device, NULL};
  int32_t config[CLADE_MAX_PARAMS];
  const char *name = "none";
  double least = INFINITY;
  for (const clade_impl *const *impl = clade__impls(n->op); *impl; impl++) {
    if (clade__impl_lacks(*impl, &q)) continue;
    clade__query_defaults(&q, *impl, config);
    const double seconds = clade__impl_unfit(*impl, &q) || !(*impl)->cost ? INFINITY : (*impl)->cost(&q);
    if (seconds < least) least = seconds, name = (*impl)->name;
  }
  return name;
}

static const clade_device_info gpu = {.size = sizeof gpu,
                                      .device_class = CLADE_GPU,
                                      .compute_units = 80,
                                      .clock_mhz = 1500,
                                      .vector_f32 = 1,
                                      .max_group = 1024,
                                      .max_item = {1024, 1024, 64},
                                      .local_bytes = 48 << 10};

static bool takes_groups(const clade_node *n, const clade_device_info *device) {
  const char *name = cheapest(n, device);
  return !strcmp(name, "group") || !strcmp(name, "depthwise_group");
}

static void taken_on_gpus_alone(void **state) {
  (void)state;
  clade_device_info cpu = gpu, few = gpu;
  clade_graph *g = of_all();
  cpu.device_class = CLADE_CPU;
  few.max_group = 128;
  for (size_t i = 0; i < CLADE_COUNT(by_groups); i++) {
    size_t found = 0;
    for (size_t id = 1; id < g->n_nodes; id++) {
      clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
      clade_node node;
      if (!g->nodes[id].op || strcmp(g->nodes[id].op->name, by_groups[i]) != 0) continue;
      clade__node_view(g, (clade__id)id, in, out, &node);
      found += takes_groups(&node, &gpu);
      if (takes_groups(&node, &cpu) || takes_groups(&node, &few))
        fail_msg("%s: a device takes groups that they are not made for", by_groups[i]);
    }
    if (!found) fail_msg("%s: no node of it is computed by groups on a GPU", by_groups[i]);
  }
  clade_graph_release(g);
}

/* Implementations for other device classes leave no choice to record: on a CPU, `ref` and `group` alone are none. */
static void kept_by_class(void **state) {
  clade_device_info cpu = gpu;
  cpu.device_class = CLADE_CPU;
  assert_true(clade__tunable(&clade__op_square_sum, &gpu));
  assert_true(clade__tunable(&clade__op_square_sum, NULL));
  assert_false(clade__tunable(&clade__op_square_sum, &cpu));
  assert_true(clade__tunable(&clade__op_update, &gpu));
  assert_false(clade__tunable(&clade__op_random, &gpu));
  clade_graph *g = graph_new();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(64, 64)), one = clade_fill(g, CLADE_F32, CLADE_SCALAR, 1);
  clade_val y = clade_softmax(g, x, 1);
  clade_output(g, "y", clade__square_sum(g, 1, &y, one, INFINITY, one));
  clade_func *func = compiled(g, *state);
  char *choices = NULL;
  OK(clade_func_choices(func, &choices));
  assert_non_null(strstr(choices, "softmax"));
  assert_null(strstr(choices, "square_sum"));
  clade_text_free(choices);
  clade_func_release(func);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(choices), cmocka_unit_test(taken_on_gpus_alone),
                                     cmocka_unit_test(kept_by_class), cmocka_unit_test(all_teams)};
  clade__plan_guard_bytes = 256;
  return cmocka_run_group_tests(tests, open_device, close_device);
}
