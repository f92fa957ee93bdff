/* Fuzz targets for the file readers under libFuzzer. CLADE_FUZZ selects the format. Variables are fake, so that
 * loading runs completely without a device. */
#include <stdio.h>
#include <stdlib.h>

#include "bundle/bundle.h"
#include "bundle/header.h"
#include "io/checkpoint.h"
#include "model/cycles.h"

/* ---- use of arrays ---- */
static volatile unsigned char sink;

/* Reads all bytes, so that AddressSanitizer finds invalid memory. */
static void look_at(const void *data, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) sink ^= ((const unsigned char *)data)[i];
}

/* Shape and memory must agree for any input. */
static void use(clade_array *array) {
  int64_t elements;
  size_t bytes;
  if (clade_shape_elements(&array->shape, &elements) || clade_dtype_bytes(array->dtype, elements, &bytes) ||
      bytes != array->bytes)
    abort();
  look_at(array->data, array->bytes);
  clade_array_free(array);
}

/* ---- a model with two variables and an optimizer's variable ---- */
static const clade_port_info model[] = {
    {sizeof(clade_port_info), "w", {CLADE_F32, {0}, {2, {3, 4}}}, true},
    {sizeof(clade_port_info), "optimizer.step", {CLADE_I64, {0}, {0, {0}}}, false},
};
struct clade_vars {
  int unused;
};
static clade_vars pretended;

int clade_vars_count(const clade_vars *vars) { return vars ? (int)CLADE_COUNT(model) : 0; }
clade_status clade_vars_describe(const clade_vars *vars, int index, clade_port_info *info) {
  (void)vars;
  *info = model[index];
  return CLADE_OK;
}
clade_status clade_vars_part(const clade_vars *vars, const char *name, clade_part *out) {
  (void)vars, (void)name;
  *out = (clade_part){.size = sizeof *out};
  return CLADE_OK;
}
void clade_graph_shape(clade_graph *g, const char *name, clade_shape shape) {
  (void)g;
  look_at(name, strlen(name));
  if (shape.rank > CLADE_MAX_RANK) abort();
}
clade_status clade_graph_status(const clade_graph *g) {
  (void)g;
  return CLADE_OK;
}
clade_status clade_vars_get(const clade_vars *vars, const char *name, void *dst, size_t bytes) {
  (void)vars, (void)name;
  memset(dst, 0, bytes);
  return CLADE_OK;
}
clade_status clade_vars_set(clade_vars *vars, const char *name, const void *src, size_t bytes) {
  (void)vars;
  size_t want = 0;
  for (size_t i = 0; i < CLADE_COUNT(model); i++)
    if (!strcmp(model[i].name, name) && clade_type_bytes(&model[i].type, &want)) abort();
  if (bytes != want) abort();
  look_at(src, bytes);
  return CLADE_OK;
}

/* ---- formats ---- */
static void npy(clade__bytes *file) {
  clade_array array;
  if (clade__npy_parse("x.npy", file, &array) == CLADE_OK) use(&array);
}

static void idx(clade__bytes *file) {
  clade_array array;
  if (clade__idx_parse("x.idx", file, 1 << 20, &array) == CLADE_OK) use(&array);
}

static void cifar(clade__bytes *file) {
  clade_array images, labels;
  if (clade__cifar_parse("x.bin", file, file->n % 2 ? 1 : 2, &images, &labels) != CLADE_OK) return;
  use(&images);
  use(&labels);
}

static void safetensors(clade__bytes *file) {
  clade__tensors tensors;
  bool ours;
  if (clade__tensors_parse("x.safetensors", file, &tensors) != CLADE_OK) return;
  for (size_t i = 0; i < tensors.n; i++) look_at(tensors.at[i].data, tensors.at[i].bytes);
  if (clade__tensors_verify("x.safetensors", &tensors, &ours) == CLADE_OK)
    (void)!clade__vars_apply("x.safetensors", &tensors, &pretended, NULL, false);
  clade__tensors_free(&tensors);
}

/* Corrects the header's checksum; otherwise nothing behind it would be reached. */
static void checkpoint(clade__bytes *file) {
  enum { SMALLEST = 80 };
  clade_checkpoint *c;
  uint64_t header = file->n > 8 ? clade__little(file->data, 8) : 0;
  if (header >= SMALLEST && header <= file->n - 8) clade__tensors_seal(file->data + 8, (size_t)header);
  if (clade__checkpoint_parse("step.safetensors", file, &c) != CLADE_OK) return;
  look_at(clade_checkpoint_text(c), strlen(clade_checkpoint_text(c)));
  (void)!clade_checkpoint_apply(c, &pretended);
  (void)!clade_checkpoint_shapes(c, (clade_graph *)&pretended); /* passed through only */
  clade_checkpoint_free(c);
}

/* ---- bundles ---- */
/* Corrects the digest; otherwise the manifest would not be reached. */
static void bundle(clade__bytes *file) {
  clade__bundle b;
  if (file->n > CLADE__HEADER_BYTES) {
    uint64_t manifest = clade__little(file->data + CLADE__AT_MANIFEST, 8),
             at = clade__little(file->data + CLADE__AT_BINARY, 8);
    if (manifest <= file->n - CLADE__HEADER_BYTES && at <= file->n)
      (void)!clade__bundle_digest(file->data + CLADE__HEADER_BYTES, (size_t)manifest, file->data + at,
                                  file->n - (size_t)at, file->data + CLADE__AT_DIGEST);
  }
  if (clade__bundle_parse("x", file->data, file->n, &b) == CLADE_OK) {
    look_at(b.manifest_text, b.manifest_bytes);
    look_at(b.binary, b.binary_bytes);
  }
  clade__bundle_free(&b);
  file->data = NULL;
}

static void manifest(clade__bytes *file) {
  clade__arena arena = {0};
  clade__manifest m;
  char *text;
  if (clade__manifest_parse("x", file->data, file->n, &arena, &m) == CLADE_OK) {
    if (clade__manifest_print(&m, &text)) abort(); /* what was parsed can be printed */
    clade__free(text);
  }
  clade__arena_free(&arena);
  clade__free(file->data);
  file->data = NULL;
}

static void container(clade__bytes *file,
                      clade_status check(const char *, const unsigned char *, size_t, clade__arena *, clade__facts *)) {
  clade__arena arena = {0};
  clade__facts facts;
  if (check("x", file->data, file->n, &arena, &facts) == CLADE_OK)
    for (size_t i = 0; i < facts.n_kernels; i++) look_at(facts.kernels[i], strlen(facts.kernels[i]) + 1);
  clade__arena_free(&arena);
  clade__free(file->data);
  file->data = NULL;
}
static void xclbin(clade__bytes *file) { container(file, clade__xclbin_check); }
static void aocx(clade__bytes *file) { container(file, clade__aocx_check); }
static void poclbin(clade__bytes *file) { container(file, clade__poclbin_check); }

/* ---- devices of the cycle model ---- */
/* For any input, work is either refused or has a valid estimate. */
static void estimate(const cycles_device *device) {
  const cycles_work works[] = {
      {.kind = CYCLES_GEMM, .gemm = {1, 100, 70, 300}},
      {.kind = CYCLES_CONV, .conv = {2, 1, 3, 32, 30, 16, 32, 30, 3, 3, 1, 1, 1, 1}},
      {.kind = CYCLES_STREAM, .stream = {1 << 20}},
      {.kind = CYCLES_GEMM, .gemm = {INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX}},
  };
  cycles_estimate e;
  for (size_t i = 0; i < CLADE_COUNT(works); i++) {
    const cycles_call call = {&works[i], 1, 1000, 1};
    if (cycles_of(device, &call, &e) == CLADE_OK && !(e.low > 0 && e.low <= e.high && e.cycles >= 0)) abort();
  }
}

static void resource(clade__bytes *file) {
  cycles_device device;
  if (cycles_device_parse("x", file->data, file->n, &device) == CLADE_OK) {
    look_at(device.name, strlen(device.name) + 1);
    estimate(&device);
  }
  cycles_device_free(&device);
  clade__free(file->data);
  file->data = NULL;
}

static const struct {
  const char *name;
  void (*read)(clade__bytes *file);
} formats[] = {{"npy", npy},
               {"idx", idx},
               {"cifar", cifar},
               {"safetensors", safetensors},
               {"checkpoint", checkpoint},
               {"bundle", bundle},
               {"manifest", manifest},
               {"xclbin", xclbin},
               {"aocx", aocx},
               {"poclbin", poclbin},
               {"resource", resource}};

static void (*reader)(clade__bytes *file);

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc, (void)argv;
  const char *name = getenv("CLADE_FUZZ");
  for (size_t i = 0; name && i < CLADE_COUNT(formats); i++)
    if (!strcmp(formats[i].name, name)) reader = formats[i].read;
  if (reader) return 0;
  fprintf(stderr, "CLADE_FUZZ names no format\n");
  exit(2);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t bytes);
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t bytes) {
  clade__bytes file = {clade__new(bytes, 1), bytes};
  if (!file.data) return 0;
  memcpy(file.data, data, bytes);
  reader(&file);
  if (file.data) abort(); /* every reader takes ownership */
  return 0;
}
