"""A node that all others wait for names itself, in its log and in its status, and hproute leaves its host out."""

import json
import re
import signal
import threading
import time

import cluster

CONV2 = """layer { name: "conv2" type: "Convolution" bottom: "conv1" top: "conv2"
        convolution_param { num_output: 128 kernel_size: 3 weight_filler { type: "xavier" } } }
"""
HOSTS = ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
# A node that rests five times as long as it takes for some processor time, but not long enough to be taken for lost.
TICKS, RESTS, LEAST_REST_S, LONGEST_REST_S = 2, 5, 0.1, 1.0
SLOW_S = 180.0  # until it is named, on a loaded machine


class Resting:
    """Stops a process again and again while it is open."""

    def __init__(self, process):
        self.process, self.over = process, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def ticks(self):
        with open("/proc/%d/stat" % self.process.popen.pid, encoding="ascii") as stat:
            return sum(map(int, stat.read().rsplit(")", 1)[1].split()[11:13]))

    def run(self):
        begun, ticks = time.monotonic(), self.ticks()
        while not self.over.wait(0.002):
            if self.ticks() < ticks + TICKS:
                continue  # it waits, or a loaded machine has other work
            self.process.send(signal.SIGSTOP)
            self.over.wait(min(max(RESTS * (time.monotonic() - begun), LEAST_REST_S), LONGEST_REST_S))
            self.process.send(signal.SIGCONT)
            begun, ticks = time.monotonic(), self.ticks()

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


class SlowNodeTest(cluster.JobTest):

    def status_of(self, name):
        status, text = cluster.run_tool("hpctl", "--routing=" + self.path("table.prototxt"), "--timeout_s=60", "status",
                                        "--json")
        self.assertEqual(status, 0, text)
        return {node["name"]: node for node in json.loads(text)["node"]}[name]

    def test_names_itself_and_is_left_out(self):
        # Most of an iteration is the work of the two conv nodes, so that one of them waits for the other.
        net = cluster.NET.replace("batch_size: 12", "batch_size: 128", 1).replace("num_output: 4 ", "num_output: 64 ", 1)
        net = net.replace('layer { name: "pool1"', CONV2 + 'layer { name: "pool1"').replace(
            'bottom: "conv1" top: "pool1"', 'bottom: "conv2" top: "pool1"')
        self.make_job(net=net, solver="display: 1\n", records=128)
        names = self.make_table(conv=2, fc=1, micro_batches=1, hosts=HOSTS)
        nodes = self.start_all(names)
        self.await_training(nodes.values(), 3)
        slow = nodes["conv1"]
        with Resting(slow):
            named = r"W\d{4} .*\] this node, conv1 on host 127\.0\.0\.2, is slow: all others wait for other nodes at least " \
                    r"\d+% of the time, it waits \d+%; (hproute --exclude=\S+) leaves its host out at the next start"
            self.await_text(slow, named, seconds=SLOW_S)
            self.await_text(nodes["conv0"], r"\] node conv1 on host 127\.0\.0\.2 is slow: ")
            deadline = time.monotonic() + SLOW_S
            while not self.status_of("conv1").get("slow"):
                self.assertLess(time.monotonic(), deadline, "its status does not say so")
            # The log's last warning is a part of the status: this one, or a later one of a pause that was too long.
            self.assertRegex(self.status_of("conv1").get("last_warning", ""), "this node, conv1|did not run for")
        for name in ("conv0", "fc0"):
            self.assertNotIn("this node, ", nodes[name].text())
            self.assertNotRegex(nodes[name].text(), r"node (conv0|fc0) on host \S+ is slow")
        nodes["conv0"].send(signal.SIGINT)
        self.expect_all(nodes.values(), 5, "Optimization stopped early")

        exclude = re.search(named, slow.text())[1].split()[1]
        out = self.path("without.prototxt")
        status, said = cluster.run_tool("hproute", "--solver=" + self.path("solver.prototxt"), "--conv=1", "--fc=1",
                                        "--hosts=" + ",".join(HOSTS), exclude, "--out=" + out)
        self.assertEqual(status, 0, said)
        self.assertEqual(re.findall(r'host: "(\S+)"', self.read("without.prototxt").decode()), [HOSTS[0], HOSTS[2]])


if __name__ == "__main__":
    cluster.main()
