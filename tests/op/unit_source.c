/* Prints the probe kernel of a unit, for who compiles it (ptx_compiles.sh). */
#include <stdio.h>

#include "cl/internal.h"

int main(void) {
  puts(clade__unit_rows[CLADE_UNIT_PTX].source);
  return 0;
}
