/* Users' ops that break their contract. Violations are detected when the node is added or the func is compiled, with
 * the op's name in the message, and never cause invalid memory accesses. */
#include <stdlib.h>

#include <clade/clade.h>

#include "cl_unit.h"

enum { N = 8 };

typedef struct attrs {
  int64_t far; /* the case's parameter */
  float f;
} attrs;
static const clade_attr table[] = {{"far", CLADE_ATTR_I64, offsetof(attrs, far), 1}, {0}};

static clade_status same(clade_node *n) {
  for (int i = 0; i < n->n_out; i++) n->out[i] = n->n_in ? n->in[0] : (clade_type){CLADE_F32, {0}, CLADE_SCALAR};
  return CLADE_OK;
}
static clade_status larger(clade_node *n) {
  n->out[0] = (clade_type){.dtype = CLADE_F32, .shape = CLADE_SHAPE(1000000)};
  return CLADE_OK;
}
static clade_status untyped(clade_node *n) {
  n->out[0] = n->in[0];
  n->out[0].dtype = (clade_dtype)55;
  return CLADE_OK;
}
static clade_status deep(clade_node *n) {
  n->out[0] = n->in[0];
  n->out[0].shape.rank = 30;
  return CLADE_OK;
}
static clade_status blocked(clade_node *n) {
  n->out[0] = n->in[0];
  n->out[0].layout = (clade_layout){.axis = 5, .block = 4};
  return CLADE_OK;
}
static clade_status silent(clade_node *n) {
  (void)n;
  return CLADE_INVALID;
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  const attrs *a = q->node->attrs;
  const int64_t how = a->far;
  const size_t one = 1, two = 2, zero = 0, huge = SIZE_MAX;
  const int64_t far[2] = {1, INT64_C(1) << 40};
  clade_kernel_step *s = clade_emit_kernel(e, how == 1 ? "no name" : how == 2 ? "not_there" : "bad_copy");
  if (how == 3) clade_emit_in(s, 7);
  if (how == 4) clade_emit_out(s, -1);
  if (how == 5) clade_emit_define(s, "A B", 1);
  if (how == 6) clade_emit_define_text(s, "A", "1\n#error");
  if (how == 7) clade_emit_workspace(s, 0, 4);
  if (how == 8) clade_emit_local(s, huge);
  if (how == 9) clade_emit_index8(s, 9, NULL);
  if (how == 10) clade_emit_range(s, 4, &one, &one);
  if (how == 11) clade_emit_range(s, 1, &one, &zero);
  if (how == 12) clade_emit_range(s, 1, &one, &huge);
  if (how == 13) clade_emit_copy(e, 0, 3);
  if (how == 14) return CLADE_OK; /* no launch range */
  if (how == 15) return clade_fail(CLADE_UNSUPPORTED, "not today");
  if (how == 16) clade_emit_define(s, "INDEX64", 0);
  for (int i = 0; how == 19 && i < 300; i++) clade_emit_i32(s, i);
  if (how == 20) clade_emit_workspace(s, 2, 4);
  if (how == 21) clade_emit_index(s, INT64_MAX);
  if (how == 22) clade_emit_index8(s, 2, far);
  if (how == 23) clade_emit_local(s, 0);
  if (how == 24) clade_emit_range(s, 1, &huge, &two);
  if (how == 25) clade_emit_range(s, 1, NULL, &one);
  if (how == 26) clade_emit_local(s, 4), clade_emit_local(s, huge);
  if (how == 27) clade_emit_copy(e, 0, 0);
  if (how == 28) clade_emit_workspace(s, 0, 0);
  if (how == 29) clade_emit_index8(s, -1, far);
  if (how == 30) clade_emit_define_text(s, "A", NULL);
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  if (how != 17) clade_emit_index(s, N); /* 17: one argument too few */
  if (how == 18) clade_emit_i32(s, 1);   /* one too many */
  clade_emit_range(s, 1, (size_t[]){N}, &one);
  return CLADE_OK;
}

static const char source[] = "KERNEL(bad_copy)(ARG(float, x), ARG(float, y), const index_t n) {\n"
                             "  USE(float, x); USE(float, y);\n"
                             "  index_t i = (index_t)get_global_id(0);\n"
                             "  if (i < n) y[i] = x[i];\n"
                             "}\n";
static const clade_impl *const impls[] = {CLADE_IMPL(.name = "ref", .emit = emit), NULL};
static const clade_impl *const no_emit[] = {CLADE_IMPL(.name = "ref"), NULL};
static const clade_op good = {.size = sizeof good,
                              .name = "bad.op",
                              .min_in = 1,
                              .max_in = 1,
                              .n_out = 1,
                              .attr_bytes = sizeof(attrs),
                              .attrs = table,
                              .infer = same,
                              .impls = impls,
                              .source = source};

/* Adds the op to a graph with one input, compiles it and creates a run; returns the first failure. */
static clade_status use(clade_device *device, const clade_op *op, const attrs *a) {
  clade_graph *g;
  clade_func *func = NULL;
  clade_run *run = NULL;
  check_ok(clade_graph_new(&g));
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N)), none[2] = {x, x}, y[CLADE_MAX_OPERANDS];
  clade_val out = clade_node_add(g, op, "n", a, op->max_in > 2 ? 0 : op->max_in, none, y);
  clade_output(g, "y", op->n_out > 0 ? out : x);
  clade_status status = clade_compile(g, device, &func);
  if (status == CLADE_OK) status = clade_run_new(func, NULL, &run);
  clade_run_free(run);
  clade_func_release(func);
  clade_graph_release(g);
  return status;
}

static void structs(void **state) {
  static const clade_attr beyond[] = {{"far", CLADE_ATTR_SHAPE, offsetof(attrs, f), 1}, {0}};
  static const clade_attr many[] = {{"far", CLADE_ATTR_I64, 0, UINT32_MAX}, {0}};
  static const clade_attr strange[] = {{"far", (clade_attr_kind)99, 0, 1}, {0}};
  attrs a = {0};
  clade_op op;
  check_ok(use(*state, &good, &a));
#define BROKEN(how, status, words) \
  op = good, how;                  \
  check_fails(use(*state, &op, &a), status, words)
  BROKEN(op.size = 16, CLADE_INVALID, "the op's size is 16");
  BROKEN(op.name = NULL, CLADE_INVALID, "an op has a name");
  BROKEN(op.name = "bad", CLADE_INVALID, "holds a dot");
  BROKEN(op.name = "bad.\"op\n", CLADE_INVALID, "the name of an op");
  BROKEN(op.name = "../bad.op", CLADE_INVALID, "the name of an op");
  BROKEN(op.infer = NULL, CLADE_INVALID, "bad.op: the op has no infer");
  BROKEN(op.n_out = 65, CLADE_INVALID, "bad.op: a node has at most 64");
  BROKEN(op.n_out = -1, CLADE_INVALID, "bad.op: a node has at most 64");
  BROKEN(op.max_in = 65, CLADE_INVALID, "bad.op: a node has at most 64");
  BROKEN(op.min_in = 2, CLADE_INVALID, "bad.op: 1 operands, 2 to 1 are expected");
  BROKEN(op.n_out = 0, CLADE_INVALID, "bad.op: an op without outputs is an effect");
  BROKEN(op.attrs = beyond, CLADE_INVALID, "bad.op: the attribute \"far\"");
  BROKEN(op.attrs = many, CLADE_INVALID, "bad.op: the attribute \"far\"");
  BROKEN(op.attrs = strange, CLADE_INVALID, "bad.op: the attribute \"far\"");
  BROKEN(op.attr_bytes = 0, CLADE_INVALID, "bad.op: the attribute \"far\"");
  BROKEN(op.impls = NULL, CLADE_UNSUPPORTED, "bad.op \"n\" (f32[8])");
  BROKEN(op.impls = no_emit, CLADE_INVALID, "bad.op \"n\": the implementation ref has no emit");
  BROKEN(op.flags = CLADE_OP_VIEW; op.n_out = 2, CLADE_INVALID, "bad.op: a view has");
  BROKEN(op.flags = CLADE_OP_VIEW; op.min_in = op.max_in = 0, CLADE_INVALID, "bad.op: a view has");
}

static void inferring(void **state) {
  attrs a = {0};
  clade_op op;
  BROKEN(op.infer = untyped, CLADE_DTYPE, "bad.op \"n\": output 0: 55 is not an element type");
  BROKEN(op.infer = deep, CLADE_BAD_SHAPE, "bad.op \"n\": output 0: a shape has 0 to 8 dimensions, not 30");
  BROKEN(op.infer = blocked, CLADE_BAD_SHAPE, "bad.op \"n\": output 0: a layout blocks axis 5");
  BROKEN(op.infer = silent, CLADE_INVALID, "bad.op \"n\": infer: invalid argument");
  BROKEN(op.flags = CLADE_OP_VIEW; op.infer = larger, CLADE_BAD_SHAPE, "a view of 32 bytes cannot have 4000000");
}

static void emitting(void **state) {
  static const struct {
    int64_t how;
    clade_status status;
    const char *words;
  } cases[] = {
      {1, CLADE_INVALID, "\"no name\" is no name of a kernel"},
      {2, CLADE_NOT_FOUND, "no such kernel"},
      {3, CLADE_INVALID, "takes input 7, but the node has 1"},
      {4, CLADE_INVALID, "takes output -1"},
      {5, CLADE_INVALID, "#define A B"},
      {6, CLADE_INVALID, "one line of text"},
      {7, CLADE_INVALID, "asks for none"},
      {8, CLADE_UNSUPPORTED, "bytes of local memory"},
      {9, CLADE_INVALID, "9 values for 8 indices"},
      {10, CLADE_INVALID, "1 to 3 dimensions"},
      {11, CLADE_UNSUPPORTED, "a local size of 0"},
      {12, CLADE_UNSUPPORTED, "a local size of 18446744073709551615"},
      {13, CLADE_INVALID, "a copy of input 0 to output 3"},
      {14, CLADE_INVALID, "kernel bad_copy has no range"},
      {15, CLADE_UNSUPPORTED, "not today"},
      {16, CLADE_DUPLICATE, "defines INDEX64 twice"},
      {17, CLADE_INVALID, "bad_copy"},
      {18, CLADE_INVALID, "bad_copy"},
      {19, CLADE_UNSUPPORTED, "the arguments of kernel bad_copy are 1028 bytes; devices promise 1024"},
      {20, CLADE_INVALID, "a workspace at byte 2 cannot hold elements of 4 bytes"},
      {21, CLADE_OVERFLOW, "9223372036854775807 does not fit the index type of 32 bits"},
      {22, CLADE_OVERFLOW, "1099511627776 does not fit the index type of 32 bits"},
      {23, CLADE_UNSUPPORTED, "asks for 0 bytes of local memory"},
      {24, CLADE_OVERFLOW, "the range overflows in dimension 0"},
      {25, CLADE_INVALID, "1 to 3 dimensions with global and local sizes"},
      {26, CLADE_UNSUPPORTED, "asks for 18446744073709551615 bytes of local memory"},
      {28, CLADE_INVALID, "cannot hold elements of 0 bytes"},
      {29, CLADE_INVALID, "-1 values for 8 indices"},
      {30, CLADE_INVALID, "#define A (null)"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    attrs a = {.far = cases[i].how};
    clade_status status = use(*state, &good, &a);
    if (status != cases[i].status || !strstr(clade_last_error(), cases[i].words) ||
        (!strstr(clade_last_error(), "bad.op") && !strstr(clade_last_error(), "kernel bad_copy")))
      fail_msg("case %d: %s: %s", (int)cases[i].how, clade_status_name(status), clade_last_error());
  }
}

static void copying(void **state) {
  attrs a = {.far = 27};
  clade_op op;
  BROKEN(op.infer = larger, CLADE_BAD_SHAPE, "bad.op \"n\": a copy of 32 bytes to 4000000");
}

static void without_an_emit(void **state) {
  (void)state;
  assert_null(clade_emit_kernel(NULL, "bad_copy"));
  assert_non_null(strstr(clade_last_error(), "clade_emit_kernel: the emit is NULL"));
  clade_emit_copy(NULL, 0, 0);
  assert_non_null(strstr(clade_last_error(), "clade_emit_copy: the emit is NULL"));
}

static void sources(void **state) {
  attrs a = {0};
  clade_op op;
  BROKEN(op.source = "this is no OpenCL C", CLADE_BUILD, "bad.op");
  BROKEN(op.source = "", CLADE_NOT_FOUND, "kernel bad_copy of bad.op.cl");
  BROKEN(op.source = NULL, CLADE_NOT_FOUND, "bad.op");
}

static int set_up(void **state) { return clade_device_find("pocl", (clade_device **)state) == CLADE_OK ? 0 : -1; }
static int tear_down(void **state) {
  clade_device_release(*state);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(structs), cmocka_unit_test(inferring),       cmocka_unit_test(emitting),
      cmocka_unit_test(copying), cmocka_unit_test(without_an_emit), cmocka_unit_test(sources),
  };
  return cmocka_run_group_tests_name("bad_op", tests, set_up, tear_down);
}
