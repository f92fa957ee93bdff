/* Locating the first non-finite value. */
#include <math.h>
#include <stdio.h>

#include "plan_kit.h"

enum { N = 5 };

static clade_func *watched(clade_device *device) {
  clade_graph *g = graph_new();
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N));
  clade_val root = clade_sqrt(g, x), y = clade_exp(g, clade_square(g, root));
  clade_output(g, "y", clade_sum(g, y));
  OK(clade_graph_watch(g));
  return compiled(g, device);
}

/* Name of the first output that reports a non-finite value, or "". */
static void first_trouble(const clade_func *func, clade_run *run, clade_ticket ticket, char name[256]) {
  clade_port_info port = {.size = sizeof port};
  float all, one;
  name[0] = 0;
  OK(clade_read(run, ticket, "watch", &all, sizeof all));
  for (int i = 0; clade_func_output(func, i, &port) == CLADE_OK; i++) {
    if (strncmp(port.name, "watch:", 6)) continue;
    OK(clade_read(run, ticket, port.name, &one, sizeof one));
    if (!*name && isnan(one)) snprintf(name, 256, "%s", port.name);
  }
  assert_int_equal(isnan(all), *name != 0);
}

static void finds_the_first(void **state) {
  const struct {
    float x;
    const char *op, *of;
  } cases[] = {{2, NULL, NULL}, {-1, ":sqrt:", ":x"}, {200, ":exp:", NULL}, {NAN, ":input:", ":x"}};
  clade_run *run;
  clade_func *func = watched(*state);
  OK(clade_run_new(func, NULL, &run));
  for (size_t i = 0; i < CLADE_COUNT(cases); i++) {
    float x[N] = {1, 1, 1, cases[i].x, 1};
    char name[256];
    clade_ticket ticket;
    OK(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket));
    first_trouble(func, run, ticket, name);
    if (!cases[i].op) assert_string_equal(name, "");
    if (cases[i].op) assert_non_null(strstr(name, cases[i].op));
    if (cases[i].of) assert_non_null(strstr(name, cases[i].of));
  }
  clade_run_free(run);
  clade_func_release(func);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(finds_the_first)};
  return cmocka_run_group_tests_name("run_watch", tests, open_device, close_device);
}
