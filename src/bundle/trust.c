/* Whether a bundle may be used, by the owner of its file and by its signature. Bundles are executable code. */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "bundle/bundle.h"

clade_status clade__bundle_trusted(const clade__bundle *bundle, clade_bundle_policy policy, const clade__keys *keys) {
  if (policy == CLADE_BUNDLES_ANY) return CLADE_OK;
  if (!bundle->is_signed)
    return CLADE_FAIL(PERMISSION, "%s is not signed, and only bundles that are may be used", bundle->path);
  for (size_t i = 0; i < keys->n; i++)
    if (!memcmp(keys->at[i], bundle->key, CLADE__BUNDLE_KEY)) return CLADE_OK;
  return CLADE_FAIL(PERMISSION, "%s is signed by a key that is none of the %zu trusted ones", bundle->path, keys->n);
}

/* A directory such as /tmp is safe although others may write in it: the sticky bit keeps them from replacing files. */
static clade_status check_one(const char *path, const char *part) {
  struct stat st;
  if (stat(part, &st)) return clade__file_fail("look at", part);
  bool sticky = S_ISDIR(st.st_mode) && (st.st_mode & S_ISVTX);
  if (st.st_uid != geteuid() && st.st_uid != 0)
    return CLADE_FAIL(PERMISSION, "%s is not used: %s belongs to user %u, not to %u or root", path, part,
                      (unsigned)st.st_uid, (unsigned)geteuid());
  if ((st.st_mode & (S_IWGRP | S_IWOTH)) && !sticky)
    return CLADE_FAIL(PERMISSION, "%s is not used: others may write to %s (mode %04o)", path, part,
                      (unsigned)st.st_mode & 07777u);
  return CLADE_OK;
}

clade_status clade__bundle_safe(const char *path) {
  char *real = realpath(path, NULL);
  if (!real) return clade__file_fail("look at", path);
  clade_status status = check_one(path, real);
  for (char *slash; status == CLADE_OK && (slash = strrchr(real, '/')) && real[1];) {
    slash[slash == real] = '\0';
    status = check_one(path, real);
  }
  free(real);
  return status;
}
