/* A func that alternates between two devices, and its executions against the host. */
#ifndef RUN_PING_PONG_H
#define RUN_PING_PONG_H

#include "plan_kit.h"

enum { N = 500 };

/* Alternates between two devices, with a variable on each: y = (((x + v) 2) + w) 3, v += 1, w = y. */
static inline clade_func *ping_pong(clade_device *first, clade_device *second) {
  clade_func *func = NULL;
  clade_graph *g = graph_new();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N));
  clade_val v = clade_variable(g, "v", CLADE_F32, CLADE_SHAPE(N), (clade_initial){CLADE_INIT_FILL, 1, 0});
  clade_val a = add(g, x, v);
  clade_assign(g, v, affine(g, NULL, v, 1, 1));
  clade_graph_place(g, 1);
  clade_val w = clade_variable(g, "w", CLADE_F32, CLADE_SHAPE(N), (clade_initial){CLADE_INIT_FILL, 5, 0});
  clade_val b = add(g, affine(g, NULL, a, 2, 0), w);
  clade_graph_place(g, 0);
  clade_val y = affine(g, "last", b, 3, 0);
  clade_graph_place(g, 1);
  clade_assign(g, w, fresh(g, y, 1, 0));
  clade_output(g, "y", y);
  clade_output(g, "b", b);
  OK(clade_compile(g, first, &func, .n_devices = 1, .devices = &second));
  clade_graph_release(g);
  return func;
}

static inline void check_ping_pong(clade_func *func, int executions, int slots) {
  float x[N], out[N], v = 1, w = 5, want[64];
  clade_run *run;
  clade_vars *vars;
  clade_ticket ticket;
  OK(clade_vars_new(func, 0, &vars));
  OK(clade_run_new(func, vars, &run, .slots = slots));
  for (int i = 0; i < executions; i++) {
    for (int k = 0; k < N; k++) x[k] = (float)(i % 3);
    OK(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket));
    float y = ((x[0] + v) * 2 + w) * 3;
    v += 1;
    w = y;
    want[i % 64] = y;
    if (i % 4 == 3) {
      OK(clade_read(run, ticket, "y", out, sizeof out));
      assert_floats(out, N, want[i % 64], 0);
    }
    if (y > 1e6f) { /* keep it exact */
      OK(clade_wait(run, 0));
      w = 0;
      memset(out, 0, sizeof out);
      OK(clade_vars_set(vars, "w", out, sizeof out));
    }
  }
  OK(clade_wait(run, 0));
  OK(clade_run_status(run));
  OK(clade_vars_get(vars, "v", out, sizeof out));
  assert_floats(out, N, v, 0);
  clade_run_free(run);
  clade_vars_release(vars);
}

#endif
