#!/usr/bin/python3
"""Weights of PyTorch, read and written: torchvision's nets (torchvision_nets.py) with drawn weights give the same
outputs here, once hpconvert has made a .caffemodel of them, and it makes the same tensors of that again. Where PyTorch
is installed its own functions compute them, else NumPy.

  pytorch_test.py HPNODE HPROUTE CONVERT_MNIST_DATA FORWARD_NET HPCONVERT
"""
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../support"))
try:
    import numpy as np
except ImportError as missing:
    print("SKIPPED:", missing)
    sys.exit(77)
try:
    import torch
except ImportError:
    torch = None

import safetensors_file
import torchvision_nets as nets
from caffe_wire import read_caffemodel, write_caffemodel
from example_nets import deploy, read_text

EXAMPLES = os.path.join(HERE, "../../examples/")
FORWARD_NET, HPCONVERT = sys.argv[4:6] if len(sys.argv) > 5 else ("", "")
TOLERANCE = 1e-3  # of the largest output; 50 layers of float32, summed in another order
MEAN = 255 * nets.RGB_MEAN[::-1]  # of Caffe's colours: blue, green, red

INPUT = 'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 dim: %d dim: %d } } }\n'
# Groups, a bias beside BatchNorm, names by hand.
SMALL = """
layer { name: "c1" type: "Convolution" bottom: "data" top: "c1"
  convolution_param { num_output: 8 kernel_size: 3 pad: 1 stride: 2 } }
layer { name: "n1" type: "BatchNorm" bottom: "c1" top: "c1" batch_norm_param { moving_average_fraction: 0.9 } }
layer { name: "s1" type: "Scale" bottom: "c1" top: "c1" scale_param { bias_term: true } }
layer { name: "r1" type: "ReLU" bottom: "c1" top: "c1" }
layer { name: "c2" type: "Convolution" bottom: "c1" top: "c2"
  convolution_param { num_output: 12 kernel_size: 3 pad: 1 group: 4 bias_term: false } }
layer { name: "f" type: "InnerProduct" bottom: "c2" top: "f" inner_product_param { num_output: 5 } }
"""
NAMES = """# of the test
stem.conv  c1     # with its bias
stem.bn    n1 s1
body.weight = c2 0
head f
@rgb c1 0.229 0.224 0.225
"""


def small(m, x):
    x = m.relu(m.batch_norm("stem.bn", m.conv("stem.conv", x, 8, 3, 2, 1)))
    x = m.conv("body", x, 12, 3, 1, 1, bias=False, groups=4)
    return m.linear("head", m.of.flatten(x), 5)


class PyTorchTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="hp_pytorch_")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def convert(self, source, target, *flags, status=0):
        command = [HPCONVERT, "weights", self.path(source), self.path(target), "--net=" + self.path("net.prototxt")]
        done = subprocess.run([*command, *flags], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
        self.assertEqual(done.returncode, status, done.stdout)
        return done.stdout

    def forward(self, images):
        images.astype("<f4").tofile(self.path("in.f32"))
        subprocess.run([FORWARD_NET, self.path("net.prototxt"), self.path("net.caffemodel"), self.path("in.f32"),
                        self.path("out.f32")], check=True)
        return np.fromfile(self.path("out.f32"), "<f4").reshape(len(images), -1)

    def check(self, net, prototxt, names, side, mean=MEAN):
        """`mean` of the prototxt's Data layers."""
        self.write("net.prototxt", prototxt)
        pixels = np.random.RandomState(3).randint(0, 256, (2, 3, side, side)).astype("f4")  # red, green, blue
        rgb = (pixels / 255 - nets.RGB_MEAN[:, None, None]) / nets.RGB_STD[:, None, None]
        module = nets.Module(nets.TorchFunctions(torch) if torch else nets.NumpyFunctions())
        expected = module.of.numpy(net(module, module.of.array(rgb)))
        safetensors_file.write(self.path("net.safetensors"), module.tensors)
        said = self.convert("net.safetensors", "net.caffemodel", "--names=" + names)
        self.assertNotIn("left out", said)
        self.assertNotIn("ignored", said)
        found = self.forward(pixels[:, ::-1] - np.float32(mean)[:, None, None])
        np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE * np.abs(expected).max())
        self.assertGreater(np.abs(expected[0] - expected[1]).max(), 20 * TOLERANCE * np.abs(expected).max())
        self.convert("net.caffemodel", "again.safetensors", "--names=" + names)
        self.check_same(module.tensors, safetensors_file.read(self.path("again.safetensors")))
        return module

    def check_same(self, tensors, again):
        """But for the number of batches, which Caffe does not count, and what was scaled to other colours."""
        self.assertEqual(sorted(again), sorted(name for name in tensors if not name.endswith("num_batches_tracked")))
        scaled = [name for name, tensor in again.items() if tensor.tobytes() != tensors[name].tobytes()]
        self.assertLessEqual(len(scaled), 1, scaled)
        for name in scaled:
            np.testing.assert_allclose(again[name], tensors[name], rtol=3e-7)

    def check_example(self, net, side, parameters, prototxt=None, mean=MEAN):
        name = net.__name__
        prototxt = read_text(EXAMPLES + (prototxt or "torchvision/%s_train_val.prototxt" % name))
        prototxt = deploy(prototxt, (2, 3, side, side))
        module = self.check(net, prototxt, EXAMPLES + "torchvision/%s_names.txt" % name, side, mean)
        # What torchvision's documentation says that the net has, with the first FC layer of 224 pixels.
        first = module.tensors.get("classifier.1.weight" if name == "alexnet" else "classifier.0.weight")
        inputs = {"alexnet": 256 * 6 * 6, "vgg16": 512 * 7 * 7}.get(name)
        more = (inputs - first.shape[1]) * first.shape[0] if inputs else 0
        self.assertEqual(module.parameters + more, parameters)

    # Sides at which roundings up and down differ.
    def test_alexnet(self):
        self.check_example(nets.alexnet, 95, 61_100_840)

    def test_resnet50(self):
        self.check_example(nets.resnet50, 66, 25_557_032)

    def test_googlenet(self):
        self.check_example(nets.googlenet, 75, 6_624_904, mean=[127.5] * 3)

    def test_vgg16(self):
        self.check_example(nets.vgg16, 64, 138_357_544, "vgg16/vgg16_train_val.prototxt")

    def small(self):
        self.write("names.txt", NAMES)
        return self.check(small, INPUT % (9, 9) + SMALL, self.path("names.txt"), 9)

    def test_small_net_and_its_blobs(self):
        tensors = self.small().tensors
        model = read_caffemodel(self.path("net.caffemodel"))
        self.assertEqual({name: len(blobs) for name, blobs in model.items()},
                         {"c1": 2, "n1": 3, "s1": 2, "c2": 1, "f": 2})
        self.assertEqual(model["n1"][2].tolist(), [8])  # a power of two near 1 / (1 - 0.9)
        np.testing.assert_array_equal(model["n1"][1], 8 * tensors["stem.bn.running_var"])
        np.testing.assert_array_equal(model["c2"][0], tensors["body.weight"])
        np.testing.assert_allclose(model["c1"][0][:, 0], tensors["stem.conv.weight"][:, 2] / (255 * nets.RGB_STD[2]),
                                   rtol=3e-7)

    def test_sixteen_bits(self):
        tensors = self.small().tensors
        floats = {name: tensor for name, tensor in tensors.items() if tensor.dtype == np.float32}
        halves = {name: tensor.astype("f2") for name, tensor in floats.items()}
        upper = {name: (tensor.view("u4") >> 16).astype("u2") for name, tensor in floats.items()}  # BF16
        for given, read in ((halves, {name: tensor.astype("f4") for name, tensor in halves.items()}),
                            (upper, {name: (tensor.astype("u4") << 16).view("f4") for name, tensor in upper.items()})):
            safetensors_file.write(self.path("short.safetensors"), given)
            self.convert("short.safetensors", "short.caffemodel", "--names=" + self.path("names.txt"))
            model = read_caffemodel(self.path("short.caffemodel"))
            np.testing.assert_array_equal(model["f"][0], read["head.weight"])
            np.testing.assert_array_equal(model["s1"][1], read["stem.bn.bias"])

    def test_layers_own_names(self):
        self.small()
        self.convert("net.caffemodel", "own.safetensors")
        own, again = safetensors_file.read(self.path("own.safetensors")), read_caffemodel(self.path("net.caffemodel"))
        self.assertEqual(sorted(own), ["c1.bias", "c1.weight", "c2.weight", "f.bias", "f.weight", "n1.running_mean",
                                       "n1.running_var", "s1.bias", "s1.weight"])
        np.testing.assert_array_equal(own["c1.weight"], again["c1"][0])
        self.convert("own.safetensors", "own.caffemodel")
        for layer, blobs in read_caffemodel(self.path("own.caffemodel")).items():
            for blob, other in zip(blobs, again[layer], strict=True):
                np.testing.assert_array_equal(blob, other)

    def test_what_is_refused(self):
        tensors = self.small().tensors
        names = "--names=" + self.path("names.txt")

        def refused(change, *said, flags=(names,)):
            changed = dict(tensors)
            change(changed)
            safetensors_file.write(self.path("bad.safetensors"), changed)
            if os.path.exists(self.path("bad.caffemodel")):
                os.remove(self.path("bad.caffemodel"))
            text = self.convert("bad.safetensors", "bad.caffemodel", *flags, status=2)
            for words in said:
                self.assertIn(words, text)
            self.assertFalse(os.path.exists(self.path("bad.caffemodel")))

        def renamed(text, *said):
            self.write("other.txt", text)
            refused(lambda t: None, *said, flags=("--names=" + self.path("other.txt"),))

        refused(lambda t: t.pop("stem.bn.running_var"), "names.txt:3",
                'no tensor "stem.bn.running_var", but it has others of "stem.bn"')
        refused(lambda t: t.update({"head.weight": np.zeros((5, 299), "f4")}),
                'bad.safetensors: tensor "head.weight" has shape "5 299"; expected "5 300" for blob 0 of layer "f"')
        for value in ("nan", "inf"):
            refused(lambda t, value=value: t.update({"stem.bn.running_var": np.array([1] * 3 + [value] * 5, "f4")}),
                    'bad.safetensors: tensor "stem.bn.running_var" (blob 1 of layer "n1") has the value %s at index 3; '
                    "expected finite values" % value)
        refused(lambda t: t.update({"head.weight": np.zeros((5, 300), "i8")}), '"head.weight" is of I64; expected F32')
        refused(lambda t: t.update({"stem.conv.running_mean": np.zeros(8, "f4")}), "have no blob for it")
        refused(lambda t: None, "none of its", "expected, such as", flags=())
        renamed("head f\nhead f\n", 'other.txt:2: "head.weight" is named twice')
        renamed("head f\ntail f\n", 'other.txt:2: blob 0 of layer "f" is named twice')
        renamed("head g\n", 'other.txt:1: the net has no layer "g"')
        renamed("head r1\n", 'other.txt:1: layer "r1" has no parameters')
        renamed("head\n", "other.txt:1: expected")
        renamed("head.weight = f x\n", 'other.txt:1: expected "TENSOR = LAYER BLOB"')
        renamed("head.weight = f 2\n", 'other.txt:1: layer "f" has no blob 2; it has 2')
        renamed("head.weight = f 0\n", 'other.txt: blob 1 of layer "f" has no name')
        renamed("head f\n@rgb f 1 1 1\n", "other.txt:2: expected a layer named above that convolves images")
        renamed("stem.conv c1\n@rgb c1 1 0 1\n", 'other.txt:2: expected "@rgb LAYER RED GREEN BLUE"')
        renamed("# none\n", "other.txt: names no layer")

    def test_values_of_a_caffemodel_that_are_not_finite(self):
        self.small()
        model = read_caffemodel(self.path("net.caffemodel"))
        model["n1"][1:] = [np.full(8, 1, "f4"), np.full(1, 0.5, "f4")]
        model["n1"][1][5] = 3e38
        write_caffemodel(self.path("bad.caffemodel"), model)
        said = self.convert("bad.caffemodel", "bad.safetensors", "--names=" + self.path("names.txt"), status=2)
        self.assertIn('bad.caffemodel: tensor "stem.bn.running_var" (blob 1 of layer "n1") has the value inf at', said)
        self.assertFalse(os.path.exists(self.path("bad.safetensors")))

    def test_names_behind_a_byte_order_mark(self):
        self.small()
        self.write("marked.txt", "\ufeff" + NAMES.split("\n", 1)[1])
        said = self.convert("net.safetensors", "marked.caffemodel", "--names=" + self.path("marked.txt"))
        self.assertNotIn("left out", said)

    def test_many_tensors_without_a_name(self):
        tensors = dict(self.small().tensors, **{"extra%02d" % i: np.zeros(1, "f4") for i in range(13)})
        safetensors_file.write(self.path("more.safetensors"), tensors)
        said = self.convert("more.safetensors", "more.caffemodel", "--names=" + self.path("names.txt"))
        self.assertIn("no line names them: extra00, extra01,", said)
        self.assertIn(", extra08, extra09, and 3 more\n", said)

    def test_shared_weights_under_each_of_their_names(self):
        """Of layers that share them and have biases of their own."""
        product = """layer { name: "%s" type: "InnerProduct" bottom: "%s" top: "%s" param { name: "w" }
                             inner_product_param { num_output: 12 } }\n"""
        net = INPUT % (2, 2) + product % ("a", "data", "a") + product % ("b", "a", "b")
        self.write("shared.prototxt", net)
        draw = np.random.default_rng(4)
        weights = draw.standard_normal((12, 12)).astype("f4")
        model = {layer: [weights, draw.standard_normal(12).astype("f4")] for layer in ("a", "b")}
        write_caffemodel(self.path("shared.caffemodel"), model)
        own = ("--net=" + self.path("shared.prototxt"),)
        self.assertNotIn("ignored", self.convert("shared.caffemodel", "shared.safetensors", *own))
        self.convert("shared.safetensors", "back.caffemodel", *own)
        for layer, blobs in read_caffemodel(self.path("back.caffemodel")).items():
            for blob, other in zip(blobs, model[layer]):
                self.assertTrue((blob == other).all(), layer)
        turned = net.replace("num_output: 12", "num_output: 12 transpose: true")
        self.write("shared.prototxt", turned)
        self.assertIn('layer "a": transpose: true: expected weights [outputs, inputs]',
                      self.convert("shared.safetensors", "none.caffemodel", *own, status=2))

    def test_a_part_of_the_net(self):
        tensors = self.small().tensors
        kept = {name: tensor for name, tensor in tensors.items() if not name.startswith("head")}
        safetensors_file.write(self.path("part.safetensors"), dict(kept, extra=np.zeros(1, "f4")))
        said = self.convert("part.safetensors", "part.caffemodel", "--names=" + self.path("names.txt"))
        self.assertIn("left out, since the file does not have them: head; ignored, since no line names them: extra",
                      said)
        self.assertEqual(sorted(read_caffemodel(self.path("part.caffemodel"))), ["c1", "c2", "n1", "s1"])
        with open(self.path("part.caffemodel"), "rb") as file:
            self.assertNotIn(b"InnerProduct", file.read(), "a layer without blobs is one of another number of blobs")
        said = self.convert("part.caffemodel", "part2.safetensors", "--names=" + self.path("names.txt"))
        self.assertIn("them: head", said)


if __name__ == "__main__":
    missing = "NumPy; SKIPPED: PyTorch's own, python3-torch is missing"
    print("outputs by", "PyTorch " + torch.__version__ if torch else missing)
    unittest.main(argv=sys.argv[:1])
