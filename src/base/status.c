/* The last error of each thread, names of statuses, and copies of options structs. */
#include "base/base.h"

#include <stdarg.h>
#include <stdio.h>

enum { MESSAGE_BYTES = 4096 };

/* Fixed size: reporting an allocation failure must not allocate. */
static _Thread_local char message[MESSAGE_BYTES];

const char *clade_status_name(clade_status status) {
  switch (status) {
#define X(name, number, text) \
  case CLADE_##name: return "CLADE_" #name;
    CLADE_STATUS_MAP(X)
#undef X
  }
  return "CLADE_?";
}

const char *clade_status_text(clade_status status) {
  switch (status) {
#define X(name, number, text) \
  case CLADE_##name: return text;
    CLADE_STATUS_MAP(X)
#undef X
  }
  return "unknown status";
}

const char *clade_last_error(void) { return message; }

static _Thread_local unsigned failures;

unsigned clade__failures(void) { return failures; }

clade_status clade_fail(clade_status status, const char *format, ...) {
  char text[MESSAGE_BYTES]; /* format first: the arguments may point into the old message */
  va_list args;
  va_start(args, format);
  if (format)
    vsnprintf(text, sizeof text, format, args);
  else
    snprintf(text, sizeof text, "%s", clade_status_text(status));
  va_end(args);
  memcpy(message, text, strlen(text) + 1);
  failures++;
  return status;
}

clade_status clade__fail_in(clade_status status, const char *format, ...) {
  char prefix[512];
  va_list args;
  va_start(args, format);
  vsnprintf(prefix, sizeof prefix, format, args);
  va_end(args);
  return clade_fail(status, "%s: %s", prefix, message);
}

clade_status clade__fail_again(clade_status status, const char *text) { return clade_fail(status, "%s", text); }

static clade_status size_of(const void *opt, const char *function, size_t *size) {
  memcpy(size, opt, sizeof *size);
  if (*size < sizeof *size) return CLADE_FAIL(INVALID, "%s: the options' size is %zu: set .size", function, *size);
  return CLADE_OK;
}

clade_status clade__opt_copy(void *dst, size_t dst_size, const void *opt, const char *function) {
  memset(dst, 0, dst_size);
  size_t given = dst_size;
  if (opt) {
    CLADE_TRY(size_of(opt, function, &given));
    memcpy(dst, opt, CLADE_MIN(given, dst_size));
  }
  memcpy(dst, &dst_size, sizeof dst_size);
  return CLADE_OK;
}

/* Common first fields of options with nonzero defaults. */
typedef struct head {
  size_t size;
  bool filled;
} head;

clade_status clade__opt_over(void *dst, const void *opt, const char *function, const char *macro) {
  size_t given, size;
  if (!opt) return CLADE_OK;
  CLADE_TRY(size_of(opt, function, &given));
  CLADE_TRY(size_of(dst, function, &size));
  if (given < sizeof(head) || !((const head *)opt)->filled)
    return CLADE_FAIL(INVALID, "%s: the options lack their defaults: begin them with {%s}", function, macro);
  memcpy(dst, opt, CLADE_MIN(given, size));
  memcpy(dst, &size, sizeof size);
  return CLADE_OK;
}

clade_status clade__info_give(void *info, const void *from, size_t size, const char *function) {
  size_t room;
  if (!info) return CLADE_FAIL(INVALID, "%s: info is NULL", function);
  memcpy(&room, info, sizeof room);
  if (room < sizeof room || room > 1 << 20)
    return CLADE_FAIL(INVALID, "%s: info->size is %zu; set it to the size of the struct, which is %zu", function, room,
                      size);
  memset(info, 0, room);
  memcpy(info, from, CLADE_MIN(room, size));
  memcpy(info, &room, sizeof room);
  return CLADE_OK;
}
