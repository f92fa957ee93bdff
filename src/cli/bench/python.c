/* PyTorch and ONNX Runtime as contestants: a Python process that takes a step whenever it is told to, and sleeps
 * between. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/bench/model.h"

extern char **environ;

static const struct {
  const char *name, *module, *get_it;
} peers[] = {{"pytorch", "torch", "apt-get install -y --no-install-recommends python3-torch"},
             {"onnxruntime", "onnxruntime",
              "python3 -m venv ort && ort/bin/pip install numpy onnxruntime; then CLADE_BENCH_PYTHON=ort/bin/python"}};
static const char *const files[] = {"weights.safetensors", "x.f32", "labels.i32", "result.f32", "model.onnx"};

typedef struct contestant {
  char room[64], path[128];
  const char *name;
  FILE *to, *from;
  pid_t pid;
  size_t results;
  double seconds;
} contestant;

static const char *in_room(contestant *s, const char *file) {
  snprintf(s->path, sizeof s->path, "%s/%s", s->room, file);
  return s->path;
}

static void release(void *state) {
  contestant *s = state;
  int status;
  if (s->to) fclose(s->to); /* it ends when nothing more can come */
  if (s->from) fclose(s->from);
  if (s->pid > 0)
    while (waitpid(s->pid, &status, 0) < 0 && errno == EINTR) {}
  for (size_t i = 0; i < CLADE_COUNT(files); i++) unlink(in_room(s, files[i]));
  if (*s->room) rmdir(s->room);
  clade__free(s);
}

static bool answer(contestant *s, const char *question, char *line, size_t size) {
  return (!question || (fprintf(s->to, "%s\n", question) > 0 && !fflush(s->to))) && fgets(line, (int)size, s->from);
}

static clade_status call(void *state) {
  contestant *s = state;
  char line[200];
  if (!answer(s, "step", line, sizeof line)) return CLADE_FAIL(INTERNAL, "%s: its process ended", s->name);
  s->seconds = strtod(line, NULL);
  return CLADE_OK;
}

static double own_seconds(void *state) { return ((contestant *)state)->seconds; }

static clade_status read_result(void *state, int index, float *result) {
  contestant *s = state;
  char line[200];
  (void)index;
  if (!answer(s, "result", line, sizeof line) || strtoull(line, NULL, 10) != s->results)
    return CLADE_FAIL(INTERNAL, "%s: its result is not %zu numbers", s->name, s->results);
  FILE *file = fopen(in_room(s, "result.f32"), "rb");
  size_t n = file ? fread(result, sizeof *result, s->results, file) : 0;
  if (file) fclose(file);
  return n == s->results ? CLADE_OK : CLADE_FAIL(IO, "%s cannot be read", s->path);
}

static bool write_file(const char *path, const void *data, size_t bytes) {
  FILE *file = fopen(path, "wb");
  bool written = file && fwrite(data, 1, bytes, file) == bytes;
  return file && !fclose(file) && written;
}

static bool spawn(contestant *s, const char *python, char *const *argv, int to[2], int from[2]) {
  posix_spawn_file_actions_t actions;
  if (posix_spawn_file_actions_init(&actions)) return false;
  bool ok = !posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO) &&
            !posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO) &&
            !posix_spawnp(&s->pid, python, &actions, NULL, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  return ok;
}

static bool start(contestant *s, const char *python, char *const *argv) {
  int to[2] = {-1, -1}, from[2] = {-1, -1};
  bool ok = !pipe2(to, O_CLOEXEC) && !pipe2(from, O_CLOEXEC) && spawn(s, python, argv, to, from);
  if (to[0] >= 0) close(to[0]);
  if (from[1] >= 0) close(from[1]);
  s->to = to[1] >= 0 ? fdopen(to[1], "w") : NULL;
  s->from = from[0] >= 0 ? fdopen(from[0], "r") : NULL;
  return ok && s->to && s->from;
}

static bool imports(const char *python, const char *module) {
  char text[64], *argv[] = {(char *)(uintptr_t)python, (char *)(uintptr_t) "-c", text, NULL};
  posix_spawn_file_actions_t actions;
  pid_t pid;
  int status = 1;
  snprintf(text, sizeof text, "import numpy, %s", module);
  if (posix_spawn_file_actions_init(&actions)) return false;
  bool ok = !posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0) &&
            !posix_spawnp(&pid, python, &actions, NULL, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (!ok) return false;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  return WIFEXITED(status) && !WEXITSTATUS(status);
}

/* The one that the user names; else Debian's own first, which knows Debian's packages. */
static const char *python_with(const char *module) {
  const char *names[] = {getenv("CLADE_BENCH_PYTHON"), "/usr/bin/python3", "python3"};
  for (size_t i = 0; i < CLADE_COUNT(names); i++)
    if (names[i] && *names[i] && imports(names[i], module)) return names[i];
  return NULL;
}

static const char *prepare(contestant *s, const bench_model_work *w, const clade_vars *vars) {
  const char *base = getenv("TMPDIR");
  snprintf(s->room, sizeof s->room, "%.40s/clade-bench-XXXXXX", base && strlen(base) < 40 ? base : "/tmp");
  if (!mkdtemp(s->room)) {
    *s->room = 0;
    return "there is no place for its files: set TMPDIR";
  }
  size_t pixels = (size_t)(w->batch * w->channels * w->side * w->side);
  if (clade_vars_save(vars, in_room(s, files[0])) || !write_file(in_room(s, files[1]), w->x, pixels * sizeof *w->x) ||
      !write_file(in_room(s, files[2]), w->labels, (size_t)w->batch * sizeof *w->labels))
    return "its files cannot be written: set TMPDIR";
  return NULL;
}

static const char *begin(contestant *s, const bench_job *job, const bench_model_work *w, const char *python,
                         bench_side *side) {
  char number[5][24], line[200],
      *argv[14] = {(char *)(uintptr_t)python,
                   (char *)(uintptr_t) "-c",
                   (char *)(uintptr_t)bench_model_script,
                   (char *)(uintptr_t)s->name,
                   s->room,
                   (char *)(uintptr_t)w->model,
                   (char *)(uintptr_t)(w->train ? "train" : "infer")};
  const int64_t numbers[5] = {bench_threads(job), w->batch, w->channels, w->side, w->classes};
  for (int i = 0; i < 5; i++) {
    snprintf(number[i], sizeof number[i], "%lld", (long long)numbers[i]);
    argv[7 + i] = number[i];
  }
  argv[12] = (char *)(uintptr_t)clade_dtype_name(w->precision);
  if (!start(s, python, argv)) return "its process cannot be started";
  if (!answer(s, NULL, line, sizeof line) || sscanf(line, "ready %d %90[^\n]", &side->threads, side->kernel) != 2)
    return "its process ended before it was ready; what it said is above";
  snprintf(side->isa, sizeof side->isa, "its own");
  return NULL;
}

const char *bench_python(const bench_job *job, const bench_model_work *work, const clade_vars *vars, const char *peer,
                         bench_side *side) {
  size_t i = 0;
  while (strcmp(peers[i].name, peer)) i++;
  const char *python = python_with(peers[i].module);
  if (!python) return peers[i].get_it;
  contestant *s = clade__new(1, sizeof *s);
  if (!s) return "there is no memory for it";
  signal(SIGPIPE, SIG_IGN); /* where it ends early, writing fails */
  s->name = peers[i].name;
  s->results = work->results;
  *side = (bench_side){.name = peers[i].name,
                       .state = s,
                       .call = call,
                       .process = true,
                       .read = read_result,
                       .seconds_of_call = own_seconds,
                       .free = release};
  const char *reason = prepare(s, work, vars);
  if (!reason) reason = begin(s, job, work, python, side);
  if (reason) release(s);
  return reason;
}
