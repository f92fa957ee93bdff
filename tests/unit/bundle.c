/* Bundles: round trips, and each possible defect is refused with its own message. Over 400 lines: each defect is
 * planted into the same valid bundle. */
#include "../bundle_kit.h"
#include "io_kit.h"

/* ---- all kinds of bundles ---- */
static const struct {
  const char *name;
  clade__target_kind kind;
  clade__container format;
} kinds[] = {{"xilinx", CLADE__TARGET_XILINX, CLADE__XCLBIN},
             {"intel", CLADE__TARGET_INTEL, CLADE__AOCX},
             {"pocl", CLADE__TARGET_POCL, CLADE__POCLBIN},
             {"ice40", CLADE__TARGET_ICE40, CLADE__BITSTREAM},
             {"rtl", CLADE__TARGET_RTL, CLADE__NOTHING}};
enum { KINDS = CLADE_COUNT(kinds) };

static clade__text binary_of(size_t kind) {
  clade__text none = {0};
  switch (kinds[kind].format) {
  case CLADE__XCLBIN: return kit_xclbin();
  case CLADE__AOCX: return kit_aocx();
  case CLADE__POCLBIN: return kit_poclbin("/gemm_i8/1-1-1/gemm_i8.so");
  case CLADE__BITSTREAM: clade__text_add(&none, "bits"); break;
  case CLADE__NOTHING: break;
  }
  return none;
}

static clade_status write_kind(const char *path, bool as_directory, size_t kind, const char *key) {
  clade__text binary = binary_of(kind);
  clade__bundle_draft draft = {kit_manifest(kinds[kind].kind, kinds[kind].format), binary.data, binary.length, key};
  clade_status status = clade__bundle_write(path, as_directory, &draft);
  clade__text_free(&binary);
  return status;
}

/* Another party's key. */
static const char OTHER_KEYS[] = "-----BEGIN PUBLIC KEY-----\n"
                                 "MCowBQYDK2VwAyEAPUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=\n"
                                 "-----END PUBLIC KEY-----\n";

/* File with the private key; its path stays the same during the test. */
static const char *key_file(void) {
  static char path[256];
  snprintf(path, sizeof path, "%s", io_file("key.pem", KIT_PRIVATE_KEY, strlen(KIT_PRIVATE_KEY)));
  return path;
}

static void round_trip(void **state) {
  (void)state;
  const char *key = key_file();
  for (size_t i = 0; i < KINDS; i++)
    for (int form = 0; form < 4; form++) {
      char name[32];
      clade__bundle bundle, again;
      clade__text binary = binary_of(i);
      char path[256];
      snprintf(name, sizeof name, "%s.%d", kinds[i].name, form);
      snprintf(path, sizeof path, "%s", io_path(name));
      OK(write_kind(path, form & 1, i, form & 2 ? key : NULL));
      OK(clade__bundle_read(path, &bundle));
      assert_int_equal(bundle.is_signed, (form & 2) != 0);
      assert_int_equal(bundle.binary_bytes, binary.length);
      if (binary.length) assert_memory_equal(bundle.binary, binary.data, binary.length);
      const clade__bundle_kernel *k = &bundle.manifest.kernels[0];
      assert_string_equal(k->name, "gemm_i8");
      assert_string_equal(k->arguments[1].name, "b");
      assert_int_equal(k->arguments[1].access, CLADE__WRITE);
      assert_int_equal(k->report.fmax_mhz.source, CLADE__ROUTED);
      assert_true(k->report.fmax_mhz.value == 218.5);
      assert_int_equal(k->report.dsp.source, CLADE__UNTOLD);
      assert_string_equal(bundle.manifest.defines[0].text, "16");
      /* Both forms have the same digest, and rewriting gives the same bytes. */
      clade__bundle_draft draft = {bundle.manifest, bundle.binary, bundle.binary_bytes, NULL};
      OK(clade__bundle_write(io_path("again"), false, &draft));
      OK(clade__bundle_read(io_path("again"), &again));
      assert_memory_equal(again.digest, bundle.digest, sizeof again.digest);
      clade__bundle_free(&bundle);
      clade__bundle_free(&again);
      clade__text_free(&binary);
    }
}

static void trust(void **state) {
  (void)state;
  clade__bundle bundle;
  clade__keys keys, others;
  const char *key = key_file();
  OK(clade__keys_read(io_file("keys.pem", KIT_PUBLIC_KEY, strlen(KIT_PUBLIC_KEY)), &keys));
  OK(clade__keys_read(io_file("others.pem", OTHER_KEYS, sizeof OTHER_KEYS - 1), &others));
  OK(write_kind(io_path("signed"), false, 0, key));
  OK(clade__bundle_read(io_path("signed"), &bundle));
  OK(clade__bundle_trusted(&bundle, CLADE_BUNDLES_SIGNED, &keys));
  REFUSED(PERMISSION, clade__bundle_trusted(&bundle, CLADE_BUNDLES_SIGNED, &others), "none of the 1 trusted");
  clade__bundle_free(&bundle);
  OK(write_kind(io_path("unsigned"), false, 0, NULL));
  OK(clade__bundle_read(io_path("unsigned"), &bundle));
  OK(clade__bundle_trusted(&bundle, CLADE_BUNDLES_ANY, &others));
  REFUSED(PERMISSION, clade__bundle_trusted(&bundle, CLADE_BUNDLES_SIGNED, &keys), "is not signed");
  clade__bundle_free(&bundle);
  clade__keys_free(&keys);
  clade__keys_free(&others);
  REFUSED(INVALID, clade__keys_read(io_file("none.pem", "none", 4), &keys), "no public key");
  REFUSED(INVALID, write_kind(io_path("x"), false, 0, io_file("wrong.pem", KIT_PUBLIC_KEY, strlen(KIT_PUBLIC_KEY))),
          "no private key");

  OK(clade__bundle_safe(io_path("signed")));
  assert_int_equal(chmod(io_path("signed"), 0666), 0);
  REFUSED(PERMISSION, clade__bundle_safe(io_path("signed")), "others may write");
  assert_int_equal(chmod(io_path("signed"), 0644), 0);
  assert_int_equal(chmod(io_room, 0777), 0);
  REFUSED(PERMISSION, clade__bundle_safe(io_path("signed")), "others may write");
  assert_int_equal(chmod(io_room, 0700), 0);
  REFUSED(NOT_FOUND, clade__bundle_safe(io_path("nothing")), "nothing");
}

static void places(void **state) {
  (void)state;
  OK(write_kind(io_path("file"), false, 0, NULL));
  OK(write_kind(io_path("file"), false, 1, NULL)); /* replaces the file */
  OK(write_kind(io_path("directory"), true, 0, NULL));
  REFUSED(DUPLICATE, write_kind(io_path("directory"), true, 0, NULL), "is there already");
  REFUSED(DUPLICATE, write_kind(io_path("directory"), false, 0, NULL), "is there already");
  REFUSED(DUPLICATE, write_kind(io_path("file"), true, 0, NULL), "is there already");
  REFUSED(NOT_FOUND, write_kind(io_path("no/where"), true, 0, NULL), "no/where");
  REFUSED(NOT_FOUND, clade__bundle_read(io_path("nothing"), &(clade__bundle){0}), "nothing");
}

/* ---- damage ---- */
static unsigned char *file_bytes(const char *path, size_t *n) {
  clade__bytes file;
  OK(clade__file_read(path, 1 << 20, &file));
  *n = file.n;
  return file.data;
}

static clade_status parse_copy(const unsigned char *data, size_t n) {
  clade__bundle bundle;
  unsigned char *copy = clade__new(n, 1); /* exact size, for AddressSanitizer */
  if (n) memcpy(copy, data, n);
  clade_status status = clade__bundle_parse("it", copy, n, &bundle);
  clade__bundle_free(&bundle);
  return status;
}

static void damaged_files(void **state) {
  (void)state;
  const char *key = key_file();
  for (size_t i = 0; i < KINDS; i++) {
    OK(write_kind(io_path("it"), false, i, key));
    size_t n;
    unsigned char *data = file_bytes(io_path("it"), &n);
    for (size_t cut = 0; cut < n; cut += cut < 300 ? 1 : 61) assert_int_not_equal(parse_copy(data, cut), CLADE_OK);
    for (unsigned flip = 0; flip < 2000; flip++) {
      uint32_t random[4];
      clade__philox(7, i, flip, random);
      size_t at = flip < 256 ? flip : random[0] % n;
      unsigned char bit = (unsigned char)(1u << random[1] % 8);
      data[at] ^= bit;
      if (parse_copy(data, n) == CLADE_OK) fail_msg("%s: byte %zu flipped by %d is not seen", kinds[i].name, at, bit);
      data[at] ^= bit;
    }
    OK(parse_copy(data, n));
    clade__free(data);
  }
}

static void damaged_directories(void **state) {
  (void)state;
  const char *const files[] = {"manifest.json", "binary", "digest", "signature"};
  const char *key = key_file();
  OK(write_kind(io_path("d"), true, 0, key));
  for (size_t i = 0; i < CLADE_COUNT(files); i++) {
    char name[32];
    clade__bundle bundle;
    size_t n;
    snprintf(name, sizeof name, "d/%s", files[i]);
    unsigned char *data = file_bytes(io_path(name), &n);
    for (unsigned flip = 0; flip < 100; flip++) {
      uint32_t random[4];
      clade__philox(8, i, flip, random);
      data[random[0] % n] ^= (unsigned char)(1u << random[1] % 8);
      io_file(name, data, n);
      data[random[0] % n] ^= (unsigned char)(1u << random[1] % 8);
      if (clade__bundle_read(io_path("d"), &bundle) == CLADE_OK) fail_msg("%s: byte %zu", files[i], random[0] % n);
    }
    io_file(name, data, n / 2);
    assert_int_not_equal(clade__bundle_read(io_path("d"), &bundle), CLADE_OK);
    io_file(name, data, n);
    OK(clade__bundle_read(io_path("d"), &bundle));
    clade__bundle_free(&bundle);
    clade__free(data);
  }
}

/* ---- manifests ---- */
static clade_status parse_text(const char *text) {
  clade__arena arena = {0};
  clade__manifest manifest;
  clade_status status = clade__manifest_parse("m", text, strlen(text), &arena, &manifest);
  clade__arena_free(&arena);
  return status;
}

/* A manifest of the kind with one string replaced. */
static clade_status parse_changed(const char *from, const char *to) {
  clade__manifest manifest = kit_manifest(CLADE__TARGET_XILINX, CLADE__XCLBIN);
  clade__text changed = {0};
  char *text;
  manifest.binary.bytes = 1;
  OK(clade__manifest_print(&manifest, &text));
  const char *at = strstr(text, from);
  if (!at) fail_msg("no %s in %s", from, text);
  clade__text_add_bytes(&changed, text, (size_t)(at - text));
  clade__text_add(&changed, "%s%s", to, at + strlen(from));
  clade_status status = parse_text(changed.data);
  clade__text_free(&changed);
  clade__free(text);
  return status;
}

/* A manifest whose kernel has hardware evidence. */
static clade_status parse_hardware(clade__target_kind kind, clade__container format) {
  clade__manifest manifest = kit_manifest(kind, format);
  clade__bundle_kernel kernel = kit_kernels[0];
  char *text;
  kernel.evidence = CLADE__HARDWARE;
  manifest.kernels = &kernel;
  manifest.n_kernels = 1;
  manifest.binary.bytes = format != CLADE__NOTHING;
  OK(clade__manifest_print(&manifest, &text));
  clade_status status = parse_text(text);
  clade__free(text);
  return status;
}

static void manifests(void **state) {
  (void)state;
  OK(parse_changed("16", "17"));
  REFUSED(UNSUPPORTED, parse_changed("\"format\": 1", "\"format\": 2"), "format 2");
  REFUSED(UNSUPPORTED, parse_changed("\"interface\": 1", "\"interface\": 9"), "interface 9");
  REFUSED(CORRUPT, parse_changed("\"format\": 1", "\"formal\": 1"), "format is missing");
  REFUSED(CORRUPT, parse_changed("\"tool\"", "\"tools\""), "tool is missing");
  REFUSED(CORRUPT, parse_changed("\"name\": \"a tool\"", "\"name\": \"a tool\", \"color\": 1"),
          "tool.color is not known");
  REFUSED(CORRUPT, parse_changed("\"a tool\"", "7"), "tool.name: a text is expected");
  REFUSED(CORRUPT, parse_changed("\"a tool\"", "\"\\u001b[2J\""), "tool.name: a text is expected");
  REFUSED(CORRUPT, parse_changed("\"00112233", "\"0011223g"), "source.sha256: 64 hexadecimal digits");
  REFUSED(CORRUPT, parse_changed("\"xilinx\"", "\"altera\""), "one of intel, xilinx, pocl");
  REFUSED(CORRUPT, parse_changed("\"xilinx\"", "\"intel\""), "target.board is missing");
  REFUSED(CORRUPT, parse_changed("\"xilinx\"", "\"rtl\""), "binary.format is xclbin");
  REFUSED(CORRUPT, parse_changed("\"xclbin\"", "\"elf\""), "binary.format: one of aocx");
  REFUSED(CORRUPT, parse_changed("\"file\": \"binary\"", "\"file\": \"../binary\""), "beside the manifest");
  REFUSED(CORRUPT, parse_changed("\"file\": \"binary\"", "\"file\": \"digest\""), "beside the manifest");
  REFUSED(CORRUPT, parse_changed("\"gemm_i8\"", "\"gemm i8\""), "no name of a kernel");
  REFUSED(CORRUPT, parse_changed("\"name\": \"b\"", "\"name\": \"b-\""), "argument 1 is called");
  REFUSED(CORRUPT, parse_changed("\"write\"", "\"wrote\""), "kernels[0].arguments[1].access: one of value, read");
  REFUSED(CORRUPT, parse_changed("\"compute_units\": 1", "\"compute_units\": 0"), "no compute unit");
  REFUSED(CORRUPT, parse_changed("\"compute_units\": 1", "\"compute_units\": 1.5"), "whole number from 0 to 1024");
  REFUSED(CORRUPT, parse_changed("\"compute_units\": 1", "\"compute_units\": -1"), "whole number from 0 to 1024");
  REFUSED(CORRUPT, parse_changed("218.5", "-218.5"), "report.fmax_mhz.value: a number");
  REFUSED(CORRUPT, parse_changed("\"routed\"", "\"\""), "report.fmax_mhz.source: one of routed, estimate");
  REFUSED(CORRUPT, parse_changed("\"routed\"", "\"guessed\""), "one of routed, estimate");
  OK(parse_changed("\"simulated\"", "\"hardware\""));
  REFUSED(CORRUPT, parse_changed("\"simulated\"", "\"measured\""),
          "kernels[0].evidence: one of none, simulated, hardware");
  OK(parse_hardware(CLADE__TARGET_INTEL, CLADE__AOCX));
  OK(parse_hardware(CLADE__TARGET_ICE40, CLADE__BITSTREAM));
  REFUSED(CORRUPT, parse_hardware(CLADE__TARGET_POCL, CLADE__POCLBIN), "hardware; for a target of kind pocl none or");
  REFUSED(CORRUPT, parse_hardware(CLADE__TARGET_RTL, CLADE__NOTHING), "hardware; for a target of kind rtl none or");
  REFUSED(CORRUPT, parse_text("{"), "no JSON");
  REFUSED(CORRUPT, parse_text("[1]"), "format is missing");
  REFUSED(CORRUPT, parse_text("{\"format\":1,\"format\":1}"), "no JSON");
}

/* ---- containers ---- */
typedef clade_status check(const char *, const unsigned char *, size_t, clade__arena *, clade__facts *);

/* Exact size, for AddressSanitizer. */
static clade_status check_bytes(check *check, const char *data, size_t n) {
  clade__arena arena = {0};
  clade__facts facts;
  unsigned char *copy = clade__new(n, 1);
  if (n) memcpy(copy, data, n);
  clade_status status = check("it", copy, n, &arena, &facts);
  clade__free(copy);
  clade__arena_free(&arena);
  return status;
}

static clade_status check_changed(check *check, clade__text binary, size_t at, uint64_t value, size_t bytes) {
  kit_set(&binary, at, value, bytes);
  clade_status status = check_bytes(check, binary.data, binary.length);
  clade__text_free(&binary);
  return status;
}

/* Any flipped bit or truncation must not cause reads out of bounds; a truncated file is never accepted. */
static void survives(check *check, clade__text binary) {
  for (size_t cut = 0; cut < binary.length; cut++) assert_int_not_equal(check_bytes(check, binary.data, cut), CLADE_OK);
  for (unsigned flip = 0; flip < 2000; flip++) {
    uint32_t random[4];
    clade__philox(9, 0, flip, random);
    size_t at = random[0] % binary.length;
    char before = binary.data[at];
    binary.data[at] = (char)random[1];
    (void)!check_bytes(check, binary.data, binary.length);
    binary.data[at] = before;
  }
  OK(check_bytes(check, binary.data, binary.length));
  clade__text_free(&binary);
}

static void xclbins(void **state) {
  (void)state;
  survives(clade__xclbin_check, kit_xclbin());
  const size_t section = 456, memories = section + 40, units = section + 80, connections = section + 120;
  clade__text x = kit_xclbin();
  const unsigned char *data = (const unsigned char *)x.data;
  size_t at_memories = (size_t)clade__little(data + memories + 24, 8),
         at_units = (size_t)clade__little(data + units + 24, 8),
         at_connections = (size_t)clade__little(data + connections + 24, 8);
  clade__text_free(&x);
#define CHANGED(at, value, bytes, words) \
  REFUSED(CORRUPT, check_changed(clade__xclbin_check, kit_xclbin(), at, value, bytes), words)
  CHANGED(0, 'y', 1, "no xclbin");
  CHANGED(304, 5, 8, "xclbin tells 5 bytes");
  CHANGED(448, 1000, 4, "1000 sections");
  CHANGED(448, 200, 4, "table of sections");
  CHANGED(section + 24, UINT64_MAX, 8, "section is told");
  CHANGED(section + 32, UINT64_MAX - 400, 8, "section is told");
  CHANGED(section + 24, 100, 8, "section is told");
  CHANGED(at_memories, 1000000, 4, "table of memories tells 1000000 entries");
  CHANGED(at_units, 0xffffffff, 4, "table of units");
  CHANGED(section, 6, 4, "table of memories"); /* duplicates the first section's kind */
  CHANGED(section + 200, 8, 4, "table of units stands there twice");
  CHANGED(at_connections + 4 + 4, 2, 4, "connection 0 names a unit");
  CHANGED(at_connections + 4 + 8, 1, 4, "connection 0 names a unit or a memory");
  CHANGED(at_connections + 4, 0xffffffff, 4, "connection 0 is of argument 4294967295");
  CHANGED(at_memories + 8 + 1, 0, 1, "connection 0 is to a memory that is told to be unused");
  CHANGED(memories, 26, 4, "connection 0 names a unit or a memory"); /* memory groups only */
  CHANGED(section + 200, 26, 4, "table of groups of memories tells");
  CHANGED(section + 200, 27, 4, "table of connections to groups tells");
#undef CHANGED
}

static void aocxs(void **state) {
  (void)state;
  survives(clade__aocx_check, kit_aocx());
#define CHANGED(at, value, bytes, words) \
  REFUSED(CORRUPT, check_changed(clade__aocx_check, kit_aocx(), at, value, bytes), words)
  CHANGED(0, 0, 1, "no aocx");
  CHANGED(4, 2, 1, "no aocx");
  CHANGED(18, 3, 2, "no aocx");
  CHANGED(32, 0x7fffffff, 4, "table of sections");
  CHANGED(44, 1, 2, "program headers");
  CHANGED(48, 0, 2, "0 sections");
  CHANGED(48, 200, 2, "table of sections");
  CHANGED(50, 100, 2, "section 100");
#undef CHANGED
}

static void poclbins(void **state) {
  (void)state;
  static const char *const outside[] = {"gemm_i8/x.so", "/../x.so", "/gemm_i8/../../x.so", "/", "//x",
                                        "/gemm_i8/",    "/.hidden"};
  survives(clade__poclbin_check, kit_poclbin("/gemm_i8/1-1-1/gemm_i8.so"));
  survives(clade__poclbin_check, kit_poclbin_of(11, "/gemm_i8/1-1-1/gemm_i8.so"));
  for (size_t i = 0; i < CLADE_COUNT(outside); i++) {
    clade__text binary = kit_poclbin(outside[i]);
    REFUSED(CORRUPT, check_bytes(clade__poclbin_check, binary.data, binary.length), "written outside");
    clade__text_free(&binary);
  }
#define CHANGED(code, at, value, bytes, words) \
  REFUSED(code, check_changed(clade__poclbin_check, kit_poclbin("/k/k.so"), at, value, bytes), words)
  CHANGED(CORRUPT, 0, 'q', 1, "no poclbin");
  CHANGED(UNSUPPORTED, 16, 8, 4, "version 8");
  CHANGED(CORRUPT, 20, 2, 4, "ends in its kernel");
  CHANGED(CORRUPT, 20, 0, 4, "no program with kernels");
  CHANGED(CORRUPT, 28, 2, 4, "no program with kernels");
  CHANGED(CORRUPT, 32, 3, 4, "no program with kernels");
  CHANGED(CORRUPT, 36, '.', 1, "outside of PoCL's cache");
  CHANGED(CORRUPT, 76, 'A', 1, "outside of PoCL's cache");
  CHANGED(CORRUPT, 77, 1 << 20, 8, "ends in its files");
  CHANGED(CORRUPT, 77, 0, 8, "no program in it");
#undef CHANGED
#define CHANGED(code, at, value, bytes, words) \
  REFUSED(code, check_changed(clade__poclbin_check, kit_poclbin_of(11, "/k/k.so"), at, value, bytes), words)
  CHANGED(CORRUPT, 24, 4, 1, "no program with kernels");
  CHANGED(UNSUPPORTED, 77, 1, 8, "variables of the program");
  CHANGED(CORRUPT, 201, 8, 4, "a flag that is not known");
#undef CHANGED
}

/* Manifest and binary must agree. */
static void both(void **state) {
  (void)state;
  clade__text binary = kit_xclbin();
  clade__bundle_draft draft = {kit_manifest(CLADE__TARGET_XILINX, CLADE__XCLBIN), binary.data, binary.length, NULL};
  draft.manifest.target.vbnv = "another";
  REFUSED(CORRUPT, clade__bundle_write(io_path("it"), false, &draft), "tells the platform another");
  draft.manifest.target.vbnv = KIT_VBNV;
  draft.manifest.target.uuid = "00000000000000000000000000000000";
  REFUSED(CORRUPT, clade__bundle_write(io_path("it"), false, &draft), "tells the UUID");
  draft.manifest.target.uuid = NULL;
  clade__bundle_kernel kernel = kit_kernels[0];
  kernel.name = "softmax";
  draft.manifest.kernels = &kernel;
  REFUSED(CORRUPT, clade__bundle_write(io_path("it"), false, &draft), "names the kernel softmax");
  clade__bundle_argument arguments[] = {kit_arguments[0], kit_arguments[1], kit_arguments[0]};
  kernel = kit_kernels[0];
  kernel.arguments = arguments;
  kernel.n_arguments = 3;
  REFUSED(CORRUPT, clade__bundle_write(io_path("it"), false, &draft),
          "argument a of kernel gemm_i8 lies in no memory of its binary");
  clade__text_free(&binary);
  REFUSED(NOT_FOUND, clade__bundle_read(io_path("it"), &(clade__bundle){0}), "it");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, io_set_up, io_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(round_trip), TEST(trust),   TEST(places), TEST(damaged_files), TEST(damaged_directories),
      TEST(manifests),  TEST(xclbins), TEST(aocxs),  TEST(poclbins),      TEST(both)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
