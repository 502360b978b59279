#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""usage: sessions.py PREFIX [NAME...]

Runs what the site shows of shells, docs/site/sessions/NAME.session, with what is installed below
PREFIX, and compares the output. docs/site/README.md has the form of these files. A session that
needs a program which is not there is skipped, and named. Exit status: 0 all that ran are right, 1
one is not, 77 all were skipped."""

import difflib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

SITE = pathlib.Path(__file__).resolve().parent
ROOT = SITE.parent.parent
SECONDS = 120


def parse(path):
    """Its settings, and the commands, each with the lines that it prints."""
    settings, commands = {"needs": [], "files": []}, []
    for line in path.read_text("utf-8").splitlines():
        setting = re.fullmatch(r"# (needs|files): (.*)", line)
        if line.startswith("$ "):
            commands.append(([line[2:]], []))
        elif setting and not commands:
            settings[setting[1]] += setting[2].split()
        elif re.fullmatch(r"# \[/?\w+\]", line) or not commands:
            continue
        elif line.startswith("> ") and not commands[-1][1]:
            commands[-1][0].append(line[2:])
        else:
            commands[-1][1].append(line.rstrip())
    return settings, [("\n".join(command), lines) for command, lines in commands]


def environment(prefix, home):
    """As of a user who has installed it there."""
    library = str(next(prefix.glob("lib*/**/libnearcpu.so"), prefix / "lib" / "x").parent)
    names = {name: value for name, value in os.environ.items()
             if name in ("PATH", "USER", "CCACHE_DIR", "TERM")}
    return names | {
        "PATH": f"{prefix}/bin:{names['PATH']}", "PKG_CONFIG_PATH": f"{library}/pkgconfig",
        "LD_LIBRARY_PATH": library, "CMAKE_PREFIX_PATH": str(prefix), "HOME": home,
        "TMPDIR": home, "LC_ALL": "C.UTF-8"}


def run(commands, env, folder):
    """What each printed, and its exit status; shorter if the shell ended or took too long."""
    script = "".join(f"{command}\nprintf '\\n@@ %d\\n' $?\n" for command, _ in commands)
    with open(os.path.join(folder, ".out"), "w+", encoding="utf-8", errors="replace") as out:
        with subprocess.Popen(["bash", "-c", script], cwd=folder, env=env, stdout=out,
                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                              start_new_session=True) as shell:
            try:
                shell.wait(SECONDS)
            except subprocess.TimeoutExpired:
                pass
            try:
                os.killpg(shell.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        out.seek(0)
        parts = re.split(r"\n@@ (\d+)\n", out.read())
    return list(zip(parts[::2], map(int, parts[1::2]))) + [(parts[-1], None)]


def matches(expected, printed):
    """... alone stands for any lines, within a line for any text."""
    pattern = ""
    for line in expected:
        pattern += r"(.*\n)*?" if line == "..." else ".*".join(
            map(re.escape, line.split("..."))) + r"\n"
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in printed))


def wrong_in(commands, results):
    """The first thing that is not as the session shows it."""
    for (command, expected), (text, status) in zip(commands, results):
        printed = [line.rstrip() for line in text.splitlines()]
        if status is None:
            return f"$ {command}\n{text}did not end in {SECONDS} s, or ended the shell"
        if status:
            return f"$ {command}\n{text}\nexit status {status}"
        if not matches(expected, printed):
            return "\n".join([f"$ {command}", *difflib.unified_diff(
                expected, printed, "the page", "printed", lineterm="")])
    return None


def check(path, prefix):
    """Prints a line; what it returns is the exit status."""
    settings, commands = parse(path)
    missing = [name for name in settings["needs"]
               if not (os.path.exists(name) if "/" in name else shutil.which(name))]
    if missing:
        print(f"{path.stem}: skipped: there is no {' '.join(missing)}")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        for name in settings["files"]:
            source = ROOT / name
            copy = shutil.copytree if source.is_dir() else shutil.copy
            copy(source, os.path.join(folder, source.name))
        wrong = wrong_in(commands, run(commands, environment(prefix, folder), folder))
    if not commands:
        wrong = "has no command"
    print(f"{path.stem}: {wrong or f'{len(commands)} commands'}", flush=True)
    return 1 if wrong else 0


def main(prefix, *names):
    paths = sorted((SITE / "sessions").glob("*.session"))
    paths = [path for path in paths if not names or path.stem in names]
    if not paths or not os.path.isdir(prefix):
        sys.exit(__doc__)
    results = [check(path, pathlib.Path(prefix).resolve()) for path in paths]
    return 1 if 1 in results else min(results)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) > 1 else __doc__)
