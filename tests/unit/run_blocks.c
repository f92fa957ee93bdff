/* A type whose elements share a block, as formats with a common scale will be: here its row is in a copy of the table,
 * which stands in for the library's. Bytes are those of whole blocks; whoever asks for one element is refused. */
#include <clade/dtypes.h>

#define CLADE_DTYPE_q4(ROW) \
  ROW(Q4, 63, q4, 4, 32, 18, F16, real, stored, 0, 0, 0, uchar, float, q4, F32, "<f4", "Q4", 1e-1)
#define WITH_BLOCKS(DO, with) \
  DO(f32, with) DO(f16, with) DO(i8, with) DO(i32, with) DO(i64, with) DO(bool, with) DO(q4, with)
#undef CLADE_DTYPE_EACH
#define CLADE_DTYPE_EACH WITH_BLOCKS
/* What the table of this file lacks, and other headers name. */
#define CLADE_BF16 CLADE_DTYPE_NONE
#define CLADE_U8   CLADE_DTYPE_NONE

#include "base/dtype.c"

#include "plan_kit.h"

static void whole_blocks(void **state) {
  (void)state;
  static const struct {
    int64_t elements;
    size_t bytes;
  } cases[] = {{0, 0}, {1, 18}, {32, 18}, {33, 36}, {64 * 64, 128 * 18}};
  size_t bytes;
  for (size_t i = 0; i < CLADE_COUNT(cases); i++) {
    OK(clade_dtype_bytes(CLADE_Q4, cases[i].elements, &bytes));
    assert_int_equal(bytes, cases[i].bytes);
  }
  OK(clade_type_bytes(&(clade_type){.dtype = CLADE_Q4, .shape = CLADE_SHAPE(2, 64)}, &bytes));
  assert_int_equal(bytes, 4 * 18);
}

static void no_element_by_itself(void **state) {
  size_t bytes;
  float f = 1;
  unsigned char block[18];
  clade_func *func = NULL;
  refused(clade__dtype_element(CLADE_Q4, &bytes), CLADE_DTYPE, "q4 stores 32 elements in a block of 18 bytes");
  refused(clade_convert(CLADE_Q4, block, CLADE_F32, &f, 1), CLADE_DTYPE, "no element of it lies by itself");
  clade_graph *g = graph_new();
  clade_val x = clade_input(g, "x", CLADE_Q4, CLADE_SHAPE(4, 64));
  clade_output(g, "y", clade_transpose(g, x, 2, (int[]){1, 0}));
  refused(clade_compile(g, *state, &func), CLADE_DTYPE, "no element of it lies by itself");
  clade_graph_release(g);
  g = graph_new();
  clade_fill(g, CLADE_Q4, CLADE_SHAPE(4), 1);
  refused(clade_graph_status(g), CLADE_DTYPE, "q4 stores 32 elements");
  clade_graph_release(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(whole_blocks), cmocka_unit_test(no_element_by_itself)};
  return cmocka_run_group_tests_name("run_blocks", tests, open_device, close_device);
}
