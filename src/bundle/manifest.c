/* The manifest of a bundle: a table of its fields for reading and writing, and constraints between fields. */
#include <stdlib.h>

#include <ctype.h>

#include "base/json.h"
#include "bundle/bundle.h"
#include "bundle/schema.h"

const char *const clade__target_names[] = {"intel", "xilinx", "pocl", "rtl", "ice40", "ecp5", NULL};
const char *const clade__container_names[] = {"aocx", "xclbin", "poclbin", "bitstream", "none", NULL};
const char *const clade__access_names[] = {"value", "read", "write", "read-write", NULL};
const char *const clade__source_names[] = {"", "routed", "estimate", NULL};
const char *const clade__evidence_names[] = {"none", "simulated", "hardware", NULL};

/* ---- the fields ---- */
#define AT(type, field)         .at = offsetof(type, field)
#define LISTED(type, field, of) .at = offsetof(type, field), .n_at = offsetof(type, n_##field), .size = sizeof(of)

static const clade__field argument_fields[] = {
    {"type", CLADE__FIELD_TEXT, true, AT(clade__bundle_argument, type), .most = 64},
    {"name", CLADE__FIELD_TEXT, true, AT(clade__bundle_argument, name), .most = 64},
    {"access", CLADE__FIELD_CHOICE, true, AT(clade__bundle_argument, access), .choices = clade__access_names},
    {0}};

static const clade__field figure_fields[] = {
    {"value", CLADE__FIELD_NUMBER, true, AT(clade__figure, value)},
    {"source", CLADE__FIELD_CHOICE, true, AT(clade__figure, source), .choices = clade__source_names},
    {"from", CLADE__FIELD_TEXT, false, AT(clade__figure, from)},
    {0}};

#define FIGURE(field)                                                                                   \
  {                                                                                                     \
#field, CLADE__FIELD_OBJECT, false, AT(clade__bundle_report, field), .size = sizeof(clade__figure), \
                                                                         .fields = figure_fields        \
  }
static const clade__field report_fields[] = {FIGURE(ii),  FIGURE(fmax_mhz),      FIGURE(dsp), FIGURE(bram),
                                             FIGURE(lut), FIGURE(bandwidth_gbs), {0}};

static const clade__field kernel_fields[] = {
    {"name", CLADE__FIELD_TEXT, true, AT(clade__bundle_kernel, name), .most = 64},
    {"arguments", CLADE__FIELD_LIST, true, LISTED(clade__bundle_kernel, arguments, clade__bundle_argument), .most = 32,
     .fields = argument_fields},
    {"work_group", CLADE__FIELD_TRIPLE, true, AT(clade__bundle_kernel, work_group), .most = 1 << 20},
    {"compute_units", CLADE__FIELD_COUNT, true, AT(clade__bundle_kernel, compute_units), .most = 1024},
    {"queue", CLADE__FIELD_COUNT, false, AT(clade__bundle_kernel, queue), .most = 63},
    {"banks", CLADE__FIELD_LIST, false, LISTED(clade__bundle_kernel, banks, const char *), .most = 64},
    {"report", CLADE__FIELD_OBJECT, false, AT(clade__bundle_kernel, report), .size = sizeof(clade__bundle_report),
     .fields = report_fields},
    {"evidence", CLADE__FIELD_CHOICE, true, AT(clade__bundle_kernel, evidence), .choices = clade__evidence_names},
    {0}};

static const clade__field target_fields[] = {
    {"kind", CLADE__FIELD_CHOICE, true, AT(clade__manifest, target.kind), .choices = clade__target_names},
    {"vendor", CLADE__FIELD_TEXT, false, AT(clade__manifest, target.vendor)},
    {"device", CLADE__FIELD_TEXT, false, AT(clade__manifest, target.device)},
    {"board", CLADE__FIELD_TEXT, false, AT(clade__manifest, target.board)},
    {"vbnv", CLADE__FIELD_TEXT, false, AT(clade__manifest, target.vbnv), .most = 64},
    {"uuid", CLADE__FIELD_HEX, false, AT(clade__manifest, target.uuid), .most = 32},
    {"hash", CLADE__FIELD_TEXT, false, AT(clade__manifest, target.hash), .most = 64},
    {0}};

static const clade__field tool_fields[] = {{"name", CLADE__FIELD_TEXT, true, AT(clade__manifest, tool.name)},
                                           {"version", CLADE__FIELD_TEXT, true, AT(clade__manifest, tool.version)},
                                           {"command", CLADE__FIELD_TEXT, true, AT(clade__manifest, tool.command)},
                                           {0}};

static const clade__field source_fields[] = {
    {"sha256", CLADE__FIELD_HEX, true, AT(clade__manifest, source.sha256), .most = 64}, {0}};

static const clade__field binary_fields[] = {
    {"format", CLADE__FIELD_CHOICE, true, AT(clade__manifest, binary.format), .choices = clade__container_names},
    {"file", CLADE__FIELD_TEXT, true, AT(clade__manifest, binary.file), .most = 255},
    {"bytes", CLADE__FIELD_COUNT, true, AT(clade__manifest, binary.bytes), .most = CLADE__BUNDLE_BINARY_BYTES},
    {0}};

/* Parts of clade__manifest; offsets of their fields are relative to the whole struct. */
#define PART(name, table) \
  { #name, CLADE__FIELD_OBJECT, true, .size = sizeof(((clade__manifest *)0)->name), .fields = table }
static const clade__field manifest_fields[] = {
    {"format", CLADE__FIELD_COUNT, true, AT(clade__manifest, format), .most = UINT32_MAX},
    {"interface", CLADE__FIELD_COUNT, true, AT(clade__manifest, interface_version), .most = UINT32_MAX},
    PART(target, target_fields),
    PART(tool, tool_fields),
    PART(source, source_fields),
    {"defines", CLADE__FIELD_PAIRS, true, LISTED(clade__manifest, defines, clade__bundle_define), .most = 64},
    PART(binary, binary_fields),
    {"kernels", CLADE__FIELD_LIST, true, LISTED(clade__manifest, kernels, clade__bundle_kernel), .most = 64,
     .fields = kernel_fields},
    {0}};

/* The version is checked first, since later formats may have other fields. */
static const clade__field version_fields[] = {
    {"format", CLADE__FIELD_COUNT, true, AT(clade__manifest, format), .most = UINT32_MAX}, {0}};

/* ---- constraints ---- */
bool clade__is_name(const char *text) {
  if (!isalpha((unsigned char)*text) && *text != '_') return false;
  while (isalnum((unsigned char)*text) || *text == '_') text++;
  return !*text;
}

/* A file in the bundle's directory that is none of the predefined ones. */
static bool is_plain_file(const char *name) {
  return *name != '.' && !strchr(name, '/') && strcmp(name, "manifest.json") && strcmp(name, "digest") &&
         strcmp(name, "signature");
}

/* Checks that the target's required fields and its container are given. */
static clade_status check_target(const char *where, const clade__manifest *m) {
  const struct {
    int container;
    const char *what, *text;
  } needs[CLADE__TARGETS] = {
      [CLADE__TARGET_INTEL] = {CLADE__AOCX, "board", m->target.board},
      [CLADE__TARGET_XILINX] = {CLADE__XCLBIN, "vbnv", m->target.vbnv},
      [CLADE__TARGET_POCL] = {CLADE__POCLBIN, "device", m->target.device},
      [CLADE__TARGET_RTL] = {CLADE__NOTHING, "device", m->target.device},
      [CLADE__TARGET_ICE40] = {CLADE__BITSTREAM, "device", m->target.device},
      [CLADE__TARGET_ECP5] = {CLADE__BITSTREAM, "device", m->target.device},
  };
  const char *kind = clade__target_names[m->target.kind];
  if (!needs[m->target.kind].text)
    return CLADE_FAIL(CORRUPT, "%s: target.%s is missing; a target of kind %s goes by it", where,
                      needs[m->target.kind].what, kind);
  if (m->binary.format != needs[m->target.kind].container)
    return CLADE_FAIL(CORRUPT, "%s: binary.format is %s; for a target of kind %s it is %s", where,
                      clade__container_names[m->binary.format], kind,
                      clade__container_names[needs[m->target.kind].container]);
  if ((m->binary.format == CLADE__NOTHING) != (m->binary.bytes == 0))
    return CLADE_FAIL(CORRUPT, "%s: binary.bytes is %llu where the format is %s", where,
                      (unsigned long long)m->binary.bytes, clade__container_names[m->binary.format]);
  return CLADE_OK;
}

static clade_status check_kernel(const char *where, const clade__bundle_kernel *k) {
  if (!clade__is_name(k->name))
    return CLADE_FAIL(CORRUPT, "%s: kernel \"%s\": that is no name of a kernel", where, k->name);
  if (!k->compute_units) return CLADE_FAIL(CORRUPT, "%s: kernel %s has no compute unit", where, k->name);
  for (int i = 0; i < 3; i++)
    if (!k->work_group[i]) return CLADE_FAIL(CORRUPT, "%s: kernel %s: work_group[%d] is 0", where, k->name, i);
  for (size_t i = 0; i < k->n_arguments; i++)
    if (!clade__is_name(k->arguments[i].name))
      return CLADE_FAIL(CORRUPT, "%s: kernel %s: argument %zu is called \"%s\"", where, k->name, i,
                        k->arguments[i].name);
  return CLADE_OK;
}

static clade_status check_kernels(const char *where, const clade__manifest *m) {
  if (!m->n_kernels) return CLADE_FAIL(CORRUPT, "%s: it has no kernels", where);
  for (size_t i = 0; i < m->n_kernels; i++) {
    CLADE_TRY(check_kernel(where, &m->kernels[i]));
    for (size_t j = 0; j < i; j++)
      if (strcmp(m->kernels[i].name, m->kernels[j].name) == 0)
        return CLADE_FAIL(CORRUPT, "%s: kernel %s stands there twice", where, m->kernels[i].name);
  }
  return CLADE_OK;
}

/* Emulated targets must not claim evidence from hardware. */
static clade_status check_evidence(const char *where, const clade__manifest *m) {
  if (m->target.kind != CLADE__TARGET_POCL && m->target.kind != CLADE__TARGET_RTL) return CLADE_OK;
  for (size_t i = 0; i < m->n_kernels; i++)
    if (m->kernels[i].evidence == CLADE__HARDWARE)
      return CLADE_FAIL(CORRUPT,
                        "%s: kernel %s: evidence is hardware; for a target of kind %s none or simulated is expected",
                        where, m->kernels[i].name, clade__target_names[m->target.kind]);
  return CLADE_OK;
}

static clade_status check(const char *where, const clade__manifest *m) {
  if (m->interface_version != CLADE__BUNDLE_INTERFACE)
    return CLADE_FAIL(UNSUPPORTED, "%s: its kernels have interface %llu; this Clade has %d: build it again", where,
                      (unsigned long long)m->interface_version, CLADE__BUNDLE_INTERFACE);
  if (!is_plain_file(m->binary.file))
    return CLADE_FAIL(CORRUPT, "%s: binary.file is \"%s\"; the name of a file beside the manifest is expected", where,
                      m->binary.file);
  CLADE_TRY(check_target(where, m));
  CLADE_TRY(check_kernels(where, m));
  return check_evidence(where, m);
}

/* ---- JSON ---- */
static clade_status parse(const char *where, const json_t *root, clade__arena *arena, clade__manifest *out) {
  json_t *format = json_object_get(root, "format");
  json_t *first = format ? json_pack("{s:O}", "format", format) : json_object();
  if (!first) return CLADE_FAIL(NO_MEMORY, "%s: no memory to read JSON", where);
  clade_status status = clade__schema_read(where, first, version_fields, arena, out);
  json_decref(first);
  CLADE_TRY(status);
  if (out->format != CLADE__BUNDLE_FORMAT)
    return CLADE_FAIL(UNSUPPORTED, "%s: it has format %llu; this Clade reads %d", where,
                      (unsigned long long)out->format, CLADE__BUNDLE_FORMAT);
  CLADE_TRY(clade__schema_read(where, root, manifest_fields, arena, out));
  return check(where, out);
}

clade_status clade__manifest_parse(const char *where, const void *text, size_t bytes, clade__arena *arena,
                                   clade__manifest *out) {
  json_error_t error;
  *out = (clade__manifest){0};
  if (bytes > CLADE__BUNDLE_MANIFEST_BYTES)
    return CLADE_FAIL(CORRUPT, "%s: its manifest has %zu bytes; at most %d are read", where, bytes,
                      CLADE__BUNDLE_MANIFEST_BYTES);
  json_t *root = clade__json_load(text, bytes, &error);
  if (!root && json_error_code(&error) == json_error_out_of_memory)
    return CLADE_FAIL(NO_MEMORY, "%s: no memory to read JSON", where);
  if (!root) return CLADE_FAIL(CORRUPT, "%s: its manifest is no JSON: line %d: %s", where, error.line, error.text);
  clade_status status = parse(where, root, arena, out);
  json_decref(root);
  return status;
}

clade_status clade__manifest_print(const clade__manifest *manifest, char **text) {
  json_t *root = clade__schema_write(manifest_fields, manifest);
  clade_status status = clade__json_print(root, JSON_INDENT(2), text);
  json_decref(root);
  return status;
}

/* ---- values for estimates ---- */
clade_status clade__manifest_number(const char *where, const clade__manifest *m, const char *name, uint64_t *value) {
  const char *text = NULL;
  for (size_t i = 0; i < m->n_defines; i++)
    if (strcmp(m->defines[i].name, name) == 0) text = m->defines[i].text;
  if (!text) return CLADE_OK;
  uint64_t number = strtoull(text, NULL, 10);
  if (strlen(text) > 9 || strspn(text, "0123456789") != strlen(text) || !number)
    return CLADE_FAIL(CORRUPT, "%s: defines.%s is \"%s\"; a number from 1 to 999999999 is expected", where, name, text);
  *value = number;
  return CLADE_OK;
}

const clade__bundle_kernel *clade__manifest_array(const clade__manifest *m) {
  for (size_t i = 0; i < m->n_kernels; i++) {
    const clade__bundle_kernel *k = &m->kernels[i];
    bool is_array = strcmp(k->name, "array_f32") == 0 || strcmp(k->name, "array_i8") == 0;
    if (is_array && k->report.fmax_mhz.source != CLADE__UNTOLD && k->report.bandwidth_gbs.source != CLADE__UNTOLD)
      return k;
  }
  return NULL;
}
