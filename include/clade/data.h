/* Data: sets of labeled samples, and a loader that turns them into batches ahead of the loop that takes them. The
 * order of the samples and every bit of them are functions of the seed, the epoch and the index: threads change
 * neither. docs/data.md */
#ifndef CLADE_DATA_H
#define CLADE_DATA_H

#include <clade/types.h>

CLADE_BEGIN_DECLS

/* ---- sets ---- */
typedef struct clade_dataset clade_dataset; /* counted, immutable; usable from every thread */

/* "digits", "fashion-mnist[:DIR]", "mnist:DIR", "cifar10:DIR", "cifar100:DIR" or "npy:DIR": its training or its test
 * part. What the directory must hold is in docs/data.md, and in the message where it is missing. */
CLADE_API clade_status clade_dataset_open(const char *spec, bool train, clade_dataset **out);

typedef struct clade_dataset_info {
  size_t size;
  const char *name;               /* "mnist"; texts and arrays live as long as the set */
  int64_t count;                  /* samples */
  int classes;                    /* labels are 0 to classes - 1 */
  clade_shape shape;              /* of a sample: channels, height, width */
  const char *const *class_names; /* one for each class; NULL: unknown */
  const float *mean, *std;        /* one for each channel, of the training part: what .normalize uses */
  const char *spec;               /* what clade_dataset_open was given; NULL: a set of the user's own */
} clade_dataset_info;
CLADE_API clade_status clade_dataset_describe(const clade_dataset *dataset, clade_dataset_info *info);

/* Sample `index`: `x` has room for channels * height * width elements. Images of bytes come as 0 to 1. */
CLADE_API clade_status clade_dataset_get(const clade_dataset *dataset, int64_t index, float *x, int32_t *label);

/* A set of the user's own. All but `user` is copied. */
typedef struct clade_dataset_def {
  size_t size CLADE_DEFAULT(sizeof(struct clade_dataset_def));
  const char *name CLADE_UNSET; /* unset: "user" */
  int64_t count CLADE_UNSET;
  int classes CLADE_UNSET;
  int channels CLADE_UNSET, height CLADE_UNSET, width CLADE_UNSET; /* a vector of n is 1, 1, n */
  const char *const *class_names CLADE_UNSET;                      /* may be NULL */
  const float *mean CLADE_UNSET, *std CLADE_UNSET;                 /* one for each channel; NULL: 0 and 1 */
  /* Called by several threads at once, and the same for the same index every time. A failure comes out of
   * clade_loader_next, with the message that clade_fail recorded. */
  clade_status (*get)(void *user, int64_t index, float *x, int32_t *label) CLADE_UNSET;
  void (*release)(void *user)
      CLADE_UNSET; /* when the last reference goes, also where clade_dataset_new fails; may be NULL */
} clade_dataset_def;
CLADE_API clade_status clade_dataset_new(const clade_dataset_def *def, void *user, clade_dataset **out);

CLADE_API clade_dataset *clade_dataset_retain(clade_dataset *dataset);
CLADE_API void clade_dataset_release(clade_dataset *dataset); /* NULL is fine */

/* ---- the loader ---- */
typedef struct clade_loader clade_loader;

/* What is done to each sample, in this order, by draws keyed by (seed, epoch, index of the sample). Zero: not done. */
typedef struct clade_augment {
  int crop CLADE_UNSET; /* padded by so many mirrored pixels on each side, and cut back to its size at a random place */
  int shift CLADE_UNSET;    /* moved by up to so many pixels along each axis; what comes in is 0 */
  bool flip CLADE_UNSET;    /* left to right, every other one */
  float rotate CLADE_UNSET; /* turned by up to so many degrees either way, bilinear; what comes in is 0 */
  int cutout CLADE_UNSET; /* a square of so many pixels, its center anywhere in the image, becomes the channels' mean */
  bool normalize CLADE_UNSET;   /* (x - mean) / std */
  int reserved[10] CLADE_UNSET; /* zero; others hold this struct, so that its size stays */
} clade_augment;

typedef struct clade_loader_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_loader_opt));
  clade_loader **out CLADE_UNSET;
  int batch CLADE_UNSET;   /* samples in a batch; unset: 64 */
  int threads CLADE_UNSET; /* unset: 2 */
  int queue CLADE_UNSET;   /* batches made ahead; unset: 4 */
  uint64_t seed CLADE_UNSET;
  int64_t epochs CLADE_UNSET; /* after so many, next gives a batch of 0 samples; unset: there is no end */
  bool shuffle CLADE_UNSET;   /* a permutation keyed by (seed, epoch); else in order */
  bool drop_last CLADE_UNSET; /* a remainder that fills no batch is left out */
  clade_augment augment CLADE_UNSET;
  /* Of each batch these alone, as where several loaders share batches: `rows` from row `first_row` on, which become the
   * batch, with an n of 0 where a remainder has none of them; rows unset: all */
  int first_row CLADE_UNSET, rows CLADE_UNSET;
} clade_loader_opt;

/* clade_loader_new(dataset, &loader [, .option = …]). Retains the set. Its threads begin at once, and wait when the
 * queue is full. All memory that it will use is allocated here. */
#define clade_loader_new(dataset, ...) clade_loader_new_(dataset, CLADE_OPT(clade_loader_opt, .out = __VA_ARGS__))
CLADE_API clade_status clade_loader_new_(clade_dataset *dataset, const clade_loader_opt *opt);
CLADE_API void clade_loader_free(clade_loader *loader); /* at any time; NULL is fine */

typedef struct clade_batch {
  size_t size;
  const float *x;         /* [batch, channels, height, width]; what is beyond n is 0 */
  const int32_t *y;       /* [batch]; what is beyond n is -1 */
  const int64_t *samples; /* [n]: their indices in the set */
  int n;                  /* `batch`, less for a remainder, 0 after the last epoch */
  int64_t epoch, index;   /* of the batch in its epoch, from 0 */
  bool last;              /* of its epoch */
} clade_batch;
/* The next batch, when it is made; valid until the next call with this loader. Next and seek are for one thread at a
 * time. Where a sample fails, the message names it, and the loader stays at its batch until it seeks another. */
CLADE_API clade_status clade_loader_next(clade_loader *loader, clade_batch *batch);
/* The batch that comes next; nothing before it is made. `index` may be the number of batches: the next epoch's first.
 */
CLADE_API clade_status clade_loader_seek(clade_loader *loader, int64_t epoch, int64_t index);
/* A next that waits, and all later ones, end with CLADE_CANCELED. From any thread. */
CLADE_API clade_status clade_loader_cancel(clade_loader *loader);

typedef struct clade_loader_info {
  size_t size;
  int64_t batches;     /* of an epoch */
  int64_t made, taken; /* batches so far, by the threads and by next */
  double waited;       /* seconds that next waited for data */
} clade_loader_info;
CLADE_API clade_status clade_loader_stats(const clade_loader *loader, clade_loader_info *info); /* from any thread */

CLADE_END_DECLS
#endif
