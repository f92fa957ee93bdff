/* Simulates the synthesized netlist at its pins: sends matrices by SPI and compares the results with C. */
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "Varray.h"
extern "C" {
#include "model/array.h"
}

static const array_shape shape = {BOARD_ROWS, BOARD_COLS, BOARD_LOG_DEPTH};

enum { NOTHING, COMMAND, BEAT_A, BEAT_B, RESULT }; /* opcodes of clade_serial.sv */
enum { WAITS = 1, HAS_RESULT = 2, IDLE = 4, ALIVE = 0xa8, ALIVE_MASK = 0xf8 };

static VerilatedContext context;
static Varray *top;
static long clocks;

static void run(int n) {
  for (; n; n--, clocks++) {
    top->clk = 1;
    top->eval();
    top->clk = 0;
    top->eval();
  }
}

static int transfer_bit(int bit) {
  top->mosi = bit;
  run(4);
  int back = top->miso;
  top->sck = 1;
  run(4);
  top->sck = 0;
  return back;
}

static int transfer_byte(int byte) {
  int back = 0;
  for (int i = 0; i < 8; i++) back |= transfer_bit(byte >> i & 1) << i;
  return back;
}

static int transaction(int what, const void *send, void *receive, int bytes) {
  top->cs_n = 0;
  int status = transfer_byte(what);
  for (int i = 0; i < bytes; i++) {
    int back = transfer_byte(send ? static_cast<const unsigned char *>(send)[i] : 0);
    if (receive) static_cast<unsigned char *>(receive)[i] = static_cast<unsigned char>(back);
  }
  top->cs_n = 1;
  run(8);
  if ((status & ALIVE_MASK) != ALIVE) {
    fprintf(stderr, "the status is %#x\n", static_cast<unsigned>(status));
    exit(1);
  }
  return status;
}

static uint64_t state = 4;

static int8_t random_byte() {
  static const int8_t ends[] = {-128, -128, -127, -1, 0, 1, 127, 127};
  state = state * 6364136223846793005u + 1442695040888963407u;
  return state >> 63 ? ends[state >> 33 & 7] : static_cast<int8_t>(state >> 40);
}

static void product(int64_t m, int64_t n, int64_t k) {
  const array_work w = {m, n, k};
  const array_beats all = array_count(&shape, &w);
  const int64_t across = (n + shape.cols - 1) / shape.cols;
  const uint16_t command[] = {static_cast<uint16_t>(k), static_cast<uint16_t>(across),
                              static_cast<uint16_t>((m + shape.rows - 1) / shape.rows)};
  std::vector<int8_t> a(m * k), b(k * n), a_beats(all.a * shape.rows + 1), b_beats(all.b * shape.cols + 1);
  std::vector<int32_t> beats(all.out * shape.cols + 1), c(m * n), expected(m * n);
  for (int8_t &x : a) x = random_byte();
  for (int8_t &x : b) x = random_byte();
  array_pack_a(&shape, &w, a.data(), a_beats.data());
  array_pack_b(&shape, &w, b.data(), b_beats.data());
  array_beats done = {0, 0, 0};
  transaction(COMMAND, command, nullptr, sizeof command);
  for (int idle = 0; done.out < all.out && idle < 100; idle++) {
    int status = transaction(NOTHING, nullptr, nullptr, 0);
    if (status & HAS_RESULT) {
      transaction(RESULT, nullptr, &beats[done.out++ * shape.cols], 4 * shape.cols);
    } else if (!(status & WAITS) && done.b < all.b) {
      /* the beat of a that meets the next beat of b; earlier ones are in the queue */
      int64_t meets = all.a == all.b ? done.b : done.b / (across * k) * k + done.b % k;
      if (done.a <= meets)
        transaction(BEAT_A, &a_beats[done.a++ * shape.rows], nullptr, shape.rows);
      else
        transaction(BEAT_B, &b_beats[done.b++ * shape.cols], nullptr, shape.cols);
    } else
      continue;
    idle = 0;
  }
  array_unpack(&shape, &w, beats.data(), c.data());
  array_reference(&w, a.data(), b.data(), expected.data());
  if (done.a != all.a || done.b != all.b || c != expected || !(transaction(NOTHING, nullptr, nullptr, 0) & IDLE)) {
    fprintf(stderr, "%lld x %lld, k = %lld: not what C computes\n", (long long)m, (long long)n, (long long)k);
    exit(1);
  }
}

int main() {
  Varray pins{&context};
  top = &pins;
  top->sck = top->mosi = 0;
  top->cs_n = top->reset = 1;
  run(8);
  top->reset = 0;
  run(8);
  product(1, 1, 1);
  product(0, 3, 2);
  product(shape.rows, shape.cols, 40);
  product(2 * shape.rows + 1, 2 * shape.cols - 1, 9);
  product(3, 5, 0);
  product(1, shape.cols + 1, 1 << shape.log_depth); /* a panel that does not fit */
  transaction(COMMAND, "\2\0\1\0\1\0", nullptr, 6); /* a reset in the middle */
  transaction(BEAT_A, "\1\2\3\4\5\6\7", nullptr, shape.rows);
  transaction(BEAT_B, "\1\2\3\4\5\6\7", nullptr, shape.cols);
  top->reset = 1;
  run(4);
  top->reset = 0;
  run(8);
  product(4, 4, 4);
  printf("%ld clocks\n", clocks);
  return 0;
}
