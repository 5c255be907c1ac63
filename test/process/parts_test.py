"""Snapshots that all nodes write into one folder: an owner is killed in the middle of its write, has a full disk, or finds
stale files; a merge is cut off. A snapshot is complete or absent, and the training that goes on gives the same parameters.

A pipe in the place of a file's temporary name holds its writer up: it opens it and waits for a reader.
"""

import glob
import os
import re
import signal
import subprocess
import sys

import cluster

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))

import numpy  # pylint: disable=wrong-import-position
from caffe_wire import read_caffemodel  # pylint: disable=wrong-import-position

LATEST = "--resume=latest"
NAMES = ("conv0", "conv1", "fc0", "fc1")  # ranks 0 to 3; conv0, fc0 and fc1 own parameters
TOLERANCE = 1e-4  # of each blob's largest magnitude


class Parts(cluster.JobTest):
    """A job of four nodes, of which three own parameters, and its files."""

    def setUp(self):
        super().setUp()
        self.names = self.make_table(conv=2, fc=2)
        self.assertEqual(tuple(self.names), NAMES)

    def files(self, iteration):
        return sorted(os.path.basename(path) for path in glob.glob(self.path("out_iter_%d.*" % iteration)))

    def part(self, iteration, rank, start=1, temporary=False):
        return self.path("out_iter_%d.%d.%d.slices" % (iteration, start, rank) + (".%d.tmp" % start if temporary else ""))

    def start_training(self, *flags, iterations=1000000):
        self.make_job(iterations=iterations, snapshot=10, test=True)
        return self.start_all(self.names, *flags)

    def kill(self, nodes):
        for node in nodes.values():
            node.send(signal.SIGKILL)
        for node in nodes.values():
            node.wait()
        self.processes.clear()

    def train_undisturbed(self, iterations):
        """The files' bytes; nothing else is left."""
        self.make_job(iterations=iterations, snapshot=10, test=True)
        self.run_job(self.names)
        whole = [self.read("out_iter_%d.%s" % (iterations, kind)) for kind in ("caffemodel", "solverstate")]
        for path in glob.glob(self.path("out_*")):
            os.remove(path)
        return whole

    def cut_off_merge(self, iteration):
        os.mkfifo(self.path("out_iter_%d.caffemodel.1.tmp" % iteration))
        nodes = self.start_training()
        self.await_text(nodes["conv0"], "snapshot of iteration %d: complete" % iteration)
        self.kill(nodes)
        os.remove(self.path("out_iter_%d.caffemodel.1.tmp" % iteration))
        for path in glob.glob(self.path("out_iter_*")):
            if int(re.search(r"_iter_(\d+)\.", path).group(1)) > iteration:
                os.remove(path)
        self.assertEqual(self.files(iteration), ["out_iter_%d.1.%d.slices" % (iteration, rank) for rank in (0, 2, 3)] +
                         ["out_iter_%d.hpnode" % iteration])


class PartsTest(Parts):

    def finish(self, iterations, pattern):
        nodes = self.start_training(LATEST, iterations=iterations)
        self.expect_all(nodes.values(), 0, "Optimization Done", pattern)
        return [self.read("out_iter_%d.%s" % (iterations, kind)) for kind in ("caffemodel", "solverstate")]

    def test_owners_write_and_the_files_are_those_of_one_writer(self):
        whole = self.train_undisturbed(30)
        nodes = self.start_training(iterations=30)
        self.expect_all(nodes.values(), 0, "Optimization Done")
        self.assertIn("snapshot of iteration 20: complete, 3 node(s) have written their parts", nodes["conv0"].text())
        self.assertEqual(self.files(20), ["out_iter_20." + end for end in ("caffemodel", "hpnode", "solverstate")])
        self.assertEqual(self.files(30), ["out_iter_30." + end for end in ("caffemodel", "hpnode", "solverstate")])
        self.assertEqual(whole[0], self.read("out_iter_30.caffemodel"))
        # Nodes with folders of their own gather: the same bytes.
        self.make_job(iterations=30, snapshot=10, test=True)
        os.makedirs(self.path("else"))
        self.write("solver_else.prototxt", self.read("solver.prototxt").decode()
                   .replace(self.path("out"), self.path("else/out")))
        self.write("else.prototxt", self.read("table.prototxt").decode()
                   .replace("solver.prototxt", "solver_else.prototxt"))
        nodes = {"fc1": self.start(name="fc1", table="else.prototxt"), **self.start_all(NAMES[:3])}
        self.expect_all(nodes.values(), 0, "Optimization Done")
        self.assertNotIn("have written their parts", nodes["conv0"].text())
        self.assertEqual(whole, [self.read("out_iter_30." + kind) for kind in ("caffemodel", "solverstate")])

    def test_an_owner_is_killed_in_the_middle_of_its_write(self):
        whole = self.train_undisturbed(50)
        for rank in (0, 2):
            os.mkfifo(self.part(30, rank, temporary=True))
            nodes = self.start_training()
            self.await_text(nodes["conv0"], r"solver state to binary proto file \S*_iter_20\.")
            self.await_text(nodes["conv0"], r"Snapshotting to binary proto file \S*_iter_30\.")
            victim = NAMES[rank]
            nodes[victim].send(signal.SIGKILL)
            for name, node in nodes.items():
                if name != victim:
                    self.expect_exit(node, 4, 'lost node "%s"' % victim)
            nodes[victim].wait()
            self.processes.clear()
            self.assertNotIn("out_iter_30.hpnode", self.files(30))
            self.assertEqual(self.finish(50, "resuming at iteration 20 from"), whole, victim)
            self.assertEqual(self.files(30), ["out_iter_30." + end for end in ("caffemodel", "hpnode", "solverstate")])
            for path in glob.glob(self.path("out_*")):
                os.remove(path)

    def test_stale_files_of_another_start_are_not_taken(self):
        whole = self.train_undisturbed(50)
        nodes = self.start_training(iterations=20)
        self.expect_all(nodes.values(), 0)
        for rank in range(4):  # as large as they may be, and of the iteration that comes
            with open(self.part(30, rank), "wb") as stale:
                stale.write(b"stale" * 1000)
        self.assertEqual(self.finish(50, "resuming at iteration 20 from"), whole)
        self.assertEqual(self.files(30), ["out_iter_30." + end for end in ("caffemodel", "hpnode", "solverstate")])
        self.assertEqual(glob.glob(self.path("*.slices*")), [])

    def test_a_net_that_was_changed_must_have_the_same_parameters(self):
        """One that lacks some would be what the parts are merged for."""
        self.cut_off_merge(30)
        resume = "--resume=" + self.path("out_iter_30.solverstate")
        for before, after, status, said in (
                ("{ num_output: 4 weight_filler", "{ num_output: 4 bias_term: false weight_filler", 2,
                 r"has 6 blobs of parameters; the net has 5: the snapshot belongs to another net"),
                ("dropout_ratio: 0.25", "dropout_ratio: 0.5", 0, r"is of another net than \"tiny\" as it is now: its "
                 "parameters are taken by the names of their layers\n")):
            self.make_job(iterations=40, snapshot=10, test=True, net=cluster.NET.replace(before, after))
            nodes = self.start_all(self.names, resume)
            self.expect_all(nodes.values(), status)
            self.assertRegex(nodes["conv0"].text(), said)
        self.assertEqual(self.files(40), ["out_iter_40." + end for end in ("caffemodel", "hpnode", "solverstate")])

    def test_a_merge_is_cut_off(self):
        whole = self.train_undisturbed(50)
        self.cut_off_merge(30)
        self.assertEqual(self.finish(50, r"resuming at iteration 30 from \S*/out_iter_30\.solverstate"), whole)
        self.assertEqual(self.files(30), ["out_iter_30." + end for end in ("caffemodel", "hpnode", "solverstate")])

    def test_parts_are_resumed_under_another_table(self):
        self.train_undisturbed(50)
        nodes = self.start_training(iterations=40)
        self.expect_all(nodes.values(), 0)
        expected = read_caffemodel(self.path("out_iter_40.caffemodel"))
        for path in glob.glob(self.path("out_*")):
            os.remove(path)
        self.cut_off_merge(30)
        self.make_job(iterations=40, snapshot=10, test=True)
        self.make_table(conv=1, fc=3, name="other.prototxt")
        nodes = self.start_all(["conv0", "fc0", "fc1", "fc2"], "--resume=" + self.path("out_iter_30.solverstate"),
                               table="other.prototxt")
        self.expect_all(nodes.values(), 0, "Optimization Done", "resuming at iteration 30 from")
        found = read_caffemodel(self.path("out_iter_40.caffemodel"))
        self.assertEqual(list(found), list(expected))
        for layer, blobs in expected.items():
            for blob, other in zip(blobs, found[layer]):
                self.assertLess(numpy.abs(other - blob).max(), TOLERANCE * numpy.abs(blob).max(), layer)

    def test_the_disk_of_one_owner_is_full(self):
        if os.geteuid() != 0:
            self.skipTest("SKIPPED: only root may mount the small disk")
        os.mkdir(self.path("disk"))
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "hpnode-test", self.path("disk")],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if made.returncode != 0:
            self.skipTest("SKIPPED: no small disk can be mounted: " + made.stdout.decode())
        self.addCleanup(subprocess.run, ["umount", self.path("disk")], check=True)
        with open(self.path("disk/filler"), "wb") as filler:
            filler.write(b"x" * 4096)
        os.symlink(self.path("disk/part"), self.part(20, 2, temporary=True))
        nodes = self.start_training(iterations=50)
        self.expect_all(nodes.values(), 0, "Optimization Done")
        self.assertRegex(nodes["fc0"].text(), "snapshot of iteration 20 failed, training does not wait for it: .*No space left")
        self.assertRegex(nodes["conv0"].text(), r"snapshot of iteration 20 is given up, training does not wait for it: .*node 2 "
                                                r"\(fc0\) has given up its part: .*No space left")
        self.assertEqual(self.files(20), [])
        for iteration in (10, 30, 40, 50):
            self.assertEqual(len(self.files(iteration)), 3, iteration)


if __name__ == "__main__":
    cluster.main()
