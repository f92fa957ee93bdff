/* Runs: a func bound to variables, with everything that an execution needs made beforehand. */
#ifndef CLADE_PLAN_RUN_H
#define CLADE_PLAN_RUN_H

#include <clade/opencl.h>

#include "plan/plan.h"

enum { CLADE__EXECUTION_BITS = 44 }; /* of a ticket; above them is the run's serial */

/* What a lane enqueues, resolved for one slot. */
typedef enum clade__cmd_kind {
  CLADE__CMD_LAUNCH,
  CLADE__CMD_LIBRARY, /* another library enqueues it */
  CLADE__CMD_COPY,
  CLADE__CMD_FEED,   /* input `port` into its slot: a tensor's bytes; those of the host are uploaded before */
  CLADE__CMD_SEND,   /* host step `port`: its inputs to the host */
  CLADE__CMD_RECEIVE /* and its outputs to their device, once it has ended: polled */
} clade__cmd_kind;

typedef struct clade__cmd {
  clade__cmd_kind kind;
  int step; /* of the func; -1: a feed */
  int port;
  cl_uint dims;
  union {
    struct {
      cl_kernel kernel;
      size_t global[3], local[3];
    } launch;
    struct { /* COPY; FEED: `to` */
      clade__buffer *from, *to;
      size_t from_at, to_at, bytes;
    } move;
  } as;
} clade__cmd;

/* More queues of a lane, by the numbers that a bundle's manifest gives; 0 is the lane's own (queues.c). */
typedef struct clade__turn { /* of a command */
  int queue;
  bool first;   /* in one of the others */
  bool awaited; /* by a command in another one */
} clade__turn;
typedef struct clade__spread {
  int n;
  clade__queue **queues; /* [n]; NULL: not one of the lane's kernels is there */
  clade__turn *turns;    /* [commands] */
  size_t *after;         /* [commands][n]: 1 + the last command in that queue that comes before it; 0: none */
  /* of the execution that is being enqueued */
  cl_event begun, *marks; /* [commands] */
  cl_event *waits;        /* [n] */
} clade__spread;

/* What one device does, in order. Executions follow one another on it. */
typedef struct clade__lane {
  clade__queue *queue;
  clade__queue *uploads; /* of inputs, beside what the device computes; NULL: it has no inputs */
  clade_device *device;
  size_t n_cmds, n_feeds; /* the feeds come first */
  clade__cmd **cmds;      /* [slots] */
  clade__spread *spread;  /* NULL: all is in one queue */
  size_t first_time;      /* of its commands in a slot's `times` */
  uint64_t next;          /* the execution that it enqueues */
  size_t at;              /* and the command of it */
  size_t n_tail;          /* the last commands (tail.c) */
  size_t *tail_needed;    /* [others]: how many of the tail of the execution before come before it */
  uint64_t tailing;       /* the execution before, of whose tail something is left; 0: none */
  size_t tail_at;         /* what is done of it */
} clade__lane;

typedef struct clade__fed {
  clade__buffer *buffer; /* of a tensor, retained; NULL: from the staging */
  size_t offset;
} clade__fed;

typedef enum clade__host_stage {
  CLADE__HOST_IDLE,
  CLADE__HOST_SENT,  /* its inputs are on their way, or there */
  CLADE__HOST_BEGUN, /* it is polled */
  CLADE__HOST_ENDED
} clade__host_stage;
typedef struct clade__hosted { /* a host step of an execution */
  clade__host_stage stage;
  cl_event sent;                   /* the last of its inputs; NULL: it has none */
  cl_event idle;                   /* its lane waits for it, and this ends when all that was enqueued before has */
  double begun, ended, idle_since; /* clade__now(); idle_since 0: the lane's device is at work */
  void *pending;
  clade__staging **parcels; /* [operands] */
  void **data;
  size_t *bytes;
  clade_host_call call;
} clade__hosted;

typedef struct clade__slot {
  uint64_t execution;
  bool busy;      /* submitted, and nobody has waited for it yet */
  bool begun;     /* some lane has enqueued something of it */
  bool reported;  /* its error went to the caller of clade_execute */
  int lanes_left; /* that have not enqueued all of it */
  clade_status status;
  char message[512];
  clade__fed *fed; /* [inputs] */
  clade__buffer **inputs, **outputs;
  clade__staging **staging; /* [inputs] */
  clade__hosted *hosts;     /* [host steps] */
  cl_event *uploaded;       /* [lanes]: the inputs that come from the host; NULL: there are none */
  cl_event *done;           /* [lanes] */
  cl_event *times;          /* by command of all lanes, with .profile */
} clade__slot;

typedef struct clade__waker clade__waker; /* wakes the progress thread; outlives the run for late callbacks */

typedef struct clade__bound { /* a packed copy that the kernels' arguments name */
  clade__buffer *buffer;
  uint64_t version; /* of the variable, from 1 on; 0: none */
} clade__bound;

struct clade_run {
  clade_func *func;
  clade_vars *vars;
  int *var_index; /* [variables of the func]: in vars */
  bool nowait, profile, adopted;
  bool lone; /* a persistent kernel is all that it launches: who waits for it does so awake, at first */
  bool late; /* under lock: the last one that was waited for so took too long for that */
  /* under vars->lock */
  clade__bound *packs; /* [packs of the func] */
  clade_run *next_reader;
  bool entered; /* inside clade_execute, with what is bound */
  pthread_mutex_t lock;
  pthread_cond_t enqueued; /* some slot has lanes_left 0 */
  clade__map input_names, output_names;
  int *feed_of; /* [inputs]: scratch of clade_execute */
  size_t *input_bytes;
  int n_slots, n_lanes;
  clade__slot *slots;
  clade__lane *lanes;
  clade__buffer **arena;  /* [func->slabs] */
  clade__buffer **tables; /* [lanes]: of persistent kernels; NULL: it has none */
  cl_kernel *kernels;     /* by launch, one or n_slots each */
  size_t n_kernels;
  clade_ticket serial; /* of this run, where it stands in its tickets */
  uint64_t submitted;  /* executions: 1, 2, 3, … */
  uint64_t cancels;
  clade_status status; /* the first error that came later */
  char message[512];
  clade__wait wait; /* of the execution that is being submitted: the user's events */
  /* the progress thread, where there are host steps */
  clade__waker *waker;
  pthread_t thread;
  bool threaded, stop, reserved; /* reserved: what events need to wake it */
  /* profile */
  clade_step_time *ring;
  size_t ring_size;
  uint64_t ring_count; /* ever written */
  uint64_t ring_first; /* of the execution that ended last */
  size_t n_times;      /* commands of one execution */
  clade_observer_fn *observer;
  void *observer_user;
  clade_status profile_status;
};

static inline clade__slot *clade__slot_of(clade_run *run, uint64_t execution) {
  return &run->slots[(execution - 1) % (unsigned)run->n_slots];
}

/* Of those that may have a slot. */
static inline uint64_t clade__oldest_execution(const clade_run *run) {
  const uint64_t slots = (uint64_t)run->n_slots;
  return run->submitted >= slots ? run->submitted - slots + 1 : 1;
}

static inline uint64_t clade__ticket_execution(clade_ticket ticket) {
  return ticket & ((UINT64_C(1) << CLADE__EXECUTION_BITS) - 1);
}

/* ---- making (run.c, run_build.c) ---- */
/* Buffers, kernels and commands; run->func and run->vars are set. What was made before a failure is the run's. */
clade_status clade__run_build(clade_run *run, cl_command_queue user_queue);
void clade__run_unbuild(clade_run *run);
/* Memory for a value that lies alone in its buffer, with the func's guards. */
clade_status clade__run_port_buffer(clade_run *run, const clade__place *place, const char *what, clade__buffer **out);
/* The element of its memory at which an operand of a launch lies; `index` names it where that is too far. */
clade_status clade__run_element(const clade_run *run, const clade__fstep *step, int operand, cl_uint index,
                                int64_t *element);
/* All arguments of a step's kernel, but for packed copies that are not there yet. */
clade_status clade__run_set_args(const clade_run *run, cl_kernel kernel, const clade__fstep *step, int slot);
/* Has kernels and commands name the packed copies that are there now. Nothing is under way. */
clade_status clade__run_rebind(clade_run *run);

/* ---- persistent kernels (run_persistent.c) ---- */
const clade__fpersistent *clade__run_persistent(const clade_run *run,
                                                const clade__fstep *step); /* NULL: it has its own launch */
clade_status clade__run_tables(clade_run *run);
clade_status clade__run_persistent_args(const clade_run *run, cl_kernel kernel, const clade__fpersistent *persistent,
                                        int slot);
clade_status clade__run_persistent_rebind(const clade_run *run, cl_kernel kernel, const clade__fpersistent *persistent,
                                          int slot);

/* ---- packed copies of variables (packed.c); those with a run need vars->lock but for join and part ---- */
clade_status clade__packed_join(clade_run *run);
void clade__packed_part(clade_run *run);
bool clade__packed_stale(const clade_run *run);
/* Also needs run->lock, and nothing under way. */
clade_status clade__packed_bind(clade_run *run);

/* Where a place is for an execution in `slot`, and at what offset there. */
clade__buffer *clade__run_buffer(const clade_run *run, int slot, const clade__place *place);
size_t clade__run_offset(const clade_run *run, const clade__place *place);

/* ---- a lane of several queues (queues.c) ---- */
/* Where its kernels are to run at the same time. */
clade_status clade__lane_spread(clade_run *run, clade__lane *lane);
void clade__lane_unspread(clade__lane *lane); /* waits */
clade__queue *clade__lane_queue(const clade__lane *lane, size_t cmd);
/* What a command waits for. `uploads`: what nothing but feeds may come before. */
clade_status clade__lane_wait(clade__lane *lane, size_t cmd, clade__wait uploads, clade__wait *out);
cl_event *clade__lane_mark(const clade__lane *lane, size_t cmd); /* its event, where others wait for it; else NULL */
/* Through with an execution: *done covers all that was enqueued for it in any queue. */
clade_status clade__lane_join(clade__lane *lane, clade__wait uploads, cl_event *done);
clade_status clade__lane_flush(const clade__lane *lane);
void clade__lane_finish(const clade__lane *lane); /* the other queues */

bool clade__places_overlap(const clade__place *a, const clade__place *b); /* of one execution */

/* ---- what the next execution need not wait for (tail.c) ---- */
clade_status clade__lane_tail(const clade_run *run, clade__lane *lane);

/* ---- host steps (run_host.c); all need run->lock ---- */
clade_status clade__hosts_new(clade_run *run, clade__slot *slot);
void clade__hosts_free(const clade_run *run, clade__slot *slot);
void clade__hosts_reset(const clade_run *run, clade__slot *slot); /* for the slot's next execution */
clade_status clade__host_send(clade_run *run, const clade__lane *lane, clade__slot *slot, const clade__cmd *cmd,
                              clade__wait wait, cl_event *event);
clade_status clade__host_receive(clade_run *run, const clade__lane *lane, clade__slot *slot, const clade__cmd *cmd,
                                 clade__wait wait, cl_event *event, bool *again);
/* The lane has work again, and nobody waits for the step that this command receives from. */
void clade__host_unwatch(const clade_run *run, clade__slot *slot, const clade__cmd *cmd);
/* Begins and polls whatever can be, of all executions. true: some step went on. */
bool clade__hosts_advance(clade_run *run);
/* Ends what has begun of an execution that failed. */
void clade__hosts_cancel(const clade_run *run, clade__slot *slot);
bool clade__hosts_wait(const clade_run *run, const clade__slot *slot); /* an op's step has not ended */
long clade__hosts_poll_ns(const clade_run *run, long most);            /* until the next poll */

/* ---- enqueuing (upload.c, drive.c, progress.c); all need run->lock ---- */
/* The inputs in the slot's staging, on their way. Nobody reads the slot's memory any more: its execution has ended. */
void clade__run_upload(clade_run *run, clade__slot *slot);
/* Enqueues whatever can be, of all executions submitted. true: some lane waits for a host step. */
bool clade__run_drive(clade_run *run);
/* A second reference, where one is wanted. Without it there is no time of that command, or a marker in its place. */
void clade__event_share(const clade__lane *lane, cl_event event, cl_event *also);
/* The first failure of an execution stays. */
void clade__slot_fail(clade__slot *slot, clade_status status);
/* Waits until the slot's execution has ended, and frees what it held. Gives up the lock meanwhile. */
void clade__slot_wait(clade_run *run, clade__slot *slot);
/* 1: ended, 0: not yet. */
int clade__slot_poll(clade_run *run, clade__slot *slot);

clade_status clade__progress_start(clade_run *run);
void clade__progress_stop(clade_run *run); /* without the lock */
void clade__progress_wake(clade_run *run);
void clade__progress_call(void *waker); /* the same, for the threads of host steps */
/* Has the progress thread look again when the event ends. */
void clade__progress_watch(clade_run *run, clade_device *device, cl_event event);

/* ---- profile (trace.c) ---- */
clade_status clade__profile_new(clade_run *run);
/* Times of the slot's execution into the ring. Needs the lock. */
void clade__profile_collect(clade_run *run, clade__slot *slot);
void clade__profile_observe(clade_run *run); /* without the lock: the last execution's */

#endif
