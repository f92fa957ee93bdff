/* A perceptron of three layers: 784 inputs, 256 and 128 hidden values, 10 classes. */
#ifndef MLP_H
#define MLP_H

#include <clade/clade.h>

enum { MLP_LAYERS = 3, MLP_IN = 784, MLP_OUT = 10 };
static const int mlp_width[MLP_LAYERS + 1] = {MLP_IN, 256, 128, MLP_OUT};

/* Input "x" of [batch, 784], output "p" of [batch, 10]: probabilities. Variables fc1, fc2, fc3 .weight and .bias. */
clade_status mlp_graph(clade_graph **out);

/* `batch` made-up images of 784 values in [0, 1), the same for the same seed everywhere. */
void mlp_images(uint64_t seed, int64_t batch, float *x);

#endif
