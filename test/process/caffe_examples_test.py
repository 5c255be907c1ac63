"""Caffe's own example solvers, with nets of our own writing after their documentation: each trains as it is, on stand-in
data. Only places of files, lengths (test_iter, max_iter and the intervals), and batches of large nets are others."""

import os
import random
import re
import shutil
import struct
import subprocess
import sys

import cluster

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples")


def layer(name, kind, bottom, top, text=""):
    blobs = "".join(' bottom: "%s"' % blob for blob in bottom.split())
    blobs += "".join(' top: "%s"' % blob for blob in top.split())
    return 'layer { name: "%s" type: "%s"%s %s }\n' % (name, kind, blobs, text)


def data(source, batch, phase=None, stage="", transform="scale: 0.0039215684", top="data label"):
    rule = "include { %s%s }" % ("phase: %s " % phase if phase else "", 'stage: "%s"' % stage if stage else "")
    return layer("data", "Data", "", top, '%s transform_param { %s } data_param { source: "%s" batch_size: %d '
                 'backend: LMDB }' % (rule if phase or stage else "", transform, source, batch))


def product(name, bottom, outputs, filler='type: "xavier"', rates=(1, 2), extra=""):
    rates = "".join("param { lr_mult: %d %s} " % (rate, extra) for rate in rates)
    return layer(name, "InnerProduct", bottom, name, "%s inner_product_param { num_output: %d weight_filler { %s } "
                 'bias_filler { type: "constant" } }' % (rates, outputs, filler))


def autoencoder():
    """784-1000-500-250-30 and back, of sigmoids; tested on what it is trained with, and on the rest."""
    sparse = 'type: "gaussian" std: 1 sparse: 15'
    text = 'name: "MNISTAutoencoder"\n' + data("mnist_train_lmdb", 100, "TRAIN", top="data")
    text += data("mnist_train_lmdb", 100, "TEST", "test-on-train", top="data")
    text += data("mnist_test_lmdb", 100, "TEST", "test-on-test", top="data")
    text += layer("flatdata", "Flatten", "data", "flatdata")
    last = "data"
    sizes = [("encode%d" % (i + 1), size) for i, size in enumerate((1000, 500, 250, 30))]
    sizes += [("decode%d" % i, size) for i, size in zip((4, 3, 2, 1), (250, 500, 1000, 784))]
    for name, size in sizes:
        text += product(name, last, size, sparse, (1, 1))
        last = name + "neuron"
        if name not in ("encode4", "decode1"):
            text += layer(last, "Sigmoid", name, last)
        else:
            last = name
    text += layer("loss", "SigmoidCrossEntropyLoss", "decode1 flatdata", "cross_entropy_loss", "loss_weight: 1")
    text += layer("decode1neuron", "Sigmoid", "decode1", "decode1neuron")
    return text + layer("loss2", "EuclideanLoss", "decode1neuron flatdata", "l2_error", "loss_weight: 0")


def logistic(hidden):
    """Logistic regression of four numbers read from HDF5 files, with a hidden layer or without."""
    text = 'name: "LogisticRegressionNet"\n'
    for phase in ("TRAIN", "TEST"):
        text += layer("data", "HDF5Data", "", "data label", 'include { phase: %s } hdf5_data_param { source: "%s.txt" '
                      'batch_size: 10 }' % (phase, phase.lower()))
    if hidden:
        text += product("fc1", "data", 40, 'type: "xavier"', extra="decay_mult: 1")
        text += layer("relu1", "ReLU", "fc1", "fc1")
    text += product("fc2", "fc1" if hidden else "data", 2, 'type: "xavier"', extra="decay_mult: 1")
    text += layer("loss", "SoftmaxWithLoss", "fc2 label", "loss")
    return text + layer("accuracy", "Accuracy", "fc2 label", "accuracy", "include { phase: TEST }")


def sigmoids(norm):
    """cifar10_full with sigmoids, and BatchNorm in the places of LRN."""
    text, last = 'name: "CIFAR10_full"\n', "data"
    for phase, batch in (("TRAIN", 100), ("TEST", 1000)):
        mirror = " mirror: true" if norm and phase == "TRAIN" else ""
        text += data("cifar10_%s_lmdb" % phase.lower(), batch, phase,
                     transform='mean_file: "cifar_mean.binaryproto"' + mirror)
    for i, (outputs, std, pool) in enumerate(((32, 0.0001, "MAX"), (32, 0.01, "AVE"), (64, 0.01, "AVE")), 1):
        rates = "param { lr_mult: 1 }" + ("" if norm else " param { lr_mult: %d }" % (2 if i < 3 else 1))
        text += layer("conv%d" % i, "Convolution", last, "conv%d" % i,
                      "%s convolution_param { num_output: %d pad: 2 kernel_size: 5 stride: 1 %s weight_filler { type: "
                      '"gaussian" std: %g } }' % (rates, outputs, "bias_term: false" if norm else "", std))
        pooled = "pool%d" % i
        text += layer(pooled, "Pooling", "conv%d" % i, pooled, "pooling_param { pool: %s kernel_size: 3 stride: 2 }" %
                      ("MAX" if norm and i < 3 else pool))
        last = pooled
        if norm:
            last = "bn%d" % i
            text += layer(last, "BatchNorm", pooled, last, "param { lr_mult: 0 } " * 3)
        text += layer("Sigmoid%d" % i, "Sigmoid", last, "Sigmoid%d" % i)
        last = "Sigmoid%d" % i
        if not norm and i < 3:
            text += layer("norm%d" % i, "LRN", last, "norm%d" % i, "lrn_param { local_size: 3 alpha: 5e-05 beta: 0.75 "
                          "norm_region: WITHIN_CHANNEL }")
            last = "norm%d" % i
    text += product("ip1", last, 10, 'type: "gaussian" std: 0.01', (1, 1 if norm else 2))
    text += layer("accuracy", "Accuracy", "ip1 label", "accuracy", "include { phase: TEST }")
    return text + layer("loss", "SoftmaxWithLoss", "ip1 label", "loss")


def example(path, rules=()):
    """A net of examples/ on the stand-in data. `rules`: (pattern, replacement)."""
    with open(os.path.join(EXAMPLES, path), encoding="utf-8") as file:
        text = file.read()
    kinds = {"lenet": "mnist", "cifar10": "cifar10", "mnist_siamese": "mnist_siamese"}
    kind = kinds.get(path.split("/")[0], "ilsvrc12")
    sources = iter(("train", "test"))
    text = re.sub(r'source: "[^"]*"', lambda _: 'source: "%s_%s_lmdb"' % (kind, next(sources)), text)
    text = text.replace("backend: LEVELDB", "backend: LMDB")
    text = re.sub(r'mean_file: "[^"]*"', 'mean_file: "%s_mean.binaryproto"' % kind.replace("cifar10", "cifar"), text)
    for pattern, replacement in rules:
        text, count = re.subn(pattern, replacement, text)
        assert count, pattern
    return text if kind != "ilsvrc12" else re.sub(r"batch_size: \d+", "batch_size: 4", text)


def flickr_style():
    """CaffeNet with a new last layer that learns faster, on images from a list."""
    net = example("caffenet/caffenet_train_val.prototxt", [
        (r'type: "Data"', 'type: "ImageData"'), ("data_param", "image_data_param"),
        (" backend: LMDB", " new_height: 256 new_width: 256"), ("ilsvrc12_(train|test)_lmdb", "list.txt"),
        ('"fc8"', '"fc8_flickr"'), ("num_output: 1000", "num_output: 20")])
    head, tail = net.split('name: "fc8_flickr"', 1)
    tail = tail.replace("lr_mult: 1 ", "lr_mult: 10 ", 1).replace("lr_mult: 2 ", "lr_mult: 20 ", 1)
    return head + 'name: "fc8_flickr"' + tail


def split_phases(net):
    """@return the layers of the training, and those of a test: {"TRAIN": text, "TEST": text}."""
    tops = re.split(r"(?m)^(?=layer \{)", net)
    return {phase: "".join(part for part in tops if "phase: " + other not in part)
            for phase, other in (("TRAIN", "TEST"), ("TEST", "TRAIN"))}


SGD = 'base_lr: %g momentum: 0.9 weight_decay: %g lr_policy: "%s" '
INV = SGD % (0.01, 0.0005, "inv") + "gamma: 0.0001 power: 0.75"
TEST = "test_iter: 100 test_interval: 500 display: 100 max_iter: 10000 snapshot: 5000 "
ENCODER = ('test_state { stage: "test-on-train" } test_iter: 500 test_state { stage: "test-on-test" } test_iter: 100 '
           "test_interval: 500 test_compute_loss: true display: 100 max_iter: 65000 snapshot: 10000 ")
STEP = (SGD % (0.01, 0.0005, "step") + "gamma: 0.1 stepsize: 100000 test_iter: 1000 test_interval: 1000 display: 20 "
        "max_iter: 450000 snapshot: 10000")
HDF5 = ("test_iter: 250 test_interval: 1000 display: 1000 max_iter: 10000 snapshot: 10000 " +
        SGD % (0.01, 0.0005, "step") + "gamma: 0.1 stepsize: 5000")
LENET = ("lenet", lambda: example("lenet/lenet_train_test.prototxt"))
FULL = ("cifar10_full", lambda: example("cifar10/cifar10_full_train_test.prototxt"))
QUICK = ("cifar10_quick", lambda: example("cifar10/cifar10_quick_train_test.prototxt"))
GOOGLENET = ("googlenet", lambda: example("googlenet/googlenet_train_val.prototxt"))
INCEPTION = ("test_iter: 1000 test_interval: 4000 test_initialization: false display: 40 average_loss: 40 "
             "snapshot: 40000 ")
ENCODED = ("mnist_autoencoder", autoencoder)
# By the name of the solver: its net, and its fields beside the net.
SOLVERS = {
    "lenet_solver": (LENET, TEST + INV),
    "lenet_multistep_solver": (LENET, TEST + SGD % (0.01, 0.0005, "multistep") + "gamma: 0.9 stepvalue: 5000 "
                               "stepvalue: 7000 stepvalue: 8000 stepvalue: 9000 stepvalue: 9500"),
    "lenet_solver_adam": (LENET, TEST + 'base_lr: 0.001 momentum: 0.9 momentum2: 0.999 lr_policy: "fixed" type: "Adam"'),
    "lenet_solver_rmsprop": (LENET, TEST + 'base_lr: 0.01 momentum: 0.0 weight_decay: 0.0005 lr_policy: "inv" gamma: 0.0001 '
                             'power: 0.75 type: "RMSProp" rms_decay: 0.98'),
    "lenet_adadelta_solver": (LENET, TEST + 'base_lr: 1.0 lr_policy: "fixed" momentum: 0.95 weight_decay: 0.0005 '
                              'type: "AdaDelta" delta: 1e-6'),
    "lenet_auto_solver": (LENET, TEST + INV + " random_seed: 831486"),
    "mnist_siamese_solver": (("mnist_siamese", lambda: example("mnist_siamese/mnist_siamese_train_test.prototxt")),
                             "test_iter: 100 test_interval: 500 display: 100 max_iter: 50000 snapshot: 5000 " +
                             SGD % (0.01, 0.0, "inv") + "gamma: 0.0001 power: 0.75"),
    "mnist_autoencoder_solver": (ENCODED, ENCODER + SGD % (0.01, 0.0005, "step") + "gamma: 0.1 stepsize: 10000"),
    "mnist_autoencoder_solver_adadelta": (ENCODED, ENCODER + 'base_lr: 1.0 lr_policy: "fixed" momentum: 0.95 '
                                          'weight_decay: 0.0005 type: "AdaDelta" delta: 1e-8'),
    "mnist_autoencoder_solver_adagrad": (ENCODED, ENCODER + 'base_lr: 0.01 lr_policy: "fixed" weight_decay: 0.0005 '
                                         'type: "AdaGrad"'),
    "mnist_autoencoder_solver_nesterov": (ENCODED, ENCODER + 'base_lr: 0.01 momentum: 0.95 weight_decay: '
                                          '0.0005 lr_policy: "step" gamma: 0.1 stepsize: 10000 type: "Nesterov"'),
    "cifar10_quick_solver": (QUICK, "test_iter: 100 test_interval: 500 display: 100 max_iter: 4000 snapshot: 4000 " +
                             SGD % (0.001, 0.004, "fixed")),
    "cifar10_quick_solver_lr1": (QUICK, "test_iter: 100 test_interval: 500 display: 100 max_iter: 5000 snapshot: 5000 "
                                 "snapshot_format: HDF5 " + SGD % (0.0001, 0.004, "fixed")),
    "cifar10_full_solver": (FULL, "test_iter: 100 test_interval: 1000 display: 200 max_iter: 60000 snapshot: 10000 "
                            "snapshot_format: HDF5 " + SGD % (0.001, 0.004, "fixed")),
    "cifar10_full_solver_lr1": (FULL, "test_iter: 100 test_interval: 1000 display: 200 max_iter: 65000 snapshot: 5000 "
                                "snapshot_format: HDF5 " + SGD % (0.0001, 0.004, "fixed")),
    "cifar10_full_solver_lr2": (FULL, "test_iter: 100 test_interval: 1000 display: 200 max_iter: 70000 snapshot: 5000 "
                                "snapshot_format: HDF5 " + SGD % (0.00001, 0.004, "fixed")),
    "cifar10_full_sigmoid_solver": (("cifar10_full_sigmoid", lambda: sigmoids(False)), "test_iter: 10 test_interval: 1000 "
                                    "display: 100 max_iter: 60000 snapshot: 10000 " + SGD % (0.001, 0.004, "step") +
                                    "gamma: 1 stepsize: 5000"),
    "cifar10_full_sigmoid_solver_bn": (("cifar10_full_sigmoid_bn", lambda: sigmoids(True)), "test_iter: 10 test_interval: "
                                       "1000 display: 100 max_iter: 60000 snapshot: 10000 " + SGD % (0.001, 0.004, "step") +
                                       "gamma: 1 stepsize: 5000"),
    "hdf5_classification_solver": (("logistic", lambda: logistic(False)), HDF5),
    "hdf5_classification_nonlinear_solver": (("nonlinear", lambda: logistic(True)), HDF5),
    "bvlc_alexnet": (("alexnet", lambda: example("alexnet/alexnet_train_val.prototxt")), STEP),
    "bvlc_reference_caffenet": (("caffenet", lambda: example("caffenet/caffenet_train_val.prototxt")), STEP),
    "bvlc_googlenet": (GOOGLENET, INCEPTION + "max_iter: 10000000 gamma: 0.96 stepsize: 320000 " +
                       SGD % (0.01, 0.0002, "step")),
    "bvlc_googlenet_quick": (GOOGLENET, INCEPTION + "max_iter: 2400000 power: 0.5 " + SGD % (0.01, 0.0002, "poly")),
    "finetune_flickr_style": (("flickr_style", flickr_style), SGD % (0.001, 0.0005, "step") + "gamma: 0.1 stepsize: 20000 "
                              "test_iter: 100 test_interval: 1000 display: 20 max_iter: 100000 snapshot: 10000"),
}
LARGE = re.compile("bvlc|flickr")


class CaffeExamplesTest(cluster.JobTest):

    def tool(self, name, *flags):
        status, said = cluster.run_tool(name, *flags)
        self.assertEqual(status, 0, said)

    def make_images(self, kind, side, channels, classes):
        subprocess.run([sys.executable, EXAMPLES + "/make_images.py", self.path(kind), "20", str(side), str(channels),
                        str(classes)], check=True)
        for use in ("train", "test"):
            self.tool("convert_imageset", *(["--gray"] if channels == 1 else []), "--backend=lmdb", self.path(kind) + "/",
                      self.path(kind) + "/list.txt", self.path("%s_%s_lmdb" % (kind, use)))
            if kind == "mnist":
                self.tool("convert_mnist_siamese_data", "--backend=lmdb", self.path("mnist/images"),
                          self.path("mnist/labels"), self.path("mnist_siamese_%s_lmdb" % use))
        self.tool("compute_image_mean", "--backend=lmdb", self.path(kind + "_train_lmdb"),
                  self.path(kind.replace("cifar10", "cifar") + "_mean.binaryproto"))

    def write_hdf5(self):
        """Rows of four numbers, whose sum decides the label. @return why this machine can't."""
        draw = random.Random(3)
        for phase in ("train", "test"):
            rows = [[draw.uniform(-1, 1) for _ in range(4)] for _ in range(30)]
            numbers = [number for row in rows for number in row] + [float(sum(row) > 0) for row in rows]
            done = subprocess.run([cluster.program("write_hdf5"), self.path(phase + ".h5"), "data", "float", "30,4", "label",
                                   "float", "30"], input=struct.pack("150d", *numbers), stderr=subprocess.PIPE, check=False)
            if done.returncode:
                return done.stderr.decode()
            self.write(phase + ".txt", self.path(phase + ".h5") + "\n")
        return None

    def train(self, name):
        """Three iterations with a test before and behind them, and a snapshot, with every field but these as it is."""
        (net, text), fields = SOLVERS[name]
        path = net + ".prototxt"
        self.write(path, text())
        for field, value in (("test_iter", 1), ("test_interval", 3), ("max_iter", 3), ("display", 1), ("snapshot", 3)):
            fields = re.sub(r"\b%s: \d+" % field, "%s: %d" % (field, value), fields)
        self.write(name + ".prototxt", 'net: "%s" snapshot_prefix: "%s" %s solver_mode: CPU\n' % (path, name, fields))
        return self.run_solver(name)

    def run_solver(self, name):
        log = self.path(name + ".log")
        command = ["env", "--chdir=" + self.folder, cluster.program("hptrain"), "--solver=%s.prototxt" % name]
        process = cluster.Process(name, command, log, dict(os.environ))
        self.processes.append(process)
        self.expect_exit(process, 0, "Optimization Done", r"Iteration 3, Testing net \(#0\)", r"Iteration 2, lr = ",
                         r"Snapshotting solver state to")
        return process.text()

    def check_all(self, names):
        self.make_images("mnist", 28, 1, 10)
        self.make_images("cifar10", 32, 3, 10)
        for name in names:
            with self.subTest(name):
                self.train(name)

    def test_small_nets(self):
        self.check_all([name for name in SOLVERS if not LARGE.search(name) and not "hdf5" in name])
        text = self.train("mnist_autoencoder_solver")
        for number in (0, 1):
            self.assertRegex(text, r"Iteration 3, Testing net \(#%d\)\n.*Test loss: \S+\n.*cross_entropy_loss = .*\n"
                             r".*l2_error = " % number)

    def test_the_whole_job_in_one_file(self):
        """lenet_consolidated_solver: nets inside the solver, tested on what it is trained with too."""
        self.make_images("mnist", 28, 1, 10)
        parts = split_phases(example("lenet/lenet_train_test.prototxt"))
        solver = "test_iter: 1 test_iter: 1 test_interval: 3 display: 1 max_iter: 3 snapshot: 3 snapshot_prefix: 'one' "
        solver += INV
        solver += "\ntrain_net_param {\n" + parts["TRAIN"] + "}\ntest_net_param {\n" + parts["TEST"] + "}\ntest_net_param {\n"
        self.write("one.prototxt", solver + parts["TEST"].replace("mnist_test_lmdb", "mnist_train_lmdb") + "}\n")
        self.assertRegex(self.run_solver("one"), r"Iteration 3, Testing net \(#1\)\n.*accuracy = ")

    def test_siamese_net_on_fc_nodes(self):
        """In Caffe's order of layers: all of one branch, then all of the other."""
        self.make_images("mnist", 28, 1, 10)
        layers = re.split(r"(?m)^(?=layer \{)", example("mnist_siamese/mnist_siamese_train_test.prototxt"))
        second = [layer for layer in layers if re.search(r'^  name: "\w+_p"|^layer { name: "\w+_p"', layer, re.M)]
        self.assertEqual(len(second), 8)
        first = [layer for layer in layers if layer not in second]
        net = "".join(first[:-1] + second + first[-1:])
        self.write("mnist_siamese.prototxt", net.replace('source: "', 'source: "%s/' % self.folder))
        fields = SOLVERS["mnist_siamese_solver"][1].replace("display: 100 max_iter: 50000", "display: 1 max_iter: 3")
        fields = fields.replace("test_iter: 100 test_interval: 500", "test_iter: 1 test_interval: 3")
        self.write("siamese.prototxt", 'net: "%s" snapshot_prefix: "%s" random_seed: 5 %s' %
                   (self.path("mnist_siamese.prototxt"), self.path("siamese"), fields))
        one = self.run_solver("siamese")
        self.tool("hproute", "--solver=" + self.path("siamese.prototxt"), "--conv=2", "--fc=2", "--cache_dir=none",
                  "--out=" + self.path("table.prototxt"))
        table = self.read("table.prototxt").decode()
        self.assertEqual(re.findall(r'^  layer: "(\w+)"', table, re.M),
                         ["ip1", "relu1", "ip2", "feat", "ip1_p", "relu1_p", "ip2_p", "feat_p", "loss"])
        process = self.start("--all")
        self.expect_exit(process, 0, "Optimization Done")
        losses = [[float(loss) for loss in re.findall(r", loss = (\S+)", text)] for text in (one, process.text())]
        self.assertEqual(len(losses[0]), 3)
        for got, want in zip(losses[1], losses[0], strict=True):
            self.assertAlmostEqual(got / want, 1, delta=1e-4)

    def test_hdf5_classification(self):
        why = self.write_hdf5()
        if why:
            self.skipTest("SKIPPED: " + why)
        for name in SOLVERS:
            if "hdf5" in name:
                with self.subTest(name):
                    self.train(name)

    def test_large_nets(self):
        self.make_images("ilsvrc12", 256, 3, 20)
        shutil.copy(self.path("ilsvrc12/list.txt"), self.path("list.txt"))
        for image in os.listdir(self.path("ilsvrc12")):
            if image.endswith(".png"):
                os.link(self.path("ilsvrc12/" + image), self.path(image))
        for name in SOLVERS:
            if LARGE.search(name):
                with self.subTest(name):
                    self.train(name)

    def test_one_needs_what_we_have_not(self):
        """finetune_pascal_detection reads windows of images."""
        net = layer("data", "WindowData", "", "data label", 'window_data_param { source: "windows.txt" batch_size: 128 }')
        self.write("pascal.prototxt", net + product("fc", "data", 21) + layer("loss", "SoftmaxWithLoss", "fc label", "loss"))
        self.write("solver.prototxt", 'net: "pascal.prototxt" max_iter: 3 base_lr: 0.001 lr_policy: "fixed"')
        status, said = cluster.run_tool("hptrain", "--solver=" + self.path("solver.prototxt"))
        self.assertEqual(status, 2)
        self.assertRegex(said, r'pascal\.prototxt:1: layer "data": .*WindowData')


if __name__ == "__main__":
    cluster.main()
