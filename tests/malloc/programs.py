#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""usage: programs.py [--long] LIBRARY [PROGRAM...]

Runs real programs as they are and with the allocator preloaded, and compares what they print, the
files that they write and how they end. A program that is not installed is skipped, and named.
--long: larger inputs, and core parts of Python's own tests."""
import glob
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
INPUTS = os.path.join(HERE, "programs")
MODES = ("", "rseq:off", "slot:cpu")
PYTHON_TESTS = ("test_json", "test_list", "test_dict", "test_set", "test_gc", "test_threading",
                "test_bytes", "test_re", "test_unicode", "test_array", "test_deque", "test_io")


class Missing(Exception):
    """What a program needs is not installed."""


class World:
    """Where a program runs once: a directory of its own, and an environment."""

    def __init__(self, directory, library, mode, long):
        self.directory, self.long = directory, long
        self.env = dict(os.environ, HOME=directory, LC_ALL="C", TZ="UTC")
        self.env.pop("NEAR_CONF", None)
        if library:
            self.preload = {"LD_PRELOAD": library}
            if mode:
                self.preload["NEAR_CONF"] = mode
        else:
            self.preload = {}

    def run(self, *command, **env):
        """What it prints; it must end well."""
        result = subprocess.run(command, cwd=self.directory, stdin=subprocess.DEVNULL,
                                env=dict(self.env, **self.preload, **env),
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
                                check=False)
        if result.returncode:
            raise RuntimeError(f"{' '.join(command)[:200]}: status {result.returncode}\n" +
                               result.stdout.decode(errors="replace")[-2000:])
        return result.stdout

    def start(self, *command):
        return subprocess.Popen(command, cwd=self.directory, env=dict(self.env, **self.preload),
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def path(self, name):
        return os.path.join(self.directory, name)


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            raise Missing(program)


def hash_of(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest().encode()


def run_python(world):
    output = world.run(sys.executable, os.path.join(INPUTS, "interpreter.py"),
                       PYTHONMALLOC="malloc", PYTHONHASHSEED="1")
    return output + world.run(sys.executable, os.path.join(INPUTS, "interpreter.py"),
                              PYTHONHASHSEED="1")


def run_python_tests(world):
    python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
    if not world.long:
        raise Missing("--long")
    if subprocess.run([python, "-c", "import test.test_json"], capture_output=True,
                      check=False).returncode:
        raise Missing("Python's own tests (libpython3.11-testsuite)")
    world.run(python, "-m", "test", "-j1", "-u", "none", *PYTHON_TESTS)
    return b"all passed"


def run_gcc(world):
    need("gcc")
    sources = sorted(glob.glob(ROOT + "/src/*/*.c"))
    output = b""
    for source in sources if world.long else sources[:5]:
        world.run("gcc", "-O2", "-g", "-fPIC", "-D_GNU_SOURCE", "-I", ROOT + "/include",
                  "-I", ROOT + "/src", "-fdebug-prefix-map=" + world.directory + "=.", "-c", source,
                  "-o", "x.o")
        output += hash_of(world.path("x.o"))
    return output


def run_cxx(world):
    need("g++")
    world.run("g++", "-std=c++17", "-O1", "-pthread", os.path.join(INPUTS, "exceptions.cc"), "-o",
              "program")
    return world.run("./program")


def run_sqlite(world):
    need("sqlite3")
    rows = 200000 if world.long else 30000
    return world.run("sqlite3", ":memory:", f"""
        create table t (id integer primary key, name text, value real);
        with recursive n(i) as (select 1 union all select i + 1 from n where i < {rows})
        insert into t select i, printf('%08x-%s', i * 2654435761 % 4294967296, i), i * 0.5 from n;
        create index names on t (name);
        delete from t where id % 3 = 0;
        update t set name = name || substr(name, 1, id % 90) where id % 5 = 0;
        select count(*), sum(value), max(name), min(length(name)), max(length(name)) from t;
        select substr(name, 1, 2) as s, count(*), group_concat(id) from t group by s order by s
            limit 20;
        pragma integrity_check;""")


def run_redis(world):
    need("redis-server", "redis-cli", "redis-benchmark")
    socket = world.path("redis.sock")
    server = world.start("redis-server", "--port", "0", "--unixsocket", socket, "--save", "",
                         "--appendonly", "no", "--daemonize", "no")
    try:
        for _ in range(100):
            if os.path.exists(socket):
                break
            time.sleep(0.1)
        world.run("redis-benchmark", "-s", socket, "-q", "-n", "50000" if world.long else "4000",
                  "-d", "300", "-r", "1000", "-t", "set,get,lpush,lpop,sadd,hset,zadd,mset")
        world.run("redis-cli", "-s", socket, "flushall")
        script = """for i = 1, 20000 do redis.call('set', 'k' .. i, string.rep('v', i % 300))
                    redis.call('rpush', 'l' .. i % 50, i) end return redis.call('dbsize')"""
        output = world.run("redis-cli", "-s", socket, "eval", script, "0")
        output += world.run("redis-cli", "-s", socket, "lrange", "l7", "0", "-1")
        world.run("redis-cli", "-s", socket, "shutdown", "nosave")
        return output + b"status %d" % server.wait(timeout=30)
    finally:
        server.kill()
        server.wait()


def run_node(world):
    need("node")
    return world.run("node", os.path.join(INPUTS, "objects.js"))


def run_git(world):
    need("git")
    env = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org",
           "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org",
           "GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2020-01-01T00:00:00Z"}
    world.run("git", "init", "-q", "-b", "main", "one", **env)
    for commit in range(60 if world.long else 12):
        for number in range(20):
            with open(world.path(f"one/file{number}"), "a", encoding="ascii") as file:
                file.write(f"line {commit} of {number * commit}\n" * (number + 1))
        world.run("git", "-C", "one", "add", ".", **env)
        world.run("git", "-C", "one", "commit", "-q", "-m", f"commit {commit}", **env)
    world.run("git", "clone", "-q", "one", "two", **env)
    world.run("git", "-C", "two", "gc", "-q", "--aggressive", **env)
    return (world.run("git", "-C", "two", "log", "-p", **env) +
            world.run("git", "-C", "two", "fsck", "--full", "--no-progress", **env))


def run_bash(world):
    need("bash")
    forks = 3000 if world.long else 300
    return world.run("bash", "-c", f"""
        sum=0
        for ((i = 0; i < {forks}; i++)); do
            sum=$((sum + $(echo $i)))
            text+="$(printf '%x' $i)"
        done
        declare -A map; for ((i = 0; i < 5000; i++)); do map[$i]=$((i * i)); done
        echo $sum ${{#text}} ${{map[4999]}}; ls / | sort | wc -l; (exit 3) || echo $?""")


def run_php(world):
    """It loads its extensions with RTLD_DEEPBIND."""
    need("php")
    return world.run("php", os.path.join(INPUTS, "extensions.php"))


PROGRAMS = {
    "python": run_python, "python-tests": run_python_tests, "gcc": run_gcc, "c++": run_cxx,
    "sqlite3": run_sqlite, "redis": run_redis, "node": run_node, "git": run_git, "bash": run_bash,
    "php": run_php,
}


def once(program, library, mode, long):
    # The same path each time: some outputs contain it.
    directory = tempfile.mkdtemp(prefix="near-programs-")
    fixed = os.path.join(tempfile.gettempdir(), f"near-programs-{os.getpid()}")
    os.rename(directory, fixed)
    try:
        return PROGRAMS[program](World(fixed, library, mode, long))
    finally:
        shutil.rmtree(fixed, ignore_errors=True)


def compare(program, library, long):
    """Prints one line. False: it failed."""
    try:
        expected = once(program, None, "", long)
    except Missing as missing:
        print(f"skipped {program}: needs {missing}")
        return True
    for mode in MODES:
        try:
            output = once(program, library, mode, long)
        except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
            print(f"FAILED {program} {mode}: {error}")
            return False
        if output != expected:
            print(f"FAILED {program} {mode}: it prints something else")
            print(output.decode(errors="replace")[:2000])
            return False
    print(f"ok {program}")
    return True


def main(arguments):
    long = "--long" in arguments
    arguments = [a for a in arguments if a != "--long"]
    if not arguments or not os.path.isfile(arguments[0]) or set(arguments[1:]) - set(PROGRAMS):
        print(__doc__, file=sys.stderr)
        return 2
    library = os.path.abspath(arguments[0])
    return 0 if all([compare(p, library, long) for p in arguments[1:] or PROGRAMS]) else 1


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    sys.exit(main(sys.argv[1:]))
