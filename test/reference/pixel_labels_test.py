#!/usr/bin/python3
"""Trains a small segmentation net (convolutions, an interpolating Deconvolution, Crop, SoftmaxWithLoss with a label for
each pixel) 20 iterations with hpnode and with the NumPy program of test/support, from the same weights on the same HDF5
file: every blob, the reported losses, and what the job's last test and model_test say of the end, over images of another
size in batches of another one. Ignored labels lie unevenly on the replicas.

  pixel_labels_test.py HPNODE MODEL_TEST WRITE_HDF5
"""
import os
import re
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
try:
    import numpy as np
except ImportError as missing:
    print("SKIPPED:", missing)
    sys.exit(77)

from caffe_net import Net
from caffe_reference import train
from caffe_text import read_prototxt
from caffe_wire import read_caffemodel, write_caffemodel

TOLERANCE = 1e-4  # of a blob's largest magnitude
ONE_PIXEL = 0.002  # of the counted ones of a test: two scores may tie within rounding
ITERATIONS, BATCH, RECORDS, CLASSES, IGNORED = 20, 6, 30, 4, 255
TEST_BATCH, TEST_ITERATIONS = 5, 2
SIZE, TEST_SIZE = (9, 8), (7, 12)
NET = """
name: "segmentation"
layer {{ name: "data" type: "HDF5Data" top: "data" top: "label" include {{ phase: TRAIN }}
  hdf5_data_param {{ source: "{folder}/list" batch_size: 6 }} }}
layer {{ name: "data" type: "HDF5Data" top: "data" top: "label" include {{ phase: TEST }}
  hdf5_data_param {{ source: "{folder}/test_list" batch_size: 5 }} }}
layer {{ name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param {{ num_output: 6 kernel_size: 3 pad: 1 }} }}
layer {{ name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }}
layer {{ name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1" pooling_param {{ kernel_size: 2 stride: 2 }} }}
layer {{ name: "score" type: "Convolution" bottom: "pool1" top: "score"
  convolution_param {{ num_output: 4 kernel_size: 3 pad: 1 }} }}
layer {{ name: "up" type: "Deconvolution" bottom: "score" top: "up" param {{ lr_mult: 0.2 }}
  convolution_param {{ num_output: 4 group: 4 kernel_size: 4 stride: 2 bias_term: false }} }}
layer {{ name: "crop" type: "Crop" bottom: "up" bottom: "data" top: "crop" crop_param {{ axis: 2 offset: 1 }} }}
layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "crop" bottom: "label" top: "loss" loss_param {{ {loss} }} }}
layer {{ name: "accuracy" type: "Accuracy" bottom: "crop" bottom: "label" top: "accuracy" include {{ phase: TEST }}
  accuracy_param {{ {ignore} }} }}
"""
CASES = {  # fields of loss_param, base_lr, iter_size
    "VALID of all": ("", 0.2, 1),
    "VALID": ("ignore_label: 255", 0.2, 1),
    "VALID, iter_size": ("ignore_label: 255 normalize: true", 0.2, 2),
    "FULL": ("ignore_label: 255 normalization: FULL", 0.2, 1),
    "BATCH_SIZE": ("ignore_label: 255 normalization: BATCH_SIZE", 0.003, 1),
    "NONE": ("ignore_label: 255 normalization: NONE", 0.0005, 2),
}


class Rows:
    """Batches of the rows, as HDF5Data yields them."""

    def __init__(self, images, labels, size=BATCH):
        self.images, self.labels, self.size = images.astype(np.float64), labels, size

    def batch(self, index):
        rows = np.arange(index * self.size, (index + 1) * self.size) % RECORDS
        return {"data": self.images[rows], "label": self.labels[rows]}


def draw(random, size):
    """Images whose brightness tells the class of each pixel, and labels; the first half of each batch is nearly all
    ignored."""
    labels = random.integers(0, CLASSES, (RECORDS, 1, 6, 6)).repeat(2, 2).repeat(2, 3)[:, :, :size[0], :size[1]]
    images = labels / CLASSES + random.normal(0, 0.2, (RECORDS, 2, *size))
    share = np.where(np.arange(RECORDS) % BATCH < BATCH // 2, 0.9, 0.1)[:, None, None, None]
    return images.astype(np.float32), np.where(random.random(labels.shape) < share, IGNORED, labels)


def run(*command, content=None):
    environment = dict(os.environ, OMP_WAIT_POLICY="passive")
    done = subprocess.run(command, input=content, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment,
                          check=False)
    if done.returncode == 2 and "write_hdf5" in command[0]:
        print("SKIPPED: no HDF5 here")
        sys.exit(77)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nexit status {done.returncode}\n{done.stdout.decode()}")
    return done.stdout.decode()


def write_rows(program, folder, name, images, labels):
    dims = [",".join(map(str, array.shape)) for array in (images, labels)]
    content = images.astype(np.float64).tobytes() + labels.astype(np.float64).tobytes()
    run(program, f"{folder}/{name}.h5", "data", "float", dims[0], "label", "int", dims[1], content=content)
    with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
        file.write(f"{folder}/{name}.h5\n")


def write_table(path, solver, replicas, micro_batches):
    ports = []
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'solver: "{solver}" micro_batches: {micro_batches} stage {{ kind: CONV }}\n')
        for index in range(replicas):
            ports.append(socket.create_server(("127.0.0.1", 0)))
            file.write(f'node {{ name: "conv{index}" stage: 0 index: {index} host: "127.0.0.1" '
                       f"port: {ports[-1].getsockname()[1]} }}\n")
    for port in ports:
        port.close()


def accuracy_of(model, rows, ignored, batches):
    """The mean over batches of the share of pixels whose label has the largest score."""
    shares, losses = [], []
    for index in batches:
        batch = rows.batch(index)
        losses.append(model.forward(batch))
        label = batch["label"][:, 0]
        counted = np.ones(label.shape, bool) if ignored is None else label != ignored
        shares.append(((model.blobs["crop"].argmax(1) == label) & counted).sum() / max(1, counted.sum()))
    return np.mean(shares), np.mean(losses)


def difference(found, expected):
    worst = 0.0
    for param in expected.params:
        blob = found[param.layer][param.index].reshape(param.value.shape)
        worst = max(worst, np.abs(blob - param.value).max() / np.abs(param.value).max())
    return worst


def compare_test(text, pattern, model, rows, ignored, batches):
    """@return the accuracy, and the largest difference between what a program said last and NumPy, where ONE_PIXEL and
    a thousandth of the loss, of which six digits are printed, are TOLERANCE."""
    said = {key: float(value) for key, value in re.findall(pattern + r"(accuracy|loss) = (\S+)", text)}
    accuracy, loss = accuracy_of(model, rows, ignored, batches)
    off = max(abs(said["accuracy"] - accuracy) / ONE_PIXEL, abs(said["loss"] - loss) / loss * 1e3)
    return accuracy, TOLERANCE * off


def main():
    hpnode, model_test, write_hdf5 = sys.argv[1:4]
    random = np.random.default_rng(41)
    failed = []
    images, labels = draw(random, SIZE)
    test_images, test_labels = draw(random, TEST_SIZE)
    tap = np.array([0.25, 0.75, 0.75, 0.25])
    start = {"conv1": [random.normal(0, 0.2, (6, 2, 3, 3)), random.normal(0, 0.1, 6)],
             "score": [random.normal(0, 0.15, (4, 6, 3, 3)), np.zeros(4)],
             "up": [np.broadcast_to(np.outer(tap, tap), (4, 1, 4, 4)).copy()]}
    with tempfile.TemporaryDirectory() as folder:
        write_caffemodel(f"{folder}/start.caffemodel", start)
        for name, (loss, base_lr, iter_size) in CASES.items():
            ignores = "ignore_label" in loss
            ignored = IGNORED if ignores else None
            rows = Rows(images, labels if ignores else labels % CLASSES)
            tests = Rows(test_images, test_labels if ignores else test_labels % CLASSES, TEST_BATCH)
            write_rows(write_hdf5, folder, "list", images, rows.labels)
            write_rows(write_hdf5, folder, "test_list", test_images, tests.labels)
            net, solver = f"{folder}/net.prototxt", f"{folder}/solver.prototxt"
            with open(net, "w", encoding="utf-8") as file:
                file.write(NET.format(folder=folder, loss=loss, ignore="ignore_label: 255" if ignores else ""))
            with open(solver, "w", encoding="utf-8") as file:
                file.write(f'net: "{net}" snapshot_prefix: "{folder}/out" max_iter: {ITERATIONS} random_seed: 1 '
                           f'base_lr: {base_lr} momentum: 0.9 weight_decay: 0.002 lr_policy: "fixed" display: 1 '
                           f"iter_size: {iter_size} test_iter: {TEST_ITERATIONS} test_interval: 10\n")
            model = Net(read_prototxt(net), read_caffemodel(f"{folder}/start.caffemodel"))
            _, log = train(read_prototxt(solver), model, rows, ITERATIONS)
            worst = 0.0
            for replicas, micro_batches in ((1, 1), (2, 3)):
                write_table(f"{folder}/table", solver, replicas, micro_batches)
                text = run(hpnode, "--all", f"--routing={folder}/table", f"--weights={folder}/start.caffemodel",
                           "--cache_dir=none")
                found = read_caffemodel(f"{folder}/out_iter_{ITERATIONS}.caffemodel")
                worst = max(worst, difference(found, model))
                reported = [float(value) for value in re.findall(r"Iteration \d+.* loss = (\S+)", text)]
                for value, (_, want) in zip(reported, log):
                    worst = max(worst, abs(value - want) / want * 0.1)  # printed with six digits
                assert len(reported) >= ITERATIONS, text
                # Tests at iterations 0 and 10 came before; as in Caffe, each goes on where the last one ended.
                batches = range(2 * TEST_ITERATIONS, 3 * TEST_ITERATIONS)
                accuracy, off = compare_test(text, r"Test net output #\d: ", model, tests, ignored, batches)
                worst = max(worst, off)
            said = run(model_test, f"--model={net}", f"--weights={folder}/out_iter_{ITERATIONS}.caffemodel",
                       "--iterations=3", "--cache_dir=none")
            worst = max(worst, compare_test(said, r"\] ", model, tests, ignored, range(3))[1])
            print(f"{name}: loss {log[0][1]:.3f} to {log[-1][1]:.3f}, accuracy {accuracy:.3f}; largest difference "
                  f"{worst:.2g}", flush=True)
            assert log[-1][1] < log[0][1], "nothing was learnt"
            if worst > TOLERANCE:
                failed.append(name)
    if failed:
        print("DIFFERENT:", ", ".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
