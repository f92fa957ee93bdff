/* Binaries as vendors' tools make them, with nothing in them that computes: for what reads bundles, and for a runtime
 * that computes nothing. */
#ifndef BUNDLE_KIT_H
#define BUNDLE_KIT_H

#include "base/file.h"
#include "bundle/bundle.h"

/* ---- bytes ---- */
static inline void kit_number(clade__text *to, uint64_t value, size_t bytes) {
  unsigned char little[8];
  clade__put_little(little, value, bytes);
  clade__text_add_bytes(to, (const char *)little, bytes);
}
static inline void kit_zeros(clade__text *to, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) clade__text_add_bytes(to, "", 1);
}
/* A text in an array of so many bytes. */
static inline void kit_array(clade__text *to, const char *text, size_t bytes) {
  clade__text_add_bytes(to, text, strlen(text));
  kit_zeros(to, bytes - strlen(text));
}
static inline void kit_set(clade__text *in, size_t at, uint64_t value, size_t bytes) {
  clade__put_little((unsigned char *)in->data + at, value, bytes);
}

#define KIT_XML                                                                                         \
  "<project><platform><device><core><kernel name=\"gemm_i8\" language=\"c\"><arg name=\"a\"/></kernel>" \
  "<kernel name=\"relu_f32\" language=\"c\"/></core></device></platform></project>"
#define KIT_VBNV  "xilinx_u250_gen3x16_xdma_4_1_202210_1"
#define KIT_BOARD "pac_a10"

/* ---- xclbin ---- */
typedef struct kit_section {
  uint32_t kind;
  clade__text bytes;
} kit_section;

static inline clade__text kit_xclbin(void) {
  kit_section sections[] = {{2, {0}}, {6, {0}}, {8, {0}}, {7, {0}}, {11, {0}}, {0, {0}}};
  clade__text whole = {0};
  clade__text_add(&sections[0].bytes, "%s", KIT_XML);
  clade__text *memories = &sections[1].bytes, *units = &sections[2].bytes, *connections = &sections[3].bytes,
              *clocks = &sections[4].bytes;
  kit_number(memories, 1, 8);
  kit_number(memories, 0x0101, 8); /* of a kind, used */
  kit_number(memories, 1 << 24, 8), kit_number(memories, 0, 8), kit_array(memories, "DDR[0]", 16);
  kit_number(units, 2, 8);
  for (int i = 0; i < 2; i++) {
    kit_number(units, 1, 4), kit_number(units, 0, 4), kit_number(units, 0x800000u + 0x10000u * (unsigned)i, 8);
    kit_array(units, i ? "relu_f32:relu_f32_1" : "gemm_i8:gemm_i8_1", 64);
  }
  kit_number(connections, 1, 4);
  kit_number(connections, 0, 4), kit_number(connections, 1, 4), kit_number(connections, 0, 4);
  kit_number(clocks, 1, 2);
  kit_number(clocks, 300, 2), kit_number(clocks, 1, 1), kit_zeros(clocks, 5), kit_array(clocks, "DATA_CLK", 128);
  clade__text_add(&sections[5].bytes, "no bits of a device");

  clade__text_add_bytes(&whole, "xclbin2", 8);
  kit_zeros(&whole, 352 - 8);
  kit_set(&whole, 8, 0xffffffff, 4); /* it is not signed in Xilinx' way */
  kit_array(&whole, KIT_VBNV, 64);
  for (int i = 0; i < 16; i++) kit_number(&whole, (uint64_t)(i * 17), 1);
  kit_zeros(&whole, 448 - 432);
  kit_number(&whole, CLADE_COUNT(sections), 8);
  for (size_t i = 0; i < CLADE_COUNT(sections); i++) kit_zeros(&whole, 40);
  for (size_t i = 0; i < CLADE_COUNT(sections); i++) {
    size_t header = 456 + 40 * i;
    while (whole.length % 8) kit_zeros(&whole, 1);
    kit_set(&whole, header, sections[i].kind, 4);
    kit_set(&whole, header + 24, whole.length, 8);
    kit_set(&whole, header + 32, sections[i].bytes.length, 8);
    clade__text_add_bytes(&whole, sections[i].bytes.data, sections[i].bytes.length);
    clade__text_free(&sections[i].bytes);
  }
  kit_set(&whole, 304, whole.length, 8);
  return whole;
}

/* ---- aocx ---- */
static inline clade__text kit_aocx(void) {
  const struct {
    const char *name, *text;
  } sections[] = {{"", ""},
                  {".acl.board", KIT_BOARD},
                  {".acl.autodiscovery", "23 24 0123456789abcdef0123456789abcdef01234567 " KIT_BOARD},
                  {".acl.hash", "0123456789abcdef0123456789abcdef01234567"},
                  {".acl.kernel_arg_info.xml", KIT_XML},
                  {".acl.fpga.bin", "no bits of a device"},
                  {".shstrtab", NULL}};
  clade__text whole = {0}, names = {0}, headers = {0};
  clade__text_add_bytes(&whole, "\177ELF\1\1\1", 7);
  kit_zeros(&whole, 9);
  kit_number(&whole, 0, 2), kit_number(&whole, 62, 2), kit_number(&whole, 1, 4), kit_zeros(&whole, 28);
  kit_set(&whole, 40, 52, 2); /* of the header itself */
  kit_number(&whole, 0, 0), kit_zeros(&whole, 52 - whole.length);
  for (size_t i = 0; i < CLADE_COUNT(sections); i++) {
    kit_number(&headers, names.length, 4);
    clade__text_add_bytes(&names, sections[i].name, strlen(sections[i].name) + 1);
    const char *text = sections[i].text ? sections[i].text : names.data;
    size_t bytes = sections[i].text ? strlen(text) : names.length;
    kit_number(&headers, i ? 1 : 0, 4), kit_number(&headers, 0, 4), kit_number(&headers, 0, 4);
    kit_number(&headers, i ? whole.length : 0, 4), kit_number(&headers, bytes, 4), kit_zeros(&headers, 16);
    clade__text_add_bytes(&whole, text, bytes);
  }
  kit_set(&whole, 32, whole.length, 4);
  kit_set(&whole, 46, 40, 2), kit_set(&whole, 48, CLADE_COUNT(sections), 2);
  kit_set(&whole, 50, CLADE_COUNT(sections) - 1, 2);
  clade__text_add_bytes(&whole, headers.data, headers.length);
  clade__text_free(&names), clade__text_free(&headers);
  return whole;
}

/* ---- poclbin ---- */
static inline void kit_string(clade__text *to, const char *text) {
  kit_number(to, strlen(text), 4);
  clade__text_add_bytes(to, text, strlen(text));
}
static inline clade__text kit_poclbin(const char *path) {
  clade__text whole = {0};
  clade__text_add_bytes(&whole, "poclbin", 8);
  kit_number(&whole, 0x1234, 8), kit_number(&whole, 9, 4), kit_number(&whole, 1, 4);
  kit_number(&whole, (uint64_t)4 << 32, 8), kit_number(&whole, 1, 4);
  clade__text_add_bytes(&whole, "MB/CEOJALDFLOGKCBNAOKPBLPMIAIKJNCNDDNOMG", 41);
  size_t files = whole.length;
  kit_number(&whole, 0, 8);
  kit_string(&whole, "/program.bc"), kit_string(&whole, "no bitcode");
  kit_set(&whole, files, whole.length - files - 8, 8);
  size_t kernel = whole.length;
  kit_zeros(&whole, 20);
  kit_string(&whole, "gemm_i8");
  kit_number(&whole, 2, 4), kit_number(&whole, 1, 4); /* arguments, local arrays */
  for (int i = 0; i < 3; i++) kit_number(&whole, 1, 8);
  kit_number(&whole, 64, 8);
  kit_string(&whole, ""), kit_number(&whole, 31, 8);
  size_t arguments = whole.length;
  for (int i = 0; i < 2; i++) {
    kit_number(&whole, 0x11a3, 4), kit_number(&whole, 0x119b, 4), kit_zeros(&whole, 8);
    kit_number(&whole, 1, 4), kit_number(&whole, 8, 4);
    kit_string(&whole, i ? "b" : "a"), kit_string(&whole, "char*");
  }
  kit_set(&whole, kernel + 16, whole.length - arguments, 4);
  size_t binaries = whole.length;
  kit_string(&whole, path), kit_string(&whole, "no program");
  kit_set(&whole, kernel + 8, whole.length - binaries, 8);
  kit_set(&whole, kernel, whole.length - kernel, 8);
  return whole;
}

/* ---- a manifest for each ---- */
static clade__bundle_argument kit_arguments[] = {{"global char *", "a", CLADE__READ},
                                                 {"global char *", "b", CLADE__WRITE}};
static const char *kit_banks[] = {"DDR[0]"};
static clade__bundle_kernel kit_kernels[] = {
    {.name = "gemm_i8",
     .arguments = kit_arguments,
     .n_arguments = 2,
     .work_group = {1, 1, 1},
     .compute_units = 1,
     .banks = kit_banks,
     .n_banks = 1,
     .report = {.ii = {1, CLADE__ESTIMATE, "report.html"}, .fmax_mhz = {218.5, CLADE__ROUTED, NULL}},
     .evidence = CLADE__SIMULATED}};
static clade__bundle_define kit_defines[] = {{"TILE", "16"}};

static inline clade__manifest kit_manifest(clade__target_kind kind, clade__container format) {
  clade__manifest m = {.format = CLADE__BUNDLE_FORMAT,
                       .interface_version = CLADE__BUNDLE_INTERFACE,
                       .target = {.kind = (int)kind, .device = "a device"},
                       .tool = {"a tool", "1.2", "tool --do it"},
                       .source = {"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"},
                       .binary = {(int)format, "binary", 0},
                       .defines = kit_defines,
                       .n_defines = 1,
                       .kernels = kit_kernels,
                       .n_kernels = 1};
  if (kind == CLADE__TARGET_XILINX) m.target.vbnv = KIT_VBNV;
  if (kind == CLADE__TARGET_INTEL) m.target.board = KIT_BOARD;
  return m;
}

/* ---- a key of Ed25519, and its public half ---- */
#define KIT_PRIVATE_KEY                                                \
  "-----BEGIN PRIVATE KEY-----\n"                                      \
  "MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n" \
  "-----END PRIVATE KEY-----\n"
#define KIT_PUBLIC_KEY                                             \
  "-----BEGIN PUBLIC KEY-----\n"                                   \
  "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n" \
  "-----END PUBLIC KEY-----\n"

#endif
