/* clade pack build --target pocl: all kernels of fpga/, which are part of the command, compiled by PoCL for the
 * emulated accelerator. */
#include <openssl/evp.h>
#include <stdio.h>

#include "cl/cl.h"
#include "cli/pack.h"

/* ---- compiling ---- */
typedef struct job {
  clade_device *device;
  clade__queue *queue;
  clade__buffer *memory;
  cl_program program;
  clade__text options;
  void *binary;
  size_t bytes;
} job;

static size_t bytes_of(const char *type) {
  static const struct {
    const char *type;
    size_t bytes;
  } values[] = {{"int", 4}, {"float", 4}, {"int4", 16}, {"int8", 32}, {"float8", 32}, {"float16", 64}};
  for (size_t i = 0; i < CLADE_COUNT(values); i++)
    if (strcmp(type, values[i].type) == 0) return values[i].bytes;
  return sizeof(cl_mem);
}

static clade_status set_zero(const job *j, cl_kernel kernel, const clade__bundle_kernel *k) {
  static const unsigned char zero[64];
  cl_mem memory = clade__buffer_mem(j->memory);
  for (size_t i = 0; i < k->n_arguments; i++) {
    bool value = k->arguments[i].access == CLADE__VALUE;
    CLADE_TRY(clade__kernel_set(j->device, kernel, (cl_uint)i, bytes_of(k->arguments[i].type),
                                value ? (const void *)zero : &memory));
  }
  return CLADE_OK;
}

/* With all values zero it touches no memory; PoCL makes the machine code of a kernel when it is launched, and that
 * becomes part of the binary. */
static clade_status launch(const job *j, const clade__bundle_kernel *k) {
  const size_t one = 1;
  cl_kernel kernel;
  CLADE_TRY(clade__kernel_new(j->device, j->program, k->name, &kernel));
  clade_status status = set_zero(j, kernel, k);
  if (!status) status = clade__queue_launch(j->queue, kernel, 1, &one, &one, (clade__wait){0}, NULL);
  if (!status) status = clade__queue_finish(j->queue);
  clade__kernel_release(kernel);
  return status;
}

static clade_status compile(job *j) {
  char *log = NULL;
  CLADE_TRY(clade_device_find("pocl", &j->device));
  clade_status status =
      clade__program_build(j->device, cli_fpga_kernels, strlen(cli_fpga_kernels), j->options.data, &j->program, &log);
  if (status && log && *log) fprintf(stderr, "%s\n", log);
  clade__free(log);
  CLADE_TRY(status);
  CLADE_TRY(clade__queue_new(j->device, false, &j->queue));
  CLADE_TRY(clade__buffer_new(j->device, 64, "a bundle's kernels", &j->memory));
  size_t n;
  const clade__bundle_kernel *kernels = clade__interface_kernels(&n);
  for (size_t i = 0; i < n; i++) CLADE_TRY(launch(j, &kernels[i]));
  return clade__program_binary(j->device, j->program, &j->binary, &j->bytes);
}

/* ---- the manifest ---- */
static clade_status options_of(job *j, const clade__bundle_define *defines, size_t n) {
  clade__text_add(&j->options, "-cl-kernel-arg-info");
  for (size_t i = 0; i < n; i++) {
    if (!clade__is_name(defines[i].name) || strpbrk(defines[i].text, " \t\r\n\"'\\"))
      return CLADE_FAIL(INVALID, "--define %s=%s: expected NAME=VALUE, without spaces and quotes", defines[i].name,
                        defines[i].text);
    clade__text_add(&j->options, " -D%s=%s", defines[i].name, defines[i].text);
  }
  return j->options.failed ? CLADE_FAIL(NO_MEMORY, "no memory") : CLADE_OK;
}

static clade_status hash(char text[65]) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  if (!EVP_Digest(cli_fpga_kernels, strlen(cli_fpga_kernels), digest, NULL, EVP_sha256(), NULL))
    return CLADE_FAIL(UNSUPPORTED, "libcrypto refuses SHA-256");
  for (int i = 0; i < 32; i++) snprintf(text + 2 * i, 3, "%02x", digest[i]);
  return CLADE_OK;
}

static clade_status write_bundle(const job *j, const cli_pack_target *t) {
  char sha256[65];
  size_t n;
  clade__text command = {0};
  const clade__bundle_kernel *kernels = clade__interface_kernels(&n);
  CLADE_TRY(hash(sha256));
  clade__text_add(&command, "clBuildProgram %s", j->options.data);
  if (command.failed) return CLADE_FAIL(NO_MEMORY, "no memory");
  clade__bundle_draft draft = {
      .manifest = {.format = CLADE__BUNDLE_FORMAT,
                   .interface_version = CLADE__BUNDLE_INTERFACE,
                   .target = {.kind = CLADE__TARGET_POCL, .device = "Clade emulated accelerator"},
                   .tool = {"PoCL", clade__device_info(j->device)->platform_version, command.data},
                   .source = {sha256},
                   .binary = {.format = CLADE__POCLBIN, .file = "kernels.poclbin"},
                   .defines = t->defines,
                   .n_defines = t->n_defines,
                   .kernels = kernels,
                   .n_kernels = n},
      .binary = j->binary,
      .binary_bytes = j->bytes,
      .key_path = t->key};
  clade_status status = clade__bundle_write(t->output, t->directory, &draft);
  clade__text_free(&command);
  return status;
}

clade_status cli_pack_pocl(const cli_pack_target *t) {
  job j = {0};
  clade_status status = options_of(&j, t->defines, t->n_defines);
  if (!status) status = compile(&j);
  if (!status) status = write_bundle(&j, t);
  clade__free(j.binary);
  clade__program_release(j.program);
  clade__queue_free(j.queue);
  clade__buffer_release(j.memory);
  clade_device_release(j.device);
  clade__text_free(&j.options);
  return status;
}
