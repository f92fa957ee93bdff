"""The tables of docs/performance.md are made from docs/performance/*.json, and a rule compares.
    performance_page.py                        writes the tables into the page
    performance_page.py add FILE < BENCH.json  adds what `clade bench … --json` printed to FILE, then does the same
"""

import datetime
import itertools
import json
import math
import os
import re
import sys

from tree import code, read

PAGE, FOLDER = "docs/performance.md", "docs/performance"
BEGIN, END = "<!-- tables: written by tests/rules/performance_page.py -->\n", "<!-- end of tables -->\n"
SHARED = ("group", "set", "dtype", "pass", "batch")  # what the rows of a run have in common
PASSES = {"fwd": "forward", "bwd-data": "to the data", "bwd-weights": "to the weights"}
NETWORKS = ("resnet50", "mobilenetv2", "vgg16")
BOUNDS = ("spread", "read", "rows", "copy")  # of an op: the first of them that its row has


def mean(group, name, peer, dtypes=("f32",)):
    return [((group, name, dtype, "", 0), peer) for dtype in dtypes]


def layers(peer, batch):
    return [(("conv", "all", "f32", way, batch), peer) for way in PASSES]


def single(group, name, peer, *works):
    return [((group, name, "f32", "", 0, work), peer) for work in works]


AIMS = [  # works, what they are compared with, the aim, where the results are
    ("f32 products: squares of 512 to 4096", "OpenBLAS", "0.95, none below 0.88", mean("gemm", "squares", "openblas")),
    ("f32 products: squares of 64, 128, 256, ten calls in a row", "OpenBLAS", "0.45, 0.75, 0.95",
     single("gemm", "small", "openblas", "64", "128", "256")),
    ("f32 products: 40 of networks", "OpenBLAS", "1.1, none below 0.8", mean("gemm", "networks", "openblas")),
    ("f32 products: squares of 512 and more", "CLBlast", "5", mean("gemm", "squares", "clblast")),
    ("i8 and bf16 products, packed weights", "oneDNN", "1.0", mean("gemm", "frozen", "onednn", ("i8", "bf16"))),
    ("convolution, 62 layers of ResNet-50, MobileNetV2 and VGG-16, batch 1: forward, to the data, to the weights", "oneDNN, NCHW", "1.1, none below 0.7",
     layers("onednn_nchw", 1)),
    ("the same", "oneDNN, own layouts", "0.88, 0.8, 0.8", layers("onednn", 1)),
    ("convolution, 62 layers, batch 16: the same passes", "oneDNN, NCHW", "1.1, none below 0.7", layers("onednn_nchw", 16)),
    ("the same", "oneDNN, own layouts", "0.88, 0.8, 0.8", layers("onednn", 16)),
]
MODELS = {"pytorch": ("PyTorch", "aim 1.0; of LeNet-5 2"), "pytorch_nhwc": ("PyTorch, channels last", "aim 1.2 in bf16"),
          "onnxruntime": ("ONNX Runtime", "aim 0.9"), "onednn": ("oneDNN's layers", "aim 1.0")}
FAMILIES = [("pooling", "pool"), ("softmax", "softmax"), ("normalization", "norm"), ("sums, `arg_max`", "^(sum|arg_max|bias_grad)"),
            ("moved elements", "^(transpose|nchw|heads|concat|slice|pad)"), ("rows at random", "^(gather|embedding)"),
            ("updates", "^(sgd|momentum|adam)"), ("elementwise", "")]  # the first that its name holds


def processors(root):
    """A processor may have several files, since none may be long: their runs are joined."""
    found = {}
    for name in sorted(os.listdir(os.path.join(root, FOLDER))):
        new = json.loads(read(root, f"{FOLDER}/{name}"))
        old = found.setdefault(new["processor"], {"runs": []})
        found[new["processor"]] = {**new, **old, "runs": old["runs"] + new["runs"]}
    return list(found.values())


def key_of(run):
    return tuple(run.get(name, unset) for name, unset in zip(SHARED, ("", "", "f32", "", 0)))


def geomean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def results(runs):
    """By key and peer a mean; by key, work and peer the ratios that one run has. Later runs replace earlier ones, and a
    summary, which transcribed runs have, goes before what rows give."""
    means, works = {}, {}
    for run in runs:
        key, ratios = key_of(run), {}
        for row in run.get("rows", []):
            for peer, told in row.get("peers", {}).items():
                ratios.setdefault(peer, {}).setdefault(row["work"], []).append(told["ratio"])
        for peer, rows in ratios.items():
            every = sum(rows.values(), [])
            means.setdefault(key, {})[peer] = {"geomean": geomean(every), "min": min(every), "n": len(every)}
            for work, of_work in rows.items():
                works.setdefault((*key, work), {})[peer] = of_work
    for run in runs:
        means.setdefault(key_of(run), {}).update(run.get("summary", {}))
    for batch in {key[4] for key in means if key[0] == "conv"}:
        for way in PASSES:
            parts = [means.get(("conv", name, "f32", way, batch), {}) for name in NETWORKS]
            joint = means.setdefault(("conv", "all", "f32", way, batch), {})
            for peer in set.intersection(*map(set, parts)) - set(joint):
                n = sum(part[peer]["n"] for part in parts)
                joint[peer] = {"geomean": math.exp(sum(p[peer]["n"] * math.log(p[peer]["geomean"]) for p in parts) / n),
                               "min": min(part[peer]["min"] for part in parts), "n": n}
    return means, works


def figure(value):
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def span(values):
    low, high = figure(min(values)), figure(max(values))
    return low if low == high else f"{low} to {high}"


def reached(where, means, works):
    """The cell of an aim; empty where a result is missing."""
    if len(where[0][0]) > len(SHARED):
        found = [works.get(key, {}).get(peer) for key, peer in where]
        return ", ".join(map(span, found)) if all(found) else ""
    found = [means.get(key, {}).get(peer) for key, peer in where]
    if not all(found):
        return ""
    if not all("geomean" in m for m in found):
        return ", ".join(span([m["min"], m["max"]]) for m in found)
    text = ", ".join(figure(m["geomean"]) for m in found)
    for field, word in (("min", "least"), ("min_again", "again")):
        if all(field in m for m in found):
            text += f"; {word} " + ", ".join(figure(m[field]) for m in found)
    return text


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(cell or " " for cell in line) + " |" for line in lines] + [""] if rows else []


def convolutions(means):
    keys = [key for key in means if key[0] == "conv" and key[1] != "all"]
    batches = sorted({key[4] for key in keys})
    rows = []
    for name in sorted({key[1] for key in keys}, key=lambda name: (NETWORKS + (name,)).index(name)):
        cells = []
        for batch, peer in itertools.product(batches, ("onednn", "onednn_nchw")):
            found = [m[peer] for m in (means.get(("conv", name, "f32", way, batch), {}) for way in PASSES) if peer in m]
            cells.append("; least ".join(", ".join(f"{m[field]:.2f}" for m in found) for field in ("geomean", "min")) if found else "")
        rows += [[name or "others", *cells]] if any(cells) else []
    head = [f"batch {batch}, {of}" for batch in batches for of in ("own layouts", "NCHW")]
    return table(["convolutions beside oneDNN: " + ", ".join(PASSES.values()), *head], rows)


def label(key):
    return f"`{key[-1]}`" + ("" if key[2] == "f32" else f" {key[2]}")


def bound_of(peers):
    return next(name for name in BOUNDS if name in peers)


def ops(means, works):
    families, best = {name: [] for name, _ in FAMILIES}, []
    for key, peers in sorted(works.items()):
        if key[0] == "op":
            bound = bound_of(peers)
            best.append(max(peers[bound]))
            family = next(name for name, part in FAMILIES if re.search(part, key[-1]))
            families[family].append(f"{label(key)} {span(peers[bound])}" + ("" if bound == "copy" else f" of `{bound}`"))
    told = means.get(("op", "", "f32", "", 0), {}).get("bound") or \
        {"reached": sum(ratio >= 0.9 for ratio in best), "n": len(best)}
    return table(["ops bound by memory", f"fraction of a copy's speed, or of `read`, `rows`, `spread`; {told['reached']} of {told['n']} reach the aim of 0.9"],
                 [[name, ", ".join(cells)] for name, cells in families.items() if cells])


def models(works):
    rows = [[label(key)] + [span(of[peer]) if peer in of else "" for peer in MODELS]
            for key, of in sorted(works.items(), key=lambda item: item[0][::-1]) if key[0] == "model"]
    return table(["model", *(f"{name} ({aim})" for name, aim in MODELS.values())], rows)


def section(doc):
    means, works = results(doc["runs"])
    dates = sorted({run["date"] for run in doc["runs"] if "date" in run})
    about = [f"{name}: {doc[name]}" for name in ("vectors", "caches", "memory", "software", "threads") if doc.get(name)]
    about += ["dates: " + " to ".join(sorted({dates[0], dates[-1]}))] if dates else []
    about += ["**transcribed**"] if doc.get("transcribed") else []
    aims = [[what, of, aim, reached(where, means, works)] for what, of, aim, where in AIMS]
    out = [f"## {doc['processor']}", "", "; ".join(about) + ".", *(f"- {note}" for note in doc.get("notes", [])), ""]
    out += table(["case", "compared with", "aim", "reached"], [row for row in aims if row[-1]])
    out += models(works) + convolutions(means) + ops(means, works)
    for extra in doc.get("tables", []):
        out += table(extra["columns"], extra["rows"])
    return out


def page(root):
    text = read(root, PAGE)
    if BEGIN not in text or END not in text:
        raise ValueError("the comments between which the tables stand are missing")
    tables = [line for doc in processors(root) for line in section(doc)]
    return text[:text.index(BEGIN)] + BEGIN + "\n" + "\n".join(tables) + "\n" + text[text.index(END):]


def measured_page(root):
    try:
        wanted = page(root)
    except (OSError, ValueError, KeyError) as e:
        return [f"{PAGE}:1: cannot be made: {type(e).__name__}: {e}"]
    return [] if read(root, PAGE) == wanted else [f"{PAGE}:1: is not what python3 tests/rules/performance_page.py writes"]


# ---- add ----
def sets(root):
    """The sets of each work that clade bench knows by name, by group, work and sizes."""
    found = {}
    for group in ("gemm", "conv"):
        text = code(read(root, f"src/cli/bench/{group}_sets.c"))
        for name, lines in re.findall(r'\{"(\w+)",\s*((?:"[^"]*"\s*)+)\}', text):
            for line in filter(None, "".join(re.findall(r'"([^"]*)"', lines)).split("\\n")):
                work, *sizes = line.split()
                found.setdefault((group, work, frozenset(s if "=" in s else s + "=1" for s in sizes)), []).append(name)
    return found


def dumped(doc):
    """JSON with a line for each row."""
    def entry(item):
        rows = item.get("rows") if isinstance(item, dict) else None
        text = json.dumps({k: v for k, v in item.items() if k != "rows"} if rows else item, ensure_ascii=False)
        return text if not rows else text[:-1] + ', "rows": [\n  ' + ",\n  ".join(
            json.dumps(row, ensure_ascii=False) for row in rows) + "]}"

    return "{" + ",\n ".join(
        f"{json.dumps(name)}: " + ("[\n " + ",\n ".join(map(entry, value)) + "]" if isinstance(value, list) and value
                                  else json.dumps(value, ensure_ascii=False)) for name, value in doc.items()) + "}\n"


def shorter(row):
    """What is kept of a row: what the page shows, and how it was obtained."""
    kept = {name: float(f"{row[name]:.4g}") if isinstance(row[name], float) else row[name] for name in (
        "work", "shape", "impl", "chain", "rounds", "seconds", "gflops", "gbs", "images_per_s") if row.get(name)}
    kept["peers"] = {name: {"ratio": round(peer["ratio"], 3)} for name, peer in row["peers"].items()}
    return kept


def add(root, path, bench):
    """Rows of works that the file has already are replaced."""
    doc = {"processor": bench["machine"]["cpu"], "caches": "", "software": f"{bench['device']['platform']}",
           "threads": bench["device"]["compute_units"], "notes": [], "runs": []}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            doc = json.load(f)
    if doc.get("transcribed"):
        raise ValueError(f"{path}: its figures are of earlier pages; expected a file of your own")
    named, runs = sets(root), {key_of(run): run for run in doc["runs"]}
    for row in bench["rows"]:
        sizes = row["shape"].split()
        batch = int(sizes.pop(0)[2:]) if row["group"] == "conv" else 0
        of = named.get((row["group"], row["work"], frozenset(sizes)), [""])[0 if row["dtype"] == "f32" else -1]  # frozen is last
        run = {"group": row["group"], "set": of, "dtype": row["dtype"], "pass": row["pass"] if row["group"] == "conv" else "",
               "batch": batch, "rows": []}
        run = runs.setdefault(key_of(run), run)
        run.update(date=datetime.date.today().isoformat(), busy=round(bench["machine"]["busy"], 2))
        run["rows"] = [old for old in run["rows"] if old["work"] != row["work"]] + [shorter(row)]
    doc["runs"] = list(runs.values())
    with open(path, "w", encoding="utf-8") as f:
        f.write(dumped(doc))


def main(top, what="", path=""):
    if what == "add":
        add(top, path, json.load(sys.stdin))
    text = page(top)
    with open(os.path.join(top, PAGE), "w", encoding="utf-8") as f:
        f.write(text)


if __name__ == "__main__":
    main(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), *sys.argv[1:])
