/* A program's own OpenCL objects that do not fit the call that they are passed to. */
#include "cl/internal.h"
#include "cl_unit.h"

#include <clade/clade.h>

typedef struct kit {
  clade_device *device; /* in the program's own context */
  cl_context context, other;
  cl_command_queue queue, other_queue, unordered;
  cl_mem memory, other_memory; /* 64 bytes each */
  clade_func *func;            /* y = relu(x), f32[8] */
} kit;

static cl_mem buffer(cl_context context) {
  cl_int e;
  cl_mem m = clade__cl.clCreateBuffer(context, CL_MEM_READ_WRITE, 64, NULL, &e);
  assert_int_equal(e, CL_SUCCESS);
  return m;
}

static cl_command_queue queue(cl_context context, cl_device_id id, cl_command_queue_properties how) {
  cl_int e;
  cl_command_queue q = clade__cl.clCreateCommandQueue(context, id, how, &e);
  assert_int_equal(e, CL_SUCCESS);
  return q;
}

static int set_up(void **state) {
  static kit k;
  clade_device *listed;
  clade_graph *g;
  cl_int e;
  check_ok(clade_device_find("pocl", &listed));
  cl_device_id id = clade_device_cl_id(listed);
  k.context = clade__cl.clCreateContext(NULL, 1, &id, NULL, NULL, &e);
  k.other = clade__cl.clCreateContext(NULL, 1, &id, NULL, NULL, &e);
  check_ok(clade_device_adopt(k.context, id, &k.device));
  k.queue = queue(k.context, id, 0);
  k.other_queue = queue(k.other, id, 0);
  k.unordered = queue(k.context, id, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
  k.memory = buffer(k.context);
  k.other_memory = buffer(k.other);
  clade_device_release(listed);
  check_ok(clade_graph_new(&g));
  clade_output(g, "y", clade_relu(g, clade_input(g, "x", CLADE_F32, CLADE_SHAPE(8))));
  check_ok(clade_compile(g, k.device, &k.func));
  clade_graph_release(g);
  *state = &k;
  return 0;
}

static int tear_down(void **state) {
  kit *k = *state;
  clade_func_release(k->func);
  clade_device_release(k->device);
  clade__cl.clReleaseMemObject(k->memory);
  clade__cl.clReleaseMemObject(k->other_memory);
  clade__cl.clReleaseCommandQueue(k->queue);
  clade__cl.clReleaseCommandQueue(k->other_queue);
  clade__cl.clReleaseCommandQueue(k->unordered);
  clade__cl.clReleaseContext(k->context);
  clade__cl.clReleaseContext(k->other);
  return 0;
}

static void wrapping(void **state) {
  kit *k = *state;
  clade_tensor *t = NULL;
  const clade_shape eight = CLADE_SHAPE(8);
  check_fails(clade_tensor_wrap(k->device, NULL, 0, CLADE_F32, eight, &t), CLADE_INVALID, "memory is NULL");
  check_fails(clade_tensor_wrap(k->device, k->memory, 0, CLADE_F32, eight, NULL), CLADE_INVALID, "out is NULL");
  check_fails(clade_tensor_wrap(k->device, k->memory, 2, CLADE_F32, eight, &t), CLADE_INVALID,
              "offset 2 is no multiple of the element's 4 bytes");
  check_fails(clade_tensor_wrap(k->device, k->memory, 36, CLADE_F32, eight, &t), CLADE_INVALID,
              "32 bytes from 36 on, of a buffer of 64");
  check_fails(clade_tensor_wrap(k->device, k->memory, SIZE_MAX - 3, CLADE_F32, eight, &t), CLADE_INVALID,
              "of a buffer of 64");
  check_fails(clade_tensor_wrap(k->device, k->memory, 0, CLADE_F32, CLADE_SHAPE(17), &t), CLADE_INVALID,
              "68 bytes from 0 on, of a buffer of 64");
  check_fails(clade_tensor_wrap(k->device, k->memory, 0, (clade_dtype)99, eight, &t), CLADE_DTYPE, "99 is not");
  check_fails(clade_tensor_wrap(k->device, k->memory, 0, CLADE_F32, CLADE_SHAPE(-8), &t), CLADE_BAD_SHAPE, "negative");
  check_fails(clade_tensor_wrap(k->device, k->other_memory, 0, CLADE_F32, eight, &t), CLADE_INVALID, "context");
  assert_null(t);
  check_ok(clade_tensor_wrap(k->device, k->memory, 32, CLADE_F32, eight, &t));
  clade_tensor_release(t);
}

static void adopting(void **state) {
  kit *k = *state;
  clade_device *device = NULL;
  cl_device_id id = clade_device_cl_id(k->device);
  check_fails(clade_device_adopt(k->context, NULL, &device), CLADE_INVALID, "id is NULL");
  check_fails(clade_device_adopt(k->context, id, NULL), CLADE_INVALID, "out is NULL");
  check_fails(clade_device_adopt(NULL, id, &device), CLADE_INVALID, "context is NULL");
  assert_null(device);
}

static void queues(void **state) {
  kit *k = *state;
  clade_run *run = NULL;
  clade_run_opt opt = {.size = sizeof opt, .out = &run}, nowhere = {.size = sizeof opt};
  check_fails(clade_run_new_on(k->func, NULL, NULL, &opt), CLADE_INVALID, "queue is NULL");
  check_fails(clade_run_new_on(NULL, NULL, k->queue, &opt), CLADE_INVALID, "func is NULL");
  check_fails(clade_run_new_on(k->func, NULL, k->queue, &nowhere), CLADE_INVALID, "no place for the run");
  check_fails(clade_run_new_on(k->func, NULL, k->queue, NULL), CLADE_INVALID, "no place for the run");
  check_fails(clade_run_new_on(k->func, NULL, k->other_queue, &opt), CLADE_INVALID, "belongs to another context");
  check_fails(clade_run_new_on(k->func, NULL, k->unordered, &opt), CLADE_INVALID, "in-order queue is expected");
  assert_null(run);
}

static void events(void **state) {
  kit *k = *state;
  clade_run *run;
  clade_run_opt opt = {.size = sizeof opt, .out = &run};
  clade_ticket ticket;
  float x[8] = {-1, 1}, y[8];
  cl_int e;
  cl_event foreign = clade__cl.clCreateUserEvent(k->other, &e), none = NULL, done;
  check_ok(clade_run_new_on(k->func, NULL, k->queue, &opt));
  const clade_feed feed = {"x", x, sizeof x, NULL};
  check_fails(clade_execute_after(run, 1, &feed, 2, NULL, &ticket, &done), CLADE_INVALID, "2 events, the list is NULL");
  check_fails(clade_execute_after(run, 1, &feed, 0, &none, &ticket, &done), CLADE_INVALID, "0 events");
  check_fails(clade_execute_after(run, 1, &feed, 1, &none, &ticket, &done), CLADE_INVALID, "event 0 is NULL");
  assert_null(done);
  check_fails(clade_execute_after(run, 1, &feed, 1, &foreign, &ticket, &done), CLADE_INVALID,
              "event 0 belongs to another context");
  check_fails(clade_execute_after(run, 0, NULL, 0, NULL, &ticket, &done), CLADE_INVALID, "input x is not fed");
  check_ok(clade_run_status(run)); /* none of the calls counted as an execution */
  check_ok(clade_execute_after(run, 1, &feed, 0, NULL, &ticket, &done));
  assert_true(ticket != 0);
  check_ok(clade_read(run, ticket, "y", y, sizeof y));
  assert_true(y[0] == 0 && y[1] == 1);
  clade__cl.clReleaseEvent(done);
  clade__cl.clSetUserEventStatus(foreign, CL_COMPLETE);
  clade__cl.clReleaseEvent(foreign);
  clade_run_free(run);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(wrapping),
      cmocka_unit_test(adopting),
      cmocka_unit_test(queues),
      cmocka_unit_test(events),
  };
  return cmocka_run_group_tests_name("bad_opencl", tests, set_up, tear_down);
}
