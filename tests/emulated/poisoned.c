/* A corrupted PoCL cache in the place of a bundle's files. In each case, a separate process computes or fails with
 * an error message of its own, and never crashes. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit.h"

#define CODE "kit_scale/0-0-0/kit_scale.so"
static char own[512], program[512]; /* path of this program; the bundle's directory in PoCL's cache */

/* ---- child process ---- */
static void tell(void *user, clade_log_level level, const char *message) {
  (void)user;
  if (level <= CLADE_LOG_WARNING) printf("%s\n", message);
}

static int as_a_process(void) {
  clade_device *device;
  clade_func *func = NULL;
  clade_log_set(tell, NULL, CLADE_LOG_WARNING);
  clade_status status = clade_device_find("emulated", &device);
  if (status == CLADE_OK) status = kit_compile_scale(device, &func);
  if (status == CLADE_OK) status = kit_run(func);
  if (status != CLADE_OK) printf("%s\n", clade_last_error());
  return (int)status;
}

/* Its status and its log; it must not have been killed by a signal. */
static clade_status process(char told[4096]) {
  char command[1024];
  snprintf(command, sizeof command, "'%s' process", own);
  fflush(NULL);
  FILE *pipe = popen(command, "r");
  assert_non_null(pipe);
  told[fread(told, 1, 4095, pipe)] = '\0';
  int status = pclose(pipe);
  if (!WIFEXITED(status)) fail_msg("it died (%d): %s", status, told);
  return (clade_status)WEXITSTATUS(status);
}

static void computes(const char *words) {
  char told[4096];
  clade_status status = process(told);
  if (status != CLADE_OK || (words ? !strstr(told, words) : *told != '\0'))
    fail_msg("%s: \"%s\", expected to compute and to tell \"%s\"", clade_status_name(status), told, words ? words : "");
}

static void refuses(clade_status code, const char *words) {
  char told[4096];
  clade_status status = process(told);
  if (status != code || !strstr(told, words))
    fail_msg("%s: \"%s\", expected %s: \"…%s…\"", clade_status_name(status), told, clade_status_name(code), words);
}

/* ---- cache ---- */
static const char *in_program(const char *name) {
  static char path[4][1024];
  static int turn;
  char *p = path[turn++ & 3];
  snprintf(p, sizeof path[0], "%s/%s", program, name);
  return p;
}

static void write_at(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

/* Descends into the only subdirectory. */
static void enter(char *path) {
  DIR *dir = opendir(path);
  assert_non_null(dir);
  for (struct dirent *e = readdir(dir); e; e = readdir(dir))
    if (*e->d_name != '.' && e->d_type == DT_DIR) strcat(strcat(path, "/"), e->d_name);
  closedir(dir);
}

/* A cache filled by one process. */
static int set_up(void **state) {
  (void)state;
  kit_folder_new();
  ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
  kit_binary binary = kit_compile(kit_source_text, true);
  clade__bundle_draft draft = kit_draft(binary);
  check_ok(clade__bundle_write(kit_path("one.bundle"), false, &draft));
  clade__free(binary.data);
  setenv("CLADE_BUNDLE_PATH", kit_path("one.bundle"), 1);
  setenv("POCL_CACHE_DIR", kit_path("pocl"), 1);
  computes(NULL);
  snprintf(program, sizeof program, "%s", kit_path("pocl"));
  enter(program), enter(program);
  return n > 0 && !access(in_program(CODE), R_OK) ? 0 : 1;
}

/* ---- corruptions ---- */
static void files(void **state) {
  (void)state;
  struct stat st;
  computes(NULL);
  assert_int_equal(stat(in_program(CODE), &st), 0);
  assert_int_equal(truncate(in_program(CODE), st.st_size / 2), 0);
  computes("kit_scale.so is cut: it is replaced");
  computes(NULL);
  assert_int_equal(truncate(in_program(CODE), 0), 0);
  computes("kit_scale.so is cut: it is replaced");
  assert_int_equal(truncate(in_program(CODE), st.st_size + 1), 0);
  computes("kit_scale.so holds something else than the bundle's: it is replaced");
  /* Loadable machine code of another program. */
  char copy[2048];
  snprintf(copy, sizeof copy, "cp '%s' '%s' && truncate -s %lld '%s'", getenv("OPENCL_LAYERS"), in_program(CODE),
           (long long)st.st_size, in_program(CODE));
  assert_int_equal(system(copy), 0);
  computes("kit_scale.so holds something else than the bundle's: it is replaced");
  assert_int_equal(unlink(in_program(CODE)), 0);
  computes(NULL);
  assert_int_equal(chmod(in_program("kit_scale"), 0), 0);
  if (geteuid() != 0) refuses(CLADE_PERMISSION, "kit_scale");
  assert_int_equal(chmod(in_program("kit_scale"), 0700), 0);
}

/* Files that PoCL would use in place of the bundle's. */
static void others(void **state) {
  (void)state;
  write_at(in_program("program.bc"), "no bitcode");
  refuses(CLADE_CORRUPT, "/program.bc is nothing that belongs to it: remove ");
  unlink(in_program("program.bc"));
  mkdir(in_program("kit_scale/1-1-1-goffs0-smallgrid"), 0700);
  write_at(in_program("kit_scale/1-1-1-goffs0-smallgrid/kit_scale.so"), "no machine code");
  refuses(CLADE_CORRUPT, "/kit_scale/1-1-1-goffs0-smallgrid is nothing that belongs to it: remove ");
  unlink(in_program("kit_scale/1-1-1-goffs0-smallgrid/kit_scale.so"));
  rmdir(in_program("kit_scale/1-1-1-goffs0-smallgrid"));
  write_at(in_program(".clade-1-1.tmp"), "of a process that died");
  computes(NULL);
}

static void links(void **state) {
  (void)state;
  char text[16] = "", mine[512];
  snprintf(mine, sizeof mine, "%s", kit_path("mine"));
  write_at(mine, "kept");
  assert_int_equal(rename(in_program(CODE), kit_path("code")), 0);
  assert_int_equal(symlink(kit_path("code"), in_program(CODE)), 0);
  refuses(CLADE_CORRUPT, "kit_scale.so is a link: remove ");
  unlink(in_program(CODE));
  assert_int_equal(mkfifo(in_program(CODE), 0600), 0);
  refuses(CLADE_CORRUPT, "kit_scale.so is nothing that belongs to it: remove ");
  unlink(in_program(CODE));
  unlink(in_program("last_accessed")); /* PoCL truncates it */
  assert_int_equal(symlink(mine, in_program("last_accessed")), 0);
  refuses(CLADE_CORRUPT, "/last_accessed is a link: remove ");
  unlink(in_program("last_accessed"));
  assert_int_equal(rename(in_program("kit_scale"), kit_path("kernel")), 0);
  assert_int_equal(symlink(kit_path("kernel"), in_program("kit_scale")), 0);
  refuses(CLADE_CORRUPT, "/kit_scale is a link: remove ");
  unlink(in_program("kit_scale"));
  write_at(in_program("kit_scale"), "a file");
  refuses(CLADE_CORRUPT, "/kit_scale is nothing that belongs to it: remove ");
  unlink(in_program("kit_scale"));
  assert_int_equal(rename(program, kit_path("whole")), 0);
  assert_int_equal(symlink(kit_path("whole"), program), 0);
  refuses(CLADE_CORRUPT, " is a link: remove ");
  unlink(program);
  computes(NULL);
  FILE *file = fopen(mine, "r");
  assert_true(file && fgets(text, sizeof text, file));
  fclose(file);
  assert_string_equal(text, "kept");
}

static void of_others(void **state) {
  (void)state;
  chmod(program, 0777);
  refuses(CLADE_PERMISSION, "others may write to ");
  chmod(program, 0700);
  computes(NULL);
}

/* All processes find an empty or corrupted cache at the same time. */
static void many_at_once(void **state) {
  (void)state;
  enum { MANY = 8, ROUNDS = 4 };
  pid_t children[MANY];
  for (int round = 0; round < ROUNDS; round++) {
    assert_int_equal(round % 2 ? unlink(in_program(CODE)) : truncate(in_program(CODE), 100), 0);
    fflush(NULL);
    for (int i = 0; i < MANY; i++) {
      children[i] = fork();
      if (children[i] == 0) {
        dup2(open("/dev/null", O_WRONLY), 1);
        execl(own, own, "process", (char *)NULL);
        _exit(99);
      }
    }
    for (int i = 0; i < MANY; i++) {
      int status;
      assert_int_equal(waitpid(children[i], &status, 0), children[i]);
      assert_true(WIFEXITED(status));
      assert_int_equal(WEXITSTATUS(status), CLADE_OK);
    }
  }
}

int main(int argc, char **argv) {
  (void)argv;
  if (argc == 2) return as_a_process();
  const struct CMUnitTest tests[] = {cmocka_unit_test(files), cmocka_unit_test(others), cmocka_unit_test(links),
                                     cmocka_unit_test(of_others), cmocka_unit_test(many_at_once)};
  return cmocka_run_group_tests(tests, set_up, kit_tear_down);
}
