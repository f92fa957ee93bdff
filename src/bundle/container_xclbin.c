/* xclbin, the format of Xilinx' tools: a header, a table of sections, and sections that are tables themselves. The
 * runtime trusts their counts. */
#include "bundle/container.h"

enum {
  HEADER = 456, /* offset of the table of sections */
  AT_LENGTH = 304,
  AT_VBNV = 352,
  VBNV = 64,
  AT_UUID = 416,
  UUID = 16,
  AT_SECTIONS = 448,
  SECTION = 40,
  MOST_SECTIONS = 256,
  MOST_ARGUMENTS = 256,
  MOST_MEMORIES = 256, /* limit of the runtime's bit masks */
  METADATA = 2         /* section with the descriptions of kernels */
};

/* A section that is a count followed by entries. */
typedef struct table {
  uint32_t kind;
  const char *name;
  size_t count_bytes, first, entry; /* width of the count; offset of the entries; size of an entry */
  size_t text_at, text_bytes;       /* a string in each entry; 0 bytes: none */
} table;
enum { MEMORIES, GROUPS, CONNECTIONS, GROUP_CONNECTIONS, UNITS, CLOCKS };
static const table tables[] = {
    [MEMORIES] = {6, "table of memories", 4, 8, 40, 24, 16},
    [GROUPS] = {26, "table of groups of memories", 4, 8, 40, 24, 16},
    [CONNECTIONS] = {7, "table of connections", 4, 4, 12, 0, 0},
    [GROUP_CONNECTIONS] = {27, "table of connections to groups", 4, 4, 12, 0, 0},
    [UNITS] = {8, "table of units", 4, 8, 80, 16, 64},
    [CLOCKS] = {11, "table of clocks", 2, 2, 136, 8, 128},
};

typedef struct xclbin {
  const char *where;
  const unsigned char *data;
  const unsigned char *table[CLADE_COUNT(tables)];
  uint64_t count[CLADE_COUNT(tables)];
} xclbin;

static clade_status check_table(xclbin *x, const table *t, const unsigned char *section, uint64_t bytes) {
  if (bytes < t->count_bytes) return CLADE_FAIL(CORRUPT, "%s: its %s is empty", x->where, t->name);
  uint64_t count = clade__little(section, t->count_bytes);
  if (count > (bytes < t->first ? 0 : (bytes - t->first) / t->entry))
    return CLADE_FAIL(CORRUPT, "%s: its %s tells %llu entries in %llu bytes", x->where, t->name,
                      (unsigned long long)count, (unsigned long long)bytes);
  for (uint64_t i = 0; i < count && t->text_bytes; i++)
    if (!memchr(section + t->first + i * t->entry + t->text_at, 0, t->text_bytes))
      return CLADE_FAIL(CORRUPT, "%s: a name in its %s has no end", x->where, t->name);
  x->table[t - tables] = section;
  x->count[t - tables] = count;
  return CLADE_OK;
}

/* Connection of a unit's argument to a memory; the runtime uses these numbers as array indices. */
typedef struct connection {
  uint64_t argument, unit, memory;
} connection;

static connection connection_of(const xclbin *x, int table, uint64_t i) {
  const unsigned char *one = x->table[table] + tables[table].first + i * tables[table].entry;
  return (connection){clade__little(one, 4), clade__little(one + 4, 4), clade__little(one + 8, 4)};
}

static clade_status check_connections(const xclbin *x, int table, int memories) {
  for (uint64_t i = 0; i < x->count[table]; i++) {
    const connection c = connection_of(x, table, i);
    if (c.argument >= MOST_ARGUMENTS)
      return CLADE_FAIL(CORRUPT, "%s: connection %llu is of argument %llu; at most %d are read", x->where,
                        (unsigned long long)i, (unsigned long long)c.argument, MOST_ARGUMENTS);
    if (c.unit >= x->count[UNITS] || c.memory >= CLADE_MIN(x->count[memories], (uint64_t)MOST_MEMORIES))
      return CLADE_FAIL(CORRUPT, "%s: connection %llu names a unit or a memory that is not there", x->where,
                        (unsigned long long)i);
    const unsigned char *memory = x->table[memories] + tables[memories].first + c.memory * tables[memories].entry;
    if (!memory[1])
      return CLADE_FAIL(CORRUPT, "%s: connection %llu is to a memory that is told to be unused", x->where,
                        (unsigned long long)i);
  }
  return CLADE_OK;
}

/* Reads the table of connections that the runtime uses. */
static clade_status tell_connections(const xclbin *x, clade__arena *arena, clade__facts *out) {
  const int table = x->table[GROUP_CONNECTIONS] ? GROUP_CONNECTIONS : CONNECTIONS;
  out->connections = clade__arena_new(arena, (x->count[table] + 1) * sizeof *out->connections);
  if (!out->connections) return CLADE_NO_MEMORY;
  for (uint64_t i = 0; i < x->count[table]; i++) {
    const connection c = connection_of(x, table, i);
    const unsigned char *unit = x->table[UNITS] + tables[UNITS].first + c.unit * tables[UNITS].entry;
    const char *name = clade__arena_text(arena, (const char *)unit + tables[UNITS].text_at);
    if (!name) return CLADE_NO_MEMORY;
    out->connections[out->n_connections++] = (clade__connection){name, c.argument};
  }
  return CLADE_OK;
}

static clade_status check_section(xclbin *x, const unsigned char *header, uint64_t begin, uint64_t end) {
  uint64_t offset = clade__little(header + 24, 8), bytes = clade__little(header + 32, 8);
  uint32_t kind = (uint32_t)clade__little(header, 4);
  if (!memchr(header + 4, 0, 16)) return CLADE_FAIL(CORRUPT, "%s: the name of a section has no end", x->where);
  CLADE_TRY(clade__container_inside(x->where, "section", offset, bytes, begin, end));
  for (size_t i = 0; i < CLADE_COUNT(tables); i++) {
    if (tables[i].kind != kind) continue;
    if (x->table[i]) return CLADE_FAIL(CORRUPT, "%s: its %s stands there twice", x->where, tables[i].name);
    return check_table(x, &tables[i], x->data + offset, bytes);
  }
  return CLADE_OK;
}

clade_status clade__xclbin_check(const char *where, const unsigned char *data, size_t bytes, clade__arena *arena,
                                 clade__facts *out) {
  xclbin x = {.where = where, .data = data};
  *out = (clade__facts){0};
  if (bytes < HEADER || memcmp(data, "xclbin2", 8)) return CLADE_FAIL(CORRUPT, "%s: its binary is no xclbin", where);
  uint64_t length = clade__little(data + AT_LENGTH, 8), n = clade__little(data + AT_SECTIONS, 4);
  if (length != bytes)
    return CLADE_FAIL(CORRUPT, "%s: its xclbin tells %llu bytes and has %zu", where, (unsigned long long)length, bytes);
  if (n > MOST_SECTIONS)
    return CLADE_FAIL(CORRUPT, "%s: its xclbin tells %llu sections; at most %d are read", where, (unsigned long long)n,
                      MOST_SECTIONS);
  CLADE_TRY(clade__container_inside(where, "table of sections", HEADER, n * SECTION, HEADER, bytes));
  CLADE_TRY(clade__container_text(where, "platform's name", data + AT_VBNV, VBNV, arena, &out->vbnv));
  CLADE_TRY(clade__container_hex(data + AT_UUID, UUID, arena, &out->uuid));
  for (uint64_t i = 0; i < n; i++)
    CLADE_TRY(check_section(&x, data + HEADER + i * SECTION, HEADER + n * SECTION, bytes));
  CLADE_TRY(check_connections(&x, CONNECTIONS, MEMORIES));
  CLADE_TRY(check_connections(&x, GROUP_CONNECTIONS, x.table[GROUPS] ? GROUPS : MEMORIES));
  CLADE_TRY(tell_connections(&x, arena, out));
  for (uint64_t i = 0; i < n; i++) {
    const unsigned char *header = data + HEADER + i * SECTION, *section = data + clade__little(header + 24, 8);
    if (clade__little(header, 4) == METADATA)
      CLADE_TRY(clade__container_xml_kernels(where, section, (size_t)clade__little(header + 32, 8), arena, out));
  }
  return CLADE_OK;
}
