"""hpnode --metrics: what Prometheus is told of a node, checked by its own promtool, and the dashboard that shows it."""

import json
import os
import re
import shutil
import socket
import subprocess
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

import cluster
import running

DASHBOARD = os.path.join(os.path.dirname(__file__), "..", "..", "tools", "cluster", "grafana", "hpnode.json")


def dashboard_targets():
    """Each query of the dashboard: Grafana's "expr", "legendFormat" and others."""
    with open(DASHBOARD, encoding="utf-8") as file:
        return [target for panel in json.load(file)["panels"] for target in panel["targets"]]


class MetricsTest(cluster.JobTest):

    def start_job(self, flag=True, listen="127.0.0.1"):
        """`listen`: where the nodes serve their metrics, at a port of each."""
        self.make_job(test=True)
        self.names = self.make_table(conv=2, fc=1)
        self.at = dict(zip(self.names, cluster.free_ports(len(self.names), listen.strip("[]"))))
        nodes = {name: self.start(*(["--metrics=%s:%d" % (listen, self.at[name])] if flag else []), name=name)
                 for name in self.names}
        try:
            self.await_training(nodes.values(), 15)
        except AssertionError:
            if any("built without" in node.text() for node in nodes.values()):
                self.skipTest("SKIPPED: prometheus-cpp or cpp-httplib")
            raise
        return nodes

    def scrape(self, name, address="127.0.0.1"):
        with urllib.request.urlopen("http://%s:%d/metrics" % (address, self.at[name]), timeout=60) as answer:
            return answer.read().decode()

    @staticmethod
    def value(text, metric):
        return float(re.search(r"(?m)^%s (\S+)$" % re.escape(metric), text).group(1))

    def test_numbers(self):
        nodes = self.start_job()
        first, second = self.scrape("conv0"), None
        self.await_training(nodes.values(), 5)
        second = self.scrape("conv0")
        self.assertIn('hpnode_info{job="hpnode",node="conv0",role="conv",host="127.0.0.1",precision="FP32"} 1', first)
        done = [self.value(text, "hpnode_iterations_total") for text in (first, second)]
        self.assertLess(done[0], done[1])
        self.assertEqual(self.value(second, "hpnode_images_total"), 6 * done[1], "half of each batch of 12")
        for metric in ("hpnode_computing_seconds_total", "hpnode_sent_bytes_total", "hpnode_received_bytes_total",
                       "hpnode_resident_memory_bytes", "hpnode_training"):
            self.assertGreater(self.value(second, metric), 0, metric)
        self.assertRegex(second, r'hpnode_waiting_seconds_total\{cause="gradients"\} ')
        shard = self.scrape("fc0")
        self.assertGreater(self.value(shard, "hpnode_loss"), 0)
        self.assertEqual(self.value(shard, "hpnode_images_total"), 12 * self.value(shard, "hpnode_iterations_total"))
        self.assertRegex(shard, r'hpnode_test_output\{blob="accuracy"\} ')
        used = {name for target in dashboard_targets() for name in re.findall(r"\bhpnode_\w+", target["expr"])}
        told = set(re.findall(r"(?m)^(hpnode_\w+)", second + shard))
        self.assertEqual(used - told, set(), "the dashboard shows more")

    def expect_refused(self, address):
        request = urllib.request.Request("http://%s:%d/metrics" % (address, self.at["fc0"]),
                                         headers={"Host": "evil.example"})
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=60)
        self.assertEqual(refused.exception.code, 421)

    def test_on_loopback_no_other_name_is_answered(self):
        self.start_job()
        self.expect_refused("127.0.0.1")

    @unittest.skipUnless(cluster.has_ipv6(), "SKIPPED: no IPv6 loopback")
    def test_ipv6(self):
        self.start_job(listen="[::1]")
        for name in self.names:
            self.assertIn('hpnode_info{job="hpnode",node="%s"' % name, self.scrape(name, "[::1]"))
            with self.assertRaises(OSError):
                self.scrape(name)
        self.expect_refused("[::1]")

    @unittest.skipUnless(cluster.has_ipv6(), "SKIPPED: no IPv6 loopback")
    def test_all_addresses_of_both_families(self):
        self.start_job(listen="[::]")
        for name in self.names:
            for address in ("[::1]", "127.0.0.1"):
                self.assertIn('hpnode_info{job="hpnode",node="%s"' % name, self.scrape(name, address))

    @unittest.skipUnless(shutil.which("promtool"), "SKIPPED: promtool (package prometheus)")
    def test_promtool_has_nothing_to_say(self):
        self.start_job()
        for name in self.names:
            text = self.scrape(name)
            done = subprocess.run(["promtool", "check", "metrics"], input=text.encode(), capture_output=True,
                                  timeout=300, check=False)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"", b""), text)

    @unittest.skipUnless(shutil.which("promtool"), "SKIPPED: promtool (package prometheus)")
    def test_the_dashboard_speaks_promql(self):
        rules = [{"record": "query:%d" % i, "expr": target["expr"]} for i, target in enumerate(dashboard_targets())]
        self.assertGreater(len(rules), 10)
        for more, status in ([], 0), ([{"record": "query:wrong", "expr": "sum(hpnode_loss"}], 1):
            path = self.write("rules.json", json.dumps({"groups": [{"name": "dashboard", "rules": rules + more}]}))
            done = subprocess.run(["promtool", "check", "rules", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  timeout=300, check=False)
            self.assertEqual(done.returncode, status, done.stdout.decode())

    def start_prometheus(self):
        """A Prometheus that collects the nodes, as the README has it. Returns its port."""
        port = cluster.free_ports(1)[0]
        config = self.write("prometheus.yml", json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": [
            {"job_name": "hpnode", "static_configs": [{"targets": ["127.0.0.1:%d" % at for at in self.at.values()]}]}]}))
        command = ["prometheus", "--config.file=" + config, "--storage.tsdb.path=" + self.path("prometheus"),
                   "--web.listen-address=127.0.0.1:%d" % port]
        self.processes.append(cluster.Process("prometheus", command, self.path("prometheus.log"), None))
        return port

    @unittest.skipUnless(shutil.which("prometheus"), "SKIPPED: prometheus")
    def test_prometheus_answers_the_dashboard(self):
        nodes = self.start_job()
        port = self.start_prometheus()
        for target in dashboard_targets():
            found = self.await_answer(port, target["expr"])
            for label in re.findall(r"{{(\w+)}}", target.get("legendFormat", "")):
                self.assertTrue(all(label in row["metric"] for row in found), (target, found))
            by_node = {row["metric"]["node"] for row in found if "node" in row["metric"]}
            self.assertIn(by_node, (set(), set(nodes)), target)

    def await_answer(self, port, query):
        """What Prometheus answers to a query, once that is something: a rate needs two samples."""
        url = "http://127.0.0.1:%d/api/v1/query?%s" % (port, urllib.parse.urlencode({"query": query}))
        deadline = time.monotonic() + cluster.PATIENCE_S
        while True:
            try:
                with urllib.request.urlopen(url, timeout=60) as answer:
                    found = json.load(answer)["data"]["result"]
            except urllib.error.HTTPError as error:
                if error.code != 503:  # it is not ready yet
                    self.fail("%s: %s" % (query, error.read().decode()))
                found = []
            except OSError:
                found = []
            rows = len(self.names) if "group_left" in query else 1
            if len(found) >= rows:
                return found
            self.assertIsNone(self.processes[-1].popen.poll(), "prometheus has ended")
            self.assertLess(time.monotonic(), deadline, "no answer to %s but %s" % (query, found))
            time.sleep(0.1)

    def test_addresses_that_are_none(self):
        self.make_job()
        names = self.make_table(conv=1, fc=0)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            for address in ("here", ":9101", "127.0.0.1:", "127.0.0.1:x", "::1:9101", "[::1]", "127.0.0.1:%d" % taken.getsockname()[1]):
                node = self.start("--metrics=" + address, name=names[0])
                self.expect_exit(node, 2, r"--metrics")
        self.expect_exit(self.start("--all", "--metrics=127.0.0.1:9101"), 2, "--metrics is of one node")

    def test_off_by_default(self):
        """Nothing but the node's own port listens, and with --metrics what that names as well."""
        for flag in (True, False):
            nodes = self.start_job(flag)
            for name, node in nodes.items():
                listening, _ = running.tcp_sockets(node.popen.pid)
                self.assertEqual(sorted(listening), sorted([self.ports[name]] + ([self.at[name]] if flag else [])), name)
            self.end_processes()


if __name__ == "__main__":
    cluster.main()
