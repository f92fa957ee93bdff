/* Memory bounds of file readers: peak memory, including jansson's, for large files, files that claim to be large,
 * and small ones that expand. */
#include "io_bounds_kit.h"
#include "io_vars_kit.h"

#include "base/json.h"
#include "program/records.h"

#ifdef CLADE_WITH_ZLIB
#include <zlib.h>
#endif

static clade_status read_npy(const char *path) {
  clade_array array;
  return clade_npy_read(path, &array);
}
static clade_status read_idx(const char *path) {
  clade_array array;
  return clade__idx_read(path, (uint64_t)2 << 30, &array);
}
static clade_status read_cifar(const char *path) {
  clade_array images, labels;
  return clade__cifar_read(path, 1, &images, &labels);
}
static void large_arrays(void **state) {
  (void)state;
  static const char small[] = "\x93NUMPY\1\0\x3e\0{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }    \n";
  static const char large[] = "\x93NUMPY\1\0\x3e\0{'descr': '<f4', 'fortran_order': False, 'shape': (1 << 9,)} \n";
  static const unsigned char idx[] = {0, 0, 8, 1, 0, 0, 0, 4}, huge[] = {0, 0, 8, 1, 0xff, 0xff, 0xff, 0xff};
  CHEAP(FEW, CORRUPT, read_npy(sparse("x", "", 0, GIB(3))), "no NPY file");
  CHEAP(FEW, CORRUPT, read_npy(sparse("x", small, sizeof small - 1, GIB(3))), "bytes more than the 76");
  CHEAP(FEW, CORRUPT, read_npy(sparse("x", large, sizeof large - 1, GIB(3))), "','");
  CHEAP(FEW, CORRUPT, read_idx(sparse("x", "", 0, GIB(3))), "element type");
  CHEAP(FEW, CORRUPT, read_idx(sparse("x", idx, sizeof idx, GIB(1))), "bytes more than the 12");
  CHEAP(FEW, OVERFLOW, read_idx(sparse("x", huge, sizeof huge, GIB(3))), "are more than");
  CHEAP(FEW, CORRUPT, read_cifar(sparse("x", "", 0, GIB(1) - 1)), "no whole number of records");
  CHEAP(FEW, OVERFLOW, read_cifar(sparse("x", "", 0, (off_t)3073 << 20)), "at most 1073741824");
}

#ifdef CLADE_WITH_ZLIB
/* Compresses the bytes followed by zeros. */
static size_t packed(const void *data, size_t bytes, size_t zeros, unsigned char *to, size_t room) {
  static unsigned char none[1 << 16];
  z_stream z = {.next_in = (unsigned char *)(uintptr_t)data, .avail_in = (uInt)bytes, .next_out = to};
  z.avail_out = (uInt)room;
  assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  assert_int_equal(deflate(&z, Z_NO_FLUSH), Z_OK);
  for (; zeros; zeros -= CLADE_MIN(zeros, sizeof none)) {
    z.next_in = none;
    z.avail_in = (uInt)CLADE_MIN(zeros, sizeof none);
    assert_int_equal(deflate(&z, Z_NO_FLUSH), Z_OK);
  }
  assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
  deflateEnd(&z);
  return z.total_out;
}

/* A decompression bomb ends at the size in its header, or is refused before decompression. */
static void bombs(void **state) {
  (void)state;
  static const unsigned char four[] = {0, 0, 8, 1, 0, 0, 0, 4}, much[] = {0, 0, 8, 1, 0x7f, 0xff, 0xff, 0xff};
  static unsigned char file[1 << 20];
  size_t n = packed(four, sizeof four, (size_t)256 << 20, file, sizeof file);
  CHEAP(FEW, CORRUPT, read_idx(io_file("x", file, n)), "cannot be compressed in");
  n = packed(four, sizeof four, 16 << 20, file, sizeof file);
  CHEAP(FEW, CORRUPT, read_idx(io_file("x", file, n)), "more than the 12 bytes");
  n = packed(four, sizeof four, 4, file, sizeof file);
  CHEAP(FEW, CORRUPT, read_idx(sparse("x", file, n, GIB(3))), "cannot be compressed in 3221225472");
  n = packed(much, sizeof much, 1 << 20, file, sizeof file);
  CHEAP(FEW, CORRUPT, read_idx(io_file("x", file, n)), "cannot be compressed in");
}
#endif

/* ---- safetensors ---- */
static clade_vars *vars;
static clade_status load(const char *path) { return clade_vars_load(vars, path); }

static const char *header(const char *name, const char *text, size_t bytes, off_t more) {
  const char *path = io_path(name);
  unsigned char length[8];
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  clade__put_little(length, bytes, 8);
  assert_int_equal(fwrite(length, 1, 8, f) + fwrite(text, 1, bytes, f), 8 + bytes);
  assert_int_equal(fclose(f), 0);
  assert_int_equal(truncate(path, (off_t)(8 + bytes) + more), 0);
  return path;
}

static void large_safetensors(void **state) {
  (void)state;
  static const unsigned char length[8] = {0, 0, 0, 5}; /* a header of 80 MiB, which exists */
  static const char w[] = "{\"w\":{\"dtype\":\"F32\",\"shape\":[805306368],\"data_offsets\":[0,3221225472]}}";
  CHEAP(FEW, CORRUPT, load(sparse("x", "", 0, GIB(3))), "a header of 0 bytes");
  CHEAP(FEW, CORRUPT, load(header("x", "{}", 2, GIB(3))), "0 bytes, and 3221225472 follow");
  CHEAP(FEW, BAD_SHAPE, load(header("x", w, sizeof w - 1, GIB(3))), "does not fit the model");
  CHEAP(FEW, CORRUPT, load(sparse("x", length, 8, 1 << 20)), "ends in its header");
  CHEAP((size_t)85 << 20, CORRUPT, load(sparse("x", length, 8, GIB(3))), "does not begin with '{'");
}

/* Repeats `piece`, with %zu replaced by its number. */
static char *repeated(const char *begin, const char *piece, const char *end, size_t bytes, size_t *n) {
  char *text = malloc(bytes + 1024);
  assert_non_null(text);
  *n = (size_t)sprintf(text, "%s", begin);
  for (size_t i = 0; *n < bytes; i++) {
    if (i) text[(*n)++] = ',';
    *n += (size_t)snprintf(text + *n, 512, piece, i);
  }
  *n += (size_t)sprintf(text + *n, "%s", end);
  return text;
}

static void hostile_headers(void **state) {
  (void)state;
  enum { MIB = 1 << 20 };
  size_t n;
  char *text =
      repeated("{", "\"%zu\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}", "}", 32 * (size_t)MIB, &n);
  CHEAP(n + MIB, CORRUPT, load(header("x", text, n, 0)), "more values than its");
  free(text);
  text = repeated("{", "\"%zu\":{}", "}", 8 * (size_t)MIB, &n);
  CHEAP(n + MIB, CORRUPT, load(header("x", text, n, 0)), "more values than its");
  free(text);
  text = repeated("{", "\"%zu\":0", "}", 2 * (size_t)MIB, &n);
  CHEAP(128 * (size_t)MIB, CORRUPT, load(header("x", text, n, 0)), "at most 131072");
  free(text);
  text = repeated("{\"__metadata__\":{\"a\":\"", "%zu", "\"}}", 16 * (size_t)MIB, &n);
  CHEAP(5 * n, NOT_FOUND, load(header("x", text, n, 0)), "missing: w");
  free(text);
}

/* A large valid header is read. */
static void many_tensors(void **state) {
  (void)state;
  size_t n, before;
  clade__bytes file;
  clade__tensors tensors;
  char *text = repeated("{",
                        "\"model.layers.%06zu.attention.weight\":{\"dtype\":\"BF16\",\"shape\":[0,4096],"
                        "\"data_offsets\":[0,0]}",
                        "}", 8 << 20, &n);
  const char *path = header("x", text, n, 0);
  free(text);
  before = mark();
  OK(clade__tensors_read(path, &file));
  OK(clade__tensors_parse(path, &file, &tensors));
  assert_true(tensors.n > 80000);
  assert_true(peak_since(before) < ((size_t)128 << 20) + 6 * n);
  clade__tensors_free(&tensors);
}

/* ---- JSON ---- */
static void json(void **state) {
  (void)state;
  json_error_t error;
  size_t n, before = mark();
  char *text = repeated("[", "{}", "]", 16 << 20, &n);
  assert_null(clade__json_load(text, n, &error));
  assert_non_null(strstr(error.text, "more values than"));
  assert_int_equal(peak, before);
  free(text);
  static const char quoted[] = "{\"a\\\"{[,:\":\"\\\\\"}";
  json_t *whole = clade__json_load(quoted, sizeof quoted - 1, &error);
  assert_string_equal(json_string_value(json_object_get(whole, "a\"{[,:")), "\\");
  json_decref(whole);
  assert_null(clade__json_load("{\"a\":1,\"a\":1}", 13, &error));
  assert_null(clade__json_load("\"\\", 2, &error)); /* must not read beyond the end */
}

/* The maximum number of records survives a round trip. */
static void all_records(void **state) {
  (void)state;
  size_t n, bad = 0, before;
  clade__record_sets sets;
  char *text = repeated("{\"clade_tuning\":1,\"devices\":[{\"device\":{\"name\":\"n\",\"driver\":\"d\",\"class\":"
                        "\"cpu\",\"compute_units\":2,"
                        "\"vector_f32\":8,\"l1\":1,\"l2\":1,\"cache\":1,\"fma_units\":1},\"records\":[",
                        "{\"op\":\"gemm\",\"problem\":\"f32[%zu,64] f32[64,64] -> "
                        "f32\",\"impl\":\"vec\",\"params\":{\"rows\":6,\"cols\":2,"
                        "\"depth\":256,\"order\":1},\"seconds\":1.25e-05,\"default_seconds\":1.5e-05,\"full\":false,"
                        "\"kernel\":\"0123456789abcdef0123456789abcdef\"}",
                        "]}]}", 13 << 20, &n);
  before = mark();
  OK(clade__records_parse(text, n, &sets, &bad));
  assert_int_equal(bad, 0);
  assert_true(peak_since(before) < ((size_t)128 << 20) + 8 * n);
  clade__record_sets_free(&sets);
  free(text);
}

/* ---- special files, and files that change meanwhile ---- */
static void fifos(void **state) {
  (void)state;
  assert_int_equal(mkfifo(io_path("fifo"), 0600), 0);
  CHEAP(FEW, INVALID, read_npy(io_path("fifo")), "fifo: it is not a regular file");
  CHEAP(FEW, INVALID, read_idx(io_path("fifo")), "regular");
  CHEAP(FEW, INVALID, load(io_path("fifo")), "regular");
}

static clade_status shorten(const clade__file *file, const void *unused) {
  (void)unused;
  assert_int_equal(truncate(file->path, 1), 0);
  return CLADE_OK;
}
static void shorter_meanwhile(void **state) {
  (void)state;
  clade__bytes file;
  CHEAP(FEW, IO, clade__file_read_judged(io_file("x", "many bytes", 10), 100, shorten, NULL, &file), "became shorter");
}

static int set_up(void **state) {
  static const io_var model[] = {{"w", CLADE_F32, {2, {3, 4}}, true}};
  count_memory();
  if (io_device_set_up(state)) return -1;
  vars = io_vars(1, model, 1);
  return 0;
}
static int tear_down(void **state) {
  clade_vars_release(vars);
  return io_device_tear_down(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(large_arrays),
      cmocka_unit_test(large_safetensors),
      cmocka_unit_test(hostile_headers),
      cmocka_unit_test(many_tensors),
      cmocka_unit_test(json),
      cmocka_unit_test(all_records),
      cmocka_unit_test(fifos),
      cmocka_unit_test(shorter_meanwhile),
#ifdef CLADE_WITH_ZLIB
      cmocka_unit_test(bombs),
#endif
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
