#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""near_malloc-production(7): what its recipes say, by the programs that are installed.

usage: production_test.py NEARCPU LIBRARY PAGE [TEST...]

A program that is missing is skipped, and named.
"""
import contextlib
import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

NEARCPU = LIBRARY = PAGE = ""
LONGEST = 30  # seconds that a server may take to answer


def need(*names):
    """Their paths. Administrators' programs are not in every user's PATH."""
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    found = [shutil.which(name, path=path) for name in names]
    if None in found:
        raise unittest.SkipTest(f"there is no {names[found.index(None)]}")
    return found[0] if len(found) == 1 else found


def block(begin):
    """The example of the page that begins with this line."""
    with open(PAGE, encoding="utf-8") as file:
        return re.search(r"```\n" + re.escape(begin) + r"\n(.*?)```", file.read(), re.S)[1]


class Case(unittest.TestCase):
    def setUp(self):
        """A folder that other users may enter, where a socket's name is short enough."""
        scratch = tempfile.TemporaryDirectory(dir="/tmp")
        self.addCleanup(scratch.cleanup)
        self.dir = scratch.name
        os.chmod(self.dir, 0o755)

    def path(self, name):
        return os.path.join(self.dir, name)

    def library(self):
        """Where any user may read it: the build's folder may be closed to them."""
        copy = self.path("libnearcpu-malloc.so")
        if not os.path.exists(copy):
            shutil.copy(LIBRARY, copy)
        return copy

    def user(self, name):
        """For programs that root must not run: an owner for a folder, and how to be it."""
        if os.geteuid():
            return {}
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            self.skipTest(f"there is no user {name}")
        os.makedirs(self.path("data"), exist_ok=True)
        os.chown(self.path("data"), entry.pw_uid, entry.pw_gid)
        return {"user": name, "group": entry.pw_gid, "extra_groups": []}

    @contextlib.contextmanager
    def server(self, *argv, conf="", **more):
        env = {**os.environ, "LD_PRELOAD": self.library(), "NEAR_CONF": conf,
               **more.pop("env", {})}
        # A session of its own: Apache ends its process group.
        with open(self.path("output"), "wb") as output:
            process = subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=output,
                                       stderr=subprocess.STDOUT, start_new_session=True, **more)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(LONGEST)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdin.close()

    def until(self, works, process):
        end = time.monotonic() + LONGEST
        while not works():
            if process.poll() is not None or time.monotonic() > end:
                with open(self.path("output"), encoding="utf-8", errors="replace") as file:
                    self.fail(f"{process.args[0]} does not answer:\n{file.read()[-2000:]}")
            time.sleep(.02)

    def does(self, *argv, **more):
        return subprocess.run(argv, capture_output=True, check=False, text=True, **more)

    def info(self, pid):
        result = self.does(NEARCPU, "info", "--json", str(pid))
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def expect_on(self, pid, how="preloaded"):
        """As IS IT ON? has it."""
        libraries = [o for o in self.info(pid)["libraries"] if o["malloc"]]
        self.assertEqual([o["how"] for o in libraries], [how])

    def stays(self, how, *argv, **more):
        """A program that runs until its input ends, and prints when it does its work."""
        with self.server(*argv, **more) as process:
            self.until(lambda: os.path.getsize(self.path("output")), process)
            self.expect_on(process.pid, how)


class Programs(Case):
    def test_redis(self):
        server, client = need("redis-server", "redis-cli")
        at = [client, "-s", self.path("socket")]
        with self.server(server, "--port", "0", "--unixsocket", at[-1], "--save", "", "--dir",
                         self.dir, conf=f"malloc_region:{self.path('region')},"
                         f"heap_profile:{self.path('heap')},heap_signal:40") as redis:
            self.until(lambda: self.does(*at, "ping").stdout == "PONG\n", redis)
            self.does(*at, "eval", "for i = 1, 20000 do redis.call('set', i, 'x') end", "0")
            with open(f"/proc/{redis.pid}/maps", encoding="utf-8") as maps:
                self.assertIn("libnearcpu-malloc", maps.read())
            libraries = self.info(redis.pid)["libraries"]
            self.assertTrue(libraries[0]["malloc"])
            memory = dict(re.findall(r"(\w+):(\S+)", self.does(*at, "info", "memory").stdout))
            used = int(memory["used_memory"])
            self.assertGreater(used, 20000 * 32)
            if memory["mem_allocator"].startswith("jemalloc"):
                self.assertLess(int(memory["allocator_allocated"]), used / 2)
            conf = f"heap_profile:{self.path('heap')},heap_signal:40"
            result = subprocess.run([NEARCPU, "heap", str(redis.pid)], capture_output=True,
                                    env={**os.environ, "NEAR_CONF": conf}, check=False)
            self.assertEqual((result.returncode, result.stderr), (0, b""))
            text = self.does(NEARCPU, "stats", "--prometheus", self.path("region")).stdout
            self.assertRegex(text, r'near_malloc_in_use_bytes\{index="0",pid="%d"\} \d'
                             % redis.pid)

    def test_postgresql(self):
        folders = sorted(p for p in (f"/usr/lib/postgresql/{n}/bin" for n in range(9, 30))
                         if os.path.exists(p))
        if not folders:
            self.skipTest("there is no PostgreSQL")
        user, data, psql = self.user("postgres"), self.path("data/d"), need("psql")
        result = self.does(folders[-1] + "/initdb", "-N", "-A", "trust", "-U", "near", "-D", data,
                           cwd="/", **user)
        self.assertEqual(result.returncode, 0, result.stderr)
        ask = [psql, "-h", self.path("data"), "-U", "near", "-Atc"]
        with self.server(folders[-1] + "/postgres", "-D", data, "-k", self.path("data"), "-c",
                         "listen_addresses=", cwd="/", **user) as server:
            self.until(lambda: self.does(*ask, "select 1", "postgres").stdout == "1\n", server)
            self.expect_on(server.pid)
            query = "select pg_backend_pid(), sum(x) from generate_series(1, 100000) x"
            self.assertIn("|5000050000", self.does(*ask, query, "postgres").stdout)

    def test_mariadb(self):
        server, install, admin = need("mariadbd", "mariadb-install-db", "mariadb-admin")
        user, data = self.user("mysql"), self.path("data/d")
        os.makedirs(self.path("data"), exist_ok=True)
        result = self.does(install, "--no-defaults", f"--datadir={data}",
                           "--auth-root-authentication-method=normal", "--skip-test-db", cwd="/",
                           **user)
        self.assertEqual(result.returncode, 0, result.stderr)
        at = self.path("data/s")
        with self.server(server, "--no-defaults", f"--datadir={data}", f"--socket={at}",
                         "--skip-networking", cwd="/", **user) as process:
            self.until(lambda: not self.does(admin, "--no-defaults", "-S", at, "-u", "root",
                                             "ping").returncode, process)
            self.expect_on(process.pid)

    def test_interpreters(self):
        waits = {"python3": (sys.executable, "-c", "print([str(i) for i in range(9999)][-1], "
                             "flush=True); input()"),
                 "ruby": ("ruby", "-e", "puts (0..9999).map(&:to_s)[-1]; $stdout.flush; gets"),
                 "node": ("node", "-e", "console.log(Buffer.alloc(9999).length);"
                          "process.stdin.resume()"),
                 "php": ("php", "-r", "echo json_encode(range(1, 999)); fgets(STDIN);")}
        for name, argv in waits.items():
            with self.subTest(name):
                if name != "python3":
                    argv = (need(name), *argv[1:])
                self.stays("preloaded", *argv)

    def test_java(self):
        with open(self.path("L.java"), "w", encoding="ascii") as file:
            file.write("class L { public static void main(String[] a) throws Exception { "
                       "System.out.println(java.nio.ByteBuffer.allocateDirect(9999)); "
                       "System.in.read(); } }")
        java, compiler = need("java", "javac")
        self.assertEqual(self.does(compiler, "-d", self.dir, self.path("L.java")).returncode, 0)
        with self.server(java, "-Xmx64m", "-cp", self.dir, "L") as process:
            self.until(lambda: os.path.getsize(self.path("output")), process)
            self.expect_on(process.pid)

    def test_php_fpm(self):
        names = [n for n in (f"php-fpm{v}" for v in ("8.2", "8.3", "8.4", "")) if
                 shutil.which(n, path=os.environ["PATH"] + ":/usr/sbin")]
        server = need(names[0] if names else "php-fpm")
        with open(self.path("f"), "w", encoding="ascii") as file:
            file.write(f"[global]\nerror_log = {self.path('log')}\n[www]\n"
                       f"{'user = nobody' if not os.geteuid() else ''}\n"
                       f"listen = {self.path('s')}\npm = static\npm.max_children = 2\n")
        with self.server(server, "-F", "-y", self.path("f")) as process:
            self.until(lambda: os.path.exists(self.path("s")), process)
            libraries = self.info(process.pid)["libraries"]
            self.assertTrue(libraries[0]["malloc"])

    def test_apache(self):
        server = need("apache2")
        modules = "/usr/lib/apache2/modules"
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with open(self.path("c"), "w", encoding="ascii") as file:
            file.write(f"ServerRoot {self.dir}\nServerName x\nPidFile {self.path('pid')}\n"
                       f"ErrorLog {self.path('log')}\nListen 127.0.0.1:{port}\n"
                       f"LoadModule mpm_prefork_module {modules}/mod_mpm_prefork.so\n"
                       f"LoadModule authz_core_module {modules}/mod_authz_core.so\n"
                       + ("User nobody\nGroup nogroup\n" if not os.geteuid() else ""))
        with self.server(server, "-f", self.path("c"), "-DFOREGROUND") as process:
            self.until(lambda: os.path.exists(self.path("pid")), process)
            self.expect_on(process.pid)


class Ignored(Case):
    def test_a_static_program(self):
        with open(self.path("s.c"), "w", encoding="ascii") as file:
            file.write("#include <unistd.h>\nint main(void) { char c; write(1, \"x\", 1);"
                       " return read(0, &c, 1) < 0; }")
        result = self.does(need("cc"), "-static", "-o", self.path("s"), self.path("s.c"))
        if result.returncode:
            self.skipTest("no static program can be linked")
        with self.server(self.path("s")) as process:
            self.until(lambda: os.path.getsize(self.path("output")), process)
            result = self.does(NEARCPU, "info", str(process.pid))
            self.assertIn("has none of these libraries", result.stderr)

    @unittest.skipIf(os.geteuid() != 0, "only root makes programs of another user")
    def test_a_setuid_program(self):
        cat = shutil.copy(need("cat"), self.path("cat"))
        os.chown(cat, 65534, 65534)
        os.chmod(cat, 0o4755)
        if os.statvfs(self.dir).f_flag & os.ST_NOSUID:
            self.skipTest("there is no setuid here")
        with self.server(cat) as process:
            process.stdin.write(b"x")
            process.stdin.flush()
            self.until(lambda: os.path.getsize(self.path("output")), process)
            with open(f"/proc/{process.pid}/maps", encoding="utf-8") as maps:
                self.assertNotIn("libnearcpu-malloc", maps.read())


class Files(Case):
    def test_the_drop_in(self):
        """systemd finds nothing to complain of, and takes the settings."""
        drop_in = block("# /etc/systemd/system/redis-server.service.d/malloc.conf")
        self.assertIn("Environment=LD_PRELOAD=", drop_in)
        folder = self.path("near-test.service.d")
        os.mkdir(folder)
        with open(self.path("near-test.service"), "w", encoding="ascii") as file:
            file.write("[Service]\nExecStart=/bin/true\nSystemCallFilter=@system-service\n")
        with open(folder + "/malloc.conf", "w", encoding="ascii") as file:
            file.write(drop_in)
        result = self.does(need("systemd-analyze"), "verify", "--man=no",
                           self.path("near-test.service"))
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_the_pod(self):
        try:
            import yaml
        except ImportError:
            self.skipTest("Python has no yaml")
        pod = yaml.safe_load(block("# pod.yaml"))
        container, = pod["spec"]["containers"]
        env = {e["name"]: e["value"] for e in container["env"]}
        copied = pod["spec"]["initContainers"][0]["command"]
        self.assertEqual(env["LD_PRELOAD"], copied[2] + os.path.basename(copied[1]))

    def test_the_dockerfile(self):
        """What it starts: the same words, on this machine."""
        words = json.loads(re.search(r"CMD (\[.*\])", block("# Dockerfile"))[1])
        self.assertEqual(words[0], "env")
        words[1] = f"LD_PRELOAD={self.library()}"
        need(words[2])
        words += ["--port", "0", "--unixsocket", self.path("socket")]
        with self.server(*words, env={"LD_PRELOAD": ""}) as process:
            self.until(lambda: os.path.exists(self.path("socket")), process)
            self.assertTrue(self.info(process.pid)["libraries"][0]["malloc"])


if __name__ == "__main__":
    NEARCPU, LIBRARY, PAGE = map(os.path.abspath, sys.argv[1:4])
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
