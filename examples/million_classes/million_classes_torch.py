#!/usr/bin/env python3
"""The net, head and solver of this example in PyTorch, in one process, for a comparison of speed and memory.

usage: examples/million_classes/million_classes_torch.py [--classes N] [--rate R | --autograd] [--batch N]
           [--iterations N] [--threads N]

Images are drawn as make_features.py draws them. With --rate below 1 the head is a PartialFC as InsightFace has it: an
iteration copies the rows of the drawn classes and their momentum, computes with these alone, and writes them back.
Packages: torch, numpy.
"""
import argparse
import resource
import statistics
import time

import numpy
import torch
from torch import nn

HEIGHT, WIDTH, FEATURES = 16, 32, 512
SGD = {"lr": 1, "momentum": 0.9, "weight_decay": 0.0001, "fused": True}  # as in the solver; fused is the fastest on CPUs


class FullHead:
    """All classes, in each iteration. Its gradients are written out, into memory that stays: faster than autograd."""

    def __init__(self, classes):
        self.weight = nn.Parameter(torch.empty(classes, FEATURES).normal_(std=0.01))
        self.weight.grad = torch.zeros_like(self.weight)
        self.sgd = torch.optim.SGD([self.weight], **SGD)

    @torch.no_grad()
    def train(self, features, labels):
        rows = torch.arange(len(labels))
        scores = torch.log_softmax(features @ self.weight.T, 1)
        loss = -scores[rows, labels].mean()
        gradient = scores.exp_()
        gradient[rows, labels] -= 1
        gradient /= len(labels)
        features.grad = gradient @ self.weight
        torch.mm(gradient.T, features, out=self.weight.grad)
        self.sgd.step()
        return loss


class AutogradHead(FullHead):
    """The same, as one writes it first."""

    def __init__(self, classes):
        super().__init__(classes)
        self.weight.grad = None

    def train(self, features, labels):
        self.sgd.zero_grad()
        loss = nn.functional.cross_entropy(features @ self.weight.T, labels)
        loss.backward()
        self.sgd.step()
        return loss


class PartialHead:
    """The classes of the labels and uniformly drawn others, a part `rate` of all."""

    def __init__(self, classes, rate):
        self.weight = torch.empty(classes, FEATURES).normal_(std=0.01)
        self.momentum = torch.zeros_like(self.weight)
        self.drawn = int(rate * classes)

    def draw(self, labels):
        """Sorted numbers of the drawn classes, and the place of each label among them."""
        positive = labels.unique()
        chance = torch.rand(len(self.weight))
        chance[positive] = 2
        index = chance.topk(max(self.drawn, len(positive))).indices.sort().values
        return index, torch.searchsorted(index, labels)

    def train(self, features, labels):
        index, places = self.draw(labels)
        rows = nn.Parameter(self.weight[index])
        sgd = torch.optim.SGD([rows], **SGD)
        sgd.state[rows]["momentum_buffer"] = self.momentum[index]
        loss = nn.functional.cross_entropy(features @ rows.T, places)
        loss.backward()
        sgd.step()
        self.weight[index] = rows.detach()
        self.momentum[index] = sgd.state[rows]["momentum_buffer"]
        return loss


def draw_images(count, classes):
    """[count, 1, HEIGHT, WIDTH] behind mean_value and scale, and labels."""
    draw = numpy.random.default_rng(1)
    labels = draw.integers(classes, size=count)
    centres = numpy.stack([numpy.random.default_rng(label).standard_normal(HEIGHT * WIDTH) for label in labels])
    pixels = (128 + 40 * centres + 10 * draw.standard_normal(centres.shape)).round().clip(0, 255)
    images = ((pixels - 128) * 0.015625).astype(numpy.float32).reshape(count, 1, HEIGHT, WIDTH)
    return torch.from_numpy(images), torch.from_numpy(labels)


class Clock:
    """Wall and processor seconds since the last call."""

    def __init__(self):
        self.last = time.perf_counter(), time.process_time()

    def __call__(self):
        before, self.last = self.last, (time.perf_counter(), time.process_time())
        return self.last[0] - before[0], self.last[1] - before[1]


def train(net, head, images, labels, options):
    """Wall and processor seconds of each iteration, and of the head's part of it."""
    sgd = torch.optim.SGD(net.parameters(), **SGD)
    whole, parts = [], []
    for iteration in range(options.iterations):
        clock = Clock()
        first = iteration * options.batch % (len(labels) - options.batch + 1)
        batch = slice(first, first + options.batch)
        features = net(images[batch])
        inputs = features.detach().requires_grad_()  # cuts the backward pass in two, so that the head is timed alone
        part = Clock()
        loss = head.train(inputs, labels[batch])
        parts.append(part())
        sgd.zero_grad()
        features.backward(inputs.grad)
        sgd.step()
        whole.append(clock())
        print(f"  Iteration {iteration}, loss = {loss.item():.4f}, {options.batch / whole[-1][0]:.1f} images/s", flush=True)
    return whole, parts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classes", type=int, default=1000000)
    parser.add_argument("--rate", type=float, default=1, help="part of the classes of an iteration; 1: all")
    parser.add_argument("--autograd", action="store_true", help="the full head's gradients by autograd")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    images, labels = draw_images(max(1280, options.batch), options.classes)
    net = nn.Sequential(nn.Conv2d(1, FEATURES, (HEIGHT, WIDTH)), nn.Flatten())
    nn.init.uniform_(net[0].weight, -(3 / (HEIGHT * WIDTH)) ** 0.5, (3 / (HEIGHT * WIDTH)) ** 0.5)  # Caffe's "xavier"
    nn.init.zeros_(net[0].bias)
    if options.rate < 1:
        head = PartialHead(options.classes, options.rate)
    else:
        head = (AutogradHead if options.autograd else FullHead)(options.classes)
    times = train(net, head, images, labels, options)
    for name, measured in zip(("an iteration", "the head's part"), times):
        wall, processor = (statistics.median(of) for of in zip(*(measured[1:] or measured)))  # the first one allocates
        print(f"torch: {name}: {wall:.3f} s ({options.batch / wall:.1f} images/s), {processor:.3f} s of processor time (medians)")
    print(f"torch: at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB resident")


if __name__ == "__main__":
    main()
