"""examples/digits, in fewer iterations: one process and hybrid get 97% of the test images, and the same parameters."""

import os
import re
import sys

import cluster
import digits

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../support"))

import numpy  # pylint: disable=wrong-import-position
from caffe_wire import read_caffemodel  # pylint: disable=wrong-import-position

TOLERANCE = 1e-4  # of each blob's largest magnitude


class DigitsTest(digits.DigitsJob):

    def train(self, name, conv, fc, *flags, iterations=500, threads=0):
        """Trains under a table that hproute writes. Returns the accuracy that the job prints, and the model."""
        table = self.path(name + ".prototxt")
        status, said = cluster.run_tool("hproute", "--solver=" + self.write_solver(name, iterations),
                                        "--conv=%d" % conv, "--fc=%d" % fc, "--hosts=127.0.0.1", "--out=" + table, *flags)
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
        return self.accuracy(said), self.path("%s_iter_%d.caffemodel" % (name, iterations))

    def test_hybrid_and_one_process(self):
        for name, conv, fc, *flags in (("one", 1, 0), ("hybrid", 2, 2), ("rounded", 2, 2, "--precision=AUTO")):
            accuracy, _ = self.train(name, conv, fc, *flags)
            self.assertGreaterEqual(accuracy, digits.PROMISED, name)
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
