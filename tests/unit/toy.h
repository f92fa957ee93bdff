/* Small ops for the tests of graphs and passes, independent of Clade's. */
#ifndef TOY_H
#define TOY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ir/ir.h"

/* One to three operands of the same type as the result. */
static inline clade_status toy_same(clade_node *n) {
  for (int i = 1; i < n->n_in; i++)
    if (!clade_type_equal(&n->in[0], &n->in[i])) return CLADE_FAIL(BAD_SHAPE, "operand %d is not like operand 0", i);
  n->out[0] = n->in[0];
  return CLADE_OK;
}

typedef struct toy_attrs {
  bool flag;
  int32_t number;
  int64_t list[2];
  float real;
  clade_dtype dtype;
  clade_shape shape;
  unsigned char bytes[4];
} toy_attrs;
static const clade_attr toy_attr_table[] = {{"flag", CLADE_ATTR_BOOL, offsetof(toy_attrs, flag), 1},
                                            {"number", CLADE_ATTR_I32, offsetof(toy_attrs, number), 1},
                                            {"list", CLADE_ATTR_I64, offsetof(toy_attrs, list), 2},
                                            {"real", CLADE_ATTR_F32, offsetof(toy_attrs, real), 1},
                                            {"dtype", CLADE_ATTR_DTYPE, offsetof(toy_attrs, dtype), 1},
                                            {"shape", CLADE_ATTR_SHAPE, offsetof(toy_attrs, shape), 1},
                                            {"bytes", CLADE_ATTR_BYTES, offsetof(toy_attrs, bytes), 4},
                                            {0}};
/* Result of the shape in its attributes. */
static inline clade_status toy_to(clade_node *n) {
  const toy_attrs *a = n->attrs;
  n->out[0] = (clade_type){.dtype = n->in[0].dtype, .shape = a->shape};
  return CLADE_OK;
}
static inline clade_status toy_two(clade_node *n) {
  n->out[0] = n->out[1] = n->in[0];
  return CLADE_OK;
}

static const clade_op toy = {
    .size = sizeof(clade_op), .name = "toy", .min_in = 1, .max_in = 3, .n_out = 1, .infer = toy_same};
static const clade_op toy_shaped = {.size = sizeof(clade_op),
                                    .name = "toy.shaped",
                                    .min_in = 1,
                                    .max_in = 1,
                                    .n_out = 1,
                                    .attr_bytes = sizeof(toy_attrs),
                                    .attrs = toy_attr_table,
                                    .infer = toy_to};
static const clade_op toy_pair = {
    .size = sizeof(clade_op), .name = "toy.pair", .min_in = 1, .max_in = 1, .n_out = 2, .infer = toy_two};

static inline clade_val toy1(clade_graph *g, const char *name, clade_val x) {
  return clade_node_add(g, &toy, name, NULL, 1, &x, NULL);
}
static inline clade_val toy2(clade_graph *g, const char *name, clade_val a, clade_val b) {
  return clade_node_add(g, &toy, name, NULL, 2, (clade_val[]){a, b}, NULL);
}

static inline clade_graph *new_graph(void) {
  clade_graph *g = NULL;
  assert_int_equal(clade_graph_new(&g), CLADE_OK);
  return g;
}

/* Checks the graph's sticky error: status and part of the message; releases the graph. */
static inline void assert_refused(clade_graph *g, clade_status status, const char *part) {
  if (g->status != status || !strstr(clade_graph_message(g), part))
    fail_msg("\"%s\" (%s) instead of \"%s\" (%s)", clade_graph_message(g), clade_status_name(g->status), part,
             clade_status_name(status));
  assert_int_equal(clade_graph_status(g), status);
  assert_string_equal(clade_last_error(), clade_graph_message(g));
  clade_graph_release(g);
}

static inline void assert_error(clade_status have, clade_status status, const char *part) {
  if (have != status || !strstr(clade_last_error(), part))
    fail_msg("\"%s\" (%s) instead of \"%s\" (%s)", clade_last_error(), clade_status_name(have), part,
             clade_status_name(status));
}

static inline void assert_prints(const clade_graph *g, const char *want) {
  char *text = NULL;
  assert_int_equal(clade_graph_print(g, CLADE_PRINT_TEXT, &text), CLADE_OK);
  assert_string_equal(text, want);
  clade_text_free(text);
}

#endif
