/* Test support for fpga/: the kernels' program on a device, buffers with guard zones, and launches by argument
 * lists. */
#ifndef CLADE_TEST_FPGA_KERNELS_H
#define CLADE_TEST_FPGA_KERNELS_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GUARD = 64 }; /* elements before and after a buffer's contents */

typedef struct buffer {
  cl_mem mem;
  size_t n, element; /* count; bytes per element */
} buffer;
buffer buffer_new(size_t n, size_t element, const void *data); /* data NULL: NaN */
void buffer_read(const buffer *b, void *data);                 /* checks the guard zones */
/* Buffers of floats with values as doubles: random input, and contents. */
buffer buffer_floats(size_t n, double low, double high, double *value);
void buffer_doubles(const buffer *b, double *value);
void buffer_free(buffer *b);

/* Builds fpga/clade.cl for an array of this size. */
void kernels_open(int pe_rows, int pe_cols);
/* Uses the emulated accelerator, the last platform, with an empty body for this kernel. */
void kernels_open_hollow(const char *kernel);
void kernels_close(void);
/* Compares names, types, access and work-group sizes with fpga/interface.def. */
void kernels_compare(void);
/* One value for each TENSOR (a buffer) and VALUE of the kernel, in order. */
void kernels_launch(const char *kernel, const void *const *value);
/* Launches with all values zero and tiny buffers. */
void kernels_launch_zero(const char *kernel);
const char *kernels_name(int i); /* NULL after the last */

/* ---- random numbers and checks ---- */
uint32_t draw(uint32_t below);
double draw_real(double low, double high);
int32_t instruction(unsigned fn, int wrt, int a, int b, int c, int from, int to);
#define REQUIRE(condition, ...) ((condition) ? (void)0 : fail(__FILE__, __LINE__, __VA_ARGS__))
_Noreturn void fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Requires |got - want| <= bound, or NaN if NaN is expected. */
void near(const char *what, size_t at, double got, double want, double bound);

void test_array(void);
void test_array_i8(void);
void test_eltwise(void);
void test_pool(void);
void test_rows(void);
void test_sums(void);
void test_norm(void);

#endif
