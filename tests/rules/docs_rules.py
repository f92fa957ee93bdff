"""Rules for pages: docs/ops.md is what `python3 tests/rules/docs_rules.py` makes of the tables of ops, links lead to files
and headings that exist, and the index lists every page."""

import os
import re
import sys

import api_reference
from tree import files, line_of, op_code, op_sources, read, rows

PAGE, INDEX = "docs/ops.md", ("docs/README.md", "README.md")


def sentence(root, path):
    """The first sentence of the comment that a file begins with."""
    text = " ".join(re.match(r"/\*(.*?)\*/", read(root, path), re.S).group(1).replace("\n *", " ").split())
    return re.split(r"(?<=[.])\s", text)[0]


def implementations(root, text):
    """The names in an op's table; a row that is a macro has its name as first argument or in the macro's definition. A
    row may be the address of an implementation, which CLADE__SYSTOLIC stands for."""
    table = re.search(r"clade_impl \*const \w+\[\] =\s*\{(.*?)NULL,?\s*\};", text, re.S)
    rows = re.sub(r"CLADE__SYSTOLIC\((\w+)\)", r"\n&clade__systolic_\1,", table.group(1) if table else "")
    names = []
    for literal, macro, argument, row in re.findall(
            r'CLADE_IMPL\(\s*\.name = "(\w+)"|(?:^\s*|CLADE_IMPL\(\s*)(CLADE__\w+)(?:\("(\w+)")?|^\s*&(clade__\w+),',
            rows, re.M):
        names.append(literal or argument or (row_name(root, row) if row else macro_name(root, macro)))
    return ", ".join(names) if names else "none: a view" if "CLADE_OP_VIEW" in text else "none"


def macro_name(root, macro):
    for path in files(root, ".h"):
        found = re.search(rf'#define {macro}\b.*?\.name = "(\w+)"', read(root, path), re.S)
        if found:
            return found.group(1)
    raise FileNotFoundError(f"no header names the implementation {macro}")


def row_name(root, row):
    for path in files(root, ".c"):
        found = re.search(rf'^const clade_impl {row} =.*?\.name = "(\w+)"', read(root, path), re.S | re.M)
        if found:
            return found.group(1)
    raise FileNotFoundError(f"no file defines the implementation {row}")


def cell(text):
    return text.replace("|", "\\|") or " "


def page(root):
    out = ["# Ops", "",
           "Made from `src/op/ops.def` and `src/op/eltwise.def` by `python3 tests/rules/docs_rules.py`; a test compares.",
           "", "| op | what it is | implementations | differentiable |", "| --- | --- | --- | --- |"]
    sources = op_sources(root)
    for _, name in rows(root, "src/op/ops.def", "CLADE_OP"):
        source = sources[name]
        text = op_code(root, source)
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


FENCE = re.compile(r"^( *)(`{3,})[^`\n]*\n.*?^\1\2", re.M | re.S)
CODE = re.compile(r"`[^`\n]+`")
LINK = re.compile(r"\[[^\[\]]*\]\(([^()\s]+)\)")
MENTION = re.compile(r"\bdocs/[\w/-]+\.md\b")


def prose(text):
    """A page without its code; lines and columns stay where they are."""
    for code in (FENCE, CODE):
        text = code.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), text)
    return text


def anchors(text):
    """The anchors that GitHub gives a page's headings."""
    found = set()
    for title in re.findall(r"^#{1,6} +(.*?) *#*$", FENCE.sub("", text), re.M):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
        slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        found.add(slug if slug not in found else next(f"{slug}-{n}" for n in range(1, 99) if f"{slug}-{n}" not in found))
    return found


def links(root):
    """Each relative link of a page leads to a file and a heading, and each page that a file names exists."""
    bad = []
    for path in files(root, ".md"):
        text = prose(read(root, path))
        for m in LINK.finditer(text):
            name, _, anchor = m.group(1).partition("#")
            if re.match(r"[a-z]+:", name):
                continue
            target = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
            at = f"{path}:{line_of(text, m.start())}"
            if not os.path.exists(os.path.join(root, target)):
                bad.append(f"{at}: links to {name}, which does not exist")
            elif anchor and (not target.endswith(".md") or anchor not in anchors(read(root, target))):
                bad.append(f"{at}: links to {m.group(1)}, and {target} has no such heading")
    for path in files(root, ".c", ".h", ".hpp", ".cl", ".def", ".py", ".sh", ".md", ".txt", ".cmake", ".json", "quickstart"):
        if path.startswith("tests/rules/"):
            continue
        text = prose(read(root, path)) if path.endswith(".md") else read(root, path)
        bad += [f"{path}:{line_of(text, m.start())}: names {m.group(0)}, which does not exist"
                for m in MENTION.finditer(text) if not os.path.exists(os.path.join(root, m.group(0)))]
    return bad


def index(root):
    """docs/README.md or README.md links to each page of docs/."""
    listed = {os.path.normpath(os.path.join(os.path.dirname(path), m.group(1).partition("#")[0]))
              for path in INDEX if os.path.exists(os.path.join(root, path)) for m in LINK.finditer(read(root, path))}
    return [f"{INDEX[0]}:1: does not link to {path}" for path in files(root, ".md")
            if os.path.dirname(path) == "docs" and path not in INDEX and path not in listed]


if __name__ == "__main__":
    top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with open(os.path.join(top, PAGE), "w", encoding="utf-8") as f:
        f.write(page(top))
    api_reference.write(top)
    sys.exit(0)
