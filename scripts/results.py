#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What ./dev test has found: the results of its modes in build/logs.

usage: results.py mode LOGS MODE "STATUS [any]"
           of one mode that has just run: prints how many tests passed, failed and were skipped
       results.py end LOGS TURN MODE:SECONDS...
           prints all modes, the slowest tests, and of each failed test why and how to repeat it;
           writes junit.xml
       results.py slowest LOGS              the ten tests that took longest in the last run
       results.py passed LOGS MODE          the names of the tests that passed

A mode that ctest runs leaves <mode>-<step>.xml, any other one <mode>.log with the lines "ok NAME",
"FAILED NAME" and "skipped NAME". What is neither (a build that fails, a ctest that dies) counts as
the failed test "<mode>.run". Exit status of mode and end: 1 if a test has failed."""
import re
import shlex
import sys
import xml.etree.ElementTree as tree
from pathlib import Path

STEPS = ("main", "storm", "long", "again")
MOST_LINES = 12  # of what a failed test printed last; of many failed tests fewer
LOG_LINE = re.compile(r"^(ok|FAILED|skipped)\s+(.*)")


class Test:
    """One test: its name, passed | failed | skipped, its seconds and what it printed."""

    def __init__(self, name, state, seconds=0.0, text="", step=""):
        self.name, self.state, self.seconds = name, state, seconds
        self.text, self.step = text, step

    def element(self, mode):
        case = tree.Element("testcase", name=self.name, classname=mode,
                            time=f"{self.seconds:.3f}")
        if self.state == "failed":
            tree.SubElement(case, "failure", message=last_lines(self.text, 1)).text = self.text
        elif self.state == "skipped":
            tree.SubElement(case, "skipped", message=last_lines(self.text, 1))
        return case


def last_lines(text, most):
    """The last lines that are not empty, without what XML cannot hold."""
    lines = [line for line in text.splitlines() if line.strip()]
    return "\n".join(lines[-most:])


def clean(text):
    return re.sub(r"[^\t\n\x20-\ud7ff\ue000-\ufffd]", "?", text)


def read_junit(path, step):
    # A test counts as skipped only if it reported that: one that could not be started has failed.
    for case in tree.parse(path).getroot().iter("testcase"):
        skipped = case.find("skipped")
        state = "failed"
        if case.get("status") == "run":
            state = "passed"
        elif skipped is not None and skipped.get("message", "").startswith("SKIP_"):
            state = "skipped"
        text = case.findtext("system-out", "")
        for what in ("failure", "skipped"):
            found = case.find(what)
            if found is not None and not text.strip():
                text = found.get("message", "")
        yield Test(case.get("name"), state, float(case.get("time", 0)), clean(text), step)


def read_log(path):
    states = {"ok": "passed", "FAILED": "failed", "skipped": "skipped"}
    tests = []
    for line in clean(path.read_text(errors="replace")).splitlines():
        found = LOG_LINE.match(line)
        if found:
            name = re.split(r": |\s{2,}", found[2])[0]
            tests.append(Test(name, states[found[1]], text=line + "\n"))
        elif tests:
            tests[-1].text += line + "\n"
    return tests


def read_mode(logs, mode):
    """The tests of a mode; `<mode>.run` among them if it did not come to its end."""
    log, tests = logs / f"{mode}.log", []
    for step in STEPS:
        path = logs / f"{mode}-{step}.xml"
        if path.exists():
            tests += read_junit(path, step)
    if not tests and log.exists():
        tests = read_log(log)
    status = logs / f"{mode}.status"
    code = status.read_text().strip() if status.exists() else "0"
    if "any" not in code and not tests:
        code = "no test has run"
    failed = any(test.state == "failed" for test in tests)
    if code not in ("0", "77", "0 any", "77 any") and not failed:
        text = clean(log.read_text(errors="replace")) if log.exists() else ""
        tests.append(Test(f"{mode}.run", "failed", text=text or "The log is empty: a full disk?"))
    return tests


def count(tests):
    return [sum(test.state == state for test in tests)
            for state in ("passed", "failed", "skipped")]


def repeat(mode, test, turn):
    """The one command that repeats a test."""
    if test.name == f"{mode}.run":
        return f"./dev test --only {mode}"
    if mode == "models":
        return f"models/run.sh {shlex.quote(test.name)}"
    if mode == "lint":
        return "./dev lint --light"
    preset = {"machine": "dev", "gcc": "dev", "valgrind": "dev"}.get(mode, mode)
    command = f"ctest --test-dir build/{preset} --output-on-failure -R " + \
        shlex.quote(f"^{re.escape(test.name)}$")
    if test.name.startswith("emu."):
        command = f"NEAR_TEST_TURN={turn} {command}"
    if test.step == "long":
        command = f"NEAR_STRESS_SECONDS=30 {command}"
    return f"cmake --build build/{preset} && {command}"


def print_failures(failures, turn):
    most = max(2, min(MOST_LINES, 60 // len(failures)))
    print(f"\n{len(failures)} failed:")
    for mode, test in failures:
        print(f"\n{test.name} ({mode})")
        for line in last_lines(test.text, most).splitlines():
            print(f"  | {line[:200]}")
        print(f"  again: {repeat(mode, test, turn)}")


def print_slowest(modes):
    tests = [(test.seconds, mode, test.name) for mode in modes for test in modes[mode]]
    for seconds, mode, name in sorted(tests, reverse=True)[:10]:
        print(f"{seconds:8.1f} s  {mode:<10} {name}")


def write_junit(path, modes):
    root = tree.Element("testsuites", name="nearcpu")
    for mode, tests in modes.items():
        passed, failed, skipped = count(tests)
        suite = tree.SubElement(root, "testsuite", name=mode, tests=str(len(tests)),
                                failures=str(failed), skipped=str(skipped))
        suite.extend(test.element(mode) for test in tests)
    tree.indent(root)
    tree.ElementTree(root).write(path, "utf-8", xml_declaration=True)


def command_mode(logs, mode, status):
    # "any": of any number of tests, also of none
    (logs / f"{mode}.status").write_text(status)
    tests = read_mode(logs, mode)
    passed, failed, skipped = count(tests)
    for test in tests:
        if test.state == "failed":
            print(f"  failed: {test.name}")
    print(f"  {passed} passed, {failed} failed, {skipped} skipped")
    return failed > 0


def command_end(logs, turn, *ran):
    seconds = {mode: int(time) for mode, time in (text.split(":") for text in ran)}
    modes = {mode: read_mode(logs, mode) for mode in seconds}
    write_junit(logs / "junit.xml", modes)
    print("\nThe slowest tests:")
    print_slowest(modes)
    print(f"\n{'mode':<10} {'passed':>7} {'failed':>7} {'skipped':>7} {'time':>7}")
    for mode, tests in modes.items():
        print("{:<10} {:7} {:7} {:7} {:6}s".format(mode, *count(tests), seconds[mode]))
    failures = [(mode, test) for mode, tests in modes.items() for test in tests
                if test.state == "failed"]
    if failures:
        print_failures(failures, turn)
    passed, failed, skipped = count([test for tests in modes.values() for test in tests])
    print(f"\n{passed} passed, {failed} failed, {skipped} skipped in {sum(seconds.values())} s;"
          f" as JUnit: build/logs/junit.xml")
    return failed > 0


def command_slowest(logs):
    modes = {}
    for path in sorted(logs.glob("*-*.xml")):
        modes.setdefault(path.stem.rsplit("-", 1)[0], [])
    if not modes:
        sys.exit("dev: no tests have run yet")
    print_slowest({mode: read_mode(logs, mode) for mode in modes})
    return False


def command_passed(logs, mode):
    for test in read_mode(logs, mode):
        if test.state == "passed":
            print(test.name)
    return False


if __name__ == "__main__":
    commands = {"mode": command_mode, "end": command_end, "slowest": command_slowest,
                "passed": command_passed}
    if len(sys.argv) < 3 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    sys.exit(commands[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:]))
