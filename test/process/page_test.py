"""The page of a job, in a headless browser: what it says, and that it can only be read, here, and needs nothing else."""

import json
import os
import re
import signal
import time
import unittest
import urllib.error
import urllib.request

import browser
import cluster

SCREENSHOT = os.environ.get("HPNODE_PAGE_SCREENSHOT", "")  # a PNG to write, for a person to look at


class PageTest(cluster.JobTest):

    at = "127.0.0.1"  # where the page is shown

    def start_job(self, **job):
        self.make_job(**{"iterations": 1000000, "test": True, **job})
        self.names = self.make_table(conv=2, fc=2)
        nodes = self.start_all(self.names)
        self.await_training(nodes.values(), 5)
        return nodes

    def start_page(self, *flags, listen="127.0.0.1"):
        """hpctl page. Returns its process, once it is there."""
        self.port, self.at = cluster.free_ports(1, listen.strip("[]"))[0], listen
        page = self.process("hpctl", "--routing=" + self.path("table.prototxt"), "--timeout_s=60",
                            "--http=%s:%d" % (listen, self.port), *flags, "page")
        self.await_page(page, "the job is shown at http://%s:%d/" % (listen, self.port))
        return page

    def process(self, program, *arguments):
        command = [cluster.program(program), *arguments]
        process = cluster.Process(program, command, self.path("%s.%d.log" % (program, len(self.processes))), None)
        self.processes.append(process)
        return process

    def await_page(self, process, text):
        try:
            self.await_text(process, re.escape(text))
        except AssertionError:
            if "built without" in process.text():
                self.skipTest("SKIPPED: cpp-httplib")
            raise

    def ask(self, path, method="GET", **headers):
        request = urllib.request.Request("http://%s:%d%s" % (self.at, self.port, path), method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.headers, answer.read().decode()

    def await_json(self, ready):
        for _ in range(100000):
            data = json.loads(self.ask("/job.json")[1])
            if ready(data):
                return data
        return self.fail("the page's job.json says %s" % data)

    def browse(self, host="127.0.0.1", flags=(), complaints=()):
        """The page as a browser shows it, as HTML; `complaints`: each kind that it says on its console. How often is the
        browser's affair: of a page that is refused it may ask for an icon too, and is refused that."""
        if not browser.CHROMIUM:
            self.skipTest("SKIPPED: chromium")
        page = browser.Browser(self.path("browser"), flags)
        try:
            page.show("http://%s:%d/" % (host, self.port))
            page.wait_for('document.querySelector("#lines li, body > pre")')  # drawn, or refused
            if SCREENSHOT and not os.path.exists(SCREENSHOT):
                page.picture(SCREENSHOT)
            shown = page.ask("document.documentElement.outerHTML")
        finally:
            page.close()
        self.assertEqual(set(page.complaints), set(complaints))
        return shown

    @staticmethod
    def trains_on(data):
        nodes = data.get("status", {}).get("node", [])
        return (len(data["point"]) > 1 and len(data["test"]) > 0 and len(data["status"]["link"]) >= 10
                and all(node["images_per_s"] > 0 for node in nodes))

    def test_what_it_says(self):
        nodes = self.start_job()
        self.start_page()
        data = self.await_json(self.trains_on)
        self.assertEqual([node["name"] for node in data["status"]["node"]], self.names)
        shown = self.browse()
        data = json.loads(self.ask("/job.json")[1])
        for name in self.names:
            self.assertRegex(shown, r'<g class="room \w+" data-node="%s">' % name)
            self.assertIn('data-time="%s"' % name, shown)
        for link in data["status"]["link"]:
            ends = (self.names[link["from"]], self.names[link["to"]])
            self.assertRegex(shown, r'<g class="arrow \w+" data-from="%s" data-to="%s"><title>%s sends [^<]+ to %s: '
                                    r'[\d.]+ [kMG]?B/s</title>' % (*ends, *ends))
        self.assertRegex(shown, r'class="arrow forward" data-from="conv0" data-to="fc1"')
        self.assertRegex(shown, r'class="arrow backward" data-from="fc1" data-to="conv0"')
        self.assertRegex(shown, r'class="arrow exchange" data-from="conv0" data-to="conv1"')
        self.assertRegex(shown, r"solvers: \d+ bound, \d+ free")
        loss = re.search(r"<dt>loss</dt><dd>([\d.e-]+)</dd>", shown)
        points = [point["loss"] for point in data["point"]]
        self.assertTrue(any(abs(float(loss.group(1)) - point) <= 1e-3 * point for point in points), (loss, points))
        self.assertRegex(shown, r"<dt>iteration</dt><dd>[\d,]+ of 1,000,000</dd>")
        for curve in ("loss", "accuracy", "images/s"):
            self.assertRegex(shown, r'<path d="M[^"]+" class="curve" data-curve="%s" ' % curve)
        self.assertRegex(shown, r"</span><span>computing \d+%</span>")
        for node in nodes.values():
            node.popen.kill()
            node.popen.wait()
        self.await_json(lambda data: data["problem"])
        self.assertRegex(self.browse(), r'class="pill gone">not connected<(?s:.*)<p id="problem" role="status">[^<]+ '
                                        r'\(below is what it said last\)</p>(?s:.*)>was training<')

    def test_lines_of_the_logs(self):
        nodes = self.start_job()
        self.start_page()
        rows = self.await_json(lambda data: any("loss = " in line["text"] for line in data["line"]))["line"]
        row = next(line for line in rows if "loss = " in line["text"])
        self.assertEqual((row["node"], row["severity"]), ("fc0", "PROGRESS"))
        self.assertIn(row["text"], nodes["fc0"].text(), "as its log has it")
        said = set()
        self.await_json(lambda data: said.update(line["node"] for line in data["line"]) or said == set(self.names))
        self.assertIn('<li data-severity="PROGRESS">', self.browse())

    def test_warnings_of_the_logs(self):
        nodes = self.start_job()
        self.start_page()
        nodes["fc1"].send(signal.SIGSTOP)
        time.sleep(1.3)  # less than counts as a loss, more than a node passes over in silence
        nodes["fc1"].send(signal.SIGCONT)
        def warns(line):
            return line["node"] == "fc1" and "did not run for" in line["text"]
        data = self.await_json(lambda data: any(map(warns, data["line"])))
        line = next(filter(warns, data["line"]))
        self.assertEqual(line["severity"], "WARNING")
        self.assertIn("did not run for", nodes["fc1"].text())
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(int(line["time_s"])))
        self.assertIn('<time class="quiet">%s</time><b>fc1</b><span>%s' % (at, line["text"][:40]), self.browse())

    def test_texts_of_the_job_are_texts(self):
        evil = '<img src=x onerror="document.title=1">&amp;'
        self.make_job(test=True)
        self.names = self.make_table(conv=1, fc=1)
        table = self.read("table.prototxt").decode()
        self.write("table.prototxt", "job: '%s'\n" % evil + re.sub(r"(?m)^job:.*\n", "", table))
        nodes = self.start_all(self.names)
        self.await_training(nodes.values(), 5)
        self.start_page()
        self.await_json(lambda data: data.get("status", {}).get("state") == "TRAINING")
        shown = self.browse()
        self.assertIn('<h1 id="job">&lt;img src=x onerror="document.title=1"&gt;&amp;amp;</h1>', shown)
        self.assertNotIn("<img", shown)

    def test_it_can_only_be_read(self):
        self.start_job()
        self.start_page()
        for path in ("/", "/page.css", "/page.js", "/picture.js", "/charts.js", "/job.json"):
            headers, text = self.ask(path)
            self.assertRegex(headers["Content-Security-Policy"], r"^default-src 'none'; script-src 'self'; ")
            self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
            self.assertNotRegex(text.replace("http://www.w3.org/2000/svg", ""), r"https?://|innerHTML|eval\(", path)
            for method in ("POST", "PUT", "DELETE"):
                with self.assertRaises(urllib.error.HTTPError, msg=method):
                    self.ask(path, method)
        with self.assertRaises(urllib.error.HTTPError):
            self.ask("/stop")

    def assert_answers_to_its_own_names_alone(self):
        for own in ("localhost:9000", "[::1]:9000", "127.0.0.1"):
            self.ask("/job.json", Host=own)
        for path in ("/", "/job.json"):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                self.ask(path, Host="evil.example:%d" % self.port)
            self.assertEqual(refused.exception.code, 421)
            self.assertIn("answers to localhost", refused.exception.read().decode())

    def test_a_name_that_comes_to_mean_this_host(self):
        """DNS rebinding: a stranger's web page lets its name resolve to 127.0.0.1, and asks for our files as its own."""
        self.make_job()
        self.make_table()
        self.start_page()
        self.assert_answers_to_its_own_names_alone()
        resolves = ["--host-resolver-rules=MAP *.example 127.0.0.1, MAP here.localhost 127.0.0.1"]
        refusal = "Failed to load resource: the server responded with a status of 421 (Misdirected Request)"
        shown = self.browse("evil.example", resolves, [refusal])
        self.assertIn("not to \"evil.example:%d\"" % self.port, shown)
        self.assertNotIn("Pipeline", shown)
        self.assertIn("<h2>Pipeline</h2>", self.browse("here.localhost", resolves))

    def test_it_is_there_before_the_job_and_for_its_next_start(self):
        self.make_job(test=True)
        self.names = self.make_table(conv=2, fc=2)
        self.start_page()
        self.await_json(lambda data: data["problem"])
        for _ in range(2):
            nodes = self.start_all(self.names)
            self.await_json(lambda data: not data["problem"] and data["status"]["state"] == "TRAINING")
            for node in nodes.values():
                node.popen.kill()
                node.popen.wait()
            self.await_json(lambda data: data["problem"])

    def test_hpserver(self):
        self.make_job(test=True)
        self.port, listen = cluster.free_ports(2)
        server = self.process("hpserver", "--solver=" + self.path("solver.prototxt"), "--conv=2", "--fc=2",
                              "--cache_dir=none", "--listen=127.0.0.1:%d" % listen, "--folder=" + self.path("run"),
                              "--http=127.0.0.1:%d" % self.port)
        self.await_page(server, "listens on")
        self.await_json(lambda data: "no table has been handed out yet" in data["problem"])
        for role in ("conv", "conv", "fc", "fc"):
            self.start("--role=" + role, log=role, routing="tcp://127.0.0.1:%d" % listen)
        data = self.await_json(self.trains_on)
        self.assertEqual([node["name"] for node in data["status"]["node"]], ["conv0", "conv1", "fc0", "fc1"])
        self.assertIn('data-node="conv1"', self.browse())
        self.assert_answers_to_its_own_names_alone()

    def make_token(self, name="token"):
        """Returns the flag."""
        self.assertEqual(cluster.run_tool("hproute", "--new_token=" + self.path(name))[0], 0)
        return "--token_file=" + self.path(name)

    def test_a_job_with_a_token(self):
        token = self.make_token()
        self.assertEqual(cluster.run_tool("hproute", token, "--read_key=" + self.path("key"))[0], 0)
        self.make_job(test=True)
        self.names = self.make_table(conv=1, fc=1, extra="transport { tls: true }")
        self.await_training(self.start_all(self.names, token).values(), 5)
        for flag in (token, "--token_file=" + self.path("key")):
            self.start_page(flag)
            data = self.await_json(lambda data: data.get("status", {}).get("state") == "TRAINING")
            self.assertEqual([node["name"] for node in data["status"]["node"]], self.names)
        # Who has no token, or another one, is shown nothing.
        other = self.make_token("other")
        for flags, said in (([], "needs the job's token: --token_file=FILE"),
                            (["--timeout_s=1", other], r"no job at 127\.0\.0\.1:\d+|did not appear within 1 s")):
            self.start_page(*flags)
            data = self.await_json(lambda data: data["problem"] not in ("", "no job has answered yet"))
            self.assertRegex(data["problem"], said)
            self.assertNotIn("status", data)

    def test_hpserver_with_a_token(self):
        token = self.make_token()
        self.make_job(test=True)
        self.port, listen, *others = cluster.free_ports(4)
        flags = ["--solver=" + self.path("solver.prototxt"), "--conv=1", "--fc=1", "--cache_dir=none"]
        server = self.process("hpserver", *flags, token, "--folder=" + self.path("run"), "--listen=0.0.0.0:%d" % listen,
                              "--http=127.0.0.1:%d" % self.port)
        self.await_page(server, "listens on")
        for address, more, said in (("127.0.0.1", [], "reached from other hosts: --token_file=FILE is missing"),
                                    ("0.0.0.0", [token], "the page has no access control")):
            refused = self.process("hpserver", *flags, *more, "--folder=" + self.path("other"),
                                   "--listen=0.0.0.0:%d" % others[0], "--http=%s:%d" % (address, others[1]))
            self.expect_exit(refused, 2, said)
        for role in ("conv", "fc"):
            self.start("--role=" + role, token, log=role, routing="tcp://127.0.0.1:%d" % listen)
        data = self.await_json(lambda data: data.get("status", {}).get("state") == "TRAINING")
        self.assertEqual([node["name"] for node in data["status"]["node"]], ["conv0", "fc0"])

    @unittest.skipUnless(cluster.has_ipv6(), "SKIPPED: no IPv6 loopback")
    def test_ipv6(self):
        self.make_job()
        self.names = self.make_table(conv=1, fc=1, hosts=["::1", "::1"])
        self.start_all(self.names)
        self.start_page(listen="[::1]")
        data = self.await_json(lambda data: data.get("status", {}).get("state") == "TRAINING")
        self.assertEqual([node["host"] for node in data["status"]["node"]], ["::1", "::1"])
        self.assert_answers_to_its_own_names_alone()

    def test_it_is_not_shown_to_other_hosts(self):
        self.make_job()
        self.make_table()
        for address, said in (("0.0.0.0:8080", "no access control"), (":8080", "no access control"),
                              ("[::]:8080", "no access control"),
                              ("192.0.2.1:8080", "no access control"), ("here", "is no HOST:PORT")):
            status, text = cluster.run_tool("hpctl", "--routing=" + self.path("table.prototxt"), "--http=" + address,
                                            "page")
            self.assertEqual(status, 2, text)
            self.assertIn(said, text)


if __name__ == "__main__":
    cluster.main()
