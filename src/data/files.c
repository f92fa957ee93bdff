/* Sets that are read from files in several formats: finds the files and checks that they fit together. */
#include <inttypes.h>

#include "data/data.h"

enum { MOST_CLASSES = 1000000, MOST_PARTS = 5 };
static const uint64_t largest = (uint64_t)2 << 30; /* limit of an IDX file's array in bytes */

typedef struct part { /* content of a file */
  char *path;
  clade_array x, labels; /* labels: if they are in the same file */
} part;
typedef clade_status read_fn(part *p);

static clade_status read_idx(part *p) { return clade__idx_read(p->path, largest, &p->x); }
static clade_status read_npy(part *p) { return clade_npy_read(p->path, &p->x); }
static clade_status read_cifar10(part *p) { return clade__cifar_read(p->path, 1, &p->x, &p->labels); }
static clade_status read_cifar100(part *p) { return clade__cifar_read(p->path, 2, &p->x, &p->labels); }

static void drop(part *p) {
  clade_array_free(&p->x);
  clade_array_free(&p->labels);
  clade__free(p->path);
  *p = (part){0};
}

static clade_status read_named(const clade__source *source, const char *directory, const char *name, const char *ending,
                               read_fn *read, part *p) {
  clade__text path = {0};
  clade__text_add(&path, "%s/%s%s", directory, name, ending);
  CLADE_TRY(clade__text_take(&path, &p->path));
  clade_status status = read(p);
  return status == CLADE_OK ? CLADE_OK : clade__fail_in(status, "%s", source->name);
}

/* Reads directory/name, or directory/name with `ending` (may be NULL). */
static clade_status find(const clade__source *source, const char *directory, const char *name, const char *ending,
                         read_fn *read, part *p) {
  clade_status status = read_named(source, directory, name, "", read, p);
  if (status == CLADE_NOT_FOUND && ending) {
    drop(p);
    status = read_named(source, directory, name, ending, read, p);
  }
  if (status == CLADE_NOT_FOUND)
    return CLADE_FAIL(NOT_FOUND, "%s: %s/%s is not there; the directory must hold %s", source->name, directory, name,
                      source->layout);
  return status;
}

static int64_t number(const clade_array *a, size_t i) {
  const size_t element = clade__dtype_row(a->dtype)->bytes;
  int64_t v = 0;
  (void)clade_convert(CLADE_I64, &v, a->dtype, (const char *)a->data + i * element, 1); /* the type is valid */
  return v;
}

/* Copies the last column of labels; raises *classes to one more than the largest label. */
static clade_status take_labels(const clade__source *source, const char *path, const clade_array *a, int32_t *to,
                                int *classes) {
  int64_t most = source->classes ? source->classes : MOST_CLASSES;
  size_t n = (size_t)a->shape.dim[0], columns = a->shape.rank > 1 ? (size_t)a->shape.dim[1] : 1;
  for (size_t i = 0; i < n; i++) {
    int64_t label = number(a, i * columns + columns - 1);
    if (label < 0 || label >= most)
      return CLADE_FAIL(CORRUPT, "%s: %s: label %" PRId64 " of sample %zu; labels are 0 to %" PRId64, source->name,
                        path, label, i, most - 1);
    if (to) to[i] = (int32_t)label;
    *classes = CLADE_MAX(*classes, (int)label + 1);
  }
  return CLADE_OK;
}

static clade_status check_labels(const clade__source *source, const part *labels) {
  char text[256];
  const clade_array *a = &labels->x;
  if (a->shape.rank != 1)
    return CLADE_FAIL(BAD_SHAPE, "%s: %s: labels of shape %s; expected [count]", source->name, labels->path,
                      clade_shape_text(&a->shape, text, sizeof text));
  if (!clade__is_integer(a->dtype))
    return CLADE_FAIL(DTYPE, "%s: %s: labels of type %s; expected integers", source->name, labels->path,
                      clade_dtype_name(a->dtype));
  return CLADE_OK;
}

static clade_status check_images(const clade__source *source, const part *images, int least_rank, int most_rank,
                                 bool floats) {
  char text[256];
  const clade_array *a = &images->x;
  if (a->dtype != CLADE_U8 && !(floats && a->dtype == CLADE_F32))
    return CLADE_FAIL(DTYPE, "%s: %s: elements of type %s; expected u8%s", source->name, images->path,
                      clade_dtype_name(a->dtype), floats ? " or f32" : "");
  if (a->shape.rank < least_rank || a->shape.rank > most_rank)
    return CLADE_FAIL(BAD_SHAPE, "%s: %s: shape %s; expected %s", source->name, images->path,
                      clade_shape_text(&a->shape, text, sizeof text),
                      most_rank == 3 ? "[count, height, width]"
                                     : "[count, width], [count, height, width] or [count, channels, height, width]");
  return CLADE_OK;
}

/* Checks that test samples have the shape of training samples. */
static clade_status check_alike(const clade__source *source, const part *images, const part *trained) {
  clade_shape a = images->x.shape, b = trained->x.shape;
  char s[256], t[256];
  a.dim[0] = b.dim[0];
  if (clade_shape_equal(&a, &b)) return CLADE_OK;
  return CLADE_FAIL(BAD_SHAPE, "%s: %s is %s and %s %s; expected samples of one shape", source->name, images->path,
                    clade_shape_text(&images->x.shape, s, sizeof s), trained->path, clade_shape_text(&b, t, sizeof t));
}

/* Makes a set of separate images and labels. trained: images of the training part, if the means come from them and
 * not from the source. */
static clade_status pair(const clade__source *source, part *images, const part *labels, const part *trained,
                         int classes, clade_dataset **out) {
  int64_t n = images->x.shape.dim[0], m = labels->x.shape.dim[0];
  if (n != m)
    return CLADE_FAIL(CORRUPT, "%s: %s holds %" PRId64 " samples, but %s %" PRId64 " labels", source->name,
                      images->path, n, labels->path, m);
  clade__samples samples = {.labels = clade__new((size_t)m, sizeof *samples.labels)};
  if (!samples.labels) return CLADE_NO_MEMORY;
  clade_status status = take_labels(source, labels->path, &labels->x, samples.labels, &classes);
  if (status == CLADE_OK && trained) status = clade__samples_moments(&trained->x, &samples.moments);
  if (status != CLADE_OK) {
    clade__samples_free(&samples);
    return status;
  }
  samples.x = images->x;
  images->x = (clade_array){0};
  return clade__samples_set(source, classes, &samples, out);
}

clade_status clade__open_mnist(const clade__source *source, const char *directory, bool train, clade_dataset **out) {
  part images = {0}, labels = {0};
  clade_status status;
  CLADE_GOTO(
      find(source, directory, train ? "train-images-idx3-ubyte" : "t10k-images-idx3-ubyte", ".gz", read_idx, &images));
  CLADE_GOTO(
      find(source, directory, train ? "train-labels-idx1-ubyte" : "t10k-labels-idx1-ubyte", ".gz", read_idx, &labels));
  CLADE_GOTO(check_images(source, &images, 3, 3, false));
  CLADE_GOTO(check_labels(source, &labels));
  CLADE_GOTO(pair(source, &images, &labels, NULL, 0, out));
fail:
  drop(&images);
  drop(&labels);
  return status;
}

/* The number of classes follows from the labels of both parts. */
clade_status clade__open_npy(const clade__source *source, const char *directory, bool train, clade_dataset **out) {
  part images = {0}, labels = {0}, others = {0}, rest = {0};
  const part *trained = train ? &images : &rest;
  clade_status status;
  int classes = 0;
  CLADE_GOTO(find(source, directory, train ? "x_train.npy" : "x_test.npy", NULL, read_npy, &images));
  CLADE_GOTO(find(source, directory, train ? "y_train.npy" : "y_test.npy", NULL, read_npy, &labels));
  CLADE_GOTO(find(source, directory, train ? "y_test.npy" : "y_train.npy", NULL, read_npy, &others));
  CLADE_GOTO(check_images(source, &images, 2, 4, true));
  CLADE_GOTO(check_labels(source, &labels));
  CLADE_GOTO(check_labels(source, &others));
  CLADE_GOTO(take_labels(source, others.path, &others.x, NULL, &classes));
  if (!train) {
    CLADE_GOTO(find(source, directory, "x_train.npy", NULL, read_npy, &rest));
    CLADE_GOTO(check_images(source, &rest, 2, 4, true));
    CLADE_GOTO(check_alike(source, &images, &rest));
  }
  CLADE_GOTO(pair(source, &images, &labels, trained, classes, out));
fail:
  drop(&images);
  drop(&labels);
  drop(&others);
  drop(&rest);
  return status;
}

static clade_status join(const clade__source *source, part *parts, int n, clade__samples *samples) {
  clade_shape shape = parts[0].x.shape;
  int classes = 0;
  for (int i = 1; i < n; i++) shape.dim[0] += parts[i].x.shape.dim[0];
  CLADE_TRY(clade__array_new(source->name, CLADE_U8, &shape, &samples->x));
  samples->labels = clade__new((size_t)shape.dim[0], sizeof *samples->labels);
  if (!samples->labels) return CLADE_NO_MEMORY;
  unsigned char *to = samples->x.data;
  int32_t *label = samples->labels;
  for (int i = 0; i < n; i++) {
    CLADE_TRY(take_labels(source, parts[i].path, &parts[i].labels, label, &classes));
    memcpy(to, parts[i].x.data, parts[i].x.bytes);
    to += parts[i].x.bytes;
    label += parts[i].x.shape.dim[0];
    drop(&parts[i]);
  }
  return CLADE_OK;
}

clade_status clade__open_cifar(const clade__source *source, const char *directory, bool train, clade_dataset **out) {
  static const char *const batches[] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                                        "data_batch_5.bin"};
  static const char *const tests[] = {"test_batch.bin"}, *const trains100[] = {"train.bin"},
                           *const tests100[] = {"test.bin"};
  bool fine = source->classes == 100;
  const char *const *names = train ? fine ? trains100 : batches : fine ? tests100 : tests;
  int n = train && !fine ? MOST_PARTS : 1;
  part parts[MOST_PARTS] = {{0}};
  clade__samples samples = {0};
  clade_status status;
  for (int i = 0; i < n; i++)
    CLADE_GOTO(find(source, directory, names[i], NULL, fine ? read_cifar100 : read_cifar10, &parts[i]));
  CLADE_GOTO(join(source, parts, n, &samples));
  CLADE_GOTO(clade__samples_set(source, 0, &samples, out));
fail:
  for (int i = 0; i < n; i++) drop(&parts[i]);
  clade__samples_free(&samples);
  return status;
}
