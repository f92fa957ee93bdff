/* A preloaded library that executes AMX in software, for tests on processors without it. An AMX instruction raises
 * SIGILL there; the handler decodes it, computes on tiles of the thread, and continues behind it. Linux's permission
 * for AMX is granted without asking, so a processor that has AMX raises the signal, too.
 *
 * Semantics are those of Intel's Software Developer's Manual. Where an instruction would raise another exception, the
 * process ends. */
#include <dlfcn.h>
#include <immintrin.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { TILES = 8, ROWS = 16, WIDTH = 64, WORDS = WIDTH / 4 };

typedef union tile {
  uint8_t byte[ROWS][WIDTH];
  uint32_t word[ROWS][WORDS];
  float real[ROWS][WORDS];
} tile;

/* The operand of ldtilecfg and sttilecfg. */
typedef struct config {
  uint8_t palette, start_row, reserved[14];
  uint16_t width[TILES], reserved_width[TILES];
  uint8_t rows[TILES], reserved_rows[TILES];
} config;
_Static_assert(sizeof(config) == 64, "ldtilecfg reads 64 bytes");

static __thread struct {
  config shape;
  tile tile[TILES];
} own;

/* ---- an instruction ---- */
enum { NONE, P66, PF3, PF2 }; /* the prefix that VEX encodes */
enum { CONFIG = 0x49, MOVE = 0x4b, DOT_BF16 = 0x5c, DOT_BYTES = 0x5e };

typedef struct instruction {
  int prefix, opcode, reg, rm, third; /* tile numbers: modrm.reg, modrm.rm, VEX.vvvv */
  bool memory, sib;
  uint8_t *at;    /* address of the operand in memory, without the index */
  int64_t stride; /* the scaled index: bytes between rows */
  int bytes;      /* of the instruction */
} instruction;

static const int registers[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

/* VEX.128.0F38.W0 with three bytes, as all of AMX is. */
static bool decode(const greg_t *gregs, instruction *i) {
  const uint8_t *code = (const uint8_t *)(uintptr_t)gregs[REG_RIP], *c = code;
  if (c[0] != 0xc4 || (c[1] & 0x1f) != 2 || c[2] & 0x84) return false;
  const int high_index = c[1] & 0x40 ? 0 : 8, high_base = c[1] & 0x20 ? 0 : 8;
  *i = (instruction){.prefix = c[2] & 3, .opcode = c[3], .third = ~c[2] >> 3 & 15};
  const int mod = c[4] >> 6, rm = c[4] & 7;
  if (i->opcode != CONFIG && i->opcode != MOVE && i->opcode != DOT_BF16 && i->opcode != DOT_BYTES) return false;
  i->reg = c[4] >> 3 & 7;
  i->rm = rm;
  i->memory = mod != 3;
  i->sib = i->memory && rm == 4;
  c += 5;
  int base = rm | high_base;
  if (i->sib) {
    const int index = (*c >> 3 & 7) | high_index;
    if (index != 4) i->stride = (int64_t)((uint64_t)gregs[registers[index]] << (*c >> 6));
    base = (*c & 7) | high_base;
    c++;
  }
  const bool no_base = mod == 0 && (base & 7) == 5;
  int64_t move = 0;
  if (i->memory && mod == 1) move = (int8_t)*c++;
  if (i->memory && (mod == 2 || no_base)) {
    int32_t wide;
    memcpy(&wide, c, sizeof wide);
    move = wide;
    c += sizeof wide;
  }
  i->bytes = (int)(c - code);
  if (no_base)
    i->at = (uint8_t *)(i->sib ? move : (int64_t)gregs[REG_RIP] + i->bytes + move); /* relative to the next one */
  else if (i->memory)
    i->at = (uint8_t *)(gregs[registers[base]] + move);
  return true;
}

/* ---- what instructions do ---- */
static bool configure(const config *c) {
  static const uint8_t zero[14];
  if (c->palette > 1) return false;
  if (c->palette && (memcmp(c->reserved, zero, sizeof c->reserved) || c->start_row)) return false;
  for (int t = 0; c->palette && t < TILES; t++) {
    if (c->reserved_width[t] || c->reserved_rows[t] || c->width[t] > WIDTH || c->rows[t] > ROWS) return false;
    if (!c->width[t] != !c->rows[t]) return false;
  }
  memset(&own, 0, sizeof own);
  if (c->palette) own.shape = *c;
  return true;
}

static bool load(const instruction *i) {
  tile *t = &own.tile[i->reg];
  memset(t, 0, sizeof *t);
  for (int r = 0; r < own.shape.rows[i->reg]; r++) memcpy(t->byte[r], i->at + r * i->stride, own.shape.width[i->reg]);
  return own.shape.rows[i->reg];
}

static bool store(const instruction *i) {
  const tile *t = &own.tile[i->reg];
  for (int r = 0; r < own.shape.rows[i->reg]; r++) memcpy(i->at + r * i->stride, t->byte[r], own.shape.width[i->reg]);
  return own.shape.rows[i->reg];
}

static int32_t byte_of(uint32_t word, int i, bool sign) {
  return sign ? (int8_t)(word >> 8 * i) : (int32_t)(word >> 8 * i & 0xff);
}

/* Adds products of bytes to row `r` of `to`. */
static void multiply_bytes(tile *to, const tile *a, const tile *b, int r, int words, bool a_sign, bool b_sign) {
  for (int k = 0; k < words; k++)
    for (int n = 0; n < WORDS; n++)
      for (int i = 0; i < 4; i++)
        to->word[r][n] += (uint32_t)(byte_of(a->word[r][k], i, a_sign) * byte_of(b->word[k][n], i, b_sign));
}

static float real(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* The same of bf16. Products of even and of odd elements have a sum each. Numbers below 2^-126 are zeros. */
__attribute__((target("fma"))) static void multiply_bf16(tile *to, const tile *a, const tile *b, int r, int words) {
  float even[WORDS] = {0}, odd[WORDS] = {0};
  _mm_setcsr(0x9fc0); /* rounds to nearest, reads and writes denormals as zeros; until the handler returns */
  for (int k = 0; k < words; k++)
    for (int n = 0; n < WORDS; n++) {
      const uint32_t x = a->word[r][k], y = b->word[k][n];
      even[n] = fmaf(real(x << 16), real(y << 16), even[n]);
      odd[n] = fmaf(real(x & 0xffff0000u), real(y & 0xffff0000u), odd[n]);
    }
  for (int n = 0; n < WORDS; n++) to->real[r][n] += even[n] + odd[n];
}

static bool multiply(const instruction *i) {
  const config *s = &own.shape;
  const int to = i->reg, a = i->rm, b = i->third, rows = s->rows[to], words = s->width[a] / 4;
  if (i->memory || b >= TILES || to == a || to == b || a == b) return false;
  if (!rows || !words || s->width[to] % 4 || s->width[a] % 4) return false;
  if (s->rows[a] != rows || s->rows[b] != words || s->width[b] != s->width[to]) return false;
  for (int r = 0; r < rows; r++)
    if (i->opcode == DOT_BF16)
      multiply_bf16(&own.tile[to], &own.tile[a], &own.tile[b], r, words);
    else
      multiply_bytes(&own.tile[to], &own.tile[a], &own.tile[b], r, words, i->prefix == PF2 || i->prefix == PF3,
                     i->prefix == PF2 || i->prefix == P66);
  return true;
}

static bool execute(const instruction *i) {
  switch (i->opcode) {
  case CONFIG:
    if (i->memory && i->prefix == NONE) return configure((const config *)i->at);
    if (i->memory && i->prefix == P66) {
      memcpy(i->at, &own.shape, sizeof own.shape);
      return true;
    }
    if (!i->memory && i->prefix == NONE) {
      memset(&own, 0, sizeof own);
      return true;
    }
    memset(&own.tile[i->reg], 0, sizeof(tile));
    return !i->memory && i->prefix == PF2 && own.shape.rows[i->reg];
  case MOVE: return i->sib && i->prefix != NONE && (i->prefix == PF3 ? store(i) : load(i));
  case DOT_BF16: return i->prefix == PF3 && multiply(i);
  default: return multiply(i);
  }
}

/* ---- the process ---- */
/* Says which instruction is refused. */
static void refuse(const instruction *i) {
  char text[256];
  int n = snprintf(text, sizeof text, "amx: refused: opcode %02x, prefix %d, tiles %d %d %d, of", i->opcode, i->prefix,
                   i->reg, i->rm, i->third);
  for (int t = 0; t < TILES; t++)
    n += snprintf(text + n, sizeof text - (size_t)n, " %d x %d", own.shape.rows[t], own.shape.width[t]);
  text[n++] = '\n';
  (void)!write(STDERR_FILENO, text, (size_t)n);
}

/* What the process set for SIGILL, such as LLVM, which removes its files then. */
static struct sigaction theirs;

static int set_action(int number, const struct sigaction *act, struct sigaction *old) {
  static int (*next)(int, const struct sigaction *, struct sigaction *);
  if (!next) *(void **)&next = dlsym(RTLD_NEXT, "sigaction");
  return next(number, act, old);
}

static void illegal(int number, siginfo_t *info, void *context) {
  greg_t *gregs = ((ucontext_t *)context)->uc_mcontext.gregs;
  instruction i;
  (void)info;
  const bool ours = decode(gregs, &i);
  if (ours && execute(&i)) {
    gregs[REG_RIP] += i.bytes;
    return;
  }
  if (ours) refuse(&i);
  set_action(number, &theirs, NULL); /* the instruction raises the signal again */
}

__attribute__((constructor)) static void begin(void) {
  struct sigaction act = {.sa_sigaction = illegal, .sa_flags = SA_SIGINFO | SA_RESTART};
  set_action(SIGILL, &act, &theirs);
}

#define EXPORTED __attribute__((visibility("default")))

EXPORTED int sigaction(int number, const struct sigaction *act, struct sigaction *old) {
  if (number != SIGILL) return set_action(number, act, old);
  if (old) *old = theirs;
  if (act) theirs = *act;
  return 0;
}

/* Grants ARCH_REQ_XCOMP_PERM for the tiles; passes all other calls on. */
EXPORTED long syscall(long number, ...) {
  enum { REQUEST = 0x1023, TILE_DATA = 18 };
  static long (*next)(long, ...);
  long arg[6];
  va_list args;
  va_start(args, number);
  for (int i = 0; i < 6; i++) arg[i] = va_arg(args, long);
  va_end(args);
  if (number == SYS_arch_prctl && arg[0] == REQUEST && arg[1] == TILE_DATA) return 0;
  if (!next) *(void **)&next = dlsym(RTLD_NEXT, "syscall");
  return next(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}
