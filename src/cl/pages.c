/* Transfers for devices that need page-aligned host memory. Unaligned memory is copied in pieces through an aligned
 * bounce buffer. */
#include "cl/internal.h"

enum { PIECE = 1 << 20 };

struct clade__pages { /* kept in the device's list while unused */
  struct clade__pages *next;
  unsigned char *data;
};

unsigned char *clade__page_begin(void *memory) {
  return (unsigned char *)memory + (CLADE__PAGE - (uintptr_t)memory % CLADE__PAGE) % CLADE__PAGE;
}

bool clade__pages_needed(const clade_device *device, const void *host) {
  return (uintptr_t)host % CLADE__PAGE && clade__quirk_has(device, CLADE__QUIRK_PAGES);
}

static clade_status take(clade_device *device, struct clade__pages **out) {
  pthread_mutex_lock(&device->page_lock);
  struct clade__pages *p = device->pages;
  if (p) device->pages = p->next;
  pthread_mutex_unlock(&device->page_lock);
  if (!p) {
    p = clade__new(1, sizeof *p + PIECE + CLADE__PAGE);
    if (!p) return CLADE_NO_MEMORY;
    p->data = clade__page_begin(p + 1);
  }
  *out = p;
  return CLADE_OK;
}

static void give_back(clade_device *device, struct clade__pages *p) {
  pthread_mutex_lock(&device->page_lock);
  p->next = device->pages;
  device->pages = p;
  pthread_mutex_unlock(&device->page_lock);
}

void clade__pages_free(clade_device *device) {
  for (struct clade__pages *p = device->pages, *next; p; p = next) {
    next = p->next;
    clade__free(p);
  }
}

/* The first piece waits for the given events; the last piece signals `event`. */
static clade_status write_pieces(const clade__pages_move *m, unsigned char *pages, const unsigned char *from) {
  for (size_t at = 0, n; at < m->bytes; at += n) {
    n = CLADE_MIN(m->bytes - at, (size_t)PIECE);
    memcpy(pages, from + at, n);
    CLADE__CALL(m->device, clEnqueueWriteBuffer, m->queue, m->memory, CL_TRUE, m->offset + at, n, pages,
                at ? 0 : m->wait.n, at || !m->wait.n ? NULL : m->wait.events, at + n == m->bytes ? m->event : NULL);
  }
  return CLADE_OK;
}

static clade_status read_pieces(const clade__pages_move *m, unsigned char *pages, unsigned char *to) {
  for (size_t at = 0, n; at < m->bytes; at += n) {
    n = CLADE_MIN(m->bytes - at, (size_t)PIECE);
    CLADE__CALL(m->device, clEnqueueReadBuffer, m->queue, m->memory, CL_TRUE, m->offset + at, n, pages,
                at ? 0 : m->wait.n, at || !m->wait.n ? NULL : m->wait.events, at + n == m->bytes ? m->event : NULL);
    memcpy(to + at, pages, n);
  }
  return CLADE_OK;
}

clade_status clade__pages_write(const clade__pages_move *move, const void *from) {
  struct clade__pages *p;
  CLADE_TRY(take(move->device, &p));
  clade_status status = write_pieces(move, p->data, from);
  give_back(move->device, p);
  return status;
}

clade_status clade__pages_read(const clade__pages_move *move, void *to) {
  struct clade__pages *p;
  CLADE_TRY(take(move->device, &p));
  clade_status status = read_pieces(move, p->data, to);
  give_back(move->device, p);
  return status;
}
