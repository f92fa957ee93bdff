/* Matrix units of CPUs and GPUs: the probe kernel of each, and the kernel's expected results. Sources
 * are embedded here, since kernel files belong to a higher module. */
#include "cl/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* ---- expected results: a word holds four bytes or two bf16 that are small integers ---- */
static int32_t byte_of(uint32_t word, int i, bool sign) {
  uint32_t byte = word >> 8 * i & 0xffu;
  return sign && byte > 127 ? (int32_t)byte - 256 : (int32_t)byte;
}
static float half_of(uint32_t word, int i) {
  uint32_t bits = i ? word & 0xffff0000u : word << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
typedef uint32_t dot_fn(uint32_t sum, uint32_t a, uint32_t b);
static uint32_t dot_bytes(uint32_t sum, uint32_t a, uint32_t b, bool sign) {
  for (int i = 0; i < 4; i++) sum += (uint32_t)(byte_of(a, i, sign) * byte_of(b, i, true));
  return sum;
}
static uint32_t dot_u8(uint32_t sum, uint32_t a, uint32_t b) { return dot_bytes(sum, a, b, false); }
static uint32_t dot_s8(uint32_t sum, uint32_t a, uint32_t b) { return dot_bytes(sum, a, b, true); }
static uint32_t dot_bf16(uint32_t sum, uint32_t a, uint32_t b) {
  float total;
  memcpy(&total, &sum, sizeof total);
  for (int i = 0; i < 2; i++) total += half_of(a, i) * half_of(b, i);
  memcpy(&sum, &total, sizeof sum);
  return sum;
}

/* ---- vectors of 16 words: two dependent products ---- */
#define VECTOR_PROBE(instruction, type, start)                                               \
  "__kernel void clade_unit(__global const uint *in, __global uint *out) {\n"                \
  "  " type "16 c = " start ";\n"                                                            \
  "  for (int i = 0; i < 2; i++) {\n"                                                        \
  "    uint16 a = vload16(2 * i, in), b = vload16(2 * i + 1, in);\n"                         \
  "    __asm__ volatile(\"" instruction " %2, %1, %0\" : \"+v\"(c) : \"v\"(a), \"v\"(b));\n" \
  "  }\n"                                                                                    \
  "  vstore16(as_uint16(c), 0, out);\n"                                                      \
  "}\n"

static void want_vector(const uint32_t *in, uint32_t *out, dot_fn *dot, bool zero) {
  for (int i = 0; i < 16; i++) out[i] = dot(dot(zero ? 0 : in[64 + i], in[i], in[16 + i]), in[32 + i], in[48 + i]);
}
static void want_vnni(const uint32_t *in, uint32_t *out) { want_vector(in, out, dot_u8, false); }
static void want_avx512_bf16(const uint32_t *in, uint32_t *out) { want_vector(in, out, dot_bf16, true); }

/* ---- tiles: a full one, then one of 5 x 7 results from 3 words ---- */
#define TILE_PROBE(whole, part, start)                                                                    \
  "#define TILE(t, rows, words) cfg[16 + 2 * t] = 4 * (words), cfg[48 + t] = (rows)\n"                    \
  "__kernel void clade_unit(__global const uint *in, __global uint *out) {\n"                             \
  "  const size_t line = 64;\n"                                                                           \
  "  uchar cfg[64];\n"                                                                                    \
  "  for (int turn = 0; turn < 2; turn++, out += 256) {\n"                                                \
  "    for (int i = 0; i < 64; i++) cfg[i] = i == 0;\n"                                                   \
  "    for (int i = 0; i < 256; i++) out[i] = 0;\n"                                                       \
  "    TILE(0, turn ? 5 : 16, turn ? 7 : 16);\n"                                                          \
  "    TILE(1, turn ? 5 : 16, turn ? 3 : 16);\n"                                                          \
  "    TILE(2, turn ? 3 : 16, turn ? 7 : 16);\n"                                                          \
  "    __asm__ volatile(\"ldtilecfg (%0)\" :: \"r\"(cfg) : \"memory\");\n"                                \
  "    " start "\n"                                                                                       \
  "    __asm__ volatile(\"tileloadd (%0,%1,1), %%tmm1\" :: \"r\"(in), \"r\"(line) : \"memory\");\n"       \
  "    __asm__ volatile(\"tileloadd (%0,%1,1), %%tmm2\" :: \"r\"(in + 256), \"r\"(line) : \"memory\");\n" \
  "    if (turn)\n"                                                                                       \
  "      __asm__ volatile(\"" part " %%tmm2, %%tmm1, %%tmm0\" ::: \"memory\");\n"                         \
  "    else\n"                                                                                            \
  "      __asm__ volatile(\"" whole " %%tmm2, %%tmm1, %%tmm0\" ::: \"memory\");\n"                        \
  "    __asm__ volatile(\"tilestored %%tmm0, (%0,%1,1)\" :: \"r\"(out), \"r\"(line) : \"memory\");\n"     \
  "    __asm__ volatile(\"tilerelease\" ::: \"memory\");\n"                                               \
  "  }\n"                                                                                                 \
  "}\n"
#define TILE_START "__asm__ volatile(\"tileloadd (%0,%1,1), %%tmm0\" :: \"r\"(in + 512), \"r\"(line) : \"memory\");"
#define TILE_ZERO  "__asm__ volatile(\"tilezero %%tmm0\" ::: \"memory\");"

static void want_tiles(const uint32_t *in, uint32_t *out, dot_fn *whole, dot_fn *part, bool zero) {
  for (int turn = 0; turn < 2; turn++, out += 256) {
    int rows = turn ? 5 : 16, columns = turn ? 7 : 16, words = turn ? 3 : 16;
    for (int r = 0; r < rows; r++)
      for (int c = 0; c < columns; c++) {
        uint32_t sum = zero ? 0 : in[512 + 16 * r + c];
        for (int k = 0; k < words; k++) sum = (turn ? part : whole)(sum, in[16 * r + k], in[256 + 16 * k + c]);
        out[16 * r + c] = sum;
      }
  }
}
static void want_amx_int8(const uint32_t *in, uint32_t *out) { want_tiles(in, out, dot_u8, dot_s8, false); }
static void want_amx_bf16(const uint32_t *in, uint32_t *out) { want_tiles(in, out, dot_bf16, dot_bf16, true); }

/* ---- warps ---- */
/* Products of 16 x 16 results from tiles of 16 rows of 8 words, the last two of which are not copied. Turns: bf16;
 * bf16 with the second operand transposed; f16 (the same bits); tf32 (upper half of a word); bytes, of which the second
 * operand, the first, or both are signed. */
enum { WARP = 32, WARP_TURNS = 7, ACROSS = 1, F16 = 2, TF32 = 3, U8_S8 = 4, S8_U8 = 5 };
static const char warp_probe[] =
    "#define LOAD(to, from, turned) \\\n"
    "  __asm__ volatile(\"ldmatrix.sync.aligned.m8n8.x4\" turned \".shared.b16 {%0,%1,%2,%3}, [%4];\" \\\n"
    "                   : \"=r\"(to[0]), \"=r\"(to[1]), \"=r\"(to[2]), \"=r\"(to[3]) \\\n"
    "                   : \"r\"((uint)(size_t)(from)) : \"memory\")\n"
    "#define MULTIPLY(name, kind, c) \\\n"
    "  __asm__ volatile(\"mma.sync.aligned.\" name \" {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\" \\\n"
    "                   : \"+\" kind(c[0]), \"+\" kind(c[1]), \"+\" kind(c[2]), \"+\" kind(c[3]) \\\n"
    "                   : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"r\"(b[n]), \"r\"(b[n + 2]))\n"
    "uint narrow(uint word) {\n"
    "  uint to;\n"
    "  __asm__(\"cvt.rna.tf32.f32 %0, %1;\" : \"=r\"(to) : \"f\"(as_float(word & 0xffff0000u)));\n"
    "  return to;\n"
    "}\n"
    "__kernel void clade_unit(__global const uint *in, __global uint *out) {\n"
    "  __local uint tile[256] __attribute__((aligned(16)));\n"
    "  const int lane = (int)get_local_id(0);\n"
    "  for (int i = 4 * lane; i < 256; i += 128)\n"
    "    __asm__ volatile(\"cp.async.cg.shared.global [%0], [%1], 16, %2;\"\n"
    "                     :: \"r\"((uint)(size_t)(tile + i)), \"l\"((ulong)(size_t)(in + i)), \"r\"(i < 252 ? 16 : 8)\n"
    "                     : \"memory\");\n"
    "  __asm__ volatile(\"cp.async.commit_group;\" ::: \"memory\");\n"
    "  __asm__ volatile(\"cp.async.wait_group 0;\" ::: \"memory\");\n"
    "  barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  for (int turn = 0; turn < 7; turn++, out += 256) {\n"
    "    const int line = lane % 16 * 8 + lane / 16 * 4, across = (lane / 16 * 8 + lane % 8) * 8 + lane / 8 % 2 * 4;\n"
    "    uint a[4], b[4];\n"
    "    LOAD(a, tile + line, \"\");\n"
    "    if (turn == 1) LOAD(b, tile + 128 + across, \".trans\");\n"
    "    else LOAD(b, tile + 128 + line, \"\");\n"
    "    for (int i = 0; i < 4 && turn == 3; i++) a[i] = narrow(a[i]), b[i] = narrow(b[i]);\n"
    "    for (int n = 0; n < 2; n++) {\n"
    "      float c[4] = {0, 0, 0, 0};\n"
    "      int w[4] = {0, 0, 0, 0};\n"
    "      if (turn < 2) MULTIPLY(\"m16n8k16.row.col.f32.bf16.bf16.f32\", \"f\", c);\n"
    "      else if (turn == 2) MULTIPLY(\"m16n8k16.row.col.f32.f16.f16.f32\", \"f\", c);\n"
    "      else if (turn == 3) MULTIPLY(\"m16n8k8.row.col.f32.tf32.tf32.f32\", \"f\", c);\n"
    "      else if (turn == 4) MULTIPLY(\"m16n8k32.row.col.s32.u8.s8.s32\", \"r\", w);\n"
    "      else if (turn == 5) MULTIPLY(\"m16n8k32.row.col.s32.s8.u8.s32\", \"r\", w);\n"
    "      else MULTIPLY(\"m16n8k32.row.col.s32.s8.s8.s32\", \"r\", w);\n"
    "      for (int i = 0; i < 4; i++)\n"
    "        out[(lane / 4 + i / 2 * 8) * 16 + n * 8 + lane % 4 * 2 + i % 2] =\n"
    "            turn < 4 ? as_uint(c[i] + 0.0f) : as_uint(w[i]);\n"
    "    }\n"
    "  }\n"
    "}\n";

static float f16_of(uint32_t word, int i) {
  uint32_t bits = word >> 16 * i & 0xffffu;
  float size = bits & 0x7fffu ? ldexpf((float)(1024 + (bits & 1023u)), (int)(bits >> 10 & 31u) - 25) : 0;
  return bits >> 15 ? -size : size;
}
/* Element k of a row of 8 words. */
static float element_of(const uint32_t *line, int k, int turn) {
  if (turn == TF32) return half_of(line[k], 1);
  return turn == F16 ? f16_of(line[k / 2], k % 2) : half_of(line[k / 2], k % 2);
}
static uint32_t byte_product(const uint32_t *a, const uint32_t *b, int turn) {
  uint32_t sum = 0;
  for (int k = 0; k < 32; k++)
    sum += (uint32_t)(byte_of(a[k / 4], k % 4, turn != U8_S8) * byte_of(b[k / 4], k % 4, turn != S8_U8));
  return sum;
}
static void want_ptx(const uint32_t *in, uint32_t *out) {
  uint32_t tile[256];
  memcpy(tile, in, sizeof tile);
  tile[254] = tile[255] = 0;
  for (int turn = 0; turn < WARP_TURNS; turn++)
    for (int i = 0; i < 256; i++, out++) {
      int row = i / 16, column = i % 16;
      float sum = 0;
      if (turn > TF32) {
        *out = byte_product(tile + 8 * row, tile + 128 + 8 * column, turn);
        continue;
      }
      for (int k = 0; k < (turn == TF32 ? 8 : 16); k++)
        sum += element_of(tile + 8 * row, k, turn) * (turn == ACROSS ? element_of(tile + 128 + 8 * k, column, turn)
                                                                     : element_of(tile + 128 + 8 * column, k, turn));
      memcpy(out, &sum, sizeof sum);
    }
}

/* f8, the whole numbers from -3 to 3 as e4m3: 16 x 16 results from 16 rows of 32 bytes, and as many columns. Sums stay
 * below 2^11, since the units may add with fourteen bits. */
#define F8_CODE "(((0x44403800u >> ((x) & 3) * 8) & 0xffu) | ((x) & 4u) << 5)"
static float f8_number(uint32_t byte) { return (float)(byte & 3u) * (byte & 4u ? -1.0f : 1.0f); }
static const char warp_f8_probe[] =
    "#define CODE(x) " F8_CODE "\n"
    "uint codes(uint x) { return CODE(x) | CODE(x >> 8) << 8 | CODE(x >> 16) << 16 | CODE(x >> 24) << 24; }\n"
    "__kernel void clade_unit(__global const uint *in, __global uint *out) {\n"
    "  const int lane = (int)get_local_id(0);\n"
    "  for (int n = 0; n < 2; n++) {\n"
    "    uint a[4], b[2];\n"
    "    float c[4] = {0, 0, 0, 0};\n"
    "    for (int r = 0; r < 4; r++) a[r] = codes(in[(lane / 4 + r % 2 * 8) * 8 + lane % 4 + r / 2 * 4]);\n"
    "    for (int r = 0; r < 2; r++) b[r] = codes(in[128 + (n * 8 + lane / 4) * 8 + lane % 4 + r * 4]);\n"
    "    __asm__ volatile(\"mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 \"\n"
    "                     \"{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\"\n"
    "                     : \"+f\"(c[0]), \"+f\"(c[1]), \"+f\"(c[2]), \"+f\"(c[3])\n"
    "                     : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"r\"(b[0]), \"r\"(b[1]));\n"
    "    for (int i = 0; i < 4; i++)\n"
    "      out[(lane / 4 + i / 2 * 8) * 16 + n * 8 + lane % 4 * 2 + i % 2] = as_uint(c[i] + 0.0f);\n"
    "  }\n"
    "}\n";
static void want_ptx_f8(const uint32_t *in, uint32_t *out) {
  const uint8_t *bytes = (const uint8_t *)in;
  for (int i = 0; i < 256; i++) {
    float sum = 0;
    for (int k = 0; k < 32; k++) sum += f8_number(bytes[i / 16 * 32 + k]) * f8_number(bytes[512 + i % 16 * 32 + k]);
    memcpy(&out[i], &sum, sizeof sum);
  }
}

/* ---- warpgroups ---- */
/* 64 x 128 results with lines of 128 bytes. Operands repeat the elements of `in`, each time shifted by 17; the right
 * operand starts at element 500. Each work-item has 64 results; for each turn it writes their sum with weights 1 to 4.
 */
enum { WARPGROUP = 128 };
#define GROUP_F4(i)   "\"+\" l(d[" #i "]), \"+\" l(d[" #i " + 1]), \"+\" l(d[" #i " + 2]), \"+\" l(d[" #i " + 3])"
#define GROUP_F16(i)  GROUP_F4(i) ", " GROUP_F4(i + 4) ", " GROUP_F4(i + 8) ", " GROUP_F4(i + 12)
#define GROUP_RESULTS GROUP_F16(0) ", " GROUP_F16(16) ", " GROUP_F16(32) ", " GROUP_F16(48)
#define GROUP_NUMBERS                                                              \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21," \
  "%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,"   \
  "%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,"   \
  "%60,%61,%62,%63"
/* TURN: writes the results of one pair of types. l: letter of an accumulator's register; CODE: an element of `in` as
 * one of the operand. */
#define GROUP_PROBE(turns)                                                                                      \
  "#define LATE(text) __asm__ volatile(\"//!90a \" text ::: \"memory\")\n"                                      \
  "#define OPERAND(tile, across, k, RAW) \\\n"                                                                  \
  "  (((ulong)((uint)(size_t)(tile) + (uint)((across) ? (k) * 128 : (k) * sizeof(RAW))) & 0x3ffff) >> 4 | \\\n" \
  "   (ulong)((across) ? 8192 >> 4 : 1) << 16 | (ulong)(1024 >> 4) << 32 | (ulong)1 << 62)\n"                   \
  "#define BRING(RAW, tile, lines, across, from, CODE) \\\n"                                                    \
  "  for (int i = id; i < (lines) * LINE(RAW); i += 128) { \\\n"                                                \
  "    const int n = i / LINE(RAW), k = i % LINE(RAW), of = (i + i / (32 * LINE(RAW)) * 17 + from) % (32 * "    \
  "LINE(RAW)); \\\n"                                                                                            \
  "    const int at = (across) ? (n / 64 * 64 + k) * 64 + (n % 64 ^ k % 8 * 8) : n * LINE(RAW) + (k ^ n % 8 * " \
  "(LINE(RAW) / 8)); \\\n"                                                                                      \
  "    ((__local RAW *)(tile))[at] = (RAW)CODE(((__global const RAW *)in)[of]); \\\n"                           \
  "  }\n"                                                                                                       \
  "#define LINE(RAW) (128 / (int)sizeof(RAW))\n"                                                                \
  "#define SAME(x) (x)\n"                                                                                       \
  "#define UPPER(x) ((x) & 0xffff0000u)\n"                                                                      \
  "#define CODE(x) " F8_CODE "\n"                                                                               \
  "#define TURN(RAW, NUMBER, l, depth, text, tail, left_across, right_across, CODE) { \\\n"                     \
  "    NUMBER d[64], sum = 0; \\\n"                                                                             \
  "    for (int i = 0; i < 64; i++) d[i] = 0; \\\n"                                                             \
  "    barrier(CLK_LOCAL_MEM_FENCE); \\\n"                                                                      \
  "    BRING(RAW, left, 64, left_across, 0, CODE) \\\n"                                                         \
  "    BRING(RAW, right, 128, right_across, 500, CODE) \\\n"                                                    \
  "    __asm__ volatile(\"fence.proxy.async.shared::cta;\" ::: \"memory\"); \\\n"                               \
  "    barrier(CLK_LOCAL_MEM_FENCE); \\\n"                                                                      \
  "    LATE(\"wgmma.fence.sync.aligned;\"); \\\n"                                                               \
  "    for (int k = 0; k < LINE(RAW); k += depth) { \\\n"                                                       \
  "      const ulong a = OPERAND(left, left_across, k, RAW); \\\n"                                              \
  "      const ulong b = OPERAND(right, right_across, k, RAW); \\\n"                                            \
  "      __asm__ volatile(\"//!90a wgmma.mma_async.sync.aligned.m64n128k\" #depth \".\" text \" \" \\\n"        \
  "                       \"{" GROUP_NUMBERS "}, %64, %65, 1\" tail \";\" \\\n"                                 \
  "                       : " GROUP_RESULTS " : \"l\"(a), \"l\"(b)); \\\n"                                      \
  "      LATE(\"wgmma.commit_group.sync.aligned;\"); \\\n"                                                      \
  "      LATE(\"wgmma.wait_group.sync.aligned 0;\"); \\\n"                                                      \
  "    } \\\n"                                                                                                  \
  "    for (int i = 0; i < 64; i++) sum += d[i] * (NUMBER)(i % 4 + 1); \\\n"                                    \
  "    *out = as_uint(sum); \\\n"                                                                               \
  "    out += 128; \\\n"                                                                                        \
  "  }\n"                                                                                                       \
  "__kernel void clade_unit(__global const uint *in, __global uint *out) {\n"                                   \
  "  __local uint left[64 * 32] __attribute__((aligned(1024)));\n"                                              \
  "  __local uint right[128 * 32] __attribute__((aligned(1024)));\n"                                            \
  "  const int id = (int)get_local_id(0);\n"                                                                    \
  "  out += id;\n" turns "}\n"

/* bf16 with both operands K-major; with both transposed; left transposed, right K-major; f16 and tf32, K-major. */
static const char halves_probe[] =
    GROUP_PROBE("  TURN(ushort, float, \"f\", 16, \"f32.bf16.bf16\", \", 1, 1, 0, 0\", 0, 0, SAME)\n"
                "  TURN(ushort, float, \"f\", 16, \"f32.bf16.bf16\", \", 1, 1, 1, 1\", 1, 1, SAME)\n"
                "  TURN(ushort, float, \"f\", 16, \"f32.bf16.bf16\", \", 1, 1, 1, 0\", 1, 0, SAME)\n"
                "  TURN(ushort, float, \"f\", 16, \"f32.f16.f16\", \", 1, 1, 0, 0\", 0, 0, SAME)\n"
                "  TURN(uint, float, \"f\", 8, \"f32.tf32.tf32\", \", 1, 1\", 0, 0, UPPER)\n");
static const char bytes_probe[] =
    GROUP_PROBE("  TURN(uchar, int, \"r\", 32, \"s32.s8.s8\", \"\", 0, 0, SAME)\n"
                "  TURN(uchar, int, \"r\", 32, \"s32.u8.s8\", \"\", 0, 0, SAME)\n"
                "  TURN(uchar, int, \"r\", 32, \"s32.s8.u8\", \"\", 0, 0, SAME)\n"
                "  TURN(uchar, float, \"f\", 32, \"f32.e4m3.e4m3\", \", 1, 1\", 0, 0, CODE)\n");

typedef double number_fn(const uint32_t *in, int i);
static double bf16_at(const uint32_t *in, int i) { return (double)half_of(in[i / 2], i % 2); }
static double f16_at(const uint32_t *in, int i) { return (double)f16_of(in[i / 2], i % 2); }
static double tf32_at(const uint32_t *in, int i) { return (double)half_of(in[i], 1); }
static double s8_at(const uint32_t *in, int i) { return byte_of(in[i / 4], i % 4, true); }
static double u8_at(const uint32_t *in, int i) { return byte_of(in[i / 4], i % 4, false); }
static double f8_at(const uint32_t *in, int i) { return (double)f8_number(in[i / 4] >> 8 * (i % 4)); }

static uint32_t *want_group(const uint32_t *in, uint32_t *out, number_fn *left, number_fn *right, int size) {
  const int line = 128 / size, all = 32 * line;
  for (int id = 0; id < WARPGROUP; id++, out++) {
    double total = 0;
    for (int d = 0; d < 64; d++) {
      const int row = id / 32 * 16 + id % 32 / 4 + d % 4 / 2 * 8, column = d / 4 * 8 + id % 4 * 2 + d % 2;
      for (int k = 0; k < line; k++) {
        const int i = row * line + k, j = column * line + k;
        total += left(in, (i + i / all * 17) % all) * right(in, (j + j / all * 17 + 500) % all) * (d % 4 + 1);
      }
    }
    const int32_t whole = (int32_t)total;
    const float real = (float)total;
    if (left == s8_at || left == u8_at)
      memcpy(out, &whole, sizeof whole);
    else
      memcpy(out, &real, sizeof real);
  }
  return out;
}
enum { HALF_TURNS = 5, BYTE_TURNS = 4 };
static void want_wgmma(const uint32_t *in, uint32_t *out) {
  for (int turn = 0; turn < 3; turn++) out = want_group(in, out, bf16_at, bf16_at, 2);
  out = want_group(in, out, f16_at, f16_at, 2);
  want_group(in, out, tf32_at, tf32_at, 4);
}
static void want_wgmma_bytes(const uint32_t *in, uint32_t *out) {
  out = want_group(in, out, s8_at, s8_at, 1);
  out = want_group(in, out, u8_at, s8_at, 1);
  out = want_group(in, out, s8_at, u8_at, 1);
  want_group(in, out, f8_at, f8_at, 1);
}

/* ---- waiting instructions of persistent kernels ---- */
/* The system call is sched_yield: with more threads than processors, the thread waited for needs this one's
 * processor. */
#define WAITING                                                       \
  "#define CLADE_PAUSE __asm__ volatile(\"pause\" ::: \"memory\");\n" \
  "#define CLADE_YIELD long r = 24; __asm__ volatile(\"syscall\" : \"+a\"(r) : : \"rcx\", \"r11\", \"memory\");\n"
const char clade__assembly_defines[] = WAITING;

static bool waiting(const clade__facts *facts, char *why, size_t bytes) {
  (void)facts;
#if defined __x86_64__ && defined __linux__
  (void)why, (void)bytes;
  return true;
#else
  snprintf(why, bytes, "it is that of x86-64 and Linux");
  return false;
#endif
}
static void want_waiting(const uint32_t *in, uint32_t *out) {
  for (int i = 0; i < 16; i++) out[i] = in[i] + 1;
}
const clade__unit_row clade__assembly_row = {"assembly",
                                             CLADE_CPU,
                                             waiting,
                                             NULL,
                                             0,
                                             1,
                                             false,
                                             16,
                                             WAITING
                                             "__kernel void clade_unit(__global const uint *in, __global uint *out) {\n"
                                             "  for (int i = 0; i < 16; i++) {\n"
                                             "    CLADE_PAUSE\n"
                                             "    { CLADE_YIELD }\n"
                                             "    out[i] = in[i] + 1;\n"
                                             "  }\n"
                                             "}\n",
                                             want_waiting};

const clade__unit_row clade__unit_rows[CLADE_UNITS] = {
    [CLADE_UNIT_VNNI] = {"vnni", CLADE_CPU, clade__has_vnni, NULL, 16, 1, false, 16,
                         VECTOR_PROBE("vpdpbusd", "int", "as_int16(vload16(4, in))"), want_vnni},
    [CLADE_UNIT_AVX512_BF16] = {"avx512_bf16", CLADE_CPU, clade__has_avx512_bf16, NULL, 16, 1, true, 16,
                                VECTOR_PROBE("vdpbf16ps", "float", "0.0f"), want_avx512_bf16},
    [CLADE_UNIT_AMX_INT8] = {"amx_int8", CLADE_CPU, clade__has_amx_int8, clade__permit_amx, 0, 1, false, 512,
                             TILE_PROBE("tdpbusd", "tdpbssd", TILE_START), want_amx_int8},
    [CLADE_UNIT_AMX_BF16] = {"amx_bf16", CLADE_CPU, clade__has_amx_bf16, clade__permit_amx, 0, 1, true, 512,
                             TILE_PROBE("tdpbf16ps", "tdpbf16ps", TILE_ZERO), want_amx_bf16},
    [CLADE_UNIT_PTX] = {"ptx", CLADE_GPU, clade__has_ptx, NULL, 0, WARP, true, WARP_TURNS * 256, warp_probe, want_ptx},
    [CLADE_UNIT_WGMMA] = {"wgmma", CLADE_GPU, clade__has_wgmma, NULL, 0, WARPGROUP, true, HALF_TURNS *WARPGROUP,
                          halves_probe, want_wgmma},
    [CLADE_UNIT_PTX_F8] = {"ptx_f8", CLADE_GPU, clade__has_ptx_f8, NULL, 0, WARP, false, 256, warp_f8_probe,
                           want_ptx_f8},
    [CLADE_UNIT_WGMMA_BYTES] = {"wgmma_bytes", CLADE_GPU, clade__has_wgmma, NULL, 0, WARPGROUP, false,
                                BYTE_TURNS *WARPGROUP, bytes_probe, want_wgmma_bytes},
};
