/* clade pack build --target: a bundle of kernels with a manifest derived from their sources. The binary comes from
 * PoCL for the emulated accelerator, and from a vendor's compiler otherwise. */
#include <fcntl.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "base/file.h"
#include "cli/pack.h"

typedef struct job {
  const cli_pack_target *target;
  clade__text text, options, told; /* options: for PoCL; told: as written to the manifest */
  int *open;                       /* directories whose names PoCL cannot parse */
  size_t n_open, capacity;
  char sha256[65];
  cli_pack_compiled compiled;
  clade__bytes given; /* binary of the vendor's tool */
} job;

/* ---- sources: the named files, concatenated, or Clade's own ---- */
/* Adds a directory for includes. PoCL splits options at spaces, even quoted ones, so a directory with special
 * characters is passed as an open file descriptor. */
static clade_status add_folder(job *j, const char *folder, int length) {
  clade__text_add(&j->told, " -I%.*s", length, folder);
  if (strcspn(folder, " \t\r\n\"\\") >= (size_t)length) {
    clade__text_add(&j->options, " -I%.*s", length, folder);
    return CLADE_OK;
  }
  clade__text name = {0};
  char *path;
  CLADE_TRY(clade__grow(&j->open, &j->capacity, j->n_open + 1, sizeof *j->open));
  clade__text_add(&name, "%.*s", length, folder);
  CLADE_TRY(clade__text_take(&name, &path));
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  clade_status status = fd < 0 ? clade__file_fail("open the directory", path) : CLADE_OK;
  clade__free(path);
  CLADE_TRY(status);
  j->open[j->n_open++] = fd;
  clade__text_add(&j->options, " -I/proc/self/fd/%d", fd);
  return CLADE_OK;
}

static clade_status add_source(job *j, const char *path) {
  clade__bytes file;
  CLADE_TRY(clade__file_read(path, 1 << 24, &file));
  clade__text_add(&j->text, "%.*s\n", (int)file.n, (const char *)file.data);
  clade__free(file.data);
  const char *end = strrchr(path, '/');
  return end ? add_folder(j, path, (int)CLADE_MAX(end - path, 1)) : CLADE_OK;
}

static clade_status read_sources(job *j) {
  const cli_pack_target *t = j->target;
  unsigned char digest[EVP_MAX_MD_SIZE];
  clade__text_add(&j->options, "-cl-kernel-arg-info");
  clade__text_add(&j->told, "-cl-kernel-arg-info");
  for (size_t i = 0; i < t->n_sources; i++) CLADE_TRY(add_source(j, t->sources[i]));
  if (!t->n_sources) clade__text_add(&j->text, "%s", cli_fpga_kernels);
  for (size_t i = 0; i < t->n_defines; i++) {
    if (!clade__is_name(t->defines[i].name) || strpbrk(t->defines[i].text, " \t\r\n\"'\\"))
      return CLADE_FAIL(INVALID, "--define %s=%s: expected NAME=VALUE, without spaces and quotes", t->defines[i].name,
                        t->defines[i].text);
    clade__text_add(&j->options, " -D%s=%s", t->defines[i].name, t->defines[i].text);
    clade__text_add(&j->told, " -D%s=%s", t->defines[i].name, t->defines[i].text);
  }
  if (t->kind == CLADE__TARGET_RTL) {
    clade__text_add(&j->options, " -DARRAY_I8_IN_RTL");
    clade__text_add(&j->told, " -DARRAY_I8_IN_RTL");
  }
  if (j->options.failed || j->told.failed || j->text.failed) return CLADE_FAIL(NO_MEMORY, "no memory");
  if (!EVP_Digest(j->text.data, j->text.length, digest, NULL, EVP_sha256(), NULL))
    return CLADE_FAIL(UNSUPPORTED, "libcrypto refuses SHA-256");
  for (int i = 0; i < 32; i++) snprintf(j->sha256 + 2 * i, 3, "%02x", digest[i]);
  return CLADE_OK;
}

/* ---- the manifest ---- */
static void name_target(const job *j, clade__manifest *m) {
  const cli_pack_target *t = j->target;
  m->target.kind = (int)t->kind;
  m->tool.name = t->tool;
  m->tool.version = t->tool_version;
  m->tool.command = t->tool_command;
  if (t->kind == CLADE__TARGET_INTEL) {
    for (size_t i = 0; i < j->compiled.n_kernels; i++) /* kernels that run concurrently need different queues there */
      j->compiled.kernels[i].queue = i;
    m->target.board = t->name;
    m->binary.format = CLADE__AOCX;
    m->binary.file = "kernels.aocx";
  } else if (t->kind == CLADE__TARGET_XILINX) {
    m->target.vbnv = t->name;
    m->binary.format = CLADE__XCLBIN;
    m->binary.file = "kernels.xclbin";
  } else {
    m->target.kind = CLADE__TARGET_POCL; /* the layer loads PoCL's programs */
    m->target.device = t->kind == CLADE__TARGET_POCL
                           ? "Clade emulated accelerator"
                           : "Clade emulated accelerator (array_i8: RTL, other kernels: PoCL)";
    m->binary.format = CLADE__POCLBIN;
    m->binary.file = "kernels.poclbin";
    m->tool.name = "PoCL";
    m->tool.version = j->compiled.version;
  }
}

static clade_status write_bundle(const job *j) {
  const cli_pack_target *t = j->target;
  clade__text command = {0};
  clade__text_add(&command, "clBuildProgram %s", j->told.data);
  if (command.failed) return CLADE_FAIL(NO_MEMORY, "no memory");
  clade__bundle_draft draft = {.manifest = {.format = CLADE__BUNDLE_FORMAT,
                                            .interface_version = CLADE__BUNDLE_INTERFACE,
                                            .source = {j->sha256},
                                            .defines = t->defines,
                                            .n_defines = t->n_defines,
                                            .kernels = j->compiled.kernels,
                                            .n_kernels = j->compiled.n_kernels},
                               .binary = t->binary ? (const void *)j->given.data : j->compiled.binary,
                               .binary_bytes = t->binary ? j->given.n : j->compiled.bytes,
                               .key_path = t->key};
  name_target(j, &draft.manifest);
  if (!t->binary) draft.manifest.tool.command = command.data;
  clade_status status = clade__bundle_write(t->output, t->directory, &draft);
  clade__text_free(&command);
  return status;
}

clade_status cli_pack_build_target(const cli_pack_target *target) {
  job j = {.target = target};
  clade_status status = read_sources(&j);
  if (!status && target->binary) status = clade__file_read(target->binary, CLADE__BUNDLE_BINARY_BYTES, &j.given);
  if (!status) status = cli_pack_compile(j.text.data, j.options.data, !target->binary, &j.compiled);
  if (!status) status = write_bundle(&j);
  cli_pack_compiled_free(&j.compiled);
  clade__free(j.given.data);
  clade__text_free(&j.text);
  clade__text_free(&j.options);
  clade__text_free(&j.told);
  for (size_t i = 0; i < j.n_open; i++) close(j.open[i]);
  clade__free(j.open);
  return status;
}
