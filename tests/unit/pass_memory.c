/* Building, printing, rewriting and passes with each allocation failing in turn: an error each time, without leaks. */
#include "toy.h"

#include <clade/ops.h>

#include "pass/pass.h"

static long live, left; /* live allocations; allocations before the failing one */

static bool fails(void) { return left > 0 && --left == 0; }
static void *allocate(void *user, size_t bytes, size_t align) {
  (void)user;
  if (fails()) return NULL;
  live++;
  return aligned_alloc(align, (bytes + align - 1) / align * align);
}
static void *resize(void *user, void *old, size_t old_bytes, size_t bytes, size_t align) {
  void *memory = allocate(user, bytes, align);
  if (!memory) return NULL;
  memcpy(memory, old, CLADE_MIN(old_bytes, bytes));
  free(old);
  live--;
  return memory;
}
static void release(void *user, void *memory, size_t bytes) {
  (void)user, (void)bytes;
  live--;
  free(memory);
}

static clade_status build(clade_graph *g) {
  static const float data[4] = {1, 2, 3, 4};
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(CLADE_DIM("batch"), 4));
  clade_val w = clade_variable(g, "w", CLADE_F32, CLADE_SHAPE(4, 4), (clade_initial){CLADE_INIT_NORMAL, 0, 1}), dw;
  clade_val c = clade_constant(g, CLADE_F32, CLADE_SHAPE(4), data);
  clade_val y = clade_relu(g, clade_gemm(g, x, w, .bias = c));
  clade_graph_place(g, 1);
  y = clade_exp(g, clade_neg(g, y));
  clade_graph_place(g, 0);
  clade_val h = clade_reshape(g, y, CLADE_SHAPE(CLADE_DIM("batch"), 2, 2));
  clade_gradients(g, clade_add(g, y, c), (clade_val){0}, 1, &w, &dw);
  clade_assign(g, w, clade_sub(g, w, dw));
  clade_output(g, "h", h);
  return clade_graph_status(g);
}

/* `kernels`: the first device has a bundle, the other is its fallback device. */
static clade_status compile(const clade_graph *g, const char *const *kernels) {
  const clade_device_info devices[2] = {{.size = sizeof(clade_device_info), .name = "first", .kernels = kernels},
                                        {.size = sizeof(clade_device_info), .name = "second"}};
  clade_status status = CLADE_OK;
  clade__pass_ctx ctx = {
      .n_devices = 2, .devices = devices, .fallback = kernels ? 1 : -1, .prefer = kernels ? NULL : "gemm=ref"};
  clade_graph *bound = NULL;
  char *text = NULL;
  clade__text explained = {0};
  CLADE_GOTO(clade__graph_rewrite(g, NULL, NULL, &ctx.graph));
  CLADE_GOTO(clade__passes_generic(&ctx));
  CLADE_GOTO(clade__graph_bind(ctx.graph, CLADE_DIMS({"batch", 3}), &bound));
  clade_graph_release(ctx.graph);
  ctx.graph = bound;
  CLADE_GOTO(clade__passes_specific(&ctx));
  CLADE_GOTO(clade_graph_print(ctx.graph, CLADE_PRINT_TEXT, &text));
  clade__explain(&ctx, &explained);
  CLADE_GOTO(explained.failed ? CLADE_NO_MEMORY : CLADE_OK);
fail:
  clade__text_free(&explained);
  clade_text_free(text);
  clade__records_release(ctx.placed);
  clade_graph_release(ctx.graph);
  return status;
}

static clade_status everything(void) {
  static const char *const kernels[] = {"array_f32", NULL};
  clade_graph *g;
  CLADE_TRY(clade_graph_new(&g));
  clade_status status = build(g);
  if (status == CLADE_OK) status = compile(g, NULL);
  if (status == CLADE_OK) status = compile(g, kernels);
  clade_graph_release(g);
  return status;
}

static void test_each(void **state) {
  (void)state;
  assert_error(everything(), CLADE_OK, ""); /* symbols stay for the life of the process */
  const long before = live;
  long n = 1;
  for (;; n++) {
    left = n;
    clade_status status = everything();
    bool reached = left == 0;
    left = 0;
    assert_int_equal(live, before);
    if (!reached) {
      assert_error(status, CLADE_OK, "");
      break;
    }
    assert_error(status, CLADE_NO_MEMORY, "no memory");
  }
  assert_true(n > 100);
}

int main(void) {
  const clade_allocator allocator = {sizeof allocator, NULL, allocate, resize, release};
  if (clade__allocator_set(&allocator)) return 1;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_each)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
