/* Checkpoints and logs with failing file operations: this program interposes C library functions and fails the n-th
 * call of a kind in the test's directory, for every n. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>

#include "io/checkpoint.h"
#include "io_vars_kit.h"

/* ---- interposition ---- */
typedef enum kind { NOTHING, OPEN, READ, WRITE, SHORT, HALF, SEEK, SYNC, CLOSE, RENAME, LINK, UNLINK, LIST } kind;

static struct {
  kind kind;
  int left, error; /* remaining calls before the failure */
  bool fired;
} plan;

static bool of_room(const char *path) { return *io_room && !strncmp(path, io_room, strlen(io_room)); }
static bool of_room_fd(int fd) {
  char link[64], path[512];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  path[n > 0 ? n : 0] = '\0';
  return of_room(path);
}
static bool fails(kind which) {
  if (plan.kind != which || plan.fired || --plan.left) return false;
  plan.fired = true;
  errno = plan.error;
  return true;
}

/* The interposed function. */
#define NEXT(type, name, arguments) \
  static type(*next) arguments;     \
  if (!next) *(void **)&next = dlsym(RTLD_NEXT, #name)

int open(const char *path, int flags, ...) {
  NEXT(int, open, (const char *, int, ...));
  mode_t mode = 0;
  if (flags & O_CREAT) {
    va_list args;
    va_start(args, flags);
    mode = va_arg(args, mode_t);
    va_end(args);
  }
  return plan.kind == OPEN && of_room(path) && fails(OPEN) ? -1 : next(path, flags, mode);
}
ssize_t read(int fd, void *to, size_t bytes) {
  NEXT(ssize_t, read, (int, void *, size_t));
  return plan.kind == READ && of_room_fd(fd) && fails(READ) ? -1 : next(fd, to, bytes);
}
ssize_t pread(int fd, void *to, size_t bytes, off_t offset) {
  NEXT(ssize_t, pread, (int, void *, size_t, off_t));
  return plan.kind == READ && of_room_fd(fd) && fails(READ) ? -1 : next(fd, to, bytes, offset);
}
ssize_t write(int fd, const void *from, size_t bytes) {
  NEXT(ssize_t, write, (int, const void *, size_t));
  if (plan.kind == WRITE && of_room_fd(fd) && fails(WRITE)) return -1;
  if (plan.kind == HALF && of_room_fd(fd)) {
    if (plan.fired && plan.error) { /* and the following one */
      errno = plan.error;
      plan.error = 0;
      return -1;
    }
    if (fails(HALF)) bytes /= 2;
  }
  if (plan.kind == SHORT && of_room_fd(fd) && fails(SHORT)) bytes = (bytes + 1) / 2;
  return next(fd, from, bytes);
}
off_t lseek(int fd, off_t offset, int whence) {
  NEXT(off_t, lseek, (int, off_t, int));
  return plan.kind == SEEK && of_room_fd(fd) && fails(SEEK) ? -1 : next(fd, offset, whence);
}
int fsync(int fd) {
  NEXT(int, fsync, (int));
  return plan.kind == SYNC && of_room_fd(fd) && fails(SYNC) ? -1 : next(fd);
}
int close(int fd) {
  NEXT(int, close, (int));
  struct stat st; /* closing a directory cannot fail, as it writes nothing */
  bool bad = plan.kind == CLOSE && of_room_fd(fd) && !fstat(fd, &st) && S_ISREG(st.st_mode) && fails(CLOSE);
  int error = errno, result = next(fd); /* the descriptor is closed anyway */
  if (bad) errno = error;
  return bad ? -1 : result;
}
int rename(const char *from, const char *to) {
  NEXT(int, rename, (const char *, const char *));
  return plan.kind == RENAME && of_room(to) && fails(RENAME) ? -1 : next(from, to);
}
int link(const char *from, const char *to) {
  NEXT(int, link, (const char *, const char *));
  return plan.kind == LINK && of_room(to) && fails(LINK) ? -1 : next(from, to);
}
int unlink(const char *path) {
  NEXT(int, unlink, (const char *));
  return plan.kind == UNLINK && of_room(path) && fails(UNLINK) ? -1 : next(path);
}
DIR *opendir(const char *path) {
  NEXT(DIR *, opendir, (const char *));
  return plan.kind == LIST && of_room(path) && fails(LIST) ? NULL : next(path);
}

static void arm(kind which, int n, int error) {
  plan.kind = which;
  plan.left = n;
  plan.error = error;
  plan.fired = false;
}
static bool disarm(void) {
  plan.kind = NOTHING;
  return plan.fired;
}

/* ---- a directory with the checkpoint of step 1, which is the best, and an attempt to write step 2 ---- */
static const io_var model[] = {{"w", CLADE_F32, {2, {3, 4}}, true}, {"optimizer.w", CLADE_U8, {1, {5}}, false}};
static clade_checkpoint_dir *dir;
static clade_vars *first, *second;

static int set_up(void **state) {
  if (io_device_set_up(state)) return -1;
  OK(clade_checkpoint_dir_open(io_path("disk"), &dir));
  first = io_vars(2, model, 1);
  second = io_vars(2, model, 2);
  return 0;
}
static int tear_down(void **state) {
  clade_checkpoint_dir_close(dir);
  clade_vars_release(first);
  clade_vars_release(second);
  return io_device_tear_down(state);
}

/* Also removes all later steps. */
static void begin(void) { OK(clade_checkpoint_save(dir, first, 1, "one", .best = true)); }
static clade_status attempt(void) { return clade_checkpoint_save(dir, second, 2, "two", .best = true); }

/* Whatever the reported status, the found checkpoint is complete; returns its step. */
static int64_t taken(clade_checkpoint_which which) {
  clade_checkpoint *c;
  clade_vars *vars = io_vars(2, model, 3);
  OK(clade_checkpoint_open(io_path("disk"), which, &c));
  int64_t step = clade_checkpoint_step(c);
  OK(clade_checkpoint_apply(c, vars));
  assert_true(step == 1 ? io_same(vars, first) : io_same(vars, second));
  assert_string_equal(clade_checkpoint_text(c), step == 1 ? "one" : "two");
  clade_vars_release(vars);
  clade_checkpoint_free(c);
  return step;
}
static bool placed(void) { return !access(io_path("disk/step-0000000002.safetensors"), F_OK); }

static const int errors[] = {ENOSPC, EIO, EACCES};

/* Fails each call in turn; returns their number. */
static int each_call_fails(kind which, int error) {
  for (int n = 1;; n++) {
    begin();
    arm(which, n, error);
    clade_status status = attempt();
    char said[512];
    snprintf(said, sizeof said, "%s", clade_last_error());
    if (!disarm()) {
      assert_int_equal(status, CLADE_OK);
      assert_int_equal(taken(CLADE_CHECKPOINT_LATEST), 2);
      return n - 1;
    }
    assert_int_equal(status, error == EACCES ? CLADE_PERMISSION : CLADE_IO);
    if (!strstr(said, strerror(error)) || !strstr(said, "no checkpoint of step 2") || !strstr(said, io_path("disk")))
      fail_msg("\"%s\" does not tell directory and reason", said);
    assert_int_equal(taken(CLADE_CHECKPOINT_LATEST), placed() ? 2 : 1);
    taken(CLADE_CHECKPOINT_BEST);
    /* Steps, the best, the lock, and no temporary file. */
    assert_int_equal(io_entries(io_path("disk")), placed() ? 4 : 3);
  }
}

static void nothing_is_lost(void **state) {
  (void)state;
  const struct {
    kind kind;
    int calls;
  } kinds[] = {{OPEN, 2}, {WRITE, 3}, {SEEK, 3}, {SYNC, 2}, {CLOSE, 1}, {RENAME, 2}, {LINK, 1}};
  for (size_t e = 0; e < CLADE_COUNT(errors); e++)
    for (size_t k = 0; k < CLADE_COUNT(kinds); k++) {
      int calls = each_call_fails(kinds[k].kind, errors[e]);
      if (calls != kinds[k].calls) fail_msg("kind %d: %d calls instead of %d", kinds[k].kind, calls, kinds[k].calls);
    }
}

static void interruptions_are_gone_through(void **state) {
  (void)state;
  for (int n = 1; n <= 3; n++) {
    begin();
    arm(n < 3 ? SHORT : WRITE, n < 3 ? n : 1, EINTR);
    OK(attempt());
    assert_true(disarm());
    assert_int_equal(taken(CLADE_CHECKPOINT_LATEST), 2);
    assert_int_equal(taken(CLADE_CHECKPOINT_BEST), 2);
  }
}

static void without_links_the_best_is_a_copy(void **state) {
  (void)state;
  begin();
  arm(LINK, 1, EPERM);
  OK(attempt());
  assert_true(disarm());
  assert_int_equal(taken(CLADE_CHECKPOINT_BEST), 2);
  assert_int_equal(io_entries(io_path("disk")), 4);
}

static char heard[2048];
static void listen(void *user, clade_log_level level, const char *message) {
  (void)user, (void)level;
  snprintf(heard, sizeof heard, "%s", message);
}

/* A checkpoint is valid even if obsolete files could not be removed. */
static void clearing_away_may_fail(void **state) {
  (void)state;
  clade_log_set(listen, NULL, CLADE_LOG_WARNING);
  const kind kinds[] = {UNLINK, LIST};
  const char *words[] = {"cannot remove", "no old checkpoint was removed"};
  for (int k = 0; k < 2; k++) {
    begin();
    arm(kinds[k], 1, EIO);
    OK(clade_checkpoint_save(dir, second, 2, "two", .keep = 1));
    assert_true(disarm());
    assert_non_null(strstr(heard, words[k]));
    assert_int_equal(taken(CLADE_CHECKPOINT_LATEST), 2);
    assert_false(access(io_path("disk/step-0000000001.safetensors"), F_OK));
  }
  clade_log_set(NULL, NULL, CLADE_LOG_WARNING);
}

/* An unreadable file counts as damaged; a file without permission is an error that the user must see. */
static void reading_fails(void **state) {
  (void)state;
  clade_checkpoint *c;
  begin();
  OK(attempt());
  arm(READ, 1, EIO);
  assert_int_equal(taken(CLADE_CHECKPOINT_LATEST), 1);
  assert_true(disarm());
  arm(OPEN, 1, EACCES);
  REFUSED(PERMISSION, clade_checkpoint_open(io_path("disk"), CLADE_CHECKPOINT_LATEST, &c), "step-0000000002");
  assert_true(disarm());
  arm(OPEN, 1, ENOENT); /* removed after it was listed */
  assert_int_equal(taken(CLADE_CHECKPOINT_LATEST), 1);
  assert_true(disarm());
  arm(LIST, 1, EIO);
  REFUSED(IO, clade_checkpoint_open(io_path("disk"), CLADE_CHECKPOINT_LATEST, &c), "disk");
  assert_true(disarm());
}

static void a_directory_that_cannot_be_used(void **state) {
  (void)state;
  clade_checkpoint_dir *other;
  for (size_t e = 0; e < CLADE_COUNT(errors); e++) {
    arm(OPEN, 1, errors[e]);
    assert_int_equal(clade_checkpoint_dir_open(io_path("other"), &other),
                     errors[e] == EACCES ? CLADE_PERMISSION : CLADE_IO);
    assert_true(disarm());
    assert_null(other);
    assert_non_null(strstr(clade_last_error(), "other/lock"));
  }
}

/* ---- logs ---- */
static clade__bytes contents(const char *path) {
  clade__bytes file;
  OK(clade__file_read(path, 1 << 20, &file));
  return file;
}
static const char *event_file(void) {
  static char path[512];
  DIR *logs = opendir(io_path("logs"));
  assert_non_null(logs);
  *path = '\0';
  for (struct dirent *e; (e = readdir(logs));)
    if (strstr(e->d_name, "tfevents")) snprintf(path, sizeof path, "%s/%.200s", io_path("logs"), e->d_name);
  closedir(logs);
  assert_true(*path);
  return path;
}

/* A partial record would hide all later ones. */
static void logs_hold_whole_records(void **state) {
  (void)state;
  clade_events *events;
  OK(clade_events_open(io_path("logs"), 0, &events));
  OK(clade_events_scalar(events, 1, "a", 1));
  clade__bytes before = contents(event_file()), rows = contents(io_path("logs/scalars.csv"));
  arm(HALF, 1, ENOSPC);
  REFUSED(IO, clade_events_scalar(events, 2, "a", 2), strerror(ENOSPC));
  assert_true(disarm());
  clade__bytes after = contents(event_file());
  assert_int_equal(after.n, before.n);
  arm(HALF, 2, ENOSPC); /* the row */
  REFUSED(IO, clade_events_scalar(events, 2, "a", 2), "scalars.csv");
  assert_true(disarm());
  clade__bytes same = contents(io_path("logs/scalars.csv"));
  assert_int_equal(same.n, rows.n);
  arm(SHORT, 1, EINTR);
  OK(clade_events_scalar(events, 2, "a", 2));
  assert_true(disarm());
  clade__bytes more = contents(io_path("logs/scalars.csv"));
  assert_int_equal(more.n > rows.n, 1);
  clade_events_close(events);
  clade__bytes *all[] = {&before, &rows, &after, &same, &more};
  for (size_t i = 0; i < CLADE_COUNT(all); i++) clade__free(all[i]->data);
}

static void tables_of_others(void **state) {
  (void)state;
  clade_events *events;
  OK(clade__directory_make(io_path("theirs"), 0777));
  io_file("theirs/scalars.csv", "a,b\n", 4);
  REFUSED(CORRUPT, clade_events_open(io_path("theirs"), 0, &events), "theirs/scalars.csv");
  const char rows[] = "time,step,tag,value\n1.0,4,a,1\n1.0,9,a,1\nnonsense\n1.0,5,\"a\",1\n1.0,6,a";
  io_file("theirs/scalars.csv", rows, sizeof rows - 1);
  OK(clade_events_open(io_path("theirs"), 6, &events));
  clade_events_close(events);
  clade__bytes left = contents(io_path("theirs/scalars.csv"));
  const char want[] = "time,step,tag,value\n1.0,4,a,1\n1.0,5,\"a\",1\n";
  assert_int_equal(left.n, sizeof want - 1);
  assert_memory_equal(left.data, want, left.n);
  clade__free(left.data);
  REFUSED(INVALID, clade_events_open(NULL, 0, &events), "directory");
  REFUSED(INVALID, clade_events_open("x", -1, &events), "negative");
  REFUSED(INVALID, clade_events_open("x", 0, NULL), "NULL");
  OK(clade_events_open(io_path("theirs"), 0, &events)); /* another file, although within the same second */
  REFUSED(INVALID, clade_events_scalar(NULL, 0, "a", 0), "events");
  REFUSED(INVALID, clade_events_scalar(events, 0, NULL, 0), "tag");
  REFUSED(INVALID, clade_events_scalar(events, 0, "", 0), "tag");
  REFUSED(INVALID, clade_events_scalar(events, 0, "\xff", 0), "UTF-8");
  REFUSED(INVALID, clade_events_scalar(events, -1, "a", 0), "step -1");
  REFUSED(INVALID, clade_events_histogram(events, 0, "a", NULL, 1), "NULL");
  clade_events_close(events);
  clade_events_close(NULL);
  assert_int_equal(io_entries(io_path("theirs")), 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_is_lost),
      cmocka_unit_test(interruptions_are_gone_through),
      cmocka_unit_test(without_links_the_best_is_a_copy),
      cmocka_unit_test(clearing_away_may_fail),
      cmocka_unit_test(reading_fails),
      cmocka_unit_test(a_directory_that_cannot_be_used),
      cmocka_unit_test(logs_hold_whole_records),
      cmocka_unit_test(tables_of_others),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
