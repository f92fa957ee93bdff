/* Data sets of labeled samples, and a loader that prepares batches in the background. The order and the bits of the
 * samples depend on the seed, the epoch and the index only, not on the number of threads (docs/data.md). */
#ifndef CLADE_DATA_H
#define CLADE_DATA_H

#include <clade/types.h>

CLADE_BEGIN_DECLS

/* ---- data sets ---- */
/* A data set. Reference-counted and immutable; usable from every thread. */
typedef struct clade_dataset clade_dataset;

/* Opens the training or the test part of a data set: "digits", "fashion-mnist[:DIR]", "mnist:DIR", "cifar10:DIR",
 * "cifar100:DIR" or "npy:DIR". docs/data.md, and the message of the failure, say which files a directory must have. */
CLADE_API clade_status clade_dataset_open(const char *spec, bool train, clade_dataset **out);

/* The properties of a data set. Texts and arrays live as long as the set. */
typedef struct clade_dataset_info {
  size_t size;
  const char *name;               /* "mnist" */
  int64_t count;                  /* number of samples */
  int classes;                    /* labels are 0 to classes - 1 */
  clade_shape shape;              /* of a sample: channels, height, width */
  const char *const *class_names; /* one per class; NULL: unknown */
  const float *mean, *std;        /* one per channel, over the training part, for clade_augment.normalize */
  const char *spec;               /* the argument of clade_dataset_open; NULL: a program's own set */
} clade_dataset_info;
/* Describes a data set. The caller sets info->size. */
CLADE_API clade_status clade_dataset_describe(const clade_dataset *dataset, clade_dataset_info *info);

/* Reads sample `index`: channels x height x width elements into `x`, and the label. Bytes of images become 0 to 1. */
CLADE_API clade_status clade_dataset_get(const clade_dataset *dataset, int64_t index, float *x, int32_t *label);

/* A program's own data set. Everything but `user` is copied. */
typedef struct clade_dataset_def {
  size_t size CLADE_DEFAULT(sizeof(struct clade_dataset_def));
  const char *name CLADE_UNSET;                                    /* unset: "user" */
  int64_t count CLADE_UNSET;                                       /* number of samples */
  int classes CLADE_UNSET;                                         /* number of classes */
  int channels CLADE_UNSET, height CLADE_UNSET, width CLADE_UNSET; /* of a sample; a vector of n elements is 1, 1, n */
  const char *const *class_names CLADE_UNSET;                      /* one per class; may be NULL */
  const float *mean CLADE_UNSET, *std CLADE_UNSET;                 /* one per channel; NULL: 0 and 1 */
  /* Reads a sample. Called by several threads at once; must give the same result for the same index every time.
   * clade_loader_next returns a failure, with the message of clade_fail. */
  clade_status (*get)(void *user, int64_t index, float *x, int32_t *label) CLADE_UNSET;
  /* Called when the last reference is dropped, and when clade_dataset_new fails; may be NULL. */
  void (*release)(void *user) CLADE_UNSET;
} clade_dataset_def;
/* Makes a data set of a program's own samples. */
CLADE_API clade_status clade_dataset_new(const clade_dataset_def *def, void *user, clade_dataset **out);

/* Adds and drops a reference; NULL may be released. */
CLADE_API clade_dataset *clade_dataset_retain(clade_dataset *dataset);
CLADE_API void clade_dataset_release(clade_dataset *dataset);

/* ---- loader ---- */
/* A loader of batches. */
typedef struct clade_loader clade_loader;

/* Augmentations, applied to each sample in this order. Random draws depend on seed, epoch and sample. 0: off. */
typedef struct clade_augment {
  int crop CLADE_UNSET;         /* pad by this many mirrored pixels on each side, then crop at a random position */
  int shift CLADE_UNSET;        /* shift by up to this many pixels along each axis; new pixels are 0 */
  bool flip CLADE_UNSET;        /* flip horizontally with probability 1/2 */
  float rotate CLADE_UNSET;     /* rotate by up to this many degrees either way, bilinearly; new pixels are 0 */
  int cutout CLADE_UNSET;       /* set a square of this size, centered anywhere in the image, to the channels' mean */
  bool normalize CLADE_UNSET;   /* (x - mean) / std */
  int reserved[10] CLADE_UNSET; /* zero; keeps the size of structs that hold this one */
} clade_augment;

/* Options of clade_loader_new. */
typedef struct clade_loader_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_loader_opt));
  clade_loader **out CLADE_UNSET;    /* the new loader */
  int batch CLADE_UNSET;             /* samples per batch; unset: 64 */
  int threads CLADE_UNSET;           /* unset: 2 */
  int queue CLADE_UNSET;             /* batches prepared ahead; unset: 4 */
  uint64_t seed CLADE_UNSET;         /* of order and augmentation */
  int64_t epochs CLADE_UNSET;        /* epochs until clade_loader_next gives batches of 0 samples; unset: endless */
  bool shuffle CLADE_UNSET;          /* shuffle by seed and epoch; unset: in order */
  bool drop_last CLADE_UNSET;        /* leave out a last batch that is not full */
  clade_augment augment CLADE_UNSET; /* augmentations */
  /* Load only these rows of each batch, for loaders that share batches: `rows` rows from `first_row` on. A last batch
   * without any of them has n = 0. Unset: all rows. */
  int first_row CLADE_UNSET, rows CLADE_UNSET;
} clade_loader_opt;

/* Makes a loader: clade_loader_new(dataset, &loader [, .option = …]). The loader holds a reference to the set. Its
 * threads start at once, and wait while the queue is full. All memory is allocated here. */
#define clade_loader_new(dataset, ...) clade_loader_new_(dataset, CLADE_OPT(clade_loader_opt, .out = __VA_ARGS__))
CLADE_API clade_status clade_loader_new_(clade_dataset *dataset, const clade_loader_opt *opt);
CLADE_API void clade_loader_free(clade_loader *loader); /* at any time; NULL may be freed */

/* A batch of samples. */
typedef struct clade_batch {
  size_t size;
  const float *x;         /* [batch, channels, height, width]; 0 from sample n on */
  const int32_t *y;       /* [batch]; -1 from sample n on */
  const int64_t *samples; /* [n]: indices in the set */
  int n;                  /* number of samples: batch, less in a last one, 0 after the last epoch */
  int64_t epoch, index;   /* epoch, and index of the batch within it, from 0 */
  bool last;              /* last batch of the epoch */
} clade_batch;
/* Waits for the next batch, which is valid until the next call with this loader. One thread at a time may call this
 * function and clade_loader_seek. If a sample fails, the message names it, and the loader stays at its batch until it
 * seeks another one. The caller sets batch->size. */
CLADE_API clade_status clade_loader_next(clade_loader *loader, clade_batch *batch);
/* Selects the next batch; batches before it are not prepared. An `index` equal to the number of batches is the first
 * batch of the next epoch. */
CLADE_API clade_status clade_loader_seek(clade_loader *loader, int64_t epoch, int64_t index);
/* Makes a waiting clade_loader_next and all later ones return CLADE_CANCELED. From any thread. */
CLADE_API clade_status clade_loader_cancel(clade_loader *loader);

/* Statistics of a loader. */
typedef struct clade_loader_info {
  size_t size;
  int64_t batches;     /* per epoch */
  int64_t made, taken; /* batches that the threads prepared, and that clade_loader_next returned */
  double waited;       /* seconds that clade_loader_next waited */
} clade_loader_info;
/* Reports the statistics, from any thread. The caller sets info->size. */
CLADE_API clade_status clade_loader_stats(const clade_loader *loader, clade_loader_info *info);

CLADE_END_DECLS
#endif
