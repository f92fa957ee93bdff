/* Dead code elimination, folding, placement and selection with toy ops, verified by printed graphs. */
#include "toy.h"

#include "pass/pass.h"

static clade_device_info devices[2] = {{.size = sizeof(clade_device_info), .name = "first"},
                                       {.size = sizeof(clade_device_info), .name = "second"}};

static clade__pass_ctx context(clade_graph *g) {
  return (clade__pass_ctx){.graph = clade_graph_retain(g), .n_devices = 2, .devices = devices, .fallback = -1};
}

/* Applies a pass to g, which stays unchanged, compares the result, and releases both. */
static void assert_pass(clade_status (*pass)(clade__pass_ctx *), clade_graph *g, const char *want) {
  clade__pass_ctx ctx = context(g);
  const clade__hash before = clade__graph_hash(g);
  assert_error(pass(&ctx), CLADE_OK, "");
  assert_prints(ctx.graph, want);
  assert_true(clade__hash_equal(before, clade__graph_hash(g)));
  clade_graph_release(ctx.graph);
  clade_graph_release(g);
}

static void test_dead(void **state) {
  (void)state;
  clade_graph *g = new_graph();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(2)), two[2];
  clade_input(g, "unused", CLADE_F32, CLADE_SHAPE(2));
  clade_val w = clade_variable(g, "w", CLADE_F32, CLADE_SHAPE(2), (clade_initial){CLADE_INIT_FILL, 0.5, 0});
  toy1(g, "dead", toy1(g, "dead_too", x));
  clade_assign(g, w, toy2(g, "next", w, x));
  clade_node_add(g, &toy_pair, "half", NULL, 1, &x, two);
  clade_output(g, "y", two[1]);
  assert_pass(clade__pass_dead, g,
              "graph {\n"
              "  %1 = input \"x\" : f32[2]\n"
              "  %2 = input \"unused\" : f32[2]\n"
              "  %3 = variable \"w\" initial=fill(0.5) : f32[2]\n"
              "  %4 = toy \"next\" (%3, %1) : f32[2]\n"
              "  assign \"w\" (%3, %4)\n"
              "  %5, %6 = toy.pair \"half\" (%1) : f32[2], f32[2]\n"
              "  output \"y\" (%6)\n"
              "}\n");
}

static void test_common(void **state) {
  (void)state;
  clade_graph *g = new_graph();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(2)), a[2], b[2];
  clade_val one = clade_fill(g, CLADE_F32, CLADE_SHAPE(2), 1), same = clade_fill(g, CLADE_F32, CLADE_SHAPE(2), 1);
  clade_val half = clade_fill(g, CLADE_F16, CLADE_SHAPE(2), 1), wide = clade_fill(g, CLADE_F32, CLADE_SHAPE(3), 1);
  clade_node_add(g, &toy_pair, "a", NULL, 1, &x, a);
  clade_node_add(g, &toy_pair, "b", NULL, 1, &x, b);
  clade_output(g, "p", toy2(g, NULL, a[1], one));
  clade_output(g, "q", toy2(g, NULL, b[1], same));
  clade_output(g, "half", half);
  clade_output(g, "wide", wide);
  clade_graph_place(g, 1);
  clade_output(g, "r", toy2(g, NULL, a[1], one)); /* on another device: not merged */
  assert_pass(clade__pass_fold, g,
              "graph {\n"
              "  %1 = input \"x\" : f32[2]\n"
              "  %2 = constant fill=1 : f32[2]\n"
              "  %3 = constant fill=1 : f16[2]\n"
              "  %4 = constant fill=1 : f32[3]\n"
              "  %5, %6 = toy.pair \"a\" (%1) : f32[2], f32[2]\n"
              "  %7 = toy (%6, %2) : f32[2]\n"
              "  %8 = toy (%6, %2) @1 : f32[2]\n"
              "  output \"p\" (%7)\n"
              "  output \"q\" (%7)\n"
              "  output \"half\" (%3)\n"
              "  output \"wide\" (%4)\n"
              "  output \"r\" (%8)\n"
              "}\n");
}

static void test_place(void **state) {
  (void)state;
  clade_graph *g = new_graph();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(2)), c = clade_fill(g, CLADE_F32, CLADE_SHAPE(2), 3);
  clade_val w = clade_variable(g, "w", CLADE_F32, CLADE_SHAPE(2), (clade_initial){CLADE_INIT_NORMAL, 0, 1});
  clade_graph_place(g, 1);
  clade_val y = toy2(g, "y", x, c), z = toy2(g, "z", y, x);
  clade_val t = clade_transfer(g, x, 1); /* an explicit transfer is reused */
  clade_assign(g, w, toy2(g, "n", z, t));
  assert_pass(clade__pass_place, g,
              "graph {\n"
              "  %1 = input \"x\" : f32[2]\n"
              "  %2 = constant fill=3 : f32[2]\n"
              "  %3 = variable \"w\" initial=normal(0, 1) : f32[2]\n"
              "  %4 = transfer (%1) {device=1} @1 : f32[2]\n"
              "  %5 = constant fill=3 @1 : f32[2]\n"
              "  %6 = toy \"y\" (%4, %5) @1 : f32[2]\n"
              "  %7 = toy \"z\" (%6, %4) @1 : f32[2]\n"
              "  %8 = toy \"n\" (%7, %4) @1 : f32[2]\n"
              "  %9 = transfer (%8) : f32[2]\n"
              "  assign \"w\" (%3, %9)\n"
              "}\n");
}

/* ---- selection ---- */
static const char *never(const clade_query *q) {
  (void)q;
  return "never does";
}
static const char *vectors(const clade_query *q) { return q->device->vector_f32 < 4 ? "needs vectors of 4" : NULL; }
static void blocked(const clade_query *q, clade_layout *in, clade_layout *out) {
  (void)q;
  in[0] = out[0] = (clade_layout){.axis = 2, .block = 8}; /* for a value with at most two axes */
}
static double cheap(const clade_query *q) {
  (void)q;
  return 1e-6;
}
static const clade_impl *const impls[] = {
    CLADE_IMPL(.name = "no", .accept = never, .cost = cheap),
    CLADE_IMPL(.name = "packed", .layouts = blocked, .cost = cheap),
    CLADE_IMPL(.name = "slow"),
    CLADE_IMPL(.name = "vec", .accept = vectors, .cost = cheap),
    CLADE_IMPL(.name = "ref"),
    NULL,
};
static const clade_impl *const hopeless[] = {
    CLADE_IMPL(.name = "a", .accept = never),
    CLADE_IMPL(.name = "b", .accept = never),
    NULL,
};

static clade_graph *choosing(const clade_op *op) {
  clade_graph *g = new_graph();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(2)), y = clade_node_add(g, op, "n", NULL, 1, &x, NULL);
  clade_output(g, "y", y);
  return g;
}

static void test_select(void **state) {
  (void)state;
  clade_op op = toy;
  op.impls = impls;
  const struct {
    unsigned vector;
    const char *prefer, *name, *explained;
  } cases[] = {
      {1, NULL, "slow",
       "toy \"n\" f32[2] on first: slow; no: never does; packed: its layouts are not possible here; vec: "
       "needs vectors of 4; ref: comes later\n"},
      {8, NULL, "vec",
       "toy \"n\" f32[2] on first: vec; no: never does; packed: its layouts are not possible here; slow: "
       "costs more; ref: costs more\n"},
      {8, "eltwise=ref,toy=ref", "ref",
       "toy \"n\" f32[2] on first: ref; no: another one is preferred; packed: another one is preferred; slow: "
       "another one is "
       "preferred; vec: another one is preferred\n"},
  };
  for (size_t i = 0; i < CLADE_COUNT(cases); i++) {
    clade_graph *g = choosing(&op);
    clade__pass_ctx ctx = context(g);
    clade__text text = {0};
    devices[0].vector_f32 = cases[i].vector;
    ctx.prefer = cases[i].prefer;
    assert_error(clade__pass_select(&ctx), CLADE_OK, "");
    const clade__node *n = &ctx.graph->nodes[2];
    assert_string_equal(n->op->impls[n->impl]->name, cases[i].name);
    assert_int_equal(ctx.graph->nodes[1].impl, -1);
    clade__explain(&ctx, &text);
    assert_string_equal(text.data, cases[i].explained);
    clade__text_free(&text);
    clade_graph_release(ctx.graph);
    clade_graph_release(g);
  }
}

static void assert_no_choice(const clade_op *op, const char *prefer, clade_status status, const char *part) {
  clade_graph *g = choosing(op);
  clade__pass_ctx ctx = context(g);
  ctx.prefer = prefer;
  clade_status asked = clade__pass_prefer(&ctx);
  assert_error(asked == CLADE_OK ? clade__pass_select(&ctx) : asked, status, part);
  assert_ptr_equal(ctx.graph, g); /* still owned by the context */
  clade_graph_release(ctx.graph);
  clade_graph_release(g);
}

static void test_no_choice(void **state) {
  (void)state;
  clade_op op = toy;
  devices[0].vector_f32 = 1;
  assert_no_choice(&op, NULL, CLADE_UNSUPPORTED, "toy \"n\" (f32[2]) on first: no implementation takes it");
  op.impls = hopeless;
  assert_no_choice(&op, NULL, CLADE_UNSUPPORTED, "takes it; a: never does; b: never does");
  op.impls = impls;
  assert_no_choice(&op, "toy=vec", CLADE_NOT_FOUND, "\"vec\" is asked for; no: another one is preferred");
  assert_no_choice(&op, "toy=what", CLADE_NOT_FOUND, "toy has no implementation \"what\"; it has: ");
  assert_no_choice(&op, "toys=vec", CLADE_NOT_FOUND, "prefer: there is no op \"toys\"");
  assert_no_choice(&op, "toy", CLADE_INVALID, "op=implementation is expected");
  assert_no_choice(&op, "toy=", CLADE_INVALID, "op=implementation is expected");
  assert_no_choice(&op, "=ref", CLADE_INVALID, "op=implementation is expected");
}

static void test_check(void **state) {
  (void)state;
  clade_graph *g = new_graph();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(2));
  clade__pass_ctx ctx = context(g);
  assert_error(clade__passes_generic(&ctx), CLADE_INVALID, "no output and assigns nothing");
  clade_graph_place(g, 2);
  clade_output(g, "y", toy1(g, "far", x));
  assert_error(clade__passes_generic(&ctx), CLADE_INVALID, "toy \"far\" (node 2) is placed on device 2, of 2");
  toy1(g, "far", x);
  assert_error(clade__passes_generic(&ctx), CLADE_DUPLICATE, "toy \"far\": the name");
  clade_graph_release(ctx.graph);
  clade_graph_release(g);
}

/* A view, an effect, and an input that is output directly, through the whole pipeline. */
static void test_pipeline(void **state) {
  (void)state;
  clade_op view = toy, working = toy;
  view.name = "view", view.flags = CLADE_OP_VIEW;
  working.impls = impls;
  clade_graph *g = new_graph(), *bound;
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(CLADE_DIM("rows"), 2));
  clade_val v = clade_node_add(g, &view, NULL, NULL, 1, &x, NULL);
  clade_output(g, "x_again", v);
  clade_output(g, "y", clade_node_add(g, &working, NULL, NULL, 1, &v, NULL));
  clade__pass_ctx ctx = context(g);
  assert_error(clade__passes_generic(&ctx), CLADE_OK, "");
  assert_error(clade__graph_bind(ctx.graph, CLADE_DIMS({"rows", 7}), &bound), CLADE_OK, "");
  clade_graph_release(ctx.graph);
  clade_graph_release(g);
  ctx.graph = bound;
  assert_error(clade__passes_specific(&ctx), CLADE_OK, "");
  assert_prints(ctx.graph, "graph {\n"
                           "  %1 = input \"x\" : f32[7, 2]\n"
                           "  %2 = toy (%1) : f32[7, 2]\n"
                           "  output \"x_again\" (%1)\n"
                           "  output \"y\" (%2)\n"
                           "}\n");
  clade_graph_release(ctx.graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_dead),      cmocka_unit_test(test_common),
                                     cmocka_unit_test(test_place),     cmocka_unit_test(test_select),
                                     cmocka_unit_test(test_no_choice), cmocka_unit_test(test_check),
                                     cmocka_unit_test(test_pipeline)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
