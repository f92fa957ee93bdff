/* Drives the array that Verilator translated to C++: a call of tick() is one clock cycle. */
#include "sim.h"

#include <cstring>
#include <new>

#include "Varray.h"

struct array_sim {
  VerilatedContext context;
  Varray top{&context};
};

static_assert(sizeof(EData) == 4, "ports wider than 64 bits are words of 32 bits, the lowest first");

const char array_sim_stopped[] = "stopped at the limit of cycles";

static void tick(Varray &top) {
  top.clk = 1;
  top.eval();
  top.clk = 0;
}

static bool pause(uint64_t &random, int of_256) {
  random = random * 6364136223846793005u + 1442695040888963407u;
  return static_cast<int>(random >> 56) < of_256;
}

array_shape array_sim_shape() { return {SIM_ROWS, SIM_COLS, SIM_LOG_DEPTH}; }

array_sim *array_sim_new() {
  array_sim *sim = new (std::nothrow) array_sim;
  if (!sim) return nullptr;
  sim->context.randReset(2); /* random registers, as after power-up: a reset must suffice */
  array_sim_reset(sim);
  return sim;
}

void array_sim_free(array_sim *sim) { delete sim; }

void array_sim_reset(array_sim *sim) {
  Varray &top = sim->top;
  top.command_valid = top.a_valid = top.b_valid = top.out_ready = 0;
  top.reset = 1;
  top.clk = 0;
  top.eval();
  tick(top);
  top.reset = 0;
  top.eval();
  tick(top);
}

const char *array_sim_run(array_sim *sim, const array_work *w, const int8_t *a, const int8_t *b, int32_t *out,
                          const array_pauses *pauses, int64_t limit, int64_t *cycles) {
  Varray &top = sim->top;
  const array_shape shape = array_sim_shape();
  const array_beats all = array_count(&shape, w);
  array_beats done = {0, 0, 0};
  uint64_t random = pauses->seed;
  bool taken = false;
  *cycles = 0;
  top.command_k = static_cast<SData>(w->k);
  top.command_rows = static_cast<SData>((w->m + SIM_ROWS - 1) / SIM_ROWS);
  top.command_cols = static_cast<SData>((w->n + SIM_COLS - 1) / SIM_COLS);
  for (; !taken || done.out < all.out; ++*cycles) {
    if (*cycles == limit) return array_sim_stopped;
    /* Both streams stay valid after their end, so that excess beats are detected. */
    top.command_valid = !taken;
    top.a_valid = !pause(random, pauses->a);
    top.b_valid = !pause(random, pauses->b);
    top.out_ready = !pause(random, pauses->out);
    if (done.a < all.a) std::memcpy(&top.a_data, a + done.a * SIM_ROWS, SIM_ROWS);
    if (done.b < all.b) std::memcpy(&top.b_data, b + done.b * SIM_COLS, SIM_COLS);
    top.eval();
    if (!taken && !top.command_ready) return "the command is not taken at once";
    if (taken && top.command_ready) return "a command would be taken before the end";
    if (top.a_valid && top.a_ready && done.a++ == all.a) return "a beat of a too much is taken";
    if (top.b_valid && top.b_ready && done.b++ == all.b) return "a beat of b too much is taken";
    if (top.out_valid && top.out_ready) {
      if (done.out == all.out) return "a beat of results too much is given";
      std::memcpy(out + done.out++ * SIM_COLS, &top.out_data, 4 * SIM_COLS);
      if (static_cast<bool>(top.out_last) != (done.out == all.out)) return "out_last is not the last beat";
    }
    taken = true;
    tick(top);
  }
  if (done.a != all.a || done.b != all.b) return "not all beats of a and b were taken";
  return nullptr;
}
