/* The room of data: random draws by counter, the order of an epoch, what sets are made of. Knows no kernels and no
 * devices. */
#ifndef CLADE_DATA_DATA_H
#define CLADE_DATA_DATA_H

#include <clade/data.h>

#include "io/io.h"

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

/* ---- sets that Clade knows by name (open.c) ---- */
typedef struct clade__source {
  const char *name;
  const char *directory; /* where it is when the spec names none; NULL: it must */
  const char *layout;    /* what the directory holds, for the message where something is missing; NULL: generated */
  int classes;           /* 0: as many as the labels say */
  const char *const *class_names;
  float mean[3], std[3];
  clade_status (*open)(const struct clade__source *source, const char *directory, bool train, clade_dataset **out);
} clade__source;
clade_status clade__open_digits(const clade__source *source, const char *directory, bool train, clade_dataset **out);
clade_status clade__open_mnist(const clade__source *source, const char *directory, bool train, clade_dataset **out);
clade_status clade__open_cifar(const clade__source *source, const char *directory, bool train, clade_dataset **out);
clade_status clade__open_npy(const clade__source *source, const char *directory, bool train, clade_dataset **out);

/* Its info tells the spec from now on; where there is no memory for it, the set is released (dataset.c). */
clade_status clade__dataset_tell_spec(clade_dataset **dataset, const char *spec);

/* ---- sets held in memory (samples.c) ---- */
typedef struct clade__samples {
  clade_array x;   /* u8 or f32; [count, height, width], with channels after the count, or without the height */
  int32_t *labels; /* one for each */
  float *moments;  /* mean of each channel of the training part, then its deviation; NULL: the source knows them */
} clade__samples;
/* Their mean and standard deviation for each channel, as `moments` above; 0 and 1 where there is none. */
clade_status clade__samples_moments(const clade_array *x, float **moments);
/* Makes the set, and takes over the samples, also when it fails. `classes` is for a source that leaves it open. */
clade_status clade__samples_set(const clade__source *source, int classes, clade__samples *samples, clade_dataset **out);
void clade__samples_free(clade__samples *samples);

/* ---- the generated set (digits.c) ---- */
enum { CLADE__DIGIT_SIDE = 28, CLADE__DIGIT_PIXELS = 28 * 28 };
/* Image `index` of all that there are for a seed: integers only, so the same on every machine. Returns its label. */
int clade__digit_draw(uint64_t seed, uint64_t index, unsigned char pixel[CLADE__DIGIT_PIXELS]);

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
