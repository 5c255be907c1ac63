"""A net beside its training: hpextract writes what its blobs hold, and classification says what it makes of image files;
both are held against model_test, which computes the loss of the same samples. hptime times its layers."""

import math
import os
import random
import re
import struct
import unittest.mock
import zlib

import cluster

SIDE = 12
IMAGES = 20
# Of label 0 alone, so that the loss is the mean of -log(the score of class 0).
NET = """name: "tiny"
layer { name: "data" type: "Data" top: "data" top: "label"
  transform_param { scale: 0.0078125 mean_value: 120 }
  data_param { source: "%(source)s" batch_size: 5 backend: LMDB } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param { num_output: 10 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1" pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "ip1" type: "InnerProduct" bottom: "pool1" top: "ip1"
  inner_product_param { num_output: 6 weight_filler { type: "gaussian" std: 0.02 } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip1" bottom: "label" top: "loss" }
"""
# As people hold them: of 2014, with the size in `input_dim`.
DEPLOY = """name: "tiny"
input: "data"
input_dim: 10 input_dim: 3 input_dim: %(side)d input_dim: %(side)d
layers { name: "conv1" type: CONVOLUTION bottom: "data" top: "conv1" convolution_param { num_output: 10 kernel_size: 3 } }
layers { name: "relu1" type: RELU bottom: "conv1" top: "conv1" }
layers { name: "pool1" type: POOLING bottom: "conv1" top: "pool1" pooling_param { kernel_size: 2 stride: 2 } }
layers { name: "ip1" type: INNER_PRODUCT bottom: "pool1" top: "ip1" inner_product_param { num_output: 6 } }
layers { name: "prob" type: SOFTMAX bottom: "ip1" top: "prob" }
""" % {"side": SIDE}
TWO_INPUTS = DEPLOY.replace('input: "data"', 'input: "data" input: "more"').replace(
    "input_dim: 10", "input_dim: 10 input_dim: 3 input_dim: 9 input_dim: 9 input_dim: 10")
# Over the values of pool1 that hpextract wrote.
HEAD = """name: "head"
layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: "%s" batch_size: 5 backend: LMDB } }
layer { name: "ip1" type: "InnerProduct" bottom: "data" top: "ip1" inner_product_param { num_output: 6 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip1" bottom: "label" top: "loss" }
"""


def write_png(path, pixels, side):
    """@param pixels bytes of rows of R, G, B."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + pixels[i:i + 3 * side] for i in range(0, len(pixels), 3 * side))
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) +
                   chunk(b"IEND", b""))


class DeployTest(cluster.JobTest):

    def setUp(self):
        super().setUp()
        numbers = random.Random(1)
        self.images = [self.path("%02d.png" % i) for i in range(IMAGES)]
        for image in self.images:
            write_png(image, bytes(numbers.randrange(256) for _ in range(3 * SIDE * SIDE)), SIDE)
        self.write("list.txt", "".join(os.path.basename(image) + " 0\n" for image in self.images))
        status, text = cluster.run_tool("convert_imageset", self.folder + "/", self.path("list.txt"), self.path("db"), "0")
        self.assertEqual(status, 0, text)
        self.assertIn('"0" behind DB_NAME has no effect', text)  # old scripts have some
        self.make_job(iterations=1, snapshot=1, net=NET)
        self.make_table(conv=1, fc=1, micro_batches=1)
        self.expect_exit(self.start("--all"), 0)
        self.weights = self.path("out_iter_1.caffemodel")
        self.write("deploy.prototxt", DEPLOY)
        self.write("labels.txt", "".join("class %d\n" % i for i in range(6)))

    def loss(self, net):
        status, text = cluster.run_tool("model_test", "--model=" + self.path(net), "--weights=" + self.weights,
                                        "--iterations=%d" % (IMAGES // 5), "--cache_dir=none")
        self.assertEqual(status, 0, text)
        return float(re.findall(r"\] loss = (\S+)", text)[-1])

    def extract(self, *flags):
        return cluster.run_tool("hpextract", "--model=" + self.path("net.prototxt"), "--weights=" + self.weights,
                                "--iterations=%d" % (IMAGES // 5), "--cache_dir=none", *flags)

    def classify(self, *arguments, net="deploy.prototxt", mean="none", labels="labels.txt"):
        return cluster.run_tool("classification", self.path(net), self.weights, mean, self.path(labels), *arguments)

    def scores(self, text):
        """By image and class."""
        found = {}
        for part in re.split(r"-{10} Prediction for ", text)[1:]:
            image = part.split()[0]
            found[image] = {name: float(score) for score, name in re.findall(r'([\d.]+) - "([^"]+)"', part)}
        return found

    def test_extracted_blobs_are_the_nets(self):
        status, text = self.extract("--blobs=pool1,ip1", "--out=%s,%s" % (self.path("pool1"), self.path("ip1")))
        self.assertEqual(status, 0, text)
        self.assertIn("features of %d query images for feature blob pool1" % IMAGES, text)
        self.write("head.prototxt", HEAD % self.path("pool1"))
        self.assertAlmostEqual(self.loss("head.prototxt"), self.loss("net.prototxt"), 5)

    def test_blobs_below_a_new_layer(self):
        """As with Caffe: a layer that the weights lack is as its fillers say, and what is computed below it is the same."""
        self.assertEqual(self.extract("--blobs=pool1", "--out=" + self.path("before"))[0], 0)
        self.write("before.prototxt", HEAD % self.path("before"))
        self.write("net.prototxt", (NET % {"source": self.path("db")}).replace('"ip1" type', '"new" type'))
        status, text = self.extract("--blobs=pool1", "--out=" + self.path("behind"))
        self.assertEqual(status, 0, text)
        self.assertIn("Ignoring source layer ip1", text)
        self.assertRegex(text, r"out_iter_1\.caffemodel: weights of \d+ layer\(s\) loaded; not in the file, initialized by their fillers: new")
        self.write("behind.prototxt", HEAD % self.path("behind"))
        self.assertEqual(self.loss("behind.prototxt"), self.loss("before.prototxt"))
        self.write("net.prototxt", re.sub(r'name: "(\w+)" type: "(Conv|Inner)', r'name: "\1_new" type: "\2', NET % {"source": self.path("db")}))
        status, text = self.extract("--blobs=pool1", "--out=" + self.path("none"))
        self.assertEqual(status, 2, text)
        self.assertIn("no layer of the net has all its weights there; layers are matched by name", text)
        status, text = self.extract("--blobs=pool1", "--out=none", "--gpu=one")
        self.assertEqual((status, text), (2, 'hpextract: --gpu=one: "one" is no GPU; expected numbers from 0 on, or all\n'))
        status, text = cluster.run_tool("hpextract", "--model=" + self.path("net.prototxt"), "--blobs=pool1", "--out=none",
                                        "--weights=" + self.path("out_iter_1.solverstate"))
        self.assertEqual(status, 2, text)
        self.assertIn("out_iter_1.solverstate: expected a .caffemodel; a .solverstate is what", text)

    def test_lines_of_a_test_are_those_of_caffe(self):
        """Also of a loss that has no top, or whose top is silenced: both count, and none is printed."""
        net = NET % {"source": self.path("db")}
        more = """layer { name: "quiet" type: "SoftmaxWithLoss" bottom: "ip1" bottom: "label" top: "quiet" loss_weight: 2 }
                  layer { name: "silence" type: "Silence" bottom: "quiet" }
                  layer { name: "bare" type: "SoftmaxWithLoss" bottom: "ip1" bottom: "label" }"""
        loss = self.loss("net.prototxt")
        self.write("more.prototxt", net + more)
        status, text = cluster.run_tool("hptest", "-model", self.path("more.prototxt"), "-weights", self.weights,
                                        "-iterations", str(IMAGES // 5), "--cache_dir=none", "-log_dir", self.folder)
        self.assertEqual(status, 0, text)
        said = [line.split("] ", 1)[1] for line in text.splitlines() if "] " in line]
        self.assertIn("Running for %d iterations." % (IMAGES // 5), said)
        self.assertEqual([line.split(" = ")[0] for line in said if " = " in line],
                         ["Batch %d, loss" % i for i in range(IMAGES // 5)] + ["loss"])
        whole = float([line for line in said if line.startswith("Loss: ")][0][6:])
        self.assertAlmostEqual(whole, 4 * loss, 4)
        with open(self.path("hptest.INFO"), encoding="utf-8") as file:
            self.assertIn("Loss: ", file.read())

    def test_what_an_hdf5_output_layer_writes(self):
        """All batches that model_test evaluates; an HDF5Data layer reads them. Training writes nothing, and says so."""
        net = NET % {"source": self.path("db")} + '''layer { name: "out" type: "HDF5Output" bottom: "pool1" bottom: "label"
        hdf5_output_param { file_name: "%s" } }\n''' % self.path("out.h5")
        self.write("net.prototxt", net)
        expected = self.loss("net.prototxt")
        self.write("list", self.path("out.h5") + "\n")
        read = re.sub(r'"Data"|data_param.*? }', lambda part: '"HDF5Data"' if part[0] == '"Data"' else
                      'hdf5_data_param { source: "%s" batch_size: 5 }' % self.path("list"), HEAD)
        self.write("head.prototxt", read)
        self.assertAlmostEqual(self.loss("head.prototxt"), expected, 5)
        # Images, which lie in the reader's own memory, over more batches than that holds.
        self.write("images.prototxt", net.replace('bottom: "pool1" bottom: "label"', 'bottom: "data" bottom: "label"'))
        status, text = cluster.run_tool("model_test", "--model=" + self.path("images.prototxt"), "--weights=" + self.weights,
                                        "--iterations=60", "--cache_dir=none")
        self.assertEqual(status, 0, text)
        self.assertNotIn("training writes nothing", text)
        self.write("read.prototxt", re.sub(r'"Data"|transform_param.*}|data_param.*? }', lambda part: '"HDF5Data"' if part[0] == '"Data"' else
                                           "" if part[0].startswith("transform") else 'hdf5_data_param { source: "%s" batch_size: 5 }' %
                                           self.path("list"), NET))
        status, again = cluster.run_tool("model_test", "--model=" + self.path("read.prototxt"), "--weights=" + self.weights,
                                         "--iterations=60", "--cache_dir=none")
        self.assertEqual(status, 0, again)
        losses = [re.findall(r"Batch (\d+), loss = (\S+)", said) for said in (text, again)]
        self.assertEqual(len(losses[0]), 60)
        self.assertEqual(*losses)
        os.remove(self.path("out.h5"))
        process = self.start("--all")
        self.expect_exit(process, 0)
        self.assertRegex(process.text(), r'layer "out": ".*out\.h5" is written by model_test, hptest')
        self.assertFalse(os.path.exists(self.path("out.h5")))
        for before, after, said in (("out.h5", "none/out.h5", r"none/out\.h5: cannot write: No such file"),
                                    ('bottom: "pool1" bottom: "label"', 'bottom: "pool1" bottom: "loss"', r'layer "out": bottom "loss" has the shape \[1\]'),
                                    ('"HDF5Output" bottom: "pool1"', '"HDF5Output" bottom: "conv1"',
                                     r'layer "out": its bottom "conv1" is overwritten by layer "late"')):
            self.write("net.prototxt", net.replace(before, after) + 'layer { name: "late" type: "ReLU" bottom: "conv1" top: "conv1" }\n')
            status, text = cluster.run_tool("model_test", "--model=" + self.path("net.prototxt"), "--weights=" + self.weights,
                                            "--iterations=2", "--cache_dir=none")
            self.assertEqual(status, 2, text)
            self.assertRegex(text, said)

    def test_labels_that_are_cut_otherwise_than_they_can_be(self):
        net = NET % {"source": self.path("db")}
        self.write("cut.prototxt", net.replace('layer { name: "conv1"', '''layer { name: "cut" type: "Slice" bottom: "label" top: "a" top: "b"
  slice_param { axis: 0 slice_point: 7 } }\nlayer { name: "conv1"''').replace(
      'bottom: "label" top: "loss"', 'bottom: "b" top: "loss" loss_param { ignore_label: 3 }'))
        status, text = cluster.run_tool("model_test", "--model=" + self.path("cut.prototxt"), "--weights=" + self.weights,
                                        "--iterations=2", "--cache_dir=none")
        self.assertEqual(status, 2, text)
        self.assertRegex(text, r'cut\.prototxt:\d+: layer "cut": slice_param')

    def test_labels_are_extracted_as_well(self):
        self.write("labelled.txt", "".join("%s %d\n" % (os.path.basename(image), i % 6) for i, image in enumerate(self.images)))
        status, text = cluster.run_tool("convert_imageset", self.folder + "/", self.path("labelled.txt"), self.path("labelled"))
        self.assertEqual(status, 0, text)
        self.write("net.prototxt", NET % {"source": self.path("labelled")})
        status, text = self.extract("--blobs=ip1,label", "--out=%s,%s" % (self.path("ip1"), self.path("label")))
        self.assertEqual(status, 0, text)
        # As labels of their own database again: those of the images are a loss of nothing.
        self.write("same.prototxt", 'layer { name: "a" type: "Data" top: "a" top: "b" data_param { source: "%s" batch_size: 5 '
                   'backend: LMDB } }\nlayer { name: "c" type: "Data" top: "c" data_param { source: "%s" batch_size: 5 '
                   'backend: LMDB } }\nlayer { name: "flat" type: "Flatten" bottom: "c" top: "flat" }\n'
                   'layer { name: "loss" type: "EuclideanLoss" bottom: "flat" bottom: "b" top: "loss" }\n' %
                   (self.path("labelled"), self.path("label")))
        self.assertEqual(self.loss("same.prototxt"), 0)
        self.assertIn("for feature blob label", text)

    def test_scores_are_the_nets(self):
        status, text = self.classify("--mean_value=120", "--scale=0.0078125", "--top=6", *self.images)
        self.assertEqual(status, 0, text)
        scores = self.scores(text)
        self.assertEqual(sorted(scores), self.images)
        losses = [-math.log(scores[image]["class 0"]) for image in self.images]
        self.assertAlmostEqual(sum(losses) / IMAGES, self.loss("net.prototxt"), 2)
        for image in self.images:
            self.assertEqual(list(scores[image].values()), sorted(scores[image].values(), reverse=True))
            self.assertAlmostEqual(sum(scores[image].values()), 1, 3)

    def test_of_a_mean_image_the_channels_means_count(self):
        status, text = cluster.run_tool("compute_image_mean", self.path("db"), self.path("mean.binaryproto"))
        self.assertEqual(status, 0, text)
        means = re.findall(r"mean_value channel \[\d\]: (\S+)", text)
        status, by_file = self.classify("--scale=0.01", self.images[0], mean=self.path("mean.binaryproto"))
        self.assertEqual(status, 0, by_file)
        status, by_value = self.classify("--scale=0.01", "--mean_value=" + ",".join(means), self.images[0])
        self.assertEqual(status, 0, by_value)
        self.assertEqual(self.scores(by_file), self.scores(by_value))
        self.assertEqual(len(self.scores(by_file)[self.images[0]]), 5, "the best five")
        status, without = self.classify("--scale=0.01", self.images[0])
        self.assertEqual(status, 0, without)
        self.assertNotEqual(self.scores(by_file), self.scores(without))

    def test_images_are_resized(self):
        """To the size of the net's input; a grey one gets three channels."""
        write_png(self.path("plain.png"), bytes([90, 90, 90]) * SIDE * SIDE, SIDE)
        write_png(self.path("large.png"), bytes([90, 90, 90]) * 900, 30)
        status, text = self.classify("--scale=0.01", self.path("plain.png"), self.path("large.png"))
        self.assertEqual(status, 0, text)
        small, large = self.scores(text).values()
        self.assertEqual(small, large)

    def test_times_of_a_precision(self):
        with unittest.mock.patch.dict(os.environ, {"DNNL_VERBOSE": "1"}):
            for precision, rounds in (("AUTO", cluster.multiplies_bfloat16()), ("FP32", False)):
                status, text = self.time("net.prototxt", "--precision=" + precision)
                self.assertEqual(status, 0, text)
                self.assertEqual(bool(re.search("exec,cpu,convolution,.*src_bf16", text)), rounds, text)

    def time(self, net, *flags):
        return cluster.run_tool("hptime", "--model=" + self.path(net), "--iterations=3", "--threads=1",
                                "--cache_dir=none", *flags)

    def test_a_source_of_another_kind_is_named(self):
        self.write("memory.prototxt", 'layer { name: "in" type: "MemoryData" top: "data" top: "label"\n'
                                      "memory_data_param { batch_size: 2 channels: 3 height: 8 width: 8 } }\n")
        status, text = self.time("memory.prototxt")
        self.assertEqual(status, 2, text)
        self.assertRegex(text, r'memory\.prototxt:1: layer "in": type MemoryData is a Caffe layer that hpnode does not support')

    def test_times_of_layers(self):
        layers = ["conv1", "relu1", "pool1", "ip1"]
        for net, flags, last, backward in (("net.prototxt", (), "loss", True),
                                           ("net.prototxt", ("--phase=TEST", "--precision=AUTO"), "loss", False),
                                           ("net.prototxt", ("--precision=AUTO",), "loss", True),
                                           ("deploy.prototxt", (), "prob", False)):
            status, text = self.time(net, *flags)
            self.assertEqual(status, 0, text)
            self.assertEqual(len(re.findall(r"Iteration: \d forward-backward time: [\d.e-]+ ms\.", text)), 3)
            times = re.findall(r"\] +(\S.*)\t(forward|backward): ([\d.e-]+) ms\.", text)
            forward = [(name, float(ms)) for name, way, ms in times if way == "forward"]
            self.assertEqual([name for name, _ in forward if name != "(between layers)"], [*layers, last])
            self.assertTrue(all(ms > 0 for _, ms in forward), text)
            total = float(re.search(r"Average Forward pass: (\S+) ms", text)[1])
            self.assertAlmostEqual(sum(ms for _, ms in forward), total, delta=total / 100)
            gradients = {name: float(ms) for name, way, ms in times if way == "backward"}
            self.assertEqual(gradients.get("conv1", 0) > 0, backward, text)

    def test_convolutions_are_fast_with_any_padding(self):
        """oneDNN's reference, all that some blocked layouts have, is a thousand times as slow."""
        layers = "".join('''layer { name: "c%d" type: "Convolution" bottom: "%s" top: "c%d" convolution_param {
        num_output: 32 kernel_size: %d stride: %d pad: %d } }\n''' % (i, bottom, i, kernel, stride, pad)
                         for i, (bottom, kernel, stride, pad) in enumerate((
                             ("data", 11, 4, 2), ("data", 9, 1, 4), ("data", 3, 1, 35), ("gray", 7, 2, 3), ("c0", 5, 1, 4), ("c0", 9, 4, 1))))
        self.write("pads.prototxt", '''layer { name: "in" type: "Input" top: "data" top: "gray" input_param {
        shape { dim: 2 dim: 3 dim: 40 dim: 40 } shape { dim: 2 dim: 1 dim: 40 dim: 40 } } }\n''' + layers)
        with unittest.mock.patch.dict(os.environ, {"DNNL_VERBOSE": "1"}):
            status, text = self.time("pads.prototxt")
        self.assertEqual(status, 0, text)
        executed = re.findall(r"exec,cpu,convolution,([^,]*),forward", text)
        self.assertGreaterEqual(len(executed), 6, text)
        self.assertEqual([kernel for kernel in executed if "ref:" in kernel], [])

    def test_times_of_a_net_with_several_inputs(self):
        self.write("two.prototxt", '''name: "two"
layer { name: "data" type: "Input" top: "data" top: "row" input_param { shape { dim: 2 dim: 3 dim: 9 dim: 9 } shape { dim: 2 dim: 5 } } }
layer { name: "more" type: "Input" top: "scale" input_param { shape { dim: 2 } } }
layer { name: "a" type: "InnerProduct" bottom: "data" top: "a" inner_product_param { num_output: 4 } }
layer { name: "b" type: "InnerProduct" bottom: "row" top: "b" inner_product_param { num_output: 4 } }
layer { name: "scaled" type: "Scale" bottom: "b" bottom: "scale" top: "scaled" scale_param { axis: 0 } }
layer { name: "sum" type: "Eltwise" bottom: "a" bottom: "scaled" top: "sum" }
''')
        status, text = self.time("two.prototxt", "--phase=TEST")
        self.assertEqual(status, 0, text)
        self.assertEqual(re.findall(r"(\w+)\tforward: ", text), ["a", "b", "scaled", "sum"])
        self.write("rows.prototxt", self.read("two.prototxt").decode().replace("{ dim: 2 } }", "{ dim: 3 } }"))
        status, text = self.time("rows.prototxt", "--phase=TEST")
        self.assertEqual(status, 2, text)
        self.assertIn('layer "more" has a batch of 3 samples, and layer "data" of 2; expected the same', text)

    def test_times_of_the_state_that_flags_say(self):
        more = 'layer { name: "%s" type: "ReLU" bottom: "ip1" top: "ip1" include { %s } }\n'
        self.write("states.prototxt", NET % {"source": self.path("db")} + more % ("wide", 'stage: "wide"') +
                   more % ("deep", "min_level: 2"))
        self.write("deep.prototxt", "state { level: 2 }\n" + self.read("states.prototxt").decode())
        for net, flags, found in (("states", [], []), ("states", ["--stage=wide,other"], ["wide"]),
                                  ("states", ["--level=2"], ["deep"]), ("deep", [], ["deep"]), ("deep", ["--level=0"], [])):
            status, text = self.time(net + ".prototxt", *flags)
            self.assertEqual(status, 0, text)
            self.assertEqual(re.findall(r"(wide|deep)\tforward: ", text), found)

    def test_evaluation_in_the_state_that_flags_say(self):
        """Data of stages, as DIGITS writes them."""
        staged = NET.replace('type: "Data" ', 'type: "Data" include { stage: "val" } ') % {"source": self.path("db")}
        self.assertIn("stage", staged)
        self.write("staged.prototxt", staged)
        status, text = cluster.run_tool("model_test", "--model=" + self.path("staged.prototxt"), "--weights=" + self.weights,
                                        "--iterations=2", "--cache_dir=none")
        self.assertEqual(status, 2, text)
        losses = []
        for tool, net, flags in (("model_test", "net.prototxt", ()), ("model_test", "staged.prototxt", ("--stage=val,more",)),
                                 ("hptest", "staged.prototxt", ("--stage=val",)),
                                 ("hptest", "net.prototxt", ("--precision=AUTO",))):
            status, text = cluster.run_tool(tool, "--model=" + self.path(net), "--weights=" + self.weights,
                                            "--iterations=2", "--cache_dir=none", *flags)
            self.assertEqual(status, 0, text)
            losses.append(re.findall(r"\] loss = (\S+)", text))
        self.assertTrue(losses[0] and losses[0] == losses[1] == losses[2], losses)
        self.assertAlmostEqual(float(losses[3][0]) / float(losses[0][0]), 1, delta=0.02)
        self.assertEqual(losses[3] != losses[0], cluster.multiplies_bfloat16())
        status, text = cluster.run_tool("hpextract", "--model=" + self.path("staged.prototxt"), "--weights=" + self.weights,
                                        "--iterations=2", "--cache_dir=none", "--stage=val", "--blobs=ip1",
                                        "--out=" + self.path("ip1"))
        self.assertEqual(status, 0, text)

    def test_a_net_without_a_loss_has_no_backward_pass(self):
        for net, warned in (("deploy.prototxt", True), ("net.prototxt", False)):
            status, text = self.time(net)
            self.assertEqual(status, 0, text)
            self.assertEqual("no gradient flows in this net" in text, warned)
            self.assertEqual("Average Backward pass: 0 ms." in text, warned)

    def test_faults_of_time(self):
        self.write("two_inputs.prototxt", TWO_INPUTS)
        self.write("lost.prototxt", NET % {"source": self.path("no_db")})
        for net, flag, said in (("net.prototxt", "--iterations=0", "--iterations is 0; expected at least 1"),
                                ("net.prototxt", "--precision=8", '--precision is "8"; expected FP32, TF32, BF16, FP16 or AUTO'),
                                ("net.prototxt", "--phase=BOTH", '--phase is "BOTH"; expected TRAIN or TEST'),
                                ("net.prototxt", "--sample=3,,8", '--sample is "3,,8"; expected CHANNELS,HEIGHT,WIDTH'),
                                ("net.prototxt", "--gpu=0,x", '--gpu=0,x: "x" is no GPU; expected numbers from 0 on, or all'),
                                ("none.prototxt", "--phase=TEST", "none.prototxt: no such file"),
                                ("deploy.prototxt", "--sample=3,9,9", "of type Input says the shape of a sample"),
                                ("lost.prototxt", "--phase=TEST", "say the shape of a sample: --sample=")):
            status, text = self.time(net, flag)
            self.assertEqual(status, 2, text)
            self.assertIn(said, text)
        status, text = self.time("lost.prototxt", "--sample=3,12,12")
        self.assertEqual(status, 0, text)

    def test_each_of_its_two_names_is_in_the_messages_of_a_test(self):
        for tool in ("model_test", "hptest"):
            status, text = cluster.run_tool(tool, "--gpu=0,0", "--model=" + self.path("net.prototxt"),
                                            "--weights=" + self.weights)
            self.assertEqual((status, text), (2, tool + ": --gpu=0,0 names GPU 0 twice\n"))
            status, text = cluster.run_tool(tool, "--help")
            self.assertEqual(status, 0, text)
            self.assertIn("--reader_threads", text)

    def test_faults_of_extract(self):
        out = "--out=" + self.path("blob")
        for flags, said in ((("--blobs=fc9", out), r'no blob "fc9" in phase TEST'),
                            (("--blobs=loss", out), r'blob "loss" has the shape \[1\]; expected values for each of 5'),
                            (("--blobs=ip1,conv1", out), r"--blobs names 2 blobs and --out 1 databases"),
                            (("--blobs=ip1,conv1,pool1", "--out=a,%s,%s" % (self.path("out"), self.path("out"))),
                             r"--out names \S*/out twice; expected a database for each blob"),
                            (("--blobs=ip1", "--out=" + self.path("db")), r"/db.* exists"),
                            (("--blobs=ip1", out, "--max_bad_records=-1"), r"--max_bad_records is -1; expected at least 0"),
                            (("--blobs=ip1", out, "--backend=sqlite"), r"sqlite")):
            status, text = self.extract(*flags)
            self.assertEqual(status, 2, text)
            self.assertRegex(text, said)
            self.assertFalse(os.path.exists(self.path("blob")))

    def test_faults_of_classification(self):
        image = self.images[0]
        self.write("two.txt", "one\ntwo\n")
        self.write("text.png", "no image\n")
        self.write("two_inputs.prototxt", TWO_INPUTS)
        self.write("vector.prototxt", DEPLOY.replace("input_dim: 3", "input_dim: 7"))
        two = DEPLOY + ('layers { name: "side" type: POOLING bottom: "conv1" top: "side" '
                        'pooling_param { kernel_size: 2 } }\n')
        self.write("two_outputs.prototxt", two)
        for options, arguments, said in (
                ({"labels": "two.txt"}, (image,), r"two.txt names 2 classes; the net has 6 scores"),
                ({"net": "net.prototxt"}, (image,), r'net "tiny" has no Input layer; expected a deploy net'),
                ({"net": "vector.prototxt"}, (image,), r"expected images, \[N, 3, H, W\] or \[N, 1, H, W\]"),
                ({"net": "two_inputs.prototxt"}, (image,), r"has 2 inputs; expected one, of images"),
                ({"net": "two_outputs.prototxt"}, (image,), r"has 2 outputs \(prob, side\); say which .* \(--blob=NAME\)"),
                ({}, ("--mean_value=1,2", image), r"2 mean values; expected one, or one for each of 3 channels"),
                ({}, ("--mean_value=1,x", image), r'"x" is not a number'),
                ({}, ("--mean_value=nan", image), r'"nan" is not a number'),
                ({}, ("--scale=inf", image), r"--scale is inf; expected a number"),
                ({}, ("--top=0", image), r"--top is 0; expected at least 1"),
                ({}, ("--blob=fc9", image), r'no blob "fc9"'),
                ({"mean": self.path("none.binaryproto")}, (image,), r"none.binaryproto"),
                ({}, (self.path("none.png"),), r"none.png"),
                ({}, (self.path("text.png"),), r"text.png"),
                ({}, (), r"4 arguments, expected 5")):
            status, text = self.classify(*arguments, **options)
            self.assertEqual(status, 2, text)
            self.assertRegex(text, said)


if __name__ == "__main__":
    cluster.main()
