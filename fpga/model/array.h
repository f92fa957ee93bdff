/* C model of the int8 array of fpga/rtl: its results, and its cycles. */
#ifndef CLADE_FPGA_MODEL_ARRAY_H
#define CLADE_FPGA_MODEL_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The parameters of clade_array.sv. */
typedef struct array_shape {
  int rows, cols, log_depth;
} array_shape;

/* One product: c (m x n) = a (m x k) b (k x n). m / rows and n / cols, rounded up, and k are below 65536. */
typedef struct array_work {
  int64_t m, n, k;
} array_work;

/* Beats of the three streams: `rows` bytes of a, `cols` bytes of b, `cols` int32 of out. */
typedef struct array_beats {
  int64_t a, b, out;
} array_beats;

bool array_accepts(const array_shape *s, const array_work *w);

array_beats array_count(const array_shape *s, const array_work *w);

/* Cycles from accepting the command to the last result, both included, if no stream pauses: successive tiles are max(k,
 * 2 rows + cols + 1) apart. The next command is accepted a cycle later. */
int64_t array_cycles(const array_shape *s, const array_work *w);

/* Conversion of row-major matrices to beats, padded with zeros, and of result beats back. */
void array_pack_a(const array_shape *s, const array_work *w, const int8_t *a, int8_t *beats);
void array_pack_b(const array_shape *s, const array_work *w, const int8_t *b, int8_t *beats);
void array_unpack(const array_shape *s, const array_work *w, const int32_t *beats, int32_t *c);

/* Reference product. Sums are exact, since 65535 products fit into 31 bits. */
void array_reference(const array_work *w, const int8_t *a, const int8_t *b, int32_t *c);

#endif
