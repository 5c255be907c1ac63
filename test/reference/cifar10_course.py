#!/usr/bin/python3
"""The course of Caffe's cifar10_full beside PyTorch's: losses and accuracies from the same initial weights over the same
batches, and the hours of both.

usage: test/reference/cifar10_course.py FOLDER [--bin build/release/bin] [--iterations 70000] [--threads 1]
           [--conv 1] [--fc 0] [--micro_batches 1]

FOLDER has CIFAR-10's binary files. hpnode trains as examples/cifar10 has it, all nodes of the table on this host with so
many threads each, and PyTorch beside it with as many; other rates follow where the published 70,000 iterations are fewer.
Prints a row for each test. Debian packages: python3-torch, python3-numpy.
"""
import argparse, os, random, re, subprocess, sys, tempfile, threading, time

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.append(os.path.join(ROOT, "test/support"))
from caffe_text import Parser
from caffe_wire import read_caffemodel
from torch_net import TorchNet

EXAMPLE = os.path.join(ROOT, "examples/cifar10/cifar10_full_")
BATCH, PUBLISHED, STEPS = 100, 70000, (60000, 65000)
RATE, GAMMA, MOMENTUM, DECAY = 0.001, 0.1, 0.9, 0.004
TESTS = 20  # of a course, at least 10 iterations apart


def records(folder, *names):
    """Images, red first, and labels."""
    read = [np.fromfile(os.path.join(folder, name + ".bin"), np.uint8).reshape(-1, 3073) for name in names]
    found = np.concatenate(read)
    return found[:, 1:].reshape(-1, 3, 32, 32).astype(np.float32), found[:, 0].astype(np.int64)


class Course:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.interval = max(10, args.iterations // TESTS)
        self.steps = [step * args.iterations // PUBLISHED for step in STEPS]
        self.rows = {}  # by iteration: {"ours": (accuracy, loss, seconds), "theirs": ...}
        with open(EXAMPLE + "train_test.prototxt", encoding="utf-8") as file:
            self.net = file.read().replace("examples/cifar10/work", folder)
        self.write("net.prototxt", self.net)
        self.run(os.path.join(args.bin, "convert_cifar_data"), args.folder, folder, "leveldb")
        self.run(os.path.join(args.bin, "compute_image_mean"), "--backend=leveldb",
                 os.path.join(folder, "cifar10_train_leveldb"), os.path.join(folder, "mean.binaryproto"))

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def run(self, *command):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        assert done.returncode == 0, done.stdout.decode(errors="replace")[-3000:]

    def hpnode(self, iterations):
        """The command that trains so many iterations."""
        self.write("solver.prototxt", f"""net: "net.prototxt" base_lr: {RATE} lr_policy: "multistep" gamma: {GAMMA}
            {' '.join(f'stepvalue: {step}' for step in self.steps if step > 0)} momentum: {MOMENTUM} weight_decay: {DECAY}
            max_iter: {iterations} display: {self.interval} test_iter: 100 test_interval: {self.interval} random_seed: 7
            test_initialization: false snapshot_prefix: "{self.folder}/out"\n""")
        stages = 'stage { name: "conv" kind: CONV }\n'
        if self.args.fc:
            stages = ('stage { name: "conv" kind: CONV to_layer: "pool3" }\n'
                      'stage { name: "fc" kind: FC from_layer: "ip1" }\n')
        nodes, port = self.args.conv + self.args.fc, random.randrange(20000, 30000)
        for i in range(nodes):
            stage, index = (0, i) if i < self.args.conv else (1, i - self.args.conv)
            stages += f'node {{ name: "n{i}" stage: {stage} index: {index} host: "127.0.0.1" port: {port + i} '
            stages += f'threads: {self.args.threads} }}\n'
        self.write("table.prototxt", f'solver: "solver.prototxt" micro_batches: {self.args.micro_batches}\n{stages}')
        return [os.path.join(self.args.bin, "hpnode"), f"--routing={self.folder}/table.prototxt", "--all"]

    def put(self, iteration, whose, *said):
        row = self.rows.setdefault(iteration, {})
        row[whose] = said
        if len(row) < 2:
            return
        (a, la, ta), (b, lb, tb) = row["ours"], row["theirs"]
        print(f"| {iteration} | {100 * a:.2f} | {100 * b:.2f} | {la:.4f} | {lb:.4f} | {ta / 60:.1f} | {tb / 60:.1f} |", flush=True)

    def train(self):
        begin, iteration, accuracy, last = time.monotonic(), 0, 0.0, ""
        with subprocess.Popen(self.hpnode(self.args.iterations), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True) as job:
            for line in job.stdout:
                last = line
                if found := re.search(r"Iteration (\d+), Testing net", line):
                    iteration = int(found[1])
                elif found := re.search(r"Test net output #\d+: accuracy = (\S+)", line):
                    accuracy = float(found[1])
                elif found := re.search(r"Test net output #\d+: loss = (\S+)", line):
                    self.put(iteration, "ours", accuracy, float(found[1]), time.monotonic() - begin)
        assert job.returncode == 0, last

    def train_in_torch(self):
        begin = time.monotonic()
        images, labels = records(self.args.folder, *(f"data_batch_{i}" for i in range(1, 6)))
        mean = images.mean(0)
        images -= mean
        tests = records(self.args.folder, "test_batch")
        tests = torch.tensor(tests[0] - mean), torch.tensor(tests[1])
        net = TorchNet(Parser(self.net).message(), read_caffemodel(os.path.join(self.folder, "out_iter_0.caffemodel")))
        for i in range(self.args.iterations):
            rows = np.arange(i * BATCH, (i + 1) * BATCH) % len(labels)
            net.loss(torch.tensor(images[rows]), torch.tensor(labels[rows])).backward()
            net.step(RATE * GAMMA ** sum(i >= step for step in self.steps), MOMENTUM, DECAY)
            if (i + 1) % self.interval == 0:
                self.put(i + 1, "theirs", *self.test(net, *tests), time.monotonic() - begin)

    @staticmethod
    def test(net, images, labels):
        right, loss = 0, 0.0
        with torch.no_grad():
            for at in range(0, len(labels), BATCH):
                scores, of_batch = net.scores_and_loss(images[at:at + BATCH], labels[at:at + BATCH])
                right += int((scores.argmax(1) == labels[at:at + BATCH]).sum())
                loss += float(of_batch)
        return right / len(labels), loss * BATCH / len(labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin"))
    parser.add_argument("--iterations", type=int, default=PUBLISHED)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--conv", type=int, default=1)
    parser.add_argument("--fc", type=int, default=0)
    parser.add_argument("--micro_batches", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    with tempfile.TemporaryDirectory() as folder:
        course = Course(args, folder)
        course.run(*course.hpnode(0))
        print("| iteration | accuracy, % | PyTorch's | test loss | PyTorch's | minutes | PyTorch's |\n|---|---|---|---|---|---|---|")
        ours = threading.Thread(target=course.train)
        ours.start()
        course.train_in_torch()
        ours.join()


main()
