/* Shared by the module of data: random draws by counter, the order of an epoch, and sets of samples. Independent of
 * kernels and devices. */
#ifndef CLADE_DATA_DATA_H
#define CLADE_DATA_DATA_H

#include <clade/data.h>

#include "io/io.h"

/* ---- draws (draw.c): a stream of random numbers for each (key, purpose, epoch, index) ---- */
typedef enum clade__purpose { CLADE__DRAW_DIGIT = 1, CLADE__DRAW_ORDER, CLADE__DRAW_AUGMENT } clade__purpose;
typedef struct clade__draw {
  uint64_t key, counter, element;
  uint32_t word[4];
  int left; /* unused words */
} clade__draw;
clade__draw clade__draw_of(uint64_t key, clade__purpose purpose, uint64_t epoch, uint64_t index);
uint32_t clade__draw_bits(clade__draw *draw);
int clade__draw_int(clade__draw *draw, int low, int high); /* inclusive */

/* Value at `position` of the epoch's permutation of 0 to n - 1. */
int64_t clade__shuffled(uint64_t key, int64_t epoch, int64_t n, int64_t position);

/* ---- sets by name (open.c) ---- */
typedef struct clade__source {
  const char *name;
  const char *directory; /* default directory; NULL: the spec must name one */
  const char *layout;    /* expected files, for the message about a missing one; NULL: generated */
  int classes;           /* 0: given by the labels */
  const char *const *class_names;
  float mean[3], std[3];
  clade_status (*open)(const struct clade__source *source, const char *directory, bool train, clade_dataset **out);
} clade__source;
clade_status clade__open_digits(const clade__source *source, const char *directory, bool train, clade_dataset **out);
clade_status clade__open_mnist(const clade__source *source, const char *directory, bool train, clade_dataset **out);
clade_status clade__open_cifar(const clade__source *source, const char *directory, bool train, clade_dataset **out);
clade_status clade__open_npy(const clade__source *source, const char *directory, bool train, clade_dataset **out);

/* Sets the spec in the info. Releases the set if out of memory (dataset.c). */
clade_status clade__dataset_tell_spec(clade_dataset **dataset, const char *spec);

/* ---- sets held in memory (samples.c) ---- */
typedef struct clade__samples {
  clade_array x; /* u8 or f32: [count, channels, height, width], [count, height, width] or [count, values] */
  int32_t *labels;
  float *moments; /* means of the training part's channels, then deviations; NULL: given by the source */
} clade__samples;
/* Mean and standard deviation of each channel, in the order of `moments`; 0 and 1 if undefined. */
clade_status clade__samples_moments(const clade_array *x, float **moments);
/* Creates a set and takes over the samples, also after a failure. classes: for a source with 0 classes. */
clade_status clade__samples_set(const clade__source *source, int classes, clade__samples *samples, clade_dataset **out);
void clade__samples_free(clade__samples *samples);

/* ---- the generated set (digits.c) ---- */
enum { CLADE__DIGIT_SIDE = 28, CLADE__DIGIT_PIXELS = 28 * 28 };
/* Draws image `index` of a seed by integer arithmetic, so that every machine gets the same bits. Returns the label. */
int clade__digit_draw(uint64_t seed, uint64_t index, unsigned char pixel[CLADE__DIGIT_PIXELS]);

/* Strokes of one way to write a digit (digits_shapes.c): points from (0, 0) to (100, 100) joined by smooth curves; a
 * repeated point is a corner. */
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
/* All ways to write a digit. */
const clade__shape *clade__digit_shapes(int digit, int *n);

/* ---- augmentation (augment.c) ---- */
/* Changes a sample in place; scratch: as many elements. */
void clade__augment(const clade_augment *augment, const clade_dataset_info *info, clade__draw *draw, float *x,
                    float *scratch);
/* Checks the options for samples of this shape. */
clade_status clade__augment_check(const clade_augment *augment, const clade_dataset_info *info);

#endif
