"""Follows a page in a copy of the tree: writes the files that it shows, makes its changes, runs its commands.
    walkthrough.py ROOT PAGE [MOST_FILES]
The steps of a page, in its order; TEXT and OLD occur once in their file, unless each of them is asked for:
    File: `PATH`                            a code block: the file
    Add to `PATH`:                          a code block, at the end; also: Add to `PATH`, before `TEXT`:
    In `PATH`, `OLD` becomes `NEW`.         also: In `PATH`, each `OLD` becomes `NEW`.
    Run:                                    a code block: a command on each line
    This page continues [TEXT](PAGE).       the steps of that page before, without its commands
A code block that belongs to no step is an error, so that nothing on the page is left untested. MOST_FILES: how many
files the page may create or change, those that its commands write not counted.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
STEP = re.compile(r"""^(?:
    (?:File:\ `(?P<file>[^`]+)` | Add\ to\ `(?P<add>[^`]+)`(?:,\ before\ `(?P<before>[^`]+)`)?: | (?P<run>Run):)
    \n\n(?P<fence>```+)[a-z]*\n(?P<text>.*?)^(?P=fence)$
  | This\spage\scontinues\s\[[^]]+\]\((?P<page>[^)]+)\)
  | (?:-\ )?In\s`(?P<change>[^`]+)`,(?P<each>\seach)?\s+`(?P<old>[^`]+)`\s+becomes\s+`(?P<new>[^`]+)`)""",
                  re.M | re.S | re.X)


class Wrong(Exception):
    """What is wrong with the page, or with what it leads to."""


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def change(path, old, new, each=False):
    text = read(path)
    if text.count(old) != 1 and not (each and old in text):
        raise Wrong(f"{path}: \"{old}\" is there {text.count(old)} times, once is expected")
    write(path, text.replace(old, new))


def run(command, tree, environment):
    """Whether the command ran all of its tests. What CMake says is shown where it fails only."""
    print("+", command, flush=True)
    done = subprocess.run(command, shell=True, cwd=tree, env=environment, check=False, text=True, errors="replace",
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode or not command.startswith("cmake "):
        print(done.stdout, end="", flush=True)
    if done.returncode or "No tests were found" in done.stdout:
        raise Wrong(f"exit status {done.returncode}: {command}")
    return "***Skipped" not in done.stdout


def environment_of(tree):
    """Quick to compile; a command line of the page goes before it."""
    return {"CMAKE_BUILD_TYPE": "None", "CFLAGS": "-O0", **os.environ, "PWD": tree}


def follow(page, tree, runs=True):
    """Does what the page says. Returns the files that it writes, and whether all tests ran. `runs`: also commands."""
    text, touched, complete = read(os.path.join(tree, page)), set(), True
    outside = re.findall(r"^.*(?:```|` +becomes +`).*$", STEP.sub("", text), re.M)
    if outside or not STEP.search(text):
        raise Wrong(f"{page}: these lines belong to no step:\n" + "\n".join(outside))
    for step in STEP.finditer(text):
        path = step["file"] or step["add"] or step["change"]
        where = os.path.join(tree, path or "")
        touched |= {path} - {None}
        if step["page"]:
            follow(os.path.join(os.path.dirname(page), step["page"]), tree, False)
        elif step["file"]:
            write(where, step["text"])
        elif step["change"]:
            change(where, step["old"], step["new"], step["each"])
        elif step["before"]:
            change(where, step["before"], step["text"] + step["before"])
        elif step["add"]:
            write(where, read(where) + step["text"])
        elif runs:
            for command in step["text"].replace("\\\n", " ").splitlines():
                complete = run(command, tree, environment_of(tree)) and complete
    return touched, complete


def copy_tree(root, tree):
    """The files of the project, without what was built."""
    names = ""
    if os.path.exists(os.path.join(root, ".git")):
        names = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard", "-z"], check=True,
                               capture_output=True, text=True).stdout
    if not names:  # a released archive, or another copy
        shutil.copytree(root, tree,
                        ignore=lambda where, names: [n for n in names if where == root and n.startswith("build")])
    for name in filter(None, names.split("\0")):
        if os.path.exists(os.path.join(root, name)):
            os.makedirs(os.path.dirname(os.path.join(tree, name)), exist_ok=True)
            shutil.copy2(os.path.join(root, name), os.path.join(tree, name))


def main(root, page, most=None):
    with tempfile.TemporaryDirectory() as room:
        tree = os.path.join(room, "clade")
        copy_tree(os.path.abspath(root), tree)
        try:
            touched, complete = follow(page, tree)
        except Wrong as e:
            return str(e)
    print(f"{page} touches {len(touched)} files: {', '.join(sorted(touched))}")
    if most and len(touched) > int(most):
        return f"{page}: {most} files at most are expected"
    return 0 if complete else SKIPPED


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
