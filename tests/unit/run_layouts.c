/* Graphs whose values lie in blocked layouts between their nodes: the same results as dense ones, between guards. */
#include <math.h>
#include <stdio.h>

#include "layout_ops.h"

enum { ROWS = 3, C = 5, N = ROWS * C * 2 }; /* no block divides the axis */

/* Functions of one, two and three operands, a broadcast along the blocked axis and one across it. */
static clade_graph *elementwise(void) {
  clade_graph *g = graph_new();
  const clade_shape shape = CLADE_SHAPE(ROWS, C, 2);
  clade_val x = clade_input(g, "x", CLADE_F32, shape), along = clade_input(g, "along", CLADE_F32, CLADE_SHAPE(C, 1)),
            across = clade_input(g, "across", CLADE_F32, CLADE_SHAPE(ROWS, 1, 2));
  clade_val h = lay1(g, x), y = clade_add(g, clade_tanh(g, clade_mul(g, h, along)), h);
  y = clade_div(g, lay1(g, y), across);
  y = clade_select(g, clade_gt(g, y, clade_fill(g, CLADE_F32, CLADE_SCALAR, 1)), lay1(g, y), h);
  clade_output(g, "half", clade_cast(g, lay1(g, y), CLADE_F16));
  clade_output(g, "y", lay1(g, clade_relu(g, y)));
  return g;
}

static void run_elementwise(clade_device *device, const char *prefer, bool no_fusion, float *y, uint16_t *half,
                            int *packs) {
  clade_func *func;
  clade_run *run;
  clade_ticket ticket;
  float x[N], along[C], across[2 * ROWS];
  clade_graph *g = elementwise();
  for (int i = 0; i < N; i++) x[i] = sinf((float)i);
  for (int i = 0; i < C; i++) along[i] = cosf((float)i);
  for (int i = 0; i < 2 * ROWS; i++) across[i] = 0.5f + (float)(i % 3);
  OK(clade_compile(g, device, &func, .prefer = prefer, .no_fusion = no_fusion));
  clade_graph_release(g);
  *packs = steps_of(func, "pack_forward_ref") + steps_of(func, "unpack_forward_ref");
  OK(clade_run_new(func, NULL, &run));
  OK(clade_execute(run,
                   CLADE_FEEDS({"x", x, sizeof x, NULL}, {"along", along, sizeof along, NULL},
                               {"across", across, sizeof across, NULL}),
                   &ticket));
  OK(clade_read(run, ticket, "y", y, N * sizeof *y));
  OK(clade_read(run, ticket, "half", half, N * sizeof *half));
  if (clade__plan_guard_bytes) OK(clade__run_check_guards(run));
  clade_run_free(run);
  clade_func_release(func);
}

static void elementwise_in_any_layout(void **state) {
  for (int i = 0; i < 4; i++) {
    float want[N], have[N];
    uint16_t want_half[N], have_half[N];
    int packs, none;
    clade__plan_guard_bytes = i / 2 ? 256 : 0;
    run_elementwise(*state, "lay.affine=ref", i % 2, want, want_half, &none);
    run_elementwise(*state, NULL, i % 2, have, have_half, &packs);
    clade__plan_guard_bytes = 0;
    assert_int_equal(none, 0);
    assert_true(packs >= 4); /* x, along, and two outputs at least */
    assert_memory_equal(have, want, sizeof want);
    assert_memory_equal(have_half, want_half, sizeof want_half);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(elementwise_in_any_layout)};
  return cmocka_run_group_tests_name("run_layouts", tests, open_device, close_device);
}
