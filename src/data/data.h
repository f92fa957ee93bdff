/* The room of data: random draws by counter, the order of an epoch, what sets are made of. Knows no kernels and no
 * devices. */
#ifndef CLADE_DATA_DATA_H
#define CLADE_DATA_DATA_H

#include <clade/data.h>

#include "base/base.h"

/* ---- draws (draw.c): a stream of random numbers for each (key, purpose, epoch, index) ---- */
typedef enum clade__purpose { CLADE__DRAW_DIGIT = 1, CLADE__DRAW_ORDER, CLADE__DRAW_AUGMENT } clade__purpose;
typedef struct clade__draw {
  uint64_t key, counter, element;
  uint32_t word[4];
  int left; /* of word */
} clade__draw;
clade__draw clade__draw_of(uint64_t key, clade__purpose purpose, uint64_t epoch, uint64_t index);
uint32_t clade__draw_bits(clade__draw *draw);
int clade__draw_int(clade__draw *draw, int low, int high); /* both included */

/* Where `position` of the epoch's permutation of 0 to n - 1 points. */
int64_t clade__shuffled(uint64_t key, int64_t epoch, int64_t n, int64_t position);

/* ---- sets held in memory (samples.c) ---- */
typedef struct clade__samples {
  int64_t count;
  size_t elements;            /* of a sample */
  const unsigned char *bytes; /* images of bytes, or */
  const float *floats;        /* of floats */
  const int32_t *labels;
  void *owner[3]; /* the allocations that they lie in */
} clade__samples;
/* Makes a set of `def` and takes over what the samples own, also when it fails. */
clade_status clade__samples_set(const clade_dataset_def *def, clade__samples *samples, clade_dataset **out);
void clade__samples_free(clade__samples *samples);

/* ---- the generated set (digits.c) ---- */
enum { CLADE__DIGIT_SIDE = 28, CLADE__DIGIT_PIXELS = 28 * 28 };
/* Image `index` of all that there are for a seed: integers only, so the same on every machine. Returns its label. */
int clade__digit_draw(uint64_t seed, uint64_t index, unsigned char pixel[CLADE__DIGIT_PIXELS]);
clade_status clade__digits_open(bool train, clade_dataset **out);

/* Strokes of a way to write a digit (digits_shapes.c): points from (0, 0) to (100, 100), joined by smooth curves; a
 * point that is there twice is a corner. */
typedef struct clade__stroke {
  int n;
  struct {
    int x, y;
  } point[12];
} clade__stroke;
enum { CLADE__STROKES = 3 };
typedef struct clade__shape {
  int digit;
  clade__stroke stroke[CLADE__STROKES];
} clade__shape;
/* The ways to write a digit. */
const clade__shape *clade__digit_shapes(int digit, int *n);

/* ---- augmenting (augment.c) ---- */
/* Changes a sample in place; `scratch` holds as many elements. */
void clade__augment(const clade_augment *augment, const clade_dataset_info *info, clade__draw *draw, float *x,
                    float *scratch);
/* Refuses what makes no sense for samples of this shape. */
clade_status clade__augment_check(const clade_augment *augment, const clade_dataset_info *info);

#endif
