/* Devices of the performance model, read from resource files, manifests and bundles. The input is untrusted. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json.h"
#include "bundle/header.h"
#include "bundle/schema.h"
#include "model/cycles.h"

enum { FORMAT = 1 };

/* ---- fields of a resource file ---- */
static const char *const kinds[] = {"clade", "grid", "array", NULL};
static const char *const edges[] = {"whole", "cut", NULL};
static const char *const ways[] = {"k", "channels", NULL};

#define AT(field) .at = offsetof(cycles_device, field)
static const clade__field figure_fields[] = {
    {"value", CLADE__FIELD_NUMBER, true, .at = offsetof(clade__figure, value)},
    {"source", CLADE__FIELD_CHOICE, true, .at = offsetof(clade__figure, source), .choices = clade__source_names},
    {"from", CLADE__FIELD_TEXT, false, .at = offsetof(clade__figure, from)},
    {0}};
static const clade__field device_fields[] = {
    {"format", CLADE__FIELD_COUNT, true, AT(format), .most = UINT32_MAX},
    {"name", CLADE__FIELD_TEXT, true, AT(name), .most = 128},
    {"kind", CLADE__FIELD_CHOICE, true, AT(kind), .choices = kinds},
    {"fmax_mhz", CLADE__FIELD_OBJECT, true, AT(fmax_mhz), .size = sizeof(clade__figure), .fields = figure_fields},
    {"rows", CLADE__FIELD_COUNT, true, AT(rows), .most = 4096},
    {"columns", CLADE__FIELD_COUNT, true, AT(columns), .most = 4096},
    {"depth", CLADE__FIELD_COUNT, false, AT(depth), .most = 4096},
    {"ii", CLADE__FIELD_COUNT, false, AT(ii), .most = 1024},
    {"log_depth", CLADE__FIELD_COUNT, false, AT(log_depth), .most = 16},
    {"tile_rows", CLADE__FIELD_COUNT, false, AT(tile_rows), .most = 1 << 24},
    {"tile_columns", CLADE__FIELD_COUNT, false, AT(tile_columns), .most = 1 << 24},
    {"tile_cycles", CLADE__FIELD_COUNT, false, AT(tile_cycles), .most = 1 << 30},
    {"edges", CLADE__FIELD_CHOICE, false, AT(edges), .choices = edges},
    {"along", CLADE__FIELD_CHOICE, false, AT(along), .choices = ways},
    {"line_bytes", CLADE__FIELD_COUNT, false, AT(line_bytes), .most = 1 << 30},
    {"slice", CLADE__FIELD_COUNT, false, AT(slice), .most = 4096},
    {"latency", CLADE__FIELD_COUNT, false, AT(latency), .most = 4096},
    {"loop_cycles", CLADE__FIELD_COUNT, false, AT(loop_cycles), .most = 1 << 20},
    {"stream_bytes", CLADE__FIELD_COUNT, false, AT(stream_bytes), .most = 1 << 20},
    {"element_bytes", CLADE__FIELD_COUNT, true, AT(element_bytes), .most = 8},
    {"result_bytes", CLADE__FIELD_COUNT, false, AT(result_bytes), .most = 8},
    {"dsps", CLADE__FIELD_COUNT, false, AT(dsps), .most = 1 << 20},
    {"dsps_per_mac", CLADE__FIELD_NUMBER, false, AT(dsps_per_mac)},
    {"bandwidth_gbs", CLADE__FIELD_NUMBER, true, AT(bandwidth_gbs)},
    {"link_gbs", CLADE__FIELD_NUMBER, false, AT(link_gbs)},
    {"programming_seconds", CLADE__FIELD_NUMBER, false, AT(programming_seconds)},
    {"launch_seconds", CLADE__FIELD_NUMBER, false, AT(launch_seconds)},
    {"from", CLADE__FIELD_PAIRS, false, AT(from), .n_at = offsetof(cycles_device, n_from),
     .size = sizeof(clade__bundle_define), .most = 64},
    {0}};

/* ---- validation ---- */
static clade_status check_ranges(const char *where, const cycles_device *d) {
  const struct {
    const char *name;
    double value, least, most;
  } ranges[] = {{"fmax_mhz", d->fmax_mhz.value, 1e-3, 1e4},
                {"rows", (double)d->rows, 1, 4096},
                {"columns", (double)d->columns, 1, 4096},
                {"depth", (double)d->depth, 1, 4096},
                {"ii", (double)d->ii, 1, 1024},
                {"log_depth", (double)d->log_depth, d->kind == CYCLES_ARRAY, d->kind == CYCLES_ARRAY ? 16 : 0},
                {"element_bytes", (double)d->element_bytes, 1, 8},
                {"result_bytes", (double)d->result_bytes, 1, 8},
                {"tile_rows", (double)d->tile_rows, 0, 1 << 24},
                {"tile_columns", (double)d->tile_columns, 0, 1 << 24},
                {"slice", (double)d->slice, 0, 4096},
                {"latency", (double)d->latency, 0, 4096},
                {"dsps_per_mac", d->dsps_per_mac, d->dsps ? 1e-3 : 0, d->dsps ? 1e3 : 0},
                {"bandwidth_gbs", d->bandwidth_gbs, 1e-9, 1e6},
                {"link_gbs", d->link_gbs, 0, 1e6},
                {"programming_seconds", d->programming_seconds, 0, 1e6},
                {"launch_seconds", d->launch_seconds, 0, 1e3}};
  for (size_t i = 0; i < CLADE_COUNT(ranges); i++)
    if (!(ranges[i].value >= ranges[i].least && ranges[i].value <= ranges[i].most))
      return CLADE_FAIL(CORRUPT, "%s: %s is %g; %g to %g is expected", where, ranges[i].name, ranges[i].value,
                        ranges[i].least, ranges[i].most);
  return CLADE_OK;
}

static clade_status check_tile(const char *where, const char *name, uint64_t tile, uint64_t elements) {
  if (!tile || tile % elements)
    return CLADE_FAIL(CORRUPT, "%s: %s is %llu; a multiple of the grid's %llu is expected", where, name,
                      (unsigned long long)tile, (unsigned long long)elements);
  return CLADE_OK;
}

/* Fields of another kind are errors, since they would have no effect. */
static clade_status check_kind(const char *where, const cycles_device *d) {
  bool grid = d->depth != 1 || d->tile_cycles || d->edges || d->along || d->line_bytes;
  bool clade = d->slice || d->latency || d->loop_cycles;
  bool tiles = d->tile_rows || d->tile_columns || d->ii != 1 || d->stream_bytes;
  if ((grid && d->kind != CYCLES_GRID) || (clade && d->kind != CYCLES_CLADE) || (tiles && d->kind == CYCLES_ARRAY))
    return CLADE_FAIL(CORRUPT, "%s: it tells what a device of kind %s does not have", where, kinds[d->kind]);
  if (d->kind == CYCLES_ARRAY && (d->element_bytes != 1 || d->result_bytes != 4))
    return CLADE_FAIL(CORRUPT, "%s: an array has operands of 1 byte and results of 4", where);
  return CLADE_OK;
}

static clade_status check(const char *where, const cycles_device *d) {
  double needs = (double)d->rows * (double)d->columns * (double)d->depth * d->dsps_per_mac;
  if (d->format != FORMAT)
    return CLADE_FAIL(UNSUPPORTED, "%s: it has format %llu; this Clade reads %d", where, (unsigned long long)d->format,
                      FORMAT);
  CLADE_TRY(check_ranges(where, d));
  if (d->dsps && needs > (double)d->dsps)
    return CLADE_FAIL(CORRUPT, "%s: its multipliers need %g DSPs, and it tells %llu", where, needs,
                      (unsigned long long)d->dsps);
  if (d->kind != CYCLES_ARRAY) {
    CLADE_TRY(check_tile(where, "tile_rows", d->tile_rows, d->rows));
    CLADE_TRY(check_tile(where, "tile_columns", d->tile_columns, d->columns));
  }
  return check_kind(where, d);
}

/* Default values. */
static clade_status complete(const char *where, cycles_device *d) {
  if (!d->depth) d->depth = 1;
  if (!d->ii) d->ii = 1;
  if (!d->result_bytes) d->result_bytes = d->kind == CYCLES_GRID ? d->element_bytes : 4;
  if (d->kind == CYCLES_CLADE) { /* as in fpga/prelude.cl */
    if (!d->tile_rows) d->tile_rows = d->rows * d->columns;
    if (!d->tile_columns) d->tile_columns = d->rows * d->columns;
    if (!d->slice) d->slice = 32;
    if (!d->latency) d->latency = 16;
    if (!d->stream_bytes) d->stream_bytes = 2 * d->result_bytes; /* of eltwise: a word in, a word out */
  }
  return check(where, d);
}

/* ---- manifests: the report, and the defines of fpga/prelude.cl or the parameters of fpga/rtl ---- */
static const struct {
  const char *name;
  cycles_kind kind;
  uint64_t usual; /* 0: required */
  size_t at;
} defines[] = {{"PE_ROWS", CYCLES_CLADE, CLADE__ARRAY_ROWS, offsetof(cycles_device, rows)},
               {"PE_COLS", CYCLES_CLADE, CLADE__ARRAY_COLUMNS, offsetof(cycles_device, columns)},
               {"TILE_ROWS", CYCLES_CLADE, 0, offsetof(cycles_device, tile_rows)},
               {"TILE_COLS", CYCLES_CLADE, 0, offsetof(cycles_device, tile_columns)},
               {"DEPTH", CYCLES_CLADE, 0, offsetof(cycles_device, slice)},
               {"LATENCY", CYCLES_CLADE, 0, offsetof(cycles_device, latency)},
               {"ROWS", CYCLES_ARRAY, 0, offsetof(cycles_device, rows)},
               {"COLS", CYCLES_ARRAY, 0, offsetof(cycles_device, columns)},
               {"LOG_DEPTH", CYCLES_ARRAY, 0, offsetof(cycles_device, log_depth)}};

static clade_status take_define(const char *where, const clade__manifest *m, size_t i, cycles_device *d) {
  uint64_t value = defines[i].usual;
  CLADE_TRY(clade__manifest_number(where, m, defines[i].name, &value));
  if (!value && d->kind == CYCLES_ARRAY)
    return CLADE_FAIL(CORRUPT, "%s: defines.%s is missing; the cycle model needs it", where, defines[i].name);
  memcpy((char *)d + defines[i].at, &value, sizeof value);
  return CLADE_OK;
}

/* The first kernel with a frequency; of Clade's own kernels, one that computes products. */
static const clade__bundle_kernel *kernel_of(const clade__manifest *m, bool is_array) {
  if (!is_array) return clade__manifest_array(m);
  for (size_t i = 0; i < m->n_kernels; i++) {
    const clade__bundle_report *r = &m->kernels[i].report;
    if (r->fmax_mhz.source != CLADE__UNTOLD && r->bandwidth_gbs.source != CLADE__UNTOLD) return &m->kernels[i];
  }
  return NULL;
}

static clade_status of_manifest(const char *where, const clade__manifest *m, cycles_device *d) {
  bool is_array = m->target.kind == CLADE__TARGET_RTL || m->target.kind == CLADE__TARGET_ICE40 ||
                  m->target.kind == CLADE__TARGET_ECP5;
  const char *const names[] = {m->target.board, m->target.vbnv, m->target.device};
  const clade__bundle_kernel *kernel = kernel_of(m, is_array);
  if (!kernel)
    return CLADE_FAIL(CORRUPT, "%s: no kernel %sreports fmax_mhz and bandwidth_gbs; the cycle model needs both", where,
                      is_array ? "" : "array_f32 or array_i8 ");
  for (size_t i = 0; i < CLADE_COUNT(names); i++)
    if (!d->name) d->name = names[i];
  d->format = FORMAT;
  d->kind = is_array ? CYCLES_ARRAY : CYCLES_CLADE;
  d->element_bytes = is_array || strcmp(kernel->name, "array_i8") == 0 ? 1 : 4;
  d->fmax_mhz = kernel->report.fmax_mhz;
  d->evidence = clade__evidence_names[kernel->evidence];
  d->bandwidth_gbs = kernel->report.bandwidth_gbs.value;
  if (!is_array && kernel->report.ii.value <= 1024) d->ii = (uint64_t)kernel->report.ii.value;
  for (size_t i = 0; i < CLADE_COUNT(defines); i++)
    if ((int)defines[i].kind == d->kind) CLADE_TRY(take_define(where, m, i, d));
  return complete(where, d);
}

/* ---- reading ---- */
static clade_status of_json(const char *where, const json_t *root, const void *text, size_t bytes, cycles_device *out) {
  if (json_object_get(root, "interface")) {
    clade__manifest manifest;
    CLADE_TRY(clade__manifest_parse(where, text, bytes, &out->arena, &manifest));
    return of_manifest(where, &manifest, out);
  }
  CLADE_TRY(clade__schema_read(where, root, device_fields, &out->arena, out));
  return complete(where, out);
}

clade_status cycles_device_parse(const char *where, const void *text, size_t bytes, cycles_device *out) {
  json_error_t error;
  *out = (cycles_device){0};
  if (bytes > CLADE__BUNDLE_MANIFEST_BYTES)
    return CLADE_FAIL(CORRUPT, "%s has %zu bytes; at most %d are read", where, bytes, CLADE__BUNDLE_MANIFEST_BYTES);
  json_t *root = clade__json_load(text, bytes, &error);
  if (!root && json_error_code(&error) == json_error_out_of_memory)
    return CLADE_FAIL(NO_MEMORY, "%s: no memory to read JSON", where);
  if (!root) return CLADE_FAIL(CORRUPT, "%s is no JSON: line %d: %s", where, error.line, error.text);
  clade_status status = of_json(where, root, text, bytes, out);
  json_decref(root);
  return status;
}

static clade_status read_bundle(const char *path, cycles_device *out) {
  clade__bundle bundle;
  CLADE_TRY(clade__bundle_read(path, &bundle));
  clade_status status = of_manifest(path, &bundle.manifest, out);
  out->arena = bundle.arena; /* holds the texts */
  bundle.arena = (clade__arena){0};
  clade__bundle_free(&bundle);
  return status;
}

static bool begins_as_bundle(const char *path) {
  char magic[8] = {0};
  FILE *f = fopen(path, "rb");
  size_t n = f ? fread(magic, 1, sizeof magic, f) : 0;
  if (f) fclose(f);
  return n == sizeof magic && memcmp(magic, CLADE__BUNDLE_MAGIC, sizeof magic) == 0;
}

clade_status cycles_device_read(const char *path, cycles_device *out) {
  struct stat is;
  clade__bytes file;
  *out = (cycles_device){0};
  if (stat(path, &is)) return clade__file_fail("read", path);
  if (S_ISDIR(is.st_mode) || (S_ISREG(is.st_mode) && begins_as_bundle(path))) return read_bundle(path, out);
  CLADE_TRY(clade__file_read(path, CLADE__BUNDLE_MANIFEST_BYTES, &file));
  clade_status status = cycles_device_parse(path, file.data, file.n, out);
  clade__free(file.data);
  return status;
}

void cycles_device_free(cycles_device *d) {
  clade__arena_free(&d->arena);
  *d = (cycles_device){0};
}
