/* clade __child: the OpenCL queries of the doctor, in a process of their own, answered as JSON. */
#include "cli/cli.h"

#include <dlfcn.h>
#include <stdio.h>

#include "cl/cl.h"

enum { MAX_PLATFORMS = 64 };

static int answer(json_t *document) {
  bool written = document && !json_dumpf(document, stdout, JSON_COMPACT) && !fflush(stdout);
  json_decref(document);
  return written ? CLI_DONE : CLI_FAILED;
}

/* ---- vendor LIBRARY: does it load and is it an OpenCL implementation? ---- */
static int vendor(const char *library) {
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *why = dlerror();
    return answer(json_pack("{s:o}", "error", cli_json_text(why ? why : "unknown reason")));
  }
  if (!dlsym(handle, "clGetExtensionFunctionAddress"))
    return answer(json_pack("{s:s}", "error", "it has no clGetExtensionFunctionAddress: not an OpenCL implementation"));
  return answer(json_object());
}

/* ---- inspect SPEC…: loader, platforms, devices, and the device of each spec ---- */
static json_t *platforms_json(void) {
  clade__platform_report reports[MAX_PLATFORMS];
  int n = clade__platforms_inspect(MAX_PLATFORMS, reports);
  json_t *list = json_array();
  for (int i = 0; i < CLADE_MIN(n, MAX_PLATFORMS); ++i) {
    const clade__platform_report *r = &reports[i];
    json_array_append_new(list, json_pack("{s:o, s:o, s:i, s:s, s:o, s:o}", "name", cli_json_text(r->name), "version",
                                          cli_json_text(r->version), "devices", r->devices, "error_name",
                                          clade__cl_error_name(r->error), "message", cli_json_text(r->message),
                                          "remedy", cli_json_text(r->remedy)));
  }
  return list;
}

static json_t *devices_json(void) {
  json_t *list = json_array();
  int n = 0;
  if (clade_device_count(&n)) return list; /* the checks of loader and platforms report the reason */
  for (int i = 0; i < n; ++i) {
    json_t *device = cli_device_json(i, false);
    if (device) json_array_append_new(list, device);
  }
  return list;
}

static json_t *chosen_json(int n, char **specs) {
  json_t *list = json_array();
  for (int i = 0; i < n; ++i) {
    clade_device *device = NULL;
    clade_device_info info = {.size = sizeof info};
    bool found = !clade_device_find(specs[i], &device) && !clade_device_get_info(device, &info);
    json_array_append_new(list, json_pack("{s:o, s:s}", "spec", cli_json_text(specs[i]), found ? "id" : "error",
                                          found ? info.id : clade_last_error()));
    clade_device_release(device);
  }
  return list;
}

static int inspect(int n, char **specs) {
  clade__loader_report loader;
  clade__loader_inspect(&loader);
  json_t *platforms = loader.path ? platforms_json() : json_array();
  json_t *devices = loader.path ? devices_json() : json_array();
  json_t *chosen = loader.path ? chosen_json(n, specs) : json_array();
  return answer(json_pack("{s:o, s:o, s:i, s:s, s:o, s:o, s:o}", "loader", cli_json_text(loader.path), "loader_error",
                          cli_json_text(loader.error), "platform_error", (int)loader.platform_error,
                          "platform_error_name", clade__cl_error_name(loader.platform_error), "platforms", platforms,
                          "devices", devices, "chosen", chosen));
}

/* ---- probe ID: does a kernel compute the right result? ---- */
static int probe(const char *id) {
  clade_device *device = NULL;
  clade_status status = clade_device_find(id, &device);
  if (!status) status = clade__device_probe(device);
  json_t *document = status ? json_pack("{s:o}", "error", cli_json_text(clade_last_error())) : json_object();
  clade_device_release(device);
  return answer(document);
}

int cli_child(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  if (!strcmp(what, "vendor") && argc == 3) return vendor(argv[2]);
  if (!strcmp(what, "inspect")) return inspect(argc - 2, argv + 2);
  if (!strcmp(what, "probe") && argc == 3) return probe(argv[2]);
  fprintf(stderr, "clade __child: for the doctor's own use\n");
  return CLI_USAGE;
}
