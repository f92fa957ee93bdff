/* Prints the probe kernel of a matrix unit, to be compiled by ptx_compiles.sh. */
#include <stdio.h>

#include "cl/internal.h"

int main(int argc, char **argv) {
  for (int i = 0; i < CLADE_UNITS; i++)
    if (argc == 2 && !strcmp(clade__unit_rows[i].name, argv[1])) return puts(clade__unit_rows[i].source) < 0;
  return 2;
}
