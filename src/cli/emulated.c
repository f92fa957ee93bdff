/* --device emulated: adds the layer of the emulated accelerator to OPENCL_LAYERS before OpenCL's loader is opened,
 * and sets CLADE_BUNDLE_PATH to its bundle. Both files are beside the command or in the installed library's
 * directory. --device rtl:FILE (docs/bench.md) uses a layer that also simulates the array; if both are
 * asked for, this layer serves both. */
#include "cli/cli.h"

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

/* RTL includes PLAIN. */
enum layer { NONE, PLAIN, RTL };
static const char *const files[] = {[PLAIN] = "libclade_emulated.so", [RTL] = "libclade_emulated_rtl.so"};

static enum layer asked_by(const char *spec) {
  static const char alias[] = "emulated";
  size_t n = sizeof alias - 1;
  if (strncmp(spec, "rtl:", 4) == 0) return RTL;
  return strncasecmp(spec, alias, n) == 0 && (!spec[n] || spec[n] == ':') ? PLAIN : NONE;
}

static bool find_place(const char *file, char place[PATH_BYTES]) {
  static const char *const ways[] = {"", "/../" CLADE_CLI_LIBDIR "/clade"};
  char self[PATH_BYTES / 2], layer[PATH_BYTES + 32];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n <= 0) return false;
  self[n] = '\0';
  const char *folder = dirname(self);
  for (size_t i = 0; i < CLADE_COUNT(ways); i++) {
    snprintf(place, PATH_BYTES, "%s%s", folder, ways[i]);
    snprintf(layer, sizeof layer, "%s/%s", place, file);
    if (!access(layer, R_OK)) return true;
  }
  return false;
}

void cli_emulated(const char *spec) {
  char place[PATH_BYTES], text[3 * PATH_BYTES];
  static char others[PATH_BYTES]; /* the user's OPENCL_LAYERS */
  static enum layer loaded;
  enum layer layer = spec ? asked_by(spec) : NONE;
  if (layer <= loaded || !find_place(files[layer], place)) return;
  if (!loaded) snprintf(others, sizeof others, "%s", getenv("OPENCL_LAYERS") ? getenv("OPENCL_LAYERS") : "");
  loaded = layer;
  if (!strstr(others, "/libclade_emulated")) { /* the user may have named this layer, or a replacement */
    snprintf(text, sizeof text, "%s%s%s/%s", others, *others ? ":" : "", place, files[layer]);
    setenv("OPENCL_LAYERS", text, 1);
  }
  snprintf(text, sizeof text, "%s/bundles", place);
  if (!access(text, R_OK)) setenv("CLADE_BUNDLE_PATH", text, 0);
}
