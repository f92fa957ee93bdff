/* The interface of FPGA kernels as a table, from fpga/interface.def. */
#include "bundle/bundle.h"

#define READ                       CLADE__READ
#define WRITE                      CLADE__WRITE
#define READ_WRITE                 CLADE__READ_WRITE
#define TENSOR(type, name, access) {"global " #type " *", #name, access}, {"int", #name "_at", CLADE__VALUE},
#define VALUE(type, name)          {#type, #name, CLADE__VALUE},
#define KERNEL(name, ...)          static const clade__bundle_argument name##_arguments[] = {__VA_ARGS__};
#include "fpga/interface.def"

static const clade__bundle_kernel kernels[] = {
#define KERNEL(kernel, ...)                        \
  {.name = #kernel,                                \
   .arguments = kernel##_arguments,                \
   .n_arguments = CLADE_COUNT(kernel##_arguments), \
   .work_group = {1, 1, 1},                        \
   .compute_units = 1,                             \
   .evidence = CLADE__NO_EVIDENCE},
#include "fpga/interface.def"
};

const clade__bundle_kernel *clade__interface_kernels(size_t *n) {
  *n = CLADE_COUNT(kernels);
  return kernels;
}

static clade_status compare(const clade__bundle *bundle, const clade__bundle_kernel *k,
                            const clade__bundle_kernel *wanted) {
  size_t n = wanted->n_arguments;
  if (k->n_arguments != n)
    return CLADE_FAIL(UNSUPPORTED, "%s: kernel %s takes %zu arguments; by version %d of the interface there are %zu",
                      bundle->path, k->name, k->n_arguments, CLADE__BUNDLE_INTERFACE, n);
  for (size_t i = 0; i < n; i++) {
    const clade__bundle_argument *a = &k->arguments[i], *w = &wanted->arguments[i];
    if (strcmp(a->type, w->type) || strcmp(a->name, w->name) || a->access != w->access)
      return CLADE_FAIL(
          UNSUPPORTED,
          "%s: argument %zu of kernel %s is \"%s %s\" (%s); by version %d of the interface it is \"%s %s\" "
          "(%s)",
          bundle->path, i, k->name, a->type, a->name, clade__access_names[a->access], CLADE__BUNDLE_INTERFACE, w->type,
          w->name, clade__access_names[w->access]);
  }
  return CLADE_OK;
}

/* Kernels that are not in the table are custom ones, described by the manifest only. */
clade_status clade__interface_check(const clade__bundle *bundle) {
  for (size_t i = 0; i < bundle->manifest.n_kernels; i++)
    for (size_t k = 0; k < CLADE_COUNT(kernels); k++)
      if (strcmp(bundle->manifest.kernels[i].name, kernels[k].name) == 0)
        CLADE_TRY(compare(bundle, &bundle->manifest.kernels[i], &kernels[k]));
  return CLADE_OK;
}
