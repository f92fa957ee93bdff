/* PyTorch and ONNX Runtime as contestants: a Python process that takes a step on request and sleeps in between. Its
 * files are in a temporary directory, the room. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/bench/python.h"

extern char **environ;

static const struct {
  const char *name, *module, *get_it;
} peers[] = {{"pytorch", "torch", "apt-get install -y --no-install-recommends python3-torch"},
             {"onnxruntime", "onnxruntime",
              "python3 -m venv ort && ort/bin/pip install numpy onnxruntime; then CLADE_BENCH_PYTHON=ort/bin/python"}};
typedef struct contestant {
  char room[64], path[320];
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

static void clear_room(contestant *s) {
  DIR *room = opendir(s->room);
  for (struct dirent *entry; room && (entry = readdir(room));)
    if (*entry->d_name != '.') unlink(in_room(s, entry->d_name));
  if (room) closedir(room);
  rmdir(s->room);
}

/* Waits for the end of a process. */
static int status_of(pid_t pid) {
  int status = 1;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  return status;
}

static void release(void *state) {
  contestant *s = state;
  if (s->to) fclose(s->to); /* the process ends at the end of its input */
  if (s->from) fclose(s->from);
  if (s->pid > 0) status_of(s->pid);
  if (*s->room) clear_room(s);
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

static clade_status refresh(void *state) {
  contestant *s = state;
  char line[200];
  return answer(s, "refresh", line, sizeof line) ? CLADE_OK : CLADE_FAIL(INTERNAL, "%s: its process ended", s->name);
}

static double own_seconds(void *state) { return ((contestant *)state)->seconds; }

static clade_status read_result(void *state, int index, float *result) {
  contestant *s = state;
  char line[200], question[32];
  snprintf(question, sizeof question, "result %d", index);
  if (!answer(s, question, line, sizeof line) || strtoull(line, NULL, 10) != s->results)
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

/* in, out: the process's standard streams. in < 0: they are this process's, and what it says of errors is not shown. */
static bool spawn(char *const *argv, int in, int out, pid_t *pid) {
  posix_spawn_file_actions_t actions;
  if (posix_spawn_file_actions_init(&actions)) return false;
  bool ok = in < 0 ? !posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0)
                   : !posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO) &&
                         !posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  ok = ok && !posix_spawnp(pid, argv[0], &actions, NULL, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  return ok;
}

static bool start(contestant *s, char *const *argv) {
  int to[2] = {-1, -1}, from[2] = {-1, -1};
  bool ok = !pipe2(to, O_CLOEXEC) && !pipe2(from, O_CLOEXEC) && spawn(argv, to[0], from[1], &s->pid);
  if (to[0] >= 0) close(to[0]);
  if (from[1] >= 0) close(from[1]);
  s->to = to[1] >= 0 ? fdopen(to[1], "w") : NULL;
  s->from = from[0] >= 0 ? fdopen(from[0], "r") : NULL;
  return ok && s->to && s->from;
}

static bool imports(const char *python, const char *module) {
  char text[64], *argv[] = {(char *)(uintptr_t)python, (char *)(uintptr_t) "-c", text, NULL};
  pid_t pid;
  snprintf(text, sizeof text, "import numpy, %s", module);
  return spawn(argv, -1, -1, &pid) && !status_of(pid);
}

/* Python that can import the peer's module: CLADE_BENCH_PYTHON, then Debian's, which sees Debian's packages. The
 * result is kept, because an import takes seconds. */
static const char *python_with(int peer) {
  static const char *found[CLADE_COUNT(peers)];
  static bool looked[CLADE_COUNT(peers)];
  const char *names[] = {getenv("CLADE_BENCH_PYTHON"), "/usr/bin/python3", "python3"};
  for (size_t i = 0; i < CLADE_COUNT(names) && !looked[peer] && !found[peer]; i++)
    if (names[i] && *names[i] && imports(names[i], peers[peer].module)) found[peer] = names[i];
  looked[peer] = true;
  return found[peer];
}

static bool write_files(contestant *s, const bench_script *script) {
  bool ok = write_file(in_room(s, script->file), script->text, strlen(script->text)) &&
            write_file(in_room(s, "contestant.py"), bench_contestant_script, strlen(bench_contestant_script));
  for (size_t i = 0; i < CLADE_COUNT(script->files) && script->files[i].name && ok; i++)
    ok = write_file(in_room(s, script->files[i].name), script->files[i].data, script->files[i].bytes);
  return ok && (!script->vars || !clade_vars_save(script->vars, in_room(s, "weights.safetensors")));
}

static const char *prepare(contestant *s, const bench_script *script) {
  const char *base = getenv("TMPDIR");
  snprintf(s->room, sizeof s->room, "%.40s/clade-bench-XXXXXX", base && strlen(base) < 40 ? base : "/tmp");
  if (!mkdtemp(s->room)) {
    *s->room = 0;
    return "there is no place for its files: set TMPDIR";
  }
  return write_files(s, script) ? NULL : "its files cannot be written: set TMPDIR";
}

static const char *begin(contestant *s, const bench_job *job, const bench_script *script, const char *python,
                         bench_side *side) {
  static char reason[200];
  char threads[24], path[sizeof s->path], line[240],
      *argv[7 + BENCH_ARGUMENTS] = {(char *)(uintptr_t)python,
                                    (char *)(uintptr_t) "-B",
                                    path,
                                    (char *)(uintptr_t)s->name,
                                    (char *)(uintptr_t)clade_device_class_name(job->info.device_class),
                                    threads};
  snprintf(threads, sizeof threads, "%d", bench_threads(job));
  snprintf(path, sizeof path, "%s", in_room(s, script->file));
  for (int i = 0; i < BENCH_ARGUMENTS && *script->argument[i]; i++)
    argv[6 + i] = (char *)(uintptr_t)script->argument[i];
  if (!start(s, argv)) return "its process cannot be started";
  if (!answer(s, NULL, line, sizeof line)) return "its process ended before it was ready; what it said is above";
  if (sscanf(line, "without %199[^\n]", reason) == 1) return reason;
  if (sscanf(line, "ready %d %90[^\n]", &side->threads, side->kernel) != 2) return "its first answer is not understood";
  snprintf(side->isa, sizeof side->isa, "its own");
  return NULL;
}

const char *bench_python(const bench_job *job, const char *peer, const bench_script *script, bench_side *side) {
  int i = 0;
  while (strncmp(peers[i].name, peer, strlen(peers[i].name))) i++;
  const char *python = python_with(i);
  if (!python) return peers[i].get_it;
  contestant *s = clade__new(1, sizeof *s);
  if (!s) return "there is no memory for it";
  signal(SIGPIPE, SIG_IGN); /* a write to an ended process then fails */
  s->name = peers[i].name;
  s->results = script->results;
  *side = (bench_side){.name = peer,
                       .state = s,
                       .refresh = refresh,
                       .call = call,
                       .process = true,
                       .read = read_result,
                       .seconds_of_call = own_seconds,
                       .free = release};
  const char *reason = prepare(s, script);
  if (!reason) reason = begin(s, job, script, python, side);
  if (reason) release(s);
  return reason;
}

void bench_script_file(bench_script *script, const char *name, const void *data, size_t bytes) {
  int i = 0;
  while (script->files[i].name) i++;
  script->files[i].name = name;
  script->files[i].data = data;
  script->files[i].bytes = bytes;
}

void bench_script_say(bench_script *script, const char *format, ...) {
  int i = 0;
  while (i < BENCH_ARGUMENTS && *script->argument[i]) i++;
  if (i == BENCH_ARGUMENTS) return;
  va_list values;
  va_start(values, format);
  vsnprintf(script->argument[i], sizeof script->argument[i], format, values);
  va_end(values);
}

static void say_words(bench_script *script, const char *text) {
  for (size_t n; text += strspn(text, " "), (n = strcspn(text, " ")) > 0; text += n)
    bench_script_say(script, "%.*s", (int)n, text);
}

void bench_script_work(bench_script *script, const char *group, const char *work, clade_dtype dtype, int64_t chain,
                       const char *pass, const char *shape) {
  script->file = "works.py";
  script->text = bench_works_script;
  bench_script_say(script, "%s", group);
  bench_script_say(script, "%.*s", (int)strcspn(work, "@"), work);
  bench_script_say(script, "%s", clade_dtype_name(dtype));
  bench_script_say(script, "%lld", (long long)chain);
  bench_script_say(script, "%s", pass);
  say_words(script, shape);
}
