/* Requests without a device: validation, hashing, naming, program texts, and kernel files from a directory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "program/parts.h"

static const clade__define defines[] = {{"T", "f32"}, {"INDEX64", "0"}};
static const clade__request plain = {.file = "probe",
                                     .source = "KERNEL(probe)(void) {}\n",
                                     .kernel = "probe",
                                     .options = "",
                                     .n_defines = 2,
                                     .defines = defines};

static clade__hash hash(const clade__request *r) {
  clade__hash h;
  assert_int_equal(clade__request_hash(r, &h), CLADE_OK);
  return h;
}

static void hash_is_of_the_request(void **state) {
  (void)state;
  char source[64];
  strcpy(source, plain.source);
  clade__request copy = plain;
  copy.source = source; /* compares contents, not addresses */
  copy.options = NULL;  /* NULL equals "" */
  copy.local[0] = 64, copy.large_grid = true;
  assert_true(clade__hash_equal(hash(&plain), hash(&copy)));

  const clade__define other[] = {{"T", "f32"}, {"INDEX64", "1"}}, joined[] = {{"Tf", "32"}, {"INDEX64", "0"}};
  clade__request changed[6] = {plain, plain, plain, plain, plain, plain};
  changed[0].file = "probe2";
  changed[1].source = "KERNEL(probe)(void) { }\n";
  changed[2].kernel = "probe2";
  changed[3].options = "-cl-fast-relaxed-math";
  changed[4].defines = other;
  changed[5].defines = joined;
  for (int i = 0; i < 6; i++) {
    assert_false(clade__hash_equal(hash(&plain), hash(&changed[i])));
    for (int k = 0; k < i; k++) assert_false(clade__hash_equal(hash(&changed[k]), hash(&changed[i])));
  }
}

static void launch_hash_knows_local_size_and_grid(void **state) {
  (void)state;
  clade__request r = plain, ones = plain;
  clade__hash h = hash(&plain), first = clade__request_launch_hash(&r, h);
  ones.local[0] = ones.local[1] = ones.local[2] = 1;
  assert_true(clade__hash_equal(first, clade__request_launch_hash(&ones, h)));
  r.local[1] = 2;
  clade__hash second = clade__request_launch_hash(&r, h);
  assert_false(clade__hash_equal(first, second));
  r.large_grid = true;
  assert_false(clade__hash_equal(second, clade__request_launch_hash(&r, h)));
}

static void name_does_not_depend_on_the_batch(void **state) {
  (void)state;
  char name[CLADE__KERNEL_NAME], hex[33], expected[64];
  clade__hash h = hash(&plain);
  clade__request_name(&plain, h, name);
  snprintf(expected, sizeof expected, "probe_%.16s", clade__hash_text(h, hex));
  assert_string_equal(name, expected);
}

static void bad_requests_are_named(void **state) {
  (void)state;
  const clade__define nameless[] = {{"2x", "1"}}, textless[] = {{"x", NULL}};
  char endless[200];
  memset(endless, 'k', sizeof endless - 1);
  endless[sizeof endless - 1] = '\0';
  clade__request bad[8] = {plain, plain, plain, plain, plain, plain, plain, plain};
  bad[0].file = NULL;
  bad[1].file = "../probe";
  bad[2].kernel = NULL;
  bad[3].kernel = "a b";
  bad[4].kernel = endless;
  bad[5].n_defines = 1, bad[5].defines = nameless;
  bad[6].n_defines = 1, bad[6].defines = textless;
  bad[7].n_defines = 1, bad[7].defines = NULL;
  for (int i = 0; i < 8; i++) {
    clade__hash h;
    clade_fail(CLADE_OK, "%s", "");
    assert_int_equal(clade__request_hash(&bad[i], &h), CLADE_INVALID);
    assert_true(strlen(clade_last_error()) > 10);
  }
  clade__request missing = plain;
  clade__hash h;
  missing.file = "no_such_file", missing.source = NULL;
  assert_int_equal(clade__request_hash(&missing, &h), CLADE_NOT_FOUND);
  assert_non_null(strstr(clade_last_error(), "no_such_file.cl"));
}

static size_t count(const char *text, const char *what) {
  size_t n = 0;
  for (; (text = strstr(text, what)); text++) n++;
  return n;
}

static void text_brackets_each_request(void **state) {
  (void)state;
  const clade__define folded[] = {{"BODY", "a;\nb;\r\nc;"}};
  clade__request second = plain;
  second.kernel = "probe2", second.n_defines = 1, second.defines = folded;
  const clade__request *both[] = {&plain, &second};
  clade__hash hashes[] = {hash(&plain), hash(&second)};
  clade__text text = {0};
  assert_int_equal(clade__program_text(2, both, hashes, false, "", &text), CLADE_OK);
  assert_int_equal(count(text.data, "#line 1 \"prelude.cl\""), 1);
  assert_int_equal(count(text.data, "#line 1 \"prelude_memory.cl\""), 1);
  assert_int_equal(count(text.data, "#line 1 \"probe.cl\""), 2);
  assert_int_equal(count(text.data, "#define T f32\n"), 1);
  assert_int_equal(count(text.data, "#undef T\n"), 1);
  assert_int_equal(count(text.data, "#define BODY a; b;  c;\n"), 1);
  assert_int_equal(count(text.data, "#define WANT_probe2\n"), 1);
  assert_int_equal(count(text.data, "#undef WANT_probe2\n"), 1);
  assert_int_equal(count(text.data, "#undef SUFFIX\n"), 2);
  clade__text_free(&text);
}

/* Copies that differ only in the epilogue share common functions; others have their own. */
static void kin_have_their_functions_in_common(void **state) {
  (void)state;
  const clade__define relu[] = {{"T", "f32"}, {"INDEX64", "0"}, {"EPILOGUE", "relu"}, {"WIDE", "1"}};
  const clade__define tanh[] = {{"T", "f32"}, {"INDEX64", "0"}, {"EPILOGUE", "tanh"}, {"WIDE", "0"}};
  const clade__define half[] = {{"T", "f16"}, {"INDEX64", "0"}, {"EPILOGUE", "relu"}, {"WIDE", "1"}};
  clade__request r[] = {plain, plain, plain, plain};
  r[0].defines = relu, r[1].defines = tanh, r[2].defines = half, r[3].defines = relu;
  r[0].n_defines = r[1].n_defines = r[2].n_defines = r[3].n_defines = 4;
  r[3].kernel = "probe2";
  const clade__request *all[] = {&r[0], &r[1], &r[2], &r[3]};
  clade__hash hashes[4];
  for (int i = 0; i < 4; i++) hashes[i] = hash(&r[i]);
  clade__text text = {0};
  assert_int_equal(clade__program_text(4, all, hashes, false, "", &text), CLADE_OK);
  assert_int_equal(count(text.data, "#define COMMON_FIRST 1\n"), 3);
  assert_int_equal(count(text.data, "#define COMMON_FIRST 0\n"), 1);
  const size_t alike[] = {2, 2, 1, 1};
  const char *at = text.data;
  for (int i = 0; i < 4; i++) {
    char line[80];
    at = strstr(at, "#define COMMON_SUFFIX ");
    assert_non_null(at);
    snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
    assert_int_equal(count(text.data, line), alike[i]);
    at += strlen(line);
  }
  clade__text_free(&text);
}

static void write_text(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  assert_int_equal(fclose(file), 0);
}

static void directory_overrides_the_embedded_files(void **state) {
  (void)state;
  char directory[] = "/tmp/clade-kernels-XXXXXX", path[64];
  const char *text, *again, *before;
  assert_int_equal(clade__kernel_source("prelude", &before), CLADE_OK);
  assert_non_null(mkdtemp(directory));
  setenv("CLADE_KERNEL_DIR", directory, 1);
  snprintf(path, sizeof path, "%s/mine.cl", directory);
  write_text(path, "first\n");
  assert_int_equal(clade__kernel_source("mine", &text), CLADE_OK);
  assert_string_equal(text, "first\n");
  write_text(path, "second\n"); /* read once per process, so that the hash matches the compiled text */
  assert_int_equal(clade__kernel_source("mine", &again), CLADE_OK);
  assert_ptr_equal(text, again);
  assert_int_equal(clade__kernel_source("prelude", &text), CLADE_OK);
  assert_ptr_equal(text, before); /* not in the directory: embedded */

  snprintf(path, sizeof path, "%s/folder.cl", directory);
  assert_int_equal(mkdir(path, 0700), 0);
  assert_int_equal(clade__kernel_source("folder", &text), CLADE_INVALID);
  assert_non_null(strstr(clade_last_error(), path));
  rmdir(path);
  snprintf(path, sizeof path, "%s/mine.cl", directory);
  unlink(path);
  rmdir(directory);
  assert_int_equal(clade__kernel_source("other", &text), CLADE_NOT_FOUND);
  assert_non_null(strstr(clade_last_error(), directory));
  assert_non_null(strstr(clade_last_error(), "CLADE_KERNEL_DIR"));
  unsetenv("CLADE_KERNEL_DIR");
}

static void a_file_includes_others(void **state) {
  (void)state;
  char directory[] = "/tmp/clade-kernels-XXXXXX";
  static const char *const files[][2] = {
      {"whole", "/* Whole. */\n#include \"piece.cl\"\n  #include \"no_line.cl\"\n#include \"own.h\"\nlast"},
      {"piece", "piece\n"},
      {"lacking", "#include \"absent.cl\"\n"},
      {"product_units", "/* overridden */\n"}};
  const char *text, *again;
  char path[64];
  assert_int_equal(clade__kernel_source("product", &text), CLADE_OK);
  assert_null(strstr(text, "\n#include"));
  assert_non_null(strstr(text, "\n#line 1 \"product_units.cl\"\n/* The products of"));
  assert_int_equal(clade__kernel_source("product", &again), CLADE_OK);
  assert_ptr_equal(text, again);

  assert_non_null(mkdtemp(directory));
  setenv("CLADE_KERNEL_DIR", directory, 1);
  for (size_t i = 0; i < CLADE_COUNT(files); i++) {
    snprintf(path, sizeof path, "%s/%s.cl", directory, files[i][0]);
    write_text(path, files[i][1]);
  }
  assert_int_equal(clade__kernel_source("whole", &text), CLADE_OK);
  assert_string_equal(text, "/* Whole. */\n#line 1 \"piece.cl\"\npiece\n\n#line 3 \"whole.cl\"\n"
                            "  #include \"no_line.cl\"\n#include \"own.h\"\nlast");
  assert_int_equal(clade__kernel_source("lacking", &text), CLADE_NOT_FOUND);
  assert_non_null(strstr(clade_last_error(), "lacking.cl: there is no kernel file absent.cl"));
  assert_int_equal(clade__kernel_source("product", &text), CLADE_OK); /* embedded, but with an overridden include */
  assert_non_null(strstr(text, "\n#line 1 \"product_units.cl\"\n/* overridden */\n"));
  assert_non_null(strstr(text, "\n#line 1 \"product_sources.cl\"\n"));
  for (size_t i = 0; i < CLADE_COUNT(files); i++) {
    snprintf(path, sizeof path, "%s/%s.cl", directory, files[i][0]);
    unlink(path);
  }
  rmdir(directory);
  unsetenv("CLADE_KERNEL_DIR");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hash_is_of_the_request),
      cmocka_unit_test(launch_hash_knows_local_size_and_grid),
      cmocka_unit_test(name_does_not_depend_on_the_batch),
      cmocka_unit_test(bad_requests_are_named),
      cmocka_unit_test(text_brackets_each_request),
      cmocka_unit_test(kin_have_their_functions_in_common),
      cmocka_unit_test(directory_overrides_the_embedded_files),
      cmocka_unit_test(a_file_includes_others),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
