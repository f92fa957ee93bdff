/* Variables in safetensors files: round trips, mismatches with the model are named, and malformed files are refused
 * before a variable changes. */
#include "io_vars_kit.h"

#include <openssl/sha.h>

#define MODEL(...) \
  sizeof((const io_var[]){__VA_ARGS__}) / sizeof(io_var), (const io_var[]) { __VA_ARGS__ }

static clade_vars *every_type(uint64_t seed) {
  const io_var list[] = {
      {"b.weight", CLADE_F32, CLADE_SHAPE(3, 4), true}, {"a.weight", CLADE_F16, CLADE_SHAPE(5), true},
      {"c", CLADE_BF16, CLADE_SHAPE(2, 1, 2), false},   {"flags", CLADE_BOOL, CLADE_SHAPE(3), false},
      {"i8", CLADE_I8, CLADE_SHAPE(3), false},          {"u8", CLADE_U8, CLADE_SHAPE(2), false},
      {"i32", CLADE_I32, CLADE_SHAPE(7), false},        {"optimizer.step", CLADE_I64, CLADE_SCALAR, false},
      {"none", CLADE_F32, CLADE_SHAPE(0, 3), false},    {"optimizer.m/b.weight", CLADE_F32, CLADE_SHAPE(3, 4), false},
  };
  return io_vars(CLADE_COUNT(list), list, seed);
}

/* ---- round trips ---- */
static void all_types(void **state) {
  (void)state;
  clade_vars *one = every_type(1), *two = every_type(2);
  assert_false(io_same(one, two));
  OK(clade_vars_save(one, io_path("all.safetensors")));
  OK(clade_vars_load(two, io_path("all.safetensors")));
  assert_true(io_same(one, two));
  clade_vars_release(one);
  clade_vars_release(two);
}

/* All element types. */
static void all_rows(void **state) {
  (void)state;
  io_var list[64];
  size_t n = 0;
  for (clade_dtype t = CLADE_DTYPE_NONE; (t = clade__dtype_next(t));)
    list[n++] = (io_var){clade_dtype_name(t), t, CLADE_SHAPE(37), false};
  clade_vars *one = io_vars(n, list, 1), *two = io_vars(n, list, 2);
  OK(clade_vars_save(one, io_path("rows.safetensors")));
  clade__bytes file;
  OK(clade__file_read(io_path("rows.safetensors"), UINT64_MAX, &file));
  for (size_t i = 0; i < n; i++) {
    char text[80];
    const char *type = clade__dtype_row(list[i].dtype)->tensors;
    const int wide = clade__has_blocks(list[i].dtype)
                         ? snprintf(text, sizeof text, "\"clade.blocks:%s\":\"%s 37\"", list[i].name, type)
                         : snprintf(text, sizeof text, "\"dtype\":\"%s\"", type);
    assert_non_null(memmem(file.data, file.n, text, (size_t)wide));
  }
  clade__free(file.data);
  OK(clade_vars_load(two, io_path("rows.safetensors")));
  assert_true(io_same(one, two));
  clade_vars_release(one);
  clade_vars_release(two);
}

static void weights_alone(void **state) {
  (void)state;
  clade_vars *one = every_type(1), *two = every_type(2), *three = every_type(2);
  float m[12], same[12];
  OK(clade_vars_save(one, io_path("w.safetensors"), .weights_only = true));
  REFUSED(NOT_FOUND, clade_vars_load(two, io_path("w.safetensors")), "missing: optimizer.step, optimizer.m/b.weight");
  assert_true(io_same(two, three));
  OK(clade_vars_load(two, io_path("w.safetensors"), .weights_only = true));
  OK(clade_vars_get(two, "optimizer.m/b.weight", m, sizeof m));
  OK(clade_vars_get(three, "optimizer.m/b.weight", same, sizeof same));
  assert_memory_equal(m, same, sizeof m);
  OK(clade_vars_get(two, "b.weight", m, sizeof m));
  OK(clade_vars_get(one, "b.weight", same, sizeof same));
  assert_memory_equal(m, same, sizeof m);
  clade_vars_release(one);
  clade_vars_release(two);
  clade_vars_release(three);
}

static void what_does_not_fit(void **state) {
  (void)state;
  clade_vars *all = every_type(1);
  clade_vars *other =
      io_vars(MODEL({"b.weight", CLADE_F32, CLADE_SHAPE(4, 3), true}, {"a.weight", CLADE_F32, CLADE_SHAPE(5), true},
                    {"extra", CLADE_F32, CLADE_SHAPE(2), true}),
              3);
  clade_vars *fits =
      io_vars(MODEL({"a.weight", CLADE_F16, CLADE_SHAPE(5), true}, {"c", CLADE_BF16, CLADE_SHAPE(2, 1, 2), false}), 3);
  clade__bytes before = io_contents(other);
  OK(clade_vars_save(all, io_path("all")));
  REFUSED(NOT_FOUND, clade_vars_load(other, io_path("all")),
          "missing: extra; unexpected: i32, none, c, flags, i8, u8; of another type: "
          "b.weight (F32 [3, 4] in the file, f32 [4, 3] in the model), a.weight (F16 [5] in the file, f32 [5] in the "
          "model)");
  clade__bytes after = io_contents(other);
  assert_memory_equal(before.data, after.data, before.n);
  REFUSED(NOT_FOUND, clade_vars_load(fits, io_path("all")), "unexpected: b.weight, i32, none");
  OK(clade_vars_save(fits, io_path("fits")));
  clade_vars *loaded =
      io_vars(MODEL({"c", CLADE_BF16, CLADE_SHAPE(2, 1, 2), false}, {"a.weight", CLADE_F16, CLADE_SHAPE(5), true}), 5);
  OK(clade_vars_load(loaded, io_path("fits"))); /* in any order */
  clade_vars *wrong = io_vars(
      MODEL({"c", CLADE_BF16, CLADE_SHAPE(2, 1, 2), false}, {"a.weight", CLADE_F16, CLADE_SHAPE(5, 1), true}), 5);
  REFUSED(BAD_SHAPE, clade_vars_load(wrong, io_path("fits")),
          "a.weight (F16 [5] in the file, f16 [5, 1] in the model)");
  clade__free(before.data);
  clade__free(after.data);
  clade_vars_release(all);
  clade_vars_release(other);
  clade_vars_release(fits);
  clade_vars_release(loaded);
  clade_vars_release(wrong);
}

static void many_names_are_cut(void **state) {
  (void)state;
  io_var list[20];
  char names[20][256];
  for (int i = 0; i < 20; i++) {
    memset(names[i], 'x', 255);
    names[i][255] = '\0';
    names[i][0] = (char)('a' + i);
    list[i] = (io_var){names[i], CLADE_U8, CLADE_SHAPE(1), false};
  }
  clade_vars *many = io_vars(20, list, 0), *few = io_vars(1, list, 0);
  OK(clade_vars_save(many, io_path("many")));
  REFUSED(NOT_FOUND, clade_vars_load(few, io_path("many")), "and 11 more");
  clade_vars_release(many);
  clade_vars_release(few);
}

static void bad_arguments(void **state) {
  (void)state;
  clade_vars *vars = every_type(1);
  char text[65];
  REFUSED(INVALID, clade_vars_save(vars, NULL), "path");
  REFUSED(INVALID, clade_vars_save(NULL, "x"), "variables");
  REFUSED(INVALID, clade_vars_load(vars, NULL), "path");
  REFUSED(INVALID, clade_vars_load(NULL, "x"), "variables");
  REFUSED(NOT_FOUND, clade_vars_load(vars, io_path("nothing")), "nothing");
  REFUSED(NOT_FOUND, clade_vars_save(vars, io_path("no/where")), "no/where");
  REFUSED(INVALID, clade_vars_load(vars, io_room), "regular");
  REFUSED(INVALID, clade_vars_save(vars, io_room), "regular");
  REFUSED(INVALID, clade_vars_sha256(NULL, text), "variables");
  REFUSED(INVALID, clade_vars_sha256(vars, NULL), "text");
  clade_vars_release(vars);
  vars = io_vars(MODEL({"__metadata__", CLADE_U8, CLADE_SHAPE(1), false}), 0);
  REFUSED(INVALID, clade_vars_save(vars, io_path("x")), "__metadata__");
  clade_vars_release(vars);
}

static void hash_of_parameters(void **state) {
  (void)state;
  clade_vars *vars = every_type(9);
  unsigned char data[10 + 48], digest[32];
  char have[65], want[65];
  OK(clade_vars_get(vars, "a.weight", data, 10));
  OK(clade_vars_get(vars, "b.weight", data + 10, 48));
  SHA256(data, sizeof data, digest);
  for (int i = 0; i < 32; i++) snprintf(want + 2 * i, 3, "%02x", digest[i]);
  OK(clade_vars_sha256(vars, have));
  assert_string_equal(have, want);
  clade_vars_release(vars);
  vars = io_vars(MODEL({"running", CLADE_F32, CLADE_SHAPE(3), false}), 1); /* without elements */
  OK(clade_vars_sha256(vars, have));
  assert_string_equal(have, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  clade_vars_release(vars);
}

/* ---- damage ---- */
static clade_status load(clade_vars *vars, const void *data, size_t bytes) {
  return clade_vars_load(vars, io_file("file", data, bytes));
}

/* clade_vars_load without the file: writing thousands of files would be slow. */
static clade_status check(const void *data, size_t bytes) {
  clade__bytes file = {clade__new(bytes, 1), bytes};
  clade__tensors tensors;
  bool ours = false;
  memcpy(file.data, data, bytes);
  clade_status status = clade__tensors_parse("file", &file, &tensors);
  if (status != CLADE_OK) return status;
  status = clade__tensors_verify("file", &tensors, &ours);
  clade__tensors_free(&tensors);
  return status == CLADE_OK && !ours ? CLADE_CORRUPT : status;
}

static void every_byte_counts(void **state) {
  (void)state;
  clade__bytes file;
  clade_vars *one = every_type(1), *two = every_type(2), *same = every_type(2);
  OK(clade_vars_save(one, io_path("all")));
  OK(clade__file_read(io_path("all"), 1 << 20, &file));
  OK(check(file.data, file.n));
  for (size_t cut = 0; cut < file.n; cut++) assert_int_not_equal(check(file.data, cut), CLADE_OK);
  for (size_t i = 0; i < file.n; i++) {
    const unsigned char was = file.data[i], flips[] = {was ^ 1, was ^ 0x80, ' ', '"', 0};
    for (size_t f = 0; f < sizeof flips; f++) {
      file.data[i] = flips[f];
      if (flips[f] != was && check(file.data, file.n) == CLADE_OK) fail_msg("byte %zu: 0x%02x is taken", i, flips[f]);
    }
    file.data[i] = was;
  }
  for (size_t i = 0; i < file.n; i += 97) {
    file.data[i] ^= 2;
    assert_int_not_equal(load(two, file.data, file.n), CLADE_OK);
    file.data[i] ^= 2;
  }
  OK(clade__grow(&file.data, &(size_t){file.n}, file.n + 1, 1));
  file.data[file.n] = 0;
  assert_int_equal(load(two, file.data, file.n + 1), CLADE_CORRUPT);
  assert_true(io_same(two, same));
  OK(load(two, file.data, file.n));
  assert_true(io_same(one, two));
  clade__free(file.data);
  clade_vars_release(one);
  clade_vars_release(two);
  clade_vars_release(same);
}

/* ---- files of other programs ---- */
/* A header with its length, followed by `bytes` zeros. */
static clade_status foreign(clade_vars *vars, const char *header, size_t bytes) {
  static unsigned char file[1 << 16];
  size_t n = strlen(header);
  memset(file, 0, sizeof file);
  clade__put_little(file, n, 8);
  memcpy(file + 8, header, n);
  return load(vars, file, 8 + n + bytes);
}
#define X "{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"
#define Y "{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[8,11]}"

static void files_of_others(void **state) {
  (void)state;
  clade_vars *vars = io_vars(MODEL({"x", CLADE_F32, CLADE_SHAPE(2), true}, {"y", CLADE_U8, CLADE_SHAPE(3), true}), 0);
  OK(foreign(vars, "{\"x\":" X ",\"y\":" Y "}", 11));
  OK(foreign(vars, "{\"y\":" Y ",\"x\":" X ",\"__metadata__\":{\"format\":\"pt\"}}    ", 11));
  OK(foreign(vars,
             "{ \"x\" : " X " , \"y\" : " Y
             ", \"optimizer.z\":{\"dtype\":\"F64\",\"shape\":[0],\"data_offsets\":[0,0]}}",
             11));
#define BAD(code, words, header, bytes) REFUSED(code, foreign(vars, header, bytes), words)
#define ONE(code, words, entry)         REFUSED(code, foreign(vars, "{\"x\":" entry "}", 8), words)
  BAD(CORRUPT, "2 to 100000000", "", 0);
  BAD(CORRUPT, "'{'", " {}", 0);
  BAD(CORRUPT, "'{'", "[]", 0);
  BAD(CORRUPT, "no JSON", "{\"x\"}", 0);
  BAD(CORRUPT, "no JSON", "{\"x\":" X "}x", 8);
  BAD(CORRUPT, "duplicate", "{\"x\":" X ",\"x\":" X "}", 8);
  BAD(CORRUPT, "no JSON", "{\"x\\u0000\":" X "}", 8);
  BAD(CORRUPT, "no JSON", "{\"\xff\":" X "}", 8);
  BAD(CORRUPT, "where 8 would leave no hole",
      "{\"x\":" X ",\"y\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[9,12]}}", 12);
  BAD(CORRUPT, "are taken by those before",
      "{\"x\":" X ",\"y\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[7,10]}}", 10);
  BAD(CORRUPT, "12 follow its header", "{\"x\":" X ",\"y\":" Y "}", 12);
  BAD(CORRUPT, "no range of the 10 bytes", "{\"x\":" X ",\"y\":" Y "}", 10);
  BAD(CORRUPT, "no object", "{\"__metadata__\":3}", 0);
  BAD(CORRUPT, "\"a\" is no text", "{\"__metadata__\":{\"a\":3}}", 0);
  BAD(CORRUPT, "clade.format", "{\"__metadata__\":{\"clade.format\":\"1\"},\"x\":" X "}", 8);
  BAD(CORRUPT, "checksum of its header", "{\"__metadata__\":{\"clade.check\":\"0123456789abcdef0123456789abcdef\"}}",
      0);
  BAD(CORRUPT, "clade.check", "{\"__metadata__\":{\"clade.check\":\"\"}}", 0);
  ONE(CORRUPT, "no object", "3");
  ONE(CORRUPT, "\"dtype\" is no text", "{}");
  ONE(DTYPE, "F3", "{\"dtype\":\"F3\",\"shape\":[2],\"data_offsets\":[0,8]}");
  ONE(CORRUPT, "\"shape\" is no list", "{\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]}");
  ONE(CORRUPT, "at most 8", "{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,2],\"data_offsets\":[0,8]}");
  ONE(CORRUPT, "number 0 of \"shape\"", "{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}");
  ONE(CORRUPT, "number 0 of \"shape\"", "{\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]}");
  ONE(CORRUPT, "no JSON", "{\"dtype\":\"F32\",\"shape\":[9223372036854775808],\"data_offsets\":[0,8]}");
  ONE(OVERFLOW, "counted", "{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,8]}");
  ONE(OVERFLOW, "counted", "{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,0],\"data_offsets\":[0,8]}");
  ONE(CORRUPT, "elements of F32", "{\"dtype\":\"F32\",\"shape\":[4611686018427387906],\"data_offsets\":[0,8]}");
  ONE(CORRUPT, "8 bytes of data, and 3 elements of F32", "{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}");
  ONE(CORRUPT, "no range", "{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}");
  ONE(CORRUPT, "at most 2", "{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,8]}");
  ONE(CORRUPT, "no range", "{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8]}");
  ONE(NOT_FOUND, "missing: y; of another type: x (F64 [1]", "{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]}");
  const unsigned char huge[16] = {0, 0, 0, 0, 0, 0, 0, 0x80};
  REFUSED(CORRUPT, load(vars, huge, sizeof huge), "9223372036854775808 bytes");
  char truth[] = "........{\"t\":{\"dtype\":\"BOOL\",\"shape\":[1],\"data_offsets\":[0,1]}}\2";
  clade__put_little((unsigned char *)truth, sizeof truth - 10, 8);
  REFUSED(CORRUPT, check(truth, sizeof truth - 1), "truth");
  clade_vars_release(vars);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_types),          cmocka_unit_test(all_rows),           cmocka_unit_test(weights_alone),
      cmocka_unit_test(what_does_not_fit),  cmocka_unit_test(many_names_are_cut), cmocka_unit_test(bad_arguments),
      cmocka_unit_test(hash_of_parameters), cmocka_unit_test(every_byte_counts),  cmocka_unit_test(files_of_others),
  };
  return cmocka_run_group_tests(tests, io_device_set_up, io_device_tear_down);
}
