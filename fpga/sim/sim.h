/* The array of fpga/rtl, simulated cycle by cycle by Verilator. One program holds one shape of it. */
#ifndef CLADE_FPGA_SIM_H
#define CLADE_FPGA_SIM_H

#ifdef __cplusplus
extern "C" {
#endif

#include "model/array.h"

typedef struct array_sim array_sim;

/* In how many of 256 cycles a stream is not valid, or for `out` not ready; which ones, hangs on the seed. */
typedef struct array_pauses {
  int a, b, out;
  uint64_t seed;
} array_pauses;

array_sim *array_sim_new(void); /* NULL: no memory. It is reset already. */
void array_sim_free(array_sim *sim);

array_shape array_sim_shape(void);

/* The one cycle of reset, and the one after it in which no command is taken. */
void array_sim_reset(array_sim *sim);

/* One command: the beats go in, those of results into `out`; `cycles` counts as array_cycles does. NULL, or what the
 * array did against its interface. After `limit` cycles it stops where it is and returns array_sim_stopped. */
const char *array_sim_run(array_sim *sim, const array_work *w, const int8_t *a, const int8_t *b, int32_t *out,
                          const array_pauses *pauses, int64_t limit, int64_t *cycles);
extern const char array_sim_stopped[];

#ifdef __cplusplus
}
#endif
#endif
