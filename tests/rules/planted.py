"""Each rule must detect a planted violation, and report nothing for a small valid tree: a check that cannot fail is
useless."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import unittest

import api_reference
import binary_rules
import docs_rules
import performance_page
import source_rules

OP = '''/* Twice its input. */
static const clade_impl *const impls[] = {CLADE_IMPL(.name = "ref", .emit = emit), NULL};
static clade_status emit(clade_emit *e, const clade_query *q) { clade_emit_kernel(e, "twice_forward_ref"); }
const clade_op clade__op_twice = {.name = "twice", .grad = grad, .impls = impls};
'''
API = '''/* Statuses. */
#ifndef CLADE_STATUS_H
#define CLADE_STATUS_H

/* Each status. */
#define CLADE_STATUS_MAP(X) X(OK, 0, "success")

/* ---- codes ---- */
/* The result of a call. */
typedef enum clade_status {
#define CLADE_X(name, number, text) CLADE_##name = number,
  CLADE_STATUS_MAP(CLADE_X)
#undef CLADE_X
} clade_status;

int clade_code(clade_status status); /* its number */

/* Options. */
typedef struct clade_opt {
  int size;
  int n, *of; /* how many; which */
} clade_opt;

#endif
'''
# Comments and strings that resemble violations are allowed.
GOOD = {
    "src/op/ops.def": "/* Rows. */\nCLADE_OP(TWICE, twice)\n",
    "src/op/eltwise.def": "/* Rows. */\nELT(1, relu, 1, 0, NUMBER, E(max(a, 0)), NO, E(a), NO, NO, NO, 0, 0, -9, 9, 0, 0, 1)\n",
    "src/op/twice.c": OP,
    "tests/op/twice.c": "/* Cases. */\n",
    "cl_kernels/twice.cl": "/* Twice. */\n#include \"piece.cl\"\n#define OWN 1\n#undef OWN\n#undef EPILOGUE_ELEMENT\n"
                           "#define EPILOGUE_ELEMENT(s) 0\n",
    "cl_kernels/piece.cl": "/* What Twice includes. */\n",
    "cl_kernels/prelude.cl": "/* Before all. */\n#define PUT 1\n#define EPILOGUE_ELEMENT(s) 1\n#define OWN 1\n#undef OWN\n",
    "src/base/base.h": "/* Base. */\n#include <clade/status.h>\n",
    "src/cl/cl.h": '/* The door. */\n#include <CL/cl.h>\n#include "base/base.h"\n',
    "src/cl/door.c": '/* Calls. */\n#include "cl/cl.h"\nvoid f(void) { clFinish(0); }\n',
    "src/cl/quirks.c": '/* The table. */\nint f(const char *n) { return strstr(n, "NVIDIA") != 0; }\n',
    "src/cl/match.c": "/* What a user typed. */\nint f(const char *n, const char *t) { return strstr(n, t) != 0; }\n",
    "src/program/request.h": '/* A request. */\n#include "base/base.h"\n',
    "src/program/store.h": '/* The store. */\n#include "cl/cl.h"\n#include "program/request.h"\n',
    "src/ir/ir.h": '/* The graph: clFinish(x) is not called here. */\n#include "base/base.h"\n',
    "src/pass/fold.c": '/* A pass. */\n#include "ir/ir.h"\nconst char *f(void) { return "clFinish(q) on NVIDIA"; }\n',
    "include/clade/status.h": API,
    "src/cli/bench/gemm_sets.c": '/* Sets. */\nconst bench_set a[] = {{"small", "64 m=64 n=64 k=64\\n"}, {0}};\n',
    "src/cli/bench/conv_sets.c": '/* Sets. */\nconst bench_set a[] = {{"one", "last c=3 h=7 w=7 out=4 kernel=1\\n"}, {0}};\n',
    "docs/performance.md": "# A page\n\n" + performance_page.BEGIN + performance_page.END,
    "docs/performance/cpu.json": '{"processor": "A", "runs": [{"group": "op", "rows": [{"work": "relu", "peers": {"copy": '
                                 '{"ratio": 0.5}}}]}]}\n',
    "docs/README.md": "# Index\n[ops](ops.md) [performance](performance.md) [a](a.md#two-words-and-a-code) [web](https://a.example/b#c) [here](#index)\n",
    "docs/a.md": "# A\n## Two words, and `a code`\n[`x`](../docs/README.md)\n"
                 "````md\n```c\nx[a](b.md); docs/b.md\n```\n[b](b.md)\n````\n`y[a](b.md)`\n",
    "include/clade/opencl.h": "/* OpenCL. */\n#include <CL/cl.h>\n",
}
# rule, file, planted contents (None: the file is removed), expected text in the report
PLANTED = [
    (source_rules.downward_includes, "src/cl/a.c", '/* A. */\n#include "program/request.h"\n', "src/cl/a.c:2"),
    (source_rules.downward_includes, "src/base/a.c", '/* A. */\n#include "cl/cl.h"\n', "src/base/a.c:2"),
    (source_rules.downward_includes, "src/ir/a.c", '/* A. */\n#include "op/op.h"\n', "src/ir/a.c:2"),
    (source_rules.downward_includes, "src/ir/a.c", "/* A. */\n#include <CL/cl.h>\n", "src/ir/a.c:2"),
    (source_rules.downward_includes, "src/pass/a.c", '/* A. */\n#include "program/store.h"\n', "store.h -> cl/cl.h"),
    (source_rules.downward_includes, "src/op/a.c", '/* A. */\n#include "cl/cl.h"\n', "src/op/a.c:2"),
    (source_rules.downward_includes, "src/op/a.c", "/* A. */\n#include <clade/opencl.h>\n", "src/op/a.c:2"),
    (source_rules.downward_includes, "src/io/a.c", '/* A. */\n#include "data/a.h"\n', "src/io/a.c:2"),
    (source_rules.downward_includes, "src/data/a.c", '/* A. */\n#include "train/a.h"\n', "src/data/a.c:2"),
    (source_rules.downward_includes, "src/nowhere/a.c", "/* A. */\n", "nowhere"),
    (source_rules.downward_includes, "include/clade/a.h", '/* A. */\n#include "base/base.h"\n', "a.h:2"),
    (source_rules.downward_includes, "include/clade/a.h", "/* A. */\n#include <CL/cl.h>\n", "a.h:2"),
    (source_rules.opencl_behind_one_door, "src/plan/a.c", "/* A. */\nvoid f(void) {\n  clFinish (0);\n}\n", "a.c:3"),
    (source_rules.opencl_behind_one_door, "src/cli/a.c", "/* A. */\nint f(void) { return clFlush(0); }\n", "a.c:2"),
    (source_rules.names_in_one_table, "src/op/a.c", '/* A. */\nint f(char *n) { return strstr(n, "Intel(R)") != 0; }\n',
     "a.c:2"),
    (source_rules.names_in_one_table, "src/cl/a.c", '/* A. */\nint f(char *n) {\n  return strncasecmp(n, "pocl", 4);\n}\n',
     "a.c:3"),
    (source_rules.names_in_one_table, "src/cli/a.c", '/* A. */\nint f(char *n) { return matches("rusticl", n); }\n',
     "a.c:2"),
    (source_rules.names_in_one_table, "cl_kernels/twice.cl", "/* A. */\n#ifdef __NV_CL_C_VERSION\n#endif\n", ".cl:2"),
    (source_rules.short_files, "docs/long.md", "line\n" * 601, "601 lines"),
    (source_rules.long_sources, "src/op/a.c", "/* A. */\n" + "int a;\n" * 400, "src/op/a.c:1"),
    (performance_page.measured_page, "docs/performance/cpu.json", GOOD["docs/performance/cpu.json"].replace("0.5", "0.6"),
     "is not what"),
    (performance_page.measured_page, "docs/performance/cpu.json", '{"processor": 1', "cannot be made: JSONDecodeError"),
    (performance_page.measured_page, "docs/performance.md", None, "cannot be made: FileNotFoundError"),
    (performance_page.measured_page, "docs/performance.md", "# A page\n", "cannot be made: ValueError"),
    (source_rules.nothing_unfinished, "docs/a.md", "a\nTO" "DO: b\n", "docs/a.md:2"),
    (source_rules.nothing_unfinished, "src/op/a.c", "/* A. FIX" "ME */\n", "src/op/a.c:1"),
    (source_rules.opening_comments, "src/op/a.c", "int a;\n", "src/op/a.c:1"),
    (source_rules.opening_comments, "tests/a.sh", "#!/bin/sh\necho a\n", "tests/a.sh:1"),
    (source_rules.implementations_in_one_place, "src/pass/a.c", "/* A. */\nint f(o *op) { return op->impls[0] != 0; }\n",
     "src/pass/a.c:2"),
    (source_rules.implementations_in_one_place, "src/op/a.c", '/* A. */\nconst char *f(void) {\n  return "made for CPUs";\n}\n',
     "src/op/a.c:3"),
    (source_rules.complete_ops, "src/op/twice.c", None, "twice has no source under src/op"),
    (source_rules.complete_ops, "cl_kernels/twice.cl", None, "no cl_kernels/twice.cl"),
    (source_rules.complete_ops, "tests/op/twice.c", None, "no tests/op/twice.c"),
    (source_rules.complete_ops, "src/op/twice.c", OP.replace('"ref"', '"vec"'), 'no implementation "ref"'),
    (source_rules.complete_ops, "cl_kernels/orphan.cl", "/* A. */\n", "no row of ops.def"),
    (source_rules.preludes_macros_stay, "cl_kernels/twice.cl", "/* A. */\n\n#define PUT 2\n", ".cl:3: takes PUT"),
    (source_rules.preludes_macros_stay, "src/op/a.c",
     '/* A. */\nvoid f(clade_kernel_step *s) { clade_emit_define(s, "PUT", 1); }\n', "a.c:2: emits PUT"),
    (source_rules.formatted, "src/op/a.c", "/* A. */\nint   a;\n", "src/op/a.c:2"),
    (docs_rules.ops_page, "src/op/ops.def", "/* Rows. */\n", "docs/ops.md"),
    (docs_rules.ops_page, "src/op/twice.c", OP.replace("Twice its", "Thrice its"), "docs/ops.md"),
    (docs_rules.ops_page, "docs/ops.md", None, "docs/ops.md"),
    (docs_rules.links, "docs/a.md", "# A\n[b](b.md)\n", "docs/a.md:2: links to b.md"),
    (docs_rules.links, "docs/a.md", "# A\n\n[o](ops.md#nowhere)\n", "docs/a.md:3: links to ops.md#nowhere"),
    (docs_rules.links, "docs/a.md", "# A\n```\n# B\n```\n[b](#b)\n", "docs/a.md:5: links to #b"),
    (docs_rules.links, "docs/a.md", None, "docs/README.md:2: links to a.md"),
    (docs_rules.links, "src/op/a.c", "/* A (docs/b.md). */\n", "src/op/a.c:1: names docs/b.md"),
    (docs_rules.index, "docs/b.md", "# B\n", "docs/README.md:1: does not link to docs/b.md"),
    (api_reference.api_pages, "include/clade/status.h", API.replace("its number", "a number"), "docs/api/status.md"),
    (api_reference.api_pages, "include/clade/status.h", API.replace("success", "done"), "docs/api/status.md"),
    (api_reference.api_pages, "include/clade/status.h", API.replace(" /* its number */", "\n"), "clade_code has no comment"),
    (api_reference.api_pages, "include/clade/status.h", API.replace(" /* how many; which */", ""),
     "status.h:21: clade_opt.n has no comment"),
    (api_reference.api_pages, "include/clade/status.h", API.replace("/* Options. */\n", ""), "clade_opt has no comment"),
    (api_reference.api_pages, "include/clade/a.h", "/* A. */\n", "docs/api/a.md"),
    (api_reference.api_pages, "docs/api/opencl.md", None, "docs/api/opencl.md"),
    (api_reference.api_pages, "docs/api/old.md", "# Old\n", "docs/api/old.md"),
    (binary_rules.headers_alone, "include/clade/a.h", "/* A. */\nint f(size_t);\n", "a.h"),
    (binary_rules.headers_alone, "include/clade/a.h", "/* A. */\nstruct a { int class; };\n", "g++"),
    (binary_rules.headers_alone, "include/clade/a.h", "/* A. */\ntypedef struct b { int c; } b;\n", "redefinition"),
    (binary_rules.own_macros, "include/clade/a.h", "/* A. */\n#define X(a) a\n", "X"),
    (binary_rules.own_macros, "include/clade/a.h", "/* A. */\n#undef X\n", "X"),
    (binary_rules.headers_alone, "include/clade/a.hpp", "// A.\nint f(size_t);\n", "a.hpp"),
]


@contextlib.contextmanager
def small_tree(path=None, text=None):
    with tempfile.TemporaryDirectory() as root:
        def put(name, content):
            os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
            with open(os.path.join(root, name), "w", encoding="utf-8") as f:
                f.write(content)

        for name, content in GOOD.items():
            put(name, content)
        with open(os.path.join(top(), ".clang-format"), encoding="utf-8") as f:
            put("docs/../.clang-format", f.read())
        put("docs/ops.md", docs_rules.page(root))
        put("docs/performance.md", performance_page.page(root))
        api_reference.write(root)
        if path and text is None:
            os.remove(os.path.join(root, path))
        elif path:
            put(path, text)
        yield root


def top():
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Planted(unittest.TestCase):
    def test_good_tree(self):
        with small_tree() as root:
            for rule in {row[0] for row in PLANTED}:
                self.assertEqual(rule(root), [], rule.__name__)

    def test_each_is_found(self):
        for rule, path, text, expected in PLANTED:
            with self.subTest(rule=rule.__name__, path=path, text=text), small_tree(path, text) as root:
                found = rule(root)
                self.assertTrue(any(expected in line for line in found), found)

    def test_every_source_rule_has_a_plant(self):
        import run
        self.assertEqual(set(run.SOURCE) - {row[0] for row in PLANTED}, set())


class Measurements(unittest.TestCase):
    def run_of(self, group, work, shape, ratio, **other):
        row = {"group": group, "work": work, "shape": shape, "dtype": "f32", "pass": "fwd", "impl": "vec", "chain": 1,
               "rounds": 7, "seconds": 0.00123456, "peers": {"openblas": {"ratio": ratio}}, **other}
        return {"machine": {"cpu": "B", "busy": 0.01}, "device": {"platform": "C", "compute_units": 2}, "rows": [row]}

    def test_runs_are_added(self):
        with small_tree() as root:
            path = os.path.join(root, "docs/performance/mine.json")
            for ratio in (1.5, 2.0):  # the second one replaces the first
                performance_page.add(root, path, self.run_of("gemm", "64", "m=64 n=64 k=64", ratio))
            performance_page.add(root, path, self.run_of("conv", "last", "n=16 c=3 h=7 w=7 out=4 kernel=1", 3.0))
            with open(path, encoding="utf-8") as f:
                product, layer = json.load(f)["runs"]
            self.assertEqual((product["set"], product["batch"], layer["set"], layer["batch"]), ("small", 0, "one", 16))
            self.assertEqual([row["peers"]["openblas"]["ratio"] for row in product["rows"]], [2.0])
            self.assertEqual(product["rows"][0]["seconds"], 0.001235)
            self.assertIn("## B", performance_page.page(root))

    def test_transcribed_files_stay(self):
        with small_tree("docs/performance/cpu.json", '{"processor": "A", "transcribed": true, "runs": []}\n') as root:
            with self.assertRaises(ValueError):
                performance_page.add(root, os.path.join(root, "docs/performance/cpu.json"),
                                     self.run_of("gemm", "64", "m=64 n=64 k=64", 1.0))


HEADER = '''/* A. */
#define API __attribute__((visibility("default")))
API int clade_shown(void);
API int clade_other(
    void);
'''
SOURCE = "int clade_shown(void) { return 1; } int clade_other(void) { return 2; }\n"
MAP = "CLADE_0 { global: clade_*; local: *; };\n"


class Libraries(unittest.TestCase):
    def build(self, root, source=SOURCE, version_map=MAP, soname="libclade.so.0"):
        for name, text in (("include/clade/clade.h", HEADER), ("include/clade/opencl.h", "/* B. */\n"),
                           ("a.c", source), ("a.map", version_map)):
            os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
            with open(os.path.join(root, name), "w", encoding="utf-8") as f:
                f.write(text)
        library = os.path.join(root, "libclade.so")
        subprocess.run(["gcc", "-shared", "-fPIC", f"-Wl,-soname,{soname}", os.path.join(root, "a.c"), "-o", library]
                       + ([f"-Wl,--version-script={root}/a.map"] if version_map else []), check=True)
        return library

    def check(self, expected, **plant):
        with tempfile.TemporaryDirectory() as root:
            library = self.build(root, **plant)
            found = binary_rules.exported_names(root, library) + binary_rules.shared_object_name(library) \
                + binary_rules.no_build_path(library, root)
            if expected is None:
                self.assertEqual(found, [])
            else:
                self.assertTrue(any(expected in line for line in found), found)

    def test_good(self):
        self.check(None)

    def test_internal_name(self):
        self.check("shows clade__inner", source=SOURCE + "int clade__inner(void) { return 3; }\n")

    def test_foreign_name(self):
        self.check("shows helper", source=SOURCE + "int helper(void) { return 3; }\n",
                   version_map=MAP.replace("clade_*", "clade_*; helper"))

    def test_undeclared(self):
        self.check("which no header declares", source=SOURCE + "int clade_extra(void) { return 3; }\n")

    def test_lacking(self):
        self.check("lacks clade_other", source="int clade_shown(void) { return 1; }\n")

    def test_no_version(self):
        self.check("no version node", version_map="")

    def test_soname(self):
        self.check("SONAME", soname="libother.so")

    def test_path(self):
        with tempfile.TemporaryDirectory() as root:
            library = self.build(root, source=SOURCE + f'const char *clade_path = "{root}/a.c";\n')
            self.assertEqual(len(binary_rules.no_build_path(library, root, "/nowhere/else")), 1)


if __name__ == "__main__":
    sys.exit(unittest.main())
