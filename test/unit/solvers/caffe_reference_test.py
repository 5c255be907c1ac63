#!/usr/bin/python3
"""Checks the NumPy reference (test/support/caffe_*.py) itself: its gradients against central differences, its file
formats against each other. What it computes forward is checked against OpenCV in test/unit/checkpoint.
"""
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
try:
    import numpy as np
except ImportError as missing:
    print("SKIPPED:", missing)
    sys.exit(77)

from caffe_layers import LAYERS
from caffe_net import Net
from caffe_text import Parser
from caffe_wire import blob_bytes, read_caffemodel, write_caffemodel

# Every layer type, a branch that joins again, in-place tops, and two losses.
NET = """
layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TRAIN } }
layer { name: "skipped" type: "Data" top: "data" top: "label" include { phase: TEST } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param { num_output: 4 kernel_h: 3 kernel_w: 2 pad_h: 1 pad_w: 1 stride: 2 } }
layer { name: "tanh" type: "TanH" bottom: "conv1" top: "conv1" }
layer { name: "norm1" type: "LRN" bottom: "conv1" top: "norm1" lrn_param { local_size: 3 alpha: 2 beta: 0.75 k: 1.5 } }
layer { name: "norm2" type: "LRN" bottom: "conv1" top: "norm2"
  lrn_param { local_size: 3 alpha: 2 beta: 0.75 norm_region: WITHIN_CHANNEL } }
layer { name: "conv2" type: "Convolution" bottom: "norm1" top: "conv2"
  convolution_param { num_output: 4 kernel_size: 2 group: 2 dilation: 2 pad: 1 bias_term: false } }
layer { name: "sum" type: "Eltwise" bottom: "norm1" bottom: "norm2" top: "sum" eltwise_param { coeff: [0.5, -2] } }
layer { name: "up" type: "Deconvolution" bottom: "conv2" top: "up"
  convolution_param { num_output: 4 group: 2 kernel_h: 3 kernel_w: 2 pad_h: 1 stride: 2 dilation: 2 } }
layer { name: "max" type: "Pooling" bottom: "up" top: "max" pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: "ave" type: "Pooling" bottom: "sum" top: "ave"
  pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 } }
layer { name: "relu" type: "ReLU" bottom: "max" top: "max" relu_param { negative_slope: 0.1 } }
layer { name: "flat1" type: "Flatten" bottom: "max" top: "flat1" }
layer { name: "flat2" type: "Flatten" bottom: "ave" top: "flat2" }
layer { name: "cat" type: "Concat" bottom: "flat1" bottom: "flat2" top: "cat" }
layer { name: "fc1" type: "InnerProduct" bottom: "cat" top: "fc1" inner_product_param { num_output: 6 } }
layer { name: "sigmoid" type: "Sigmoid" bottom: "fc1" top: "fc1" }
layer { name: "shifted" type: "Power" bottom: "fc1" top: "fc1" power_param { shift: -0.5 scale: 3 } }
layer { name: "elu" type: "ELU" bottom: "fc1" top: "fc1" elu_param { alpha: 0.7 } }
layer { name: "swish" type: "Swish" bottom: "fc1" top: "fc1" swish_param { beta: 1.5 } }
layer { name: "abs" type: "AbsVal" bottom: "fc1" top: "fc1" }
layer { name: "log" type: "Log" bottom: "fc1" top: "fc1" log_param { base: 2 scale: 0.5 shift: 1.5 } }
layer { name: "bnll" type: "BNLL" bottom: "fc1" top: "fc1" }
layer { name: "exp" type: "Exp" bottom: "fc1" top: "fc1" exp_param { base: 3 scale: -0.5 shift: 1 } }
layer { name: "cube" type: "Power" bottom: "fc1" top: "fc1" power_param { power: 3 shift: 0.2 } }
layer { name: "clip" type: "Clip" bottom: "fc1" top: "fc1" clip_param { min: 0 max: 40 } }
layer { name: "fc2" type: "InnerProduct" bottom: "fc1" top: "fc2" inner_product_param { num_output: 5 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "fc2" bottom: "label" top: "loss" loss_param { ignore_label: 3 } }
layer { name: "fc3" type: "InnerProduct" bottom: "fc1" top: "fc3" inner_product_param { num_output: 4 } }
layer { name: "loss2" type: "SoftmaxWithLoss" bottom: "fc3" bottom: "label" top: "loss2" loss_weight: 0.3
  loss_param { normalization: FULL } }
layer { name: "fc4" type: "InnerProduct" bottom: "fc1" top: "fc4"
  inner_product_param { num_output: 4 normalize: true bias_term: false } }
layer { name: "loss3" type: "SoftmaxWithLoss" bottom: "fc4" bottom: "label" top: "loss3"
  margin_param { scale: 3 } }
layer { name: "flat3" type: "Flatten" bottom: "data" top: "flat3" }
layer { name: "words" type: "ArgMax" bottom: "flat3" top: "words" argmax_param { axis: 1 top_k: 3 } }
layer { name: "table" type: "Embed" bottom: "words" top: "table" embed_param { input_dim: 144 num_output: 4 } }
layer { name: "fc5" type: "InnerProduct" bottom: "table" top: "fc5" inner_product_param { num_output: 5 } }
layer { name: "loss4" type: "InfogainLoss" bottom: "fc5" bottom: "label" top: "loss4" loss_weight: 0.7
  infogain_loss_param { source: "GAINS" } loss_param { ignore_label: 3 } }
"""
SHAPES = {"conv1": [(4, 2, 3, 2), (4,)], "conv2": [(4, 2, 2, 2)], "up": [(4, 2, 3, 2), (4,)],
          "fc1": [(6, None), (6,)], "fc2": [(5, 6), (5,)], "fc3": [(4, 6), (4,)], "fc4": [(4, 6)],
          "table": [(144, 4), (4,)], "fc5": [(5, 12), (5,)]}
STEP = 1e-5


def check_margin(random):
    """A margin's gradient goes straight through it, so differences show only the way there: its value is compared with
    the sum of the angles written out for each row, its gradient with that of the logits."""
    cosines, labels = random.uniform(-1, 1, (4, 5)), np.array([1, 3, 0, 2])
    cosines[1, 3] = -0.99  # its angle and the margin's are above pi
    spec = """layer { name: "loss" type: "SoftmaxWithLoss" bottom: "x" bottom: "y" top: "loss"
              margin_param { scale: 8 angle: 0.5 cosine: 0.1 } loss_param { ignore_label: 2 } }"""
    loss = LAYERS["SoftmaxWithLoss"](Parser(spec).message()["layer"][0])
    value, want, gradients = loss.forward(cosines, labels)[0], 0.0, np.zeros((4, 5))
    for row, label in enumerate(labels[:3]):
        logits = 8 * cosines[row]
        logits[label] = 8 * (np.cos(np.arccos(cosines[row, label]) + 0.5) - 0.1)
        prob = np.exp(logits) / np.exp(logits).sum()
        want -= np.log(prob[label]) / 3
        prob[label] -= 1
        gradients[row] = 8 * prob / 3
    assert abs(value - want) < 1e-12, (value, want)
    assert np.allclose(loss.backward(1.0)[0], gradients, atol=1e-12)


def main():
    random = np.random.default_rng(3)
    blobs = {"data": random.normal(0, 1, (3, 2, 9, 8)), "label": np.array([1, 3, 0])}
    # conv1: 5 x 5; conv2: 5 x 5; up: 11 x 11; pools: 6 x 6 and 3 x 3, 4 channels each.
    model = {layer: [random.normal(0, 0.5, [180 if dim is None else dim for dim in shape]) for shape in shapes]
             for layer, shapes in SHAPES.items()}
    gains = tempfile.NamedTemporaryFile()
    gains.write(blob_bytes(random.uniform(0, 1, (5, 5))))
    gains.flush()
    net = Net(Parser(NET.replace("GAINS", gains.name)).message(), model)
    net.forward(blobs)
    net.clear_gradients()
    net.backward()
    checked = worst = 0
    for param in net.params:
        flat, gradient = param.value.reshape(-1), param.grad.reshape(-1)
        for at in random.choice(flat.size, min(flat.size, 24), replace=False):
            kept = flat[at]
            losses = []
            for value in (kept - STEP, kept + STEP):
                flat[at] = value
                losses.append(net.forward(blobs))
            flat[at] = kept
            numeric = (losses[1] - losses[0]) / (2 * STEP)
            worst, checked = max(worst, abs(numeric - gradient[at])), checked + 1
            assert abs(numeric - gradient[at]) < 1e-6 + 1e-4 * abs(numeric), (
                f"{param.layer}.{param.index} at {at}: {gradient[at]}, numeric {numeric}")
        assert np.abs(gradient).max() > 1e-4, f"{param.layer}.{param.index} has no gradient"
    check_margin(random)
    print(f"{checked} gradients, the worst off by {worst:.2g}")

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.caffemodel")
        write_caffemodel(path, model)
        read = read_caffemodel(path)
        for layer, values in model.items():
            for a, b in zip(values, read[layer]):
                assert np.array_equal(a.astype(np.float32), b), layer
    return 0


if __name__ == "__main__":
    sys.exit(main())
