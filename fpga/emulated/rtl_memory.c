/* The accelerator's buffers in order of creation. PoCL sorts the buffers of a native kernel in this way, but not the
 * locations to which it writes their addresses, so they must be passed in this order. */
#include <pthread.h>

#include "rtl.h"

#define next emulated_next

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cl_mem *memories;
static size_t count, capacity;

static size_t find(cl_mem memory) {
  size_t i = 0;
  while (i < count && memories[i] != memory) i++;
  return i;
}

static void append(cl_mem memory) {
  size_t at = find(memory);
  if (at < count) memmove(memories + at, memories + at + 1, (--count - at) * sizeof(cl_mem));
  memories[count++] = memory;
}

/* Creation and registration in one critical section, so that both orders agree. */
static cl_mem create(cl_context in, const cl_mem_properties *how, bool has_properties, cl_mem_flags flags, size_t bytes,
                     void *host, cl_int *errcode) {
  cl_mem memory = NULL;
  pthread_mutex_lock(&lock);
  bool room = emulated_grow(&memories, count, &capacity, sizeof *memories);
  if (room && has_properties)
    memory = next->clCreateBufferWithProperties(in, how, flags, bytes, host, errcode);
  else if (room)
    memory = next->clCreateBuffer(in, flags, bytes, host, errcode);
  else if (errcode)
    *errcode = CL_OUT_OF_HOST_MEMORY;
  if (memory) append(memory);
  pthread_mutex_unlock(&lock);
  return memory;
}

static cl_mem CL_API_CALL create_buffer(cl_context in, cl_mem_flags flags, size_t bytes, void *host, cl_int *errcode) {
  if (!emulated_owns(in)) return next->clCreateBuffer(in, flags, bytes, host, errcode);
  return create(in, NULL, false, flags, bytes, host, errcode);
}

static cl_mem CL_API_CALL create_buffer_with(cl_context in, const cl_mem_properties *how, cl_mem_flags flags,
                                             size_t bytes, void *host, cl_int *errcode) {
  if (!emulated_owns(in)) return next->clCreateBufferWithProperties(in, how, flags, bytes, host, errcode);
  return create(in, how, true, flags, bytes, host, errcode);
}

size_t rtl_age(cl_mem memory) {
  pthread_mutex_lock(&lock);
  size_t age = find(memory);
  pthread_mutex_unlock(&lock);
  return age;
}

void rtl_memories(cl_icd_dispatch *mine) {
  mine->clCreateBuffer = create_buffer;
  mine->clCreateBufferWithProperties = create_buffer_with;
}
