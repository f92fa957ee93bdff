/* Shared by the kinds of devices whose rows come from the cycle model: model.c and rtl.c. Built with CLADE_FPGA only.
 */
#ifndef CLADE_CLI_COMPARE_CYCLES_H
#define CLADE_CLI_COMPARE_CYCLES_H

#include "cli/compare/compare.h"
#include "model/cycles.h"

/* compare_side.own */
typedef struct compare_cycles {
  cycles_device device;
  char log[256]; /* rtl: the file that the simulation appends to */
  long log_at;   /* rtl: offset of the current call's first line */
} compare_cycles;
/* Reads the file. compare_cycles_close is required also after a failure. */
clade_status compare_cycles_open(compare_side *side, const char *path);
void compare_cycles_close(compare_side *side);
static inline compare_cycles *compare_cycles_of(const compare_side *side) { return side->own; }

/* The products and convolutions of a graph, in its order. */
typedef struct compare_list {
  cycles_work *work; /* by clade__free */
  size_t n, capacity;
} compare_list;
clade_status compare_list_of(const clade_graph *graph, compare_list *out);
/* Estimates one call of these works. */
clade_status compare_estimate(const compare_side *side, const compare_list *list, int64_t moved_bytes,
                              cycles_estimate *out);

extern const compare_kind compare_model, compare_rtl;

#endif
