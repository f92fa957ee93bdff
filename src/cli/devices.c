/* clade devices: lists the devices of all platforms. */
#include "cli/cli.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/profile.h"

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

/* Adds the results of probing the matrix units and of measuring the speed. A device that cannot be opened keeps its
 * plain description. */
static void ask_more(clade_device_info *info) {
  clade_device *device = NULL;
  if (clade_device_find(info->id, &device)) return;
  bool told = !clade_device_ask_profile(device, CLADE_PROFILE_KEPT, NULL);
  told = !clade_device_ask_units(device) || told;
  if (told) (void)!clade_device_get_info(device, info);
  clade_device_release(device);
}

/* Origin of a number. `class` numbers are the defaults of the device's class, where nothing was measured. */
typedef enum source { MEASURED, TOLD, EXPECTED, UNKNOWN } source;
static const char *const source_names[] = {"measured", "told", "class", "unknown"};

typedef struct speed {
  double value;
  source from;
} speed;

static speed speed_of(double measured, double expected) {
  return measured > 0 ? (speed){measured, MEASURED} : (speed){expected, expected > 0 ? EXPECTED : UNKNOWN};
}

/* The speeds of a device, in the order of docs/json.md. */
enum { BANDWIDTH, LAUNCH, WAIT, SPEEDS };
static const char *const speed_names[] = {"bandwidth_gbps", "launch_us", "wait_us"};
static void speeds_of(const clade_device_info *i, speed out[SPEEDS]) {
  clade__class_speed class = clade__class_speed_of(i);
  out[BANDWIDTH] = speed_of(i->bandwidth_gbps, class.bytes * 1e-9);
  out[LAUNCH] = speed_of(i->launch_us, class.launch * 1e6);
  out[WAIT] = speed_of(i->wait_us, 0);
}

static const clade_dtype peak_types[] = {CLADE_F32, CLADE_F16, CLADE_BF16, CLADE_I8};
static speed peak_of(const clade_device_info *i, clade_dtype type) {
  return speed_of(i->peak_gflops[type], type == CLADE_F32 ? clade__class_speed_of(i).flops * 1e-9 : 0);
}

static void add_speeds(json_t *device, const clade_device_info *i) {
  speed at[SPEEDS];
  json_t *obtained = json_object(), *peaks = json_object(), *from = json_object();
  speeds_of(i, at);
  for (int k = 0; k < SPEEDS; ++k) {
    json_object_set_new(device, speed_names[k], at[k].from == UNKNOWN ? json_null() : json_real(at[k].value));
    json_object_set_new(obtained, speed_names[k], json_string(source_names[at[k].from]));
  }
  for (size_t k = 0; k < CLADE_COUNT(peak_types); ++k) {
    const speed peak = peak_of(i, peak_types[k]);
    const char *name = clade_dtype_name(peak_types[k]);
    json_object_set_new(peaks, name, peak.from == UNKNOWN ? json_null() : json_real(peak.value));
    json_object_set_new(from, name, json_string(source_names[peak.from]));
  }
  json_object_set_new(device, "peak_gflops", peaks);
  json_object_set_new(obtained, "peak_gflops", from);
  json_object_set_new(device, "subgroup", json_integer(i->subgroup));
  json_object_set_new(obtained, "subgroup", json_string(source_names[i->subgroup ? TOLD : UNKNOWN]));
  json_object_set_new(device, "compute_capability", json_integer(i->compute_capability));
  json_object_set_new(obtained, "compute_capability",
                      json_string(source_names[i->compute_capability ? TOLD : UNKNOWN]));
  json_object_set_new(device, "local_static_bytes", json_integer((json_int_t)i->local_static_bytes));
  json_object_set_new(obtained, "local_static_bytes",
                      json_string(source_names[i->local_static_bytes > i->local_bytes ? MEASURED : TOLD]));
  json_object_set_new(device, "obtained", obtained);
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
  if (ask) ask_more(&i);
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
  json_t *device =
      json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "id", i.id, "name",
                cli_json_text(i.name), "vendor", cli_json_text(i.vendor), "platform", cli_json_text(i.platform),
                "platform_version", cli_json_text(i.platform_version), "version", cli_json_text(i.version), "driver",
                cli_json_text(i.driver), "class", clade_device_class_name(i.device_class), "memory", memory, "limits",
                limits, "capabilities", capabilities, "programs", programs_json(&i), "units", units_json(&i), "quirks",
                quirks_json(index));
  if (device) add_speeds(device, &i);
  return device;
}

static const char *have(bool it, const char *name) { return it ? name : ""; }

static void print_speeds(const clade_device_info *i) {
  speed at[SPEEDS];
  speeds_of(i, at);
  printf("   speed         %.3g GB/s", at[BANDWIDTH].value);
  for (size_t k = 0; k < CLADE_COUNT(peak_types); ++k) {
    const speed peak = peak_of(i, peak_types[k]);
    if (peak.from != UNKNOWN) printf(", %.3g Gop/s of %s", peak.value, clade_dtype_name(peak_types[k]));
  }
  printf(", a launch %.3g us", at[LAUNCH].value);
  if (at[WAIT].from == MEASURED) printf(", with waiting for it %.3g us", at[WAIT].value);
  printf("%s\n", at[BANDWIDTH].from == MEASURED ? " (measured)" : " (expected of the class; --measure measures)");
  if (i->subgroup) printf("   sub-groups    %u work-items run in step\n", i->subgroup);
  if (i->compute_capability) printf("   capability    %u.%u\n", i->compute_capability / 10, i->compute_capability % 10);
  if (i->local_static_bytes > i->local_bytes)
    printf("   local memory  arrays of up to %.0f KB in a kernel\n", (double)i->local_static_bytes / 1e3);
}

static void print_device(int index) {
  clade_device_info i = {.size = sizeof i};
  if (clade_device_describe(index, &i)) return;
  ask_more(&i);
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
  print_speeds(&i);
  const clade_quirk_info *quirks = NULL;
  int n = clade_device_quirks(index, &quirks);
  for (int q = 0; q < n; ++q) printf("   quirk         %s: %s\n", quirks[q].flag, quirks[q].reason);
}

/* Sets wanted[i] for the devices to print: those of --device, or all. */
static clade_status choose(const cli_args *args, int n, bool *wanted) {
  for (int i = 0; i < n; ++i) wanted[i] = !args->n_devices;
  for (int d = 0; d < args->n_devices; ++d) {
    clade_device *device = NULL;
    clade_device_info info = {.size = sizeof info};
    clade_status status = clade_device_find(args->device[d], &device);
    if (!status) status = clade_device_get_info(device, &info);
    if (!status) wanted[atoi(info.id)] = true; /* the id is the position in the list */
    clade_device_release(device);
    CLADE_TRY(status);
  }
  return CLADE_OK;
}

/* Measures devices before they are shown. A failure counts only if the device was named by --device (`strict`). */
static clade_status measure(int n, const bool *wanted, bool strict) {
  for (int i = 0; i < n; ++i) {
    clade_device_info info = {.size = sizeof info};
    clade_device *device = NULL;
    bool kept = false;
    if (!wanted[i] || clade_device_describe(i, &info)) continue;
    clade_status status = clade_device_find(info.id, &device);
    if (!status) status = clade_device_ask_profile(device, CLADE_PROFILE_AGAIN, &kept);
    clade_device_release(device);
    if (status && strict) return status;
    if (status)
      cli_failed("%s", clade_last_error());
    else if (!kept)
      fprintf(stderr, "device %s: no program cache keeps what was measured: no model goes by it\n", info.id);
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
    .about = "Lists the devices of all OpenCL platforms, with reported and probed properties.",
    .device_help = "only this device (may be repeated); see docs/devices.md",
    .many_devices = true,
    .options =
        (const cli_option[]){{"measure", NULL, "measure the speeds now and keep them for later compilations"}, {0}},
};

int cli_devices(int argc, char **argv) {
  cli_args args = description;
  const char *value;
  bool measures = false;
  int next = cli_next(&args, argc, argv, &value);
  for (; next == 0; next = cli_next(&args, argc, argv, &value)) measures = true;
  if (next == CLI_NEXT_HELP) return CLI_DONE;
  if (next == CLI_NEXT_WRONG) return CLI_USAGE;
  if (optind < argc) return cli_wrong(&args, "unexpected argument '%s'", argv[optind]);
  if (args.json && !cli_json_begin()) return CLI_FAILED;
  int n = 0;
  clade_status status = clade_device_count(&n);
  if (!status && !n) status = clade_fail(CLADE_NOT_FOUND, "no OpenCL platform has a device: clade doctor tells why");
  bool *wanted = status ? NULL : clade__new((size_t)n, sizeof *wanted);
  if (!status) status = wanted ? choose(&args, n, wanted) : CLADE_NO_MEMORY;
  if (!status && measures) status = measure(n, wanted, args.n_devices > 0);
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
