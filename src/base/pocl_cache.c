/* The directory of PoCL's cache of compiled kernels. */
#include <stdlib.h>

#include "base/file.h"

static const char *variable(const char *name) {
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}

clade_status clade__pocl_cache(char **path) {
  clade__text text = {0};
  const char *given = variable("POCL_CACHE_DIR"), *xdg = variable("XDG_CACHE_HOME"), *home = variable("HOME");
  const char *kept = getenv("POCL_KERNEL_CACHE");
  const char *name = !kept || *kept == '1' ? "kcache" : "uncached";
  *path = NULL;
  if (given)
    clade__text_add(&text, "%s", given);
  else if (xdg)
    clade__text_add(&text, "%s/pocl/%s", xdg, name);
  else if (home)
    clade__text_add(&text, "%s/.cache/pocl/%s", home, name);
  else
    return CLADE_FAIL(NOT_FOUND,
                      "HOME, XDG_CACHE_HOME and POCL_CACHE_DIR are unset: PoCL has no place of its own for kernels");
  return clade__text_take(&text, path);
}
