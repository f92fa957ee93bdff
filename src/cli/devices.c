/* clade devices: every device of every platform, as it was asked and probed. */
#include "cli/cli.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

static json_t *quirks_json(int index) {
  const clade_quirk_info *quirks = NULL;
  int n = clade_device_quirks(index, &quirks);
  json_t *list = json_array();
  for (int i = 0; i < n; ++i)
    json_array_append_new(list, json_pack("{s:o, s:o, s:o}", "flag", cli_json_text(quirks[i].flag), "reason",
                                          cli_json_text(quirks[i].reason), "link", cli_json_text(quirks[i].link)));
  return list;
}

static json_t *programs_json(const clade_device_info *info) {
  json_t *list = json_array();
  if (info->sources) json_array_append_new(list, json_string("source"));
  if (info->sources && info->binaries) json_array_append_new(list, json_string("cached"));
  if (!info->sources) json_array_append_new(list, json_string("bundle"));
  return list;
}

/* The device as it is once it was asked for its matrix units; what cannot be opened stays as it was described. */
static void ask_units(clade_device_info *info) {
  clade_device *device = NULL;
  bool any = false;
  for (int i = 0; i < CLADE_MAX_UNITS; ++i) any = any || info->unit[i].name;
  if (!any || clade_device_find(info->id, &device)) return;
  if (!clade_device_ask_units(device)) (void)!clade_device_get_info(device, info);
  clade_device_release(device);
}

static json_t *units_json(const clade_device_info *info) {
  json_t *list = json_array();
  for (int i = 0; i < CLADE_MAX_UNITS; ++i) {
    const clade_unit_info *u = &info->unit[i];
    if (!u->name) continue;
    json_array_append_new(list, json_pack("{s:s, s:b, s:o}", "name", u->name, "used", u->used, "reason",
                                          u->reason ? cli_json_text(u->reason) : json_null()));
  }
  return list;
}

json_t *cli_device_json(int index, bool ask) {
  clade_device_info i = {.size = sizeof i};
  if (clade_device_describe(index, &i)) return NULL;
  if (ask) ask_units(&i);
  json_t *memory =
      json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "global", (json_int_t)i.global_bytes, "max_buffer",
                (json_int_t)i.max_buffer_bytes, "local", (json_int_t)i.local_bytes, "constant",
                (json_int_t)i.constant_bytes, "cache", (json_int_t)i.cache_bytes, "l1", (json_int_t)i.l1_bytes, "l2",
                (json_int_t)i.l2_bytes, "budget", (json_int_t)i.budget_bytes);
  json_t *limits = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:[I,I,I]}", "cache_line", (json_int_t)i.cache_line,
                             "compute_units", (json_int_t)i.compute_units, "clock_mhz", (json_int_t)i.clock_mhz,
                             "vector_f32", (json_int_t)i.vector_f32, "alignment", (json_int_t)i.alignment, "max_group",
                             (json_int_t)i.max_group, "max_passes", (json_int_t)i.max_passes, "max_item",
                             (json_int_t)i.max_item[0], (json_int_t)i.max_item[1], (json_int_t)i.max_item[2]);
  json_t *capabilities =
      json_pack("{s:b, s:b, s:b, s:b, s:b, s:b, s:b}", "compiler", i.compiler, "fp16", i.fp16, "fp64", i.fp64, "images",
                i.images, "unified_memory", i.unified_memory, "out_of_order", i.out_of_order, "software", i.software);
  return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "id", i.id, "name",
                   cli_json_text(i.name), "vendor", cli_json_text(i.vendor), "platform", cli_json_text(i.platform),
                   "platform_version", cli_json_text(i.platform_version), "version", cli_json_text(i.version), "driver",
                   cli_json_text(i.driver), "class", clade_device_class_name(i.device_class), "memory", memory,
                   "limits", limits, "capabilities", capabilities, "programs", programs_json(&i), "units",
                   units_json(&i), "quirks", quirks_json(index));
}

static const char *have(bool it, const char *name) { return it ? name : ""; }

static void print_device(int index) {
  clade_device_info i = {.size = sizeof i};
  if (clade_device_describe(index, &i)) return;
  ask_units(&i);
  printf("%s  %s\n", i.id, i.name);
  printf("   platform      %s, %s\n", i.platform, i.platform_version);
  printf("   driver        %s, %s, %s\n", i.driver, i.version, i.vendor);
  printf("   class         %s%s\n", clade_device_class_name(i.device_class), have(i.software, " (software)"));
  printf("   memory        %.0f MB, %.0f MB in one buffer, %.0f MB allowed to Clade, %.0f KB local\n",
         (double)i.global_bytes / 1e6, (double)i.max_buffer_bytes / 1e6, (double)i.budget_bytes / 1e6,
         (double)i.local_bytes / 1e3);
  printf("   limits        %u compute units, %llu work-items in a group, %u floats wide, aligned to %u bytes\n",
         i.compute_units, (unsigned long long)i.max_group, i.vector_f32, i.alignment);
  printf("   capabilities %s%s%s%s%s%s\n", have(i.compiler, " compiler"), have(i.fp16, " fp16"), have(i.fp64, " fp64"),
         have(i.images, " images"), have(i.unified_memory, " unified-memory"), have(i.out_of_order, " out-of-order"));
  printf("   programs     %s%s%s\n", have(i.sources, " source"), have(i.sources && i.binaries, " cached"),
         have(!i.sources, " bundle"));
  for (int u = 0; u < CLADE_MAX_UNITS; ++u)
    if (i.unit[u].name)
      printf("   matrix unit   %s%s\n", i.unit[u].used ? i.unit[u].name : i.unit[u].reason,
             have(i.unit[u].used, ": used"));
  const clade_quirk_info *quirks = NULL;
  int n = clade_device_quirks(index, &quirks);
  for (int q = 0; q < n; ++q) printf("   quirk         %s: %s\n", quirks[q].flag, quirks[q].reason);
}

/* wanted[i]: print device i. All of them where no device was asked for. */
static clade_status choose(const cli_args *args, int n, bool *wanted) {
  for (int i = 0; i < n; ++i) wanted[i] = !args->n_devices;
  for (int d = 0; d < args->n_devices; ++d) {
    clade_device *device = NULL;
    clade_device_info info = {.size = sizeof info};
    clade_status status = clade_device_find(args->device[d], &device);
    if (!status) status = clade_device_get_info(device, &info);
    if (!status) wanted[atoi(info.id)] = true; /* an id is a position in the list */
    clade_device_release(device);
    CLADE_TRY(status);
  }
  return CLADE_OK;
}

static int print_json(int n, const bool *wanted) {
  json_t *list = json_array();
  for (int i = 0; i < n; ++i) {
    json_t *device = wanted[i] ? cli_device_json(i, true) : NULL;
    if (device) json_array_append_new(list, device);
  }
  return cli_json_end(json_pack("{s:o}", "devices", list));
}

static const cli_args description = {
    .command = "devices",
    .synopsis = "",
    .about = "Lists every device of every OpenCL platform: what it said of itself and what was probed.",
    .device_help = "only this device (may be repeated); docs/devices.md tells the rule",
    .many_devices = true,
};

int cli_devices(int argc, char **argv) {
  cli_args args = description;
  const char *value;
  int next = cli_next(&args, argc, argv, &value);
  if (next == CLI_NEXT_HELP) return CLI_DONE;
  if (next == CLI_NEXT_WRONG) return CLI_USAGE;
  if (optind < argc) return cli_wrong(&args, "unexpected argument '%s'", argv[optind]);
  if (args.json && !cli_json_begin()) return CLI_FAILED;
  int n = 0;
  clade_status status = clade_device_count(&n);
  if (!status && !n) status = clade_fail(CLADE_NOT_FOUND, "no OpenCL platform has a device: clade doctor tells why");
  bool *wanted = status ? NULL : clade__new((size_t)n, sizeof *wanted);
  if (!status) status = wanted ? choose(&args, n, wanted) : CLADE_NO_MEMORY;
  int result = CLI_DONE;
  if (status)
    result = cli_failed_status(status);
  else if (args.json)
    result = print_json(n, wanted);
  else
    for (int i = 0; i < n; ++i)
      if (wanted[i]) print_device(i);
  clade__free(wanted);
  return result;
}
