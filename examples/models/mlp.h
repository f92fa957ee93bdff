/* A three-layer perceptron: 784 inputs, 256 and 128 hidden units, 10 classes. */
#ifndef MLP_H
#define MLP_H

#include <clade/clade.h>

enum { MLP_LAYERS = 3, MLP_IN = 784, MLP_OUT = 10 };
static const int mlp_width[MLP_LAYERS + 1] = {MLP_IN, 256, 128, MLP_OUT};

/* Input "x" [batch, 784], output "p" [batch, 10] with probabilities. Variables: fc1, fc2, fc3 with .weight and
 * .bias. */
clade_status mlp_graph(clade_graph **out);

/* Fills in `batch` random images of 784 values in [0, 1), determined by the seed. */
void mlp_images(uint64_t seed, int64_t batch, float *x);

#endif
