/* Models by name. */
#include "models/models.h"

#include <string.h>

clade_model_fn *model_by_name(const char *name) {
  static const struct {
    const char *name;
    clade_model_fn *model;
  } models[] = {{"mlp", mlp},           {"lenet5", lenet5}, {"resnet18", resnet18},
                {"resnet50", resnet50}, {"vgg16", vgg16},   {"mobilenetv2", mobilenetv2}};
  for (size_t i = 0; i < sizeof models / sizeof *models; ++i)
    if (!strcmp(models[i].name, name)) return models[i].model;
  return NULL;
}
