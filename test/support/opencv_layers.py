"""Every layer's output of a deploy net, by hpnode and by OpenCV's Caffe importer."""
import re

import cv2
import numpy as np

from example_nets import layer_texts, write_text

TOLERANCE = 5e-5  # of the range of a layer's values; a bias that all share makes no difference look small
ROUNDING = 4 * np.finfo(np.float32).eps  # of its largest value, where that is far beyond the range
FLAT = 'layer {{ name: "flat {name}" type: "Flatten" bottom: "{top}" top: "flat {name}" }}\n'
JOINED = 'layer {{ name: "joined" type: "Concat" {bottoms} top: "joined" }}\n'


class Output:
    """`ours` and `theirs` [N, values] of a layer. @param scores what a Softmax had."""

    def __init__(self, name, kind, ours, theirs, scores=None):
        self.name, self.kind, self.ours, self.theirs = name, kind, ours, theirs
        self.range, self.difference = np.ptp(theirs), np.abs(ours - theirs).max()
        self.allowed = TOLERANCE * self.range + ROUNDING * np.abs(theirs).max()
        if scores is not None:  # |dp/dz| sums up to 2p(1 - p), which is at most 1/2
            self.allowed += scores.difference / 2
        self.equal = self.range > 0 and self.difference <= self.allowed

    def __str__(self):
        return (f"{self.name} ({self.kind}): {self.difference / self.range:.2g} of the range, values "
                f"{self.ours.min():.3g} to {self.ours.max():.3g}")


def described(layer):
    """Name, type, first bottom and first top of a layer's text; Input has no bottom."""
    found = [re.search(field + r': "([^"]+)"', layer) for field in ("name", "type", "bottom", "top")]
    return [match and match[1] for match in found]


def our_outputs(folder, net, model, images, run):
    """Of each layer but the first, all in one [N, values]: flattened behind the layer, before one in place changes its
    top, and joined at the end."""
    layers = layer_texts(net)
    text, bottoms = layers[0], ""
    for layer in layers[1:]:
        name, _, _, top = described(layer)
        text += layer.rstrip() + "\n" + FLAT.format(name=name, top=top)
        bottoms += f' bottom: "flat {name}"'
    write_text(f"{folder}/joined.prototxt", text + JOINED.format(bottoms=bottoms))
    images.tofile(f"{folder}/input.f32")
    run("forward_net", f"{folder}/joined.prototxt", model, f"{folder}/input.f32", f"{folder}/output.f32")
    return np.fromfile(f"{folder}/output.f32", np.float32).reshape(len(images), -1)


def their_outputs(folder, net, model, images, names):
    """Of these layers, or without any of the last one: then OpenCV fuses layers as it likes."""
    write_text(f"{folder}/deploy.prototxt", net)
    opencv = cv2.dnn.readNetFromCaffe(f"{folder}/deploy.prototxt", model)
    opencv.setInput(images, described(layer_texts(net)[0])[3])
    blobs = opencv.forward(names) if names else [opencv.forward()]
    return [blob.reshape(len(images), -1) for blob in blobs]


def outputs(folder, net, model, images, run):
    """@param net deploy form, whose first layer is Input. @param run as in example_nets.write_example.
    @return an Output of each other layer, by its first top, and at the end again the last one of a run with fused
    layers."""
    layers = [described(layer) for layer in layer_texts(net)][1:]
    theirs = their_outputs(folder, net, model, images, [name for name, *_ in layers])
    cuts = np.cumsum([blob.shape[1] for blob in theirs])
    joined = our_outputs(folder, net, model, images, run)
    assert joined.shape[1] == cuts[-1], f"{joined.shape[1]} values, OpenCV has {cuts[-1]}"
    layers.append((layers[-1][0], layers[-1][1], layers[-1][2], None))
    ours = np.split(joined, cuts[:-1], 1)
    ours, theirs = ours + ours[-1:], theirs + their_outputs(folder, net, model, images, [])
    made, by_top = [], {}
    for (name, kind, bottom, top), *values in zip(layers, ours, theirs):
        made.append(Output(name, kind, *values, by_top[bottom] if kind == "Softmax" else None))
        by_top[top] = made[-1]
    made[-1].name += ", fused"
    return made
