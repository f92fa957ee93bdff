/* Opens a set by its spec: "NAME" or "NAME:DIR". */
#include "data/data.h"

static const char *const digits[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
static const char *const clothes[] = {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
                                      "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};
static const char *const things[] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                     "dog",      "frog",       "horse", "ship", "truck"};

#define MNIST_FILES                                                                                                \
  "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, plain or " \
  "with .gz"
static const clade__source sources[] = {
    {.name = "digits",
     .classes = 10,
     .class_names = digits,
     .mean = {0.1422f},
     .std = {0.2790f},
     .open = clade__open_digits},
    {.name = "fashion-mnist",
     .directory = "/usr/share/datasets/fashion-mnist",
     .layout = MNIST_FILES "; Debian's package dataset-fashion-mnist brings them",
     .classes = 10,
     .class_names = clothes,
     .mean = {0.2860f},
     .std = {0.3530f},
     .open = clade__open_mnist},
    {.name = "mnist",
     .layout = MNIST_FILES,
     .classes = 10,
     .class_names = digits,
     .mean = {0.1307f},
     .std = {0.3081f},
     .open = clade__open_mnist},
    {.name = "cifar10",
     .layout = "data_batch_1.bin to data_batch_5.bin and test_batch.bin, of CIFAR-10's binary version",
     .classes = 10,
     .class_names = things,
     .mean = {0.4914f, 0.4822f, 0.4465f},
     .std = {0.2470f, 0.2435f, 0.2616f},
     .open = clade__open_cifar},
    {.name = "cifar100",
     .layout = "train.bin and test.bin, of CIFAR-100's binary version",
     .classes = 100,
     .mean = {0.5071f, 0.4865f, 0.4409f},
     .std = {0.2673f, 0.2564f, 0.2762f},
     .open = clade__open_cifar},
    {.name = "npy", .layout = "x_train.npy, y_train.npy, x_test.npy and y_test.npy", .open = clade__open_npy},
};

static clade_status unknown(const char *spec) {
  clade__text known = {0};
  char *list = NULL;
  for (size_t i = 0; i < CLADE_COUNT(sources); i++) {
    const clade__source *s = &sources[i];
    clade__text_add(&known, "%s%s%s", i ? ", " : "", s->name, !s->layout ? "" : s->directory ? "[:DIR]" : ":DIR");
  }
  CLADE_TRY(clade__text_take(&known, &list));
  clade_status status = CLADE_FAIL(NOT_FOUND, "no dataset is called \"%s\"; there are %s", spec, list);
  clade__free(list);
  return status;
}

clade_status clade_dataset_open(const char *spec, bool train, clade_dataset **out) {
  if (!spec || !out) return CLADE_FAIL(INVALID, "clade_dataset_open: %s is NULL", spec ? "out" : "spec");
  *out = NULL;
  const char *colon = strchr(spec, ':');
  size_t length = colon ? (size_t)(colon - spec) : strlen(spec);
  for (size_t i = 0; i < CLADE_COUNT(sources); i++) {
    const clade__source *s = &sources[i];
    if (strlen(s->name) != length || memcmp(s->name, spec, length) != 0) continue;
    const char *directory = colon ? colon + 1 : s->directory;
    if (!s->layout && colon) return CLADE_FAIL(INVALID, "dataset \"%s\": %s takes no directory", spec, s->name);
    if (s->layout && (!directory || !directory[0]))
      return CLADE_FAIL(INVALID, "dataset \"%s\": say where it is: %s:DIR, where DIR holds %s", spec, s->name,
                        s->layout);
    CLADE_TRY(s->open(s, directory, train, out));
    return clade__dataset_tell_spec(out, spec);
  }
  return unknown(spec);
}
