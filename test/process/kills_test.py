"""Kills of every role, one after the other, each followed by a restart with --resume=latest: the final parameters are those
of a run that nobody disturbed, bit for bit.

HPNODE_KILLS (6) says how many, HPNODE_KILLS_SEED (1) which and when.
"""

import glob
import os
import random
import re
import signal

import cluster
import digits

NODES = ("conv0", "conv1", "fc0", "fc1", "ps0")  # conv0 is the first node: it writes the snapshots
EVERY = 40  # iterations between snapshots
AGAIN_LIMIT_S = 10.0  # within which a restarted job trains
ITERATION = r"Iteration (\d+)[ ,].*loss = "


class KillsTest(cluster.JobTest):

    def setUp(self):
        super().setUp()
        self.names = self.make_table(conv=2, fc=2, servers=1)
        self.assertEqual(sorted(self.names), sorted(NODES))

    def make(self, iterations):
        self.make_job(iterations=iterations, snapshot=EVERY, solver="display: 1\n")

    def newest(self):
        """Iteration of the newest snapshot that has a manifest; 0: none."""
        found = [re.search(r"_iter_(\d+)\.hpnode$", path) for path in glob.glob(self.path("out_iter_*"))]
        return max((int(match.group(1)) for match in found if match), default=0)

    def restart(self):
        nodes = self.start_all(self.names, "--resume=latest", "--keep_snapshots=2")
        first = nodes["fc0"]  # it has the loss
        self.await_text(first, ITERATION)
        if self.killed_at is not None:
            took_s = first.logged_at(ITERATION) - self.killed_at
            self.took_s.append(took_s)
            self.assert_promised(took_s, "the job trains again", AGAIN_LIMIT_S)
        return nodes

    def kill(self, nodes, victim, moment):
        """`moment`: so many snapshots and then so many iterations, or no iterations: while the snapshot is written."""
        snapshots, iterations = moment
        self.await_text(nodes["conv0"], r"Snapshotting to binary proto file", count=snapshots)
        if iterations:
            seen = len(re.findall(ITERATION, nodes["fc0"].text()))
            self.await_text(nodes["fc0"], ITERATION, count=seen + iterations)
        self.killed_at = nodes[victim].send(signal.SIGKILL)
        for name, node in nodes.items():
            if name != victim:
                self.expect_exit(node, 4, 'lost node "%s"' % victim)
        nodes[victim].wait()
        self.processes.clear()

    def test_kills_of_every_role(self):
        kills = int(os.environ.get("HPNODE_KILLS", "6"))
        seed = int(os.environ.get("HPNODE_KILLS_SEED", "1"))
        draw = random.Random(seed)
        self.killed_at, self.took_s = None, []
        self.make(1000000)
        for number in range(kills):
            victim = NODES[number % len(NODES)]
            moment = draw.choice((1, 2)), draw.choice((0, draw.randrange(1, EVERY)))
            print("    seed %d, kill %d: %s after %d snapshots and %d iterations, newest of %d" %
                  (seed, number, victim, *moment, self.newest()), flush=True)
            self.kill(self.restart(), victim, moment)
        last = self.newest() + EVERY
        self.make(last)
        self.expect_all(self.restart().values(), 0, "Optimization Done")
        disturbed = [self.read("out_iter_%d.%s" % (last, kind)) for kind in ("caffemodel", "solverstate")]
        for path in glob.glob(self.path("out_*")):
            os.remove(path)
        self.run_job(self.names)
        whole = [self.read("out_iter_%d.%s" % (last, kind)) for kind in ("caffemodel", "solverstate")]
        print("    %d kills, %d iterations; trained again after %.2f s at most, %.2f s in the mean" %
              (kills, last, max(self.took_s), sum(self.took_s) / len(self.took_s)), flush=True)
        self.assertEqual(disturbed, whole, "the parameters differ")


class DigitsTest(digits.DigitsJob):
    """examples/digits with 2 conv and 2 FC nodes: killed nodes' job trains again in time, its first iteration counted."""

    def test_trains_again_in_time(self):
        names = self.make_table(conv=2, fc=2, cut="ip1", before="drop2", solver="digits_solver.prototxt")
        self.write_solver("digits", 1000000, "snapshot: 20\nsnapshot_after_train: false\n")
        solver = self.read("digits_solver.prototxt").decode()
        self.write("digits_solver.prototxt", solver.replace("display: 50", "display: 1"))
        killed_at, took_s = None, []
        for victim in ("conv0", "fc1", None):
            nodes = self.start_all(names, "--resume=latest")
            self.await_text(nodes["fc0"], ITERATION)
            if killed_at is not None:
                self.assertRegex(nodes["conv0"].text(), "resuming at iteration")
                took_s.append(nodes["fc0"].logged_at(ITERATION) - killed_at)
                self.assert_promised(took_s[-1], "digits trains again", AGAIN_LIMIT_S)
            if victim is None:
                break
            self.await_text(nodes["conv0"], "Snapshotting solver state to binary proto file")
            killed_at = nodes[victim].send(signal.SIGKILL)
            for name, node in nodes.items():
                if name != victim:
                    self.expect_exit(node, 4, 'lost node "%s"' % victim)
            nodes[victim].wait()
            self.processes.clear()
        self.end_processes()
        print("    trained again after %s s" % ", ".join("%.2f" % seconds for seconds in took_s), flush=True)


if __name__ == "__main__":
    cluster.main()
