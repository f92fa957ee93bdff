/* eltwise.def as a table, with lookup by name and by number. */
#include "op/op.h"

#define INFINITY __builtin_inff()
#define E(...)   #__VA_ARGS__
#define NO       NULL

const clade__elt_row clade__elt_rows[] = {
#define ELT(number, name, arity, n_params, kind, real, integer, reference, by_a, by_b, by_c, p, q, low, high, ulp, \
            floor, cost)                                                                                           \
  {number, #name, arity, n_params, CLADE__ELT_##kind, real, integer, {by_a, by_b, by_c}, {p, q}, low,              \
   high,   ulp,   floor, cost},
#include "op/eltwise.def"
#undef ELT
    {.name = NULL},
};

const clade__elt_row *clade__elt_by_name(const char *name) {
  for (const clade__elt_row *row = clade__elt_rows; name && row->name; row++)
    if (strcmp(row->name, name) == 0) return row;
  return NULL;
}

/* The table is sorted by number. */
const clade__elt_row *clade__elt_by_number(unsigned number) {
  size_t low = 0, high = CLADE_COUNT(clade__elt_rows) - 1;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (clade__elt_rows[middle].number < number)
      low = middle + 1;
    else
      high = middle;
  }
  return clade__elt_rows[low].number == number && clade__elt_rows[low].name ? &clade__elt_rows[low] : NULL;
}
