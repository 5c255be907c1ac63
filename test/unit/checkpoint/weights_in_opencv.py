#!/usr/bin/python3
"""A .caffemodel that hpnode wrote, read by a reader without protobuf and by OpenCV's Caffe importer, whose outputs are
compared with NumPy's.   weights_in_opencv.py PATH/TO/write_test_model
"""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
try:
    import cv2
    import numpy as np
except ImportError as missing:
    print("SKIPPED:", missing)
    sys.exit(77)

from caffe_net import Net
from caffe_text import read_prototxt
from caffe_wire import read_caffemodel

NET = """
name: "opencv_test"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 dim: 13 dim: 11 } } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param { num_output: 6 kernel_size: 3 pad: 1 stride: 2 } }
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
layer { name: "norm1" type: "LRN" bottom: "conv1" top: "norm1" lrn_param { local_size: 3 alpha: 0.01 beta: 0.75 } }
layer { name: "conv2" type: "Convolution" bottom: "norm1" top: "conv2"
  convolution_param { num_output: 4 kernel_size: 3 group: 2 bias_term: false } }
layer { name: "pool2" type: "Pooling" bottom: "conv2" top: "pool2"
  pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: "fc3" type: "InnerProduct" bottom: "pool2" top: "fc3" inner_product_param { num_output: 7 } }
layer { name: "tanh3" type: "TanH" bottom: "fc3" top: "fc3" }
layer { name: "fc4" type: "InnerProduct" bottom: "fc3" top: "fc4" inner_product_param { num_output: 5 } }
"""
SHAPES = {("conv1", 0): (6, 3, 3, 3), ("conv1", 1): (6,), ("conv2", 0): (4, 3, 3, 3), ("fc3", 0): (7, 4 * 3 * 2),
          ("fc3", 1): (7,), ("fc4", 0): (5, 7), ("fc4", 1): (5,)}


def main():
    random = np.random.default_rng(5)
    blobs = {key: random.normal(0, 0.4, shape).astype(np.float32) for key, shape in SHAPES.items()}
    image = random.normal(0, 1, (2, 3, 13, 11)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        prototxt, caffemodel = os.path.join(folder, "net.prototxt"), os.path.join(folder, "net.caffemodel")
        with open(prototxt, "w") as file:
            file.write(NET)
        command = [sys.argv[1], prototxt, caffemodel]
        for i, ((layer, index), values) in enumerate(blobs.items()):
            path = os.path.join(folder, str(i))
            values.tofile(path)
            command += [layer, str(index), ",".join(map(str, values.shape)), path]
        subprocess.run(command, check=True)

        model = read_caffemodel(caffemodel)
        for (layer, index), values in blobs.items():
            assert np.array_equal(model[layer][index], values), f"{layer} blob {index} differs"
        net = Net(read_prototxt(prototxt), model)
        net.forward({"data": image.astype(np.float64)})
        expected = net.blobs["fc4"]

        opencv = cv2.dnn.readNetFromCaffe(prototxt, caffemodel)
        opencv.setInput(image, "data")
        found = opencv.forward("fc4").reshape(expected.shape)
        difference = np.abs(found - expected).max()
        print(f"largest difference from OpenCV {difference:.3g}, largest output {np.abs(expected).max():.3g}")
        assert difference < 1e-4 and np.abs(expected).max() > 0.1
    return 0


if __name__ == "__main__":
    sys.exit(main())
