/* Finds the bundles for a device in the search path, and reports why others were refused. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/file.h"
#include "program/bundles.h"

enum { MOST_IN_PLACE = 1024, MOST_TOLD = 16 };

typedef struct search {
  const clade_device_info *info;
  clade__bundle_set *out;
  clade_bundle_policy policy;
  clade__keys keys;
  clade_status refused; /* first refusal for a reason other than the target */
  int n_told;
  clade__text told, places;
} search;

static const char *variable(const char *name) {
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}

/* ---- checking a bundle ---- */
clade_status clade__bundle_fits(const clade__bundle *bundle, const clade_device_info *info) {
  const clade__manifest *m = &bundle->manifest;
  const char *kind = clade__target_names[m->target.kind];
  const char *name = m->target.kind == CLADE__TARGET_INTEL    ? m->target.board
                     : m->target.kind == CLADE__TARGET_XILINX ? m->target.vbnv
                                                              : m->target.device;
  if (clade__target_fits(kind, name, info)) return CLADE_OK;
  return CLADE_FAIL(UNSUPPORTED, "%s is for \"%s\" of kind %s, not for \"%s\" of %s", bundle->path, name, kind,
                    info->name, info->platform);
}

/* Images can have hundreds of megabytes, so one whose header names another device is not read. Other header fields
 * are trusted only after the whole file was verified. */
static clade_status take(search *s, const char *path, clade__bundle *bundle, bool *other_target) {
  CLADE_TRY(clade__bundle_safe(path));
  clade_status status = clade__bundle_peek(path, bundle);
  if (status == CLADE_NO_MEMORY) return status;
  if (status == CLADE_OK) {
    status = clade__bundle_fits(bundle, s->info);
    *other_target = status != CLADE_OK;
    CLADE_TRY(status);
    clade__bundle_free(bundle);
  }
  CLADE_TRY(clade__bundle_read(path, bundle));
  CLADE_TRY(clade__bundle_trusted(bundle, s->policy, &s->keys));
  return clade__bundle_fits(bundle, s->info);
}

static const clade__bundle_kernel *shared_kernel(const clade__manifest *a, const clade__manifest *b) {
  for (size_t i = 0; i < a->n_kernels; i++)
    for (size_t k = 0; k < b->n_kernels; k++)
      if (strcmp(a->kernels[i].name, b->kernels[k].name) == 0) return &a->kernels[i];
  return NULL;
}

/* Adds the bundle to those found in other files. */
static clade_status add(search *s, const clade__bundle *bundle) {
  clade__bundle_set *set = s->out;
  for (size_t i = 0; i < set->n; i++) {
    const clade__bundle_kernel *both = shared_kernel(&set->at[i].manifest, &bundle->manifest);
    if (both)
      return CLADE_FAIL(AMBIGUOUS,
                        "%s and %s both hold the kernel %s for \"%s\": name one of them in CLADE_BUNDLE_PATH",
                        set->at[i].path, bundle->path, both->name, s->info->name);
  }
  if (set->n && bundle->manifest.target.kind == CLADE__TARGET_XILINX)
    return CLADE_FAIL(UNSUPPORTED, "%s and %s are both for \"%s\", which holds one program", set->at[0].path,
                      bundle->path, s->info->name);
  if (set->n == CLADE__MOST_BUNDLES)
    return CLADE_FAIL(OVERFLOW, "%s is for \"%s\" as %d others are: that is the most", bundle->path, s->info->name,
                      CLADE__MOST_BUNDLES);
  set->at[set->n++] = *bundle;
  return CLADE_OK;
}

/* Refusals are reported at the end, if no bundle fits. Only lack of memory ends the search. */
static clade_status consider(search *s, const char *path) {
  clade__bundle bundle = {0};
  bool other_target = false;
  clade_status status = take(s, path, &bundle, &other_target);
  if (status == CLADE_OK) {
    status = add(s, &bundle);
    if (status != CLADE_OK) clade__bundle_free(&bundle);
    return status;
  }
  clade__bundle_free(&bundle);
  if (status == CLADE_NO_MEMORY) return status;
  if (!other_target && s->refused == CLADE_OK) s->refused = status;
  if (s->n_told++ < MOST_TOLD) clade__text_add(&s->told, "; %s", clade_last_error());
  return CLADE_OK;
}

/* ---- searching ---- */
static bool is_bundle_name(const char *name) {
  size_t n = strlen(name);
  return *name != '.' && n > 7 && strcmp(name + n - 7, ".bundle") == 0;
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static clade_status list(const char *place, DIR *dir, char **names, size_t *n) {
  for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
    if (!is_bundle_name(e->d_name)) continue;
    if (*n == MOST_IN_PLACE) return CLADE_FAIL(OVERFLOW, "%s has more than %d bundles", place, MOST_IN_PLACE);
    names[*n] = clade__copy_text(e->d_name);
    if (!names[(*n)++]) return CLADE_NO_MEMORY;
  }
  qsort(names, *n, sizeof *names, by_text);
  return CLADE_OK;
}

static clade_status joined(const char *place, const char *name, char **path) {
  clade__text text = {0};
  clade__text_add(&text, "%s/%s", place, name);
  return clade__text_take(&text, path);
}

static clade_status consider_in(search *s, const char *place, const char *name) {
  char *path;
  CLADE_TRY(joined(place, name, &path));
  clade_status status = consider(s, path);
  clade__free(path);
  return status;
}

static clade_status consider_all(search *s, const char *place, DIR *dir) {
  size_t n = 0;
  char **names = clade__new(MOST_IN_PLACE, sizeof *names);
  if (!names) return CLADE_NO_MEMORY;
  clade_status status = list(place, dir, names, &n);
  for (size_t i = 0; i < n && status == CLADE_OK; i++) status = consider_in(s, place, names[i]);
  for (size_t i = 0; i < n; i++) clade__free(names[i]);
  clade__free(names);
  return status;
}

/* A place is a bundle file, or a directory of files named *.bundle. */
static clade_status search_place(search *s, const char *place) {
  char *manifest;
  struct stat st;
  clade__text_add(&s->places, "%s%s", s->places.length ? ", " : "", place);
  CLADE_TRY(joined(place, "manifest.json", &manifest));
  bool bundle = (!stat(place, &st) && S_ISREG(st.st_mode)) || !stat(manifest, &st);
  clade__free(manifest);
  if (bundle) return consider(s, place);
  DIR *dir = opendir(place);
  if (!dir) return CLADE_OK; /* most of the usual directories do not exist */
  clade_status status = consider_all(s, place, dir);
  closedir(dir);
  return status;
}

/* The first place that has a matching bundle is used. */
static clade_status search_path(search *s, const char *path) {
  char *own = clade__copy_text(path), *rest = own;
  clade_status status = own ? CLADE_OK : CLADE_NO_MEMORY;
  for (char *place; status == CLADE_OK && !s->out->n && (place = strsep(&rest, ":"));) {
    if (*place && *place != '/')
      status = CLADE_FAIL(INVALID, "CLADE_BUNDLE_PATH names \"%s\": absolute paths were expected", place);
    else if (*place)
      status = search_place(s, place);
  }
  clade__free(own);
  return status;
}

static clade_status usual_path(clade__text *path) {
  const char *data = variable("XDG_DATA_HOME"), *home = variable("HOME");
  if (data && *data == '/')
    clade__text_add(path, "%s/clade/bundles:", data);
  else if (home && *home == '/')
    clade__text_add(path, "%s/.local/share/clade/bundles:", home);
  clade__text_add(path, "%s", CLADE_BUNDLE_DIR);
  return path->failed ? CLADE_NO_MEMORY : CLADE_OK;
}

/* ---- policy ---- */
static clade_status read_policy(search *s) {
  const clade__settings *told = clade__settings_get();
  const char *policy = variable("CLADE_BUNDLE_POLICY"),
             *keys = told->bundle_keys ? told->bundle_keys : variable("CLADE_BUNDLE_KEYS");
  if (policy && strcmp(policy, "any") && strcmp(policy, "signed"))
    return CLADE_FAIL(INVALID, "CLADE_BUNDLE_POLICY=%s: \"any\" or \"signed\" was expected", policy);
  s->policy = policy && strcmp(policy, "signed") == 0 ? CLADE_BUNDLES_SIGNED : told->bundle_policy;
  if (s->policy == CLADE_BUNDLES_ANY) return CLADE_OK;
  if (!keys)
    return CLADE_FAIL(INVALID, "only signed bundles are wanted, and no trusted keys are named: CLADE_BUNDLE_KEYS, or "
                               "clade_init(.bundle_keys)");
  return clade__keys_read(keys, &s->keys);
}

static clade_status none(search *s) {
  if (s->told.failed || s->places.failed) return CLADE_FAIL(NO_MEMORY, "no memory for a message");
  return clade_fail(s->refused ? s->refused : CLADE_NOT_FOUND,
                    "device \"%s\" has no compiler, and no bundle for it is in %s%s", s->info->name,
                    s->places.data ? s->places.data : "any place", s->told.data ? s->told.data : "");
}

static clade_status find(search *s) {
  clade__text usual = {0};
  const char *path = variable("CLADE_BUNDLE_PATH");
  CLADE_TRY(read_policy(s));
  clade_status status = path ? CLADE_OK : usual_path(&usual);
  if (status == CLADE_OK) status = search_path(s, path ? path : usual.data);
  clade__text_free(&usual);
  CLADE_TRY(status);
  if (!s->out->n) return none(s);
  if (s->refused) clade__log(CLADE_LOG_WARNING, "bundles that are not used%s", s->told.data ? s->told.data : "");
  return CLADE_OK;
}

void clade__bundle_set_free(clade__bundle_set *set) {
  for (size_t i = 0; i < set->n; i++) clade__bundle_free(&set->at[i]);
  set->n = 0;
}

clade__hash clade__bundle_set_hash(const clade__bundle_set *set) {
  clade__hash hash = {0};
  for (size_t i = 0; i < set->n; i++) hash = clade__hash_more(hash, set->at[i].digest, sizeof set->at[i].digest);
  return hash;
}

clade_status clade__bundle_find(const clade_device_info *info, clade__bundle_set *out) {
  search s = {.info = info, .out = out};
  *out = (clade__bundle_set){0};
  clade_status status = find(&s);
  if (status != CLADE_OK) clade__bundle_set_free(out);
  clade__keys_free(&s.keys);
  clade__text_free(&s.told);
  clade__text_free(&s.places);
  return status;
}
