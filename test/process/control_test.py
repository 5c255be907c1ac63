"""hpctl: the status of a running job, and orders that all nodes carry out in front of the same iteration."""

import fcntl
import json
import os
import pty
import pwd
import re
import select
import socket
import struct
import subprocess
import termios
import time
import unittest

import cluster
import cut_link_test


class Terminal:
    """hpctl watch on a terminal of its own, which this test looks at."""

    def __init__(self, test, routing, rows=24, columns=150):
        self.test = test
        self.controller, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        environment = dict(os.environ, TERM="xterm", LC_ALL="C.UTF-8", LINES="", COLUMNS="")
        self.popen = subprocess.Popen([cluster.program("hpctl"), "--routing=" + routing, "--timeout_s=60", "watch"],
                                      stdin=terminal, stdout=terminal, stderr=subprocess.STDOUT, env=environment)
        os.close(terminal)
        test.addCleanup(os.close, self.controller)
        test.addCleanup(self.popen.kill)
        self.raw = b""

    def text(self):
        """All that it has written, without escape sequences."""
        return re.sub(r"\x1b(\[[0-9;?]*[A-Za-z]|\(.|[=>78])", " ", self.raw.decode(errors="replace"))

    def read(self):
        """Reads more. Returns False at the end."""
        if not select.select([self.controller], [], [], 1)[0]:
            return True
        try:
            more = os.read(self.controller, 65536)
        except OSError:  # nobody has it open any more
            more = b""
        self.raw += more
        return bool(more)

    def await_text(self, *patterns):
        deadline = time.monotonic() + cluster.PATIENCE_S
        while not all(re.search(pattern, self.text()) for pattern in patterns):
            if not self.read() or time.monotonic() > deadline:
                self.test.fail("the terminal does not show %s but %r" % (patterns, self.text()))

    def end(self):
        """Exit status."""
        while self.read():
            pass
        return self.popen.wait(cluster.PATIENCE_S)


class ControlTest(cluster.JobTest):

    def hpctl(self, *words, status=0):
        """Runs hpctl with the job's table. Returns what it said."""
        found, text = cluster.run_tool("hpctl", "--routing=" + self.path("table.prototxt"), "--timeout_s=60", *words)
        self.assertEqual(found, status, text)
        return text

    def start_job(self, hosts=None, **job):
        self.make_job(**{"iterations": 1000000, "snapshot": 1000000, "test": True, **job})
        self.names = self.make_table(conv=2, fc=2, hosts=hosts)
        nodes = self.start_all(self.names)
        self.await_training(nodes.values(), 5)
        return nodes

    def order(self, *words):
        """Gives an order. Returns the iteration at which it is carried out."""
        return int(re.search(r"iteration (\d+)", self.hpctl(*words)).group(1))

    def train(self, iterations, *flags, solver=""):
        """Trains undisturbed to the end. Returns the model's bytes."""
        self.make_job(iterations=iterations, snapshot=1000000, test=True, solver=solver)
        self.run_job(self.names, *flags)
        return self.read("out_iter_%d.caffemodel" % iterations)

    def test_who_gave_an_order(self):
        nodes = self.start_job()
        changed = self.order("lr", "0.0025")
        giver = (r'from 127\.0\.0\.1:\d+, which says it is "%s" on "%s", program "hpctl", process \d+'
                 % (re.escape(pwd.getpwuid(os.geteuid()).pw_name), re.escape(socket.gethostname()[:64])))
        self.assertRegex(nodes["conv0"].text(), r"order lr 0\.0025 %s\n(?s:.*)order lr 0\.0025: in front of iteration %d\n"
                         % (giver, changed))
        self.assertRegex(self.hpctl("status"), r"(?m)^\d+ s ago: order lr 0\.0025 %s$" % giver)
        self.assertRegex(json.loads(self.hpctl("status", "--json"))["last_order"]["text"], "^order lr 0.0025 %s$" % giver)
        self.order("stop")
        self.assertRegex(nodes["conv0"].text(), "order stop " + giver)
        self.expect_all(nodes.values(), 5, "Optimization stopped early")

    def test_status(self):
        nodes = self.start_job()
        for _ in range(1000):
            status = json.loads(self.hpctl("status", "--json"))
            if all(node["images_per_s"] > 0 for node in status["node"]) and "loss" in status["learning"]:
                break
        self.assertEqual([node["name"] for node in status["node"]], self.names)
        self.assertEqual([node["role"] for node in status["node"]], ["conv", "conv", "fc", "fc"])
        self.assertEqual((status["state"], status["precision"]), ("TRAINING", "FP32"))
        self.assertRegex(status["run_id"], r"^[0-9a-f]{16}\.1$")
        self.assertGreater(int(status["iteration"]), 5)
        self.assertAlmostEqual(status["learning"]["rate"], 0.01)
        self.assertEqual([out["blob"] for out in status["learning"]["test_output"]], ["accuracy", "loss"])
        for node in status["node"]:
            self.assertEqual(node["state"], "TRAINING")
            self.assertGreater(node["solvers_free"] + node["solvers_bound"], 0)
            self.assertGreater(int(node["memory_bytes"]), 1 << 20)
            self.assertGreater(node["sent_bytes_per_s"], 0)
            self.assertGreater(node["received_bytes_per_s"], 0)
            self.assertIn("computing", [share["cause"] for share in node["time"]])
            self.assertLess(sum(share["share"] for share in node["time"]), 1.01)
        lines = self.hpctl("status").splitlines()
        self.assertRegex(lines[0], r"^job \S+, run \S+: training, iteration \d+ of 1000000, [\d.]+ images/s, FP32, up ")
        self.assertRegex(lines[1], r"^iteration \d+: loss [\d.]+, lr 0\.01; test at \d+: accuracy [\d.]+ loss [\d.]+$")
        self.assertRegex(lines[3], r"^node +role +host +state +iteration +images/s +solvers +queues +sends/s")
        self.assertRegex(lines[4], r"^conv0 +conv +127\.0\.0\.1 +(training|slow) +\d+ ")
        self.order("stop")
        self.expect_all(nodes.values(), 5, "Optimization stopped early")

        found, text = cluster.run_tool("hpctl", "--routing=" + self.path("table.prototxt"), "--timeout_s=1", "status")
        self.assertEqual((found, len(text.splitlines())), (4, 1), text)
        self.assertRegex(text, r"conv0 \(127\.0\.0\.1:\d+\)|127\.0\.0\.1:\d+")

    @unittest.skipUnless(cluster.has_ipv6(), "SKIPPED: no IPv6 loopback")
    def test_ipv6(self):
        nodes = self.start_job(hosts=["::1", "[::1]", "::1", "[::1]"])
        self.assertRegex(self.hpctl("status"), r"(?m)^conv0 +conv +::1 +(training|slow) +\d+ ")
        self.assertEqual([node["host"] for node in json.loads(self.hpctl("status", "--json"))["node"]], ["::1"] * 4)
        shown = Terminal(self, self.path("table.prototxt"))
        shown.await_text(*self.names, "::1", "q: quit")
        os.write(shown.controller, b"q")
        self.assertEqual(shown.end(), 0)
        status, text = cluster.run_tool("model_test", "--model=" + self.path("net.prototxt"), "--cache_dir=none",
                                        "--iterations=1", "--routing=" + self.path("table.prototxt"))
        self.assertEqual(status, 0, text)
        changed = self.order("lr", "0.0025")
        self.assertRegex(nodes["conv0"].text(), r"order lr 0\.0025 from \[::1\]:\d+, which says it is ")
        self.assertLess(changed, self.order("stop"))
        self.expect_all(nodes.values(), 5, "Optimization stopped early")
        found, text = cluster.run_tool("hpctl", "--routing=" + self.path("table.prototxt"), "--timeout_s=1", "status")
        self.assertEqual((found, len(text.splitlines())), (4, 1), text)
        self.assertRegex(text, r"\[::1\]:%d" % self.ports["conv0"])

    def test_orders(self):
        nodes = self.start_job()
        taken = self.order("snapshot")
        self.await_text(nodes["conv0"], r"_iter_%d\.solverstate" % taken)
        changed = self.order("lr", "0.0025")
        again = self.order("lr", "0.005")
        repeated = self.order("lr", "0.005")
        self.assertTrue(taken < changed < again < repeated)
        while "lr 0.005" not in self.hpctl("status"):
            pass
        last = self.order("stop")
        self.expect_all(nodes.values(), 5, "Optimization stopped early")
        self.assertRegex(nodes["conv0"].text(), r"Iteration %d, base_lr = 0\.0025 from here on, as ordered" % changed)
        for node in nodes.values():
            self.assertEqual(node.errors(), [])
        stopped = self.read("out_iter_%d.caffemodel" % last)
        self.assertEqual(self.manifest_rates(last), [(changed, 0.0025), (again, 0.005), (repeated, 0.005)])
        self.assertEqual(self.manifest_rates(taken), [])
        self.assertNotEqual(self.train(last), stopped, "the orders changed nothing")

    def manifest_rates(self, iteration):
        text = self.read("out_iter_%d.hpnode" % iteration).decode()
        return [(int(at), float(rate)) for at, rate in
                re.findall(r"rate_change \{\s*iteration: (\d+)\s*base_lr: ([\d.e-]+)", text)]

    def test_rate_gives_the_bits_of_a_solver_that_changes_it(self):
        nodes = self.start_job()
        changed = self.order("lr", "0.005")
        self.await_training(nodes.values(), 10)
        last = self.order("stop")
        self.expect_all(nodes.values(), 5, "Optimization stopped early")
        stopped = self.read("out_iter_%d.caffemodel" % last)
        resumed = self.train(last + 20, "--resume=" + self.path("out_iter_%d.solverstate" % last))
        self.assertEqual(self.manifest_rates(last + 20), [(changed, 0.005)])

        # Half the rate: both ways give the same float.
        steps = "base_lr: 0.01\ngamma: 0.5\nstepvalue: %d\n" % changed
        self.make_job(iterations=last + 20, snapshot=last, test=True, solver=steps)
        text = self.read("solver.prototxt").decode().replace('"fixed"', '"multistep"')
        self.write("solver.prototxt", text)
        self.run_job(self.names)
        self.assertEqual(self.read("out_iter_%d.caffemodel" % last), stopped)
        self.assertEqual(self.read("out_iter_%d.caffemodel" % (last + 20)), resumed)

    def test_orders_that_make_no_sense(self):
        nodes = self.start_job()
        for words, said in ((("lr", "0"), "lr is \"0\"; expected a base_lr above 0"), (("lr", "nan"), "lr is \"nan\""),
                            (("lr", "1e60"), "lr is \"1e60\""), (("lr", "0.1x"), "lr is \"0.1x\""),
                            (("lr",), "expected: lr"),
                            (("trace", "maybe"), "expected: trace on|off"), (("dance",), "\"dance\" is no command"),
                            (("stop", "now"), "expected: stop")):
            text = self.hpctl(*words, status=2)
            self.assertIn(said, text)
            self.assertEqual(len(text.splitlines()), 1, text)
        self.await_training(nodes.values(), 5)
        self.hpctl("stop")
        self.expect_all(nodes.values(), 5, "Optimization stopped early")

    def test_trace_of_a_running_job(self):
        nodes = self.start_job()
        begun = self.order("trace", "on")
        self.order("trace", "on")
        self.await_training(nodes.values(), 10)
        ended = self.order("trace", "off")
        self.await_training(nodes.values(), 5)
        self.order("trace", "off")
        self.hpctl("stop")
        self.expect_all(nodes.values(), 5, "Optimization stopped early")
        for name in self.names:
            events = json.loads(self.read("out_trace/%s.json" % name))
            seen = [int(number) for event in events for number in re.findall(r"\b(\d+)\b", event["name"])]
            self.assertTrue(seen, name)
            self.assertGreater(len(events), 4 * (ended - begun))

    def test_watch(self):
        nodes = self.start_job()
        shown = Terminal(self, self.path("table.prototxt"))
        shown.await_text(r"run +[0-9a-f]{16}\.1:", *self.names, "images/s", "solvers", "computing", "q: quit",
                         "[\u2581-\u2588]{2}")
        os.write(shown.controller, b"xq")
        self.assertEqual(shown.end(), 0)
        self.assertIn(b"\x1b[?1049l", shown.raw, "the terminal is left as it was")

        gone = self.hpctl("watch", status=2)
        left = Terminal(self, self.path("table.prototxt"))
        left.await_text("q: quit")
        self.hpctl("stop")
        self.expect_all(nodes.values(), 5, "Optimization stopped early")
        self.assertEqual(left.end(), 4)
        self.assertRegex(left.text(), r"hpctl: .*the job has ended|hpctl: .*not connected")

        self.assertIn("watch needs a terminal; status prints the same once", gone)

    def test_who_may_give_orders(self):
        token = self.path("token")
        self.assertEqual(cluster.run_tool("hproute", "--new_token=" + token)[0], 0)
        key = self.path("key")
        self.assertEqual(cluster.run_tool("hproute", "--token_file=" + token, "--read_key=" + key)[0], 0)
        for extra in ("", "transport { tls: true }"):
            self.make_job(iterations=1000000)
            names = self.make_table(conv=1, fc=1, extra=extra)
            nodes = self.start_all(names, "--token_file=" + token)
            self.await_training(nodes.values(), 5)
            self.assertIn("training", self.hpctl("status", "--token_file=" + key))
            self.assertIn("training", self.hpctl("status", "--token_file=" + token))
            self.assertIn("this is its read key", self.hpctl("lr", "1", "--token_file=" + key, status=2))
            found, text = cluster.run_tool("hpctl", "--routing=" + self.path("table.prototxt"), "--timeout_s=2", "stop")
            self.assertIn(found, (2, 4), text)
            self.await_training(nodes.values(), 5)
            self.hpctl("stop", "--token_file=" + token)
            self.expect_all(nodes.values(), 5, "Optimization stopped early")


class ControlOverANetworkTest(cut_link_test.Hosts):

    def test_orders_from_another_host_need_a_token(self):
        self.expect_orders_need_a_token(self.make_hosts(["conv0", "fc0", "desk"]), r"10\.213\.7\.1")

    def test_orders_over_ipv6(self):
        self.make_hosts(["conv0", "fc0", "desk"])
        self.expect_orders_need_a_token(self.add_ipv6(), r"\[fd00:7::1\]")

    def expect_orders_need_a_token(self, addresses, first):
        """`addresses`: of conv0, fc0 and a desk. `first`: conv0's as messages have it."""
        token = self.path("token")
        self.assertEqual(cluster.run_tool("hproute", "--new_token=" + token)[0], 0)
        self.make_job()
        names, hosts = ["conv0", "fc0"], addresses[:2]

        def hpctl(host, *words, timeout_s=60):
            command = [*self.on_host(host), cluster.program("hpctl"), "--routing=" + self.path("table.prototxt"),
                       "--timeout_s=%d" % timeout_s, *words]
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                                  timeout=cluster.PATIENCE_S)
            return done.returncode, done.stdout.decode()

        for flags in ([], ["--token_file=" + token]):
            self.make_table(conv=1, fc=1, hosts=hosts)
            nodes = [self.start(*flags, name=name, prefix=self.on_host(name)) for name in names]
            self.await_training(nodes, 5)
            # One of the job's own hosts is another host as well.
            for host, *order in (("desk", "stop"), ("desk", "lr", "0.5"), ("desk", "snapshot"), ("fc0", "stop")):
                if flags:  # who has not proven that it has the token is told nothing
                    status, said = hpctl(host, *order, timeout_s=1)
                    # Two limits of 1 s: hpctl's own, and that of its connection, which tries again until then.
                    self.assertRegex(said, r"hpctl: no job at %s:\d+$|hpctl: conv0 \(%s:\d+\) did not appear within 1 s"
                                     % (first, first))
                else:
                    status, said = hpctl(host, *order)
                    self.assertIn("without a token, orders must come from the host of the node that takes them", said)
                self.assertIn(status, (2, 4), said)
            self.await_training(nodes, 5)
            self.assertNotIn("as ordered", "".join(node.text() for node in nodes))
            if flags:
                status, said = hpctl("desk", "lr", "0.005", *flags)
                self.assertEqual(status, 0, said)
                self.await_text(nodes[0], r"base_lr = 0\.005 from here on, as ordered")
                status, said = hpctl("desk", "stop", *flags)
            else:
                self.assertEqual(hpctl("desk", "status")[0], 0, "to look is free")
                status, said = hpctl("conv0", "stop")
            self.assertEqual(status, 0, said)
            self.expect_all(nodes, 5, "Optimization stopped early")


if __name__ == "__main__":
    cluster.main()
