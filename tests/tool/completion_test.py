#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What bash, zsh and fish complete after nearcpu, and what the command tells them.

usage: completion_test.py NEARCPU FOLDER [TEST...]

FOLDER has the shells' files. A shell that is not installed is skipped.
"""
import os
import pty
import re
import select
import shutil
import sys
import time
import unittest

import command
from command import Case, run

FILES = sys.argv.pop(2)
BASH_COMPLETION = "/usr/share/bash-completion/bash_completion"

# What is typed, and the words of the line after a tab: of every shell.
LINES = [
    ("nearcpu stat", ["stats"]),
    ("nearcpu trace recor", ["trace", "record"]),
    ("nearcpu help trace snap", ["help", "trace", "snapshot"]),
    ("nearcpu stats --prometheus-n", ["stats", "--prometheus-native"]),
    ("nearcpu check --verb", ["check", "--verbose"]),
    ("nearcpu stats reg", ["stats", "region-file"]),
    ("nearcpu run --json reg", ["run", "--json", "region-file"]),
    ("nearcpu run --json=reg", ["run", "--json=region-file"]),
    ("nearcpu trace export --ctf map", ["trace", "export", "--ctf", "map-folder"]),
    ("nearcpu trace record --mode stre", ["trace", "record", "--mode", "stream"]),
    ("nearcpu trace record --mode=stre", ["trace", "record", "--mode=stream"]),
    ("nearcpu trace record --context ids,thr", ["trace", "record", "--context", "ids,thread"]),
    ("nearcpu trace record --context=ids,thr", ["trace", "record", "--context=ids,thread"]),
    ("nearcpu sim --load proc", ["sim", "--load", "processes"]),
    ("nearcpu run --stats -- only_this_prog", ["run", "--stats", "--", "only_this_program"]),
    ("nearcpu run only_this_prog", ["run", "only_this_program"]),
    ("nearcpu run only_this_program reg", ["run", "only_this_program", "region-file"]),
    ("nearcpu run nearcpu sim --see", ["run", "nearcpu", "sim", "--seed"]),
    ("nearcpu no-such --j", ["no-such", "--j"]),
]


class Terminal:
    """A shell that believes in its user."""
    def __init__(self, args, env, folder):
        self.pid, self.fd = pty.fork()
        if not self.pid:
            os.chdir(folder)
            os.execvpe(args[0], args, env)
        self.text = ""

    def type(self, text):
        os.write(self.fd, text.encode())

    def wait(self, pattern):
        end = time.monotonic() + 30
        while True:
            match = re.search(pattern, self.text)
            if match:
                self.text = self.text[match.end():]
                return match
            if not select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]:
                raise AssertionError(f"no {pattern} in {self.text!r}")
            self.text += os.read(self.fd, 65536).decode(errors="replace")

    def complete(self, line):
        """The words of the line after a tab."""
        self.type(line + "\t" + "\x01printf '<%s>' \x05 END\r")
        return re.findall("<(.*?)>", self.wait(r"<nearcpu>.*<END>")[0])[1:-1]

    def close(self):
        self.type("\x15exit\r")
        os.close(self.fd)
        os.waitpid(self.pid, 0)


class Completion(Case):
    def place(self):
        """A folder with files, and an environment that finds the command and a program."""
        folder = self.folder()
        programs = os.path.join(folder, "programs")
        os.mkdir(programs)
        os.mkdir(os.path.join(folder, "work"))
        os.mkdir(os.path.join(folder, "work", "map-folder"))
        for name in ("region-file", "map-file"):
            with open(os.path.join(folder, "work", name), "w", encoding="ascii"):
                pass
        shutil.copy("/bin/true", os.path.join(programs, "only_this_program"))
        path = f"{programs}:{os.path.dirname(command.TOOL)}:{os.environ['PATH']}"
        return os.path.join(folder, "work"), {**os.environ, "PATH": path, "TERM": "dumb",
                                              "HOME": folder, "LC_ALL": "C"}

    def needs(self, shell):
        if not shutil.which(shell):
            self.skipTest(f"no {shell}")

    def check_terminal(self, args, begin, changes):
        folder, env = self.place()
        terminal = Terminal(args, env, folder)
        self.addCleanup(terminal.close)
        terminal.type(begin + "; echo rea''dy\r")
        terminal.wait("ready\r?\n")
        for line, words in LINES:
            with self.subTest(line=line):
                found = terminal.complete(line)
                found[-1] = found[-1].rstrip("/")  # where zsh types on, it removes it
                self.assertEqual(found, changes.get(line, words))
        return terminal

    def test_what_the_command_tells(self):
        """With the help of a subcommand or an option; a value has none."""
        for args, kind, line in (
                ([""], "words", "stats\tlist what a region that programs share holds"),
                (["trace", ""], "words", "stat\tcounts and latencies"),
                (["help", "trace", ""], "words", "stat\tcounts and latencies"),
                (["stats", "--"], "words", "--json\tas JSON"),
                (["trace", "record", "--cont"], "words", "--context\twhat all events have "
                 "besides: ids, thread, process, stack"),
                (["trace", "record", "--mode", ""], "words", "stop"),
                (["trace", "show", "--level=x"], "words", "--level=debug"),
                (["sim", "--load", "two,"], "words", "two,ten"),
                (["sim", ""], "words", "--plot\twrite them as a drawing, SVG"),
                (["run", "--region", ""], "files", None),
                (["locks", "--keep=x"], "folders", None),
                (["check", "--quiet", "--", "--x"], "files", None),
                (["ids", "--size", "1", "--", "a", "--b", "c"], "command 3", None),
                (["run", "--", ""], "command 1", None),
                (["trace", "record", "--sched", "a", "--mode", ""], "command 3", None)):
            with self.subTest(args=args):
                result = run("--complete", *args)
                self.expect(result, 0)
                lines = result.stdout.splitlines()
                self.assertEqual(lines[0], kind)
                if line:
                    self.assertIn(line, lines[1:])
                else:
                    self.assertEqual(lines[1:], [])
        self.expect(run("--complete"), 2, "there is no option '--complete'")

    def test_every_option_is_offered(self):
        """What the help has, and nothing else."""
        for args in ([], ["run"], ["check"], ["stats"], ["trace", "show"], ["trace", "record"],
                     ["heap"], ["locks"], ["ids"], ["sim"]):
            with self.subTest(args=args):
                offered = run("--complete", *args, "--").stdout
                self.assertEqual(re.findall(r"(?m)^(--[\w-]+)", offered),
                                 re.findall(r"(?m)^  (--[\w-]+)", run(*args, "--help").stdout))

    def test_bash(self):
        self.needs("bash")
        shell = ["bash", "--norc", "--noprofile", "-i"]
        own = f"PS1='$ '; . {FILES}/nearcpu.bash"
        with self.subTest("alone"):
            # Then the words of the program are files.
            self.check_terminal(shell, own, {"nearcpu run nearcpu sim --see":
                                             ["run", "nearcpu", "sim", "--see"]})
        if os.path.exists(BASH_COMPLETION):
            with self.subTest("with the package bash-completion"):
                self.check_terminal(shell, f". {BASH_COMPLETION}; {own}", {})

    def test_zsh(self):
        self.needs("zsh")
        self.check_terminal(
            ["zsh", "-f", "-i"],
            f"PS1='$ '; fpath=({FILES} $fpath); autoload -U compinit; compinit -u -D", {})

    def test_fish(self):
        self.needs("fish")
        folder, env = self.place()
        for line, words in LINES:
            with self.subTest(line=line):
                result = run("-N", "-c", f"source {FILES}/nearcpu.fish; complete -C '{line}'",
                             tool="fish", env=env, cwd=folder)
                found = [text.split("\t")[0].rstrip("/") for text in result.stdout.splitlines()]
                last = words[-1] if words[-1] != line.split()[-1] else None
                self.assertEqual(found, [last] if last else [], result.stderr)


if __name__ == "__main__":
    command.main()
