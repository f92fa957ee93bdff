/* Device memory: buffers within the device's byte budget, backed by physical memory when they are returned, pooled
 * when they are released. */
#include "cl/internal.h"

#include <inttypes.h>

struct clade__buffer {
  clade__ref ref;
  clade_device *device;
  cl_mem memory;
  size_t bytes;    /* requested size */
  size_t capacity; /* size of the OpenCL buffer, charged to the budget; 0: adopted */
  clade__buffer *next;
};

enum { SMALLEST = 256, STEPS = 8, HUGE_BYTES = 64 << 20, HUGE_STEP = 2 << 20 };

/* Eight size classes per power of two limit the waste of pooled buffers to an eighth. Huge buffers have finer
 * classes. */
static bool class_of(const clade_device *device, size_t bytes, size_t *capacity) {
  size_t step = CLADE_MAX(device->facts.info.alignment, (uint32_t)SMALLEST), power = 1;
  if (bytes > HUGE_BYTES) return clade__round_up(bytes, HUGE_STEP, capacity);
  while (power * 2 <= bytes) power *= 2;
  step = CLADE_MAX(step, power / STEPS);
  return clade__round_up(CLADE_MAX(bytes, (size_t)1), step, capacity);
}

/* ---- the pool ---- */
static void destroy(clade__buffer *buffer) {
  if (buffer->memory) CLADE__UNDO(clReleaseMemObject, buffer->memory);
  clade__free(buffer);
}

/* Removes buffers from the pool until `bytes` fit into the budget. Caller holds the lock. */
static clade__buffer *unpool(clade_device *device, uint64_t bytes) {
  clade__buffer *taken = NULL;
  while (device->pool && (bytes > device->allowed || device->used > device->allowed - bytes)) {
    clade__buffer *b = device->pool;
    device->pool = b->next;
    device->pooled -= b->capacity;
    device->used -= b->capacity;
    b->next = taken;
    taken = b;
  }
  return taken;
}

static bool destroy_all(clade__buffer *list) {
  bool any = list != NULL;
  for (clade__buffer *b = list, *next; b; b = next) {
    next = b->next;
    destroy(b);
  }
  return any;
}

bool clade__pool_trim(clade_device *device, uint64_t bytes) {
  pthread_mutex_lock(&device->memory_lock);
  clade__buffer *taken = unpool(device, bytes);
  pthread_mutex_unlock(&device->memory_lock);
  return destroy_all(taken);
}

void clade__memory_forget(clade_device *device, uint64_t peak) {
  clade__pool_trim(device, UINT64_MAX);
  pthread_mutex_lock(&device->memory_lock);
  device->peak = CLADE_MAX(peak, device->used);
  pthread_mutex_unlock(&device->memory_lock);
}

/* ---- spare buffers, which their owners can drop ---- */
void clade__spare_add(clade_device *device, clade__spare *spare) {
  pthread_mutex_lock(&device->spare_lock);
  spare->next = device->spares;
  device->spares = spare;
  pthread_mutex_unlock(&device->spare_lock);
}

void clade__spare_remove(clade_device *device, clade__spare *spare) {
  pthread_mutex_lock(&device->spare_lock);
  clade__spare **at = &device->spares;
  while (*at && *at != spare) at = &(*at)->next;
  if (*at) *at = spare->next;
  pthread_mutex_unlock(&device->spare_lock);
}

/* Dropped buffers go to the pool. */
static bool drop_spares(clade_device *device) {
  bool any = false;
  pthread_mutex_lock(&device->spare_lock);
  for (clade__spare *s = device->spares; s; s = s->next) any |= s->drop(s->user, device);
  pthread_mutex_unlock(&device->spare_lock);
  return any;
}

/* Best fit that wastes at most an eighth. Caller holds the lock. */
static clade__buffer *reuse(clade_device *device, size_t capacity) {
  clade__buffer **best = NULL;
  for (clade__buffer **at = &device->pool; *at; at = &(*at)->next) {
    size_t has = (*at)->capacity;
    if (has >= capacity && has - capacity <= capacity / STEPS && (!best || has < (*best)->capacity)) best = at;
  }
  if (!best) return NULL;
  clade__buffer *b = *best;
  *best = b->next;
  device->pooled -= b->capacity;
  return b;
}

/* ---- allocation ---- */
static clade_status refuse(clade_device *device, size_t bytes, const char *what, uint64_t used) {
  return CLADE_FAIL(DEVICE_MEMORY, "%s: %zu bytes asked, %" PRIu64 " used, %" PRIu64 " allowed on device \"%s\"", what,
                    bytes, used, device->allowed, device->facts.label);
}

/* Charges the budget, or takes a pooled buffer. Available host memory is checked first, since the OS overcommits:
 * exceeding it would kill the process on first touch. */
static clade_status reserve(clade_device *device, size_t bytes, size_t capacity, const char *what,
                            clade__buffer **pooled) {
  uint64_t available = UINT64_MAX;
  if (device->facts.info.device_class == CLADE_CPU && capacity >= HUGE_BYTES / 4) available = clade__host_available();
  pthread_mutex_lock(&device->memory_lock);
  clade__buffer *dropped = NULL;
  clade_status status = CLADE_OK;
  *pooled = reuse(device, capacity);
  if (!*pooled) {
    dropped = unpool(device, capacity);
    if (capacity > device->allowed || device->used > device->allowed - capacity) {
      status = refuse(device, bytes, what, device->used);
    } else if (capacity > available) {
      status = CLADE_FAIL(DEVICE_MEMORY, "%s: %zu bytes asked, but the machine has %" PRIu64 " available", what, bytes,
                          available);
    } else {
      device->used += capacity;
      device->peak = CLADE_MAX(device->peak, device->used);
    }
  }
  pthread_mutex_unlock(&device->memory_lock);
  destroy_all(dropped);
  return status;
}

static void unreserve(clade_device *device, size_t capacity) {
  pthread_mutex_lock(&device->memory_lock);
  device->used -= capacity;
  pthread_mutex_unlock(&device->memory_lock);
}

/* Implementations allocate lazily, so fill the whole buffer. */
static clade_status back(clade_device *device, clade__buffer *buffer) {
  static const unsigned char zero[16];
  cl_event event = NULL;
  clade__queue *queue;
  CLADE_TRY(clade__transfer(device, &queue));
  clade__buffer whole = *buffer;
  whole.bytes = buffer->capacity;
  CLADE_TRY(clade__queue_fill(queue, &whole, 0, whole.bytes, zero, sizeof zero, (clade__wait){0}, &event));
  clade_status status = clade__queue_flush(queue);
  if (status == CLADE_OK) status = clade__event_wait(device, event);
  clade__event_release(event);
  return status;
}

static clade_status create(clade_device *device, clade__buffer *buffer) {
  cl_int e = CL_SUCCESS;
  buffer->memory = clade__cl.clCreateBuffer(device->context, CL_MEM_READ_WRITE, buffer->capacity, NULL, &e);
  if (e) buffer->memory = NULL;
  clade_status status = clade__cl_made(device, "clCreateBuffer", buffer->memory, e);
  if (status == CLADE_OK) clade__huge_pages(device, buffer->memory, buffer->capacity);
  if (status == CLADE_OK) status = back(device, buffer);
  if (status != CLADE_OK && buffer->memory) {
    CLADE__UNDO(clReleaseMemObject, buffer->memory);
    buffer->memory = NULL;
  }
  return status;
}

static clade_status create_fresh(clade_device *device, size_t capacity, clade__buffer **out) {
  clade__buffer *buffer = clade__new(1, sizeof *buffer);
  if (!buffer) return CLADE_NO_MEMORY;
  buffer->capacity = capacity;
  clade_status status = create(device, buffer);
  bool again = status != CLADE_OK && status != CLADE_LOST;
  if (again) { /* retry after freeing pooled and spare buffers */
    bool spared = drop_spares(device);
    again = clade__pool_trim(device, UINT64_MAX) || spared;
  }
  if (again) {
    clade__log(CLADE_LOG_WARNING, "%s; pooled memory was given back, and it is tried again", clade_last_error());
    status = create(device, buffer);
  }
  if (status != CLADE_OK) {
    clade__free(buffer);
    return status;
  }
  *out = buffer;
  return CLADE_OK;
}

static clade_status size_of(clade_device *device, size_t bytes, const char *what, size_t *capacity) {
  uint64_t most = device->facts.info.max_buffer_bytes;
  if (bytes > most) {
    clade_memory_use use = {.size = sizeof use};
    CLADE_TRY(clade_device_memory(device, &use));
    return CLADE_FAIL(DEVICE_MEMORY,
                      "%s: %zu bytes asked, %" PRIu64 " used, %" PRIu64 " allowed in one buffer on device \"%s\"", what,
                      bytes, use.used, most, device->facts.label);
  }
  if (!class_of(device, bytes, capacity)) return CLADE_FAIL(OVERFLOW, "%s: %zu bytes asked", what, bytes);
  if (*capacity > most && !clade__round_up(bytes, 16, capacity)) return CLADE_OVERFLOW;
  if (*capacity > most) *capacity = bytes;
  return CLADE_OK;
}

clade_status clade__buffer_new(clade_device *device, size_t bytes, const char *what, clade__buffer **out) {
  size_t capacity = 0;
  clade__buffer *buffer = NULL;
  *out = NULL;
  CLADE_TRY(clade__device_check(device, what));
  CLADE_TRY(size_of(device, bytes, what, &capacity));
  clade_status reserved = reserve(device, bytes, capacity, what, &buffer);
  if (reserved == CLADE_DEVICE_MEMORY && drop_spares(device))
    reserved = reserve(device, bytes, capacity, what, &buffer);
  CLADE_TRY(reserved);
  if (!buffer) {
    clade_status status = create_fresh(device, capacity, &buffer);
    if (status != CLADE_OK) {
      unreserve(device, capacity);
      return clade__fail_in(status, "%s: %zu bytes on device \"%s\"", what, bytes, device->facts.label);
    }
  }
  clade__ref_init(&buffer->ref);
  buffer->bytes = bytes;
  buffer->next = NULL;
  buffer->device = clade_device_retain(device);
  *out = buffer;
  return CLADE_OK;
}

static clade_status check_adopted(clade_device *device, cl_mem memory, size_t *bytes) {
  cl_context context = NULL;
  CLADE__CALL(device, clGetMemObjectInfo, memory, CL_MEM_CONTEXT, sizeof(cl_context), &context, NULL);
  CLADE__CALL(device, clGetMemObjectInfo, memory, CL_MEM_SIZE, sizeof *bytes, bytes, NULL);
  if (context == device->context) return CLADE_OK;
  return CLADE_FAIL(INVALID, "the memory belongs to another context than device \"%s\"", device->facts.label);
}

clade_status clade__buffer_adopt(clade_device *device, cl_mem memory, clade__buffer **out) {
  size_t bytes = 0;
  *out = NULL;
  CLADE_TRY(clade__device_check(device, "clade__buffer_adopt"));
  if (!memory) return CLADE_FAIL(INVALID, "the memory is NULL");
  CLADE_TRY(check_adopted(device, memory, &bytes));
  clade__buffer *buffer = clade__new(1, sizeof *buffer);
  if (!buffer) return CLADE_NO_MEMORY;
  cl_int e = clade__cl.clRetainMemObject(memory);
  if (e) {
    clade__free(buffer);
    return clade__cl_error(device, "clRetainMemObject", e);
  }
  clade__ref_init(&buffer->ref);
  buffer->memory = memory;
  buffer->bytes = bytes;
  buffer->device = clade_device_retain(device);
  *out = buffer;
  return CLADE_OK;
}

clade__buffer *clade__buffer_retain(clade__buffer *buffer) {
  if (buffer) clade__ref_up(&buffer->ref);
  return buffer;
}

/* The pool holds at most a quarter of the budget. */
static bool pool(clade_device *device, clade__buffer *buffer) {
  bool keep = false;
  pthread_mutex_lock(&device->memory_lock);
  if (buffer->capacity) {
    keep = !atomic_load(&device->lost) && device->used <= device->allowed &&
           device->pooled + buffer->capacity <= device->allowed / 4;
    if (keep) {
      buffer->next = device->pool;
      device->pool = buffer;
      device->pooled += buffer->capacity;
    } else {
      device->used -= buffer->capacity;
    }
  }
  pthread_mutex_unlock(&device->memory_lock);
  return keep;
}

void clade__buffer_release(clade__buffer *buffer) {
  if (!buffer || atomic_load(&clade__forked) || !clade__ref_down(&buffer->ref)) return;
  clade_device *device = buffer->device;
  if (!pool(device, buffer)) destroy(buffer);
  clade_device_release(device);
}

cl_mem clade__buffer_mem(const clade__buffer *buffer) { return buffer->memory; }
size_t clade__buffer_bytes(const clade__buffer *buffer) { return buffer->bytes; }
clade_device *clade__buffer_device(const clade__buffer *buffer) { return buffer->device; }
