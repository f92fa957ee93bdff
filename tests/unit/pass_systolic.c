/* Passes on a device whose kernels come from a bundle, with the implementations of src/op/systolic. */
#include "toy.h"

#include <clade/nn.h>
#include <clade/ops.h>

#include "pass/pass.h"

static const char *const arrays[] = {"array_f32", NULL};
static clade_device_info devices[2] = {{.size = sizeof(clade_device_info), .name = "first"},
                                       {.size = sizeof(clade_device_info), .name = "second"}};

static size_t count(const clade_graph *g, const clade_op *op) {
  size_t n = 0;
  for (size_t i = 1; i < g->n_nodes; i++) n += g->nodes[i].op == op;
  return n;
}

static clade_val input(clade_graph *g, const char *name) { return clade_input(g, name, CLADE_F32, CLADE_SHAPE(2, 2)); }

/* Runs a pass, asserts the number of nodes of an op, and releases the graph. */
static void assert_passed(clade_graph *g, clade_status (*pass)(clade__pass_ctx *ctx), const char *const *kernels,
                          const clade_op *op, size_t nodes) {
  assert_error(clade_graph_status(g), CLADE_OK, "");
  devices[0].kernels = kernels;
  clade__pass_ctx ctx = {.graph = clade_graph_retain(g), .n_devices = 2, .devices = devices, .fallback = -1};
  assert_error(pass(&ctx), CLADE_OK, "");
  assert_error(clade__pass_dead(&ctx), CLADE_OK, "");
  assert_int_equal(count(ctx.graph, op), nodes);
  clade_graph_release(ctx.graph);
  clade_graph_release(g);
}

/* A bundle kernel takes four operands: fusion must not lose support that the separate nodes have. */
static void fused(void **state) {
  (void)state;
  static const char *const kernels[] = {"eltwise", NULL};
  static const char *const names[] = {"a", "b", "c", "d", "e"};
  for (size_t nodes = 1; nodes <= 2; nodes++) {
    clade_graph *g = new_graph();
    clade_val y = input(g, "x");
    for (size_t i = 0; i < CLADE_COUNT(names); i++) y = clade_add(g, y, input(g, names[i]));
    clade_output(g, "y", y);
    assert_passed(g, clade__pass_fuse, nodes > 1 ? kernels : NULL, &clade__op_eltwise, nodes);
  }
}

/* A bundle without kernels for a chain's parts can have one for a product with the whole chain. */
static void fused_into_a_product(void **state) {
  (void)state;
  clade_graph *g = new_graph();
  clade_val a = clade_input(g, "a", CLADE_F32, CLADE_SHAPE(4, 8)),
            b = clade_input(g, "b", CLADE_F32, CLADE_SHAPE(8, 3));
  clade_val sum = clade_add(g, clade_gemm(g, a, b), clade_input(g, "c", CLADE_F32, CLADE_SHAPE(4, 3)));
  clade_output(g, "y", clade_relu(g, sum));
  assert_passed(g, clade__pass_fuse, arrays, &clade__op_eltwise, 0);
}

/* The kernel for products reads whole values, so slices are copied; compiled kernels read them in place. */
static void copied(void **state) {
  (void)state;
  for (size_t copies = 0; copies < 2; copies++) {
    clade_graph *g = new_graph();
    clade_val x =
        clade_slice(g, clade_input(g, "x", CLADE_F32, CLADE_SHAPE(5, 8)), CLADE_SHAPE(0, 4), CLADE_SHAPE(5, 4));
    clade_output(g, "y", clade_gemm(g, x, clade_input(g, "b", CLADE_F32, CLADE_SHAPE(4, 3))));
    assert_passed(g, clade__pass_views, copies ? arrays : NULL, &clade__op_frame, copies);
  }
}

/* A bundle without a kernel for sums has one for a product with a sum in its epilogue. */
static void placed(void **state) {
  (void)state;
  for (int apart = 0; apart < 2; apart++) {
    clade_graph *g = new_graph();
    clade_val y = clade_gemm(g, input(g, "x"), input(g, "b"));
    clade_output(g, "y", clade_relu(g, clade_add(g, y, input(g, "c"))));
    devices[0].kernels = arrays;
    clade__pass_ctx ctx = {.graph = clade_graph_retain(g),
                           .n_devices = 2,
                           .devices = devices,
                           .fallback = 1,
                           .place = apart ? "eltwise=fallback" : NULL};
    assert_error(clade__pass_fallback(&ctx), CLADE_OK, "");
    assert_error(clade__pass_fuse(&ctx), CLADE_OK, "");
    const clade__node *n = &ctx.graph->nodes[ctx.graph->n_nodes - 1];
    assert_ptr_equal(n->op, apart ? &clade__op_eltwise : &clade__op_gemm);
    assert_int_equal(n->device, apart);
    assert_int_equal(ctx.graph->n_nodes, apart ? 8 : 5); /* a product, a program, two copies */
    clade__records_release(ctx.placed);
    clade_graph_release(ctx.graph);
    clade_graph_release(g);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(fused), cmocka_unit_test(fused_into_a_product),
                                     cmocka_unit_test(copied), cmocka_unit_test(placed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
