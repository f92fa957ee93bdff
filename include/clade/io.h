/* Files: NPY arrays, variables as safetensors, checkpoints, and logs for TensorBoard (docs/formats.md). Readers check
 * every byte; an error names the file and the fault. Writers write a temporary file, sync and rename it, so that a file
 * is complete or not there. */
#ifndef CLADE_IO_H
#define CLADE_IO_H

#include <clade/func.h>

CLADE_BEGIN_DECLS

/* ---- NPY arrays ---- */
/* An array on the host, dense and row-major. All zero is empty. In an array of a program's own memory
 * `owner` is NULL. */
typedef struct clade_array {
  clade_dtype dtype; /* element type */
  clade_shape shape; /* dimensions */
  void *data;        /* elements */
  size_t bytes;      /* size of the data */
  void *owner;       /* the allocation that holds the data */
} clade_array;
CLADE_API void clade_array_free(clade_array *array); /* empties the array; NULL may be freed */

/* Reads an NPY file of version 1 to 3. f8 becomes f32, i2 and u2 become i32, u4 becomes i64; other types that Clade
 * does not have give CLADE_DTYPE. Fortran order becomes row-major. */
CLADE_API clade_status clade_npy_read(const char *path, clade_array *out);
/* Writes an NPY file. bf16 and f8e4m3 are written as f4, because NPY has no such types. */
CLADE_API clade_status clade_npy_write(const char *path, const clade_array *array);

/* ---- variables as safetensors ---- */
/* Options of clade_vars_save and clade_vars_load. */
typedef struct clade_vars_file_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_vars_file_opt));
  const char *path CLADE_UNSET;  /* the file */
  bool weights_only CLADE_UNSET; /* leave out variables whose names begin with "optimizer." */
} clade_vars_file_opt;

/* Saves all variables: clade_vars_save(vars, path [, .option = …]). Any reader of safetensors can read the file. */
#define clade_vars_save(vars, ...) clade_vars_save_(vars, CLADE_OPT(clade_vars_file_opt, .path = __VA_ARGS__))
CLADE_API clade_status clade_vars_save_(const clade_vars *vars, const clade_vars_file_opt *opt);

/* Loads all variables: clade_vars_load(vars, path [, .option = …]). Each variable must have a tensor of its name and
 * type, and each tensor a variable, except for names that begin with "optimizer."; an error lists what does not fit.
 * Files of other tools can be loaded; files of Clade have checksums, which are verified. Variables change only if the
 * whole file is valid. */
#define clade_vars_load(vars, ...) clade_vars_load_(vars, CLADE_OPT(clade_vars_file_opt, .path = __VA_ARGS__))
CLADE_API clade_status clade_vars_load_(clade_vars *vars, const clade_vars_file_opt *opt);

/* The SHA-256 of all parameters, dense and little-endian, sorted by name, as 64 hexadecimal digits and a zero. */
CLADE_API clade_status clade_vars_sha256(const clade_vars *vars, char text[65]);

/* ---- checkpoints ----
 * A checkpoint holds all variables and a text. */

/* A checkpoint directory that this process writes to. */
typedef struct clade_checkpoint_dir clade_checkpoint_dir;
/* Opens a directory for writing: creates it if necessary, locks it against other processes (CLADE_BUSY), and removes
 * temporary files of processes that died. */
CLADE_API clade_status clade_checkpoint_dir_open(const char *path, clade_checkpoint_dir **out);
CLADE_API void clade_checkpoint_dir_close(clade_checkpoint_dir *dir); /* unlocks the directory; NULL may be closed */

/* Options of clade_checkpoint_save. */
typedef struct clade_checkpoint_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_checkpoint_opt));
  const char *text CLADE_UNSET; /* any UTF-8 text; NULL: none */
  int keep CLADE_UNSET;         /* number of checkpoints to keep besides the best; unset: 3 */
  bool best CLADE_UNSET;        /* also make this checkpoint best.safetensors */
  bool pack_zeros CLADE_UNSET;  /* store zeros as bits where that is smaller (docs/formats.md) */
} clade_checkpoint_opt;

/* Saves a checkpoint "step-<step>.safetensors": clade_checkpoint_save(dir, vars, step, text [, .option = …]).
 * Afterwards removes older checkpoints beyond `keep`, and those of later steps, which belong to a course of training
 * that this one replaces. On failure all earlier checkpoints are still there. */
#define clade_checkpoint_save(dir, vars, step, ...) \
  clade_checkpoint_save_(dir, vars, step, CLADE_OPT(clade_checkpoint_opt, .text = __VA_ARGS__))
CLADE_API clade_status clade_checkpoint_save_(clade_checkpoint_dir *dir, const clade_vars *vars, int64_t step,
                                              const clade_checkpoint_opt *opt);

/* The checkpoint to open: the newest, or the best. */
typedef enum clade_checkpoint_which { CLADE_CHECKPOINT_LATEST, CLADE_CHECKPOINT_BEST } clade_checkpoint_which;
/* An open checkpoint. */
typedef struct clade_checkpoint clade_checkpoint;
/* Reads and verifies a checkpoint, also while another process writes. A damaged one is reported by the log, and the
 * next older one is taken. Without a best checkpoint, the newest is taken. CLADE_NOT_FOUND: there is no directory, or
 * no checkpoint in it. */
CLADE_API clade_status clade_checkpoint_open(const char *directory, clade_checkpoint_which which,
                                             clade_checkpoint **out);
CLADE_API void clade_checkpoint_free(clade_checkpoint *checkpoint); /* NULL may be freed */
/* Its step, its path and its text ("" without one). Both texts live as long as the checkpoint. */
CLADE_API int64_t clade_checkpoint_step(const clade_checkpoint *checkpoint);
CLADE_API const char *clade_checkpoint_path(const clade_checkpoint *checkpoint);
CLADE_API const char *clade_checkpoint_text(const clade_checkpoint *checkpoint);
/* Calls clade_graph_shape for all variables but the optimizer's, so that the graph can hold a pruned model. */
CLADE_API clade_status clade_checkpoint_shapes(const clade_checkpoint *checkpoint, clade_graph *g);
/* Loads the variables, as clade_vars_load does. */
CLADE_API clade_status clade_checkpoint_apply(const clade_checkpoint *checkpoint, clade_vars *vars);

/* ---- logs for TensorBoard, and the same scalars as CSV ----
 * An event file "events.out.tfevents.<time>.<host>" and a table "scalars.csv". For one thread at a time. Logged records
 * are in the files when a call returns. A call that fails, as on a full disk, leaves whole records, and later calls may
 * succeed. */

/* A log directory. */
typedef struct clade_events clade_events;
/* Opens a log directory, creates it if necessary, begins an event file and continues the table. Records from `step` on
 * are replaced: they are removed from the table, and TensorBoard is told to drop them. 0: a new log. */
CLADE_API clade_status clade_events_open(const char *directory, int64_t step, clade_events **out);
CLADE_API void clade_events_close(clade_events *events); /* NULL may be closed */
/* Logs a scalar. */
CLADE_API clade_status clade_events_scalar(clade_events *events, int64_t step, const char *tag, double value);
/* Logs a histogram of the finite values, in 30 buckets of equal width. */
CLADE_API clade_status clade_events_histogram(clade_events *events, int64_t step, const char *tag, const float *values,
                                              size_t n);

CLADE_END_DECLS
#endif
