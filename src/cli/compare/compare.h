/* clade bench compare: the same works on several devices, opened ones and ones that are modeled.
 * docs/comparing-devices.md says what a figure means. */
#ifndef CLADE_CLI_COMPARE_H
#define CLADE_CLI_COMPARE_H

#include "cli/bench/bench.h"
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

/* ---- work.c: what is computed ---- */
typedef struct compare_work {
  const char *group, *model;                   /* "gemm", "conv", "infer", "train"; of the last two, the model's name */
  bool quick, bytes;                           /* bytes: its products are of i8, else all is f32 */
  int64_t batch, m, n, k;                      /* gemm */
  int64_t channels, side, out, kernel, stride; /* images; a convolution pads by half its kernel */
  int64_t classes;
} compare_work;
extern const compare_work compare_works[];
size_t compare_work_count(void);
void compare_work_name(const compare_work *work, char *name, size_t size);
clade_shape compare_input(const compare_work *work);      /* of "x" */
const char *compare_model_name(const compare_work *work); /* "lenet5 i8"; NULL: it has none */
bool compare_classifies(const compare_work *work);        /* with the numbers of a compare_net: it tells digits */
typedef struct compare_net compare_net;
/* A graph from input "x", and for training "labels", to output "y"; all else are variables. */
clade_status compare_graph(const compare_work *work, const compare_net *net, clade_graph **out);

/* Operands of a work on the host. */
typedef struct compare_data {
  void *x;
  int32_t *labels;                                   /* NULL: it is no training */
  size_t elements, x_bytes, label_bytes, y_elements; /* elements: of x */
} compare_data;
compare_data compare_data_size(const compare_work *work); /* without the numbers */
clade_status compare_data_new(const compare_work *work, compare_data *out);
void compare_data_free(compare_data *data);

/* ---- lenet5.c: LeNet-5, trained on the generated digits and then quantized to bytes ---- */
enum { COMPARE_IMAGES = 100 };
/* Trained on the host; NULL: all numbers are zeros, for whoever looks at shapes. Free it also after a failure. */
clade_status compare_net_new(clade_device *host, compare_net **out);
void compare_net_free(compare_net *net); /* NULL is fine */
/* From x, i8 [batch, 1, 28, 28], to logits. */
clade_val compare_net_bytes(const compare_net *net, clade_graph *graph, clade_val x, int64_t batch);
clade_status compare_net_give(const compare_net *net, clade_vars *vars); /* the variables of the network in f32 */
/* An image that the network did not learn from, as one of its inputs; gives the digit. */
int32_t compare_net_image(const compare_net *net, int at, bool bytes, void *to);

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
  const char *told; /* what its bundle says of its kernels' evidence, which no row goes by; NULL: it has none yet */
  bench_job bench;  /* its device, described and measured by itself; of a modeled one only the peaks are there */
  bool modeled, simulated;
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
  double programming, first, moved, error, accuracy, joules, cycles;
  const char *bound;    /* NULL: nothing says */
  const char *fallback; /* the device that computed what the bundle does not; NULL: there was none */
} compare_row;

typedef struct compare_job {
  cli_args args;
  bool quick;
  const char *html, *answer, *only;
  FILE *to; /* for people */
  int n;
  compare_side side[CLI_MAX_DEVICES];
  clade_device *host; /* computes references */
  compare_net *net;   /* NULL: no work has wanted it yet */
  bench_watcher watcher;
  json_t *rows;
} compare_job;

/* ---- side.c ---- */
clade_status compare_side_open(const char *spec, compare_side *out);
clade_status compare_side_ask(compare_side *side); /* what its bundle says, once it has one */
void compare_side_close(compare_side *side);       /* also one that could not be opened */
const char *compare_side_name(const compare_side *side);
bool compare_does(const compare_side *side, const compare_work *work); /* else it has no row */
const char *compare_dtype(const compare_side *side, const compare_work *work);
json_t *compare_side_json(const compare_side *side);

/* ---- model.c ---- */
const char *compare_model_path(const char *spec); /* NULL: it is a device to be opened */
clade_status compare_model_open(compare_side *side);
clade_status compare_model_row(const compare_side *side, const compare_work *work, const compare_demand *demand,
                               compare_row *row);
void compare_label(compare_side *side, const char *kind, const char *path); /* "model:" and the file's name */

/* ---- rtl.c: the emulated accelerator with fpga/rtl behind its queue, at the clock of a design that a file
 * tells */
const char *compare_rtl_path(const char *spec); /* NULL: it is none */
clade_status compare_rtl_open(compare_side *side);
void compare_rtl_close(compare_side *side);
void compare_rtl_mark(compare_side *side); /* launches count from here on */
clade_status compare_rtl_row(const compare_side *side, const compare_demand *demand, compare_row *row);

/* ---- energy.c ---- */
void compare_meter_open(compare_meter *meter, const clade_device_info *info);
bool compare_meter_read(compare_meter *meter); /* false: it does not count any more */

/* ---- measure.c: all opened devices take turns at a work ---- */
/* What a device cannot do, by this thread's message, is told in its row, and the others go on. */
void compare_refuse(compare_row *row);
clade_status compare_measure(compare_job *job, const compare_work *work, const compare_demand *demand,
                             compare_row rows[]);

/* ---- answer.c: out of rows alone ---- */
extern const char *const compare_questions[]; /* ends in NULL */
json_t *compare_answers(const json_t *rows);

/* ---- show.c ---- */
json_t *compare_row_json(const compare_side *side, const compare_work *work, const compare_demand *demand,
                         const compare_row *row);
void compare_show_devices(const compare_job *job);
void compare_show_row(const compare_job *job, const json_t *row);
void compare_show_answers(const compare_job *job, const json_t *answers);

#endif
