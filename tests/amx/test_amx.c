/* What the gate's probes and the kernels leave out of the emulation of AMX: further instructions and ways to address
 * memory, numbers below 2^-126, and errors. Without cmocka, which handles SIGILL itself. */
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 3, WORDS = 2, COLUMNS = 5 };

typedef union tile {
  uint8_t byte[16][64];
  uint32_t word[16][16];
} tile;

static tile a, b, got;
static uint8_t config[64];
static int failures;

static void check(int holds, const char *what) {
  if (holds) return;
  printf("%s\n", what);
  failures++;
}

/* tmm0 = ROWS x COLUMNS, tmm1 = ROWS x WORDS, tmm2 = WORDS x COLUMNS. */
static void configure(void) {
  memset(config, 0, sizeof config);
  config[0] = 1;
  config[16] = 4 * COLUMNS, config[18] = 4 * WORDS, config[20] = 4 * COLUMNS;
  config[48] = ROWS, config[49] = ROWS, config[50] = WORDS;
  __asm__ volatile("ldtilecfg (%0)" ::"r"(config) : "memory");
}

#define LOAD_AND(product)                                                                                       \
  __asm__ volatile("tilezero %%tmm0\n tileloadd (%0,%2,2), %%tmm1\n tileloaddt1 -64(%1,%2,2), %%tmm2\n" product \
                   " %%tmm2, %%tmm1, %%tmm0\n tilestored %%tmm0, (%3,%2,2)" ::"r"(&a),                          \
                   "r"((const char *)&b + 64), "r"((size_t)32), "r"(&got)                                       \
                   : "memory")

static int32_t value(uint8_t byte, int sign) { return sign ? (int8_t)byte : byte; }

static void bytes_of_any_signs(void) {
  for (int i = 0; i < 1024; i++) {
    a.byte[i / 64][i % 64] = (uint8_t)(i * 37 + 11);
    b.byte[i / 64][i % 64] = (uint8_t)(i * 101);
  }
  for (int signs = 0; signs < 4; signs++) {
    memset(&got, 0xff, sizeof got);
    configure();
    if (signs == 0) LOAD_AND("tdpbuud");
    if (signs == 1) LOAD_AND("tdpbusd");
    if (signs == 2) LOAD_AND("tdpbsud");
    if (signs == 3) LOAD_AND("tdpbssd");
    for (int r = 0; r < 16; r++)
      for (int n = 0; n < 16; n++) {
        int32_t sum = 0;
        for (int k = 0; k < 4 * WORDS; k++)
          sum += value(a.byte[r][k], signs >> 1) * value(b.byte[k / 4][4 * n + k % 4], signs & 1);
        check((int32_t)got.word[r][n] == (r < ROWS && n < COLUMNS ? sum : -1), "a product of bytes is wrong");
      }
  }
}

static void small_numbers_are_zeros(void) {
  const uint32_t least = 0x0080, half = 0x3f00, below = 0x0040, one = 0x3f80, large = 0x7f00;
  memset(&a, 0, sizeof a);
  memset(&b, 0, sizeof b);
  a.word[0][0] = least, b.word[0][0] = half;
  a.word[1][0] = below, b.word[0][1] = large;
  a.word[2][0] = least, b.word[0][2] = one;
  configure();
  LOAD_AND("tdpbf16ps");
  check(got.word[0][0] == 0, "a result below 2^-126 is kept");
  check(got.word[1][1] == 0, "an operand below 2^-126 is not zero");
  check(got.word[2][2] == least << 16, "2^-126 is not kept");
}

static void the_configuration_is_stored(void) {
  static uint8_t stored[64];
  const uint8_t zero[64] = {0};
  configure();
  __asm__ volatile("sttilecfg %0" : "=m"(stored)::"memory"); /* relative to the instruction */
  check(memcmp(stored, config, 64) == 0, "sttilecfg stores another configuration");
  __asm__ volatile("tilerelease\n sttilecfg (%0)" ::"r"(stored) : "memory");
  check(memcmp(stored, zero, 64) == 0, "tilerelease keeps the configuration");
}

/* Columns of tmm1 are not rows of tmm1. */
static void a_wrong_shape_ends_the_process(void) {
  const pid_t child = fork();
  if (child == 0) {
    configure();
    __asm__ volatile("tdpbssd %%tmm1, %%tmm2, %%tmm0" ::: "memory");
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  check(WIFSIGNALED(status) && WTERMSIG(status) == SIGILL, "shapes that do not fit are multiplied");
}

int main(void) {
  bytes_of_any_signs();
  small_numbers_are_zeros();
  the_configuration_is_stored();
  a_wrong_shape_ends_the_process();
  return failures != 0;
}
