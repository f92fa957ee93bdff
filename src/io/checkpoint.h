/* What the files about checkpoints share: their directory and the names in it. */
#ifndef CLADE_IO_CHECKPOINT_H
#define CLADE_IO_CHECKPOINT_H

#include "io/io.h"

struct clade_checkpoint_dir {
  char *path;
  int lock; /* a descriptor */
};

#define CLADE__BEST "best.safetensors"

/* "<directory>/<name>", to be freed. */
clade_status clade__checkpoint_path(const char *directory, const char *name, char **out);
enum { CLADE__CHECKPOINT_NAME = 48 };
char *clade__checkpoint_name(int64_t step, char name[CLADE__CHECKPOINT_NAME]);

typedef struct clade__steps {
  int64_t *at; /* the newest first; by clade__free */
  size_t n;
} clade__steps;
/* The checkpoints of single steps that lie there, whatever is in them. */
clade_status clade__steps_list(const char *directory, clade__steps *out);

/* Takes over the file's bytes, also when it fails. */
clade_status clade__checkpoint_parse(const char *path, clade__bytes *file, clade_checkpoint **out);

#endif
