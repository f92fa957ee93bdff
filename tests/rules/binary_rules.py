"""Rules for headers and libraries, checked with compilers, the linker and binary tools."""

import os
import re
import subprocess

from tree import files

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
COMPILERS = [["gcc", "-std=c11", "-xc"], ["clang", "-std=c11", "-xc"],
             ["g++", "-std=c++17", "-xc++"], ["clang++", "-std=c++17", "-xc++"]]


def output(command, text=None):
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def headers_alone(root):
    """Each public header compiles alone, and when included twice."""
    bad = []
    for path in files(os.path.join(root, "include"), ".h", ".hpp"):
        program = f"#include <{path}>\n#include <{path}>\nint nothing;\n"
        for compiler in [c for c in COMPILERS if path.endswith(".h") or "++" in c[0]]:
            run = subprocess.run([*compiler, *WARNINGS, f"-I{root}/include", "-fsyntax-only", "-"], input=program,
                                 capture_output=True, text=True, check=False)
            if run.returncode != 0:
                first = next((line for line in run.stderr.splitlines() if "error:" in line), run.stderr)
                bad.append(f"include/{path}:1: {' '.join(compiler[:2])}: {first}")
    return bad


def own_macros(root):
    """Public headers define and undefine only their own macros, and OpenCL's version setting for its header."""
    bad = []
    for path in files(os.path.join(root, "include"), ".h", ".hpp"):
        with open(os.path.join(root, "include", path), encoding="utf-8") as f:
            lines = f.read().splitlines()
        for number, line in enumerate(lines, 1):
            name = re.match(r"\s*#\s*(?:define|undef)\s+(\w+)", line)
            if name and not name.group(1).startswith(("CLADE_", "clade_")) and name.group(1) != "CL_TARGET_OPENCL_VERSION":
                bad.append(f"include/{path}:{number}: defines or undefines {name.group(1)}")
    return bad


def declared(root):
    """The functions declared by the public headers, with X-macros expanded."""
    program = "#include <clade/clade.h>\n#include <clade/opencl.h>\n"
    text = output(["gcc", "-std=c11", "-E", "-P", f"-I{root}/include", "-xc", "-"], program)
    text = " ".join(text.split())
    return set(re.findall(r'__attribute__\(\(visibility\("default"\)\)\)[^;(]*?\b(clade_\w+)\(', text))


def exported_names(root, library):
    """The shared library exports exactly what the headers declare, and its version node."""
    bad = []
    shown = set()
    for line in output(["nm", "-D", "--defined-only", library]).splitlines():
        name, _, version = line.split()[-1].partition("@@")
        if line.split()[-2] == "A" and name.startswith("CLADE_"):
            continue
        shown.add(name)
        if not name.startswith("clade_") or name.startswith("clade__"):
            bad.append(f"{library}: shows {name}")
        elif not version.startswith("CLADE_"):
            bad.append(f"{library}: {name} has no version node")
    wanted = declared(root)
    bad += [f"{library}: lacks {name}, which the headers declare" for name in sorted(wanted - shown)]
    bad += [f"{library}: shows {name}, which no header declares" for name in sorted(shown - wanted)
            if name.startswith("clade_") and not name.startswith("clade__")]
    return bad


def shared_object_name(library):
    found = re.search(r"SONAME.*\[(.*)\]", output(["readelf", "-d", library]))
    if found and re.fullmatch(r"libclade\.so\.\d+", found.group(1)):
        return []
    return [f"{library}: its SONAME is {found.group(1) if found else 'missing'}"]


def no_build_path(library, *places):
    """No path of the build machine."""
    with open(library, "rb") as f:
        data = f.read()
    return [f"{library}: holds the path {place}" for place in places if place.encode() in data]
