"""Headless Chromium, told what to do over its debugging pipe (DevTools protocol): how a page is laid out and coloured."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess

import cluster

CHROMIUM = shutil.which("chromium")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage", "--no-first-run")


class Browser:
    """One page of one browser. Used by one thread; `close` ends it."""

    def __init__(self, folder, flags=()):
        to_browser, own_out = os.pipe()
        own_in, from_browser = os.pipe()
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_browser, from_browser)]

        def prepare():
            cluster.die_with_parent()
            os.dup2(ends[0], 3)  # the descriptors that Chromium expects
            os.dup2(ends[1], 4)

        command = [CHROMIUM, *FLAGS, *flags, "--user-data-dir=" + folder, "--remote-debugging-pipe"]
        self.popen = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL, preexec_fn=prepare, pass_fds=(3, 4))
        for end in (to_browser, from_browser, *ends):
            os.close(end)
        self.out, self.answers = os.fdopen(own_out, "wb", 0), os.fdopen(own_in, "rb", 0)
        self.complaints = []  # of its console
        self.pending, self.asked, self.session = b"", 0, None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Runtime.enable")
        self.call("Log.enable")

    def close(self):
        self.popen.kill()
        self.popen.wait()
        self.out.close()
        self.answers.close()

    def call(self, method, **parameters):
        """What Chromium answers to a call of its protocol. An error of it is an AssertionError."""
        self.asked += 1
        message = {"id": self.asked, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.out.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self.asked:
                assert "result" in answer, "%s: %s" % (method, answer)
                return answer["result"]
            self._note(answer)

    def _read(self):
        while b"\0" not in self.pending:
            ready, _, _ = select.select([self.answers], [], [], cluster.PATIENCE_S)
            assert ready, "chromium does not answer"
            part = self.answers.read(1 << 20)
            assert part, "chromium has ended"
            self.pending += part
        message, self.pending = self.pending.split(b"\0", 1)
        return json.loads(message)

    def _note(self, event):
        if event.get("method") == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
            self.complaints.append(event["params"]["entry"]["text"])
        if event.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(str(event["params"]["exceptionDetails"]))

    def show(self, url, width=1320, height=900, dark=False):
        """Goes to a page, in a window so wide, for users who like dark or light pages. Sizes in CSS pixels."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme",
                                                            "value": "dark" if dark else "light"}])
        assert "errorText" not in self.call("Page.navigate", url=url)

    def ask(self, expression):
        """The value of an expression of JavaScript in the page; promises are awaited."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait_for(self, condition):
        """Waits until an expression of the page is true."""
        self.ask("""new Promise((done) => {
                      const look = () => { if (%s) done(true); else setTimeout(look, 20); };
                      look();
                    })""" % condition)

    def picture(self, path):
        """Writes the whole page as a PNG, for a person to look at."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        data = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"]
        with open(path, "wb") as out:
            out.write(base64.b64decode(data))
