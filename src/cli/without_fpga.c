/* Replaces the files for FPGAs if CLADE_FPGA is OFF: commands and devices that need them fail, and name the option. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "cli/compare/compare.h"

#define REMEDY "build Clade with -DCLADE_FPGA=ON"

/* ---- clade pack ---- */
static const cli_args description = {
    .command = "pack",
    .synopsis = "",
    .about = "Bundles are left out of this build: " REMEDY ".",
    .device_help = "accepted, without effect",
};

/* Options of the sub-commands are unknown here, so they are not parsed. */
int cli_pack(int argc, char **argv) {
  cli_args args = description;
  const char *value;
  const bool named = argc > 1 && argv[1][0] != '-';
  const int next = named ? CLI_NEXT_END : cli_next(&args, argc, argv, &value);
  if (next == CLI_NEXT_HELP) return CLI_DONE;
  if (next == CLI_NEXT_WRONG) return CLI_USAGE;
  return cli_failed("this build makes and reads no bundles: " REMEDY);
}

/* ---- --device emulated ---- */
/* Another device may match the spec, such as a vendor's emulator, so this is a note and no error. */
void cli_emulated(const char *spec) {
  static const char *const names[] = {"emulated", "fpga"};
  for (size_t i = 0; spec && i < CLADE_COUNT(names); i++) {
    const size_t n = strlen(names[i]);
    if (!strncasecmp(spec, names[i], n) && (!spec[n] || spec[n] == ':'))
      fprintf(stderr, "clade: %s: this build has no emulated accelerator and computes nothing on FPGAs: " REMEDY "\n",
              spec);
  }
}

/* ---- clade bench compare --device model:FILE, rtl:FILE ---- */
static clade_status refuse(compare_side *side, const char *path) {
  (void)side, (void)path;
  return CLADE_FAIL(UNSUPPORTED, "this build has no cycle model: " REMEDY);
}

static void close_side(compare_side *side) { (void)side; }

static const compare_kind model = {.prefix = "model:", .open = refuse, .close = close_side},
                          rtl = {.prefix = "rtl:", .open = refuse, .close = close_side};
const compare_kind *const compare_kinds[] = {&model, &rtl, NULL};
