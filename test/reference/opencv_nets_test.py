#!/usr/bin/python3
"""The nets of examples/ that hpnode trained under their tables and wrote, in OpenCV's Caffe importer: every layer gives
the same output.

  opencv_nets_test.py HPNODE HPROUTE CONVERT_MNIST_DATA CONVERT_IMAGESET CONVERT_MNIST_SIAMESE_DATA COMPUTE_IMAGE_MEAN
                      FORWARD_NET [NET ...]

Nets that see 224 or 227 pixels have an eighth of the channels: HPNODE_ALL_NETS=1 takes them as they are, in minutes and
several GB.
"""
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
try:
    import cv2
    import numpy as np
except ImportError as missing:
    print("SKIPPED:", missing)
    sys.exit(77)

import example_nets
import opencv_layers
from caffe_wire import read_blob, read_caffemodel
from programs import Programs

PROGRAMS = 7
# Images of a batch, and those that are compared: as many as a table's replicas, or a multiple.
BATCH = {**{name: 6 for name in example_nets.SMALL}, **{name: 2 for name in example_nets.LARGE}, "googlenet": 3}
# How many times as bright the compared images are: weights as small as its fillers make them leave cifar10_full's LRN
# layers nothing to do.
GAIN = {"cifar10_full": 100}
MOVED = 0.01  # of the range of a net's outputs is how far one goes at least from image to image


def train(folder, name, run):
    """@return the net's text, and the path of the model."""
    updates = 1 if name in example_nets.LARGE else example_nets.UPDATES[name]
    model = example_nets.write_example(folder, name, BATCH[name], updates, run)
    table = f"{folder}/table.prototxt"
    example_nets.write_text(table, example_nets.example_table(name)[0])
    run("hpnode", "--all", f"--routing={table}", "--cache_dir=none")
    return example_nets.read_text(f"{folder}/net.prototxt"), model


def untrained(model):
    """Layers whose second blob, a bias or BatchNorm's variance, is still the constant that it began as."""
    blobs = read_caffemodel(model)
    assert blobs, model
    return [layer for layer, values in blobs.items() if len(values) > 1 and np.ptp(values[1]) == 0]


def net_input(folder, name, net):
    """Images [N, C, H, W] as the net's Data layer makes them: less the mean, and scaled."""
    pair = name == "mnist_siamese"  # an image of two channels
    read = cv2.IMREAD_GRAYSCALE if name in example_nets.MNIST else cv2.IMREAD_COLOR
    count = BATCH[name] * (2 if pair else 1)
    pixels = np.stack([cv2.imread(f"{folder}/images/{i:04}.png", read) for i in range(count)])
    pixels = pixels.reshape(*pixels.shape[:3], -1).transpose(0, 3, 1, 2).astype(np.float32)
    if pair:
        pixels = pixels.reshape(-1, 2, *pixels.shape[2:])
    transform = re.search(r"transform_param \{.*", net)[0]
    means = [np.float32(value) for value in re.findall(r"mean_value: (\S+)", transform)]
    if means:
        pixels -= np.array(means).reshape(-1, 1, 1)
    if "mean_file" in transform:
        with open(f"{folder}/mean", "rb") as file:
            pixels -= read_blob(file.read())
    scale = re.search(r"scale: (\S+)", transform)
    return np.ascontiguousarray(pixels * np.float32(scale[1] if scale else 1) * GAIN.get(name, 1))


def check(folder, name, run):
    """Prints each layer's difference. @return what is wrong."""
    net, model = train(folder, name, run)
    faults = [f"{layer}: as its filler made it" for layer in untrained(model)]
    images = net_input(folder, name, net)
    deployed = example_nets.deploy(net, images.shape, softmax=True)
    outputs = opencv_layers.outputs(folder, deployed, model, images, run)
    for output in outputs:
        print(f"{'equal  ' if output.equal else 'DIFFERS'} {name} {output}")
    faults += [f"{output} differs" for output in outputs if not output.equal]
    last, worst = outputs[-1], max(outputs, key=lambda output: output.difference / output.range)
    moved = np.ptp(last.ours, axis=0).max() / last.range
    if not moved > MOVED:
        faults.append(f"{last.name}: {moved:.2g} of its range from image to image")
    print(f"{name}: {len(outputs)} outputs, moved {moved:.2g}, worst {worst}", flush=True)
    return faults


def main():
    run, names = Programs(sys.argv[1:1 + PROGRAMS]).run, sys.argv[1 + PROGRAMS:]
    faults = []
    for name in names or example_nets.SIDES:
        with tempfile.TemporaryDirectory() as folder:
            faults += [f"{name}: {fault}" for fault in check(folder, name, run)]
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
