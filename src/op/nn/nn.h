/* Creation of layer parameters. */
#ifndef CLADE_NN_INTERNAL_H
#define CLADE_NN_INTERNAL_H

#include <clade/nn.h>

#include "op/op.h"

/* The parameter LAYER.PART with PyTorch's default initialization: uniform in ±1 / sqrt(in), where `in` is the fan-in.
 * Stored in one dtype (unset: f32) and cast to the one that is used. */
clade_val clade__nn_parameter(clade_graph *g, const char *layer, const char *part, clade_dtype stored, clade_dtype used,
                              clade_shape shape, int64_t in);
/* LAYER.weight with initial values chosen by the user, or by clade__nn_parameter if unset. */
clade_val clade__nn_weight(clade_graph *g, const char *layer, clade_dtype stored, clade_dtype used, clade_shape shape,
                           int64_t in, clade_initial initial);

#endif
