"""examples/NET/run.sh: draws images, trains the net with the four nodes of its table, and leaves a model. Nets of
ImageNet's images have an eighth of the channels; HPNODE_ALL_NETS=1 takes them as they are."""

import glob
import os
import shutil
import sys

import cluster

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))

import example_nets  # pylint: disable=wrong-import-position

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SMALL = ("lenet", "mnist_autoencoder", "mnist_siamese", "squeezenet")
LARGE = ("alexnet", "caffenet", "googlenet", "nin", "resnet50", "vgg16", "vgg19")


class RunNetTest(cluster.JobTest):

    def run_net(self, net, *flags):
        command = [self.path("examples/%s/run.sh" % net), "--bin", os.path.dirname(cluster.program("hpnode")), *flags]
        process = cluster.Process(net, command, self.path(net + ".log"), dict(os.environ, OMP_WAIT_POLICY="passive"))
        self.processes.append(process)
        return process

    def test_each_net_leaves_a_model(self):
        shutil.copytree(os.path.join(ROOT, "examples"), self.path("examples"), ignore=shutil.ignore_patterns("work"))
        for net in SMALL + LARGE:
            with self.subTest(net):
                if net in LARGE and "HPNODE_ALL_NETS" not in os.environ:
                    path = self.path("examples/%s/%s_train_val.prototxt" % (net, net))
                    example_nets.write_text(path, example_nets.slim(example_nets.read_text(path)))
                self.expect_exit(self.run_net(net, "--iterations=2", "--batch=8"), 0, "Iteration 1", "the model: .*_iter_2.caffemodel")
                model, = glob.glob(self.path("examples/%s/work/*/%s_iter_2.caffemodel" % (net, net)))
                self.assertGreater(os.path.getsize(model), 100000, net)

    def test_what_is_no_option(self):
        """Nor does it cost what an earlier run wrote, or the data in the folder where the net looks for it."""
        shutil.copytree(os.path.join(ROOT, "examples"), self.path("examples"), ignore=shutil.ignore_patterns("work"))
        kept = [self.path("examples/lenet/work/" + name) for name in ("train_leveldb", "run/lenet_iter_9.caffemodel", "run/val_leveldb")]
        os.makedirs(self.path("examples/lenet/work/run"))
        for path in kept:
            example_nets.write_text(path, "")
        for flags, said in ((["--iterations=0"], "lenet: 0: expected a whole number above 0"), (["--net=x"], "lenet: unknown argument --net"),
                            (["--data=" + self.path("none")], "none/train_leveldb is missing"),
                            (["--data=" + self.path("examples/lenet/work")], "work/val_leveldb is missing"),
                            (["--data=" + self.path("examples/lenet/work/run")], "run is made anew by each run; keep data elsewhere")):
            process = self.run_net("lenet", *flags)
            self.assertNotEqual(process.wait(), 0)
            self.assertIn(said, process.text())
        self.assertEqual([path for path in kept if not os.path.exists(path)], [])
        self.expect_exit(self.run_net("lenet", "--iterations=2", "--batch=8"), 0, "the model:")
        self.assertEqual([os.path.exists(path) for path in kept], [True, False, True])


if __name__ == "__main__":
    cluster.main()
