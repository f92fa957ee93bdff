"""A headless browser controlled through Chromium's pipe, without network and without third-party drivers."""

import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PACKAGE = "chromium-headless-shell"
PROGRAM = shutil.which("chromium-headless-shell") or shutil.which("chromium")


class Browser:
    def __init__(self):
        self.room = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        ours, self.out = os.pipe()
        self.back, theirs = os.pipe()
        # Chromium reads from descriptor 3 and writes to descriptor 4.
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec 3<&{ours} 4>&{theirs}; exec "$0" "$@"', PROGRAM, "--headless", "--no-sandbox",
             "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
             f"--user-data-dir={self.room.name}", "--remote-debugging-pipe", "about:blank"],
            pass_fds=(ours, theirs), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(ours)
        os.close(theirs)
        self.number, self.rest, self.events, self.session = 0, b"", [], None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(domain + ".enable")

    def message(self, until):
        while b"\0" not in self.rest:
            if not select.select([self.back], [], [], max(0, until - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            more = os.read(self.back, 1 << 20)
            if not more:
                raise EOFError("the browser has ended")
            self.rest += more
        one, self.rest = self.rest.split(b"\0", 1)
        return json.loads(one)

    def ask(self, method, **params):
        self.number += 1
        request = {"id": self.number, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.out, json.dumps(request).encode() + b"\0")
        until = time.monotonic() + 60
        while True:
            found = self.message(until)
            if found.get("id") == self.number:
                if "error" in found:
                    raise RuntimeError(f"{method}: {found['error']['message']}")
                return found["result"]
            self.events.append(found)

    def open(self, path):
        """Opens a page; returns its console errors and network requests as text."""
        self.events.clear()
        self.ask("Page.navigate", url="file://" + os.path.abspath(path))
        until = time.monotonic() + 60
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.message(until))
        self.run("document.fonts.ready")
        return [json.dumps(event) for event in self.events
                if event.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")
                or event.get("method") == "Network.requestWillBeSent"
                and not event["params"]["request"]["url"].startswith(("file:", "data:"))]

    def run(self, script):
        """The value of an expression evaluated in the page."""
        found = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"])
        return found["result"].get("value")

    def look(self, width, dark=False, media="screen"):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.ask("Emulation.setEmulatedMedia", media=media,
                 features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def close(self):
        self.session = None
        self.ask("Browser.close")
        self.process.wait(60)
        os.close(self.out)
        os.close(self.back)
        self.room.cleanup()
