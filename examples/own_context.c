/* A program with its own OpenCL context, queue and buffer, in which Clade works: it waits for the program's event,
 * reads the program's buffer from an offset on, and returns an event. Clade neither finishes the queue nor releases
 * the program's objects. */
#include <string.h>

#include <clade/opencl.h>

#include "check.h"

enum { ROWS = 4, COLUMNS = 256, OFFSET = 4096 };

static void cl_check_at(cl_int error, const char *call, int line) {
  if (error == CL_SUCCESS) return;
  fprintf(stderr, "%s:%d: %s: error %d\n", __FILE__, line, call, (int)error);
  exit(EXIT_FAILURE);
}
#define CL_CHECK(call) cl_check_at((call), #call, __LINE__)

/* The first device of any platform. */
static cl_device_id find_device(void) {
  cl_platform_id platforms[16];
  cl_device_id device;
  cl_uint n = 0;
  CL_CHECK(clGetPlatformIDs(16, platforms, &n));
  for (cl_uint i = 0; i < n && i < 16; ++i)
    if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &device, NULL) == CL_SUCCESS) return device;
  fprintf(stderr, "no OpenCL device\n");
  exit(EXIT_FAILURE);
}

typedef struct own {
  cl_context context;
  cl_command_queue queue;
  cl_mem memory;
} own;

static own set_up(cl_device_id id) {
  own o;
  cl_int error;
  o.context = clCreateContext(NULL, 1, &id, NULL, NULL, &error);
  CL_CHECK(error);
  o.queue = clCreateCommandQueue(o.context, id, 0, &error);
  CL_CHECK(error);
  o.memory = clCreateBuffer(o.context, CL_MEM_READ_WRITE, OFFSET + sizeof(float[ROWS * COLUMNS]), NULL, &error);
  CL_CHECK(error);
  return o;
}

/* sums[r] = sum of row r of the program's buffer */
static void sum_rows(clade_device *device, const own *o, cl_event begin, float sums[ROWS]) {
  clade_graph *g;
  clade_func *func;
  clade_run *run;
  clade_tensor *rows;
  clade_ticket ticket;
  cl_event done;
  CHECK(clade_graph_new(&g));
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(ROWS, COLUMNS));
  clade_output(g, "sums", clade_sum(g, x, .n_axes = 1, .axes = {1}));
  CHECK(clade_compile(g, device, &func));
  CHECK(clade_tensor_wrap(device, o->memory, OFFSET, CLADE_F32, CLADE_SHAPE(ROWS, COLUMNS), &rows));
  clade_run_opt opt = {.size = sizeof opt, .out = &run};
  CHECK(clade_run_new_on(func, NULL, o->queue, &opt));

  CHECK(clade_execute_after(run, 1, &(clade_feed){.name = "x", .tensor = rows}, 1, &begin, &ticket, &done));
  CL_CHECK(clWaitForEvents(1, &done)); /* an OpenCL wait; clade_read would wait as well */
  CHECK(clade_read(run, ticket, "sums", sums, sizeof(float[ROWS])));

  CL_CHECK(clReleaseEvent(done));
  clade_run_free(run);
  clade_tensor_release(rows);
  clade_func_release(func);
  clade_graph_release(g);
}

int main(void) {
  cl_device_id id = find_device();
  own o = set_up(id);
  clade_device *device;
  CHECK(clade_device_adopt(o.context, id, &device));

  float values[ROWS * COLUMNS], sums[ROWS];
  for (int i = 0; i < ROWS * COLUMNS; ++i) values[i] = (float)(i / COLUMNS + 1);
  cl_event written;
  CL_CHECK(clEnqueueWriteBuffer(o.queue, o.memory, CL_FALSE, OFFSET, sizeof values, values, 0, NULL, &written));
  sum_rows(device, &o, written, sums);
  for (int r = 0; r < ROWS; ++r) {
    printf("row %d: %g\n", r, (double)sums[r]);
    EXPECT(sums[r] == (float)((r + 1) * COLUMNS));
  }
  CL_CHECK(clReleaseEvent(written));
  clade_device_release(device);

  /* The program's objects are still valid after Clade has released its own. */
  float back[ROWS * COLUMNS];
  CL_CHECK(clEnqueueReadBuffer(o.queue, o.memory, CL_TRUE, OFFSET, sizeof back, back, 0, NULL, NULL));
  EXPECT(!memcmp(values, back, sizeof back));
  CL_CHECK(clReleaseMemObject(o.memory));
  CL_CHECK(clReleaseCommandQueue(o.queue));
  CL_CHECK(clReleaseContext(o.context));
  return 0;
}
