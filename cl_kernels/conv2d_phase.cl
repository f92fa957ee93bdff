/* Phases of a gathered result. Included by conv2d*.cl.
 *
 * Places of the result that are `div` apart along an axis are a phase: all use the same taps, and neighboring places
 * read neighboring pixels. Number of these taps, the first one, and the distance to the next; the source position of
 * the first place's first tap, and the step from tap to tap, which is not negative. */
typedef struct {
  int count, first, step, shift, move;
} FN(phase);
APART static FN(phase) FN(phase_of)(int origin, int delta, int div, int taps) {
  FN(phase) p = {0, 0, 1, 0, 0};
  while (p.first < taps && (origin + p.first * delta) % div) p.first++;
  if (p.first == taps) return p;
  while (p.step * delta % div) p.step++;
  p.count = (taps - 1 - p.first) / p.step + 1;
  p.shift = (origin + p.first * delta) / div;
  p.move = p.step * delta / div;
  if (p.move >= 0) return p;
  p.first += (p.count - 1) * p.step;
  p.shift += (p.count - 1) * p.move;
  p.step = -p.step;
  p.move = -p.move;
  return p;
}
