/* Prints a bundle, as JSON or as text made from it. */
#include "cli/pack.h"

#include <stdio.h>
#include <sys/stat.h>

#include "cli/cli.h"

json_t *cli_pack_hex(const unsigned char *data, size_t bytes) {
  char text[2 * CLADE__BUNDLE_SIGNATURE + 1] = "";
  for (size_t i = 0; i < bytes && 2 * i + 2 < sizeof text; i++) snprintf(text + 2 * i, 3, "%02x", data[i]);
  return json_string(text);
}

static json_t *arguments_json(const clade__bundle_kernel *k) {
  json_t *list = json_array();
  for (size_t i = 0; i < k->n_arguments; i++)
    json_array_append_new(list, json_pack("{s:o, s:o, s:s}", "type", cli_json_text(k->arguments[i].type), "name",
                                          cli_json_text(k->arguments[i].name), "access",
                                          clade__access_names[k->arguments[i].access]));
  return list;
}

static json_t *report_json(const clade__bundle_report *r) {
  const struct {
    const char *name;
    const clade__figure *figure;
  } rows[] = {{"ii", &r->ii},     {"fmax_mhz", &r->fmax_mhz}, {"dsp", &r->dsp},
              {"bram", &r->bram}, {"lut", &r->lut},           {"bandwidth_gbs", &r->bandwidth_gbs}};
  json_t *list = json_array();
  for (size_t i = 0; i < CLADE_COUNT(rows); i++) {
    const clade__figure *f = rows[i].figure;
    if (!f->source) continue;
    json_array_append_new(list, json_pack("{s:s, s:f, s:s, s:o}", "figure", rows[i].name, "value", f->value, "source",
                                          clade__source_names[f->source], "from", cli_json_text(f->from)));
  }
  return list;
}

static json_t *kernel_json(const clade__bundle_kernel *k) {
  json_t *banks = json_array();
  for (size_t i = 0; i < k->n_banks; i++) json_array_append_new(banks, cli_json_text(k->banks[i]));
  return json_pack("{s:o, s:o, s:[I, I, I], s:I, s:I, s:o, s:o, s:s}", "name", cli_json_text(k->name), "arguments",
                   arguments_json(k), "work_group", (json_int_t)k->work_group[0], (json_int_t)k->work_group[1],
                   (json_int_t)k->work_group[2], "compute_units", (json_int_t)k->compute_units, "queue",
                   (json_int_t)k->queue, "banks", banks, "report", report_json(&k->report), "evidence",
                   clade__evidence_names[k->evidence]);
}

static json_t *bundle_json(const clade__bundle *b, bool is_directory) {
  const clade__manifest *m = &b->manifest;
  json_t *kernels = json_array(), *defines = json_array();
  for (size_t i = 0; i < m->n_kernels; i++) json_array_append_new(kernels, kernel_json(&m->kernels[i]));
  for (size_t i = 0; i < m->n_defines; i++)
    json_array_append_new(defines, json_pack("{s:o, s:o}", "name", cli_json_text(m->defines[i].name), "text",
                                             cli_json_text(m->defines[i].text)));
  json_t *target = json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "kind", clade__target_names[m->target.kind],
                             "vendor", cli_json_text(m->target.vendor), "device", cli_json_text(m->target.device),
                             "board", cli_json_text(m->target.board), "vbnv", cli_json_text(m->target.vbnv), "uuid",
                             cli_json_text(m->target.uuid), "hash", cli_json_text(m->target.hash));
  json_t *tool = json_pack("{s:o, s:o, s:o}", "name", cli_json_text(m->tool.name), "version",
                           cli_json_text(m->tool.version), "command", cli_json_text(m->tool.command));
  json_t *binary = json_pack("{s:s, s:o, s:I}", "format", clade__container_names[m->binary.format], "file",
                             cli_json_text(m->binary.file), "bytes", (json_int_t)b->binary_bytes);
  return json_pack("{s:o, s:s, s:I, s:I, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "path", cli_json_text(b->path),
                   "form", is_directory ? "directory" : "file", "format", (json_int_t)m->format, "interface",
                   (json_int_t)m->interface_version, "digest", cli_pack_hex(b->digest, sizeof b->digest), "signed",
                   b->is_signed, "key", b->is_signed ? cli_pack_hex(b->key, sizeof b->key) : json_null(), "target",
                   target, "tool", tool, "source_sha256", cli_json_text(m->source.sha256), "defines", defines, "binary",
                   binary, "kernels", kernels);
}

static void line(const char *name, const char *text) {
  if (text) printf("%-10s %s\n", name, text);
}

static void show_kernel(const clade__bundle_kernel *k) {
  printf("\n%s(", k->name);
  for (size_t i = 0; i < k->n_arguments; i++)
    printf("%s%s %s [%s]", i ? ", " : "", k->arguments[i].type, k->arguments[i].name,
           clade__access_names[k->arguments[i].access]);
  printf(")\n  work-group %llu x %llu x %llu, compute units %llu, queue %llu, evidence: %s\n",
         (unsigned long long)k->work_group[0], (unsigned long long)k->work_group[1],
         (unsigned long long)k->work_group[2], (unsigned long long)k->compute_units, (unsigned long long)k->queue,
         clade__evidence_names[k->evidence]);
  json_t *report = report_json(&k->report), *row;
  size_t i;
  json_array_foreach(report, i, row) {
    const char *from = json_string_value(json_object_get(row, "from"));
    printf("  %-14s %g (%s%s%s)\n", json_string_value(json_object_get(row, "figure")),
           json_number_value(json_object_get(row, "value")), json_string_value(json_object_get(row, "source")),
           from ? ", " : "", from ? from : "");
  }
  json_decref(report);
}

static void show(const clade__bundle *b) {
  const clade__manifest *m = &b->manifest;
  printf("%s: format %llu, interface %llu, %s\n", b->path, (unsigned long long)m->format,
         (unsigned long long)m->interface_version, b->is_signed ? "signed" : "not signed");
  line("target", clade__target_names[m->target.kind]);
  line("vendor", m->target.vendor);
  line("device", m->target.device);
  line("board", m->target.board);
  line("platform", m->target.vbnv);
  line("UUID", m->target.uuid);
  printf("%-10s %s %s: %s\n", "tool", m->tool.name, m->tool.version, m->tool.command);
  for (size_t i = 0; i < m->n_defines; i++)
    printf("%-10s %s=%s\n", i ? "" : "defines", m->defines[i].name, m->defines[i].text);
  printf("%-10s %s, %zu bytes\n", "binary", clade__container_names[m->binary.format], b->binary_bytes);
  for (size_t i = 0; i < m->n_kernels; i++) show_kernel(&m->kernels[i]);
}

int cli_pack_show(const char *path, bool json) {
  clade__bundle bundle;
  struct stat st;
  clade_status status = clade__bundle_read(path, &bundle);
  if (status) return cli_failed_status(status);
  int result = CLI_DONE;
  if (json)
    result = cli_json_end(bundle_json(&bundle, !stat(path, &st) && S_ISDIR(st.st_mode)));
  else
    show(&bundle);
  clade__bundle_free(&bundle);
  return result;
}
