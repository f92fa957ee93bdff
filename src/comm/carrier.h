/* Sums by the communication library's own all-reduce instead of Clade's. Does not include the internals of
 * communicators, see wire.h. */
#ifndef CLADE_SRC_COMM_CARRIER_H
#define CLADE_SRC_COMM_CARRIER_H

#include <clade/comm.h>

const char *clade__comm_carrier(const clade_comm *comm); /* name of the communication library */
bool clade__comm_sums(const clade_comm *comm);           /* whether it has an all-reduce */
/* Opens a channel collectively, waiting for the other ranks; *out is its number, from 1. */
clade_status clade__comm_open_channel(clade_comm *comm, int *out);
clade_status clade__comm_all_reduce(clade_comm *comm, int channel, const float *data, float *sum, size_t n,
                                    void **request);
/* clade_all_reduce: with a channel by the library's all-reduce, with 0 by Clade's. */
clade_status clade__all_reduce(clade_graph *g, clade_comm *comm, int channel, clade_dtype wire, int n,
                               clade_val *values);

#endif
