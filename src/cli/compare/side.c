/* The devices of a comparison: opened, described and probed. */
#include "cli/compare/compare.h"

#include <stdio.h>

const char *const compare_evidence_names[] = {"measured", "rtl-simulated", "modeled(routed)", "modeled(report)",
                                              "functional-only"};

static const char *const meanings[] = {
    "times of this device, by this machine's clock",
    ("cycles that the simulated circuit took for its sums, at the clock that a tool routed; its streams never pause, "
     "and copies, memory, launches and what a fallback device computes are not counted"),
    "computed from the clock that a tool routed, for a device that is not here",
    "computed from an estimate of the clock, for a device that is not here",
    "a processor computes in this device's place: results are right, times tell nothing of such a device"};

static clade_status open_device(compare_side *side) {
  bench_job *bench = &side->bench;
  CLADE_TRY(clade_device_find(side->spec, &bench->device));
  bench->info.size = sizeof bench->info;
  CLADE_TRY(clade_device_get_info(bench->device, &bench->info));
  side->evidence = bench->info.software ? COMPARE_FUNCTIONAL : COMPARE_MEASURED;
  compare_meter_open(&side->meter, &bench->info);
  /* a device without a compiler has no program for the probes */
  return bench->info.compiler ? bench_probe(bench) : CLADE_OK;
}

static const compare_kind *kind_of(const char *spec) {
  const compare_kind *const *kind = compare_kinds;
  while (*kind && !(spec && !strncmp(spec, (*kind)->prefix, strlen((*kind)->prefix)))) kind++;
  return *kind;
}

/* Rows name the device by the prefix and the file's stem. */
static clade_status open_described(compare_side *side) {
  const char *path = side->spec + strlen(side->kind->prefix);
  const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path, *end = strrchr(name, '.');
  snprintf(side->label, sizeof side->label, "%s%.*s", side->kind->prefix, (int)(end ? end - name : 40), name);
  side->spec = side->label;
  return side->kind->open(side, path);
}

clade_status compare_side_open(const char *spec, compare_side *out) {
  *out = (compare_side){.spec = spec, .kind = kind_of(spec), .bench = {.dtype = CLADE_F32, .rounds = 7}};
  clade_status status = out->kind ? open_described(out) : open_device(out);
  return status == CLADE_OK ? CLADE_OK : clade__fail_in(status, "--device %s", spec);
}

/* A bundle is looked up at the first compilation. */
clade_status compare_side_ask(compare_side *side) {
  clade_device_info info = {.size = sizeof info};
  CLADE_TRY(clade_device_get_info(side->bench.device, &info));
  side->told = info.evidence;
  return CLADE_OK;
}

void compare_side_close(compare_side *side) {
  clade_device_release(side->bench.device);
  if (side->kind) side->kind->close(side);
}

const char *compare_side_name(const compare_side *side) { return side->name ? side->name : side->bench.info.name; }

/* A model computes f32 works in its own element type; the simulated array computes i8 only. */
bool compare_does(const compare_side *side, const compare_work *work) {
  if (side->simulated) return work->bytes;
  return !work->bytes || !side->modeled || side->element_bytes == 1;
}

const char *compare_dtype(const compare_side *side, const compare_work *work) {
  uint64_t bytes = work->bytes ? 1 : side->modeled ? side->element_bytes : 4;
  return bytes == 4 ? "f32" : bytes == 1 ? "i8" : bytes == 2 ? "f16" : "f64";
}

static json_t *giga(double value) { return value > 0 ? json_real(value * 1e-9) : json_null(); }

json_t *compare_side_json(const compare_side *side) {
  const bench_job *b = &side->bench;
  return json_pack("{s:o, s:o, s:o, s:o, s:s, s:s, s:s, s:o, s:o, s:o, s:o}", "spec", cli_json_text(side->spec), "id",
                   cli_json_text(b->info.id), "name", cli_json_text(compare_side_name(side)), "platform",
                   cli_json_text(b->info.platform), "class",
                   clade_device_class_name(side->modeled ? CLADE_ACCEL : b->info.device_class), "evidence",
                   compare_evidence_names[side->evidence], "why", meanings[side->evidence], "bundle_evidence",
                   cli_json_text(side->told), "peak_gflops", giga(b->peak_flops), "copy_gbs", giga(b->copy_bytes),
                   "energy_by", cli_json_text(side->meter.by));
}
