/* Validation of matrix units: the order of checks and their messages. On PoCL, independent of the processor. */
#include "cl_unit.h"

#include <stdlib.h>

#include <clade/clade.h>

#include "cl/internal.h"

static bool yes(const clade__facts *facts, char *why, size_t bytes) {
  (void)facts, (void)why, (void)bytes;
  return true;
}
static bool no(const clade__facts *facts, char *why, size_t bytes) {
  (void)facts;
  snprintf(why, bytes, "the processor does not have it");
  return false;
}

static const char right[] = "__kernel void clade_unit(__global const uint *in, __global uint *out) {\n"
                            "  for (int i = 0; i < 16; i++) out[i] = 3 * in[i] + i;\n"
                            "}\n";
static void want(const uint32_t *in, uint32_t *out) {
  for (uint32_t i = 0; i < 16; i++) out[i] = 3 * in[i] + i;
}
static void want_more(const uint32_t *in, uint32_t *out) {
  want(in, out);
  out[15]++;
}

static clade_device *device;
static int open_device(void **state) {
  (void)state;
  return clade_device_find("pocl", &device) != CLADE_OK;
}
static int close_device(void **state) {
  (void)state;
  clade_device_release(device);
  return 0;
}

static void check_gate(const clade__unit_row *row, const char *reason) {
  char why[512] = "";
  bool passes = clade__unit_pass(device, row, clade__unit_probe, why, sizeof why);
  if (passes != !reason || (reason && !strstr(why, reason))) fail_msg("%d: \"%s\"", passes, why);
}

static void lets_through_what_computes_right(void **state) {
  (void)state;
  clade__unit_row row = {"imagined", CLADE_CPU, yes, NULL, 0, 1, false, 16, right, want};
  check_gate(&row, NULL);
  row.floats = true; /* changes the random words */
  check_gate(&row, NULL);
}

static void says_why_not(void **state) {
  (void)state;
  clade__unit_row row = {"imagined", CLADE_CPU, no, NULL, 0, 1, false, 16, right, want};
  check_gate(&row, "the processor does not have it");
  row = (clade__unit_row){"imagined", CLADE_CPU, yes, NULL, 0, 1, false, 16, right, want_more};
  check_gate(&row, "the probe kernel gave a wrong answer");
  row.source = "__kernel void clade_unit(__global const uint *in, __global uint *out) { nonsense }\n";
  check_gate(&row, "the probe kernel failed: ");
  row = (clade__unit_row){"imagined", CLADE_CPU, yes, NULL, 1u << 20, 1, false, 16, right, want};
  check_gate(&row, "vectors");
  row = (clade__unit_row){"imagined", CLADE_GPU, yes, NULL, 0, 1, false, 16, right, want};
  check_gate(&row, "devices of this class do not have it");
}

/* Each missing unit has a reason and is refused by name. */
static void devices_know_their_units(void **state) {
  (void)state;
  clade_device_info info = {.size = sizeof info};
  check_ok(clade_device_ask_units(device));
  check_ok(clade_device_ask_units(device));
  check_ok(clade_device_get_info(device, &info));
  for (int i = 0; i < CLADE_UNITS; i++) {
    const char *name = clade__unit_rows[i].name;
    char start[64], why[512];
    snprintf(start, sizeof start, "%s: ", name);
    if (clade__unit_rows[i].on != CLADE_CPU) {
      assert_null(info.unit[i].name);
      continue;
    }
    assert_string_equal(info.unit[i].name, name);
    bool there = clade__unit_rows[i].there(&device->facts, why, sizeof why);
    assert_true(there || !info.unit[i].used);
    assert_int_equal(info.unit[i].used, !info.unit[i].reason);
    if (!info.unit[i].used) assert_true(strncmp(info.unit[i].reason, start, strlen(start)) == 0);
    if (!there) assert_string_equal(info.unit[i].reason + strlen(start), why);
  }
}

static clade_status compile(clade_dtype a, clade_dtype b, const char *prefer) {
  clade_graph *g;
  clade_func *func = NULL;
  check_ok(clade_graph_new(&g));
  clade_val x = clade_input(g, "x", a, CLADE_SHAPE(5, 7)), y = clade_input(g, "y", b, CLADE_SHAPE(7, 3));
  clade_output(g, "z", clade_gemm(g, x, y));
  clade_status status = clade_compile(g, device, &func, .prefer = prefer);
  clade_func_release(func);
  clade_graph_release(g);
  return status;
}

/* A product that requests an unavailable unit is refused with the unit's reason; without a request, another
 * implementation is used. Float products do not probe units. */
static void products_ask_first(void **state) {
  (void)state;
  static const struct {
    clade_dtype a, b;
    clade_unit vectors, tiles;
  } rows[] = {{CLADE_U8, CLADE_I8, CLADE_UNIT_VNNI, CLADE_UNIT_AMX_INT8},
              {CLADE_I8, CLADE_I8, CLADE_UNIT_VNNI, CLADE_UNIT_AMX_INT8},
              {CLADE_BF16, CLADE_BF16, CLADE_UNIT_AVX512_BF16, CLADE_UNIT_AMX_BF16}};
  clade_device_info info = {.size = sizeof info};
  check_ok(compile(CLADE_F32, CLADE_F32, NULL));
  check_ok(clade_device_get_info(device, &info));
  for (int i = 0; i < CLADE_UNITS && info.unit[i].name; i++) assert_true(strstr(info.unit[i].reason, "not probed yet"));
  check_fails(compile(CLADE_F32, CLADE_F32, "gemm=mma"), CLADE_NOT_FOUND,
              "mma: none of its matrix units supports these operands");
  for (size_t r = 0; r < CLADE_COUNT(rows); r++)
    for (int tiles = 0; tiles < 2; tiles++) {
      clade_status status = compile(rows[r].a, rows[r].b, tiles ? "gemm=mma_tile" : "gemm=mma");
      check_ok(clade_device_get_info(device, &info));
      const clade_unit_info *unit = &info.unit[tiles ? rows[r].tiles : rows[r].vectors];
      if (unit->used)
        check_ok(status);
      else
        check_fails(status, CLADE_NOT_FOUND, unit->reason);
      check_ok(compile(rows[r].a, rows[r].b, NULL));
    }
}

/* On processors with tiles, CLADE_AMX takes precedence over the operating system. */
static void tiles_can_be_switched_off(void **state) {
  (void)state;
  char without[512] = "", with[512] = "";
  for (int i = CLADE_UNIT_AMX_INT8; i <= CLADE_UNIT_AMX_BF16; i++) {
    setenv("CLADE_AMX", "off", 1);
    assert_false(clade__unit_rows[i].there(&device->facts, with, sizeof with));
    unsetenv("CLADE_AMX");
    bool there = clade__unit_rows[i].there(&device->facts, without, sizeof without);
    assert_string_equal(with, there ? "switched off by CLADE_AMX=off" : without);
  }
}

/* GPUs report their architecture by compute capability. */
static void gpus_need_a_capability(void **state) {
  (void)state;
  static const struct {
    uint32_t capability;
    const char *why;
  } rows[] = {{0, "the device tells no compute capability"},
              {75, "the device's compute capability is 7.5; 8.0 is needed"},
              {80, ""},
              {121, ""}};
  const clade__unit_row *ptx = &clade__unit_rows[CLADE_UNIT_PTX];
  for (size_t i = 0; i < CLADE_COUNT(rows); i++) {
    char why[256] = "";
    clade__facts facts = {.info.compute_capability = rows[i].capability};
    assert_int_equal(ptx->there(&facts, why, sizeof why), !*rows[i].why);
    assert_string_equal(why, rows[i].why);
  }
  const clade__unit_row *wgmma = &clade__unit_rows[CLADE_UNIT_WGMMA];
  for (uint32_t capability = 0; capability <= 120; capability += 10) { /* only one architecture has it */
    char why[256] = "";
    clade__facts facts = {.info.compute_capability = capability};
    assert_int_equal(wgmma->there(&facts, why, sizeof why), capability == 90);
    assert_int_equal(!*why, capability == 90);
  }
  check_gate(wgmma, rows[0].why);
  check_fails(compile(CLADE_I8, CLADE_I8, "gemm=mma_warpgroup"), CLADE_NOT_FOUND, "made for GPUs");
  static const uint32_t capabilities[] = {80, 86, 89, 90, 120};
  for (size_t i = 0; i < CLADE_COUNT(capabilities); i++) { /* f8 came later */
    char why[256] = "";
    clade__facts facts = {.info.compute_capability = capabilities[i]};
    assert_int_equal(clade__unit_rows[CLADE_UNIT_PTX_F8].there(&facts, why, sizeof why), i > 1);
    assert_string_equal(why, i == 1 ? "the device's compute capability is 8.6; 8.9 is needed"
                             : i    ? ""
                                    : "the device's compute capability is 8.0; 8.9 is needed");
    assert_int_equal(clade__unit_rows[CLADE_UNIT_WGMMA_BYTES].there(&facts, why, sizeof why), i == 3);
  }
  check_fails(compile(CLADE_BF16, CLADE_BF16, "gemm=mma_warpgroup"), CLADE_NOT_FOUND, "made for GPUs");
  assert_int_equal(device->facts.info.compute_capability, 0);
  check_gate(ptx, rows[0].why);
  check_fails(compile(CLADE_BF16, CLADE_BF16, "gemm=mma_warp"), CLADE_NOT_FOUND, "made for GPUs");
  check_fails(compile(CLADE_F32, CLADE_F32, "gemm=mma_warp_loose"), CLADE_NOT_FOUND, "made for GPUs");
}

/* PoCL's programs are not text, so late instructions leave them unchanged. */
static void late_instructions_need_a_text(void **state) {
  (void)state;
  static const char source[] = "/"
                               "/!90a nop\n__kernel void one(__global int *a) { a[0] = 1; }\n";
  cl_program program;
  char *names;
  device->facts.info.compute_capability = 90;
  assert_int_equal(clade__program_build(device, source, strlen(source), "", &program, NULL), CLADE_OK);
  device->facts.info.compute_capability = 0;
  assert_int_equal(clade__program_kernels(device, program, &names), CLADE_OK);
  assert_string_equal(names, "one");
  clade__free(names);
  clade__program_release(program);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products_ask_first), /* first, before any probe */
      cmocka_unit_test(lets_through_what_computes_right),
      cmocka_unit_test(says_why_not),
      cmocka_unit_test(devices_know_their_units),
      cmocka_unit_test(tiles_can_be_switched_off),
      cmocka_unit_test(gpus_need_a_capability),
      cmocka_unit_test(late_instructions_need_a_text),
  };
  return cmocka_run_group_tests(tests, open_device, close_device);
}
