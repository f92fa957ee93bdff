/* What layers share: their parameters. */
#ifndef CLADE_NN_INTERNAL_H
#define CLADE_NN_INTERNAL_H

#include <clade/nn.h>

#include "op/op.h"

/* The parameter LAYER.PART as PyTorch initializes layers: uniform within 1 / sqrt(in), `in` being how many elements of
 * the layer's operand go into one result. Stored in one dtype (unset: f32), it comes in the one that is used. */
clade_val clade__nn_parameter(clade_graph *g, const char *layer, const char *part, clade_dtype stored, clade_dtype used,
                              clade_shape shape, int64_t in);
/* LAYER.weight, with initial values of the user's: unset, those of clade__nn_parameter. */
clade_val clade__nn_weight(clade_graph *g, const char *layer, clade_dtype stored, clade_dtype used, clade_shape shape,
                           int64_t in, clade_initial initial);

#endif
