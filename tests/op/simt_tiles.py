"""Runs the op tests with each tile of src/op/simt.c and src/op/gemm/warp.c in force, by records that make it what `simt` or
`mma_warp` starts from.

usage: simt_tiles.py OP_TEST SOURCE_DIR [DEVICE]"""
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile

PARAMS = ["rows", "columns", "depth", "tall", "wide", "stages"]
# implementation, its source, element type, ops (each way to feed the product), how many of PARAMS
KINDS = [("simt", "simt.c", "f32", ["gemm", "conv2d", "conv2d_weights"], 5), ("mma_warp", "gemm/warp.c", "f16", ["gemm"], 6),
         ("mma_warp_tf32", "gemm/warp.c", "f32", ["gemm"], 6)]


def tiles(source, file, n):
    with open(os.path.join(source, "src/op", file)) as f:
        found = re.findall(r"\{\{(" + ", ".join([r"\d+"] * n) + r")\}", f.read())
    return [dict(zip(PARAMS, map(int, row.split(", ")))) for row in found]


def records(tile, op, impl):
    device = {"key": "0" * 32, "name": "any", "driver": "any", "class": "cpu", "compute_units": 1, "vector_f32": 8,
              "l1": 0, "l2": 0, "cache": 0, "fma_units": 0}
    return {"clade_tuning": 1, "devices": [{"device": device, "records": [
        {"op": op, "problem": "*", "impl": impl, "params": tile}]}]}


def look(op_test, device, folder, impl, dtype, op, tile):
    path = os.path.join(folder, "-".join([op, impl, *map(str, tile.values())]) + ".json")
    with open(path, "w") as f:
        json.dump(records(tile, op, impl), f)
    done = subprocess.run([op_test, "--op", op, "--device", device, "--impl", impl, "--dtype", dtype, "--cases",
                           "3", "--verbose"], env={**os.environ, "CLADE_TUNING": path}, capture_output=True, text=True)
    chosen = [json.loads(params) for params in re.findall(rf'"impl":\s*"{impl}",\s*"params":\s*(\{{[^}}]*\}})', done.stderr)]
    # 1: so few cases compare no derivatives
    if done.returncode not in (0, 1) or "FAILED" in done.stderr or not chosen or any(p != tile for p in chosen):
        return f"{op} by {impl} with {tile}: {len(chosen)} choices ({done.returncode}):\n{done.stderr[-3000:]}"
    return None


def main():
    op_test, source = sys.argv[1:3]
    device = sys.argv[3] if len(sys.argv) > 3 else "pocl"
    work = [(impl, dtype, op, tile) for impl, file, dtype, ops, n in KINDS for op in ops for tile in tiles(source, file, n)]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(look, op_test, device, folder, *each) for each in work]
        problems = [p for p in (job.result() for job in jobs) if p]
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{len(work)} tiles of ops")
    return 1 if problems or len(work) < 5 * len(KINDS) else 0


sys.exit(main())
