/* Parses the launched command: whether it is clade train, where its checkpoints are, and how to resume. */
#include <getopt.h>

#include "cli/launch.h"
#include "cli/train.h"

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* Matches "mpirun" and Debian's alternatives such as "mpirun.openmpi". */
static bool starts_ranks(const char *word) {
  static const char *const names[] = {"mpirun", "mpiexec", "orterun", "prterun", "srun"};
  const char *name = base_name(word);
  for (size_t i = 0; i < CLADE_COUNT(names); ++i)
    if (strcspn(name, ".") == strlen(names[i]) && !strncmp(name, names[i], strlen(names[i]))) return true;
  return false;
}

/* Index of "train" after a word that names this program; 0: none. */
static int find_train(char **words) {
  for (int i = 1; words[0] && words[i]; ++i)
    if (!strcmp(words[i], "train") && !strncmp(base_name(words[i - 1]), "clade", strlen("clade"))) return i;
  return 0;
}

static int count(char **words) {
  int n = 0;
  while (words[n]) ++n;
  return n;
}

static void leave_out(char **words, const char *word) {
  int kept = 0;
  for (int i = 0; words[i]; ++i)
    if (words[i] != word) words[kept++] = words[i];
  words[kept] = NULL;
}

/* Removes --overwrite from `again`: it would delete the checkpoints. */
static int read_options(int argc, char **argv, launch_command *out) {
  cli_args args = train_description;
  const char *value;
  optind = 0; /* restarts getopt */
  for (int next; (next = cli_next(&args, argc, argv, &value)) != CLI_NEXT_END;) {
    if (next < 0) return next == CLI_NEXT_HELP ? -1 : CLI_USAGE;
    const char *name = args.options[next].name;
    if (!strcmp(name, "checkpoint-dir")) out->directory = value;
    if (!strcmp(name, "resume")) out->resumes = true;
    if (!strcmp(name, "overwrite")) leave_out(out->again, argv[optind - 1]);
  }
  if (!out->directory && optind < argc) out->directory = argv[optind];
  return CLI_DONE;
}

int launch_understand(char **words, launch_command *out) {
  static char resume[] = "--resume";
  const int n = count(words), train = find_train(words);
  *out = (launch_command){.words = words};
  for (int i = 0; i < CLADE_MAX(train, 1); ++i) out->starts_ranks |= starts_ranks(words[i]);
  out->trains = train > 0;
  if (!train) return CLI_DONE;
  char **own = clade__new((size_t)n + 1, sizeof *own); /* a copy, because getopt permutes the words */
  out->again = clade__new((size_t)n + 2, sizeof *out->again);
  if (!own || !out->again) {
    clade__free(own);
    launch_command_free(out);
    return cli_failed("launch: out of memory");
  }
  memcpy(out->again, words, ((size_t)n + 1) * sizeof *words);
  int argc = 0; /* up to ":", after which mpirun has another program */
  for (; words[train + argc] && strcmp(words[train + argc], ":") != 0; ++argc) own[argc] = words[train + argc];
  const int result = read_options(argc, own, out);
  clade__free(own);
  if (result != CLI_DONE || !out->directory) {
    launch_command_free(out);
    return result;
  }
  if (out->resumes) return CLI_DONE;
  memmove(out->again + train + 2, out->again + train + 1, (size_t)count(out->again + train) * sizeof *out->again);
  out->again[train + 1] = resume;
  return CLI_DONE;
}

void launch_command_free(launch_command *command) {
  clade__free(command->again);
  command->again = NULL;
}
