"""Follows docs/adding-a-type.md in a copy of the repository, which may change at most four files; then tests the new
type: conversions, files, and the ops that support it.
    adding_a_type.py ROOT CC
"""

import os
import sys
import tempfile

from adding_an_op import configure, copy_tree, follow, run

PAGE = "docs/adding-a-type.md"
TYPE = "f8e5m2"
MOST_FILES = 4
UNITS = ["base_dtype", "base_convert", "run_dtypes_all", "io_arrays", "io_vars"]
OPS = ["gemm", "eltwise", "transpose", "reshape", "gather", "frame"]  # cast is a function of eltwise


def main(root, cc):
    with tempfile.TemporaryDirectory() as room:
        tree, build = os.path.join(room, "tree"), os.path.join(room, "build")
        copy_tree(root, tree)
        touched = follow(PAGE, tree, room)
        print(f"touched: {', '.join(sorted(touched))}")
        if len(touched) > MOST_FILES:
            sys.exit(f"{PAGE} touches {len(touched)} files, {MOST_FILES} at most are expected")
        configure(tree, build, cc)
        run(["cmake", "--build", build, "--target", "op_test", *(f"test_{unit}" for unit in UNITS)], quiet=True)
        run(["ctest", "--test-dir", build, "--output-on-failure", "--no-tests=error", "-R",
             rf"^unit\.({'|'.join(UNITS)})$"])
        for op in OPS:
            for device, cases in ("pocl", "100"), ("rusticl", "24"):
                run([os.path.join(build, "tests/op/op_test"), "--op", op, "--device", device, "--dtype", TYPE,
                     "--cases", cases], quiet=True)
        run([sys.executable, os.path.join(tree, "tests/rules/run.py"), "source", tree])


if __name__ == "__main__":
    main(*sys.argv[1:])
