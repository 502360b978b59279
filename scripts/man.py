#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the man pages have from the headers.

usage: man.py write     in each page that has functions, puts the declarations of its section
                        SYNOPSIS, and its section CONTRACT, as they are in the headers
       man.py check     reports what write would change, headers without a whole table, functions
                        that are not in one page, and functions whose error values differ between
                        header and page
       man.py errors    prints the error values of each function, as check reads them

A section SYNOPSIS names the functions and structures in the order that its author chose; any other
line in it stays as it is. Structures lose their comments: the page describes the fields.

A section CONTRACT has the tables of the functions of the page: a table is the part of a comment
from `Cost:` to the table of concurrent calls, and is of the functions that follow it in a header.

Error values: in a header, those in the comment above a declaration. If that begins with `The same`,
those of the function above, too. In a page, those that a sentence of RETURN VALUE gives after the
names of functions; and the entries of ERRORS. An entry whose first sentence names functions is of
the functions that it names. Any other is of all functions of which RETURN VALUE says that they
return a negative error. In both `as near_x` and `what near_x returns` mean the values of near_x.
Functions that return nothing or a bool have none."""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADERS = sorted((ROOT / "include/nearcpu").glob("*.h"))
PAGES = sorted((ROOT / "man").glob("*.[37].scd"))
WIDTH = 100
ROWS = ("Cost:", "Memory:", "Safety:", "Order:", "Fallback:", "Concurrent with:")

ERROR = re.compile(r"\bE(?:[A-Z]{3,}|2BIG)\b")
FUNCTION = re.compile(r"\bnear_[a-z0-9][a-z0-9_]*")
REFERENCE = re.compile(r"\b(?:as|what) (near_\w+(?:\(3?\))?(?:,? (?:and )?near_\w+(?:\(3?\))?)*)")
NO_ERRORS = {"EOF"}


class Function:
    def __init__(self, name, declaration, comment, header):
        self.name = name
        self.declaration = declaration
        self.comment = comment  # also of the functions above, if it begins with `The same`
        self.header = header
        self.table = []  # the lines of the contract

    def can_fail(self):
        return not re.match(r"(void|bool) \w", self.declaration)


def without_attributes(text):
    text = re.sub(r"\b(NEAR_API|NEAR_INLINE|NEAR__INLINE|extern|static inline)\b", "", text)
    arguments = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
    text = re.sub(rf"\b(?:__attribute__|NEAR__[A-Z_]+)\s*{arguments}", "", text)
    text = re.sub(r"\bNEAR__[A-Z_]+\b", "", text)
    return re.sub(r"\s+", " ", text).strip()


def functions_of(header):
    """The public functions of a header, with the comment that describes each: consecutive
    declarations have one in common."""
    found, table = [], []
    lines = header.read_text().split("\n")
    comment, in_comment = "", False
    i = 0
    while i < len(lines):
        line = lines[i]
        if in_comment or line.startswith("/*"):
            comment = line if not in_comment else comment + "\n" + line
            in_comment = "*/" not in line
            if not in_comment:
                table = table_of(comment) or table
        elif re.match(r"(NEAR_API|NEAR_INLINE|NEAR__INLINE)\b", line):
            text = line
            while not re.search(r";\s*$|^\{|\{\s*$", lines[i]):
                i += 1
                text += "\n" + lines[i]
            declaration = without_attributes(re.sub(r"\{?\s*$|;\s*$", "", text))
            name = re.match(r"[^(]*?(\w+)\s*\(", declaration)
            if name and FUNCTION.fullmatch(name[1]) and not name[1].startswith("near__"):
                if comment.startswith("/* The same") and found and found[-1].comment != comment:
                    comment += found[-1].comment
                found.append(Function(name[1], declaration + ";", comment, header.name))
                found[-1].table = table
        elif not line.strip():
            comment = ""
        i += 1
    return found


def structures_of(header):
    """{name: definition without comments} of the structures that programs fill in or read."""
    found = {}
    for match in re.finditer(r"^struct (?:NEAR__\w+\([^)]*\) )?(near_\w+) \{\n.*?^\};",
                             header.read_text(), re.M | re.S):
        text = re.sub(r"NEAR__\w+\([^)]*\) ", "", match[0])
        text = re.sub(r"[ \t]*/\*.*?\*/", "", text, flags=re.S)
        found[match[1]] = re.sub(r"\n(?=\n)", "", text)
    return found


def table_of(comment):
    """The lines from `Cost:` up to the example or the source."""
    lines = [re.sub(r"^(/\*| \*) ?", "", line) for line in comment.replace("*/", "").split("\n")]
    begin = next((i for i, line in enumerate(lines) if line.startswith("Cost:")), None)
    if begin is None:
        return []
    end = next((i for i in range(begin, len(lines)) if lines[i].startswith("Source:") or
                lines[i].startswith("    ") and not lines[i - 1].strip()), len(lines))
    return "\n".join(lines[begin:end]).rstrip().split("\n")


# ---- pages ----

def section(text, name):
    """Where the text of a section begins and ends, or None."""
    match = re.search(rf"^# {re.escape(name)}\n", text, re.M)
    if not match:
        return None
    end = re.search(r"^# ", text[match.end():], re.M)
    return match.end(), match.end() + end.start() if end else len(text)


def parameters(text):
    """Splits at the commas that are in no parenthesis."""
    parts, depth, begin = [], 0, 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append(text[begin:i].strip())
            begin = i + 1
    return parts + [text[begin:].strip()]


def marked(parameter):
    """A parameter as scdoc marks it: bold, its name in italics."""
    if parameter in ("void", "..."):
        return [("b", parameter)]
    name = re.search(r"\(\*(?:const )?(\w+)\)", parameter)
    if not name:
        name = re.search(r"(\w+)(?:\[[^]]*\])?$", parameter)
    return [("b", parameter[:name.start(1)]), ("i", name[1]), ("b", parameter[name.end(1):])]


def rendered(spans):
    """Adjacent spans of one kind are one; scdoc wants no space beside the inner marks."""
    merged = []
    for kind, text in spans:
        if merged and merged[-1][0] == kind:
            merged[-1][1] += text
        elif text:
            merged.append([kind, text])
    out = ""
    for kind, text in merged:
        if kind == "i":
            out += f"_{text}_"
        else:
            space = " " * (len(text) - len(text.rstrip()))
            out += "*" + re.sub(r"([*\\#])", r"\\\1", text.rstrip()) + "*" + space
    return out.rstrip()


def synopsis(function):
    """The declaration as lines of a page."""
    head, rest = function.declaration.split("(", 1)
    if rest.startswith("*"):  # a function that returns a pointer to a function: as it is
        return [rendered([("b", function.declaration)])]
    parts = parameters(rest[:rest.rindex(")")])
    lines, spans, width = [], [("b", head + "(")], len(head) + 1
    for i, part in enumerate(parts):
        end = ", " if i + 1 < len(parts) else ");"
        if width + len(part) + len(end) > WIDTH and width > 8:
            lines.append(spans)
            spans, width = [("b", "        ")], 8
        spans += marked(part) + [("b", end)]
        width += len(part) + len(end)
    lines.append(spans)
    return [rendered(spans) for spans in lines]


class Sources:
    def __init__(self):
        self.functions, self.structures, self.headers = {}, {}, {}
        for header in HEADERS:
            self.headers[header.name] = header
            for function in functions_of(header):
                self.functions.setdefault(function.name, function)
            self.structures.update(structures_of(header))


def names_in_synopsis(text, sources):
    """The functions that a page declares."""
    where = section(text, "SYNOPSIS")
    called = re.findall(r"\b(near_\w+)\(", text[where[0]:where[1]] if where else "")
    return [name for name in dict.fromkeys(called) if name in sources.functions]


def new_synopsis(old, sources):
    out, lines, i, fenced = [], old.split("\n"), 0, False
    while i < len(lines):
        line = lines[i]
        fenced ^= line == "```"
        called = re.match(r"\*[a-z].*?\b(near_[a-z0-9_]+)\(", line)
        structure = re.match(r"\*?struct (near_\w+) \{", line)
        if called and called[1] in sources.functions:
            while not re.search(r"\);?\*(\+\+)?$|;\*(\+\+)?$|\)_?;?\*(\+\+)?$", lines[i]):
                i += 1
            more = lines[i].endswith("++")
            new = synopsis(sources.functions[called[1]])
            out += [text + "++" for text in new[:-1]] + [new[-1] + ("++" if more else "")]
        elif structure and structure[1] in sources.structures:
            while not re.search(r"\};\*?$", lines[i]):
                i += 1
            body = sources.structures[structure[1]].split("\n")
            out += body if fenced else ["```"] + body + ["```"]
        else:
            out.append(line)
        i += 1
    return "\n".join(out)


def new_page(text, sources):
    where = section(text, "SYNOPSIS")
    text = text[:where[0]] + new_synopsis(text[where[0]:where[1]], sources) + text[where[1]:]
    where = section(text, "CONTRACT")
    if where:
        included = re.findall(r"<nearcpu/(\w+\.h)>", text)
        functions = [sources.functions[name] for name in names_in_synopsis(text, sources)]
        tables = ["\n".join(f.table) for f in functions if f.table and f.header in included]
        body = "".join(f"\n```\n{table}\n```\n" for table in dict.fromkeys(tables))
        text = text[:where[0]] + body + "\n" + text[where[1]:]
    return text


# ---- error values ----

def errors_in(text, sources, seen=()):
    """The values in a text without marks, and those of the functions that it refers to."""
    errors = set(ERROR.findall(text)) - NO_ERRORS
    for others in REFERENCE.findall(text):
        for name in FUNCTION.findall(others):
            errors |= header_errors(sources, name, seen)
    return errors


def header_errors(sources, name, seen=()):
    function = sources.functions.get(name)
    if not function or name in seen or not function.can_fail():
        return set()
    return errors_in(re.sub(r"\s*\n \*|\*/|/\*", " ", function.comment).replace("  ", " "),
                     sources, (*seen, name))


def clean(text):
    text = re.sub(r"(?<![a-z0-9])_|_(?![a-z0-9])|[*\\]", "", text)
    return re.sub(r"\s+", " ", text).strip()


def functions_in(text, sources):
    return [name for name in FUNCTION.findall(text) if name in sources.functions]


def page_errors(text, sources):
    """({function: its values}, the entries of ERRORS that are of no function)"""
    values, failing, orphans = {}, [], []
    where = section(text, "RETURN VALUE")
    for paragraph in (text[where[0]:where[1]] if where else "").split("\n\n"):
        subjects = []
        for sentence in re.split(r"(?<=[.;])\s+(?=near_)", clean(paragraph)):
            end = re.search(r"-E[A-Z2]|\bwhat near_|\bas near_", sentence)
            head = sentence[:end.start()] if end else sentence
            subjects = functions_in(head, sources) or subjects
            failing += subjects if "negative error" in sentence else []
            for name in subjects:
                values.setdefault(name, set()).update(errors_in(sentence, sources))
    where = section(text, "ERRORS")
    for entry in re.split(r"\n(?=\*-?E)", text[where[0]:where[1]])[1:] if where else []:
        tag, _, body = entry.partition("\n")
        sentences = re.split(r"(?<=\.)\s", clean(body))
        named = functions_in(" ".join(sentences), sources)
        subjects = named if functions_in(sentences[0], sources) else failing + named
        for name in subjects:
            values.setdefault(name, set()).update(ERROR.findall(tag))
        orphans += [] if subjects else [tag.strip("*")]
    return values, orphans


def report_errors(sources, page, text):
    values, orphans = page_errors(text, sources)
    problems = [f"{page.name}: ERRORS has {tag}, which no function returns" for tag in orphans]
    for name in names_in_synopsis(text, sources):
        header, there = header_errors(sources, name), values.get(name, set())
        if header != there:
            both = [" ".join(sorted(errors)) or "none" for errors in (header, there)]
            problems.append(f"{page.name}: {name}: the header has {both[0]}, the page {both[1]}")
    return problems


# ---- commands ----

def report_page(sources, page):
    text = page.read_text()
    problems = []
    if new_page(text, sources) != text:
        problems.append(f"{page.name}: SYNOPSIS or CONTRACT is not that of the header: "
                        "scripts/man.py write")
    if page.name.endswith(".3.scd") and not section(text, "CONTRACT"):
        problems.append(f"{page.name}: no section CONTRACT")
    title = FUNCTION.findall(text[slice(*section(text, "NAME"))])
    problems += [f"{page.name}: section NAME lacks {name}"
                 for name in names_in_synopsis(text, sources) if name not in title]
    return problems + report_errors(sources, page, text)


def check(sources):
    problems, documented, tables = [], {}, {}
    for page in PAGES:
        text = page.read_text()
        if section(text, "SYNOPSIS"):
            problems += report_page(sources, page)
        for name in names_in_synopsis(text, sources):
            documented.setdefault(name, []).append(page.name)
            if page.name.endswith(".3.scd"):
                function = sources.functions[name]
                tables.setdefault((function.header, "\n".join(function.table)), function)
    for name, function in sources.functions.items():
        if len(documented.get(name, ())) != 1:
            where = " and ".join(documented.get(name, ["no page"]))
            problems.append(f"{function.header}: {name} is in the SYNOPSIS of {where}")
    for (header, table), function in tables.items():
        lacks = [row for row in ROWS if not re.search(f"^{row}", table, re.M)]
        if lacks:
            problems.append(f"{header}: the table of {function.name} lacks {' '.join(lacks)}")
    return problems


def main():
    sources = Sources()
    command = sys.argv[1] if len(sys.argv) == 2 else ""
    if command == "write":
        for page in PAGES:
            text = page.read_text()
            new = new_page(text, sources) if section(text, "SYNOPSIS") else text
            if new != text:
                page.write_text(new)
    elif command == "check":
        problems = check(sources)
        print(*problems, sep="\n", end="\n" if problems else "")
        sys.exit(1 if problems else 0)
    elif command == "errors":
        for name in sources.functions:
            print(name, *sorted(header_errors(sources, name)))
    else:
        sys.exit(__doc__)


main()
