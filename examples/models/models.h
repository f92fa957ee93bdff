/* Models of images, built with the public API: from x [batch, channels, height, width] to logits [batch, classes]. */
#ifndef MODELS_H
#define MODELS_H

#include <clade/clade.h>

clade_model_fn mlp, lenet5, resnet18;

/* "mlp", "lenet5", "resnet18"; NULL: no such model. */
clade_model_fn *model_by_name(const char *name);

#endif
