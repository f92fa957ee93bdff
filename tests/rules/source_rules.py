"""The rules that sources obey. Each is a function from the tree's root to a list of violations, "file:line: what"."""

import os
import re
import subprocess

from tree import code, files, includes, line_of, op_code, read, rows

# A module may include itself and those of smaller rank.
RANK = {"base": 0, "bundle": 1, "cl": 2, "probe": 3, "program": 3, "ir": 4, "op": 5, "pass": 6, "comm": 6, "plan": 7, "parallel": 7,
        "tune": 8, "prune": 8, "quant": 8, "io": 9, "data": 10, "train": 11, "cli": 12, "mpi": 13}
# Modules that know no OpenCL, by whatever way.
WITHOUT_OPENCL = ("base", "bundle", "ir", "op", "pass", "io")


def module_of(path):
    parts = path.split("/")
    return parts[1] if parts[0] == "src" and len(parts) > 2 else None


def downward_includes(root):
    bad = []
    for path in files(root, ".c", ".h", ".def"):
        module = module_of(path)
        if path.startswith("include/"):
            for line, header, angled in includes(root, path):
                if not angled or (header.startswith("CL/") and path != "include/clade/opencl.h"):
                    bad.append(f"{path}:{line}: a public header includes {header}")
        if module is None:
            continue
        if module not in RANK:
            bad.append(f"{path}:1: no module is called {module}")
            continue
        for line, header, angled in includes(root, path):
            other = header.split("/")[0]
            if not angled and other not in RANK:
                continue
            if not angled and (RANK[other] > RANK[module] or (RANK[other] == RANK[module] and other != module)):
                bad.append(f"{path}:{line}: {module} includes {header}, which is not below it")
            elif module in WITHOUT_OPENCL:
                way = reaches_opencl(root, header, ())
                if way:
                    bad.append(f"{path}:{line}: {module} reaches OpenCL by {' -> '.join(way)}")
    return bad


def reaches_opencl(root, header, seen):
    """The chain of headers from here to OpenCL's or to src/cl, or None."""
    if header.startswith(("CL/", "cl/")) or header == "clade/opencl.h":
        return [header]
    path = ("include/" if header.startswith("clade/") else "src/") + header
    if header in seen or not os.path.exists(os.path.join(root, path)):
        return None
    for _, other, _ in includes(root, path):
        way = reaches_opencl(root, other, seen + (header,))
        if way:
            return [header] + way
    return None


def opencl_behind_one_door(root):
    bad = []
    for path in files(root, ".c", ".h"):
        if not path.startswith("src/") or path.startswith("src/cl/"):
            continue
        text = code(read(root, path), strings=False)
        for m in re.finditer(r"\bcl[A-Z]\w*\s*\(", text):
            bad.append(f"{path}:{line_of(text, m.start())}: calls {m.group(0)}…) outside src/cl")
    return bad


MAKERS = (r"nvidia|geforce|tesla|amd\b|radeon|advanced micro|intel|pocl|portable computing|rusticl|clover|mesa\b|llvmpipe"
          r"|oclgrind|qualcomm|adreno|\barm\b|mali|xilinx|altera|apple|imagination|powervr|broadcom|samsung")
COMPARES = re.compile(r"\b(?:str\w*cmp|str\w*str|mem\w*cmp|fnmatch|reg\w*exec|\w*(?:match|contains|equal|begins|is_name)\w*)"
                      r"\s*\(", re.I)
TARGET_MACRO = re.compile(r"\b(?:__NV\w*|__AMD\w*|__INTEL\w*|__POCL\w*|POCL_\w+|cl_nv_\w+|cl_amd_\w+|cl_intel_\w+)\b")


def arguments_at(text, at):
    depth, end = 1, at
    while end < len(text) and depth:
        depth += (text[end] == "(") - (text[end] == ")")
        end += 1
    return text[at:end]


def names_in_one_table(root):
    """Names of makers are compared in quirks.c alone. That a name holds what a user typed is no such comparison."""
    bad = []
    for path in files(root, ".c", ".h", ".cl"):
        if path == "src/cl/quirks.c" or not path.startswith(("src/", "cl_kernels/")):
            continue
        text = code(read(root, path))
        for m in COMPARES.finditer(text):
            maker = re.search(r'"[^"]*(?:' + MAKERS + r')[^"]*"', arguments_at(text, m.end()), re.I)
            if maker:
                bad.append(f"{path}:{line_of(text, m.start())}: compares with {maker.group(0)} outside src/cl/quirks.c")
        if path.endswith(".cl"):
            for m in TARGET_MACRO.finditer(text):
                bad.append(f"{path}:{line_of(text, m.start())}: asks for {m.group(0)}: a capability, not a maker")
    return bad


def short_files(root, limit=600):
    bad = []
    for path in files(root):
        with open(os.path.join(root, path), "rb") as f:
            data = f.read()
        lines = data.count(b"\n")
        if b"\0" not in data and lines > limit and not path.endswith(".abi"):  # abidw writes those
            bad.append(f"{path}:1: {lines} lines, more than {limit}")
    return bad


UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|X" r"XX|HA" r"CK)\b")


def nothing_unfinished(root):
    bad = []
    for path in files(root):
        for number, line in enumerate(read(root, path).splitlines(), 1):
            if UNFINISHED.search(line):
                bad.append(f"{path}:{number}: {UNFINISHED.search(line).group(0)}")
    return bad


def opening_comments(root):
    """Each source begins by saying what it holds."""
    bad = []
    for path in files(root, ".c", ".h", ".def", ".cl", ".cmake", "CMakeLists.txt", ".py", ".sh"):
        text = read(root, path)
        if text.startswith("#!"):
            text = text.split("\n", 1)[-1]
        if not text.startswith(("/*", "# ", '"""')):
            bad.append(f"{path}:1: does not begin with a comment that says what it holds")
    return bad


def implementations_in_one_place(root):
    """Structs of implementations are read as src/ir/impls.c gives them, which fills up older ones; what they need of a
    device is checked in src/op/impl.c alone."""
    bad = []
    for path in files(root, ".c", ".h"):
        if not path.startswith("src/"):
            continue
        text = code(read(root, path))
        if path != "src/ir/impls.c":
            bad += [f"{path}:{line_of(text, m.start())}: reads .impls; expected clade__impls(op)"
                    for m in re.finditer(r"->impls\b|\.impls\s*\[", text)]
        if path != "src/op/impl.c":
            bad += [f"{path}:{line_of(text, m.start())}: refuses a class of devices; expected .devices of clade_impl"
                    for m in re.finditer(r'return "(made )?for (CPU|GPU|accelerator)s', text)]
    return bad


def complete_ops(root):
    """A row of ops.def has its source, its kernel unless it launches none, its test, and an implementation "ref"."""
    bad = []
    names = [r[1] for r in rows(root, "src/op/ops.def", "CLADE_OP")]
    stems = set(names)
    for path in files(root, ".c", ".h"):  # of implementations and steps, macros' too
        if path.startswith("src/op/"):
            stems.update(re.findall(r'(?:\.|->)file\s*=\s*"(\w+)"', code(read(root, path))))
    for name in names:
        source = f"src/op/{name}.c"
        if not os.path.exists(os.path.join(root, source)):
            bad.append(f"src/op/ops.def:1: {name} has no {source}")
            continue
        text = op_code(root, name)
        if "CLADE_OP_VIEW" not in text:
            if not re.search(r'CLADE_IMPL\(\s*\.name = "ref"', text):
                bad.append(f'{source}:1: {name} has no implementation "ref"')
            launches = "clade_emit_kernel" in text or "clade_emit_copy" not in text
            shared = re.search(r'\.file\s*=\s*"(\w+)"', code(read(root, source)))
            stem = shared.group(1) if shared else name
            stems.add(stem)
            if launches and not os.path.exists(os.path.join(root, f"cl_kernels/{stem}.cl")):
                bad.append(f"{source}:1: {name} has no cl_kernels/{stem}.cl")
        if not os.path.exists(os.path.join(root, f"tests/op/{name}.c")):
            bad.append(f"{source}:1: {name} has no tests/op/{name}.c")
    for path in files(root, ".cl"):
        stems.update(re.findall(r'^#include "(\w+)\.cl"', read(root, path), re.M))
    for path in files(root, ".cl"):
        stem = os.path.basename(path)[:-3]
        shared = stem.startswith("prelude") or stem in ("builtins", "persistent")
        if path.startswith("cl_kernels/") and not shared and stem not in stems:
            bad.append(f"{path}:1: belongs to no row of ops.def")
    return bad


def macros(text):
    """The last directive for each macro: (define or undef, line)."""
    return {m.group(2): (m.group(1), line_of(text, m.start()))
            for m in re.finditer(r"^[ \t]*#[ \t]*(define|undef)[ \t]+(\w+)", text, re.M)}


def preludes_macros_stay(root):
    """Kernels of several files become one program: what stands before all of them must be there behind each of them."""
    first = [path for path in files(root, ".cl") if re.match(r"cl_kernels/(prelude|builtins)", path)]
    stay = {name for path in first
            for name, last in macros(read(root, path)).items() if last[0] == "define"}
    return [f"{path}:{line}: takes {name} away, which the prelude defines"
            for path in files(root, ".cl") if path.startswith("cl_kernels/") and path not in first
            for name, (directive, line) in macros(read(root, path)).items() if directive == "undef" and name in stay] + [
                f"{path}:{line_of(text, m.start())}: emits {m.group(1)}, which the prelude defines, and is taken away behind "
                "its kernel"
                for path in files(root, ".c") if path.startswith("src/") for text in [read(root, path)]
                for m in re.finditer(r'clade_emit_define\w*\(\s*\w+,\s*"(\w+)"', text) if m.group(1) in stay]


def formatted(root):
    sources = [p for p in files(root, ".c", ".h", ".cpp", ".hpp") if not p.startswith("fpga/")]
    if not sources:
        return []
    run = subprocess.run(["clang-format", "--dry-run", "-Werror", "--ferror-limit=1", *sources], cwd=root,
                         capture_output=True, text=True, check=False)
    if run.returncode == 0:
        return []
    found = re.findall(r"^([^:\s]+:\d+):\d+: error:", run.stderr, re.M)
    return [f"{at}: clang-format would change it" for at in found] or [run.stderr.strip() or "clang-format failed"]
