/* A user's program in C11. */
#include <clade/clade.h>
#include <stdio.h>

int main(void) {
  clade_shape shape = CLADE_SHAPE(CLADE_DIM("batch"), 3);
  char text[64];
  printf("clade %s %s\n", clade_status_text(CLADE_OK), clade_shape_text(&shape, text, sizeof text));
  return 0;
}
