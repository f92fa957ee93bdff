/* An OpenCL implementation that aborts the process at the first call. */
#include <stdio.h>
#include <stdlib.h>

void *clGetExtensionFunctionAddress(const char *name);

__attribute__((visibility("default"))) void *clGetExtensionFunctionAddress(const char *name) {
  fprintf(stderr, "no mercy on %s\n", name);
  abort();
}
