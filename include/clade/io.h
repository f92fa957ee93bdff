/* Files: arrays of NPY, variables as safetensors, checkpoints, and what a training tells. What is read may come from
 * anywhere: every byte is checked, and a refusal names the file and what is wrong in it. Files are written beside their
 * place, synced and renamed: whole or not at all. docs/formats.md states the formats. */
#ifndef CLADE_IO_H
#define CLADE_IO_H

#include <clade/func.h>

CLADE_BEGIN_DECLS

/* ---- arrays on the host ---- */
/* Dense and row-major. All zero is empty; who makes one from memory of his own leaves `owner` NULL. */
typedef struct clade_array {
  clade_dtype dtype;
  clade_shape shape;
  void *data;
  size_t bytes; /* of data */
  void *owner;  /* the allocation that data lies in */
} clade_array;
CLADE_API void clade_array_free(clade_array *array); /* empty afterwards; NULL is fine */

/* NPY, versions 1 to 3. f8 becomes f32; i2 and u2 become i32, u4 becomes i64; what Clade has no type for is
 * CLADE_DTYPE. Fortran order is put into row-major. */
CLADE_API clade_status clade_npy_read(const char *path, clade_array *out);
/* The values of bf16 and f8e4m3, which NPY does not know, are written as f4. */
CLADE_API clade_status clade_npy_write(const char *path, const clade_array *array);

/* ---- variables as safetensors ---- */
typedef struct clade_vars_file_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_vars_file_opt));
  const char *path CLADE_UNSET;
  bool weights_only
      CLADE_UNSET; /* what begins with "optimizer." is left out of the file, or stays as it is in the variables */
} clade_vars_file_opt;

/* clade_vars_save(vars, path [, .option = …]): a file that every reader of safetensors reads. */
#define clade_vars_save(vars, ...) clade_vars_save_(vars, CLADE_OPT(clade_vars_file_opt, .path = __VA_ARGS__))
CLADE_API clade_status clade_vars_save_(const clade_vars *vars, const clade_vars_file_opt *opt);

/* clade_vars_load(vars, path [, .option = …]): every variable has its tensor in the file, of its type, and every tensor
 * its variable, but for those that begin with "optimizer."; what does not fit is listed by name. The file may be any
 * tool's; one that Clade wrote has checksums, which are checked. Nothing is changed unless the whole file is right. */
#define clade_vars_load(vars, ...) clade_vars_load_(vars, CLADE_OPT(clade_vars_file_opt, .path = __VA_ARGS__))
CLADE_API clade_status clade_vars_load_(clade_vars *vars, const clade_vars_file_opt *opt);

/* SHA-256 over the parameters (clade_parameter), dense and little-endian, in the order of their names' bytes; as 64
 * hexadecimal digits and a zero. */
CLADE_API clade_status clade_vars_sha256(const clade_vars *vars, char text[65]);

/* ---- checkpoints: all variables, and a text of the trainer's ---- */
/* A directory that this process writes to: made where it is missing, locked against others (CLADE_BUSY), freed of what
 * dead writers left. */
typedef struct clade_checkpoint_dir clade_checkpoint_dir;
CLADE_API clade_status clade_checkpoint_dir_open(const char *path, clade_checkpoint_dir **out);
CLADE_API void clade_checkpoint_dir_close(clade_checkpoint_dir *dir); /* NULL is fine */

typedef struct clade_checkpoint_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_checkpoint_opt));
  const char *text CLADE_UNSET; /* UTF-8, of any meaning; NULL: none */
  int keep CLADE_UNSET;         /* checkpoints of single steps that stay: 3 where unset */
  bool best CLADE_UNSET;        /* this one becomes best.safetensors */
  bool pack_zeros CLADE_UNSET;  /* floats that are 0 take a bit each, where that is less (docs/formats.md) */
} clade_checkpoint_opt;

/* clade_checkpoint_save(dir, vars, step, text [, .option = …]): writes "step-<step>.safetensors". When it fails, the
 * checkpoints that were there are there. When it succeeded, those of older steps beyond `keep` are removed, and those
 * of later steps, which belong to a course that this one replaces. */
#define clade_checkpoint_save(dir, vars, step, ...) \
  clade_checkpoint_save_(dir, vars, step, CLADE_OPT(clade_checkpoint_opt, .text = __VA_ARGS__))
CLADE_API clade_status clade_checkpoint_save_(clade_checkpoint_dir *dir, const clade_vars *vars, int64_t step,
                                              const clade_checkpoint_opt *opt);

/* Reads and checks one, also while another process writes: the newest, or the best. One that is damaged is told by the
 * log, and the next older one is taken; where there is no best, the newest is taken. CLADE_NOT_FOUND: there is no
 * directory, or no checkpoint in it. */
typedef enum clade_checkpoint_which { CLADE_CHECKPOINT_LATEST, CLADE_CHECKPOINT_BEST } clade_checkpoint_which;
typedef struct clade_checkpoint clade_checkpoint;
CLADE_API clade_status clade_checkpoint_open(const char *directory, clade_checkpoint_which which,
                                             clade_checkpoint **out);
CLADE_API void clade_checkpoint_free(clade_checkpoint *checkpoint); /* NULL is fine */
CLADE_API int64_t clade_checkpoint_step(const clade_checkpoint *checkpoint);
CLADE_API const char *clade_checkpoint_path(const clade_checkpoint *checkpoint); /* texts live as long as it does */
CLADE_API const char *clade_checkpoint_text(const clade_checkpoint *checkpoint); /* "" where there is none */
/* clade_graph_shape of all its variables but the optimizer's, for a graph in which a pruned model is to be built. */
CLADE_API clade_status clade_checkpoint_shapes(const clade_checkpoint *checkpoint, clade_graph *g);
/* As clade_vars_load. */
CLADE_API clade_status clade_checkpoint_apply(const clade_checkpoint *checkpoint, clade_vars *vars);

/* ---- what a training tells: event files for TensorBoard, and the same scalars as a table ---- */
/* A log directory, which is made where it is missing: begins "events.out.tfevents.<time>.<host>" there and goes on with
 * "scalars.csv". Steps from `step` on are told by this one: what others told of them is cut from the table, and
 * TensorBoard is told to drop it. 0: a new course. By one thread at a time. What was told is in the files when a call
 * returns; a call that fails (a full disk) leaves whole records, and later ones may succeed. */
typedef struct clade_events clade_events;
CLADE_API clade_status clade_events_open(const char *directory, int64_t step, clade_events **out);
CLADE_API void clade_events_close(clade_events *events); /* NULL is fine */
CLADE_API clade_status clade_events_scalar(clade_events *events, int64_t step, const char *tag, double value);
/* Of the finite ones among the values, into 30 buckets of one width. */
CLADE_API clade_status clade_events_histogram(clade_events *events, int64_t step, const char *tag, const float *values,
                                              size_t n);

CLADE_END_DECLS
#endif
