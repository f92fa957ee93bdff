/* Sums by the own means of what carries a communicator's bytes, in place of Clade's; without its insides, as wire.h. */
#ifndef CLADE_SRC_COMM_CARRIER_H
#define CLADE_SRC_COMM_CARRIER_H

#include <clade/comm.h>

const char *clade__comm_carrier(const clade_comm *comm); /* its name */
bool clade__comm_sums(const clade_comm *comm);           /* whether it has any */
/* Opens a channel and waits for the other ranks to do so; its number, from 1 on. */
clade_status clade__comm_open_channel(clade_comm *comm, int *out);
clade_status clade__comm_all_reduce(clade_comm *comm, int channel, const float *data, float *sum, size_t n,
                                    void **request);
/* As clade_all_reduce; with a channel by the implementation, and 0: by Clade. */
clade_status clade__all_reduce(clade_graph *g, clade_comm *comm, int channel, clade_dtype wire, int n,
                               clade_val *values);

#endif
