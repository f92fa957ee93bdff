"""Compares docs/json.md with the command's output: every field is documented, every documented field occurs, and the
types match."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

import clade
from clade import document, run
from images import images

TYPES = {"string": str, "object": dict, "array": list, "boolean": bool, "null": type(None)}
KINDS = {"integer", "number", *TYPES}
EVENTS = ["begin", "step", "epoch", "checkpoint", "stopped", "done"]


def rows():
    """By heading, event or command: each field with the text of its type. A row has one field or several, and a type for
    each or one for all."""
    found, heading, of_fields = {}, None, False
    with open(os.path.join(clade.ROOT, "docs", "json.md"), encoding="utf-8") as page:
        for line in page:
            title = re.match(r"##+ (.*)", line)
            heading = title[1] if title else heading
            header = re.match(r"\| field \| type \| (\w+) \|", line)
            of_fields = header[1] if header else of_fields if line.startswith("|") else None
            row = re.match(r"\| (`[^|]+`) \| ([^|]+) \| ([^|]*)\|", line)
            if of_fields and row:
                names, kinds = re.findall(r"`([^`]+)`", row[1]), row[2].split(", ")
                assert len(kinds) in (1, len(names)), line
                listed, every = re.findall(r"`([^`]+)`", row[3]), {"events": EVENTS, "commands": heading.split(", ")}
                for table in listed or every[of_fields] if of_fields in every else [heading]:
                    found.setdefault(table, {}).update(zip(names, kinds if len(kinds) > 1 else kinds * len(names)))
    return found


def flat(heading, found, start=""):
    """From field to type, with the fields of nested objects, and the objects and arrays that contain fields."""
    headings, whole = {name.lower().replace(" ", "-"): name for name in found}, {}
    for name, kind in found[heading].items():
        for dot in re.finditer(r"(\[\])?\.", name):
            whole.setdefault(start + name[:dot.start()], "array" if dot[1] else "object")
        inner = re.search(r"\]\(#([a-z-]+)\)", kind)
        if inner:
            whole.update(flat(headings[inner[1]], found, start + name + ("[]." if kind.startswith("array") else ".")))
        whole[start + name] = re.sub(r"\[.*\]\(.*\)", "object", re.sub(r"array of .*", "array", kind))
    return whole


def tables():
    """By heading, from field to type: `clade devices` → {"devices[].id": "string", …}"""
    found = rows()
    known = {heading: flat(heading, found) for heading in found}
    for heading, fields in known.items():
        unknown = {kind for kind in fields.values() if not set(kind.split(" or ")) <= KINDS}
        assert not unknown, f"{heading}: {unknown}"
        if heading.startswith("clade "):
            fields["schema"] = "integer"
    return known


def is_a(value, kind):
    for one in kind.split(" or "):
        if one in ("integer", "number"):
            if isinstance(value, int if one == "integer" else (int, float)) and not isinstance(value, bool):
                return True
        elif isinstance(value, TYPES[one]):
            return True
    return False


def compare(value, path, table, seen, wrong):
    if path:
        if path not in table:
            wrong.append(f"{path} is not documented")
            return
        seen.add(path)
        if not is_a(value, table[path]):
            wrong.append(f"{path} is {value!r}, not {table[path]}")
    if isinstance(value, dict):
        start = path + "." if path else ""
        for name, inner in value.items():
            compare(inner, start + name, table, seen, wrong)
        for field in table:
            if re.fullmatch(re.escape(start) + "[a-z0-9_]+", field) and field[len(start):] not in value:
                wrong.append(f"{field} is documented and not there")
    elif isinstance(value, list):
        for inner in value:
            if isinstance(inner, dict):
                compare_element(inner, path + "[]", table, seen, wrong)


def compare_element(value, path, table, seen, wrong):
    compare(value, path, {**table, path: "object"}, seen, wrong)
    seen.discard(path)


def stopped(command):
    """The output of a training that is interrupted after a step."""
    with subprocess.Popen([clade.CLADE, *command], stdout=subprocess.PIPE, text=True) as process:
        lines = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.send_signal(signal.SIGINT)
        return lines + [json.loads(line) for line in process.communicate(timeout=120)[0].splitlines()]


class Checks(unittest.TestCase):
    def check(self, heading, *runs):
        table, seen, wrong = tables()[heading], set(), []
        for done in runs:
            compare(document(done), "", table, seen, wrong)
        self.assertEqual(wrong, [])
        self.assertEqual(set(table) - seen, set(), "documented and never seen")


class Documents(Checks):
    def test_doctor(self):
        with tempfile.TemporaryDirectory() as empty:
            self.check("clade doctor", run("doctor", "--json"), run("doctor", "--json", "--device", "none such"),
                       run("doctor", "--json", env={"OCL_ICD_VENDORS": empty}))

    def test_devices(self):
        self.check("clade devices", run("devices", "--json"))

    def test_demo(self):
        self.check("clade infer --demo", run("infer", "--demo", "mlp", "--json"),
                   run("infer", "--demo", "mlp", "--json", "--explain", "--batch", "3"))

    def test_train(self):
        with tempfile.TemporaryDirectory() as room:
            command = ["train", "--json", "--model", "mlp", "--data", images(room), "--epochs", "2",
                       "--checkpoint-dir", os.path.join(room, "run")]
            lines = [json.loads(line) for line in run(*command).stdout.splitlines()]
            lines += stopped(command + ["--resume", "--epochs", "1000"])
        known = {event: tables()[event] for event in EVENTS}
        self.assertEqual({line["event"] for line in lines}, set(known))
        for line in lines:
            wrong = []
            compare(line, "", known[line["event"]], set(), wrong)
            self.assertEqual(wrong, [])

    def test_prune(self):
        with tempfile.TemporaryDirectory() as room:
            first = os.path.join(room, "run")
            run("train", first, "--json", "--model", "mlp", "--data", images(room), "--epochs", "1")
            self.check("clade prune", run("prune", first, "--json", "--sparsity", "0.5", "--output", f"{room}/a"),
                       run("prune", first, "--json", "--structure", "2:4", "--output", f"{room}/b"))

    def test_quantize(self):
        with tempfile.TemporaryDirectory() as room:
            first = os.path.join(room, "run")
            run("train", first, "--json", "--model", "mlp", "--data", images(room), "--epochs", "1")
            self.check("clade quantize", run("quantize", first, "--json", "--output", f"{room}/a"),
                       run("quantize", first, "--json", "--budget", "100", "--output", f"{room}/b"))

    def test_inspect(self):
        self.check("clade inspect", run("inspect", "--json", "--model", "mlp"),
                   run("inspect", "--json", "--model", "lenet5", "--time"))

    def test_cache(self):
        with tempfile.TemporaryDirectory() as room:
            for what in ["path", "clear"]:
                self.check(f"clade cache {what}", run("cache", what, "--json", env={"CLADE_CACHE_DIR": room}))

    def test_checks_that_are_listed(self):
        """The page's second table lists all checks of the doctor."""
        with open(os.path.join(clade.ROOT, "docs", "json.md"), encoding="utf-8") as page:
            listed = set(re.findall(r"`([a-z]+)(?::[A-Z]+)?`", page.read()))
        source = ""
        for name in ["doctor_system.c", "doctor_opencl.c"]:
            with open(os.path.join(clade.ROOT, "src", "cli", name), encoding="utf-8") as file:
                source += file.read()
        made = set(re.findall(r'doctor_check\(checks, "([a-z]+)"', source))
        self.assertGreaterEqual(len(made), 10)
        self.assertEqual(made - listed, set())

    def test_that_a_difference_is_found(self):
        table, wrong = {"a": "integer", "b": "array", "b[].c": "string or null"}, []
        compare({"a": 1, "b": [{"c": None}]}, "", table, set(), wrong)
        self.assertEqual(wrong, [])
        compare({"a": 1.5, "b": [{"c": 1, "d": 1}], "e": 0}, "", table, set(), wrong)
        compare({"a": True}, "", table, set(), wrong)
        self.assertEqual(len(wrong), 6, wrong)


def on_two_ranks(*args):
    """The finished job, or None without MPI."""
    mpirun = shutil.which("mpirun")
    if not mpirun or not os.path.exists(os.path.join(os.path.dirname(clade.CLADE), "libclade_mpi.so.0")):
        return None
    here = ["--oversubscribe", "--bind-to", "none", "--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp"]
    return run(*args, before=[mpirun, "-np", "2", *here],
               env={"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "POCL_MAX_PTHREAD_COUNT": "1",
                    "OMPI_MCA_rmaps_base_oversubscribe": "1"})


class All(Checks):
    def test_infer(self):
        with tempfile.TemporaryDirectory() as room:
            run("train", "--model", "mlp", "--data", images(room), "--epochs", "1", "--checkpoint-dir", room + "/run")
            files = ["--input", room + "/x_test.npy", "--output", room + "/y.npy"]
            self.check("clade infer", run("infer", room + "/run", "--model", "mlp", *files, "--json"),
                       run("infer", room + "/run", *files[:2], "--json"))

    def test_tune(self):
        with tempfile.TemporaryDirectory() as room:
            os.chmod(room, 0o700)
            env, file = {"CLADE_CACHE_DIR": room}, os.path.join(room, "records.json")
            self.check("clade tune", run("tune", "--json", "--budget", "20", "40x40x40", env=env))
            self.check("clade tune export", run("tune", "export", file, "--json", env=env))
            self.check("clade tune merge", run("tune", "merge", file, "--json", env=env))

    def test_train_on_ranks(self):
        with tempfile.TemporaryDirectory() as room:
            done = on_two_ranks("train", "--json", "--model", "mlp", "--data", images(room), "--epochs", "2")
            if not done:
                self.skipTest("there is no mpirun, or Clade was built without MPI")
            last = done.stdout.splitlines()[-1]  # Open MPI 5 may insert standard error before it
            line, wrong = json.loads(last[last.index("{"):]), []
            compare(line, "", tables()["done"], set(), wrong)
            self.assertEqual(wrong, [])
            self.assertGreater(line["comm"]["bytes"], 0)
            self.assertTrue(0 <= line["comm"]["hidden_fraction"] <= 1, line["comm"])

    def test_bench_scale(self):
        done = run("bench", "scale", "--model", "mlp", "--ranks", "1,2,512", "--batch", "16", "--rounds", "2", "--json")
        self.check("clade bench scale", done)
        found = document(done)
        self.assertTrue(found["link"]["assumed"])
        self.assertEqual([row["ranks"] for row in found["rows"]], [1, 2, 512])
        self.assertEqual(found["rows"][0]["seconds"], found["model"]["alone_seconds"])
        self.assertLess(found["rows"][1]["sums_seconds"], found["rows"][2]["sums_seconds"])
        self.assertEqual(sum(bucket["bytes"] for bucket in found["model"]["buckets"]), found["model"]["gradient_bytes"])
        given = document(run("bench", "scale", "--model", "mlp", "--ranks", "8", "--link", "20,100", "--rounds", "1", "--json"))
        self.assertEqual((given["link"]["assumed"], given["link"]["bandwidth_gbs"]), (False, 12.5))

    def test_plan(self):
        small = "gpt:layers=2,width=64,heads=2,vocab=100,length=32"
        done = run("plan", "--model", small, "--ranks", "4", "--batch", "8", "--memory", "1", "--flops", "0.001", "--list", "1000",
                   "--json")
        self.check("clade plan", done)

    def test_bench_comm(self):
        done = on_two_ranks("bench", "comm", "--model", "lenet5", "--batch", "16", "--rounds", "2", "--json")
        if not done:
            self.skipTest("there is no mpirun, or Clade was built without MPI")
        self.check("clade bench comm", done)
        found = document(done)
        self.assertEqual((found["ranks"], [peer["rank"] for peer in found["link"]["peers"]]), (2, [1]))
        self.assertEqual([row["bytes"] for row in found["sums"]], [4, 1 << 16, 1 << 20, 8 << 20, 64 << 20])
        self.assertEqual(found["model"]["gradient_bytes"], 4 * 61706)
        done = on_two_ranks("bench", "scale", "--model", "mlp", "--ranks", "2")
        self.assertIn("it predicts from one process", done.stderr)

    def test_bench(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as shapes:
            shapes.write("tiny c=16 h=9 w=9 out=32 kernel=3 pad=1\n")
            shapes.flush()
            done = run("bench", "conv", "--shapes", shapes.name, "--rounds", "1", "--peer", "onednn", "--json")
        found, known, wrong = document(done), tables(), []
        parts = [("peer", row["peers"]) for row in found["rows"]] + [("summary", found["summary"])]
        if not all(part for _, part in parts):
            self.skipTest("no peer is installed: " + done.stderr)
        for heading, by_name in parts:
            for part in by_name.values():
                compare(part, "", known[heading], set(), wrong)
            by_name.clear()
        compare(found, "", known["clade bench"], set(), wrong)
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    clade.main()
