/* Training on several devices of one process: each is a rank with a thread; the first uses the caller's thread. */
#include "train/internal.h"

typedef struct member {
  clade_trainer t;
  pthread_mutex_t *building;
  pthread_t thread;
  bool started;
  clade_status status;
  char *message;
} member;

typedef struct group {
  const clade_trainer *t;
  pthread_mutex_t building;
  clade_comm *comms[CLADE__MAX_DEVICES];
  member member[CLADE__MAX_DEVICES];
} group;

static void train(member *m, clade_train_result *result, clade_vars **vars) {
  m->status = clade__train_rank(&m->t, m->building, result, vars);
  if (m->status != CLADE_OK) m->message = clade__copy_text(clade_last_error());
}

/* Frees the results of the first rank after another rank failed. */
static void discard(clade_train_result *result, clade_vars **vars) {
  clade_train_result_free(result);
  if (!vars) return;
  clade_vars_release(*vars);
  *vars = NULL;
}

static void *train_apart(void *user) {
  train(user, NULL, NULL);
  return NULL;
}

static clade_status start(group *all, int n) {
  CLADE_TRY(clade_comm_new_local(n, all->comms));
  for (int i = 0; i < n; i++) {
    member *m = &all->member[i];
    m->t = *all->t;
    m->building = &all->building;
    m->t.n_devices = 1;
    m->t.devices = &all->t->devices[i];
    m->t.comm = all->comms[i];
    if (i) m->t.observe = NULL;
    CLADE_TRY(clade_comm_set_timeout(m->t.comm, 0)); /* no timeout: a failing thread aborts the others */
  }
  for (int i = 1; i < n; i++) {
    member *m = &all->member[i];
    if (pthread_create(&m->thread, NULL, train_apart, m) != 0)
      return CLADE_FAIL(NO_MEMORY, "clade_train: the thread of device %d cannot be started", i);
    m->started = true;
  }
  return CLADE_OK;
}

/* Reports the first rank's failure that is not merely the consequence of another one. */
static clade_status judge(const group *all, int n) {
  clade_device_info info = {.size = sizeof info};
  int worst = -1;
  for (int i = 0; i < n; i++) {
    const clade_status status = all->member[i].status;
    if (status == CLADE_OK) continue;
    if (worst < 0 || (all->member[worst].status == CLADE_CANCELED && status != CLADE_CANCELED)) worst = i;
  }
  if (worst < 0) return CLADE_OK;
  const member *m = &all->member[worst];
  clade__fail_again(m->status, m->message ? m->message : clade_status_text(m->status));
  if (!worst || clade_device_get_info(m->t.devices[0], &info) != CLADE_OK) return m->status;
  return clade__fail_in(m->status, "device %d of %d, %s \"%s\"", worst, n, info.id, info.name);
}

clade_status clade__train_devices(const clade_trainer *t, clade_train_result *result, clade_vars **vars) {
  const int n = t->n_devices;
  group *all = clade__new(1, sizeof *all);
  if (!all) return CLADE_NO_MEMORY;
  all->t = t;
  pthread_mutex_init(&all->building, NULL);
  clade_status status = start(all, n);
  const bool begun = status == CLADE_OK;
  if (begun)
    train(&all->member[0], result, vars);
  else
    clade_comm_abort(all->comms[0]);
  for (int i = 1; i < n; i++)
    if (all->member[i].started) pthread_join(all->member[i].thread, NULL);
  if (begun) status = judge(all, n);
  if (begun && status != CLADE_OK && all->member[0].status == CLADE_OK) discard(result, vars);
  for (int i = 0; i < n; i++) {
    clade_comm_release(all->comms[i]);
    clade__free(all->member[i].message);
  }
  pthread_mutex_destroy(&all->building);
  clade__free(all);
  return status;
}
