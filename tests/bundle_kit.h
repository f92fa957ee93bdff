/* Creates binaries in the formats of vendors' tools, without working code, for tests of bundle readers and of
 * runtimes that compute nothing. */
#ifndef BUNDLE_KIT_H
#define BUNDLE_KIT_H

#include <stdio.h>

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
/* A string in a fixed-size array. */
static inline void kit_array(clade__text *to, const char *text, size_t bytes) {
  clade__text_add_bytes(to, text, strlen(text));
  kit_zeros(to, bytes - strlen(text));
}
static inline void kit_set(clade__text *in, size_t at, uint64_t value, size_t bytes) {
  clade__put_little((unsigned char *)in->data + at, value, bytes);
}

#define KIT_VBNV  "xilinx_u250_gen3x16_xdma_4_1_202210_1"
#define KIT_BOARD "pac_a10"

/* ---- kernels and their description by vendors' tools ---- */
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
     .evidence = CLADE__SIMULATED},
    {.name = "relu_f32", .arguments = kit_arguments, .n_arguments = 2, .work_group = {1, 1, 1}, .compute_units = 1}};

static inline bool kit_is_tensor(const clade__bundle_argument *a) { return a->access != CLADE__VALUE; }
/* Base address of unit i's registers. */
static inline unsigned kit_base(size_t i) { return 0x800000u + 0x10000u * (unsigned)i; }

static inline void kit_xml_argument(clade__text *to, const clade__bundle_argument *a, size_t id) {
  const char *type = strncmp(a->type, "global ", 7) ? a->type : a->type + 7;
  const int bytes = kit_is_tensor(a) ? 8 : strcmp(a->type, "int") && strcmp(a->type, "float") ? 16 : 4;
  clade__text_add(to,
                  "<arg name=\"%s\" addressQualifier=\"%d\" id=\"%zu\" port=\"%s\" size=\"%d\" offset=\"%zu\" "
                  "hostOffset=\"0\" hostSize=\"%d\" type=\"%s\"/>",
                  a->name, kit_is_tensor(a), id, kit_is_tensor(a) ? "M_AXI_GMEM" : "S_AXI_CONTROL", bytes, 16 + 16 * id,
                  bytes, type);
}
static inline clade__text kit_xml(const clade__bundle_kernel *kernels, size_t n) {
  clade__text xml = {0};
  clade__text_add(&xml, "<project name=\"kit\"><platform><device><core>");
  for (size_t i = 0; i < n; i++) {
    const clade__bundle_kernel *k = &kernels[i];
    clade__text_add(&xml,
                    "<kernel name=\"%s\" language=\"c\"><compileWorkGroupSize x=\"%d\" y=\"%d\" z=\"%d\"/>"
                    "<port name=\"S_AXI_CONTROL\" mode=\"slave\" range=\"0x1000\"/>",
                    k->name, (int)k->work_group[0], (int)k->work_group[1], (int)k->work_group[2]);
    for (size_t a = 0; a < k->n_arguments; a++) kit_xml_argument(&xml, &k->arguments[a], a);
    clade__text_add(&xml, "<instance name=\"%s_1\"><addrRemap base=\"0x%x\"/></instance></kernel>", k->name,
                    kit_base(i));
  }
  clade__text_add(&xml, "</core></device></platform></project>");
  return xml;
}

/* ---- xclbin ---- */
typedef struct kit_section {
  uint32_t kind;
  clade__text bytes;
} kit_section;

/* One compute unit per kernel; all tensors are in the single memory bank. */
static inline void kit_units(const clade__bundle_kernel *kernels, size_t n, clade__text *units,
                             clade__text *connections) {
  uint64_t connected = 0;
  kit_number(units, n, 8);
  kit_number(connections, 0, 4);
  for (size_t i = 0; i < n; i++) {
    char name[64];
    snprintf(name, sizeof name, "%.28s:%.28s_1", kernels[i].name, kernels[i].name);
    kit_number(units, 1, 4), kit_number(units, 0, 4), kit_number(units, kit_base(i), 8);
    kit_array(units, name, sizeof name);
    for (size_t a = 0; a < kernels[i].n_arguments; a++) {
      if (!kit_is_tensor(&kernels[i].arguments[a])) continue;
      kit_number(connections, a, 4), kit_number(connections, i, 4), kit_number(connections, 0, 4);
      kit_set(connections, 0, ++connected, 4);
    }
  }
}

/* `image` is the last byte of the UUID. */
static inline clade__text kit_xclbin_of(const clade__bundle_kernel *kernels, size_t n, unsigned char image) {
  kit_section sections[] = {{2, kit_xml(kernels, n)}, {6, {0}}, {8, {0}}, {7, {0}}, {11, {0}}, {0, {0}}};
  clade__text whole = {0}, *memories = &sections[1].bytes, *clocks = &sections[4].bytes;
  kit_number(memories, 1, 8);
  kit_number(memories, 0x0101, 8); /* memory type, used */
  kit_number(memories, 1 << 24, 8), kit_number(memories, 0, 8), kit_array(memories, "DDR[0]", 16);
  kit_units(kernels, n, &sections[2].bytes, &sections[3].bytes);
  kit_number(clocks, 1, 2);
  kit_number(clocks, 300, 2), kit_number(clocks, 1, 1), kit_zeros(clocks, 5), kit_array(clocks, "DATA_CLK", 128);
  clade__text_add(&sections[5].bytes, "no bits of a device");

  clade__text_add_bytes(&whole, "xclbin2", 8);
  kit_zeros(&whole, 352 - 8);
  kit_set(&whole, 8, 0xffffffff, 4); /* no Xilinx signature */
  kit_array(&whole, KIT_VBNV, 64);
  for (int i = 0; i < 15; i++) kit_number(&whole, (uint64_t)(i * 17), 1);
  kit_number(&whole, image, 1);
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
static inline clade__text kit_xclbin(void) { return kit_xclbin_of(kit_kernels, 2, 255); }

/* ---- aocx ---- */
static inline clade__text kit_aocx(void) {
  clade__text xml = kit_xml(kit_kernels, 2);
  const struct {
    const char *name, *text;
  } sections[] = {{"", ""},
                  {".acl.board", KIT_BOARD},
                  {".acl.autodiscovery", "23 24 0123456789abcdef0123456789abcdef01234567 " KIT_BOARD},
                  {".acl.hash", "0123456789abcdef0123456789abcdef01234567"},
                  {".acl.kernel_arg_info.xml", xml.data},
                  {".acl.fpga.bin", "no bits of a device"},
                  {".shstrtab", NULL}};
  clade__text whole = {0}, names = {0}, headers = {0};
  clade__text_add_bytes(&whole, "\177ELF\1\1\1", 7);
  kit_zeros(&whole, 9);
  kit_number(&whole, 0, 2), kit_number(&whole, 62, 2), kit_number(&whole, 1, 4), kit_zeros(&whole, 28);
  kit_set(&whole, 40, 52, 2); /* size of the ELF header */
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
  clade__text_free(&names), clade__text_free(&headers), clade__text_free(&xml);
  return whole;
}

/* ---- poclbin ---- */
static inline void kit_string(clade__text *to, const char *text) {
  kit_number(to, strlen(text), 4);
  clade__text_add_bytes(to, text, strlen(text));
}
/* Version 9, or 11 with all its optional parts. */
static inline clade__text kit_poclbin_of(int version, const char *path) {
  clade__text whole = {0};
  clade__text_add_bytes(&whole, "poclbin", 8);
  kit_number(&whole, 0x1234, 8), kit_number(&whole, (uint64_t)version, 4), kit_number(&whole, 1, 4);
  kit_number(&whole, (uint64_t)4 << 32 | (version > 9 ? 2 : 0), 8), kit_number(&whole, 1, 4);
  clade__text_add_bytes(&whole, "MB/CEOJALDFLOGKCBNAOKPBLPMIAIKJNCNDDNOMG", 41);
  if (version > 9) kit_number(&whole, 0, 8); /* program-scope variables */
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
  kit_string(&whole, ""), kit_number(&whole, 31, 4), kit_number(&whole, version > 9 ? 6 : 0, 4);
  if (version > 9) kit_zeros(&whole, 7 * 4); /* subgroups, work-groups */
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

static inline clade__text kit_poclbin(const char *path) { return kit_poclbin_of(9, path); }

/* ---- manifests ---- */
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

/* ---- an Ed25519 key pair ---- */
#define KIT_PRIVATE_KEY                                                \
  "-----BEGIN PRIVATE KEY-----\n"                                      \
  "MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n" \
  "-----END PRIVATE KEY-----\n"
#define KIT_PUBLIC_KEY                                             \
  "-----BEGIN PUBLIC KEY-----\n"                                   \
  "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n" \
  "-----END PUBLIC KEY-----\n"

#endif
