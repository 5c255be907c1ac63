#!/usr/bin/python3
"""Whether the nets of torch_nets.py compute what the prototxt files do: the same scores for the same random weights and
images, without dropout.

usage: test/bench/same_nets.py [--bin build/release/bin] [--nets quick,full,alexnet]

Debian packages: python3-torch, python3-numpy. Wants the target forward_net.
"""
import argparse, collections, os, re, subprocess, sys, tempfile

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "test/support")]
from caffe_wire import write_caffemodel
from torch_nets import NETS

TOLERANCE, IMAGES = 1e-4, 2  # of the largest score
CIFAR10, IMAGENET = "examples/cifar10/cifar10_{0}_train_test.prototxt", "examples/{0}/{0}_train_val.prototxt"
MNIST = "examples/{0}/{0}_train_test.prototxt"
Case = collections.namedtuple("Case", "prototxt crop scores channels", defaults=[3])
CASES = {  # scores: the layers that yield them
    "lenet": Case(MNIST.format("lenet"), 28, ["ip2"], 1),
    "quick": Case(CIFAR10.format("quick"), 32, ["ip2"]), "full": Case(CIFAR10.format("full"), 32, ["ip1"]),
    "full_sigmoid_bn": Case("examples/cifar10/cifar10_full_sigmoid_bn_train_test.prototxt", 32, ["ip1"]),
    "siamese": Case(MNIST.format("mnist_siamese"), 28, ["feat", "feat_p"], 2),
    "autoencoder": Case(MNIST.format("mnist_autoencoder"), 28, ["decode1"], 1),
    "alexnet": Case(IMAGENET.format("alexnet"), 227, ["fc8"]), "caffenet": Case(IMAGENET.format("caffenet"), 227, ["fc8"]),
    "nin": Case(IMAGENET.format("nin"), 224, ["pool4"]), "squeezenet": Case(IMAGENET.format("squeezenet"), 227, ["pool10"]),
    "vgg16": Case(IMAGENET.format("vgg16"), 224, ["fc8"]), "vgg19": Case(IMAGENET.format("vgg19"), 224, ["fc8"]),
    "googlenet": Case(IMAGENET.format("googlenet"), 224, ["loss1/classifier", "loss2/classifier", "loss3/classifier"]),
    "resnet50": Case(IMAGENET.format("resnet50"), 224, ["fc1000"]),
}
INPUT = 'layer {{ name: "data" type: "Input" top: "{0}" input_param {{ shape {{ {1} }} }} }}\n'
LEARNING = ("Convolution", "InnerProduct", "BatchNorm", "Scale")


def layers_of(path):
    """The top of the images, and (name, type, text) of each layer that computes scores."""
    with open(os.path.join(ROOT, path)) as file:
        texts = re.findall(r"^layer \{.*?(?=^layer \{|\Z)", file.read(), re.M | re.S)
    layers = [(*re.search(r'name: "([^"]+)"\s+type: "(\w+)"', text).groups(), text) for text in texts]
    top = re.search(r'top: "([^"]+)"', layers[0][2]).group(1)
    return top, [layer for layer in layers if layer[1] not in ("Data", "Accuracy") and "Loss" not in layer[1]]


def put_random_weights(net):
    """Into every layer as large as keeps its outputs' size. @return the blobs of Caffe's layers in their order."""
    blobs = []
    as_arrays = lambda *tensors: [tensor.detach().numpy() for tensor in tensors if tensor is not None]
    for module in net.modules():
        if isinstance(module, (torch.nn.Conv2d, torch.nn.Linear)):
            torch.nn.init.kaiming_normal_(module.weight)
            if module.bias is not None:
                torch.nn.init.normal_(module.bias, std=0.1)
            blobs.append(as_arrays(module.weight, module.bias))
        elif isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.normal_(module.running_mean, std=0.1)
            torch.nn.init.uniform_(module.running_var, 0.5, 1.5)
            blobs.append([*as_arrays(module.running_mean, module.running_var), np.ones(1, np.float32)])
            if module.affine:
                torch.nn.init.uniform_(module.weight, 0.2, 0.6)
                torch.nn.init.normal_(module.bias, std=0.1)
                blobs.append(as_arrays(module.weight, module.bias))
    return blobs


def difference(name, binary):
    """The largest one, relative to the largest score, over all classifiers."""
    case = CASES[name]
    top, layers = layers_of(case.prototxt)
    # The layers of a siamese net's second half share the parameters of the first one's.
    learning = [layer for layer, kind, _ in layers if kind in LEARNING and not layer.endswith("_p")]
    torch.manual_seed(3)
    net = NETS[name]().eval()
    blobs = put_random_weights(net)
    assert len(blobs) == len(learning), f"{len(blobs)} layers with parameters, {len(learning)} in {case.prototxt}"
    images = torch.randn(IMAGES, case.channels, case.crop, case.crop)
    with torch.no_grad():
        expected = [scores.numpy() for scores in net.scores(images)]
    worst = 0
    with tempfile.TemporaryDirectory() as folder:
        path = lambda file: os.path.join(folder, file)
        write_caffemodel(path("weights"), dict(zip(learning, blobs)))
        images.numpy().tofile(path("images"))
        for classifier, want in zip(case.scores, expected):
            count = 1 + [layer for layer, _, _ in layers].index(classifier)
            with open(path("net"), "w") as file:
                file.write(INPUT.format(top, " ".join(f"dim: {size}" for size in images.shape)))
                file.writelines(text for _, _, text in layers[:count])
            subprocess.run([os.path.join(binary, "forward_net"), *map(path, ("net", "weights", "images", "scores"))],
                           check=True)
            got = np.fromfile(path("scores"), np.float32).reshape(want.shape)
            worst = max(worst, np.abs(got - want).max() / np.abs(want).max())
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin"))
    parser.add_argument("--nets", default=",".join(CASES))
    args = parser.parse_args()
    wrong = 0
    for name in args.nets.split(","):
        found = difference(name, args.bin)
        wrong += not found <= TOLERANCE
        print(f"{name}: {found:.1e} {'DIFFERS' if not found <= TOLERANCE else 'the same'}", flush=True)
    return 1 if wrong else 0


sys.exit(main())
