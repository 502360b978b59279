#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts the words of terms.list in the comments, messages, pages and identifiers of each folder.

usage: terms.py [--all | --list FOLDER...] < FILES

Reads the names of files from standard input. Without an option: prints the folders that have more
than LIMIT hits per 1,000 words of prose, and the stale lines of terms.allow; prints nothing if all
is well. --all: a table of all folders. --list: each hit of the folders, as file:line: phrase ->
what to use instead.
"""
import io
import re
import sys
import tokenize
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).parent
LIMIT = 2
C_SUFFIXES = {".c", ".h", ".cc", ".S", ".pml", ".go", ".rs", ".inc"}
PAGES = {".md", ".scd"}
HASH_SUFFIXES = {".sh", ".cmake", ".txt", ".in", ".map", ".yml", ".toml", ".list", ".allow"}
HASH_NAMES = {"dev", "run", "list"}
# A string is a message, and so prose, if it has at least this many words.
MESSAGE = 3

C_TOKEN = re.compile(
    r"""(?P<comment>/\*.*?\*/|//[^\n]*)
      |(?P<string>"(?:\\.|[^"\\\n])*")
      |(?P<char>'(?:\\.|[^'\\\n])+')
      |(?P<word>[A-Za-z_]\w*)""",
    re.S | re.X)
HASH_TOKEN = re.compile(
    r"""(?P<comment>(?<![^\s])\#[^\n]*)
      |(?P<string>"(?:\\.|[^"\\])*"|'[^'\n]*')
      |(?P<word>[A-Za-z_]\w*)""",
    re.X)


def without_marks(text):
    """Replaces what is not prose by blanks, so that positions stay."""
    blank = lambda m: re.sub(r"[^\n]", " ", m.group())
    text = re.sub(r"^(\s*)(/\*+|\*/|\*|//+|#+!?)", blank, text, flags=re.M)
    text = re.sub(r"\*/\s*$", blank, text)
    text = re.sub(r"https?://\S+|SPDX\S+ \S+|``?[^`\n]+``?", blank, text)
    text = re.sub(r"clang-format (on|off)|shellcheck disable\S+", blank, text)
    return text


def pieces_by(pattern, text):
    """Yields (kind, text, position) for comments, strings and words of code; runs of # lines are
    one comment, adjacent strings one message."""
    previous = None
    for m in pattern.finditer(text):
        kind = m.lastgroup
        if kind == "char":
            continue
        piece = (kind, m.group(), m.start())
        if previous and kind == previous[0] != "word":
            between = text[previous[2] + len(previous[1]):m.start()]
            if not between.strip() and between.count("\n") <= 1 and (
                    kind == "string" or not piece[1].startswith("/*")):
                previous = (kind, text[previous[2]:m.end()], previous[2])
                continue
        if previous:
            yield previous
        previous = piece
    if previous:
        yield previous


def pieces_of_python(text):
    starts = [0]
    for line in text.splitlines(True):
        starts.append(starts[-1] + len(line))
    last = None
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        at = starts[token.start[0] - 1] + token.start[1]
        if token.type == tokenize.COMMENT:
            if last and text[last[2] + len(last[1]):at].strip(" \t") == "\n":
                last = ("comment", text[last[2]:at + len(token.string)], last[2])
            else:
                if last:
                    yield last
                last = ("comment", token.string, at)
        elif token.type == tokenize.STRING:
            yield ("string", token.string, at)
        elif token.type == tokenize.NAME:
            yield ("word", token.string, at)
    if last:
        yield last


def pieces_of_page(text):
    blank = lambda m: re.sub(r"[^\n]", " ", m.group())
    text = re.sub(r"^\s*```.*?^\s*```", blank, text, flags=re.S | re.M)
    text = re.sub(r"(?<=[\]|])\([^)]*\)", blank, text)
    at = 0
    for paragraph in re.split(r"(\n\s*\n)", text):
        yield ("comment", paragraph, at)
        at += len(paragraph)


def pieces(path):
    text = path.read_text(errors="replace")
    if path.suffix in C_SUFFIXES:
        return text, pieces_by(C_TOKEN, text)
    if path.suffix == ".py":
        return text, pieces_of_python(text)
    if path.suffix in PAGES:
        return text, pieces_of_page(text)
    if path.suffix in HASH_SUFFIXES or path.name in HASH_NAMES:
        return text, pieces_by(HASH_TOKEN, text)
    return text, ()


def read_list():
    phrases, names, kept = [], {}, set()
    for line in (HERE / "terms.list").read_text().splitlines():
        kind, _, rest = line.partition(" ")
        what, _, term = rest.rpartition(" = ")
        if kind == "say":
            flags = 0 if re.search(r"(?<!\\)[A-Z]{2}", what) else re.I
            # A look-behind has a fixed width.
            expression = re.sub(r"(\(\?<[!=][^)]*\))|( )",
                                lambda m: m[1].replace(" ", r"\s") if m[1] else r"\s+", what)
            phrases.append((re.compile(rf"\b(?:{expression})\b", flags), term))
        elif kind == "name":
            names.update((word, term) for word in what.split())
        elif kind == "keep":
            kept.update(rest.split())
    return phrases, names, kept


def read_allowed():
    """{(path or folder, phrase)}: lines of path, TAB, phrase, TAB, reason."""
    allowed = set()
    for line in (HERE / "terms.allow").read_text().splitlines():
        if line and not line.startswith("#"):
            path, phrase, _ = line.split("\t")
            allowed.add((path, phrase.lower()))
    return allowed


class Lint:
    def __init__(self):
        self.phrases, self.names, self.kept = read_list()
        self.allowed = read_allowed()
        self.used = set()
        self.words = defaultdict(int)
        self.hits = defaultdict(list)

    def hit(self, path, line, phrase, term):
        phrase = " ".join(phrase.lower().split())
        for place in [str(path)] + [f"{p}/" for p in path.parents] + ["*"]:
            if (place, phrase) in self.allowed:
                self.used.add((place, phrase))
                return
        self.hits[str(path.parent)].append((str(path), line, phrase, term))

    def name(self, path, line, word, seen):
        """Each part of an identifier counts once a file."""
        if word in self.kept:
            return
        for part in re.findall(r"[A-Za-z][a-z]*|[A-Z]+", word):
            part = part.lower()
            if part in self.names and part not in seen:
                seen.add(part)
                self.hit(path, line, part, f"identifier: {self.names[part]}")

    def prose(self, path, text, at, whole):
        clean = without_marks(text)
        self.words[str(path.parent)] += len(re.findall(r"[A-Za-z][\w'-]*", clean))
        taken = []
        for expression, term in self.phrases:
            for m in expression.finditer(clean):
                if any(a < m.end() and m.start() < b for a, b in taken):
                    continue
                taken.append(m.span())
                self.hit(path, whole.count("\n", 0, at + m.start()) + 1, m.group(), term)

    def file(self, path):
        text, parts = pieces(path)
        seen = set()
        for kind, piece, at in parts:
            if kind == "word":
                self.name(path, text.count("\n", 0, at) + 1, piece, seen)
            elif kind == "comment" or len(re.findall(r"\b[a-z]{2,}\b", piece)) >= MESSAGE:
                self.prose(path, piece, at, text)
        self.name(path, 0, re.sub(r"\.\w+$", "", path.name).replace("-", "_"), seen)

    def rate(self, folder):
        return 1000 * len(self.hits[folder]) / max(self.words[folder], 1)

    def show(self, folder):
        for path, line, phrase, term in sorted(self.hits[folder]):
            print(f"{path}:{line}: {phrase} -> {term}")


def main():
    lint = Lint()
    for name in sys.stdin.read().split("\n"):
        path = Path(name)
        is_list = name.startswith(("tests/lint/terms", "tests/lint/self_test"))
        if name and not is_list and path.is_file():
            lint.file(path)
    if sys.argv[1:2] == ["--list"]:
        for folder in sys.argv[2:]:
            lint.show(folder.rstrip("/"))
        return
    if sys.argv[1:2] == ["--all"]:
        for folder in sorted(lint.words):
            print(f"{lint.rate(folder):6.1f}  {len(lint.hits[folder]):5} "
                  f"{lint.words[folder]:7}  {folder}")
        total = sum(map(len, lint.hits.values())), sum(lint.words.values())
        print(f"{1000 * total[0] / max(total[1], 1):6.1f}  {total[0]:5} {total[1]:7}  all")
        return
    for folder in list(lint.words):
        if lint.rate(folder) > LIMIT:
            print(f"{folder}: {lint.rate(folder):.1f} phrases of terms.list per 1,000 words, "
                  f"at most {LIMIT}:")
            lint.show(folder)
    for path, phrase in sorted(lint.allowed - lint.used):
        print(f"tests/lint/terms.allow: {path} does not say '{phrase}'")


main()
