/* Image models, built by the public API: from x [batch, channels, height, width] to logits [batch, classes]. */
#ifndef MODELS_H
#define MODELS_H

#include <clade/clade.h>

clade_model_fn mlp, lenet5, resnet18, resnet50, vgg16, mobilenetv2;

#define MODEL_NAMES "mlp, lenet5, resnet18, resnet50, vgg16 or mobilenetv2"
clade_model_fn *model_by_name(const char *name);

#endif
