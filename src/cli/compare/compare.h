/* clade bench compare: runs the same works on several devices, opened or modeled. docs/bench.md defines
 * the figures. */
#ifndef CLADE_CLI_COMPARE_H
#define CLADE_CLI_COMPARE_H

#include "cli/bench/bench.h"

/* How the figures of a device were obtained. */
typedef enum compare_evidence {
  COMPARE_MEASURED,
  COMPARE_SIMULATED, /* cycles of simulated RTL at the clock of a routed design */
  COMPARE_ROUTED,    /* a model with the clock of a routed design */
  COMPARE_REPORT,    /* a model with an estimated clock */
  COMPARE_FUNCTIONAL /* results are right; times say nothing about the device that is emulated */
} compare_evidence;
extern const char *const compare_evidence_names[];

/* ---- work.c: the works ---- */
typedef struct compare_work {
  const char *group, *model; /* group: "gemm", "conv", "infer" or "train"; model: name for infer and train, else NULL */
  bool quick, bytes;         /* bytes: products of i8; otherwise f32 */
  int64_t batch, m, n, k;
  int64_t channels, side, out, kernel, stride; /* of images; a convolution pads by half its kernel */
  int64_t classes;
} compare_work;
extern const compare_work compare_works[];
size_t compare_work_count(void);
void compare_work_name(const compare_work *work, char *name, size_t size);
clade_shape compare_input(const compare_work *work);      /* shape of input "x" */
const char *compare_model_name(const compare_work *work); /* "lenet5 i8" for bytes; NULL: no model */
bool compare_classifies(const compare_work *work);        /* LeNet-5 inference with the weights of compare_net */
typedef struct compare_net compare_net;
/* Builds a graph from input "x" and, for training, "labels" to output "y". Everything else is a variable or a
 * constant. */
clade_status compare_graph(const compare_work *work, const compare_net *net, clade_graph **out);

typedef struct compare_data {
  void *x;
  int32_t *labels;
  size_t elements, x_bytes, label_bytes, y_elements; /* elements: of x */
} compare_data;
compare_data compare_data_size(const compare_work *work); /* sizes only, without memory */
clade_status compare_data_new(const compare_work *work, compare_data *out);
void compare_data_free(compare_data *data);

/* ---- lenet5.c: LeNet-5, trained on the generated digits and quantized to i8 ---- */
enum { COMPARE_IMAGES = 100 };
/* Trains on the host. host NULL: all numbers are zeros, enough to inspect shapes. Also free after a failure. */
clade_status compare_net_new(clade_device *host, compare_net **out);
void compare_net_free(compare_net *net);
/* Builds the quantized network from x, i8 [batch, 1, 28, 28], to the logits. */
clade_val compare_net_bytes(const compare_net *net, clade_graph *graph, clade_val x, int64_t batch);
clade_status compare_net_give(const compare_net *net, clade_vars *vars); /* sets the f32 network's variables */
/* Copies a test image as an input of the network and returns its digit. */
int32_t compare_net_image(const compare_net *net, int at, bool bytes, void *to);

/* Demand of a graph, independent of devices: its products and convolutions; each reads its operands and writes its
 * result once. */
typedef struct compare_demand {
  double flops, bytes;
  const clade_graph *graph;
} compare_demand;
compare_demand compare_demand_of(const clade_graph *graph);

/* ---- devices and their rows ---- */
typedef struct compare_meter {
  const char *by; /* "rapl" or "nvml"; NULL: energy is not measured */
  void *device;   /* NVML's handle; NULL: RAPL */
  double joules;  /* counter reading; after an overflow less than before */
} compare_meter;
struct compare_kind;
typedef struct compare_side {
  const char *spec; /* name in rows: the spec as given; of a model, the file's name without directory and ".json" */
  char label[64];   /* storage of a model's `spec` */
  compare_evidence evidence;
  const char *told;                /* evidence that the device's bundle declares, for information only; NULL: unknown */
  bench_job bench;                 /* the device with its description and limits; only the peaks for a model */
  const struct compare_kind *kind; /* NULL: an OpenCL device */
  bool modeled, simulated;         /* set by the kind */
  const char *name;                /* from the file; NULL: the device's own name */
  uint64_t element_bytes;          /* modeled: bytes of an operand's element */
  void *own;                       /* the kind's data */
  compare_meter meter;
} compare_side;

/* Figures of a work on a device; NAN: unknown. */
typedef struct compare_row {
  char refused[400]; /* reason why there are no figures; "": none */
  int calls;
  union {
    double figures[16];
    struct {
      double p50, p99, low, high;
      double least, most;              /* smallest and largest median of a turn */
      double transfer, compute, other; /* p50 = transfer + compute + other */
      double programming, first, moved, error, accuracy, joules, cycles;
    };
  };
  const char *bound;    /* limiting resource; NULL: unknown */
  const char *fallback; /* device that computes what the bundle cannot; NULL: none */
} compare_row;

typedef struct compare_job {
  cli_args args;
  bool quick;
  const char *html, *answer, *only;
  FILE *to; /* stream of the table for people */
  int n;
  compare_side side[CLI_MAX_DEVICES];
  clade_device *host; /* computes the references */
  compare_net *net;   /* created for the first work that needs it */
  bench_watcher watcher;
  json_t *rows;
} compare_job;

/* ---- side.c ---- */
clade_status compare_side_open(const char *spec, compare_side *out);
clade_status compare_side_ask(compare_side *side); /* reads the bundle's evidence, which is known after a compilation */
void compare_side_close(compare_side *side);       /* also after compare_side_open failed */
const char *compare_side_name(const compare_side *side);
bool compare_does(const compare_side *side, const compare_work *work); /* false: the device gets no row for this work */
const char *compare_dtype(const compare_side *side, const compare_work *work);
json_t *compare_side_json(const compare_side *side);

/* ---- kinds of devices that are described by a file, "PREFIX:FILE" (cycles.c) ---- */
typedef struct compare_kind {
  const char *prefix; /* "model:" */
  clade_status (*open)(compare_side *side, const char *path);
  void (*close)(compare_side *side); /* also after a failed open */
  void (*mark)(compare_side *side);  /* simulated: launches count from here on */
  clade_status (*row)(const compare_side *side, const compare_work *work, const compare_demand *demand,
                      compare_row *row);
} compare_kind;
extern const compare_kind *const compare_kinds[]; /* ends in NULL */

/* ---- energy.c ---- */
void compare_meter_open(compare_meter *meter, const clade_device_info *info);
bool compare_meter_read(compare_meter *meter); /* false: the counter is not available any more */

/* ---- measure.c: opened devices take turns at a work ---- */
/* Stores this thread's error message in the row of a device that failed; the other devices go on. */
void compare_refuse(compare_row *row);
clade_status compare_measure(compare_job *job, const compare_work *work, const compare_demand *demand,
                             compare_row rows[]);

/* ---- answer.c: answers, computed from rows only ---- */
extern const char *const compare_questions[]; /* NULL at the end */
json_t *compare_answers(const json_t *rows);

/* ---- show.c ---- */
json_t *compare_row_json(const compare_side *side, const compare_work *work, const compare_demand *demand,
                         const compare_row *row);
void compare_show_devices(const compare_job *job);
void compare_show_row(const compare_job *job, const json_t *row);
void compare_show_answers(const compare_job *job, const json_t *answers);

#endif
