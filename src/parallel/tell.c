/* Prints the explanation of tensor parallelism: families and communication. */
#include <inttypes.h>

#include "parallel/tensor.h"

static void tell_family(const clade__tensor *t, const clade__family *f, clade__text *text) {
  const clade__node *n = &t->g->nodes[t->g->values[f->value].node];
  const int64_t length = clade__type(t->g, f->value)->shape.dim[f->axis];
  const bool changes = !f->of_variable && !f->marked;
  clade__text_add(text, "  %-28s axis %d  %6" PRId64 " in %" PRId64 " blocks  ", *n->name ? n->name : n->op->name,
                  f->axis, length, f->blocks);
  if (f->blocks < t->ranks)
    clade__text_add(text, "fewer than ranks: whole\n");
  else if (changes && !f->split)
    clade__text_add(text, "no variable's: whole unless it is asked for\n");
  else
    clade__text_add(text, "spares %.3g s, costs %.3g s and %.3g MB: %s%s\n", f->spares, f->costs, f->bytes * 1e-6,
                    f->split ? "split" : "whole", f->marked ? ", as asked for" : "");
}

void clade__tensor_tell(const clade__tensor *t, clade__text *text) {
  const clade__speeds s = clade__speeds_assumed(t->how->speeds);
  clade__text_add(text, "tensor parallelism over %d ranks, of which this is %d\n", t->ranks, t->rank);
  clade__text_add(text, "by a link of %g us and %g Gbit/s, and devices of %g TFLOP/s\n", s.link_us, s.link_gbits,
                  s.tflops);
  clade__text_add(text, "families of axes:\n");
  for (int i = 0; i < t->n_families; i++)
    if (t->families[i].of_variable || t->families[i].marked) tell_family(t, &t->families[i], text);
  clade__text_add(text, "what moves, in order:\n");
}

void clade__tensor_tell_move(const clade__tensor *t, clade__text *text, const char *what, clade__id value, int axis,
                             const char *backward) {
  const clade__node *n = &t->g->nodes[t->g->values[value].node];
  char type[640];
  clade__text_add(text, "  %s%s%s  %s", n->op->name, *n->name ? " " : "", n->name,
                  clade__type_text(clade__type(t->g, value), type, sizeof type));
  if (axis >= 0) clade__text_add(text, ", axis %d", axis);
  clade__text_add(text, ": forward %s, backward %s\n", what, t->flows[value] ? backward : "nothing");
}
