/* clade bench compare: the same works on several devices, opened ones and ones that are modelled.
 * docs/comparing-devices.md says what a figure means. */
#ifndef CLADE_CLI_COMPARE_H
#define CLADE_CLI_COMPARE_H

#include "cli/bench.h"
#include "model/cycles.h"

/* How a device's figures were obtained. */
typedef enum compare_evidence {
  COMPARE_MEASURED,
  COMPARE_SIMULATED, /* cycles of simulated RTL, at the clock that a tool routed */
  COMPARE_ROUTED,    /* a model whose clock a tool routed */
  COMPARE_REPORT,    /* a model whose clock is an estimate */
  COMPARE_FUNCTIONAL /* it computes right; its times tell nothing of the device that it stands for */
} compare_evidence;
extern const char *const compare_evidence_names[];

/* ---- compare_work.c: what is computed ---- */
typedef struct compare_work {
  const char *group, *model;                   /* "gemm", "conv", "infer", "train"; of the last two, the model's name */
  bool quick, bytes;                           /* bytes: products of i8, else all is f32 */
  int64_t batch, m, n, k;                      /* gemm */
  int64_t channels, side, out, kernel, stride; /* images; a convolution pads by half its kernel */
  int64_t classes;
} compare_work;
extern const compare_work compare_works[];
size_t compare_work_count(void);
void compare_work_name(const compare_work *work, char *name, size_t size);
clade_shape compare_input(const compare_work *work); /* of "x" */
/* A graph from input "x", and for training "labels", to output "y"; all else are variables. */
clade_status compare_graph(const compare_work *work, clade_graph **out);

/* Operands of a work on the host. */
typedef struct compare_data {
  void *x;
  int32_t *labels;                                   /* NULL: it is no training */
  size_t elements, x_bytes, label_bytes, y_elements; /* elements: of x */
} compare_data;
compare_data compare_data_size(const compare_work *work); /* without the numbers */
clade_status compare_data_new(const compare_work *work, compare_data *out);
void compare_data_free(compare_data *data);

/* What a graph needs whoever computes it: its products and convolutions, whose operands and results are read and
 * written once. */
typedef struct compare_demand {
  double flops, bytes;
  cycles_work *work; /* by clade__free */
  size_t n, capacity;
} compare_demand;
clade_status compare_demand_of(const clade_graph *graph, compare_demand *out);

/* ---- devices and their figures ---- */
typedef struct compare_meter {
  const char *by; /* NULL: nothing counts this device's energy */
  void *device;   /* NVML's; NULL: it is the processors' */
  double joules;  /* since some time; a counter that began anew reads less than before */
} compare_meter;
typedef struct compare_side {
  const char *spec; /* that its rows are named by: as it was asked for, but a model without folder and ".json" */
  char label[64];   /* of a model */
  compare_evidence evidence;
  bench_job bench; /* its device, described and measured by itself; of a modelled one only the peaks are there */
  bool modelled, simulated;
  cycles_device model; /* of both */
  char log[256];       /* of one that is simulated: what the simulation tells, ... */
  long log_at;         /* and what of it is known */
  compare_meter meter;
} compare_side;

/* NAN: there is none. */
typedef struct compare_row {
  char refused[400]; /* "": it has figures */
  int calls;
  double p50, p99, low, high;
  double least, most;              /* of the medians of turns: between these p50 is */
  double transfer, compute, other; /* parts of p50 */
  double programming, first, moved, error, joules, cycles;
  const char *bound; /* NULL: nothing says */
} compare_row;

typedef struct compare_job {
  cli_args args;
  bool quick;
  const char *html, *answer, *only;
  FILE *to; /* for people */
  int n;
  compare_side side[CLI_MAX_DEVICES];
  clade_device *host; /* computes references */
  bench_watcher watcher;
  json_t *rows;
} compare_job;

/* ---- compare_side.c ---- */
clade_status compare_side_open(const char *spec, compare_side *out);
void compare_side_close(compare_side *side); /* also one that could not be opened */
const char *compare_side_name(const compare_side *side);
bool compare_does(const compare_side *side, const compare_work *work); /* else it has no row */
const char *compare_dtype(const compare_side *side, const compare_work *work);
json_t *compare_side_json(const compare_side *side);

/* ---- compare_model.c ---- */
const char *compare_model_path(const char *spec); /* NULL: it is a device to be opened */
clade_status compare_model_open(compare_side *side);
clade_status compare_model_row(const compare_side *side, const compare_work *work, const compare_demand *demand,
                               compare_row *row);
void compare_label(compare_side *side, const char *kind, const char *path); /* "model:" and the file's name */

/* ---- compare_rtl.c: the emulated accelerator with fpga/rtl behind its queue, at the clock of a design that a file
 * tells */
const char *compare_rtl_path(const char *spec); /* NULL: it is none */
clade_status compare_rtl_open(compare_side *side);
void compare_rtl_close(compare_side *side);
void compare_rtl_mark(compare_side *side); /* launches count from here on */
clade_status compare_rtl_row(const compare_side *side, const compare_demand *demand, compare_row *row);

/* ---- compare_energy.c ---- */
void compare_meter_open(compare_meter *meter, const clade_device_info *info);
bool compare_meter_read(compare_meter *meter); /* false: it does not count any more */

/* ---- compare_measure.c: all opened devices take turns at a work ---- */
/* What a device cannot do, by this thread's message, is told in its row, and the others go on. */
void compare_refuse(compare_row *row);
clade_status compare_measure(compare_job *job, const compare_work *work, const compare_demand *demand,
                             compare_row rows[]);

/* ---- compare_answer.c: out of rows alone ---- */
extern const char *const compare_questions[]; /* ends in NULL */
json_t *compare_answers(const json_t *rows);

/* ---- compare_show.c ---- */
json_t *compare_row_json(const compare_side *side, const compare_work *work, const compare_demand *demand,
                         const compare_row *row);
void compare_show_devices(const compare_job *job);
void compare_show_row(const compare_job *job, const json_t *row);
void compare_show_answers(const compare_job *job, const json_t *answers);

#endif
