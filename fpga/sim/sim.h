/* Cycle-accurate simulation of the array of fpga/rtl by Verilator. A program contains one shape of it. */
#ifndef CLADE_FPGA_SIM_H
#define CLADE_FPGA_SIM_H

#ifdef __cplusplus
extern "C" {
#endif

#include "model/array.h"

typedef struct array_sim array_sim;

/* In how many of 256 cycles a stream is not valid (`out`: not ready); the seed determines which. */
typedef struct array_pauses {
  int a, b, out;
  uint64_t seed;
} array_pauses;

array_sim *array_sim_new(void); /* NULL: no memory. The array is reset. */
void array_sim_free(array_sim *sim);

array_shape array_sim_shape(void);

/* One cycle of reset, and the following one, in which no command is accepted. */
void array_sim_reset(array_sim *sim);

/* Executes one command: takes the operands' beats, and writes those of the results to `out`; `cycles` is counted as by
 * array_cycles. Returns NULL, or how the array violated its interface. After `limit` cycles it returns
 * array_sim_stopped. */
const char *array_sim_run(array_sim *sim, const array_work *w, const int8_t *a, const int8_t *b, int32_t *out,
                          const array_pauses *pauses, int64_t limit, int64_t *cycles);
extern const char array_sim_stopped[];

#ifdef __cplusplus
}
#endif
#endif
