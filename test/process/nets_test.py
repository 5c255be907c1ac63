"""The nets of examples/ under the tables that lie beside them: the same parameters and tests as in one process.

Those that take images of any size get small ones. The others, whose FC layers ask for 224 pixels, have an eighth of the
channels: HPNODE_ALL_NETS=1 runs them as they are, a minute and several GB each."""

import os
import re
import sys

import cluster

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))

import numpy  # pylint: disable=wrong-import-position
import example_nets  # pylint: disable=wrong-import-position
from caffe_wire import read_caffemodel  # pylint: disable=wrong-import-position

TOLERANCE = 1e-4  # of a layer's largest parameter: a bias that began at 0 has only its last bits' worth of updates
BATCH = 6
TESTED = "iter_size: 2 test_iter: 2 test_interval: 1 test_initialization: true\n"


class NetsTest(cluster.JobTest):

    def run_program(self, *command):
        status, said = cluster.run_tool(*command)
        self.assertEqual(status, 0, said)

    def train(self, table, model):
        """The model's blobs by layer, and what the tests printed: names and values."""
        job = self.start("--all", table=table)
        self.expect_exit(job, 0, "Optimization Done")
        return read_caffemodel(model), re.findall(r"Test net output #\d+: (.+?) = ([\w.+-]+)", job.text())

    def check(self, name):
        model = example_nets.write_example(self.folder, name, BATCH, example_nets.UPDATES[name], self.run_program)
        with open(self.path("solver.prototxt"), "a", encoding="utf-8") as file:
            file.write(TESTED)
        table, replicas = example_nets.example_table(name)
        self.write("hybrid.prototxt", table)
        # As many micro-batches as replicas, of the same samples: BatchNorm goes by them.
        self.make_table(conv=1, fc=0, micro_batches=replicas)
        (expected, tests), (found, found_tests) = (self.train(path, model) for path in ("table.prototxt", "hybrid.prototxt"))
        self.assertGreaterEqual(len(tests), 1 + example_nets.UPDATES[name])
        self.assertEqual([output for output, _ in found_tests], [output for output, _ in tests])
        numpy.testing.assert_allclose([float(value) for _, value in found_tests], [float(value) for _, value in tests],
                                      rtol=TOLERANCE, atol=TOLERANCE)
        self.assertEqual(list(found), list(expected))
        for layer, blobs in expected.items():
            largest = max(numpy.abs(blob).max() for blob in blobs)
            for blob, other in zip(blobs, found[layer]):
                self.assertLessEqual(numpy.abs(other - blob).max(), TOLERANCE * largest, layer)

    def test_tables_are_the_same_wherever_the_tree_lies(self):
        for name in example_nets.SIDES:
            with open(example_nets.example_file(name, "table"), encoding="utf-8") as file:
                solver = os.path.basename(example_nets.example_file(name, "solver"))
                self.assertIn('\nsolver: "%s"\n' % solver, file.read(), name)

    def check_all(self, names):
        for name in example_nets.SIDES:
            if name in names:
                with self.subTest(name):
                    self.check(name)

    def test_nets_of_any_image_size(self):
        self.check_all(example_nets.SMALL)

    def test_nets_of_full_images(self):
        self.check_all(example_nets.LARGE)


if __name__ == "__main__":
    cluster.main()
