# SPDX-License-Identifier: MIT
"""Where this machine gets its packages from: both forms of apt's source files."""

from dataclasses import dataclass
from pathlib import Path
import shlex

ETC = Path("/etc/apt")


@dataclass(frozen=True)
class Source:
    """One archive. `signed_by` is the unchanged value, with the lines of a key in it."""
    uris: tuple
    suites: tuple
    components: tuple
    signed_by: str = ""


def parse_one_line(text):
    """The entries of a sources.list: deb [option=value ...] URI SUITE COMPONENT..."""
    found = []
    for line in text.splitlines():
        line = line.split("#", 1)[0].strip()
        if not line.startswith("deb ") and not line.startswith("deb\t"):
            continue
        rest = line[4:].strip()
        options = {}
        if rest.startswith("["):
            inside, _, rest = rest[1:].partition("]")
            options = dict(word.split("=", 1) for word in inside.split() if "=" in word)
        words = shlex.split(rest)
        if len(words) >= 3:
            found.append(Source((words[0],), (words[1],), tuple(words[2:]),
                                options.get("signed-by", "")))
    return found


def _fields(stanza):
    """The fields of a deb822 stanza, by their names in lower case; continued lines are kept."""
    fields, name = {}, None
    for line in stanza:
        if line[0] in " \t":
            if name:
                fields[name] += "\n" + line
        elif ":" in line:
            name, _, value = line.partition(":")
            name = name.strip().lower()
            fields[name] = value.strip()
    return fields


def parse_deb822(text):
    """The entries of a .sources file."""
    found, stanza = [], []
    for line in text.splitlines() + [""]:
        if line.startswith("#"):
            continue
        if line.strip():
            stanza.append(line)
            continue
        fields = _fields(stanza)
        stanza = []
        enabled = fields.get("enabled", "yes").lower() not in ("no", "false", "off", "0")
        if enabled and "deb" in fields.get("types", "").split():
            found.append(Source(*(tuple(fields.get(key, "").split())
                                  for key in ("uris", "suites", "components")),
                                fields.get("signed-by", "")))
    return found


def read_machine(etc=ETC):
    """All that this machine uses."""
    found = []
    files = [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*"))]
    for path in files:
        if path.suffix not in (".list", ".sources") or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        found += parse_deb822(text) if path.suffix == ".sources" else parse_one_line(text)
    return found


def write_deb822(entries):
    """The text of a .sources file; `entries` are (source, suites, architectures)."""
    stanzas = []
    for source, suites, architectures in entries:
        stanza = ["Types: deb",
                  "URIs: " + " ".join(source.uris),
                  "Suites: " + " ".join(suites),
                  "Components: main",
                  "Architectures: " + " ".join(architectures)]
        if source.signed_by:
            stanza.append("Signed-By: " + source.signed_by)
        stanzas.append("\n".join(stanza) + "\n")
    return "\n".join(stanzas)
