/* Events: waiting, polling, callbacks, profiling times and user events. */
#include <sched.h>
#include <time.h>

#include "cl/internal.h"

/* Execution status: 0 complete, positive pending, negative an error. */
static clade_status state_of(clade_device *device, cl_event event, cl_int *state) {
  CLADE__CALL(device, clGetEventInfo, event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof *state, state, NULL);
  return CLADE_OK;
}

/* The status is an error code, but only -1 if a command in its wait list failed. */
static clade_status failed(clade_device *device, cl_int state) {
  if (state == CL_DEVICE_NOT_FOUND || state == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
    return CLADE_FAIL(OPENCL, "a command failed because one that it waited for had failed (%d) [%s]", (int)state,
                      device->facts.label);
  clade_status status = clade__cl_error(device, "a command failed", state);
  return status == CLADE_LOST || status == CLADE_DEVICE_MEMORY || status == CLADE_NO_MEMORY ? status : CLADE_OPENCL;
}

static clade_status check(clade_device *device, cl_event event, const char *function) {
  CLADE_TRY(clade__device_check(device, function));
  return event ? CLADE_OK : CLADE_FAIL(INVALID, "%s: the event is NULL", function);
}

clade_status clade__event_wait(clade_device *device, cl_event event) {
  cl_int state = 0;
  CLADE_TRY(check(device, event, "clade__event_wait"));
  cl_int e = clade__cl.clWaitForEvents(1, &event);
  if (e == CL_SUCCESS) return CLADE_OK;
  if (e != CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST) return clade__cl_error(device, "clWaitForEvents", e);
  CLADE_TRY(state_of(device, event, &state));
  return clade__fail_in(failed(device, state < 0 ? state : e), "clWaitForEvents");
}

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

clade_status clade__event_wait_awake(clade_device *device, cl_event event, bool *late) {
  enum { WORTH = 4000000, LEAST = WORTH / 8 }; /* longest and shortest spin in ns */
  const int64_t begin = now(), until = begin + (*late ? LEAST : WORTH);
  cl_int state = CL_QUEUED;
  while (now() < until && state_of(device, event, &state) == CLADE_OK && state > CL_COMPLETE)
    sched_yield(); /* the awaited thread may need this processor */
  clade_status status = clade__event_wait(device, event);
  *late = now() - begin > WORTH;
  return status;
}

clade_status clade__event_poll(clade_device *device, cl_event event, int *finished) {
  cl_int state = 0;
  *finished = 0;
  CLADE_TRY(check(device, event, "clade__event_poll"));
  CLADE_TRY(state_of(device, event, &state));
  if (state < 0) return failed(device, state);
  *finished = state == CL_COMPLETE;
  return CLADE_OK;
}

clade_status clade__events_check(clade_device *device, clade__wait wait, const char *function) {
  for (cl_uint i = 0; i < wait.n; i++) {
    cl_context context = NULL;
    if (!wait.events[i]) return CLADE_FAIL(INVALID, "%s: event %u is NULL", function, i);
    CLADE__CALL(device, clGetEventInfo, wait.events[i], CL_EVENT_CONTEXT, sizeof(cl_context), &context, NULL);
    if (context != device->context)
      return CLADE_FAIL(INVALID, "%s: event %u belongs to another context than device \"%s\"", function, i,
                        device->facts.label);
  }
  return CLADE_OK;
}

clade_status clade__event_retain(clade_device *device, cl_event event) {
  CLADE_TRY(check(device, event, "clade__event_retain"));
  CLADE__CALL(device, clRetainEvent, event);
  return CLADE_OK;
}

void clade__event_release(cl_event event) {
  if (event && !atomic_load(&clade__forked)) CLADE__UNDO(clReleaseEvent, event);
}

/* ---- callbacks ---- */
/* Records are reused and never freed, so that the steady state allocates nothing. */
typedef struct notice {
  void (*fn)(void *);
  void *user;
  struct notice *next;
} notice;
static pthread_mutex_t notices_lock = PTHREAD_MUTEX_INITIALIZER;
static notice *free_notices;
static size_t made, reserved;

static notice *take_notice(void) {
  pthread_mutex_lock(&notices_lock);
  notice *n = free_notices;
  if (n) free_notices = n->next;
  pthread_mutex_unlock(&notices_lock);
  return n ? n : clade__new(1, sizeof(notice));
}

static void give_notice(notice *n) {
  pthread_mutex_lock(&notices_lock);
  n->next = free_notices;
  free_notices = n;
  pthread_mutex_unlock(&notices_lock);
}

clade_status clade__event_reserve(size_t n) {
  pthread_mutex_lock(&notices_lock);
  while (made < reserved + n) {
    notice *one = clade__new(1, sizeof *one);
    if (!one) break;
    one->next = free_notices;
    free_notices = one;
    made++;
  }
  const bool enough = made >= reserved + n;
  if (enough) reserved += n;
  pthread_mutex_unlock(&notices_lock);
  return enough ? CLADE_OK : CLADE_NO_MEMORY;
}

void clade__event_unreserve(size_t n) {
  pthread_mutex_lock(&notices_lock);
  reserved -= n;
  pthread_mutex_unlock(&notices_lock);
}

static void CL_CALLBACK told(cl_event event, cl_int state, void *user) {
  (void)event, (void)state;
  notice *n = user, copy = *n;
  give_notice(n);
  copy.fn(copy.user);
}

clade_status clade__event_notify(clade_device *device, cl_event event, void (*fn)(void *), void *user) {
  CLADE_TRY(check(device, event, "clade__event_notify"));
  notice *n = take_notice();
  if (!n) return CLADE_NO_MEMORY;
  n->fn = fn;
  n->user = user;
  cl_int e = clade__cl.clSetEventCallback(event, CL_COMPLETE, told, n);
  if (e == CL_SUCCESS) return CLADE_OK;
  give_notice(n);
  return clade__cl_error(device, "clSetEventCallback", e);
}

/* ---- times ---- */
clade_status clade__event_profile(clade_device *device, cl_event event, clade__event_times *times) {
  static const struct {
    cl_profiling_info what;
    size_t at;
  } rows[] = {{CL_PROFILING_COMMAND_QUEUED, offsetof(clade__event_times, queued)},
              {CL_PROFILING_COMMAND_SUBMIT, offsetof(clade__event_times, submitted)},
              {CL_PROFILING_COMMAND_START, offsetof(clade__event_times, start)},
              {CL_PROFILING_COMMAND_END, offsetof(clade__event_times, end)}};
  CLADE_TRY(check(device, event, "clade__event_profile"));
  for (size_t i = 0; i < CLADE_COUNT(rows); i++) {
    cl_ulong ns = 0;
    CLADE__CALL(device, clGetEventProfilingInfo, event, rows[i].what, sizeof ns, &ns, NULL);
    memcpy((char *)times + rows[i].at, &ns, sizeof ns);
  }
  return CLADE_OK;
}

/* ---- user events ---- */
clade_status clade__user_event_new(clade_device *device, cl_event *event) {
  cl_int e = CL_SUCCESS;
  *event = NULL;
  CLADE_TRY(clade__device_check(device, "clade__user_event_new"));
  cl_event made = clade__cl.clCreateUserEvent(device->context, &e);
  CLADE_TRY(clade__cl_made(device, "clCreateUserEvent", e ? NULL : made, e));
  *event = made;
  return CLADE_OK;
}

clade_status clade__user_event_set(clade_device *device, cl_event event, bool ok) {
  CLADE_TRY(check(device, event, "clade__user_event_set"));
  CLADE__CALL(device, clSetUserEventStatus, event, ok ? CL_COMPLETE : CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
  return CLADE_OK;
}
