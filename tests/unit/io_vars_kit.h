/* Variables without a model, for the file tests: a graph that only holds them. */
#ifndef IO_VARS_KIT_H
#define IO_VARS_KIT_H

#include <clade/clade.h>

#include "io_kit.h"

typedef struct io_var {
  const char *name;
  clade_dtype dtype;
  clade_shape shape;
  bool parameter;
} io_var;

static clade_device *io_device;

static inline int io_device_set_up(void **state) {
  if (clade_device_find("pocl", &io_device) != CLADE_OK) {
    print_error("%s\n", clade_last_error());
    return -1;
  }
  return io_set_up(state);
}
static inline int io_device_tear_down(void **state) {
  clade_device_release(io_device);
  return io_tear_down(state);
}

/* Filled by seed; types other than floats are all 1. */
static inline clade_vars *io_vars(size_t n, const io_var *list, uint64_t seed) {
  clade_graph *g;
  clade_func *func;
  clade_vars *vars;
  OK(clade_graph_new(&g));
  for (size_t i = 0; i < n; i++) {
    bool real = clade__is_float(list[i].dtype);
    clade_initial how = {real ? CLADE_INIT_NORMAL : CLADE_INIT_FILL, real ? 0 : 1, 1};
    clade_val v =
        (list[i].parameter ? clade_parameter : clade_variable)(g, list[i].name, list[i].dtype, list[i].shape, how);
    if (i == 0) clade_output(g, "y", v);
  }
  OK(clade_compile(g, io_device, &func));
  clade_graph_release(g);
  OK(clade_vars_new(func, seed, &vars));
  clade_func_release(func);
  return vars;
}

/* The bytes of all variables in order. */
static inline clade__bytes io_contents(const clade_vars *vars) {
  clade__bytes all = {0};
  size_t capacity = 0;
  for (int i = 0; i < clade_vars_count(vars); i++) {
    clade_port_info info = {.size = sizeof info};
    size_t bytes;
    OK(clade_vars_describe(vars, i, &info));
    OK(clade_type_bytes(&info.type, &bytes));
    OK(clade__grow(&all.data, &capacity, all.n + bytes + 1, 1));
    OK(clade_vars_get(vars, info.name, all.data + all.n, bytes));
    all.n += bytes;
  }
  return all;
}
static inline bool io_same(const clade_vars *a, const clade_vars *b) {
  clade__bytes x = io_contents(a), y = io_contents(b);
  bool same = x.n == y.n && !memcmp(x.data, y.data, x.n);
  clade__free(x.data);
  clade__free(y.data);
  return same;
}

#endif
