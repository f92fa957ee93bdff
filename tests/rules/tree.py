"""Access to the source tree for the rules: its files, and C sources without comments or strings."""

import functools
import os
import re

SKIPPED = (".git", "__pycache__")


def files(root, *endings):
    """All project files as paths relative to root, sorted; optionally only those with these endings."""
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [f for f in folders if f not in SKIPPED and not (folder == root and f.startswith("build"))]
        for name in names:
            if not endings or name.endswith(endings):
                found.append(os.path.relpath(os.path.join(folder, name), root))
    return sorted(found)


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as f:
        return f.read()


TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


@functools.cache
def code(text, strings=True):
    """C source with comments blanked, and strings too unless `strings`; line numbers are kept."""

    def blank(match):
        token = match.group(0)
        if strings and token[0] in "\"'":
            return token
        return re.sub(r"[^\n]", " ", token)

    return TOKEN.sub(blank, text)


def line_of(text, at):
    return text.count("\n", 0, at) + 1


def includes(root, path):
    """(line, header, is it <…>) for each include of a source."""
    return includes_of(read(root, path))


@functools.cache
def includes_of(text):
    text = code(text)
    found = re.finditer(r'^[ \t]*#[ \t]*include[ \t]+(["<])([^">]+)[">]', text, re.M)
    return [(line_of(text, m.start()), m.group(2), m.group(1) == "<") for m in found]


def op_sources(root):
    """The source that defines each op."""
    found = {}
    for path in files(root, ".c"):
        if path.startswith("src/op/"):
            found.update({name: path for name in re.findall(r"^const clade_op clade__op_(\w+) =", read(root, path), re.M)})
    return found


def op_code(root, source):
    """The code of an op: its source NAME.c, optionally NAME_….c beside it, or the table that it shares, from its row on."""
    own = [p for p in files(root, ".c") if p.startswith((source[:-2] + ".", source[:-2] + "_"))]
    texts = [code(read(root, p)) for p in own]
    shared = re.search(r"\.impls = clade__(\w+_impls)(?: \+ (\d+))?", code(read(root, source)))
    for path in files(root, ".c") if shared else []:
        table = code(read(root, path))
        if path not in own and f"clade_impl *const clade__{shared.group(1)}[] =" in table:
            for macro, body in re.findall(r"^#define (\w+) +\\\n((?:.*\\\n)*.*)", table, re.M):  # rows of several tables
                body = re.sub(r", (?=&|CLADE__)", ",\n", body.replace("\\\n", "\n"))
                own_rows = re.search(shared.group(1) + r"\[\] = \{(.*?)" + macro, table, re.S)
                table = f"clade_impl *const {shared.group(1)}[] = {{\n{own_rows.group(1)}\n{body}}};\n{table}"
            if shared.group(2):
                table = re.sub(r'CLADE_IMPL\(\.name = "\w+"|&clade__\w+,', "", table, count=int(shared.group(2)))
            texts.insert(0, table)
    return "\n".join(texts)


def rows(root, path, macro):
    """The arguments of each row MACRO(…) of a table, as strings; commas within parentheses do not separate."""
    text = code(read(root, path))
    found = []
    for m in re.finditer(r"^" + macro + r"\(", text, re.M):
        depth, at, start, arguments = 1, m.end(), m.end(), []
        while depth and at < len(text):
            c = text[at]
            if c == '"':
                at = re.compile(r'"(?:\\.|[^"\\])*"').match(text, at).end() - 1
            depth += (c == "(") - (c == ")")
            if depth == 0 or (c == "," and depth == 1):
                arguments.append(" ".join(text[start:at].split()))
                start = at + 1
            at += 1
        found.append(arguments)
    return found
