#!/usr/bin/python3
"""The net, head, solver and data of this example in PyTorch, for a comparison of what comes out.

usage: examples/glyphs/glyphs_torch.py FOLDER SOLVER

FOLDER: make_glyphs.py's databases. SOLVER: glyphs_solver.prototxt, or the one that run.sh makes of it.
Packages: python3-torch, python3-numpy, python3-lmdb.
"""
import argparse
import os
import re
import time

import numpy
import torch
from torch import nn

from retrieval import BLOCK, CROP, MEAN, SCALE, SIDE, print_scores, read_database, test_input

BATCH, FEATURES = 256, 128
HEAD_SCALE, MARGIN = 32, 0.1  # of the margin_param


class Centred(nn.Module):
    """Less the mean of the neighbourhood: mean3 and centred3 of the prototxt."""

    def forward(self, x):
        return x - nn.functional.avg_pool2d(x, 3, 1, 1)


def conv(inputs, outputs):
    return [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2)]


class Glyphs(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.features = nn.Sequential(*conv(1, 32), *conv(32, 64), *conv(64, 128), Centred(), nn.Flatten(),
                                      nn.Linear(128 * 4 * 4, FEATURES))
        self.head = nn.Parameter(torch.empty(classes, FEATURES).normal_(std=0.01))
        for layer in self.features:
            if isinstance(layer, (nn.Conv2d, nn.Linear)):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")  # "msra"
                nn.init.zeros_(layer.bias)

    def cosines(self, images):
        return nn.functional.normalize(self.features(images)) @ nn.functional.normalize(self.head).T

    def forward(self, images, labels):
        logits = self.cosines(images).clamp(-1, 1)
        logits[torch.arange(len(labels)), labels] -= MARGIN
        return nn.functional.cross_entropy(HEAD_SCALE * logits, labels)


def read_solver(path):
    with open(path, encoding="utf-8") as file:
        return {name: float(value) for name, value in re.findall(r"^(\w+): ([\d.e-]+)$", file.read(), re.M)}


def random_crops(images, draw):
    """[N, 1, CROP, CROP]: each image shifted on its own."""
    places = torch.randint(SIDE - CROP + 1, (2, len(images), 1), generator=draw) + torch.arange(CROP)
    rows = torch.arange(len(images))[:, None, None]
    return (images[rows, places[0][:, :, None], places[1][:, None, :]].float()[:, None] - MEAN) * SCALE


def train(net, images, labels, solver):
    draw = torch.Generator().manual_seed(int(solver["random_seed"]))
    sgd = torch.optim.SGD(net.parameters(), solver["base_lr"], solver["momentum"], weight_decay=solver["weight_decay"])
    order, shown, start = torch.empty(0, dtype=torch.long), 0, time.time()
    iterations = int(solver["max_iter"])
    for iteration in range(iterations):
        for group in sgd.param_groups:
            group["lr"] = solver["base_lr"] * (1 - iteration / iterations) ** solver["power"]
        if len(order) < BATCH:
            order = torch.cat([order, torch.randperm(len(labels), generator=draw)])
        batch, order = order[:BATCH], order[BATCH:]
        sgd.zero_grad()
        loss = net(random_crops(images[batch], draw), labels[batch])
        loss.backward()
        if solver.get("clip_gradients", 0) > 0:
            nn.utils.clip_grad_norm_(net.parameters(), solver["clip_gradients"])
        sgd.step()
        shown += loss.item()
        if (iteration + 1) % solver["display"] == 0:
            print(f"  Iteration {iteration + 1}, mean loss = {shown / solver['display']:.4f}, "
                  f"{(iteration + 1) * BATCH / (time.time() - start):.0f} images/s", flush=True)
            shown = 0
    print(f"torch: trained in {time.time() - start:.0f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("solver")
    options = parser.parse_args()
    solver = read_solver(options.solver)
    torch.manual_seed(int(solver["random_seed"]))
    images, labels = map(torch.from_numpy, read_database(os.path.join(options.folder, "train_lmdb")))
    net = Glyphs(int(labels.max()) + 1)
    train(net, images, labels, solver)
    with torch.no_grad():
        images, labels = read_database(os.path.join(options.folder, "test_lmdb"))
        right = [net.cosines(torch.from_numpy(test_input(images[first:first + BLOCK]))).argmax(1).numpy() ==
                 labels[first:first + BLOCK] for first in range(0, len(images), BLOCK)]
        print(f"torch: test accuracy {100 * numpy.concatenate(right).mean():.2f}%")
        print_scores(options.folder, lambda batch: net.features(torch.from_numpy(batch)).numpy(), "torch")


if __name__ == "__main__":
    main()
