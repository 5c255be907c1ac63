"""examples/digits, in fewer iterations: one process and hybrid get 97% of the test images, and the same parameters."""

import os
import re
import subprocess
import sys

import cluster

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLE = os.path.join(HERE, "../../examples/digits")
sys.path.insert(0, os.path.join(HERE, "../support"))

import numpy  # pylint: disable=wrong-import-position
from caffe_wire import read_caffemodel  # pylint: disable=wrong-import-position

TOLERANCE = 1e-4  # of each blob's largest magnitude
PROMISED = 0.97


class DigitsTest(cluster.JobTest):

    def setUp(self):
        super().setUp()
        subprocess.run([sys.executable, EXAMPLE + "/make_idx.py", EXAMPLE + "/digits.csv.gz", self.folder], check=True,
                       stdout=subprocess.DEVNULL)
        for part in ("train", "test"):
            files = [self.path(part + name) for name in ("-images", "-labels", "_leveldb")]
            status, text = cluster.run_tool("convert_mnist_data", *files, "--backend=leveldb")
            self.assertEqual(status, 0, text)
        self.write("net.prototxt", self.of_example("digits_train_test.prototxt")
                   .replace("examples/digits/work", self.folder))

    @staticmethod
    def of_example(name):
        with open(os.path.join(EXAMPLE, name), encoding="utf-8") as file:
            return file.read()

    def train(self, name, conv, fc, iterations=500, threads=0):
        """Trains under a table that hproute writes. Returns the accuracy that the job prints, and the model."""
        text = self.of_example("digits_solver.prototxt")
        text = text.replace("examples/digits/digits_train_test.prototxt", self.path("net.prototxt"))
        text = text.replace("examples/digits/work/digits", self.path(name))
        for field, value in (("max_iter: 1000", iterations), ("test_interval: 250", iterations),
                             ("stepvalue: 700", 350), ("stepvalue: 900", 450)):
            text, count = re.subn(field, "%s %d" % (field.split()[0], value), text)
            self.assertEqual(count, 1, field)
        table = self.path(name + ".prototxt")
        status, said = cluster.run_tool("hproute", "--solver=" + self.write(name + "_solver.prototxt", text),
                                        "--conv=%d" % conv, "--fc=%d" % fc, "--hosts=127.0.0.1", "--out=" + table)
        self.assertEqual(status, 0, said)
        names = ["conv%d" % i for i in range(conv)] + ["fc%d" % i for i in range(fc)]
        with open(table, encoding="utf-8") as file:
            text = file.read()
        ports = iter(cluster.free_ports(len(names)))
        # One pass: a port drawn may itself be of those that hproute gives.
        text = re.sub(r"port: \d+", lambda _: "port: %d threads: %d" % (next(ports), threads), text)
        self.write(name + ".prototxt", text)
        nodes = [self.start(name=node, table=name + ".prototxt", log=name + "-" + node) for node in names]
        self.expect_all(nodes, 0, "Optimization Done")
        said = "".join(node.text() for node in nodes)
        return (float(re.findall(r"Test net output #0: accuracy = (\S+)", said)[-1]),
                self.path("%s_iter_%d.caffemodel" % (name, iterations)))

    def test_hybrid_and_one_process(self):
        for name, conv, fc in (("one", 1, 0), ("hybrid", 2, 2)):
            accuracy, _ = self.train(name, conv, fc)
            self.assertGreaterEqual(accuracy, PROMISED, name)
        # All parameters after 20 iterations, with one thread a node on both sides. Not after 500: where two pixels of a
        # pooling window are equal up to rounding, another order of sums takes the other one, and from then on it is
        # another, as good, model; so it is with one process at one and at two threads.
        accuracy_one, one = self.train("one", 1, 0, iterations=20, threads=1)
        accuracy_hybrid, hybrid = self.train("hybrid", 2, 2, iterations=20, threads=1)
        self.assertEqual(accuracy_hybrid, accuracy_one)
        expected, found = read_caffemodel(one), read_caffemodel(hybrid)
        self.assertEqual(list(found), ["conv1", "conv2", "ip1", "ip2"])
        for layer, blobs in expected.items():
            for blob, other in zip(blobs, found[layer]):
                self.assertLess(numpy.abs(other - blob).max(), TOLERANCE * numpy.abs(blob).max(), layer)


if __name__ == "__main__":
    cluster.main()
