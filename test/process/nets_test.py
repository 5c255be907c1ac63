"""The nets of examples/ under the tables that lie beside them: the same parameters as in one process.

Those that take images of any size get small ones. The others, whose FC layers ask for 224 pixels, take a minute and
several GB each: HPNODE_ALL_NETS=1 runs them too."""

import os
import re
import shutil
import subprocess
import sys

import cluster

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(HERE, "../../examples")
sys.path.insert(0, os.path.join(HERE, "../support"))

import numpy  # pylint: disable=wrong-import-position
from caffe_wire import read_caffemodel  # pylint: disable=wrong-import-position

TOLERANCE = 1e-4  # of a layer's largest parameter: a bias that began at 0 has only its last bits' worth of updates
BATCH = 6
MNIST = ("lenet", "mnist_siamese", "mnist_autoencoder")
CIFAR = ("cifar10_full", "cifar10_full_sigmoid_bn")
SHORT = MNIST + CIFAR  # of 10 classes; their nets are called train_test
# Side of the images that the net sees.
SMALL = {**{name: 28 for name in MNIST}, **{name: 32 for name in CIFAR}, "nin": 67, "squeezenet": 67, "resnet50": 64}
# One update where a statistic is of two small images: from the second on, what rounding does to weights (1e-7) changes
# gradients by a tenth and more, in PyTorch as well.
UPDATES = {"resnet50": 1}
LARGE = {"alexnet": 227, "caffenet": 227, "googlenet": 224, "vgg16": 224, "vgg19": 224}


def example_file(name, kind):
    """Path of a net's file: "solver", "table", ... Those of CIFAR-10 share a folder."""
    if name.startswith("cifar10_"):
        return "%s/cifar10/%s_%s.prototxt" % (EXAMPLES, name, kind)
    return "%s/%s/%s.prototxt" % (EXAMPLES, name, "table" if kind == "table" else name + "_" + kind)


class NetsTest(cluster.JobTest):

    def write_net(self, name, side):
        """The example's net and solver, on drawn images, for a few gentle updates."""
        self.updates = UPDATES.get(name, 3)
        gray, short = name in MNIST, name in SHORT
        for folder in ("db", "images"):
            shutil.rmtree(self.path(folder), ignore_errors=True)
        subprocess.run([sys.executable, EXAMPLES + "/make_images.py", self.path("images"), "24", str(side),
                        "1" if gray else "3", "10" if short else "1000"], check=True)
        if name == "mnist_siamese":
            status, said = cluster.run_tool("convert_mnist_siamese_data", self.path("images/images"),
                                            self.path("images/labels"), self.path("db"))
        else:
            status, said = cluster.run_tool("convert_imageset", *(["--gray"] if gray else []), "--backend=leveldb",
                                            self.path("images/"), self.path("images/list.txt"), self.path("db"))
        self.assertEqual(status, 0, said)
        status, said = cluster.run_tool("compute_image_mean", "--backend=leveldb", self.path("db"), self.path("mean"))
        self.assertEqual(status, 0, said)
        with open(example_file(name, "train_test" if short else "train_val"), encoding="utf-8") as file:
            net = file.read()
        net = re.sub(r'source: "[^"]*"', 'source: "%s"' % self.path("db"), net)
        net = re.sub(r'mean_file: "[^"]*"', 'mean_file: "%s"' % self.path("mean"), net)
        net = re.sub(r"crop_size: \d+", "crop_size: %d" % side, net)
        net = re.sub(r"batch_size: \d+", "batch_size: %d" % BATCH, net)
        self.write("net.prototxt", net)
        with open(example_file(name, "solver"), encoding="utf-8") as file:
            solver = file.read()
        left_out = "net|test_iter|test_interval|test_initialization|iter_size|snapshot|snapshot_prefix|max_iter"
        solver = re.sub(r"(?m)^(%s): .*\n" % left_out, "", solver)
        solver = re.sub(r"base_lr: (\S+)", lambda found: "base_lr: %g" % (float(found[1]) / 50), solver)
        self.write("solver.prototxt", solver + 'net: "net.prototxt"\nmax_iter: %d\nsnapshot_prefix: "%s"\nrandom_seed: 7\n' %
                   (self.updates, self.path("out")))

    def train(self, table):
        self.expect_exit(self.start("--all", table=table), 0, "Optimization Done")
        return read_caffemodel(self.path("out_iter_%d.caffemodel" % self.updates))

    def check(self, name, side):
        self.write_net(name, side)
        with open(example_file(name, "table"), encoding="utf-8") as file:
            table = file.read()
        replicas = len(re.findall(r'name: "conv\d+"', table))
        # As many micro-batches as replicas, of the same samples: BatchNorm goes by them.
        table = re.sub(r'solver: ".*"', 'solver: "solver.prototxt"', table)
        table = re.sub(r"micro_batches: \d+", "micro_batches: 1", table)
        self.write("hybrid.prototxt", re.sub(r"port: \d+", lambda port: port[0] + " threads: 1", table))
        self.make_table(conv=1, fc=0, micro_batches=replicas)
        expected, found = self.train("table.prototxt"), self.train("hybrid.prototxt")
        self.assertEqual(list(found), list(expected))
        for layer, blobs in expected.items():
            largest = max(numpy.abs(blob).max() for blob in blobs)
            for blob, other in zip(blobs, found[layer]):
                self.assertLessEqual(numpy.abs(other - blob).max(), TOLERANCE * largest, layer)

    def test_tables_are_the_same_wherever_the_tree_lies(self):
        for name in (*SMALL, *LARGE):
            with open(example_file(name, "table"), encoding="utf-8") as file:
                self.assertIn('\nsolver: "%s"\n' % os.path.basename(example_file(name, "solver")), file.read(), name)

    def test_nets_of_any_image_size(self):
        for name, side in SMALL.items():
            with self.subTest(name):
                self.check(name, side)

    def test_nets_of_full_images(self):
        if "HPNODE_ALL_NETS" not in os.environ:
            self.skipTest("SKIPPED: minutes and several GB; HPNODE_ALL_NETS=1 runs it")
        for name, side in LARGE.items():
            with self.subTest(name):
                self.check(name, side)


if __name__ == "__main__":
    cluster.main()
