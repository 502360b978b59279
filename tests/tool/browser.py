# SPDX-License-Identifier: MIT
"""Pages in Chromium without a window, by its DevTools protocol on a pair of pipes."""
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import time
import unittest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser",
                                                "google-chrome"))), None)
# What it needs in containers and for root; nothing from the network.
OPTIONS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
           "--no-first-run", "--disable-background-networking", "--disable-component-update",
           "--hide-scrollbars", "--window-size=1300,1200", "--remote-debugging-pipe"]
SECONDS = 120


class Browser:
    def __init__(self, folder):
        ours, theirs = self.pipe(os.pipe()), self.pipe(os.pipe())
        self.out, self.answers, self.buffer, self.number = ours[1], theirs[0], b"", 0
        self.errors = []
        # Its pipes are the descriptors 3 and 4.
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            ["bash", "-c", f'exec "$@" 3<&{ours[0]} 4>&{theirs[1]}', "bash", CHROMIUM, *OPTIONS,
             f"--user-data-dir={folder}"], pass_fds=(ours[0], theirs[1]),
            env={**os.environ, "HOME": folder, "LANG": "C.UTF-8", "TZ": "UTC"},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(ours[0])
        os.close(theirs[1])
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target,
                                 flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    @staticmethod
    def pipe(ends):
        """Descriptors that are none of those it expects."""
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in ends]
        for fd in ends:
            os.close(fd)
        return high

    def message(self):
        while b"\0" not in self.buffer:
            part = os.read(self.answers, 1 << 16)
            if not part:
                raise AssertionError("the browser ended")
            self.buffer += part
        text, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(text)
        if message.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
            self.errors.append(json.dumps(message["params"])[:1000])
        return message

    def call(self, method, **params):
        self.number += 1
        request = {"id": self.number, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.out, json.dumps(request).encode() + b"\0")
        while True:
            message = self.message()
            if message.get("id") == self.number:
                if "error" in message:
                    raise AssertionError(message["error"])
                return message["result"]

    def open(self, path):
        self.errors.clear()
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=f"file://{path}".replace("<", "%3C"))
        self.wait("location.protocol === 'file:' && document.readyState === 'complete'")

    def value(self, expression):
        """Of JavaScript, as JSON has it."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in result:
            raise AssertionError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, expression):
        end = time.monotonic() + SECONDS
        while not self.value(expression):
            if time.monotonic() > end:
                raise AssertionError(f"not true: {expression}")
            time.sleep(.02)

    def text(self, name):
        return self.value(f"document.getElementById('{name}').innerText")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
        except (AssertionError, OSError):
            pass
        os.close(self.out)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.answers)


class PageCase(unittest.TestCase):
    """Mixed into the case of a page's tests, which share a browser; skipped where there is none."""
    browser = None

    @classmethod
    def setUpClass(cls):
        if not CHROMIUM:
            raise unittest.SkipTest("no Chromium")
        super().setUpClass()
        profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        cls.addClassCleanup(profile.cleanup)
        cls.browser = Browser(profile.name)
        cls.addClassCleanup(cls.browser.close)

    def open_page(self, path):
        """Opens a page that reports no error."""
        self.browser.open(path)
        self.assertEqual(self.browser.errors, [])
        self.assertEqual(self.browser.value("document.getElementById('error').hidden"), True)
