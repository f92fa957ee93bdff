"""docs/ops.md is made from the tables of ops: `python3 tests/rules/docs_rules.py` writes it, and a rule compares."""

import os
import re
import sys

from tree import files, op_code, read, rows

PAGE = "docs/ops.md"


def sentence(root, path):
    """The first sentence of the comment that a file begins with."""
    text = " ".join(re.match(r"/\*(.*?)\*/", read(root, path), re.S).group(1).replace("\n *", " ").split())
    return re.split(r"(?<=[.])\s", text)[0]


def implementations(root, text):
    """The names in an op's table; a row that is a macro has its name as first argument or in the macro's definition."""
    table = re.search(r"clade_impl \*const \w+\[\] =\s*\{(.*?)NULL,?\s*\};", text, re.S)
    names = []
    for literal, macro, argument in re.findall(
            r'CLADE_IMPL\(\s*\.name = "(\w+)"|(?:^\s*|CLADE_IMPL\(\s*)(CLADE__\w+)(?:\("(\w+)")?',
            table.group(1) if table else "", re.M):
        names.append(literal or argument or macro_name(root, macro))
    return ", ".join(names) if names else "none: a view" if "CLADE_OP_VIEW" in text else "none"


def macro_name(root, macro):
    for path in files(root, ".h"):
        found = re.search(rf'#define {macro}\b.*?\.name = "(\w+)"', read(root, path), re.S)
        if found:
            return found.group(1)
    raise FileNotFoundError(f"no header names the implementation {macro}")


def cell(text):
    return text.replace("|", "\\|") or " "


def page(root):
    out = ["# Ops", "",
           "Made from `src/op/ops.def` and `src/op/eltwise.def` by `python3 tests/rules/docs_rules.py`; a test compares.",
           "", "| op | what it is | implementations | differentiable |", "| --- | --- | --- | --- |"]
    for _, name in rows(root, "src/op/ops.def", "CLADE_OP"):
        source = f"src/op/{name}.c"
        text = op_code(root, name)
        gradient = "yes" if re.search(r"\.grad\s*=\s*\w", text) else "no"
        out.append(f"| `{name}` | {cell(sentence(root, source))} | {implementations(root, text)} | {gradient} |")
    if os.path.exists(os.path.join(root, "src/op/eltwise.def")):
        out += ["", "## Elementwise functions", "",
                "Each serves as an op of its own, inside fused kernels and in the epilogues of other ops. Numbers are "
                "permanent.", "", "| number | name | operands | tested from | to |", "| --- | --- | --- | --- | --- |"]
        for row in rows(root, "src/op/eltwise.def", "ELT"):
            number, name, arity = row[:3]
            low, high = row[13:15]
            out.append(f"| {number} | `{name}` | {arity} | {low} | {high} |")
    return "\n".join(out) + "\n"


def ops_page(root):
    try:
        wanted = page(root)
    except FileNotFoundError as e:
        return [f"{PAGE}:1: cannot be made: {e}"]
    have = read(root, PAGE) if os.path.exists(os.path.join(root, PAGE)) else ""
    return [] if have == wanted else [f"{PAGE}:1: is not what python3 tests/rules/docs_rules.py writes"]


if __name__ == "__main__":
    top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with open(os.path.join(top, PAGE), "w", encoding="utf-8") as f:
        f.write(page(top))
    sys.exit(0)
