/* Self-test of a bundle's kernel: compares its result with a known answer before first use. */
#include "program/bundles.h"
#include "program/known.h"

#include <math.h>

enum { MOST_VALUES = 32, AT = 1 }; /* offset of tensors in their buffers, in elements */

typedef struct test {
  clade_device *device;
  clade__queue *queue;
  cl_kernel kernel;
  const clade__bundle_kernel *told;
  const clade__known *known;
  clade__buffer *buffer[MOST_VALUES]; /* per value */
} test;

static size_t element_of(const clade__bundle_argument *a) {
  static const struct {
    const char *type;
    size_t bytes;
  } tensors[] = {{"global char *", 1}, {"global long *", 8}};
  for (size_t i = 0; i < CLADE_COUNT(tensors); i++)
    if (strcmp(a->type, tensors[i].type) == 0) return tensors[i].bytes;
  return 4;
}

static const clade__known *known_of(const char *kernel) {
  for (const clade__known *k = clade__known_answers; k->kernel; k++)
    if (strcmp(k->kernel, kernel) == 0) return k;
  return NULL;
}

static clade_status give_tensor(test *t, size_t value, cl_uint index) {
  const clade__bundle_argument *a = &t->told->arguments[index];
  const clade__known_value *v = &t->known->values[value];
  const size_t element = element_of(a), bytes = v->bytes + AT * element;
  const cl_int at = AT;
  const char zero = 0;
  CLADE_TRY(clade__buffer_new(t->device, bytes, "a self-test", &t->buffer[value]));
  if (a->access == CLADE__WRITE)
    CLADE_TRY(clade__queue_fill(t->queue, t->buffer[value], 0, bytes, &zero, 1, (clade__wait){0}, NULL));
  else
    CLADE_TRY(
        clade__queue_write(t->queue, t->buffer[value], AT * element, v->data, v->bytes, true, (clade__wait){0}, NULL));
  cl_mem memory = clade__buffer_mem(t->buffer[value]);
  CLADE_TRY(clade__kernel_set(t->device, t->kernel, index, sizeof(cl_mem), &memory));
  return clade__kernel_set(t->device, t->kernel, index + 1, sizeof at, &at);
}

static bool is_tensor(const clade__bundle_argument *a) { return a->access != CLADE__VALUE; }

static clade_status give(test *t) {
  cl_uint index = 0;
  for (size_t i = 0; i < t->known->n; i++) {
    if (index >= t->told->n_arguments || i >= MOST_VALUES) break;
    if (is_tensor(&t->told->arguments[index])) {
      CLADE_TRY(give_tensor(t, i, index));
      index += 2;
    } else {
      CLADE_TRY(clade__kernel_set(t->device, t->kernel, index++, t->known->values[i].bytes, t->known->values[i].data));
    }
  }
  return index == t->told->n_arguments ? CLADE_OK
                                       : CLADE_FAIL(INTERNAL, "the known answer is not to this list of arguments");
}

static double number(const clade__bundle_argument *a, const unsigned char *data, size_t i) {
  float f;
  int32_t n;
  int64_t wide;
  if (strcmp(a->type, "global long *") == 0) return memcpy(&wide, data + 8 * i, 8), (double)wide;
  if (strcmp(a->type, "global int *") == 0) return memcpy(&n, data + 4 * i, 4), (double)n;
  return memcpy(&f, data + 4 * i, 4), (double)f;
}

/* Integers must match exactly, floats up to a tolerance. */
static clade_status compare(const clade__bundle_argument *a, const unsigned char *got, const clade__known_value *want) {
  bool words = strcmp(a->type, "global float *") != 0;
  size_t n = want->bytes / element_of(a);
  if (words && memcmp(got, want->data, want->bytes) == 0) return CLADE_OK;
  for (size_t i = 0; i < n; i++) {
    double is = number(a, got, i), should = number(a, want->data, i);
    if (words ? is != should : !(fabs(is - should) <= 1e-5 * fmax(fabs(should), 1)))
      return CLADE_FAIL(CORRUPT, "its answer to a known question is wrong: element %zu of %s is %g, not %g", i, a->name,
                        is, should);
  }
  return CLADE_OK;
}

static clade_status check_tensor(test *t, size_t value, cl_uint index) {
  const clade__bundle_argument *a = &t->told->arguments[index];
  const clade__known_value *v = &t->known->values[value];
  unsigned char got[256];
  if (a->access == CLADE__READ) return CLADE_OK;
  if (v->bytes > sizeof got) return CLADE_FAIL(INTERNAL, "a known answer of %zu bytes", v->bytes);
  CLADE_TRY(
      clade__queue_read(t->queue, t->buffer[value], AT * element_of(a), got, v->bytes, true, (clade__wait){0}, NULL));
  return compare(a, got, v);
}

static clade_status ask(test *t) {
  const size_t one = 1;
  CLADE_TRY(give(t));
  CLADE_TRY(clade__queue_launch(t->queue, t->kernel, 1, &one, &one, (clade__wait){0}, NULL));
  cl_uint index = 0;
  for (size_t i = 0; i < t->known->n; i++) {
    bool tensor = is_tensor(&t->told->arguments[index]);
    if (tensor) CLADE_TRY(check_tensor(t, i, index));
    index += tensor ? 2 : 1;
  }
  return CLADE_OK;
}

static clade_status run(test *t, cl_program program) {
  CLADE_TRY(clade__kernel_new(t->device, program, t->told->name, &t->kernel));
  CLADE_TRY(clade__queue_new(t->device, false, &t->queue));
  return ask(t);
}

bool clade__self_test_known(const clade__bundle_kernel *told) { return known_of(told->name) != NULL; }

clade_status clade__self_test(clade_device *device, cl_program program, const clade__bundle_kernel *told) {
  test t = {.device = device, .told = told, .known = known_of(told->name)};
  if (!t.known) return CLADE_OK; /* a user's kernel has no known answer */
  clade_status status = run(&t, program);
  clade__queue_free(t.queue);
  clade__kernel_release(t.kernel);
  for (size_t i = 0; i < MOST_VALUES; i++) clade__buffer_release(t.buffer[i]);
  return status;
}
