#!/usr/bin/python3
"""Whether the nets of torch_nets.py compute what the prototxt files do: the same scores for the same random weights and
images, without dropout.

usage: test/bench/same_nets.py [--bin build/release/bin] [--nets quick,full,alexnet,vgg16,googlenet]

Debian packages: python3-torch, python3-numpy. Wants the target forward_net.
"""
import argparse, os, re, subprocess, sys, tempfile

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "test/support")]
from caffe_wire import write_caffemodel
from torch_nets import NETS

TOLERANCE, IMAGES = 1e-4, 2  # of the largest score
CIFAR10, IMAGENET = "examples/cifar10/cifar10_{0}_train_test.prototxt", "examples/{0}/{0}_train_val.prototxt"
CASES = {  # name: (prototxt, crop, layers that yield scores)
    "quick": (CIFAR10, 32, ["ip2"]), "full": (CIFAR10, 32, ["ip1"]), "alexnet": (IMAGENET, 227, ["fc8"]),
    "vgg16": (IMAGENET, 224, ["fc8"]),
    "googlenet": (IMAGENET, 224, ["loss1/classifier", "loss2/classifier", "loss3/classifier"]),
}
INPUT = 'layer {{ name: "data" type: "Input" top: "data" input_param {{ shape {{ {0} }} }} }}\n'


def layers_of(path):
    """(name, type, text) of each layer that computes scores."""
    with open(os.path.join(ROOT, path)) as file:
        texts = re.findall(r"^layer \{.*?(?=^layer \{|\Z)", file.read(), re.M | re.S)
    layers = [(*re.search(r'name: "([^"]+)"\s+type: "(\w+)"', text).groups(), text) for text in texts]
    return [layer for layer in layers if layer[1] not in ("Data", "SoftmaxWithLoss", "Accuracy")]


def put_random_weights(net):
    """Into every layer as large as keeps its outputs' size. @return [weight, bias] of the layers in their order."""
    blobs = []
    for module in net.modules():
        if isinstance(module, (torch.nn.Conv2d, torch.nn.Linear)):
            torch.nn.init.kaiming_normal_(module.weight)
            torch.nn.init.normal_(module.bias, std=0.1)
            blobs.append([module.weight.detach().numpy(), module.bias.detach().numpy()])
    return blobs


def difference(name, binary):
    """The largest one, relative to the largest score, over all classifiers."""
    prototxt, crop, classifiers = CASES[name]
    layers = layers_of(prototxt.format(name))
    learning = [layer for layer, kind, _ in layers if kind in ("Convolution", "InnerProduct")]
    torch.manual_seed(3)
    net = NETS[name]().eval()
    blobs = put_random_weights(net)
    assert len(blobs) == len(learning), f"{len(blobs)} layers with parameters, {len(learning)} in {prototxt}"
    images = torch.randn(IMAGES, 3, crop, crop)
    with torch.no_grad():
        expected = [scores.numpy() for scores in net.scores(images)]
    worst = 0
    with tempfile.TemporaryDirectory() as folder:
        path = lambda file: os.path.join(folder, file)
        write_caffemodel(path("weights"), dict(zip(learning, blobs)))
        images.numpy().tofile(path("images"))
        for classifier, want in zip(classifiers, expected):
            count = 1 + [layer for layer, _, _ in layers].index(classifier)
            with open(path("net"), "w") as file:
                file.write(INPUT.format(" ".join(f"dim: {size}" for size in images.shape)))
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
