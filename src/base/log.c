/* Log messages go to the user's callback, if there is one. */
#include "base/base.h"

#include <stdarg.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static clade_log_fn *sink;
static void *sink_user;
static atomic_int threshold; /* 0: no callback */

void clade_log_set(clade_log_fn *fn, void *user, clade_log_level level) {
  pthread_mutex_lock(&lock);
  sink = fn;
  sink_user = user;
  atomic_store(&threshold, fn ? (level ? (int)level : CLADE_LOG_WARNING) : 0);
  pthread_mutex_unlock(&lock);
}

void clade__log(clade_log_level level, const char *format, ...) {
  if ((int)level > atomic_load_explicit(&threshold, memory_order_relaxed)) return;
  char text[2048];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  pthread_mutex_lock(&lock);
  clade_log_fn *fn = sink;
  void *user = sink_user;
  pthread_mutex_unlock(&lock); /* unlock first: the callback may call clade_log_set */
  if (fn) fn(user, level, text);
}
