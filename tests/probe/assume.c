/* Linked into the command, it lets the host have every unit, so that units are probed on any processor. */
#include "cl/units.h"

__attribute__((constructor)) static void assume(void) { clade__units_assumed = true; }
