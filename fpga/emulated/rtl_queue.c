/* Launches of array_i8 on the accelerator: arguments are recorded, and a native kernel of PoCL's is enqueued, so that
 * order, waiting, events and failures follow its queues. */
#include "rtl.h"

#include <pthread.h>

#define next emulated_next

const char emulated_name[] = "Clade emulated accelerator (array_i8: RTL, other kernels: PoCL)";

/* ---- kernels ---- */
enum arguments {
#define TENSOR(type, name, access) +2
#define VALUE(type, name)          +1
#define KERNEL(name, ...)          ARGUMENTS_##name = 0 __VA_ARGS__,
#include "interface.def"
#undef TENSOR
#undef VALUE
};

typedef struct record {
  cl_kernel kernel;
  bool is_array;
  uint32_t set; /* one bit per argument */
  struct rtl_array_i8 given;
} record;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static record *records;
static size_t count, capacity;

static record *find(cl_kernel kernel) {
  for (size_t i = 0; i < count; i++)
    if (records[i].kernel == kernel) return &records[i];
  return NULL;
}

static record *room_for(cl_kernel kernel) {
  record *r = find(kernel);
  if (r || !emulated_grow(&records, count, &capacity, sizeof *records)) return r;
  records[count] = (record){.kernel = kernel};
  return &records[count++];
}

static bool is_array(cl_kernel kernel) {
  cl_context in = NULL;
  char name[16] = "";
  cl_uint n = 0;
  return next->clGetKernelInfo(kernel, CL_KERNEL_CONTEXT, sizeof in, &in, NULL) == CL_SUCCESS && emulated_owns(in) &&
         next->clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name, name, NULL) == CL_SUCCESS &&
         strcmp(name, "array_i8") == 0 &&
         next->clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof n, &n, NULL) == CL_SUCCESS && n == ARGUMENTS_array_i8;
}

/* `like`: the kernel that it was cloned from, or NULL. False: no memory. */
static bool note(cl_kernel kernel, cl_kernel like) {
  bool array = is_array(kernel);
  pthread_mutex_lock(&lock);
  record *r = room_for(kernel), *from = like ? find(like) : NULL;
  if (r) {
    *r = from ? *from : (record){.is_array = array};
    r->kernel = kernel;
  }
  pthread_mutex_unlock(&lock);
  return r != NULL;
}

static cl_kernel noted(cl_kernel kernel, cl_kernel like, cl_int *errcode) {
  if (!kernel || note(kernel, like)) return kernel;
  next->clReleaseKernel(kernel);
  if (errcode) *errcode = CL_OUT_OF_HOST_MEMORY;
  return NULL;
}

static cl_kernel CL_API_CALL create_kernel(cl_program program, const char *name, cl_int *errcode) {
  return noted(next->clCreateKernel(program, name, errcode), NULL, errcode);
}

static cl_kernel CL_API_CALL clone_kernel(cl_kernel of, cl_int *errcode) {
  return noted(next->clCloneKernel(of, errcode), of, errcode);
}

static cl_int CL_API_CALL create_kernels(cl_program program, cl_uint room, cl_kernel *out, cl_uint *told) {
  cl_uint n = 0;
  cl_int error = next->clCreateKernelsInProgram(program, room, out, &n);
  if (told) *told = n;
  if (error != CL_SUCCESS || !out) return error;
  cl_uint done = 0;
  while (done < n && note(out[done], NULL)) done++;
  for (cl_uint i = 0; i < n && done < n; i++) next->clReleaseKernel(out[i]);
  return done < n ? CL_OUT_OF_HOST_MEMORY : CL_SUCCESS;
}

/* ---- arguments ---- */
static bool put(void *to, size_t size, size_t bytes, const void *value) {
  if (bytes != size) return false;
  if (value)
    memcpy(to, value, bytes);
  else
    memset(to, 0, bytes); /* a NULL tensor */
  return true;
}

#define TENSOR(type, name, access)                                        \
  if (index == i++) return put(&to->name, sizeof to->name, bytes, value); \
  if (index == i++) return put(to->name##_at, sizeof to->name##_at, bytes, value);
#define VALUE(type, name) \
  if (index == i++) return put(to->name, sizeof to->name, bytes, value);
#define KERNEL(name, ...)                                                                                \
  static inline bool put_##name(struct rtl_##name *to, cl_uint index, size_t bytes, const void *value) { \
    cl_uint i = 0;                                                                                       \
    __VA_ARGS__                                                                                          \
    return false;                                                                                        \
  }
#include "interface.def"
#undef TENSOR
#undef VALUE

static cl_int CL_API_CALL set_argument(cl_kernel kernel, cl_uint index, size_t bytes, const void *value) {
  cl_int error = next->clSetKernelArg(kernel, index, bytes, value);
  if (error != CL_SUCCESS) return error;
  pthread_mutex_lock(&lock);
  record *r = find(kernel);
  if (r && r->is_array) {
    if (put_array_i8(&r->given, index, bytes, value))
      r->set |= 1u << index;
    else
      error = CL_INVALID_ARG_SIZE;
  }
  pthread_mutex_unlock(&lock);
  return error;
}

/* ---- launches ---- */
/* The buffer that holds a tensor: for a sub-buffer, its parent. */
static cl_int place(rtl_launch *l, unsigned tensor, cl_mem mem, cl_mem *whole) {
  *whole = mem;
  if (!mem) return CL_SUCCESS;
  cl_mem parent = NULL;
  cl_int error = next->clGetMemObjectInfo(mem, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof parent, &parent, NULL);
  if (parent) *whole = parent;
  if (error != CL_SUCCESS) return error;
  return next->clGetMemObjectInfo(mem, CL_MEM_OFFSET, sizeof(size_t), &l->tensor[tensor].offset, NULL);
}

/* Each buffer once, oldest first. */
static cl_uint sorted(const cl_mem in[RTL_TENSORS], cl_mem list[RTL_TENSORS]) {
  cl_uint n = 0;
  for (unsigned i = 0; i < RTL_TENSORS; i++) {
    cl_uint at = 0, to = n;
    while (in[i] && at < n && rtl_age(list[at]) < rtl_age(in[i])) at++;
    if (!in[i] || (at < n && list[at] == in[i])) continue;
    for (n++; to > at; to--) list[to] = list[to - 1];
    list[at] = in[i];
  }
  return n;
}

static cl_int enqueue(cl_command_queue queue, const record *r, cl_uint n_wait, const cl_event *wait, cl_event *event) {
  cl_context in = NULL, on = NULL;
  rtl_launch l = {.given = r->given};
  const cl_mem mem[RTL_TENSORS] = {l.given.a, l.given.s, l.given.y, l.given.e0, l.given.e1, l.given.e2};
  cl_mem whole[RTL_TENSORS], list[RTL_TENSORS];
  const void *where[RTL_TENSORS];
  if (next->clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof on, &on, NULL) != CL_SUCCESS)
    return CL_INVALID_COMMAND_QUEUE;
  cl_int error = next->clGetKernelInfo(r->kernel, CL_KERNEL_CONTEXT, sizeof in, &in, NULL);
  if (error == CL_SUCCESS && in != on) error = CL_INVALID_CONTEXT;
  if (error == CL_SUCCESS && r->set != (1u << ARGUMENTS_array_i8) - 1) error = CL_INVALID_KERNEL_ARGS;
  for (unsigned i = 0; i < RTL_TENSORS && error == CL_SUCCESS; i++) error = place(&l, i, mem[i], &whole[i]);
  if (error != CL_SUCCESS) return error;
  const cl_uint n = l.memories = sorted(whole, list);
  for (cl_uint i = 0; i < n; i++) where[i] = &l.memory[i];
  for (unsigned i = 0; i < RTL_TENSORS; i++)
    for (l.tensor[i].memory = 0; l.tensor[i].memory < n && list[l.tensor[i].memory] != whole[i];) l.tensor[i].memory++;
  error = rtl_accepts(&l);
  if (error != CL_SUCCESS) return error;
  return next->clEnqueueNativeKernel(queue, rtl_compute, &l, sizeof l, n, n ? list : NULL, n ? where : NULL, n_wait,
                                     wait, event);
}

/* A copy of the kernel's current arguments; false: PoCL computes the kernel. */
static bool taken(cl_kernel kernel, record *out) {
  pthread_mutex_lock(&lock);
  const record *r = find(kernel);
  bool array = r && r->is_array;
  if (array) *out = *r;
  pthread_mutex_unlock(&lock);
  return array;
}

/* The range must be a single work-item. */
static cl_int check_range(cl_uint n, const size_t *global, const size_t *local) {
  if (n < 1 || n > 3) return CL_INVALID_WORK_DIMENSION;
  for (cl_uint i = 0; i < n; i++)
    if (!global || global[i] != 1) return CL_INVALID_GLOBAL_WORK_SIZE;
  for (cl_uint i = 0; local && i < n; i++)
    if (local[i] != 1) return CL_INVALID_WORK_GROUP_SIZE;
  return CL_SUCCESS;
}

static cl_int CL_API_CALL enqueue_range(cl_command_queue queue, cl_kernel kernel, cl_uint n, const size_t *offset,
                                        const size_t *global, const size_t *local, cl_uint n_wait, const cl_event *wait,
                                        cl_event *event) {
  record r;
  if (!taken(kernel, &r))
    return next->clEnqueueNDRangeKernel(queue, kernel, n, offset, global, local, n_wait, wait, event);
  cl_int error = check_range(n, global, local);
  return error == CL_SUCCESS ? enqueue(queue, &r, n_wait, wait, event) : error;
}

static cl_int CL_API_CALL enqueue_task(cl_command_queue queue, cl_kernel kernel, cl_uint n_wait, const cl_event *wait,
                                       cl_event *event) {
  record r;
  if (!taken(kernel, &r)) return next->clEnqueueTask(queue, kernel, n_wait, wait, event);
  return enqueue(queue, &r, n_wait, wait, event);
}

/* All native kernels of the accelerator are launches, since it accepts no others. */
static cl_int CL_API_CALL get_event_info(cl_event of, cl_event_info what, size_t room, void *out, size_t *told) {
  const cl_command_type launch = CL_COMMAND_NDRANGE_KERNEL;
  cl_command_type type = 0;
  cl_context in = NULL;
  if (what == CL_EVENT_COMMAND_TYPE && next->clGetEventInfo(of, CL_EVENT_CONTEXT, sizeof in, &in, NULL) == CL_SUCCESS &&
      emulated_owns(in) && next->clGetEventInfo(of, CL_EVENT_COMMAND_TYPE, sizeof type, &type, NULL) == CL_SUCCESS &&
      type == CL_COMMAND_NATIVE_KERNEL)
    return emulated_tell(&launch, sizeof launch, room, out, told);
  return next->clGetEventInfo(of, what, room, out, told);
}

void emulated_launches(cl_icd_dispatch *mine) {
  rtl_memories(mine);
  mine->clCreateKernel = create_kernel;
  mine->clCreateKernelsInProgram = create_kernels;
  mine->clCloneKernel = clone_kernel;
  mine->clSetKernelArg = set_argument;
  mine->clEnqueueNDRangeKernel = enqueue_range;
  mine->clEnqueueTask = enqueue_task;
  mine->clGetEventInfo = get_event_info;
}
