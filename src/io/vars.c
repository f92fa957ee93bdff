/* Saves variables to safetensors files and loads them, and hashes parameters. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <openssl/evp.h>

#include "io/io.h"

static bool is_optimizer(const char *name) { return !strncmp(name, CLADE__OPTIMIZER, strlen(CLADE__OPTIMIZER)); }

bool clade__vars_is_part(const clade_vars *vars, const char *name) {
  clade_part part = {.size = sizeof part};
  return clade_vars_part(vars, name, &part) == CLADE_OK && part.is_part;
}

static bool may_differ(const char *name) {
  return !strncmp(name, CLADE__LOW_RANK, strlen(CLADE__LOW_RANK)) ||
         !strncmp(name, CLADE__LOSS_SCALE, strlen(CLADE__LOSS_SCALE));
}

static bool fits(const clade__tensor *tensor, const clade_port_info *info) {
  return tensor->dtype == info->type.dtype && clade_shape_equal(&tensor->shape, &info->type.shape);
}

static clade_status options(const void *vars, const clade_vars_file_opt *given, const char *function,
                            clade_vars_file_opt *out) {
  CLADE_TRY(clade__opt_copy(out, sizeof *out, given, function));
  if (!vars || !out->path) return CLADE_FAIL(INVALID, "%s: the %s NULL", function, vars ? "path is" : "variables are");
  return CLADE_OK;
}

clade_status clade_vars_save_(const clade_vars *vars, const clade_vars_file_opt *given) {
  clade_vars_file_opt opt;
  clade__draft draft;
  clade_status status;
  CLADE_TRY(options(vars, given, "clade_vars_save", &opt));
  CLADE_TRY(clade__draft_open(opt.path, &draft));
  CLADE_GOTO(clade__vars_write(vars, &(clade__vars_written){.weights_only = opt.weights_only}, &draft, 0, NULL));
  CLADE_GOTO(clade__draft_sync(&draft));
  CLADE_GOTO(clade__draft_place(&draft));
fail:
  clade__draft_close(&draft);
  return status;
}

typedef struct complaints {
  clade__text text;
  int n;
} complaints;
enum { SHOWN = 8 };

static void complain(complaints *c, const char *title, const char *format, ...) CLADE_PRINTF(3, 4);
static void complain(complaints *c, const char *title, const char *format, ...) {
  char one[700];
  va_list args;
  if (c->n++ >= SHOWN) return;
  va_start(args, format);
  vsnprintf(one, sizeof one, format, args);
  va_end(args);
  clade__text_add(&c->text, "%s%s", c->n == 1 ? title : ", ", one);
}

static void finish(complaints *c, clade__text *out) {
  if (!c->n) return;
  clade__text_add(out, "; %s", c->text.data ? c->text.data : "");
  if (c->n > SHOWN) clade__text_add(out, " and %d more", c->n - SHOWN);
}

typedef struct fitting {
  const clade_vars *vars;
  const clade__foreign *foreign; /* NULL: none */
  bool weights_only;
} fitting;

static void compare_one(const clade_port_info *info, const fitting *f, const clade__tensors *t, complaints *missing,
                        complaints *other, bool *used) {
  char have[256], want[256];
  if (f->weights_only && is_optimizer(info->name)) return;
  const clade__tensor *tensor = clade__tensors_find(t, info->name);
  if (tensor) used[tensor - t->at] = true;
  if (may_differ(info->name)) return;
  if (!tensor)
    complain(missing, "missing: ", "%s", info->name);
  else if (!fits(tensor, info))
    complain(other, "of another type: ", "%s (%s %s in the file, %s %s in the model)", info->name, tensor->type,
             clade_shape_text(&tensor->shape, have, sizeof have), clade_dtype_name(info->type.dtype),
             clade_shape_text(&info->type.shape, want, sizeof want));
}

static void compare(const fitting *f, const clade__tensors *t, complaints *missing, complaints *other, bool *used) {
  for (int i = 0; i < clade_vars_count(f->vars); i++) {
    clade_port_info info = {.size = sizeof info};
    if (clade_vars_describe(f->vars, i, &info) || (f->foreign && clade__vars_is_part(f->vars, info.name))) continue;
    compare_one(&info, f, t, missing, other, used);
  }
  for (int i = 0; f->foreign && i < f->foreign->n; i++) {
    const clade__foreign_var *var = &f->foreign->at[i];
    compare_one(&(clade_port_info){.name = var->name, .type = var->type}, f, t, missing, other, used);
  }
}

static clade_status check(const char *path, const clade__tensors *t, const fitting *f) {
  complaints missing = {0}, unexpected = {0}, other = {0};
  clade__text text = {0};
  bool *used = clade__new(t->n, sizeof *used);
  if (!used) return CLADE_NO_MEMORY;
  compare(f, t, &missing, &other, used);
  for (size_t i = 0; i < t->n; i++)
    if (!used[i] && !is_optimizer(t->at[i].name)) complain(&unexpected, "unexpected: ", "%s", t->at[i].name);
  finish(&missing, &text);
  finish(&unexpected, &text);
  finish(&other, &text);
  clade_status status = missing.n || unexpected.n ? CLADE_NOT_FOUND : other.n ? CLADE_BAD_SHAPE : CLADE_OK;
  if (status != CLADE_OK) clade_fail(status, "%s does not fit the model%s", path, text.data ? text.data : "");
  clade__text_free(&missing.text);
  clade__text_free(&unexpected.text);
  clade__text_free(&other.text);
  clade__text_free(&text);
  clade__free(used);
  return status;
}

clade_status clade__vars_apply(const char *path, const clade__tensors *t, clade_vars *vars,
                               const clade__foreign *foreign, bool weights_only) {
  CLADE_TRY(check(path, t, &(fitting){vars, foreign, weights_only}));
  for (int i = 0; i < clade_vars_count(vars); i++) {
    clade_port_info info = {.size = sizeof info};
    CLADE_TRY(clade_vars_describe(vars, i, &info));
    const clade__tensor *tensor = clade__tensors_find(t, info.name);
    if (foreign && clade__vars_is_part(vars, info.name)) continue;
    if (!tensor || !fits(tensor, &info) || (weights_only && is_optimizer(info.name))) continue;
    CLADE_TRY(clade_vars_set(vars, info.name, tensor->data, tensor->bytes));
  }
  return CLADE_OK;
}

/* Checks by its header that a file is complete and fits the model. */
static clade_status judge(const clade__file *file, const void *what) {
  const fitting *f = what;
  clade__tensors tensors;
  bool ours;
  CLADE_TRY(clade__tensors_head(file, &tensors));
  clade_status status = clade__tensors_verify_header(file->path, &tensors, &ours);
  if (status == CLADE_OK) status = check(file->path, &tensors, f);
  clade__tensors_free(&tensors);
  return status;
}

clade_status clade_vars_load_(clade_vars *vars, const clade_vars_file_opt *given) {
  clade_vars_file_opt opt;
  clade__bytes file;
  clade__tensors tensors;
  clade_status status;
  bool ours;
  CLADE_TRY(options(vars, given, "clade_vars_load", &opt));
  CLADE_TRY(clade__file_read_judged(opt.path, UINT64_MAX, judge, &(fitting){vars, NULL, opt.weights_only}, &file));
  CLADE_TRY(clade__tensors_parse(opt.path, &file, &tensors));
  CLADE_GOTO(clade__tensors_verify(opt.path, &tensors, &ours));
  CLADE_GOTO(clade__vars_apply(opt.path, &tensors, vars, NULL, opt.weights_only));
fail:
  clade__tensors_free(&tensors);
  return status;
}

typedef struct parameter {
  const char *name;
  size_t bytes;
  const clade__foreign_var *foreign; /* NULL: this rank has the whole parameter */
} parameter;

static int by_name(const void *a, const void *b) {
  return strcmp(((const parameter *)a)->name, ((const parameter *)b)->name);
}

static clade_status add(parameter **at, const char *name, const clade_type *type, const clade__foreign_var *foreign) {
  parameter *p = (*at)++;
  *p = (parameter){.name = name, .foreign = foreign};
  return clade_type_bytes(type, &p->bytes);
}

static clade_status parameters(const clade_vars *vars, const clade__foreign *foreign, parameter **out, size_t *n,
                               size_t *largest) {
  const int count = clade_vars_count(vars), others = foreign ? foreign->n : 0;
  parameter *at = *out = clade__new((size_t)count + (size_t)others, sizeof **out);
  *n = *largest = 0;
  if (!at) return CLADE_NO_MEMORY;
  for (int i = 0; i < count; i++) {
    clade_port_info info = {.size = sizeof info};
    CLADE_TRY(clade_vars_describe(vars, i, &info));
    if (!info.parameter || (foreign && clade__vars_is_part(vars, info.name))) continue;
    CLADE_TRY(add(&at, info.name, &info.type, NULL));
  }
  for (int i = 0; i < others; i++)
    if (foreign->at[i].parameter) CLADE_TRY(add(&at, foreign->at[i].name, &foreign->at[i].type, &foreign->at[i]));
  *n = (size_t)(at - *out);
  for (size_t i = 0; i < *n; i++) *largest = CLADE_MAX(*largest, (*out)[i].bytes);
  qsort(*out, *n, sizeof **out, by_name);
  return CLADE_OK;
}

static clade_status read_one(const clade_vars *vars, const clade__foreign *foreign, const parameter *p, void *room) {
  if (p->foreign) return foreign->read(foreign->user, p->foreign, room, p->bytes);
  return clade_vars_get(vars, p->name, room, p->bytes);
}

clade_status clade_vars_sha256(const clade_vars *vars, char text[65]) {
  if (!vars || !text) return CLADE_FAIL(INVALID, "clade_vars_sha256: the %s NULL", vars ? "text is" : "variables are");
  return clade__vars_hash(vars, NULL, text);
}

clade_status clade__vars_hash(const clade_vars *vars, const clade__foreign *foreign, char text[65]) {
  clade_status status;
  parameter *all = NULL;
  void *room = NULL;
  size_t n, largest;
  unsigned char digest[32];
  EVP_MD_CTX *hash = EVP_MD_CTX_new();
  if (!hash || !EVP_DigestInit_ex(hash, EVP_sha256(), NULL))
    CLADE_GOTO(CLADE_FAIL(NO_MEMORY, "clade_vars_sha256: libcrypto cannot begin"));
  CLADE_GOTO(parameters(vars, foreign, &all, &n, &largest));
  room = clade__new(largest, 1);
  if (!room) CLADE_GOTO(CLADE_NO_MEMORY);
  for (size_t i = 0; i < n; i++) {
    CLADE_GOTO(read_one(vars, foreign, &all[i], room));
    if (!EVP_DigestUpdate(hash, room, all[i].bytes)) CLADE_GOTO(CLADE_FAIL(INTERNAL, "clade_vars_sha256: libcrypto"));
  }
  if (!EVP_DigestFinal_ex(hash, digest, NULL)) CLADE_GOTO(CLADE_FAIL(INTERNAL, "clade_vars_sha256: libcrypto"));
  for (size_t i = 0; i < sizeof digest; i++) snprintf(text + 2 * i, 3, "%02x", digest[i]);
fail:
  EVP_MD_CTX_free(hash);
  clade__free(all);
  clade__free(room);
  return status;
}
