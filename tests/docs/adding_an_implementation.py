"""Follows docs/adding-an-implementation.md in a copy of the tree; then builds, and sees that the implementation computed
its cases on PoCL and under Oclgrind, without further words, and that no more than three files were touched by hand.
    adding_an_implementation.py ROOT CC OCLGRIND_ICD
"""

import os
import re
import subprocess
import sys
import tempfile

import adding_an_op as docs

PAGE = "docs/adding-an-implementation.md"
MADE = {"docs/ops.md"}  # by a command of the page
LEAST = 200
SKIPPED = 77


def changed(root, tree):
    """Files of the copy that differ from the tree's."""
    out = subprocess.run(["git", "diff", "--no-index", "--name-only", root, tree], check=False, capture_output=True,
                         text=True).stdout.split()
    touched = {os.path.relpath(path, tree) for path in out if path.startswith(tree)} - MADE
    return {path for path in touched if "__pycache__" not in path}


def computed(command, least=LEAST):
    print("+", " ".join(command), flush=True)
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    print(done.stdout, done.stderr, sep="", flush=True)
    found = re.search(r"top_k_count: group computed (\d+) cases", done.stdout, re.M)
    if done.returncode or not found or int(found.group(1)) < least:
        sys.exit(f"group computed {found.group(1) if found else 'no'} cases (exit status {done.returncode}); "
                 f"{least} are expected")


def main(root, cc, icd):
    with tempfile.TemporaryDirectory() as room:
        before, tree, build = (os.path.join(room, name) for name in ("before", "tree", "build"))
        docs.copy_tree(root, before)
        docs.copy_tree(root, tree)
        docs.follow(PAGE, tree, room)
        touched = changed(before, tree)
        print("touched:", *sorted(touched))
        if not 1 < len(touched) <= 3:
            sys.exit("two or three files are expected")
        docs.configure(tree, build, cc)
        docs.run(["cmake", "--build", build, "--target", "op_test"], quiet=True)
        docs.run([sys.executable, os.path.join(tree, "tests/rules/run.py"), "source", tree])
        test = os.path.join(build, "tests/op/op_test")
        computed([test, "--op", "top_k_count", "--device", "pocl", "--variants", os.path.join(tree, "tests/op/variants.txt"),
                  "--least", str(LEAST)])
        if not os.path.exists(icd):
            print("Oclgrind is not installed: its cases did not run", flush=True)
            sys.exit(SKIPPED)
        computed(["ctest", "--test-dir", build, "-V", "--no-tests=error", "-R", r"^op\.top_k_count\.oclgrind$"], 1)
        oclgrind = os.path.join(tree, "tests/op/oclgrind.cmake")
        computed(["cmake", "-D", f"OP_TEST={test}", "-D", f"ICD={icd}", "-D", "OP=top_k_count", "-D", f"LOG={room}/oclgrind.log",
                  "-D", f"HOW=--family;group;--least;{LEAST}", "-P", oclgrind])


if __name__ == "__main__":
    main(*sys.argv[1:])
