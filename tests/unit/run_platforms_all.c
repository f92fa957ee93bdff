/* One func on two platforms: PoCL and rusticl, in one process, either way round. */
#include "run_ping_pong.h"

static void two_platforms(void **state) {
  clade_device *other = NULL;
  OK(clade_device_find("rusticl", &other));
  clade_func *func = ping_pong(*state, other);
  check_ping_pong(func, 12, 2);
  clade_func_release(func);
  func = ping_pong(other, *state);
  check_ping_pong(func, 12, 3);
  clade_func_release(func);
  clade_device_release(other);
}

/* Devices of different drivers work on variables of their own: one clade_vars does not serve two places. */
static void variables_stay_on_their_device(void **state) {
  clade_device *other = NULL;
  clade_run *run = NULL;
  clade_vars *vars;
  OK(clade_device_find("rusticl", &other));
  clade_func *func = ping_pong(*state, other), *back = ping_pong(other, *state);
  OK(clade_vars_new(func, 0, &vars));
  refused(clade_run_new(back, vars, &run), CLADE_INVALID, "variable v: func expects it on its device 0");
  clade_vars_release(vars);
  clade_func_release(func);
  clade_func_release(back);
  clade_device_release(other);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(two_platforms),
      cmocka_unit_test(variables_stay_on_their_device),
  };
  return cmocka_run_group_tests_name("run_platforms_all", tests, open_device, close_device);
}
