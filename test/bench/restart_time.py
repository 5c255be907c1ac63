#!/usr/bin/env python3
"""How long a job takes from the loss of a node until it trains again: a net of AlexNet's size (58.6 M parameters in its FC
layers, made-up data), one conv and two FC nodes on this host, which share a folder.

    test/bench/restart_time.py build/release/bin [--rounds=5]

Each round kills a node, conv0 and fc1 in turn, starts all nodes again with --resume=latest as soon as the last one has
ended, and takes the time from the kill to the line of the first iteration, by the nodes' own logs. The snapshot is in the
page cache.
"""

import argparse
import os
import signal
import statistics
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../process"))

import cluster  # pylint: disable=wrong-import-position
import snapshot_cost  # pylint: disable=wrong-import-position

ITERATION = r"Iteration (\d+)[ ,].*loss = "


class Bench(cluster.JobTest):
    rounds = 5

    def runTest(self):
        names = self.make_table(conv=1, fc=2, threads=None)
        self.make_job(iterations=1000000, snapshot=10, net=snapshot_cost.net(), hidden=snapshot_cost.HIDDEN,
                      solver="display: 1\nbase_lr: 0.0001\n")
        killed_at, took_s = None, []
        for number in range(Bench.rounds + 1):
            nodes = self.start_all(names, "--resume=latest", "--keep_snapshots=2")
            self.await_text(nodes["fc0"], ITERATION, seconds=300)
            if killed_at is not None:
                assert "resuming at iteration" in nodes["conv0"].text()
                took_s.append(nodes["fc0"].logged_at(ITERATION) - killed_at)
                print("killed %s: trains again after %.2f s" % (victim, took_s[-1]), flush=True)
            self.await_text(nodes["conv0"], "Snapshotting solver state to binary proto file", seconds=300)
            victim = ("conv0", "fc1")[number % 2]
            killed_at = nodes[victim].send(signal.SIGKILL)
            for node in nodes.values():
                node.wait(60)
            self.processes.clear()
        print("%d restarts: median %.2f s, most %.2f s" % (len(took_s), statistics.median(took_s), max(took_s)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin")
    parser.add_argument("--rounds", type=int, default=5)
    Bench.rounds = parser.parse_args().rounds
    sys.argv[1:] = [sys.argv[1]]
    cluster.main()


def load_tests(*_):
    return unittest.TestSuite([Bench()])


if __name__ == "__main__":
    main()
