"""Each kernel of cl_kernels must have run under Oclgrind in one of the op tests.

usage: oclgrind_kernels.py ICD KERNELS_DIR RAN_DIR [FILE…]
  ICD      Oclgrind's OpenCL library, which some distributions lack
  RAN_DIR  one file per test with the names of the kernels that ran (op_test --kernels)
  FILE     files to ignore: then some kernels must be missing"""
import pathlib
import re
import sys

icd, kernels, ran = map(pathlib.Path, sys.argv[1:4])
left_out = sys.argv[4:]
if not icd.exists():
    sys.exit(f"Oclgrind is not installed: {icd} is missing (package oclgrind)")
seen = {name for file in ran.glob("*.ran") if file.name not in left_out for name in file.read_text().split()}
written = {name: file.name for file in kernels.glob("*.cl") if not file.name.startswith("prelude")
           for name in re.findall(r"\b(?:ITEM_)?KERNEL\((\w+)", file.read_text())}
missing = [f"{file}: {name} ran in no test under Oclgrind" for name, file in sorted(written.items()) if name not in seen]
print(f"{len(written)} kernels, {len(written) - len(missing)} ran under Oclgrind")
if missing or not written:
    sys.exit("\n".join(missing) or f"no kernels in {kernels}")
