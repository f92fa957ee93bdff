/* Status codes and error messages. Every function that can fail returns a clade_status. The message of the last
 * failure, which names the object, its value and the expected value, is kept per thread. */
#ifndef CLADE_STATUS_H
#define CLADE_STATUS_H

#include <clade/export.h>

CLADE_BEGIN_DECLS

/* One row per status: name, number, description. Numbers are never reused. */
#define CLADE_STATUS_MAP(X)                    \
  X(OK, 0, "success")                          \
  X(INVALID, 1, "invalid argument")            \
  X(BAD_SHAPE, 2, "shapes do not fit")         \
  X(DTYPE, 3, "element types do not fit")      \
  X(OVERFLOW, 4, "a size overflows")           \
  X(NOT_FOUND, 5, "not found")                 \
  X(AMBIGUOUS, 6, "several candidates match")  \
  X(DUPLICATE, 7, "the name is taken")         \
  X(UNSUPPORTED, 8, "not supported")           \
  X(BUSY, 9, "busy")                           \
  X(NO_MEMORY, 10, "out of host memory")       \
  X(DEVICE_MEMORY, 11, "out of device memory") \
  X(OPENCL, 12, "an OpenCL call failed")       \
  X(BUILD, 13, "a kernel does not compile")    \
  X(LOST, 14, "the device is lost")            \
  X(FORKED, 15, "used in a child after fork")  \
  X(IO, 16, "input or output failed")          \
  X(CORRUPT, 17, "damaged data")               \
  X(PERMISSION, 18, "not permitted")           \
  X(CANCELED, 19, "canceled")                  \
  X(INTERNAL, 20, "internal error")            \
  X(NOT_FINITE, 21, "a number is not finite")

/* The result of a call: CLADE_OK, or the kind of failure. */
typedef enum clade_status {
#define CLADE_X(name, number, text) CLADE_##name = number,
  CLADE_STATUS_MAP(CLADE_X)
#undef CLADE_X
} clade_status;

/* The constant's name ("CLADE_BAD_SHAPE") and its description ("shapes do not fit"). Both are static texts; an unknown
 * number has texts too. */
CLADE_API const char *clade_status_name(clade_status status);
CLADE_API const char *clade_status_text(clade_status status);

/* The message of the calling thread's last failure; "" if there was none. Valid until the thread's next failure. */
CLADE_API const char *clade_last_error(void);

/* Records a message for the calling thread and returns `status`. For code that extends Clade: ops and callbacks of a
 * program. */
CLADE_API clade_status clade_fail(clade_status status, const char *format, ...) CLADE_PRINTF(2, 3);

CLADE_END_DECLS
#endif
