/* --device emulated: the layer that presents the emulated accelerator, named to OpenCL's loader before that is opened;
 * and where its bundle is. Both lie beside the command, or in the library's directory where it is installed. */
#include "cli/cli.h"

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

static bool asks(const char *spec) {
  static const char alias[] = "emulated";
  size_t n = sizeof alias - 1;
  return strncasecmp(spec, alias, n) == 0 && (!spec[n] || spec[n] == ':');
}

/* The directory that holds the layer. */
static bool find_place(char place[PATH_BYTES]) {
  static const char *const ways[] = {"", "/../" CLADE_CLI_LIBDIR "/clade"};
  char self[PATH_BYTES / 2], layer[PATH_BYTES + 32];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n <= 0) return false;
  self[n] = '\0';
  const char *folder = dirname(self);
  for (size_t i = 0; i < CLADE_COUNT(ways); i++) {
    snprintf(place, PATH_BYTES, "%s%s", folder, ways[i]);
    snprintf(layer, sizeof layer, "%s/libclade_emulated.so", place);
    if (!access(layer, R_OK)) return true;
  }
  return false;
}

void cli_emulated(const char *spec) {
  char place[PATH_BYTES], text[3 * PATH_BYTES];
  static bool done;
  const char *layers = getenv("OPENCL_LAYERS");
  if (done || !spec || !asks(spec) || !find_place(place)) return;
  done = true;
  if (!layers || !strstr(layers, "/libclade_emulated")) { /* that one, or one that stands in its place */
    snprintf(text, sizeof text, "%.*s%s%s/libclade_emulated.so", PATH_BYTES, layers ? layers : "",
             layers && *layers ? ":" : "", place);
    setenv("OPENCL_LAYERS", text, 1);
  }
  snprintf(text, sizeof text, "%s/bundles", place);
  if (!access(text, R_OK)) setenv("CLADE_BUNDLE_PATH", text, 0);
}
