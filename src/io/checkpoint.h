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

/* As clade_checkpoint_save, with variables of other processes. */
clade_status clade__checkpoint_save(clade_checkpoint_dir *dir, const clade_vars *vars, const clade__foreign *foreign,
                                    int64_t step, const clade_checkpoint_opt *opt);
/* As clade_checkpoint_apply: the variables that are here. */
clade_status clade__checkpoint_apply(const clade_checkpoint *checkpoint, clade_vars *vars,
                                     const clade__foreign *foreign);
/* NOT_FOUND, or BAD_SHAPE, where the checkpoint has no such variable of this type. */
clade_status clade__checkpoint_find(const clade_checkpoint *checkpoint, const char *name, const clade_type *type,
                                    const void **data);
/* Bytes in the file of what is not the optimizer's. */
int64_t clade__checkpoint_weights(const clade_checkpoint *checkpoint);
/* Takes over the file's bytes, also when it fails. */
clade_status clade__checkpoint_parse(const char *path, clade__bytes *file, clade_checkpoint **out);

#endif
