"""Runs the op tests with each tile of src/op/simt.c in force, by records that make it what `simt` starts from.

usage: simt_tiles.py OP_TEST SOURCE_DIR [DEVICE]"""
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile

OPS = ["gemm", "conv2d", "conv2d_weights"]  # each way to feed the product
PARAMS = ["rows", "columns", "depth", "tall", "wide"]


def tiles(source):
    with open(os.path.join(source, "src/op/simt.c")) as f:
        found = re.findall(r"\{\{(\d+), (\d+), (\d+), (\d+), (\d+)\}", f.read())
    return [dict(zip(PARAMS, map(int, row))) for row in found]


def records(tile):
    device = {"key": "0" * 32, "name": "any", "driver": "any", "class": "cpu", "compute_units": 1, "vector_f32": 8,
              "l1": 0, "l2": 0, "cache": 0, "fma_units": 0}
    return {"clade_tuning": 1, "devices": [{"device": device, "records": [
        {"op": op, "problem": "*", "impl": "simt", "params": tile} for op in OPS]}]}


def look(op_test, device, folder, tile, op):
    path = os.path.join(folder, "-".join([op, *map(str, tile.values())]) + ".json")
    with open(path, "w") as f:
        json.dump(records(tile), f)
    done = subprocess.run([op_test, "--op", op, "--device", device, "--impl", "simt", "--dtype", "f32", "--cases",
                           "3", "--verbose"], env={**os.environ, "CLADE_TUNING": path}, capture_output=True, text=True)
    chosen = [json.loads(params) for params in re.findall(r'"impl":\s*"simt",\s*"params":\s*(\{[^}]*\})', done.stderr)]
    # 1: so few cases compare no derivatives
    if done.returncode not in (0, 1) or "FAILED" in done.stderr or not chosen or any(p != tile for p in chosen):
        return f"{op} with {tile}: {len(chosen)} choices ({done.returncode}):\n{done.stderr[-3000:]}"
    return None


def main():
    op_test, source = sys.argv[1:3]
    device = sys.argv[3] if len(sys.argv) > 3 else "pocl"
    found = tiles(source)
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(look, op_test, device, folder, tile, op) for tile in found for op in OPS]
        problems = [p for p in (job.result() for job in jobs) if p]
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{len(found)} tiles of {len(OPS)} ops")
    return 1 if problems or len(found) < 5 else 0


sys.exit(main())
