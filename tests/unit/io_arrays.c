/* NPY, IDX and CIFAR files: reading each type and shape, and refusing every malformed file. */
#include "io_kit.h"

#ifdef CLADE_WITH_ZLIB
#include <zlib.h>
#endif

#define BYTES(...) (const unsigned char[]){__VA_ARGS__}, sizeof((const unsigned char[]){__VA_ARGS__})

/* ---- NPY ---- */
/* An NPY file: version, dictionary (padded like NumPy's), data. */
static const char *npy(const char *name, int version, const char *dict, const void *data, size_t bytes) {
  unsigned char file[4096] = "\x93NUMPY";
  size_t width = version == 1 ? 2 : 4, at = 8 + width, n = strlen(dict);
  memcpy(file + at, dict, n);
  for (at += n; (at + 1) % 64; at++) file[at] = ' ';
  file[at++] = '\n';
  file[6] = (unsigned char)version;
  clade__put_little(file + 8, at - 8 - width, width);
  memcpy(file + at, data, bytes);
  return io_file(name, file, at + bytes);
}
static const char *plain(const char *descr, const char *shape, const void *data, size_t bytes) {
  char dict[256];
  snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, shape);
  return npy("plain.npy", 1, dict, data, bytes);
}

static void expect(const char *path, clade_dtype dtype, clade_shape shape, const void *data, size_t bytes) {
  clade_array a;
  OK(clade_npy_read(path, &a));
  assert_int_equal(a.dtype, dtype);
  assert_true(clade_shape_equal(&a.shape, &shape));
  assert_int_equal(a.bytes, bytes);
  assert_memory_equal(a.data, data, bytes);
  clade_array_free(&a);
  assert_null(a.data);
}

static void npy_types(void **state) {
  (void)state;
  const float f[] = {1, -2.5f, 3e38f};
  const double d[] = {1, -2.5, 3e38};
  const int16_t s[] = {-32768, -1, 32767};
  const uint16_t us[] = {0, 1, 65535};
  const int32_t i[] = {-32768, -1, 32767}, ui[] = {0, 1, 65535};
  const uint32_t u4[] = {0, 7, UINT32_MAX};
  const int64_t l[] = {0, 7, UINT32_MAX};
  const bool b[] = {true, false, true};
  const clade_shape three = CLADE_SHAPE(3);
  expect(plain("<f4", "(3,)", f, sizeof f), CLADE_F32, three, f, sizeof f);
  expect(plain("=f8", "(3,)", d, sizeof d), CLADE_F32, three, f, sizeof f);
  expect(plain("<f2", "(3,)", us, sizeof us), CLADE_F16, three, us, sizeof us);
  expect(plain("|i1", "(6L,)", s, sizeof s), CLADE_I8, CLADE_SHAPE(6), s, sizeof s);
  expect(plain("|u1", "( 2, 3 )", s, sizeof s), CLADE_U8, CLADE_SHAPE(2, 3), s, sizeof s);
  expect(plain("<i2", "(3,)", s, sizeof s), CLADE_I32, three, i, sizeof i);
  expect(plain("<u2", "(3,)", us, sizeof us), CLADE_I32, three, ui, sizeof ui);
  expect(plain("<i4", "(3,)", i, sizeof i), CLADE_I32, three, i, sizeof i);
  expect(plain("<u4", "(3,)", u4, sizeof u4), CLADE_I64, three, l, sizeof l);
  expect(plain("<i8", "(3,)", l, sizeof l), CLADE_I64, three, l, sizeof l);
  expect(plain("|b1", "(3,)", b, sizeof b), CLADE_BOOL, three, b, sizeof b);
  expect(plain(">i2", "(2,)", BYTES(0xff, 0xfe, 1, 2)), CLADE_I32, CLADE_SHAPE(2), (int32_t[]){-2, 258}, 8);
  expect(plain(">f4", "(1,)", BYTES(0x3f, 0x80, 0, 0)), CLADE_F32, CLADE_SHAPE(1), f, 4);
}

static void npy_shapes(void **state) {
  (void)state;
  const float f[6] = {1, 2, 3, 4, 5, 6};
  expect(plain("<f4", "()", f, 4), CLADE_F32, CLADE_SCALAR, f, 4);
  expect(plain("<f4", "(0, 5)", f, 0), CLADE_F32, CLADE_SHAPE(0, 5), f, 0);
  const char *columns = "{'shape': (2, 3), 'fortran_order': True, 'descr': \"<f4\"}";
  expect(npy("f.npy", 2, columns, f, sizeof f), CLADE_F32, CLADE_SHAPE(2, 3), (float[]){1, 3, 5, 2, 4, 6}, sizeof f);
  const char *deep = "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3, 4)}";
  unsigned char in[24], out[24];
  for (int i = 0; i < 24; i++) in[i] = (unsigned char)i;
  for (int a = 0; a < 2; a++)
    for (int b = 0; b < 3; b++)
      for (int c = 0; c < 4; c++) out[a * 12 + b * 4 + c] = (unsigned char)(a + 2 * b + 6 * c);
  expect(npy("f.npy", 3, deep, in, 24), CLADE_U8, CLADE_SHAPE(2, 3, 4), out, 24);
}

/* Types unknown to NPY are written and read as f32. */
static void npy_written(void **state) {
  (void)state;
  const clade_shape shapes[] = {CLADE_SCALAR, CLADE_SHAPE(5), CLADE_SHAPE(2, 3), CLADE_SHAPE(0, 7),
                                CLADE_SHAPE(1, 2, 1, 1, 2, 1, 3, 1)};
  const int before = io_entries(io_room);
  unsigned char data[8 * 16];
  float wide[16];
  for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)(i % 2);
  for (clade_dtype t = CLADE_DTYPE_NONE; (t = clade__dtype_next(t));)
    for (size_t s = 0; s < CLADE_COUNT(shapes); s++) {
      clade_array a = {.dtype = t, .shape = shapes[s], .data = data};
      clade_type type = {.dtype = t, .shape = shapes[s]};
      int64_t n;
      OK(clade_type_bytes(&type, &a.bytes));
      OK(clade_npy_write(io_path("w.npy"), &a));
      OK(clade_shape_elements(&shapes[s], &n));
      const bool own = clade__npy_bytes(t) == clade__dtype_row(t)->bytes;
      if (!own) OK(clade_convert(CLADE_F32, wide, t, data, (size_t)n));
      expect(io_path("w.npy"), own ? t : CLADE_F32, shapes[s], own ? (void *)data : wide,
             own ? a.bytes : 4 * (size_t)n);
    }
  clade_array bf16 = {.dtype = CLADE_BF16, .shape = CLADE_SHAPE(2), .data = (uint16_t[]){0x3f80, 0xc000}, .bytes = 4};
  OK(clade_npy_write(io_path("w.npy"), &bf16));
  expect(io_path("w.npy"), CLADE_F32, CLADE_SHAPE(2), (float[]){1, -2}, 8);
  assert_int_equal(io_entries(io_room), before + 1); /* no other file remains */
  bf16.bytes = 5;
  REFUSED(INVALID, clade_npy_write(io_path("w.npy"), &bf16), "the array has 5");
  REFUSED(NOT_FOUND, clade_npy_write(io_path("no/w.npy"), &(clade_array){CLADE_F32, CLADE_SHAPE(0), NULL, 0, NULL}),
          "no/w.npy");
  REFUSED(INVALID, clade_npy_write("/dev/null", &(clade_array){CLADE_F32, CLADE_SHAPE(0), NULL, 0, NULL}), "regular");
  REFUSED(INVALID, clade_npy_write(NULL, &bf16), "path");
}

static void npy_refused(void **state) {
  (void)state;
  clade_array a;
  const float f[6] = {0};
#define READ(path, code, words) REFUSED(code, clade_npy_read(path, &a), words)
#define DICT(text, code, words) READ(npy("bad.npy", 1, text, f, 4), code, words)
  READ(io_path("none.npy"), NOT_FOUND, "none.npy");
  READ(io_room, INVALID, "regular");
  READ("/dev/zero", INVALID, "regular");
  READ(io_file("a", "", 0), CORRUPT, "magic");
  READ(io_file("a", "PK\3\4....", 8), CORRUPT, "no NPY");
  READ(npy("a", 4, "{}", f, 0), UNSUPPORTED, "4.0");
  READ(io_file("a", BYTES(0x93, 'N', 'U', 'M', 'P', 'Y', 2, 0, 0, 0, 0, 0x40)), CORRUPT, "1073741824");
  READ(plain("<f4", "(2,)", f, 4), CORRUPT, "8 bytes are wanted");
  READ(plain("<f4", "(2,)", f, 12), CORRUPT, "4 bytes more");
  READ(plain("<f8", "(2,)", f, 8), CORRUPT, "16 bytes are wanted");
  READ(plain("<f4", "(4611686018427387904,)", f, 4), OVERFLOW, "bytes");
  READ(plain("<f4", "(4294967296, 4294967296)", f, 4), OVERFLOW, "4294967296");
  READ(plain("<f4", "(99999999999999999999,)", f, 4), OVERFLOW, "63 bits");
  READ(plain("<f8", "(2305843009213693951,)", f, 4), CORRUPT, "wanted");
  READ(plain("<f4", "(-1,)", f, 4), CORRUPT, "a size");
  READ(plain("<f4", "(1, 1, 1, 1, 1, 1, 1, 1, 1)", f, 4), BAD_SHAPE, "more than 8");
  READ(plain("<f4", "(1", f, 4), CORRUPT, "a size");
  READ(plain("<f4", "(1 2)", f, 4), CORRUPT, "',' or ')'");
  READ(plain("<f4", "1", f, 4), CORRUPT, "the shape");
  READ(plain("<c8", "(1,)", f, 4), DTYPE, "<c8");
  READ(plain("<u8", "(1,)", f, 8), DTYPE, "<u8");
  READ(plain("<f42222222222222222222222", "(1,)", f, 4), CORRUPT, "element type");
  READ(plain("|b1", "(1,)", BYTES(2)), CORRUPT, "truth");
  DICT("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", DTYPE, "structures");
  DICT("{'descr': '<f4', 'fortran_order': Falsy, 'shape': (1,), }", CORRUPT, "True or False");
  DICT("{'descr': '<f4', 'fortran_order': False, }", CORRUPT, "lacks the key \"shape\"");
  DICT("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", CORRUPT, "twice");
  DICT("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}", CORRUPT, "\"x\"");
  DICT("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", CORRUPT, "its end");
  REFUSED(INVALID, clade_npy_read(NULL, &a), "path");
  REFUSED(INVALID, clade_npy_read("x", NULL), "NULL");
  clade_array_free(NULL);
}

/* ---- IDX ---- */
static void idx(const void *data, size_t bytes, clade_dtype dtype, clade_shape shape, const void *want, size_t n) {
  clade_array a;
  OK(clade__idx_read(io_file("a.idx", data, bytes), 1 << 20, &a));
  assert_int_equal(a.dtype, dtype);
  assert_true(clade_shape_equal(&a.shape, &shape));
  assert_int_equal(a.bytes, n);
  assert_memory_equal(a.data, want, n);
  clade_array_free(&a);
}

static void idx_types(void **state) {
  (void)state;
  idx(BYTES(0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 255), CLADE_U8, CLADE_SHAPE(2, 3),
      (uint8_t[]){1, 2, 3, 4, 5, 255}, 6);
  idx(BYTES(0, 0, 9, 1, 0, 0, 0, 2, 1, 255), CLADE_I8, CLADE_SHAPE(2), (int8_t[]){1, -1}, 2);
  idx(BYTES(0, 0, 11, 1, 0, 0, 0, 2, 1, 2, 255, 255), CLADE_I32, CLADE_SHAPE(2), (int32_t[]){258, -1}, 8);
  idx(BYTES(0, 0, 12, 1, 0, 0, 0, 1, 1, 2, 3, 4), CLADE_I32, CLADE_SHAPE(1), (int32_t[]){0x01020304}, 4);
  idx(BYTES(0, 0, 13, 1, 0, 0, 0, 1, 0xc0, 0, 0, 0), CLADE_F32, CLADE_SHAPE(1), (float[]){-2}, 4);
  idx(BYTES(0, 0, 14, 1, 0, 0, 0, 1, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0), CLADE_F32, CLADE_SHAPE(1), (float[]){1.5f}, 4);
  idx(BYTES(0, 0, 8, 2, 0, 0, 0, 0, 0, 0, 0, 28), CLADE_U8, CLADE_SHAPE(0, 28), "", 0);
}

static void idx_refused(void **state) {
  (void)state;
  clade_array a;
#define IDX(code, words, ...) REFUSED(code, clade__idx_read(io_file("a.idx", BYTES(__VA_ARGS__)), 100, &a), words)
  REFUSED(NOT_FOUND, clade__idx_read(io_path("none"), 100, &a), "none");
  IDX(CORRUPT, "magic", 0, 0, 8);
  IDX(CORRUPT, "two zeros", 1, 0, 8, 1, 0, 0, 0, 0);
  IDX(CORRUPT, "0x0a", 0, 0, 10, 1, 0, 0, 0, 0);
  IDX(CORRUPT, "0xff", 0, 0, 255, 1, 0, 0, 0, 0);
  IDX(CORRUPT, "0 dimensions", 0, 0, 8, 0);
  IDX(CORRUPT, "9 dimensions", 0, 0, 8, 9, 0, 0, 0, 0);
  IDX(CORRUPT, "sizes", 0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0);
  IDX(CORRUPT, "data", 0, 0, 8, 1, 0, 0, 0, 4, 1, 2, 3);
  IDX(CORRUPT, "2 bytes more", 0, 0, 8, 1, 0, 0, 0, 1, 1, 2, 3);
  IDX(OVERFLOW, "100 bytes", 0, 0, 8, 1, 0, 0, 0, 101);
  IDX(OVERFLOW, "100 bytes", 0, 0, 14, 1, 0, 0, 0, 13);
  IDX(OVERFLOW, "counted", 0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255);
  unsigned char large[200] = {0, 0, 8, 1, 0, 0, 0, 100};
  REFUSED(CORRUPT, clade__idx_read(io_file("a.idx", large, sizeof large), 100, &a), "92 bytes more");
}

#ifdef CLADE_WITH_ZLIB
/* zlib in gzip format. */
static size_t compressed(const void *data, size_t bytes, unsigned char *out, size_t room) {
  z_stream z = {0};
  assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  z.next_in = (unsigned char *)(uintptr_t)data;
  z.avail_in = (uInt)bytes;
  z.next_out = out;
  z.avail_out = (uInt)room;
  assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
  size_t n = z.total_out;
  deflateEnd(&z);
  return n;
}

static void idx_compressed(void **state) {
  (void)state;
  clade_array a;
  unsigned char file[8 + 5000] = {0, 0, 8, 1, 0, 0, 5000 >> 8, 5000 & 255}, zip[8192];
  for (int i = 0; i < 5000; i++) file[8 + i] = (unsigned char)(i * i >> 3);
  size_t n = compressed(file, sizeof file, zip, sizeof zip);
  OK(clade__idx_read(io_file("a.gz", zip, n), 5000, &a));
  assert_int_equal(a.bytes, 5000);
  assert_memory_equal(a.data, file + 8, 5000);
  clade_array_free(&a);
  REFUSED(OVERFLOW, clade__idx_read(io_path("a.gz"), 4999, &a), "4999");
  /* Truncated, corrupted, or with trailing data. */
  for (size_t cut = 2; cut < n; cut += 7)
    assert_int_equal(clade__idx_read(io_file("a.gz", zip, cut), 5000, &a), CLADE_CORRUPT);
  for (size_t at = 2; at < n; at += 11) {
    zip[at] ^= 0x10;
    clade_status status = clade__idx_read(io_file("a.gz", zip, n), 5000, &a);
    if (at >= 10) assert_int_not_equal(status, CLADE_OK); /* earlier header bytes have no effect */
    clade_array_free(&a);
    zip[at] ^= 0x10;
  }
  zip[n] = 0;
  REFUSED(CORRUPT, clade__idx_read(io_file("a.gz", zip, n + 1), 5000, &a), "1 bytes follow");
  file[7]--; /* compressed data longer than the header says, then shorter */
  n = compressed(file, sizeof file, zip, sizeof zip);
  REFUSED(CORRUPT, clade__idx_read(io_file("a.gz", zip, n), 5000, &a), "more than the 5007 bytes");
  file[7] += 2;
  n = compressed(file, sizeof file, zip, sizeof zip);
  REFUSED(CORRUPT, clade__idx_read(io_file("a.gz", zip, n), 5001, &a), "5008 bytes are compressed");
  file[4] = 64; /* a GiB of zeros */
  n = compressed(file, sizeof file, zip, sizeof zip);
  REFUSED(CORRUPT, clade__idx_read(io_file("a.gz", zip, n), UINT64_MAX, &a), "cannot be compressed");
}

#else
static void idx_compressed(void **state) {
  (void)state;
  clade_array a;
  REFUSED(UNSUPPORTED, clade__idx_read(io_file("a.gz", BYTES(0x1f, 0x8b, 8, 0)), 100, &a), "CLADE_ZLIB");
}
#endif

/* ---- CIFAR ---- */
static void cifar(void **state) {
  (void)state;
  clade_array images, labels;
  static unsigned char file[3 * 3074];
  for (size_t i = 0; i < sizeof file; i++) file[i] = (unsigned char)(i % 251);
  for (int label_bytes = 1; label_bytes <= 2; label_bytes++) {
    size_t record = 3072 + (size_t)label_bytes;
    const clade_shape image = CLADE_SHAPE(3, 3, 32, 32), label = CLADE_SHAPE(3, label_bytes);
    OK(clade__cifar_read(io_file("a.bin", file, 3 * record), label_bytes, &images, &labels));
    assert_true(clade_shape_equal(&images.shape, &image) && clade_shape_equal(&labels.shape, &label));
    for (size_t i = 0; i < 3; i++) {
      assert_memory_equal((char *)labels.data + i * (size_t)label_bytes, file + i * record, (size_t)label_bytes);
      assert_memory_equal((char *)images.data + i * 3072, file + i * record + label_bytes, 3072);
    }
    clade_array_free(&images);
    clade_array_free(&labels);
    REFUSED(CORRUPT, clade__cifar_read(io_file("a.bin", file, 3 * record - 1), label_bytes, &images, &labels),
            "records");
  }
  REFUSED(CORRUPT, clade__cifar_read(io_file("a.bin", file, 0), 1, &images, &labels), "0 bytes");
  REFUSED(NOT_FOUND, clade__cifar_read(io_path("none"), 1, &images, &labels), "none");
}

/* ---- strings ---- */
static void utf8(void **state) {
  (void)state;
  const char *good[] = {"",
                        "abc",
                        "\x7f",
                        "\xc2\x80",
                        "\xdf\xbf",
                        "\xe0\xa0\x80",
                        "\xed\x9f\xbf",
                        "\xf0\x90\x80\x80",
                        "\xf4\x8f\xbf\xbf"};
  const char *bad[] = {"\x80",
                       "\xc1\xbf",
                       "\xc2",
                       "\xc2 ",
                       "\xe0\x9f\xbf",
                       "\xed\xa0\x80",
                       "\xe2\x82",
                       "\xf0\x8f\xbf\xbf",
                       "\xf4\x90\x80\x80",
                       "\xf8\x88\x80\x80\x80",
                       "a\xff"};
  for (size_t i = 0; i < CLADE_COUNT(good); i++) assert_true(clade__is_utf8(good[i]));
  for (size_t i = 0; i < CLADE_COUNT(bad); i++) assert_false(clade__is_utf8(bad[i]));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(npy_types),      cmocka_unit_test(npy_shapes), cmocka_unit_test(npy_written),
      cmocka_unit_test(npy_refused),    cmocka_unit_test(idx_types),  cmocka_unit_test(idx_refused),
      cmocka_unit_test(idx_compressed), cmocka_unit_test(cifar),      cmocka_unit_test(utf8),
  };
  return cmocka_run_group_tests(tests, io_set_up, io_tear_down);
}
