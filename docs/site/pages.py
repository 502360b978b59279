# SPDX-License-Identifier: MIT
"""Extension of Sphinx: man pages as scdoc has them, their index, and references like near_pool(3).

A reference becomes a link in each page. A page that is not there is a warning if its name is one of
Nearcpu's."""

import pathlib
import re

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.transforms import Transform
from sphinx import addnodes
from sphinx.parsers import Parser
from sphinx.util.nodes import make_refnode

ROOT = pathlib.Path(__file__).parent.parent.parent
REFERENCE = re.compile(r"\b((?:near|NEAR)\w*(?:-\w+)*)\(([137])\)")


def name_of(path):
    """The names that section NAME of a page has, and its line about them."""
    text = path.read_text("utf-8").replace("\\", "")
    names, line = re.search(r"# NAME\n\n(.*?) - (.*?)\n\n", text, re.DOTALL).groups()
    return re.split(r",\s+", names), " ".join(line.split())


def all_names():
    """Which page has which reference."""
    pages = {}
    for path in sorted((ROOT / "man").glob("*.scd")):
        for name in name_of(path)[0]:
            pages[f"{name}({path.stem[-1]})"] = f"man/{path.stem}"
        pages[f"{path.stem[:-2]}({path.stem[-1]})"] = f"man/{path.stem}"
    return pages


PAGES = all_names()
FUNCTIONS = {reference[:-3]: reference for reference in PAGES if reference.endswith("(3)")}


def reference_of(code):
    """The page of what code names: itself, a function, a header, a subcommand; or None."""
    if REFERENCE.fullmatch(code):
        return code
    if call := re.fullmatch(r"(near_\w+)(\(.*\))?", code):
        return FUNCTIONS.get(call[1])
    if command := re.fullmatch(r"nearcpu ([a-z]+)", code):
        page = f"nearcpu-{command[1]}(1)"
        return page if page in PAGES else None
    if header := re.fullmatch(r"nearcpu/(\w+)\.h", code):
        return next((name for name in PAGES if name[:-3] == f"near_{header[1]}"), None)
    if page := re.fullmatch(r"man (?:[137] )?([\w-]+)", code):
        return next((name for name in PAGES if name[:-3] == page[1]), None)
    return None


def link_to(reference, inner, docname):
    """A node: `inner` as a link to the page."""
    return addnodes.pending_xref(
        "", inner, refdomain="", reftype="page", refexplicit=True, refwarn=True,
        reftarget=PAGES.get(reference, f"man/{reference}"), refdoc=docname)


def resolve(app, env, node, inner):
    """Of a link to a page, which keeps how its text looks. None: there is no page, a warning."""
    if node["reftype"] != "page" or node["reftarget"] not in env.found_docs:
        return None
    return make_refnode(app.builder, node["refdoc"], node["reftarget"], "", inner)


# ---- scdoc ----

class Inline:
    """Bold is *, underlined _ where no word is at both sides, ++ at the end of a line a break."""

    def __init__(self, docname):
        self.docname = docname

    def pieces(self, text):
        """(style, text), where style is "", "*" or "_"."""
        style, piece, at, last = "", "", 0, " "
        while at < len(text):
            c, after = text[at], text[at + 1:at + 2] or " "
            if c == "\\":
                piece, last, at = piece + after, after, at + 2
                continue
            opens = c == "_" and (not last.isalnum() or style == "_" and not after.isalnum())
            if (c == "*" and style in ("", "*")) or (opens and style in ("", "_")):
                if piece:
                    yield style, piece
                style, piece = "" if style else c, ""
            else:
                piece += c
            last, at = c, at + 1
        if piece:
            yield style, piece

    def nodes(self, text):
        """Of a text without breaks."""
        found, parts = [], list(self.pieces(text))
        for at, (style, piece) in enumerate(parts):
            if not style:
                found.append(nodes.Text(piece))
                continue
            node = (nodes.strong if style == "*" else nodes.emphasis)("", piece)
            section = re.match(r"\([137]\)", parts[at + 1][1]) if at + 1 < len(parts) else None
            page = piece + section.group() if section else FUNCTIONS.get(piece)
            if page and REFERENCE.fullmatch(page) and PAGES.get(page) != self.docname:
                node = link_to(page, node, self.docname)
            found.append(node)
        return found

    def block(self, lines):
        """A paragraph, or lines as they are broken."""
        whole = [[]]
        for line in lines:
            end = line.endswith("++")
            whole[-1].append(line[:-2] if end else line)
            if end:
                whole.append([])
        whole = [" ".join(part) for part in whole if part]
        if len(whole) == 1:
            return nodes.paragraph("", "", *self.nodes(whole[0]))
        return nodes.line_block("", *(nodes.line("", "", *self.nodes(part)) for part in whole))

    def plain(self, text):
        return "".join(piece for _, piece in self.pieces(text))


class Blocks:
    """Of lines, at one indentation."""

    def __init__(self, inline):
        self.inline = inline
        self.prototypes = False

    def parse(self, lines, parent):
        at = 0
        while at < len(lines):
            line = lines[at]
            if not line or line.startswith("; "):
                at += 1
                continue
            take = next(take for start, take in self.KINDS if re.match(start, line))
            at = take(self, lines, at, parent)
        return parent

    def literal(self, lines, at, parent):
        end = lines.index("```", at + 1)
        text = re.sub(r"\\(.)", r"\1", "\n".join(lines[at + 1:end]))
        c = re.search(r"^ *#include|^\t.*;$|^(struct|enum) .*\{$", text, re.MULTILINE)
        parent += literal(text, "c" if c else "text")
        return end + 1

    def items(self, lines, at, parent):
        kind = lines[at][0]
        items = nodes.bullet_list() if kind == "-" else nodes.enumerated_list()
        while at < len(lines) and lines[at].startswith(f"{kind} "):
            end = at + 1
            while end < len(lines) and lines[end].startswith("  "):
                end += 1
            text = [line[2:] for line in lines[at:end]]
            items += nodes.list_item("", self.inline.block(text))
            at = end
        parent += items
        return at

    def table(self, lines, at, parent):
        rows = []
        while at < len(lines) and lines[at]:
            line = lines[at]
            if line[0] in "[|]":
                rows.append([])
            if line[0] == " ":
                rows[-1][-1] += " " + line.strip()
            else:
                rows[-1].append(line[2:].strip())
            at += 1
        group = nodes.tgroup(cols=len(rows[0]))
        group += [nodes.colspec(colwidth=1) for _ in rows[0]]
        for head, kind in ((rows[:1], nodes.thead), (rows[1:], nodes.tbody)):
            group += kind("", *(nodes.row("", *(
                nodes.entry("", nodes.paragraph("", "", *self.inline.nodes(cell)))
                for cell in row)) for row in head))
        parent += nodes.table("", group)
        return at

    def indented(self, lines, at, parent):
        """What follows a line without a blank one explains it: a term."""
        end, term = at, parent.children[-1] if at and lines[at - 1] else None
        while end < len(lines) and (not lines[end] or lines[end].startswith("\t")):
            end += 1
        inner = [line[1:] for line in lines[at:end]]
        if not isinstance(term, (nodes.paragraph, nodes.line_block)):
            parent += self.parse(inner, nodes.block_quote())
            return end
        parent.remove(term)
        terms = [term] if isinstance(term, nodes.paragraph) else term.children
        item = nodes.definition_list_item("", *(
            nodes.term("", "", *(child.deepcopy() for child in one.children)) for one in terms))
        item += self.parse(inner, nodes.definition())
        if not parent.children or not isinstance(parent.children[-1], nodes.definition_list):
            parent += nodes.definition_list(classes=["scd"])
        parent.children[-1].append(item)
        return end

    def text(self, lines, at, parent):
        end = at + 1
        while end < len(lines) and lines[end] and not re.match(r"\t|```|#", lines[end]):
            end += 1
        if self.prototypes and re.search(r"near_\w*\(|^#include", self.inline.plain(lines[at])):
            parent += literal("\n".join(
                self.inline.plain(line.removesuffix("++")) for line in lines[at:end]), "c")
        else:
            parent += self.inline.block(lines[at:end])
        return end

    KINDS = ((r"```", literal), (r"[-.] ", items), (r"[\[|\]][\[\-\] <>=]", table),
             (r"\t", indented), (r"", text))


def literal(text, language):
    return nodes.literal_block(text, text, language=language)


class ScdParser(Parser):
    """One page: its title is its name and line, its sections those of the page."""

    supported = ("scdoc",)

    def parse(self, inputstring, document):
        docname = document.settings.env.docname
        path = ROOT / f"{docname}.scd"
        names, line = name_of(path)
        page = f"{path.stem[:-2]}({path.stem[-1]})"
        inline = Inline(docname)
        blocks = Blocks(inline)
        top = section(document, page)
        top += nodes.paragraph("", line[0].upper() + line[1:])
        document += top
        inner = top
        for title, body in sections(inputstring):
            if title == "# NAME":
                if len(names) > 1:
                    top += nodes.paragraph("", "", *commas(names))
                continue
            below = section(document, inline.plain(title.lstrip("# ")))
            (inner if title.startswith("##") else top).append(below)
            inner = inner if title.startswith("##") else below
            blocks.prototypes = title == "# SYNOPSIS"
            blocks.parse(body, below)


def commas(names):
    for at, name in enumerate(names):
        yield nodes.Text(", " if at else "")
        yield nodes.strong("", name)


def sections(text):
    """(title, lines) of each; a # within a literal block begins none."""
    found, code = [], False
    for line in text.split("\n"):
        code ^= line.startswith("```")
        if re.match(r"##? ", line) and not code:
            found.append((line, []))
        elif found:
            found[-1][1].append(line)
    return found


def section(document, title):
    node = nodes.section("", nodes.title("", title), names=[nodes.fully_normalize_name(title)])
    document.note_implicit_target(node, node)
    return node


# ---- references in each page ----

class References(Transform):
    """Of text and of literals that are one reference, outside of links, titles and blocks."""

    default_priority = 700

    def apply(self, **_):
        docname = self.document.settings.env.docname
        outside = (nodes.reference, addnodes.pending_xref, nodes.title, nodes.literal_block,
                   addnodes.download_reference)
        for text in list(self.document.findall(nodes.Text)):
            above = text.parent
            while above is not None and not isinstance(above, outside):
                above = above.parent
            if above is not None:
                continue
            if isinstance(text.parent, nodes.literal):
                page = reference_of(str(text))
                if page and PAGES.get(page) != docname:
                    inner = text.parent
                    inner.replace_self(link_to(page, inner.deepcopy(), docname))
            elif REFERENCE.search(text):
                text.parent.replace(text, list(linked(text, docname)))


def linked(text, docname):
    at = 0
    for found in REFERENCE.finditer(text):
        yield nodes.Text(text[at:found.start()])
        yield link_to(found.group(), nodes.inline("", found.group()), docname)
        at = found.end()
    yield nodes.Text(text[at:])


class ManIndex(Directive):
    """The pages by section, each with its line."""

    def run(self):
        docname, found = self.state.document.settings.env.docname, []
        for number, title in (("1", "Commands"), ("3", "Functions"), ("7", "Overviews")):
            found.append(nodes.rubric("", title))
            items = nodes.definition_list(classes=["scd"])
            for path in sorted((ROOT / "man").glob(f"*.{number}.scd")):
                name = f"{path.stem[:-2]}({number})"
                items += nodes.definition_list_item(
                    "", nodes.term("", "", link_to(name, nodes.inline("", name), docname)),
                    nodes.definition("", nodes.paragraph("", name_of(path)[1])))
            found.append(items)
        return found


class Headers(Directive):
    """The public headers with the lines that they begin with, and links to Doxygen's pages."""

    def run(self):
        items = nodes.definition_list(classes=["scd"])
        for path in sorted((ROOT / "include/nearcpu").glob("*.h")):
            text = path.read_text("utf-8").split("\n", 1)[1]  # below the licence
            line = re.match(r"/\* (?:\w+(?: and \w+)*: )?(.*?\.)\s", text, re.DOTALL).group(1)
            page = f"../../api/{path.stem.replace('_', '__')}_8h.html"
            items += nodes.definition_list_item(
                "", nodes.term("", "", nodes.reference("", f"nearcpu/{path.name}", refuri=page)),
                nodes.definition("", nodes.paragraph("", " ".join(
                    line.replace("\n *", " ").split()))))
        return [items]


class ReadmeLinks(Transform):
    """A link to the README is one to the first page, which has most of it."""

    default_priority = 10

    def apply(self, **_):
        for link in self.document.findall(addnodes.pending_xref):
            if re.fullmatch(r"/?(\.\./)*README(\.md)?", link["reftarget"]):
                link["reftarget"] = "/docs/site/index"
                link["refdomain"], link["reftype"] = "std", "doc"


def setup(app):
    app.add_transform(ReadmeLinks)
    app.add_source_parser(ScdParser)
    app.add_transform(References)
    app.add_directive("man-index", ManIndex)
    app.connect("missing-reference", resolve)
    app.add_directive("headers", Headers)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
