/* Device requirements of implementations, with one message per refusal; and structs of older headers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "op/op.h"
#include "pass/pass.h"
#include "toy.h"

static int asked; /* number of calls of an implementation's functions */
static const char *accept(const clade_query *q) {
  (void)q;
  asked++;
  return NULL;
}
static void defaults(const clade_query *q, int32_t *config) {
  (void)q;
  asked++;
  config[0] = 7;
}
static bool never(const clade_query *q) {
  (void)q;
  return false;
}
static const char *const params[] = {"rows", NULL};
static const clade_space space = {sizeof space, params, defaults, NULL};

/* ---- requirements ---- */
static const char *lacks(clade_impl impl, clade_device_info device) {
  const clade_query q = {.size = sizeof q, .device = &device};
  return clade__impl_lacks(&impl, &q);
}
#define NEEDS(...) ((clade_impl){.size = sizeof(clade_impl), .name = "toy", __VA_ARGS__})
static clade_impl named(const char *name) { return (clade_impl){.size = sizeof(clade_impl), .name = name}; }

static const clade_device_info cpu = {
    .size = sizeof cpu, .device_class = CLADE_CPU, .vector_f32 = 8, .local_bytes = 32768};

static void classes(void **state) {
  (void)state;
  static const struct {
    unsigned devices;
    clade_device_class here;
    bool software;
    const char *reason;
  } rows[] = {
      {0, CLADE_CPU, false, NULL},
      {0, CLADE_GPU, true, NULL},
      {CLADE_ON_CPU, CLADE_CPU, false, NULL},
      {CLADE_ON_CPU, CLADE_CPU, true, NULL},
      {CLADE_ON_CPU, CLADE_GPU, false, "made for CPUs"},
      {CLADE_ON_CPU, CLADE_GPU, true, "made for CPUs"},
      {CLADE_ON_GPU, CLADE_CPU, false, "made for GPUs"},
      {CLADE_ON_GPU, CLADE_GPU, false, NULL},
      {CLADE_ON_GPU, CLADE_GPU, true, "requires a device that is not emulated on a CPU"},
      {CLADE_ON_GPU | CLADE_ON_ACCEL, CLADE_CPU, false, "made for GPUs and accelerators"},
      {CLADE_ON_GPU | CLADE_ON_ACCEL, CLADE_ACCEL, false, NULL},
      {CLADE_ON_CPU | CLADE_ON_GPU | CLADE_ON_ACCEL, CLADE_GPU, true, NULL},
      {1u << 9, CLADE_CPU, false, "made for no class of devices"},
  };
  for (size_t i = 0; i < CLADE_COUNT(rows); i++) {
    clade_device_info device = cpu;
    device.device_class = rows[i].here;
    device.software = rows[i].software;
    const char *reason = lacks(NEEDS(.devices = rows[i].devices), device);
    if (!reason != !rows[i].reason || (reason && strcmp(reason, rows[i].reason) != 0))
      fail_msg("row %zu: %s", i, reason ? reason : "taken");
  }
}

static void capabilities(void **state) {
  (void)state;
  clade_device_info device = cpu;
  assert_null(lacks(NEEDS(.needs_long_loops = true, .needs_lanes = 8, .needs_local = 32768), cpu));
  assert_string_equal(lacks(NEEDS(.needs_lanes = 16), cpu), "needs 16 floats in a vector; the device has 8");
  assert_string_equal(lacks(NEEDS(.needs_local = 49152), cpu),
                      "needs 49152 bytes of local memory; the device has 32768");
  device.max_passes = 65535;
  assert_string_equal(lacks(NEEDS(.needs_long_loops = true), device),
                      "requires long loops, which the device ends early");
  assert_string_equal(lacks(NEEDS(.bundled = "k"), cpu), "its kernel comes from a bundle, and the device has none");
  device.kernels = (const char *const[]){"k", NULL};
  assert_null(lacks(NEEDS(.bundled = "k"), device));
  assert_string_equal(lacks(NEEDS(.bundled = "l"), device), "the device's bundle does not hold its kernel");
  assert_string_equal(lacks(named("ref"), device), "its kernels are compiled, and the device's come from a bundle");
}

/* Any one of them suffices. */
static void units(void **state) {
  (void)state;
  const unsigned both = 1u << CLADE_UNIT_VNNI | 1u << CLADE_UNIT_AMX_INT8;
  clade_device_info device = cpu;
  assert_string_equal(lacks(NEEDS(.needs_units = both), device),
                      "requires a matrix unit that devices of this class do not have");
  device.unit[CLADE_UNIT_VNNI] = (clade_unit_info){.name = "vnni", .reason = "vnni: no"};
  assert_string_equal(lacks(NEEDS(.needs_units = both), device), "needs a matrix unit: vnni: no");
  device.unit[CLADE_UNIT_AMX_INT8] = (clade_unit_info){.name = "amx_int8", .reason = "amx_int8: neither"};
  assert_string_equal(lacks(NEEDS(.needs_units = both), device), "needs a matrix unit: vnni: no, amx_int8: neither");
  device.unit[CLADE_UNIT_AMX_INT8].used = true;
  assert_null(lacks(NEEDS(.needs_units = both), device));
  assert_string_equal(lacks(NEEDS(.needs_units = both, .units = never), device),
                      "none of its matrix units supports these operands");
}

/* A test's override applies to one implementation and its class only. */
static void anywhere(void **state) {
  (void)state;
  const clade_impl one = NEEDS(.devices = CLADE_ON_GPU), other = one,
                   large = NEEDS(.devices = CLADE_ON_GPU, .needs_local = 49152);
  const clade_query q = {.size = sizeof q, .device = &cpu};
  clade__impl_anywhere = &one;
  assert_null(clade__impl_lacks(&one, &q));
  assert_string_equal(clade__impl_lacks(&other, &q), "made for GPUs");
  clade__impl_anywhere = &large;
  assert_string_equal(clade__impl_lacks(&large, &q), "needs 49152 bytes of local memory; the device has 32768");
  clade__impl_anywhere = NULL;
}

/* No function of the implementation is called. */
static void nothing_is_asked(void **state) {
  (void)state;
  const clade_impl impl = NEEDS(.devices = CLADE_ON_GPU, .accept = accept, .space = &space);
  clade_query q = {.size = sizeof q, .device = &cpu};
  int32_t config[CLADE_MAX_PARAMS];
  asked = 0;
  clade__query_defaults(&q, &impl, config);
  assert_int_equal(config[0], 0);
  assert_string_equal(clade__impl_unfit(&impl, &q), "made for GPUs");
  assert_int_equal(asked, 0);
  clade_device_info gpu = cpu;
  gpu.device_class = CLADE_GPU;
  q.device = &gpu;
  clade__query_defaults(&q, &impl, config);
  assert_int_equal(config[0], 7);
  assert_null(clade__impl_unfit(&impl, &q));
  assert_int_equal(asked, 2);
}

static void names(void **state) {
  (void)state;
  assert_string_equal(clade_family_name(CLADE_FAMILY_REF), "ref");
  assert_string_equal(clade_family_name(CLADE_FAMILY_GROUP), "group");
  assert_string_equal(clade_family_name(CLADE_FAMILY_LIBRARY), "library");
  assert_string_equal(clade_family_name(0), "?");
  assert_string_equal(clade_family_name(99), "?");
  for (const clade_op *const *op = clade__ops; *op; op++)
    for (const clade_impl *const *impl = clade__impls(*op); *impl; impl++)
      assert_string_not_equal(clade_family_name((*impl)->family), "?");
}

/* ---- older structs: memory behind their end must not be read ---- */
static clade_status infer(clade_node *n) {
  n->out[0] = n->in[0];
  return CLADE_OK;
}

/* A copy of the first bytes only, so that a sanitizer detects reads beyond. */
static void *cut(const void *from, size_t bytes) {
  void *copy = malloc(bytes);
  assert_non_null(copy);
  memcpy(copy, from, bytes);
  memcpy(copy, &bytes, sizeof bytes);
  return copy;
}

static clade_status add(const clade_op *op) {
  clade_graph *g;
  assert_int_equal(clade_graph_new(&g), CLADE_OK);
  clade_node_add(g, op, NULL, NULL, 1, (clade_val[]){clade_input(g, "x", CLADE_F32, CLADE_SHAPE(2))}, NULL);
  clade_status status = clade_graph_status(g);
  clade_graph_release(g);
  return status;
}

static void older_structs(void **state) {
  (void)state;
  const clade_impl whole = NEEDS(.accept = accept, .space = &space, .any_layout = true, .family = CLADE_FAMILY_VEC,
                                 .devices = CLADE_ON_CPU, .needs_local = 1);
  clade_space *short_space = cut(&space, CLADE__THROUGH(clade_space, defaults));
  clade_impl spaced = whole;
  spaced.space = short_space;
  const clade_impl *const all[] = {cut(&whole, CLADE__THROUGH(clade_impl, emit)),
                                   cut(&spaced, CLADE__THROUGH(clade_impl, any_layout)),
                                   cut(&whole, CLADE__THROUGH(clade_impl, bundled)), &whole, NULL};
  const clade_op full = {
      .size = sizeof full, .name = "acme.old", .min_in = 1, .max_in = 1, .n_out = 1, .infer = infer, .impls = all};
  clade_op *op = cut(&full, CLADE__THROUGH(clade_op, impls));
  assert_int_equal(add(op), CLADE_OK);
  const clade_impl *const *got = clade__impls(op);
  assert_int_equal(clade__impls_count(op), 4);
  assert_ptr_equal(got, clade__impls(op)); /* completed once */
  for (int i = 0; i < 4; i++) {
    assert_true(got[i]->size >= sizeof(clade_impl));
    assert_string_equal(got[i]->name, "toy");
    assert_true(got[i]->accept == accept);
    assert_int_equal(got[i]->any_layout, i > 0);
    assert_int_equal(got[i]->family, i == 3 ? CLADE_FAMILY_VEC : 0);
    assert_int_equal(got[i]->devices, i == 3 ? CLADE_ON_CPU : 0);
    assert_int_equal(got[i]->needs_local, i == 3);
  }
  assert_null(got[0]->space);
  assert_int_equal(got[1]->space->size, sizeof(clade_space));
  assert_true(got[1]->space->defaults == defaults && !got[1]->space->configs);
  assert_ptr_equal(got[2]->space, &space);
  assert_ptr_equal(got[3], &whole); /* needs no completion */
  assert_string_equal(clade__kernel_file(op, got[0]), "acme.old");
  assert_null(clade__kernel_source_of(op, got[0]));
  for (int i = 0; i < 3; i++) free((void *)(uintptr_t)all[i]);
  free(short_space);
  free(op);
}

static void sizes_that_are_none(void **state) {
  (void)state;
  static clade_impl impl;
  static clade_space bad;
  static const clade_impl *impls[CLADE_MAX_IMPLS + 2];
  clade_op op = {
      .size = sizeof op, .name = "acme.bad", .min_in = 1, .max_in = 1, .n_out = 1, .infer = infer, .impls = impls};
  impls[0] = &impl;
  impl = named("toy");
  impl.size = 8;
  assert_error(add(&op), CLADE_INVALID, "acme.bad: the size of implementation number 0 is 8, at least");
  impl = named("");
  assert_error(add(&op), CLADE_INVALID, "acme.bad: implementation number 0 has no name");
  impl = NEEDS(.space = &bad);
  assert_error(add(&op), CLADE_INVALID, "acme.bad: the size of the space of implementation number 0 is 0");
  bad = (clade_space){.size = sizeof bad};
  assert_error(add(&op), CLADE_INVALID, "acme.bad: the space of toy lacks .params or .start");
  impl = NEEDS(.cost = NULL);
  assert_int_equal(add(&op), CLADE_OK);
  for (int i = 0; i <= CLADE_MAX_IMPLS; i++) impls[i] = &impl;
  assert_error(add(&op), CLADE_INVALID, "acme.bad: an op has at most 64 implementations");
  op.size = CLADE__THROUGH(clade_op, impls) - 1;
  assert_error(add(&op), CLADE_INVALID, "the op's size is");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(classes),       cmocka_unit_test(capabilities),        cmocka_unit_test(units),
      cmocka_unit_test(anywhere),      cmocka_unit_test(nothing_is_asked),    cmocka_unit_test(names),
      cmocka_unit_test(older_structs), cmocka_unit_test(sizes_that_are_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
