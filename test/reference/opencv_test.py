#!/usr/bin/python3
"""A model that hpnode trained and wrote, in OpenCV's Caffe importer: every blob of a net with all layers that both know
comes out alike, and hpnode's own test loss is the one that OpenCV's outputs give on the same records.

  opencv_test.py HPNODE HPROUTE CONVERT_MNIST_DATA FORWARD_NET
"""
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
try:
    import cv2  # which opencv_layers needs
    import numpy as np
except ImportError as missing:
    print("SKIPPED:", missing)
    sys.exit(77)

import opencv_layers
from caffe_wire import read_caffemodel
from example_nets import write_text
from programs import Programs

TOLERANCE = 1e-4  # of losses
RECORDS, HEIGHT, WIDTH, CLASSES = 40, 19, 15, 5
SCALE, MEAN = 0.0078125, 120
DATA = """
layer {{ name: "data" type: "Data" top: "data" top: "label"
  data_param {{ source: "{folder}/db" batch_size: {records} }}
  transform_param {{ scale: {scale} mean_value: {mean} }} }}
"""
INPUT = """
layer {{ name: "data" type: "Input" top: "data" input_param {{ shape {{ dim: {rows} dim: 1 dim: {h} dim: {w} }} }} }}
"""
# One layer an entry. Sizes are odd where a layer rounds: 19 x 15, 10 x 8, then 5 x 4 and 6 x 5 by rounding up.
# What OpenCV's importer does not know (README.md) is left out.
BODY = """
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1" convolution_param { num_output: 16 kernel_size: 3
  stride: 2 pad: 1 weight_filler { type: "xavier" } bias_filler { type: "constant" value: 0.1 } } }
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" relu_param { negative_slope: 0.1 } }
layer { name: "norm1" type: "LRN" bottom: "conv1" top: "norm1" lrn_param { local_size: 5 alpha: 0.5 beta: 0.75 k: 1 } }
layer { name: "conv2" type: "Convolution" bottom: "norm1" top: "conv2" convolution_param { num_output: 12 kernel_size: 3
  dilation: 2 pad: 2 group: 2 bias_term: false weight_filler { type: "msra" } } }
layer { name: "tanh2" type: "TanH" bottom: "conv2" top: "tanh2" }
layer { name: "sigmoid2" type: "Sigmoid" bottom: "conv2" top: "sigmoid2" }
layer { name: "norm2" type: "LRN" bottom: "tanh2" top: "norm2"
  lrn_param { norm_region: WITHIN_CHANNEL local_size: 3 alpha: 0.7 beta: 0.75 } }
layer { name: "max3" type: "Pooling" bottom: "norm2" top: "max3" pooling_param { pool: MAX kernel_size: 3 stride: 2 } }
layer { name: "ave3" type: "Pooling" bottom: "sigmoid2" top: "ave3"
  pooling_param { pool: AVE kernel_size: 3 stride: 2 } }
layer { name: "concat3" type: "Concat" bottom: "max3" bottom: "ave3" top: "concat3" }
layer { name: "max4" type: "Pooling" bottom: "norm2" top: "max4"
  pooling_param { pool: MAX kernel_h: 3 kernel_w: 2 stride: 2 pad: 1 } }
layer { name: "ave4" type: "Pooling" bottom: "sigmoid2" top: "ave4"
  pooling_param { pool: AVE kernel_h: 3 kernel_w: 2 stride: 2 pad: 1 } }
layer { name: "sum4" type: "Eltwise" bottom: "max4" bottom: "ave4" top: "sum4"
  eltwise_param { operation: SUM coeff: 1 coeff: -0.5 } }
layer { name: "prod4" type: "Eltwise" bottom: "sum4" bottom: "ave4" top: "prod4" eltwise_param { operation: PROD } }
layer { name: "best4" type: "Eltwise" bottom: "prod4" bottom: "max4" top: "best4" eltwise_param { operation: MAX } }
layer { name: "up3" type: "Deconvolution" bottom: "concat3" top: "up3" convolution_param { num_output: 12 group: 2
  kernel_h: 4 kernel_w: 5 stride: 2 pad_h: 0 pad_w: 1 weight_filler { type: "xavier" } bias_filler { type: "constant"
  value: 0.1 } } }
layer { name: "crop3" type: "Crop" bottom: "up3" bottom: "norm2" top: "crop3" crop_param { axis: 2 offset: 1 } }
layer { name: "conv5" type: "Convolution" bottom: "crop3" top: "conv5" convolution_param { num_output: 10 kernel_h: 1
  kernel_w: 3 pad_h: 0 pad_w: 1 weight_filler { type: "xavier" } } }
layer { name: "global5" type: "Pooling" bottom: "conv5" top: "global5"
  pooling_param { pool: AVE global_pooling: true } }
layer { name: "flat5" type: "Flatten" bottom: "global5" top: "flat5" }
layer { name: "flat4" type: "Flatten" bottom: "best4" top: "flat4" }
layer { name: "concat6" type: "Concat" bottom: "flat5" bottom: "flat4" top: "concat6" }
layer { name: "ip6" type: "InnerProduct" bottom: "concat6" top: "ip6" inner_product_param { num_output: 33
  weight_filler { type: "xavier" } bias_filler { type: "constant" value: 0.2 } } }
layer { name: "relu6" type: "ReLU" bottom: "ip6" top: "ip6" }
layer { name: "drop6" type: "Dropout" bottom: "ip6" top: "ip6" dropout_param { dropout_ratio: 0.4 } }
layer { name: "ip7" type: "InnerProduct" bottom: "ip6" top: "ip7" inner_product_param { num_output: 5
  weight_filler { type: "xavier" } } }
"""
PROB = 'layer { name: "prob" type: "Softmax" bottom: "ip7" top: "prob" }\n'
LOSS = """
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip7" bottom: "label" top: "loss" }
layer { name: "accuracy" type: "Accuracy" bottom: "ip7" bottom: "label" top: "accuracy" include { phase: TEST } }
"""
SOLVER = """
net: "{folder}/train.prototxt" base_lr: 0.05 lr_policy: "fixed" momentum: 0.9 max_iter: 15 random_seed: 4
test_iter: 1 test_interval: 15 snapshot_prefix: "{folder}/model"
"""


def write_records(folder, random):
    """An IDX pair. @return images as the Data layer yields them, labels."""
    labels = random.integers(0, CLASSES, RECORDS).astype(np.uint8)
    means = random.integers(0, 150, (CLASSES, HEIGHT * WIDTH))
    images = (means[labels] + random.integers(0, 100, (RECORDS, HEIGHT * WIDTH))).astype(np.uint8)
    with open(f"{folder}/images", "wb") as file:
        file.write(np.array([0x803, RECORDS, HEIGHT, WIDTH], ">u4").tobytes() + images.tobytes())
    with open(f"{folder}/labels", "wb") as file:
        file.write(np.array([0x801, RECORDS], ">u4").tobytes() + labels.tobytes())
    return ((images.astype(np.float32) - MEAN) * SCALE).reshape(RECORDS, 1, HEIGHT, WIDTH), labels


def train(folder, run):
    """@return the last test's outputs, by name."""
    write_text(f"{folder}/train.prototxt",
               'name: "opencv"' + DATA.format(folder=folder, records=RECORDS, scale=SCALE, mean=MEAN) + BODY + LOSS)
    write_text(f"{folder}/solver.prototxt", SOLVER.format(folder=folder))
    run("hproute", f"--solver={folder}/solver.prototxt", "--conv=1", "--fc=2", "--hosts=127.0.0.1",
        f"--out={folder}/table.prototxt")
    log = run("hpnode", "--all", f"--routing={folder}/table.prototxt", "--cache_dir=none")
    return {name: float(value) for name, value in re.findall(r"Test net output #\d+: (\w+) = ([-+.e\d]+)", log)}


def main():
    run, random = Programs(sys.argv[1:]).run, np.random.default_rng(3)
    with tempfile.TemporaryDirectory() as folder:
        images, labels = write_records(folder, random)
        run("convert_mnist_data", "--backend=leveldb", f"{folder}/images", f"{folder}/labels", f"{folder}/db")
        tested = train(folder, run)
        model = f"{folder}/model_iter_15.caffemodel"
        assert set(read_caffemodel(model)) == {"conv1", "conv2", "up3", "conv5", "ip6", "ip7"}
        deployed = INPUT.format(rows=RECORDS, h=HEIGHT, w=WIDTH) + BODY + PROB
        outputs = opencv_layers.outputs(folder, deployed, model, images, run)
    for output in outputs:
        print("equal  " if output.equal else "DIFFERS", output)

    prob = outputs[-1].theirs
    loss = -np.log(prob[np.arange(RECORDS), labels]).mean()
    accuracy = (prob.argmax(1) == labels).mean()
    print(f"hpnode's test: loss {tested['loss']}, accuracy {tested['accuracy']}; from OpenCV's outputs: "
          f"{loss:.6g}, {accuracy:.6g}")
    assert abs(loss - tested["loss"]) < TOLERANCE and abs(accuracy - tested["accuracy"]) < 1e-6
    assert loss < 0.8 * np.log(CLASSES), "nothing was learnt"
    return 0 if all(output.equal for output in outputs) else 1


if __name__ == "__main__":
    sys.exit(main())
