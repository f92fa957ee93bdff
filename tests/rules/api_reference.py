"""docs/api is made from the public headers: a page for each, and an index. `python3 tests/rules/docs_rules.py` writes the
pages, and a rule compares. headers.py says how comments belong to declarations; each needs one."""

import os
import re

import headers
from headers import words
from tree import files, read

FOLDER = "docs/api"
INDEX = f"{FOLDER}/README.md"
MADE = "Made from `include/clade/{}` by `python3 tests/rules/docs_rules.py`; a test compares."
WIDTH, NAMES = 108, 4
UNCOMMENTED = {"size", "filled"}  # of structs: the index explains both
NAME = re.compile(r"\b(?:clade|CLADE)_\w+")


def page_of(header):
    return header.replace(".hpp", "-hpp").replace(".h", "") + ".md"


def paths(root):
    return [path for path in files(os.path.join(root, "include/clade"), ".h", ".hpp")]


def source(root, header):
    """A header's text; C++ comments become C's."""
    text = read(root, f"include/clade/{header}")
    if header.endswith(".hpp"):
        text = re.sub(r"^[ ]*//.*(?:\n[ ]*//.*)*", lambda m: "/* " + re.sub(
            r"\n[ ]*//", "\n *", re.sub(r"^[ ]*// ?", "", m.group(0))) + " */", text, flags=re.M)
        text = re.sub(r"[ ]//[ ]?(.*)", r" /* \1 */", text).replace("}\n\ninline ", "}\ninline ")
    return text


class Reference:
    """All headers, and what is known of their names."""

    def __init__(self, root):
        self.root = root
        self.headers, macros = {}, {}
        texts = {header: source(root, header) for header in paths(root)}
        for header, text in texts.items():
            if not header.endswith(".hpp"):
                macros.update(headers.macros_of(text))
        self.macros = macros
        self.known, self.functions, self.structs = {}, {}, {}  # name: (page, anchor); name: declaration
        for header, text in texts.items():
            reader = self.headers[header] = headers.Reader(text, macros)
            for entry in self.entries(reader):
                for declaration in entry.declarations:
                    self.learn(header, declaration, slug(heading(entry)))

    @staticmethod
    def entries(reader):
        return [entry for section in reader.sections for entry in section.entries]

    def learn(self, header, declaration, anchor):
        if header.endswith(".hpp"):
            return
        self.known[declaration.name] = (page_of(header), anchor)
        if declaration.kind == "function":
            self.functions[declaration.name] = declaration
        if declaration.kind == "struct":
            self.structs[declaration.name] = declaration
        if declaration.kind == "enum":
            for text, _, _, _ in declaration.rows:
                self.known[re.match(r"\w*", text).group(0)] = (page_of(header), anchor)

    # ---- prose ----
    def inline(self, text, here, own):
        """A line of prose: names, calls, members and files become code and links, and other signs are quoted."""
        out, at, linked = "", 0, set(own)
        pattern = re.compile(r"`[^`]*`|<(clade/[\w.]+)>|\bdocs/[\w.-]+\.md|\b(?:clade|CLADE)_\w+(?:\(|[.=]\w+)?|(?<![\w.\])/])\.[a-z]\w*(?!\w)")
        for m in iter(lambda: pattern.search(text, at), None):
            out += quoted(text[at:m.start()])
            word, at = m.group(0), m.end()
            if word.startswith("docs/"):
                out += f"[{word}](../{word[5:]})"
            elif m.group(1):
                header = m.group(1)[6:]
                out += f"[`{word}`]({page_of(header)})" if header in self.headers else f"`{word}`"
            elif word[0] in "`.":
                out += f"`{word}`" if word[0] == "." else word
            else:
                name = NAME.match(word).group(0)
                if word.endswith("("):
                    at = headers.balanced(text, at - 1)
                code = f"`{text[m.start():at]}`"
                if name in self.known and name not in linked and not word.endswith("("):
                    page, anchor = self.known[name]
                    code = f"[{code}]({'' if page == here else page}#{anchor})"
                    linked.add(name)
                out += code
        return out + quoted(text[at:])

    def prose(self, text, here, own=()):
        """Paragraphs, lists and, indented, preformatted lines of a comment."""
        blocks, kind = [], None
        for line in text.split("\n"):
            indent = len(line) - len(line.lstrip())
            if not line.strip():
                kind = "pre" if kind == "pre" else None
                if kind:
                    blocks[-1][1].append("")
                continue
            if line.startswith("- "):
                now = "item"
            elif indent >= 2 and kind != "item":
                now = "pre"
            else:
                now = "item+" if kind == "item" and indent else "text"
            if now == "item+" or (now == kind and now in ("text", "pre")):
                blocks[-1][1].append(line)
            else:
                blocks.append((now, [line]))
            kind = "item" if now == "item+" else now
        return "\n".join(self.block(*block, here, own) for block in blocks).replace("\n\n\n", "\n\n").strip("\n")

    def block(self, kind, lines, here, own):
        if kind == "pre":
            while not lines[-1]:
                lines.pop()
            least = min(len(line) - len(line.lstrip()) for line in lines if line)
            return "\n" + fenced("\n".join(line[least:] for line in lines), "c" if NAME.match(lines[0].strip()) else "") + "\n"
        text = self.inline(words(" ".join(lines)), here, own)
        return text if kind == "item" else text + "\n"

    # ---- declarations ----
    def call(self, macro):
        """A call with options as C's programs write it, with its types; None: the macro is no such call."""
        body = headers.expand(macro.body, {name: m for name, m in self.macros.items() if re.fullmatch(r"CLADE_\w+_OPT", name)})
        function = self.functions.get(next(iter(re.findall(r"\b(clade_\w+_)\(", body)), ""))
        options = re.search(r"CLADE_OPT(?:_FROM)?\((clade_\w+), (?:\w+, )?(?:\.(\w+) = )?__VA_ARGS__", body)
        if not function or not options:
            return None
        result, given = re.match(r"(.*?)\b\w+\((.*)\)$", function.text).groups()
        parts = headers.arguments(given)[:-1]
        first = next((text for text, _, _, _ in self.structs[options.group(1)].rows
                      if re.search(rf"\b{options.group(2)}$", text.split(",")[0])), None) if options.group(2) else None
        parts += [first] if first else []
        return f"{result}{macro.name}({', '.join(parts)}{' [, .option = …]' if parts else '[.option = …]'});"

    def code(self, declaration):
        """What the page shows of it."""
        if declaration.kind == "macro":
            takes = declaration.params
            if takes is None or takes == ["ROW"]:
                return table_of(declaration.text)
            return self.call(declaration) or f"#define {declaration.name}({', '.join(takes)})"
        return wrapped(declaration.text + ";")

    def rows(self, declaration, here):
        if declaration.kind == "enum" and not any(comment for _, _, comment, _ in declaration.rows):
            return fenced(wrapped(declaration.text + ";"), "c")
        if declaration.kind == "enum":
            return table(["constant", "meaning"], [
                [code_of(text), self.inline(words(comment), here, ())] for text, _, comment, _ in declaration.rows])
        rows = [row for row in declaration.rows if not set(member_names(row[0])) <= UNCOMMENTED | {"reserved"}]
        defaults = any(default for _, default, _, _ in rows)
        head = ["member"] + (["default"] if defaults else []) + ["meaning"]
        return table(head, [[code_of(text)] + ([code_of(default)] if defaults else [])
                            + [self.inline(words(comment), here, ())] for text, default, comment, _ in rows])

    def entry(self, entry, here):
        names = [d.name for d in entry.declarations]
        out = f"### {heading(entry)}\n\n"
        texts = [entry.comment] + [d.comment for d in entry.declarations if d.comment]
        out += "".join(self.prose(sentence(text), here, names) + "\n\n" for text in texts if text)
        code = [self.code(d) for d in entry.declarations if d.kind not in ("struct", "enum")]
        rows = [self.rows(d, here) for d in entry.declarations if d.kind in ("struct", "enum")]
        return out + "".join(f"{part}\n\n" for part in rows + ([fenced("\n".join(code), "c")] if code else []))

    # ---- pages ----
    def page(self, header):
        reader, here = self.headers[header], page_of(header)
        out = f"# `<clade/{header}>`\n\n{MADE.format(header)}\n\n{self.prose(reader.introduction, here)}\n\n"
        for section in reader.sections:
            if section.title:
                out += f"## {section.title[0].upper()}{section.title[1:]}\n\n"
            if section.text:
                out += self.prose(section.text, here) + "\n\n"
            out += "".join(self.entry(entry, here) for entry in section.entries)
        return out.rstrip("\n") + "\n"

    def index(self):
        out = ["# API reference", "", MADE.format(""), "",
               "Structs that begin with a member `size` can grow in later versions: `size` is the size that the program was "
               "compiled with. Macros of calls with options set it; otherwise the program does. `filled` is set by the macro "
               "of a struct's defaults, such as `CLADE_ADAM_OPT`. "
               + self.inline("<clade/options.h> explains options.", "README.md", ()), "",
               "| header | contents |", "| --- | --- |"]
        for header, reader in self.headers.items():
            first = re.split(r"(?<=[.])\s", words(reader.introduction))[0]
            out.append(f"| [`<clade/{header}>`]({page_of(header)}) | {self.inline(first, 'README.md', ())} |")
        out += ["", "## Names", ""]
        for header, reader in self.headers.items():
            names = [d.name for e in self.entries(reader) for d in e.declarations if self.known.get(d.name, [""])[0] == page_of(header)]
            names = [name for name in dict.fromkeys(names) if not (name.endswith("_") and name[:-1] in names)]
            if names:
                out += [f"`<clade/{header}>`: " + ", ".join(f"[`{name}`]({'#'.join(self.known[name])})" for name in names), ""]
        return "\n".join(out).rstrip("\n") + "\n"

    def pages(self):
        return {INDEX: self.index(), **{f"{FOLDER}/{page_of(header)}": self.page(header) for header in self.headers}}

    def uncommented(self):
        bad = []
        for header, reader in self.headers.items():
            if not reader.introduction:
                bad.append(f"include/clade/{header}:1: does not say what it holds")
            for entry, section in [(entry, section) for section in reader.sections for entry in section.entries]:
                for d in entry.declarations:
                    if not (d.comment or entry.comment or (header.endswith(".hpp") and section.text)):
                        bad.append(f"include/clade/{header}:{d.line}: {d.name} has no comment")
                    if d.kind == "struct" or (d.kind == "enum" and not entry.comment and not d.comment):
                        bad += [f"include/clade/{header}:{line}: {d.name}.{member_names(text)[0]} has no comment"
                                for text, _, comment, line in d.rows
                                if not comment and not set(member_names(text)) <= UNCOMMENTED]
        return bad


def heading(entry):
    """The names of an entry, without those of functions behind macros of the same name."""
    names = [d.name for d in entry.declarations]
    names = [f"`{name}`" for name in names if not (name.endswith("_") and name[:-1] in names)]
    return ", ".join(names) if len(names) <= NAMES else ", ".join(names[:NAMES - 1]) + " and others"


def slug(title):
    """The anchor of a heading."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def member_names(text):
    if not text:
        return [text]
    pointer = re.search(r"\(\*(\w+)\)", text)
    return [pointer.group(1)] if pointer else [re.search(r"(\w+)(?:\[.*)?$", part.strip()).group(1)
                                               for part in headers.arguments(text)]


def sentence(text):
    """A comment behind a declaration begins as a sentence and ends as one."""
    text = text[0].upper() + text[1:] if re.match(r"(a|[a-z]{2,})[ ,:;]", text) else text
    return text if re.search(r"[.:;)/]$", text.rstrip()) or "\n" in text else text + "."


def code_of(text):
    return f"`{text}`" if text else ""


def quoted(text):
    return re.sub(r"([\\*<|])", r"\\\1", text)


def fenced(text, language):
    return f"```{language}\n{text}\n```"


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(re.sub(r"(?<!\\)\|", r"\\|", cell) for cell in row) + " |" for row in lines)


def table_of(text):
    """A macro's definition; rows of a table on lines of their own."""
    rows = re.split(r" (?=ROW\()", text)
    return text if len(text) <= WIDTH else " \\\n    ".join(rows)


def wrapped(text):
    """A declaration on lines of at most WIDTH."""
    if len(text) <= WIDTH or "(" not in text or re.match("class |template ", text):
        return text
    at = text.index("(") + 1
    parts, lines = headers.arguments(text[at:text.rindex(")")]), [text[:at]]
    for i, part in enumerate(parts):
        part += "," if i + 1 < len(parts) else text[text.rindex(")"):]
        if len(lines[-1]) + len(part) >= WIDTH:
            lines.append("   ")
        lines[-1] += ("" if lines[-1].endswith("(") else " ") + part
    return "\n".join(lines)


def api_pages(root):
    reference = Reference(root)
    wanted = reference.pages()
    have = {path for path in files(root, ".md") if path.startswith(FOLDER + "/")}
    return reference.uncommented() + [
        f"{path}:1: is not what python3 tests/rules/docs_rules.py writes" for path in sorted(set(wanted) | have)
        if path not in wanted or path not in have or read(root, path) != wanted[path]]


def write(root):
    wanted = Reference(root).pages()
    os.makedirs(os.path.join(root, FOLDER), exist_ok=True)
    for path in files(root, ".md"):
        if path.startswith(FOLDER + "/") and path not in wanted:
            os.remove(os.path.join(root, path))
    for path, text in wanted.items():
        with open(os.path.join(root, path), "w", encoding="utf-8") as f:
            f.write(text)
