#!/usr/bin/python3
"""Runs test/support/caffe_reference.py as the comparisons with hpnode do: it must find a run equal to itself, call a
different one different, and make the loss fall.
"""
import os
import subprocess
import sys
import tempfile

SUPPORT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support")
sys.path.insert(0, SUPPORT)
try:
    import numpy as np
except ImportError as missing:
    print("SKIPPED:", missing)
    sys.exit(77)

from caffe_wire import read_caffemodel, write_caffemodel

NET = """
name: "tiny"  # conv, LRN, pooling and two inner products
layer { name: "data" type: "Data" top: "data" top: "label"
  transform_param { scale: 0.01 mean_value: 120 } data_param { source: "x" batch_size: 10 backend: LEVELDB } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1" param { lr_mult: 1 }
  param { lr_mult: 2 decay_mult: 0 } convolution_param { num_output: 5 kernel_size: 3 pad: 1 } }
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
layer { name: "norm1" type: "LRN" bottom: "conv1" top: "norm1" lrn_param { local_size: 3 alpha: 0.1 beta: 0.75 } }
layer { name: "pool1" type: "Pooling" bottom: "norm1" top: "pool1"
  pooling_param { pool: AVE kernel_size: 3 stride: 2 } }
layer { name: "fc1" type: "InnerProduct" bottom: "pool1" top: "fc1" inner_product_param { num_output: 8 } }
layer { name: "tanh1" type: "TanH" bottom: "fc1" top: "fc1" }
layer { name: "fc2" type: "InnerProduct" bottom: "fc1" top: "fc2" inner_product_param { num_output: 4 } }
layer { name: "accuracy" type: "Accuracy" bottom: "fc2" bottom: "label" top: "accuracy" include { phase: TEST } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "fc2" bottom: "label" top: "loss" }
"""
SOLVER = """
net: "net.prototxt" base_lr: 0.2 momentum: 0.9 weight_decay: 0.001 lr_policy: "step" gamma: 0.9 stepsize: 10
iter_size: 2 clip_gradients: 2 max_iter: 40
"""


def main():
    random = np.random.default_rng(17)
    labels = random.integers(0, 4, 60)
    images = (random.integers(0, 60, (60, 64)) + 60 * labels[:, None] % 197).astype(np.uint8)
    images[np.arange(60), labels * 9] = 255
    model = {"conv1": [random.normal(0, 0.3, (5, 1, 3, 3)), np.zeros(5)],
             "fc1": [random.normal(0, 0.1, (8, 80)), np.zeros(8)], "fc2": [random.normal(0, 0.3, (4, 8)), np.zeros(4)]}
    with tempfile.TemporaryDirectory() as folder:
        at = lambda name: os.path.join(folder, name)
        for name, text in (("net", NET), ("solver", SOLVER), ("other", SOLVER.replace("0.001", "0.002"))):
            with open(at(name), "w") as file:
                file.write(text)
        np.concatenate([labels[:, None].astype(np.uint8), images], 1).tofile(at("data"))
        write_caffemodel(at("start"), model)

        def run(solver, *arguments):
            return subprocess.run(["/usr/bin/python3", os.path.join(SUPPORT, "caffe_reference.py"), "--solver",
                                   at(solver), "--net", at("net"), "--weights", at("start"), "--data", at("data"),
                                   "--shape", "1,8,8", "--iterations", "40", *arguments], stdout=subprocess.PIPE,
                                  text=True)

        assert run("solver", "--out", at("end"), "--losses", at("losses")).returncode == 0
        losses = [float(line.split()[2]) for line in open(at("losses"))]
        assert len(losses) == 40 and losses[-1] < 0.5 * losses[0], losses
        assert abs(losses[0] - np.log(4)) < 0.5
        assert run("solver", "--compare", at("end")).returncode == 0
        different = run("other", "--compare", at("end"))
        assert different.returncode == 1 and "DIFFERS conv1.0" in different.stdout, different.stdout
        assert read_caffemodel(at("end"))["fc1"][0].shape == (8, 80)
        print(f"loss {losses[0]:.3f} to {losses[-1]:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
