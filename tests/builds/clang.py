"""Checks all compiled sources with clang, with the same options and without producing output. Every warning is an
error, as in the GCC build.

    clang.py CLANG COMPILE_COMMANDS
"""
import json
import shlex
import subprocess
import sys

clang, commands = sys.argv[1:]
with open(commands, encoding="utf-8") as f:
    entries = [e for e in json.load(f) if e["file"].endswith(".c")]
failed = 0
for entry in entries:
    words = shlex.split(entry["command"])
    words = words[next(i for i, w in enumerate(words) if w.startswith("-")):]  # skip the compiler and its launcher
    output = words.index("-o")
    done = subprocess.run([clang, "-fsyntax-only", "-Werror", *words[:output], *words[output + 2:]], cwd=entry["directory"],
                          check=False)
    failed += done.returncode != 0
print(f"clang refuses {failed} of {len(entries)} sources")
sys.exit(1 if failed or not entries else 0)
