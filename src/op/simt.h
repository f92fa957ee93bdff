/* Products by tiles in local memory (cl_kernels/simt.cl): what gemm's and convolution's `simt` are told alike, and what
 * a tuner may vary of them. For GPUs; never run on one. */
#ifndef CLADE_SIMT_H
#define CLADE_SIMT_H

#include "op/dims.h"

/* `matrices` products of M x K by K x N. */
typedef struct clade__simt {
  int64_t m, n, k, matrices;
} clade__simt;

extern const char *const clade__simt_params[];
/* The default configuration: a tile that fits the device and wastes little of it. */
void clade__simt_defaults(const clade_query *q, const clade__simt *p, int32_t *config);
bool clade__simt_configs(const clade_query *q, int i, int32_t *config);
/* Local memory of the smallest tile. */
enum { CLADE__SIMT_LOCAL = 8 * (16 + 16 + 2) * 4 + (8 + 16) * 32 };
#define CLADE__SIMT \
  .family = CLADE_FAMILY_GROUP, .devices = CLADE_ON_GPU | CLADE_ON_ACCEL, .needs_local = CLADE__SIMT_LOCAL
/* NULL, or why the configuration in force does not suit the device. */
const char *clade__simt_refuses(const clade_query *q, const clade__simt *p);
double clade__simt_cost(const clade_query *q, const clade__simt *p);
/* The tile's parameters, and the launch. */
void clade__simt_launch(clade_kernel_step *s, const clade_query *q, const clade__simt *p);

const char *clade__gemm_simt_accept(const clade_query *q);
double clade__gemm_simt_cost(const clade_query *q);
clade_status clade__gemm_simt_emit(clade_emit *e, const clade_query *q);
extern const clade_space clade__gemm_simt_space;

/* Of conv2d and conv2d_data. */
const char *clade__gather_simt_accept(const clade_query *q);
double clade__gather_simt_cost(const clade_query *q);
clade_status clade__gather_simt_emit(clade_emit *e, const clade_query *q);
extern const clade_space clade__gather_simt_space;
#define CLADE__GATHER_SIMT                                                                                      \
  CLADE_IMPL(.name = "simt", CLADE__SIMT, .accept = clade__gather_simt_accept, .cost = clade__gather_simt_cost, \
             .emit = clade__gather_simt_emit, .space = &clade__gather_simt_space, .file = "simt")

const char *clade__weights_simt_accept(const clade_query *q);
double clade__weights_simt_cost(const clade_query *q);
size_t clade__weights_simt_workspace(const clade_query *q);
clade_status clade__weights_simt_emit(clade_emit *e, const clade_query *q);
extern const clade_space clade__weights_simt_space;

#endif
