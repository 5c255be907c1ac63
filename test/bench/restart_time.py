#!/usr/bin/env python3
"""How long a job takes from the loss of a node until it trains again: one conv and two FC nodes on this host, which share a
folder, with a net that has AlexNet's number of parameters (58.6 M, in FC layers) and tiny convolutions; or AlexNet.

    test/bench/restart_time.py build/release/bin [--rounds=5] [--alexnet=BATCH] [--hplaunch]

Each round kills a node, conv0 and fc1 in turn, once a snapshot of this start is begun, and takes the time from the kill to the
line of the next start's first iteration, by the nodes' own logs. All nodes are started again with --resume=latest as soon as
the last one has ended, by this program or by one hplaunch (--max_restarts). The snapshot is in the page cache.
"""

import argparse
import os
import re
import signal
import statistics
import sys
import time
import unittest

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), folder) for folder in ("../process", "../support")]

import cluster  # pylint: disable=wrong-import-position
import example_nets  # pylint: disable=wrong-import-position
import launched  # pylint: disable=wrong-import-position
import snapshot_cost  # pylint: disable=wrong-import-position

ITERATION = r"Iteration (\d+)[ ,].*loss = "
SNAPSHOT = "Snapshotting solver state to binary proto file"
RESUMED = r"resuming at iteration [1-9]"
VICTIMS = ("conv0", "fc1")
PATIENCE_S = 300


class Bench(launched.Launched):
    options = None

    def runTest(self):
        if self.options.alexnet:
            self.make_alexnet(self.options.alexnet)
        else:
            self.make_table(conv=1, fc=2, threads=None)
            self.make_job(iterations=1000000, snapshot=10, net=snapshot_cost.net(), hidden=snapshot_cost.HIDDEN,
                          solver="display: 1\nbase_lr: 0.0001\n")
        took_s = []
        for victim, seconds in self.of_hplaunch() if self.options.hplaunch else self.of_this_program():
            took_s.append(seconds)
            print("killed %s: trains again after %.2f s" % (victim, seconds), flush=True)
        print("%d restarts: median %.2f s, most %.2f s" % (len(took_s), statistics.median(took_s), max(took_s)))

    def make_alexnet(self, batch):
        def run(name, *arguments):
            status, text = cluster.run_tool(name, *arguments)
            self.assertEqual(status, 0, text)

        example_nets.write_example(self.folder, "alexnet", batch, 1000000, run)
        solver = re.sub(r"display: \d+", "display: 1\nsnapshot: 10", self.read("solver.prototxt").decode())
        self.write("solver.prototxt", solver)
        self.make_table(conv=1, fc=2, threads=None, before="pool5", cut="fc6")

    def of_this_program(self):
        killed_at = None
        for number in range(self.options.rounds + 1):
            nodes = self.start_all(self.ports, "--resume=latest", "--keep_snapshots=2")
            self.await_text(nodes["fc0"], ITERATION, seconds=PATIENCE_S)
            if killed_at is not None:
                self.assertRegex(nodes["conv0"].text(), RESUMED)
                yield victim, nodes["fc0"].logged_at(ITERATION) - killed_at
            self.await_text(nodes["conv0"], SNAPSHOT, seconds=PATIENCE_S)
            victim = VICTIMS[number % 2]
            killed_at = nodes[victim].send(signal.SIGKILL)
            for node in nodes.values():
                node.wait(60)
            self.processes.clear()

    def await_log(self, node, start, pattern):
        """Waits for a line of a node's log of the run folder. Returns the log."""
        path = self.path("run/logs/%s.%d.log" % (node, start))
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            text = self.read(path).decode() if os.path.exists(path) else ""
            if re.search(pattern, text):
                return text
            time.sleep(0.01)
        raise AssertionError("%s does not say %r" % (path, pattern))

    def of_hplaunch(self):
        command = [cluster.program("hplaunch"), self.table(), "--run_dir=" + self.path("run"),
                   "--max_restarts=%d" % self.options.rounds, "--", "--cache_dir=none", "--keep_snapshots=2"]
        self.processes.append(cluster.Process("hplaunch", command, self.path("hplaunch.log"), dict(os.environ)))
        for number in range(self.options.rounds):
            self.await_log("conv0", number + 1, SNAPSHOT)
            victim, killed_at = VICTIMS[number % 2], time.time()
            os.kill(self.nodes_of_run()[victim], signal.SIGKILL)
            text = self.await_log("fc0", number + 2, ITERATION)
            self.await_log("conv0", number + 2, RESUMED)
            yield victim, cluster.times_of(ITERATION, text)[0] - killed_at


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--alexnet", type=int, metavar="BATCH", help="the net of examples/alexnet, on drawn images")
    parser.add_argument("--hplaunch", action="store_true", help="one hplaunch restarts the nodes")
    Bench.options = parser.parse_args()
    sys.argv[1:] = [sys.argv[1]]
    cluster.main()


def load_tests(*_):
    return unittest.TestSuite([Bench()])


if __name__ == "__main__":
    main()
