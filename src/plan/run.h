/* Runs: a func bound to variables, with everything that executions need created in advance. */
#ifndef CLADE_PLAN_RUN_H
#define CLADE_PLAN_RUN_H

#include <clade/opencl.h>

#include "plan/plan.h"

enum { CLADE__EXECUTION_BITS = 44 }; /* low bits of a ticket; the run's serial number is above */

/* Commands of a lane, with memory resolved for one slot. */
typedef enum clade__cmd_kind {
  CLADE__CMD_LAUNCH,
  CLADE__CMD_LIBRARY, /* enqueued by an external library */
  CLADE__CMD_COPY,
  CLADE__CMD_FEED,   /* copies input `port` into its slot from a tensor; host inputs are uploaded separately */
  CLADE__CMD_SEND,   /* transfers the inputs of host step `port` to the host */
  CLADE__CMD_RECEIVE /* polls it, then transfers its outputs to their device */
} clade__cmd_kind;

typedef struct clade__cmd {
  clade__cmd_kind kind;
  int step; /* step of the func; -1: a feed */
  int port;
  cl_uint dims;
  union {
    struct {
      cl_kernel kernel;
      size_t global[3], local[3];
    } launch;
    struct { /* COPY; FEED uses `to` only */
      clade__buffer *from, *to;
      size_t from_at, to_at, bytes;
    } move;
  } as;
} clade__cmd;

/* Additional queues of a lane, numbered by the bundle's manifest; 0 is the lane's own (queues.c). */
typedef struct clade__turn { /* of a command */
  int queue;
  bool first;   /* the first in another queue */
  bool awaited; /* a command in another queue waits for it */
} clade__turn;
typedef struct clade__spread {
  int n;
  clade__queue **queues; /* [n]; NULL: unused by this lane */
  clade__turn *turns;    /* [commands] */
  size_t *after;         /* [commands][n]: 1 + the last conflicting command in that queue; 0: none */
  /* state of the execution being enqueued */
  cl_event begun, *marks; /* [commands] */
  cl_event *waits;        /* [n] */
} clade__spread;

/* The commands of one device, in order, execution after execution. */
typedef struct clade__lane {
  clade__queue *queue;
  clade__queue *uploads; /* for inputs, in parallel with computation; NULL: no inputs */
  clade_device *device;
  size_t n_cmds, n_feeds; /* feeds come first */
  clade__cmd **cmds;      /* [slots] */
  clade__spread *spread;  /* NULL: a single queue */
  size_t first_time;      /* index of its first command in a slot's `times` */
  uint64_t next;          /* the execution being enqueued */
  size_t at;              /* its next command */
  size_t n_tail;          /* number of commands in the tail (tail.c) */
  size_t *tail_needed;    /* [others]: how many commands of the previous tail must precede it */
  uint64_t tailing;       /* the execution whose tail is unfinished; 0: none */
  size_t tail_at;         /* next command of that tail */
} clade__lane;

typedef struct clade__fed {
  clade__buffer *buffer; /* of a tensor, retained; NULL: read from staging memory */
  size_t offset;
} clade__fed;

typedef enum clade__host_stage {
  CLADE__HOST_IDLE,
  CLADE__HOST_SENT,  /* its inputs are being transferred or have arrived */
  CLADE__HOST_BEGUN, /* polled */
  CLADE__HOST_ENDED
} clade__host_stage;
typedef struct clade__hosted { /* state of a host step in an execution */
  clade__host_stage stage;
  cl_event sent;                   /* of the last input; NULL: no inputs */
  cl_event idle;                   /* completes when the lane has no other work while it waits for this step */
  double begun, ended, idle_since; /* times by clade__now(); idle_since 0: the lane's device is busy */
  void *pending;
  clade__staging **parcels; /* [operands] */
  void **data;
  size_t *bytes;
  clade_host_call call;
} clade__hosted;

typedef struct clade__slot {
  uint64_t execution;
  bool busy;      /* submitted, and not waited for yet */
  bool begun;     /* a lane has enqueued some of it */
  bool reported;  /* its error was returned by clade_execute */
  int lanes_left; /* lanes that have not enqueued all of it */
  clade_status status;
  char message[512];
  clade__fed *fed; /* [inputs] */
  clade__buffer **inputs, **outputs;
  clade__staging **staging; /* [inputs] */
  clade__hosted *hosts;     /* [host steps] */
  cl_event *uploaded;       /* [lanes]: upload of host inputs; NULL: none */
  cl_event *done;           /* [lanes] */
  cl_event *times;          /* by command of all lanes, with .profile */
} clade__slot;

typedef struct clade__waker clade__waker; /* wakes the progress thread; outlives the run for late callbacks */

typedef struct clade__bound { /* a packed copy that the kernels' arguments refer to */
  clade__buffer *buffer;
  uint64_t version; /* of the variable, from 1; 0: none */
} clade__bound;

struct clade_run {
  clade_func *func;
  clade_vars *vars;
  int *var_index; /* [variables of the func]: index in vars */
  bool nowait, profile, adopted;
  bool apart; /* launches each step by itself: to time it, or because variables are in too many buffers (joined.c) */
  bool lone;  /* launches only one persistent kernel, so waiting threads spin first */
  bool late;  /* under lock: the last such wait was too long to spin */
  /* under vars->lock */
  clade__bound *packs; /* [packs of the func] */
  clade_run *next_reader;
  bool entered; /* inside clade_execute, using the bound copies */
  pthread_mutex_t lock;
  pthread_cond_t enqueued; /* signals that a slot has lanes_left 0 */
  clade__map input_names, output_names;
  int *feed_of; /* [inputs]: used by clade_execute */
  size_t *input_bytes;
  int n_slots, n_lanes;
  clade__slot *slots;
  clade__lane *lanes;
  clade__buffer **arena;  /* [func->slabs] */
  clade__buffer **tables; /* [lanes]: of persistent kernels; NULL: none */
  cl_kernel *kernels;     /* by launch, one or n_slots each */
  size_t n_kernels;
  clade_ticket serial; /* the run's serial number, shifted to its position in tickets */
  uint64_t submitted;  /* executions are numbered from 1 */
  uint64_t cancels;
  clade_status status; /* the first asynchronous error */
  char message[512];
  clade__wait wait; /* the user's events for the execution being submitted */
  /* progress thread, if there are host steps */
  clade__waker *waker;
  pthread_t thread;
  bool threaded, stop, reserved; /* reserved: event callbacks were reserved */
  /* profile */
  clade_step_time *ring;
  size_t ring_size;
  uint64_t ring_count; /* total written */
  uint64_t ring_first; /* of the last completed execution */
  size_t n_times;      /* commands per execution */
  clade_observer_fn *observer;
  void *observer_user;
  clade_status profile_status;
};

static inline clade__slot *clade__slot_of(clade_run *run, uint64_t execution) {
  return &run->slots[(execution - 1) % (unsigned)run->n_slots];
}

/* The oldest execution that can still have a slot. */
static inline uint64_t clade__oldest_execution(const clade_run *run) {
  const uint64_t slots = (uint64_t)run->n_slots;
  return run->submitted >= slots ? run->submitted - slots + 1 : 1;
}

static inline uint64_t clade__ticket_execution(clade_ticket ticket) {
  return ticket & ((UINT64_C(1) << CLADE__EXECUTION_BITS) - 1);
}

/* ---- construction (run.c, run_build.c, run_commands.c) ---- */
/* Creates buffers, kernels and commands; run->func and run->vars are set. After a failure, the run owns what was
 * created. */
clade_status clade__run_build(clade_run *run, cl_command_queue user_queue);
void clade__run_unbuild(clade_run *run);
/* Whether the step needs a launch: it is separate, or the first of a persistent kernel. */
bool clade__run_launches(const clade_run *run, size_t step);
int clade__run_kernels_for(const clade_run *run, const clade__fstep *step);
void clade__run_count_cmds(clade_run *run);
clade_status clade__run_cmds(clade_run *run);
/* Allocates a value with its own buffer, including guards. */
clade_status clade__run_port_buffer(clade_run *run, const clade__place *place, const char *what, clade__buffer **out);
/* Offset of a launch operand in elements; the error for a too large offset names argument `index`. */
clade_status clade__run_element(const clade_run *run, const clade__fstep *step, int operand, cl_uint index,
                                int64_t *element);
/* Sets all kernel arguments of a step, except packed copies that do not exist yet. */
clade_status clade__run_set_args(const clade_run *run, cl_kernel kernel, const clade__fstep *step, int slot);
/* Updates kernels and commands to the current packed copies. No execution may be active. */
clade_status clade__run_rebind(clade_run *run);

/* ---- persistent kernels (run_persistent.c) ---- */
const clade__fpersistent *clade__run_persistent(const clade_run *run,
                                                const clade__fstep *step); /* NULL: launched separately */
bool clade__run_binds(const clade_run *run); /* false: variables are in more buffers than a joined launch takes */
clade_status clade__run_tables(clade_run *run);
clade_status clade__run_persistent_args(const clade_run *run, cl_kernel kernel, const clade__fpersistent *persistent,
                                        int slot);
clade_status clade__run_persistent_rebind(const clade_run *run, cl_kernel kernel, const clade__fpersistent *persistent,
                                          int slot);

/* ---- packed copies of variables (packed.c); calls with a run need vars->lock, except join and part ---- */
clade_status clade__packed_join(clade_run *run);
void clade__packed_part(clade_run *run);
bool clade__packed_stale(const clade_run *run);
/* Also needs run->lock and no active execution. */
clade_status clade__packed_bind(clade_run *run);

/* Buffer and offset of a place for an execution in `slot`. */
clade__buffer *clade__run_buffer(const clade_run *run, int slot, const clade__place *place);
size_t clade__run_offset(const clade_run *run, const clade__place *place);

/* ---- lanes with several queues (queues.c) ---- */
/* Creates the queues if its kernels can run concurrently. */
clade_status clade__lane_spread(clade_run *run, clade__lane *lane);
void clade__lane_unspread(clade__lane *lane); /* waits */
clade__queue *clade__lane_queue(const clade__lane *lane, size_t cmd);
/* The events that a command waits for. `uploads`: must precede all but feeds. */
clade_status clade__lane_wait(clade__lane *lane, size_t cmd, clade__wait uploads, clade__wait *out);
cl_event *clade__lane_mark(const clade__lane *lane, size_t cmd); /* its event if other queues wait for it, else NULL */
/* Ends an execution: *done covers everything enqueued for it in all queues. */
clade_status clade__lane_join(clade__lane *lane, clade__wait uploads, cl_event *done);
clade_status clade__lane_flush(const clade__lane *lane);
void clade__lane_finish(const clade__lane *lane); /* waits for the other queues */

bool clade__places_overlap(const clade__place *a, const clade__place *b); /* within one execution */

/* ---- tails, which the next execution need not wait for (tail.c) ---- */
clade_status clade__lane_tail(const clade_run *run, clade__lane *lane);

/* ---- host steps (run_host.c); all need run->lock ---- */
clade_status clade__hosts_new(clade_run *run, clade__slot *slot);
void clade__hosts_free(const clade_run *run, clade__slot *slot);
void clade__hosts_reset(const clade_run *run, clade__slot *slot); /* for the slot's next execution */
clade_status clade__host_send(clade_run *run, const clade__lane *lane, clade__slot *slot, const clade__cmd *cmd,
                              clade__wait wait, cl_event *event);
clade_status clade__host_receive(clade_run *run, const clade__lane *lane, clade__slot *slot, const clade__cmd *cmd,
                                 clade__wait wait, cl_event *event, bool *again);
/* The lane has work again and does not wait for this command's host step. */
void clade__host_unwatch(const clade_run *run, clade__slot *slot, const clade__cmd *cmd);
/* Begins and polls host steps of all executions. True: at least one made progress. */
bool clade__hosts_advance(clade_run *run);
/* Cancels the begun host steps of a failed execution. */
void clade__hosts_cancel(const clade_run *run, clade__slot *slot);
bool clade__hosts_wait(const clade_run *run, const clade__slot *slot); /* a host step of an op has not ended */
long clade__hosts_poll_ns(const clade_run *run, long most);            /* time until the next poll */

/* ---- enqueueing (upload.c, drive.c, progress.c); all need run->lock ---- */
/* Starts the upload of the slot's staged inputs. The slot's previous execution must have ended. */
void clade__run_upload(clade_run *run, clade__slot *slot);
/* Enqueues as much as possible of all submitted executions. True: a lane waits for a host step. */
bool clade__run_drive(clade_run *run);
/* Retains the event in *also if that is not NULL. After a failure, the command has no time or is replaced by a
 * marker. */
void clade__event_share(const clade__lane *lane, cl_event event, cl_event *also);
/* Keeps the first failure of an execution. */
void clade__slot_fail(clade__slot *slot, clade_status status);
/* Waits for the slot's execution and frees its resources. Releases the lock meanwhile. */
void clade__slot_wait(clade_run *run, clade__slot *slot);
/* 1: ended, 0: not yet. */
int clade__slot_poll(clade_run *run, clade__slot *slot);

clade_status clade__progress_start(clade_run *run);
void clade__progress_stop(clade_run *run); /* called without the lock */
void clade__progress_wake(clade_run *run);
void clade__progress_call(void *waker); /* the same, for threads of host steps */
/* Wakes the progress thread when the event completes. */
void clade__progress_watch(clade_run *run, clade_device *device, cl_event event);

/* ---- profile (trace.c) ---- */
clade_status clade__profile_new(clade_run *run);
/* Appends the times of the slot's execution to the ring. Needs the lock. */
void clade__profile_collect(clade_run *run, clade__slot *slot);
void clade__profile_observe(clade_run *run); /* for the last execution; called without the lock */

#endif
