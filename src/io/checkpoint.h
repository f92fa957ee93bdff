/* Shared by the files about checkpoints: their directory and names. */
#ifndef CLADE_IO_CHECKPOINT_H
#define CLADE_IO_CHECKPOINT_H

#include "io/io.h"

struct clade_checkpoint_dir {
  char *path;
  int lock;
};

#define CLADE__BEST "best.safetensors"

/* "<directory>/<name>", to be freed. */
clade_status clade__checkpoint_path(const char *directory, const char *name, char **out);
enum { CLADE__CHECKPOINT_NAME = 48 };
char *clade__checkpoint_name(int64_t step, char name[CLADE__CHECKPOINT_NAME]);

typedef struct clade__steps {
  int64_t *at; /* newest first; by clade__free */
  size_t n;
} clade__steps;
/* Lists the steps of the directory's checkpoints without opening them. */
clade_status clade__steps_list(const char *directory, clade__steps *out);

/* As clade_checkpoint_save, with variables of other ranks. */
clade_status clade__checkpoint_save(clade_checkpoint_dir *dir, const clade_vars *vars, const clade__foreign *foreign,
                                    int64_t step, const clade_checkpoint_opt *opt);
/* As clade_checkpoint_apply, for the variables of this rank. */
clade_status clade__checkpoint_apply(const clade_checkpoint *checkpoint, clade_vars *vars,
                                     const clade__foreign *foreign);
/* NOT_FOUND or BAD_SHAPE if the checkpoint has no variable of this name and type. */
clade_status clade__checkpoint_find(const clade_checkpoint *checkpoint, const char *name, const clade_type *type,
                                    const void **data);
/* Bytes in the file, without the optimizer's state. */
int64_t clade__checkpoint_weights(const clade_checkpoint *checkpoint);
/* Takes over the file's bytes, also after a failure. */
clade_status clade__checkpoint_parse(const char *path, clade__bytes *file, clade_checkpoint **out);

#endif
