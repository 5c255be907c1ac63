#!/usr/bin/env python3
"""What snapshots cost: a net of 60 M parameters, one conv and one FC node on this host.

    test/bench/snapshot_cost.py build/release/bin [--iterations=60] [--every=10] [--rounds=3]

Trains in turn without snapshots and with one every few iterations, and takes the difference: wall time (which other
programs disturb) and processor time of both nodes (which they hardly do), each for one snapshot and as the share of a
minute.
"""

import argparse
import os
import statistics
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../process"))

import cluster  # pylint: disable=wrong-import-position

HIDDEN = 7600  # ip1: 100 x 7600, ip_wide: 7600 x 7600, ip2: 7600 x 4: 58.6 M parameters
LOSS = r"Iteration (\d+)[ ,].*loss = "


def net():
    """cluster.NET with a second hidden layer that has nearly all parameters."""
    wide = ('layer { name: "ip_wide" type: "InnerProduct" bottom: "ip1" top: "ip_wide"\n'
            '        inner_product_param { num_output: %(hidden)d weight_filler { type: "xavier" } } }\n')
    head = 'layer { name: "ip2" type: "InnerProduct" bottom: "ip1"'
    assert head in cluster.NET
    return cluster.NET.replace(head, wide + head.replace('bottom: "ip1"', 'bottom: "ip_wide"'))


class Bench(cluster.JobTest):
    options = None

    def prepare(self, iterations, snapshot):
        self.make_job(iterations=iterations, snapshot=snapshot, net=net(), hidden=HIDDEN,
                      solver="display: 1\nbase_lr: 0.0001\n")

    def times(self, iterations, snapshot):
        """(wall s from the first to the last iteration, processor s of all nodes) of a training."""
        names = self.make_table(conv=1, fc=1, threads=None)
        self.prepare(iterations, snapshot)
        before = sum(os.times()[2:4])
        nodes = self.start_all(names, "--keep_snapshots=1")
        self.expect_all(nodes.values(), 0, seconds=3600)
        seen = nodes["fc0"].times_of(LOSS)
        return seen[-1] - seen[0], sum(os.times()[2:4]) - before

    def runTest(self):
        options = Bench.options
        snapshots = options.iterations // options.every
        wall, processor = [], []
        for _ in range(options.rounds):
            plain, often = self.times(options.iterations, 0), self.times(options.iterations, options.every)
            print("%d iterations: %.2f s (%.1f s of processors); with %d snapshots %.2f s (%.1f s)" %
                  (options.iterations, *plain, snapshots, *often), flush=True)
            wall.append((often[0] - plain[0]) / snapshots)
            processor.append((often[1] - plain[1]) / snapshots)
        one, busy = statistics.median(wall), statistics.median(processor)
        cores = os.cpu_count()
        print("a snapshot takes %.3f s of wall time and %.3f s of processors; one a minute: %.2f%% of the time, %.2f%% of "
              "the %d processors" % (one, busy, one / 0.6, busy / 0.6 / cores, cores), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin")
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    Bench.options = parser.parse_args()
    sys.argv[1:] = [Bench.options.bin]
    cluster.main()


def load_tests(*_):
    return unittest.TestSuite([Bench()])


if __name__ == "__main__":
    main()
