/* Exports records from the cache directory and merges files into it. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "tune/internal.h"

/* Writes a temporary file and renames it, so that readers never see a part. */
static clade_status write_file(const char *path, const char *text) {
  clade__text beside = {0};
  clade__text_add(&beside, "%s.%ld.tmp", path, (long)getpid());
  if (beside.failed) return CLADE_NO_MEMORY;
  FILE *file = fopen(beside.data, "w");
  bool written = file && fputs(text, file) != EOF;
  int error = errno;
  if (file && fclose(file) && written) written = false, error = errno;
  if (written && rename(beside.data, path)) written = false, error = errno;
  if (!written) unlink(beside.data);
  clade__text_free(&beside);
  return written ? CLADE_OK : CLADE_FAIL(IO, "cannot write %s: %s", path, strerror(error));
}

clade_status clade_tune_export(clade_device *device, const char *path) {
  clade__record_sets all, chosen = {0};
  char *text = NULL;
  clade_status status;
  if (!path || !*path) return CLADE_FAIL(INVALID, "clade_tune_export: the path is %s", path ? "empty" : "NULL");
  if (device) CLADE_TRY(clade__device_check(device, "clade_tune_export"));
  CLADE_TRY(clade__tuning_own(&all));
  for (size_t i = 0; i < all.n; i++)
    if (all.at[i]->n && (!device || clade__hash_equal(all.at[i]->device.key, clade__device_key(device))))
      CLADE_GOTO(clade__record_sets_add(&chosen, clade__records_retain(all.at[i])));
  if (!chosen.n)
    CLADE_GOTO(CLADE_FAIL(NOT_FOUND, "there are no tuning records%s%s: `clade tune` makes some", device ? " of " : "",
                          device ? clade__device_info(device)->name : ""));
  CLADE_GOTO(clade__records_print(&chosen, &text));
  status = write_file(path, text);
fail:
  clade__free(text);
  clade__record_sets_free(&chosen);
  clade__record_sets_free(&all);
  return status;
}

clade_status clade_tune_merge(const char *path, int *count) {
  clade__record_sets sets;
  size_t bad = 0, sum = 0;
  if (!path || !*path) return CLADE_FAIL(INVALID, "clade_tune_merge: the path is %s", path ? "empty" : "NULL");
  CLADE_TRY(clade__tuning_read(path, &sets, &bad));
  clade_status status = CLADE_OK;
  for (size_t i = 0; i < sets.n && status == CLADE_OK; i++) {
    size_t n = 0;
    status = clade__tuning_merge(sets.at[i], false, &n);
    sum += n;
  }
  clade__record_sets_free(&sets);
  if (bad) clade__log(CLADE_LOG_WARNING, "%s: %zu malformed records are left out", path, bad);
  if (count) *count = (int)CLADE_MIN(sum, (size_t)INT_MAX);
  return status;
}
