"""Follows docs/adding-an-op.md in a copy of the repository: writes its files, makes its additions, runs its commands;
then builds and runs the new op's test, the rules, and the out-of-tree program.
    adding_an_op.py ROOT CC
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

PAGE = "docs/adding-an-op.md"
STEP = re.compile(r"^(?:(File): `([^`]+)`|(Add) to `([^`]+)`(?:, before `([^`]+)`)?:|(Run):)\n\n```[a-z]*\n(.*?)^```$",
                  re.M | re.S)
OUTSIDE = "acme/"


def run(command, quiet=False, **kw):
    """Fails the test if the command fails. With `quiet`, shows its output in that case only."""
    print("+", command.strip() if isinstance(command, str) else " ".join(command), flush=True)
    said = subprocess.STDOUT if quiet else None
    done = subprocess.run(command, stdout=subprocess.PIPE if quiet else None, stderr=said, check=False, **kw)
    if done.returncode:
        sys.exit((done.stdout or b"").decode(errors="replace") + f"exit status {done.returncode}")


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def add(path, before, text):
    with open(path, encoding="utf-8") as f:
        old = f.read()
    if before is None:
        write(path, old + text)
    elif old.count(before) == 1:
        write(path, old.replace(before, text + before))
    else:
        sys.exit(f"{path}: \"{before}\" is there {old.count(before)} times, once is expected")


def copy_tree(root, tree):
    names = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard", "-z"], check=True,
                           capture_output=True, text=True).stdout if os.path.exists(os.path.join(root, ".git")) else ""
    if not names:  # a release archive without git
        shutil.copytree(root, tree, ignore=lambda where, names: [n for n in names if where == root and "build" in n])
        return
    for name in filter(None, names.split("\0")):
        if os.path.exists(os.path.join(root, name)):
            os.makedirs(os.path.dirname(os.path.join(tree, name)), exist_ok=True)
            shutil.copy2(os.path.join(root, name), os.path.join(tree, name))


def follow(path_of_page, tree, room):
    """Performs the page's steps, one for each fenced block; returns the files that it writes."""
    with open(os.path.join(tree, path_of_page), encoding="utf-8") as f:
        page = f.read()
    done = {"File": 0, "Add": 0, "Run": 0}
    touched = set()
    for is_file, path, is_add, add_path, before, is_run, text in STEP.findall(page):
        done[is_file or is_add or is_run] += 1
        touched |= {path or add_path} - {""}
        if is_file:
            write(os.path.join(room if path.startswith(OUTSIDE) else tree, path), text)
        elif is_add:
            add(os.path.join(tree, add_path), before or None, text)
        else:
            run(text, shell=True, cwd=tree)
    fences = len(re.findall(r"^```", page, re.M))
    if sum(done.values()) * 2 != fences or not fences:
        sys.exit(f"{path_of_page}: of {fences} fences only these were understood: {done}")
    return touched


def configure(tree, build, cc):
    run(["cmake", "-S", tree, "-B", build, "-G", "Ninja", f"-DCMAKE_C_COMPILER={cc}", "-DCMAKE_BUILD_TYPE=Debug",
         "-DCMAKE_C_FLAGS_DEBUG=-O0", "-DCLADE_TESTS=ON", "-DCLADE_TESTS_LEVEL=all", "-DCLADE_WERROR=ON",
         "-DCLADE_CLI=OFF", "-DCLADE_EXAMPLES=OFF", "-DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON"],
        quiet=True)


def main(root, cc):
    with tempfile.TemporaryDirectory() as room:
        tree, build, prefix = (os.path.join(room, name) for name in ("tree", "build", "prefix"))
        copy_tree(root, tree)
        follow(PAGE, tree, room)
        configure(tree, build, cc)
        run(["cmake", "--build", build, "--target", "clade", "clade_static", "op_test"], quiet=True)
        run(["ctest", "--test-dir", build, "--output-on-failure", "--no-tests=error", "-R", r"^op\.prefix_sum\."])
        run([sys.executable, os.path.join(tree, "tests/rules/run.py"), "source", tree])
        run(["cmake", "--install", build, "--prefix", prefix], quiet=True)
        outside, out = os.path.join(room, "acme"), os.path.join(room, "out")
        run(["cmake", "-S", outside, "-B", out, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}",
             f"-DCMAKE_C_COMPILER={cc}", "-DCMAKE_C_FLAGS=-Wall -Wextra -Wpedantic -Werror"], quiet=True)
        run(["cmake", "--build", out], quiet=True)
        run([os.path.join(out, "acme")])


if __name__ == "__main__":
    main(*sys.argv[1:])
