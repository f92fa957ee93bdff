"""Reading public headers for docs/api: declarations with their comments.

A header is read as C compiles it. Its comments belong to declarations as follows:

- the first comment is the introduction of the header;
- `/* ---- title ---- */` begins a section, and text behind the title introduces it;
- a comment in front of a declaration describes it and those that follow without a blank line;
- a comment behind a declaration, a member or an enumerator describes that one.
"""

import re
from dataclasses import dataclass, field

TOKEN = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)
UNSET = re.compile(r"\s*\bCLADE_UNSET\b")
ENDINGS = re.compile(r"\s*\bCLADE_PRINTF\([^)]*\)")
TRUE = {"ifndef": lambda name: True, "ifdef": lambda name: False,
        "if": lambda name: "__GNUC__" in name and "clang" not in name}


@dataclass
class Declaration:
    kind: str  # macro, struct, enum, function or typedef
    name: str
    text: str  # without comments and attributes
    line: int
    comment: str = ""
    rows: list = field(default_factory=list)  # of members or enumerators: (text, default, comment, line)
    params: list = None  # of a macro; None: it takes none
    body: str = ""


@dataclass
class Entry:
    comment: str
    declarations: list


@dataclass
class Section:
    title: str
    text: str
    entries: list


def words(text):
    return " ".join(text.split())


def without_comments(text):
    return TOKEN.sub(lambda m: m.group(0) if m.group(0)[0] == '"' else " ", text)


def comment_text(raw):
    """What a comment says, without its frame; lines stay."""
    text = re.sub(r"^/\*+[ ]?|\s*\*+/$", "", raw)
    return "\n".join(re.sub(r"^\s*\* ?", "", line) if i else line for i, line in enumerate(text.split("\n"))).strip("\n")


def balanced(text, at, opening="(", closing=")"):
    """The index behind the bracket that closes the one at `at`."""
    depth = 0
    while at < len(text):
        token = TOKEN.match(text, at)
        if token:
            at = token.end()
            continue
        depth += (text[at] == opening) - (text[at] == closing)
        at += 1
        if not depth:
            return at
    raise ValueError("a bracket is not closed")


def arguments(text):
    """Splits at commas outside of brackets and strings."""
    found, depth, start, at = [], 0, 0, 0
    while at < len(text):
        token = TOKEN.match(text, at)
        if token:
            at = token.end()
            continue
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if text[at] == "," and not depth:
            found.append(text[start:at])
            start = at + 1
        at += 1
    return [words(argument) for argument in found + [text[start:]]]


def expand(text, macros):
    """Replaces calls of function-like macros, as a preprocessor would."""
    at = 0
    while True:
        call = re.compile(r"\b(\w+)\(").search(text, at)
        if not call:
            return text
        macro = macros.get(call.group(1))
        if not macro or macro.params is None:
            at = call.end()
            continue
        end = balanced(text, call.end() - 1)
        given = arguments(text[call.end():end - 1])
        values = dict(zip(macro.params, given))
        if macro.params and macro.params[-1] == "...":
            values["__VA_ARGS__"] = ", ".join(given[len(macro.params) - 1:])
        body = re.sub(r"\b\w+\b", lambda m: values.get(m.group(0), m.group(0)), macro.body)
        text = text[:call.start()] + re.sub(r"\s*##\s*", "", body) + text[end:]
        at = call.start()


def active_lines(text):
    """(number, line) of what C compiles, without includes; conditions are taken as GCC in C has them."""
    taken, kept = [], []
    for number, line in enumerate(text.split("\n"), 1):
        directive = re.match(r"\s*#\s*(\w+)\s*(.*)", line)
        word = directive.group(1) if directive else ""
        if word in TRUE:
            taken.append([TRUE[word](directive.group(2))])
        elif word == "elif":
            taken[-1].append(not any(taken[-1]) and TRUE["if"](directive.group(2)))
        elif word == "else":
            taken[-1].append(not any(taken[-1]))
        elif word == "endif":
            taken.pop()
        elif all(branch[-1] for branch in taken) and word != "include":
            kept.append((number, line))
    return kept


def macro_of(text, line):
    found = re.match(r"\s*#\s*define\s+(\w+)(\(([^)]*)\))?(.*)", text, re.S)
    params = None if found.group(2) is None else [p.strip() for p in found.group(3).split(",") if p.strip()]
    return Declaration("macro", found.group(1), words(text), line, params=params,
                       body=words(without_comments(found.group(4))))


def rows_of(body, line, separator):
    """Members (`;`) or enumerators (`,`): (text, line, comment). A comment before one that has its own is a row without text."""
    found, pending, at, start, depth = [], "", 0, 0, 0
    body += separator  # the last enumerator has none
    while at < len(body):
        token = TOKEN.match(body, at)
        if token:
            if token.group(0)[0] == "/" and found and "\n" not in body[found[-1][3]:at] and not body[start:at].strip():
                if found[-1][2]:  # the one before it is about several
                    found.insert(-1, ["", found[-1][1], found[-1][2], at])
                found[-1][2] = comment_text(token.group(0))
                start = token.end()
            elif token.group(0)[0] == "/":
                pending = comment_text(token.group(0))
                start = start if body[start:at].strip() else token.end()
            at = token.end()
            continue
        depth += (body[at] in "({[") - (body[at] in ")}]")
        if body[at] == separator and not depth:
            text = words(without_comments(body[start:at]))
            if text:
                first = start + len(body[start:at]) - len(body[start:at].lstrip())
                found.append([text, line + body.count("\n", 0, first), pending, at])
            start, pending = at + 1, ""
        at += 1
    return [(text, number, comment) for text, number, comment, _ in found]


def without_body(text):
    at = 0
    while at < len(text) and text[at] != "{":
        at = balanced(text, at) if text[at] == "(" else at + 1
    return text[:at].rstrip()


class Reader:
    """The declarations of one header. `macros` are those of all headers, by name."""

    def __init__(self, text, macros):
        self.macros = dict(macros)
        self.gone = set(re.findall(r"#\s*undef\s+(\w+)", text)) | {"CLADE_BEGIN_DECLS", "CLADE_END_DECLS"}
        self.guard = re.search(r"#ifndef (\w+)\n#define \1", text)
        self.introduction, self.sections = "", [Section("", "", [])]
        self.pending, self.entry, self.last = None, None, None
        self.read(text)

    def put(self, declaration):
        """Into the entry that it belongs to: of the comment before it, or of those that follow without a blank line."""
        if self.pending is not None or self.entry is None:
            self.entry = Entry(self.pending or "", [])
            self.sections[-1].entries.append(self.entry)
            self.pending = None
        self.entry.declarations.append(declaration)
        self.last = declaration

    def comment(self, raw, behind):
        text = comment_text(raw)
        title = re.match(r"-{4} (.*?) -{4}\n?(.*)", text, re.S)
        if behind:
            self.behind(text)
        elif "clang-format" in text:
            pass
        elif title:
            self.sections.append(Section(words(title.group(1)), title.group(2), []))
            self.entry = self.pending = None
        elif not self.introduction:
            self.introduction = text
        else:
            self.pending, self.entry = text, None

    def behind(self, text):
        """A declaration that is described behind it is an entry of its own."""
        if self.entry is None:  # behind a bracket that closes something
            return
        self.last.comment = text
        if len(self.entry.declarations) > 1:
            self.entry.declarations.pop()
            self.sections[-1].entries.append(Entry("", [self.last]))
        self.entry = None

    def blank(self):
        self.entry = None
        self.pending = None

    def read(self, text):
        lines = active_lines(text)
        numbers = [number for number, _ in lines]
        text = "\n".join(line for _, line in lines) + "\n"
        at = 0
        while at < len(text):
            rest = text[at:]
            line = numbers[min(text.count("\n", 0, at), len(numbers) - 1)]
            space = re.match(r"[ \t]*\n", rest)
            token = TOKEN.match(text, at)
            if space:
                if at == 0 or text[at - 1] == "\n":
                    self.blank()
                at += space.end()
            elif rest[0] in " \t":
                at += 1
            elif token:
                self.comment(token.group(0), text[text.rfind("\n", 0, at) + 1:at].strip() != "")
                at = token.end()
            elif rest[0] == "#":
                end = re.match(r"(?:[^\n]*\\\n)*[^\n]*", rest).end()
                end = min([end] + [m.start() for m in re.finditer(r"/\*", rest[:end]) if "\\\n" not in rest[:m.start()]])
                self.directive(rest[:end], line)
                at += end
            else:
                at += self.statement(rest, line)

    def directive(self, text, line):
        if re.match(r"#\s*define", text):
            macro = macro_of(text.replace("\\\n", " "), line)
            self.macros[macro.name] = macro
            if macro.name.lower().startswith("clade_") and macro.name not in self.gone and not (
                    self.guard and macro.name == self.guard.group(1)):
                self.put(macro)

    def statement(self, rest, line):
        """Takes a declaration off the text and returns how long it is."""
        skipped = re.match(r"CLADE_(?:BEGIN|END)_DECLS\n|namespace \w+ \{|\}", rest)
        if skipped:
            return len(skipped.group(0).rstrip("\n"))
        call = re.match(r"(CLADE_\w+_MAP)\(\w+\)(?=\n)", rest)
        if call:
            for part in filter(None, map(str.strip, expand(call.group(0), self.macros).split(";"))):
                self.declare(part, line)
            return call.end()
        end = self.end(rest)
        self.declare(rest[:end], line)
        return end

    @staticmethod
    def end(rest):
        at = 0
        while True:
            token = TOKEN.match(rest, at)
            if token:
                at = token.end()
            elif rest[at] == "(":
                at = balanced(rest, at)
            elif rest[at] == "{":
                inner = re.match(r"(?:typedef |struct |enum |class |template <[^;{]*> class )", rest)
                at = balanced(rest, at, "{", "}")
                if not inner:
                    return at
            elif rest[at] == ";":
                return at + 1
            else:
                at += 1

    def declare(self, raw, line):
        text = words(ENDINGS.sub("", without_comments(raw))).replace("CLADE_API ", "").rstrip(";").strip()
        body = re.match(r"(?:typedef )?(struct|enum)\s*(\w*)\s*\{(.*)\}\s*(\w*)\s*;?\s*$", raw, re.S)
        if body:
            kind, inner = body.group(1), body.group(3)
            line_of_body = line + raw.count("\n", 0, body.start(3))
            rows = self.enumerators(inner, line_of_body) if kind == "enum" else self.members(inner, line_of_body)
            name = body.group(4) or body.group(2) or re.match(r"\w+", rows[0][0]).group(0)
            self.put(Declaration(kind, name, text, line, rows=rows))
            return
        outer = re.search(r"\bclass (\w+) (?::|\{)", text)  # C++
        text = text if outer else re.sub(r"^(static )?inline ", "", without_body(text))
        typedef = re.match(r"typedef (?:.*\W)?(\w+)(\(.*\))?$", text) or re.match(r"using (\w+)", text)
        function = re.search(r"(\w+)\(", text)
        if outer:
            text = re.sub(r"[ ]+$", "", without_comments(raw), flags=re.M).rstrip("; \n")
        name = (outer or typedef or function).group(1)
        self.put(Declaration("typedef" if outer or typedef else "function", name, text, line))

    def members(self, body, line):
        found = []
        for text, number, comment in rows_of(body, line, ";"):
            default, text = [], UNSET.sub("", text)
            while "CLADE_DEFAULT(" in text:
                at = text.index("CLADE_DEFAULT(")
                end = balanced(text, text.index("(", at))
                default.append(text[text.index("(", at) + 1:end - 1])
                text = text[:at].rstrip() + text[end:]
            found.append((text, ", ".join(default), comment, number))
        return found

    def enumerators(self, body, line):
        lines = []
        for text in body.split("\n"):
            if re.match(r"\s*#\s*define", text):
                macro = macro_of(text, line)
                self.macros[macro.name] = macro
                text = ""
            lines.append("" if text.lstrip().startswith("#") else text)
        body, texts = "\n".join(lines), {}
        for call in re.findall(r"\bCLADE_\w+_MAP\b", body):
            texts.update({f"CLADE_{name}": text for name, text in
                          re.findall(r'\(\s*(\w+)\s*,\s*\d+\s*,\s*"([^"]*)"\s*\)', self.macros[call].body)})
        rows = rows_of(expand(body, self.macros), line, ",")
        return [(text, "", comment or texts.get(re.match(r"\w*", text).group(0), ""), number) for text, number, comment in rows]


def macros_of(text):
    """The macros that a header leaves defined."""
    text = "\n".join(line for _, line in active_lines(text))
    found = (macro_of(m.group(0).replace("\\\n", " "), 0)
             for m in re.finditer(r"^#[ \t]*define(?:[^\n]*\\\n)*[^\n]*", text, re.M))
    gone = set(re.findall(r"^#\s*undef\s+(\w+)", text, re.M))
    return {macro.name: macro for macro in found if macro.name not in gone}
