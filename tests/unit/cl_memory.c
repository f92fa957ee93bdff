/* Buffers and tensors: budget, pool, copies of all sizes, wrapped memory. On PoCL. */
#include "cl_unit.h"

#include <stdlib.h>

#include <clade/opencl.h>

#include "cl/cl.h"

static clade_device *device;

static int set_up(void **state) {
  (void)state;
  return clade_device_find("pocl", &device) == CLADE_OK ? 0 : -1;
}
static int tear_down(void **state) {
  (void)state;
  clade_device_release(device);
  return 0;
}

static clade_memory_use memory_now(void) {
  clade_memory_use use = {.size = sizeof use};
  check_ok(clade_device_memory(device, &use));
  return use;
}

static void refuses_more_than_the_budget(void **state) {
  (void)state;
  clade__buffer *a, *b;
  uint64_t before = memory_now().used;
  check_ok(clade_device_set_budget(device, before + (3 << 20)));
  check_ok(clade__buffer_new(device, 2 << 20, "first", &a));
  check_fails(clade__buffer_new(device, 2097153, "weights of fc", &b), CLADE_DEVICE_MEMORY, "weights of fc: 2097153 ");
  char words[128];
  snprintf(words, sizeof words, "%llu used, %llu allowed", (unsigned long long)before + (2 << 20),
           (unsigned long long)before + (3 << 20));
  assert_non_null(strstr(clade_last_error(), words));
  assert_null(b);
  assert_int_equal(memory_now().used, before + (2 << 20));
  clade__buffer_release(a);
  check_ok(clade_device_set_budget(device, 0));
  clade_device_info info = {.size = sizeof info};
  check_ok(clade_device_get_info(device, &info));
  assert_int_equal(memory_now().allowed, info.budget_bytes);
}

static void refuses_more_than_one_buffer_may_have(void **state) {
  (void)state;
  clade__buffer *b;
  size_t most = (size_t)clade__device_info(device)->max_buffer_bytes;
  check_fails(clade__buffer_new(device, most + 1, "the arena", &b), CLADE_DEVICE_MEMORY, "allowed in one buffer");
  check_fails(clade__buffer_new(device, SIZE_MAX, "the arena", &b), CLADE_DEVICE_MEMORY, "bytes asked");
}

static void uses_buffers_again(void **state) {
  (void)state;
  clade__buffer *a, *b;
  clade_device_set_budget(device, 1);
  clade_device_set_budget(device, 0);
  assert_int_equal(memory_now().pooled, 0);
  uint64_t before = memory_now().used;
  check_ok(clade__buffer_new(device, 100000, "a", &a));
  cl_mem memory = clade__buffer_mem(a);
  uint64_t with = memory_now().used;
  assert_true(with >= before + 100000 && with <= before + 100000 + 100000 / 8);
  clade__buffer_release(a);
  assert_int_equal(memory_now().used, with);
  assert_int_equal(memory_now().pooled, with - before);
  check_ok(clade__buffer_new(device, 99000, "b", &b));
  assert_ptr_equal(clade__buffer_mem(b), memory);
  assert_int_equal(clade__buffer_bytes(b), 99000);
  assert_int_equal(memory_now().pooled, 0);
  clade__buffer_release(clade__buffer_retain(b));
  assert_int_equal(memory_now().pooled, 0);
  clade__buffer_release(b);
  check_ok(clade__buffer_new(device, 40000, "c", &a)); /* the pooled one would waste too much */
  assert_ptr_not_equal(clade__buffer_mem(a), memory);
  clade__buffer_release(a);
}

/* Pooled buffers are freed when the budget requires it. */
static void trims_the_pool_when_the_budget_is_short(void **state) {
  (void)state;
  clade__buffer *a, *b;
  check_ok(clade__buffer_new(device, 1 << 20, "a", &a));
  clade__buffer_release(a);
  assert_true(memory_now().pooled >= 1 << 20);
  clade_memory_use use = memory_now();
  check_ok(clade_device_set_budget(device, use.used - use.pooled + (8 << 20)));
  assert_true(memory_now().pooled >= 1 << 20);
  check_ok(clade__buffer_new(device, 8 << 20, "b", &b));
  assert_int_equal(memory_now().pooled, 0);
  clade__buffer_release(b);
  check_ok(clade_device_set_budget(device, 0));
}

static void gives_a_buffer_of_nothing(void **state) {
  (void)state;
  clade__buffer *b;
  check_ok(clade__buffer_new(device, 0, "nothing", &b));
  assert_non_null(clade__buffer_mem(b));
  assert_int_equal(clade__buffer_bytes(b), 0);
  clade__queue *q = clade__device_transfer_queue(device);
  cl_event event = NULL;
  check_ok(clade__queue_write(q, b, 0, NULL, 0, true, (clade__wait){0}, NULL));
  check_ok(clade__queue_read(q, b, 0, NULL, 0, false, (clade__wait){0}, &event));
  check_ok(clade__event_wait(device, event));
  clade__event_release(event);
  check_fails(clade__queue_write(q, b, 0, "x", 1, true, (clade__wait){0}, NULL), CLADE_INVALID, "1 bytes from 0");
  clade__buffer_release(b);
}

static void copies_odd_sizes(void **state) {
  (void)state;
  static const size_t sizes[] = {1, 2, 3, 15, 16, 17, 255, 4095, 4097, 65537, 1000003};
  for (size_t i = 0; i < CLADE_COUNT(sizes); i++) {
    size_t n = sizes[i];
    clade_tensor *t;
    unsigned char *src = malloc(n), *dst = malloc(n + 1);
    assert_true(src && dst);
    check_ok(clade_tensor_new(device, CLADE_U8, CLADE_SHAPE((clade_dim)n), &t));
    memset(dst, 0x5a, n + 1);
    check_ok(clade_tensor_read(t, dst, n));
    for (size_t k = 0; k < n; k++) assert_int_equal(dst[k], 0); /* zero, whether new or pooled */
    for (size_t k = 0; k < n; k++) src[k] = (unsigned char)(k * 7 + n);
    check_ok(clade_tensor_write(t, src, n));
    check_ok(clade_tensor_read(t, dst, n));
    assert_memory_equal(src, dst, n);
    assert_int_equal(dst[n], 0x5a);
    check_fails(clade_tensor_write(t, src, n + 1), CLADE_INVALID, "the tensor has");
    check_fails(clade_tensor_read(t, NULL, n), CLADE_INVALID, "NULL");
    clade_tensor_release(t);
    free(src);
    free(dst);
  }
}

static void copies_on_the_device(void **state) {
  (void)state;
  clade__buffer *a, *b;
  clade__queue *q = clade__device_transfer_queue(device);
  unsigned char out[1000];
  const uint32_t pattern = 0x01020304;
  check_ok(clade__buffer_new(device, sizeof out, "a", &a));
  check_ok(clade__buffer_new(device, sizeof out, "b", &b));
  check_ok(clade__queue_fill(q, a, 0, sizeof out, &pattern, 4, (clade__wait){0}, NULL));
  check_ok(clade__queue_fill(q, b, 0, sizeof out, "\0", 1, (clade__wait){0}, NULL));
  check_ok(clade__queue_copy(q, a, 4, b, 12, 101, (clade__wait){0}, NULL));
  check_ok(clade__queue_read(q, b, 0, out, sizeof out, true, (clade__wait){0}, NULL));
  for (size_t i = 0; i < sizeof out; i++) assert_int_equal(out[i], i < 12 || i >= 113 ? 0 : 4 - (i & 3));
  check_fails(clade__queue_fill(q, a, 0, 12, &pattern, 3, (clade__wait){0}, NULL), CLADE_INVALID, "a pattern of 3");
  check_fails(clade__queue_copy(q, a, 0, b, 999, 2, (clade__wait){0}, NULL), CLADE_INVALID, "of a buffer of 1000");
  check_fails(clade__queue_copy(q, a, SIZE_MAX, b, 0, 2, (clade__wait){0}, NULL), CLADE_INVALID, "of a buffer of");
  clade__buffer_release(a);
  clade__buffer_release(b);
}

static void keeps_tensors_on_the_host(void **state) {
  (void)state;
  clade_tensor *t;
  check_ok(clade_tensor_new(NULL, CLADE_I64, CLADE_SHAPE(2, 3), &t));
  assert_int_equal(clade_tensor_bytes(t), 48);
  assert_null(clade_tensor_device(t));
  assert_null(clade_tensor_mem(t, NULL));
  int64_t *data = clade_tensor_data(t), six[6] = {1, 2, 3, 4, 5, 6};
  assert_int_equal(data[5], 0);
  check_ok(clade_tensor_write(t, six, sizeof six));
  assert_int_equal(data[5], 6);
  clade_type type = clade_tensor_type(t);
  assert_int_equal(type.dtype, CLADE_I64);
  assert_int_equal(type.shape.dim[1], 3);
  clade_tensor_release(clade_tensor_retain(t));
  check_ok(clade_tensor_read(t, six, sizeof six));
  clade_tensor_release(t);
  check_ok(clade_tensor_new(NULL, CLADE_F32, CLADE_SHAPE(0, 3), &t));
  check_ok(clade_tensor_write(t, NULL, 0));
  clade_tensor_release(t);
}

static void refuses_bad_tensors(void **state) {
  (void)state;
  clade_tensor *t;
  check_fails(clade_tensor_new(device, CLADE_F32, CLADE_SHAPE(1ll << 40, 1ll << 40), &t), CLADE_OVERFLOW, "elements");
  check_fails(clade_tensor_new(device, (clade_dtype)99, CLADE_SHAPE(1), &t), CLADE_DTYPE, "99");
  check_fails(clade_tensor_new(device, CLADE_F32, CLADE_SHAPE(CLADE_DIM("n")), &t), CLADE_BAD_SHAPE, "\"n\"");
  check_fails(clade_tensor_new(device, CLADE_F32, CLADE_SHAPE(1), NULL), CLADE_INVALID, "out is NULL");
  check_fails(clade_tensor_read(NULL, NULL, 0), CLADE_INVALID, "the tensor is NULL");
  assert_null(clade_tensor_data(NULL));
  assert_int_equal(clade_tensor_bytes(NULL), 0);
  clade_tensor_release(NULL);
}

static void wraps_memory_of_the_user(void **state) {
  (void)state;
  clade__buffer *b;
  clade_tensor *t;
  float in[3] = {1, 2, 3}, out[4] = {0};
  size_t offset = 0;
  check_ok(clade__buffer_new(device, 16, "of the user", &b));
  cl_mem memory = clade__buffer_mem(b);
  check_ok(clade_tensor_wrap(device, memory, 4, CLADE_F32, CLADE_SHAPE(3), &t));
  assert_ptr_equal(clade_tensor_mem(t, &offset), memory);
  assert_int_equal(offset, 4);
  check_ok(clade_tensor_write(t, in, sizeof in));
  clade_tensor_release(t);
  check_ok(clade__queue_read(clade__device_transfer_queue(device), b, 4, out, 12, true, (clade__wait){0}, NULL));
  assert_memory_equal(in, out, sizeof in);
  check_fails(clade_tensor_wrap(device, memory, 2, CLADE_F32, CLADE_SHAPE(3), &t), CLADE_INVALID, "multiple");
  check_fails(clade_tensor_wrap(device, memory, 8, CLADE_F32, CLADE_SHAPE(1000), &t), CLADE_INVALID, "of a buffer");
  check_fails(clade_tensor_wrap(device, NULL, 8, CLADE_F32, CLADE_SHAPE(1), &t), CLADE_INVALID, "NULL");
  clade__buffer_release(b);
}

static void refuses_memory_of_another_context(void **state) {
  (void)state;
  clade_device *part[1];
  clade__buffer *b;
  clade_tensor *t;
  check_ok(clade_device_split(device, 1, part));
  check_ok(clade__buffer_new(part[0], 16, "elsewhere", &b));
  check_fails(clade_tensor_wrap(device, clade__buffer_mem(b), 0, CLADE_F32, CLADE_SHAPE(1), &t), CLADE_INVALID,
              "another context");
  clade__buffer_release(b);
  clade_device_release(part[0]);
}

static void stages(void **state) {
  (void)state;
  clade__staging *s;
  check_ok(clade__staging_new(device, 100001, &s));
  memset(clade__staging_data(s), 1, 100001);
  clade__staging_free(s);
  clade__staging_free(NULL);
}

/* kB of mappings with the hint (VmFlags: hg), and kB of huge pages. */
static bool huge_pages(long *hinted, long *huge) {
  char line[256];
  long size = 0, kb;
  FILE *file = fopen("/proc/self/smaps", "re");
  *hinted = *huge = 0;
  if (!file) return false;
  while (fgets(line, sizeof line, file)) {
    if (sscanf(line, "Size: %ld", &kb) == 1) size = kb;
    if (sscanf(line, "AnonHugePages: %ld", &kb) == 1) *huge += kb;
    if (strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " hg")) *hinted += size;
  }
  fclose(file);
  return true;
}

static bool huge_pages_on_request(void) {
  char word[64] = "";
  FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
  if (!file) return false;
  bool told = fgets(word, sizeof word, file) != NULL;
  fclose(file);
  return told && !strstr(word, "[never]");
}

/* A size for which malloc uses mmap each time. */
static void lays_huge_pages_under_large_buffers(void **state) {
  (void)state;
  enum { MIB = 48 };
  long hinted[2], huge[2];
  clade__buffer *b;
  if (!huge_pages_on_request() || !huge_pages(&hinted[0], &huge[0])) {
    print_message("the system gives no huge pages (/sys/kernel/mm/transparent_hugepage/enabled: never): not tested\n");
    skip();
  }
  check_ok(clade__buffer_new(device, MIB << 20, "large", &b));
  assert_true(huge_pages(&hinted[1], &huge[1]));
  assert_in_range(hinted[1] - hinted[0], (MIB << 10) - 8, MIB << 10);
  print_message("of %d MiB that were asked for by huge pages %ld came so\n", MIB, (huge[1] - huge[0]) >> 10);
  clade__buffer_release(b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(refuses_more_than_the_budget),
      cmocka_unit_test(refuses_more_than_one_buffer_may_have),
      cmocka_unit_test(uses_buffers_again),
      cmocka_unit_test(trims_the_pool_when_the_budget_is_short),
      cmocka_unit_test(gives_a_buffer_of_nothing),
      cmocka_unit_test(copies_odd_sizes),
      cmocka_unit_test(copies_on_the_device),
      cmocka_unit_test(keeps_tensors_on_the_host),
      cmocka_unit_test(refuses_bad_tensors),
      cmocka_unit_test(wraps_memory_of_the_user),
      cmocka_unit_test(refuses_memory_of_another_context),
      cmocka_unit_test(stages),
      cmocka_unit_test(lays_huge_pages_under_large_buffers),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
