/* TensorBoard's event files: TFRecord framing around protobuf messages, of which the few that are needed are encoded
 * here. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "io/io.h"

struct clade_events {
  clade__record_file events, scalars;
};

/* ---- protobuf: fields by number ---- */
enum { VARINT = 0, BITS64 = 1, BYTES = 2, BITS32 = 5 }; /* wire types */
/* Event */
enum { WALL_TIME = 1, STEP = 2, FILE_VERSION = 3, SUMMARY = 5, SESSION_LOG = 7 };
/* Summary, Summary.Value, SessionLog */
enum { VALUE = 1, TAG = 1, SIMPLE_VALUE = 2, HISTO = 5, STATUS = 1, START = 1 };
/* HistogramProto */
enum { MIN = 1, MAX = 2, NUM = 3, SUM = 4, SUM_SQUARES = 5, BUCKET_LIMIT = 6, BUCKET = 7 };

static void put_varint(clade__text *to, uint64_t value) {
  do {
    char byte = (char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
    clade__text_add_bytes(to, &byte, 1);
  } while (value >>= 7);
}
static void put_key(clade__text *to, unsigned field, unsigned wire) { put_varint(to, field << 3 | wire); }
static void put_number(clade__text *to, unsigned field, uint64_t value) {
  put_key(to, field, VARINT);
  put_varint(to, value);
}
static void put_double(clade__text *to, unsigned field, double value) {
  put_key(to, field, BITS64);
  clade__text_add_bytes(to, (const char *)&value, sizeof value);
}
static void put_bytes(clade__text *to, unsigned field, const void *data, size_t bytes) {
  put_key(to, field, BYTES);
  put_varint(to, bytes);
  clade__text_add_bytes(to, data, bytes);
}
/* Appends a nested message and empties it. */
static void put_message(clade__text *to, unsigned field, clade__text *message) {
  put_bytes(to, field, message->data ? message->data : "", message->length);
  to->failed |= message->failed;
  clade__text_free(message);
}

/* ---- records ---- */
static uint32_t masked(const void *data, size_t bytes) {
  uint32_t crc = clade__crc32c(data, bytes);
  return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

/* Writes length, checksum, event and checksum by a single call, and empties the event. */
static clade_status add_record(clade_events *e, clade__text *event) {
  clade__text record = {0};
  unsigned char head[12], tail[4];
  clade_status status;
  clade__put_little(head, event->length, 8);
  clade__put_little(head + 8, masked(head, 8), 4);
  clade__put_little(tail, masked(event->data ? event->data : "", event->length), 4);
  clade__text_add_bytes(&record, (const char *)head, sizeof head);
  clade__text_add_bytes(&record, event->data ? event->data : "", event->length);
  clade__text_add_bytes(&record, (const char *)tail, sizeof tail);
  if (event->failed || record.failed)
    status = CLADE_FAIL(NO_MEMORY, "no memory for a record of %s", e->events.path);
  else
    status = clade__records_add(&e->events, record.data, record.length);
  clade__text_free(&record);
  clade__text_free(event);
  return status;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static clade__text event_of(double time, int64_t step) {
  clade__text event = {0};
  put_double(&event, WALL_TIME, time);
  put_number(&event, STEP, (uint64_t)step);
  return event;
}

static clade_status add_value(clade_events *e, double time, int64_t step, clade__text *value) {
  clade__text summary = {0}, event = event_of(time, step);
  put_message(&summary, VALUE, value);
  put_message(&event, SUMMARY, &summary);
  return add_record(e, &event);
}

/* ---- opening ---- */
/* Creates a file named by time and host, with a number if the name is taken. */
static clade_status create(const char *directory, clade__record_file *out) {
  enum { TRIES = 1000 };
  char host[256] = "";
  clade_status status = CLADE_OK;
  if (gethostname(host, sizeof host - 1) || !*host) memcpy(host, "host", sizeof "host");
  for (char *c = host; *c; c++)
    if (*c == '/') *c = '_';
  for (int i = 0; i < TRIES; i++) {
    clade__text text = {0};
    char *path;
    clade__text_add(&text, "%s/events.out.tfevents.%010lld.%s", directory, (long long)time(NULL), host);
    if (i) clade__text_add(&text, ".%d", i);
    CLADE_TRY(clade__text_take(&text, &path));
    status = clade__records_open(path, true, out);
    clade__free(path);
    if (status != CLADE_DUPLICATE) break;
  }
  return status;
}

static clade_status begin(clade_events *e, int64_t step) {
  clade__text version = event_of(now(), 0), start = event_of(now(), step), session = {0};
  put_bytes(&version, FILE_VERSION, "brain.Event:2", strlen("brain.Event:2"));
  put_number(&session, STATUS, START);
  put_message(&start, SESSION_LOG, &session);
  clade_status status = add_record(e, &version);
  if (status == CLADE_OK) status = add_record(e, &start);
  clade__text_free(&start);
  return status;
}

clade_status clade_events_open(const char *directory, int64_t step, clade_events **out) {
  clade_status status;
  if (!out) return CLADE_FAIL(INVALID, "clade_events_open: there is no place for the events (NULL)");
  *out = NULL;
  if (!directory || step < 0)
    return CLADE_FAIL(INVALID, "clade_events_open: %s", directory ? "the step is negative" : "the directory is NULL");
  CLADE_TRY(clade__directory_make(directory, 0777));
  clade_events *e = clade__new(1, sizeof *e);
  if (!e) return CLADE_NO_MEMORY;
  e->events.fd = e->scalars.fd = -1;
  CLADE_GOTO(clade__scalars_open(directory, step, &e->scalars));
  CLADE_GOTO(create(directory, &e->events));
  CLADE_GOTO(begin(e, step));
  *out = e;
  return CLADE_OK;
fail:
  clade_events_close(e);
  return status;
}

void clade_events_close(clade_events *e) {
  if (!e) return;
  clade__records_close(&e->events);
  clade__records_close(&e->scalars);
  clade__free(e);
}

/* ---- writing ---- */
static clade_status check(const char *function, const clade_events *e, int64_t step, const char *tag) {
  if (!e || !tag) return CLADE_FAIL(INVALID, "%s: the %s NULL", function, e ? "tag is" : "events are");
  if (step < 0) return CLADE_FAIL(INVALID, "%s: step %" PRId64 " of \"%s\" is negative", function, step, tag);
  if (!*tag || !clade__is_utf8(tag))
    return CLADE_FAIL(INVALID, "%s: a tag is a text in UTF-8, and not empty", function);
  return CLADE_OK;
}

clade_status clade_events_scalar(clade_events *e, int64_t step, const char *tag, double value) {
  CLADE_TRY(check("clade_events_scalar", e, step, tag));
  const double time = now();
  const float real = (float)value;
  clade__text message = {0};
  put_bytes(&message, TAG, tag, strlen(tag));
  put_key(&message, SIMPLE_VALUE, BITS32);
  clade__text_add_bytes(&message, (const char *)&real, sizeof real);
  CLADE_TRY(add_value(e, time, step, &message));
  return clade__scalars_add(&e->scalars, time, step, tag, value);
}

enum { BUCKETS = 30 };
typedef struct histogram {
  double min, max, num, sum, squares, limit[BUCKETS], bucket[BUCKETS];
} histogram;

static histogram histogram_of(const float *values, size_t n) {
  histogram h = {0};
  for (size_t i = 0; i < n; i++) {
    double v = values[i];
    if (!isfinite(v)) continue;
    if (h.num == 0 || v < h.min) h.min = v;
    if (h.num == 0 || v > h.max) h.max = v;
    h.num++;
    h.sum += v;
    h.squares += v * v;
  }
  const double width = (h.max - h.min) / BUCKETS;
  for (int b = 0; b < BUCKETS; b++) h.limit[b] = b < BUCKETS - 1 ? h.min + width * (b + 1) : h.max;
  for (size_t i = 0; i < n; i++) {
    double place = width > 0 ? ((double)values[i] - h.min) / width : 0;
    if (isfinite(values[i])) h.bucket[place < BUCKETS ? (int)place : BUCKETS - 1]++;
  }
  return h;
}

clade_status clade_events_histogram(clade_events *e, int64_t step, const char *tag, const float *values, size_t n) {
  CLADE_TRY(check("clade_events_histogram", e, step, tag));
  if (!values && n) return CLADE_FAIL(INVALID, "clade_events_histogram: the values of \"%s\" are NULL", tag);
  const histogram h = histogram_of(values, n);
  clade__text message = {0}, value = {0};
  put_double(&message, MIN, h.min);
  put_double(&message, MAX, h.max);
  put_double(&message, NUM, h.num);
  put_double(&message, SUM, h.sum);
  put_double(&message, SUM_SQUARES, h.squares);
  put_bytes(&message, BUCKET_LIMIT, h.limit, sizeof h.limit);
  put_bytes(&message, BUCKET, h.bucket, sizeof h.bucket);
  put_bytes(&value, TAG, tag, strlen(tag));
  put_message(&value, HISTO, &message);
  return add_value(e, now(), step, &value);
}
