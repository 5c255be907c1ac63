"""The nets of train_speed.py in PyTorch: the arithmetic of the prototxt files beside them, loss included."""
import torch
from torch import nn

cross_entropy = nn.functional.cross_entropy


def relu():
    return nn.ReLU(inplace=True)


def lrn():
    return nn.LocalResponseNorm(5, 1e-4, 0.75, 1.0)


def max_pool(kernel, stride, pad=0):
    return nn.MaxPool2d(kernel, stride, pad, ceil_mode=True)


class WithinChannelLrn(nn.Module):
    """Caffe's: x / (1 + alpha * mean of squares of the window) ** beta."""

    def forward(self, x):
        mean = nn.functional.avg_pool2d(x * x, 3, 1, 1, count_include_pad=True)
        return x * (1 + 5e-5 * mean).pow(-0.75)


class OneLoss(nn.Module):
    """A chain of layers and the loss behind it."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def scores(self, images):
        return [self.layers(images)]

    def forward(self, images, labels):
        return cross_entropy(self.layers(images), labels)


def quick():
    return OneLoss(
        nn.Conv2d(3, 32, 5, padding=2), max_pool(3, 2), relu(),
        nn.Conv2d(32, 32, 5, padding=2), relu(), nn.AvgPool2d(3, 2, ceil_mode=True),
        nn.Conv2d(32, 64, 5, padding=2), relu(), nn.AvgPool2d(3, 2, ceil_mode=True),
        nn.Flatten(), nn.Linear(1024, 64), nn.Linear(64, 10))


def full():
    return OneLoss(
        nn.Conv2d(3, 32, 5, padding=2), max_pool(3, 2), relu(), WithinChannelLrn(),
        nn.Conv2d(32, 32, 5, padding=2), relu(), nn.AvgPool2d(3, 2, ceil_mode=True), WithinChannelLrn(),
        nn.Conv2d(32, 64, 5, padding=2), relu(), nn.AvgPool2d(3, 2, ceil_mode=True),
        nn.Flatten(), nn.Linear(1024, 10))


def fc_layers(inputs):
    return [nn.Flatten(), nn.Linear(inputs, 4096), relu(), nn.Dropout(), nn.Linear(4096, 4096), relu(), nn.Dropout(),
            nn.Linear(4096, 1000)]


def alexnet():
    return OneLoss(
        nn.Conv2d(3, 96, 11, 4), relu(), lrn(), max_pool(3, 2),
        nn.Conv2d(96, 256, 5, padding=2, groups=2), relu(), lrn(), max_pool(3, 2),
        nn.Conv2d(256, 384, 3, padding=1), relu(), nn.Conv2d(384, 384, 3, padding=1, groups=2), relu(),
        nn.Conv2d(384, 256, 3, padding=1, groups=2), relu(), max_pool(3, 2), *fc_layers(9216))


def vgg16():
    layers, channels = [], 3
    for outputs, count in (64, 2), (128, 2), (256, 3), (512, 3), (512, 3):
        for _ in range(count):
            layers += [nn.Conv2d(channels, outputs, 3, padding=1), relu()]
            channels = outputs
        layers.append(max_pool(2, 2))
    return OneLoss(*layers, *fc_layers(25088))


class Inception(nn.Module):
    def __init__(self, inputs, n1, r3, n3, r5, n5, projected):
        super().__init__()
        self.branch1 = nn.Sequential(nn.Conv2d(inputs, n1, 1), relu())
        self.branch3 = nn.Sequential(nn.Conv2d(inputs, r3, 1), relu(), nn.Conv2d(r3, n3, 3, padding=1), relu())
        self.branch5 = nn.Sequential(nn.Conv2d(inputs, r5, 1), relu(), nn.Conv2d(r5, n5, 5, padding=2), relu())
        self.pool = nn.Sequential(max_pool(3, 1, 1), nn.Conv2d(inputs, projected, 1), relu())

    def forward(self, x):
        return torch.cat([self.branch1(x), self.branch3(x), self.branch5(x), self.pool(x)], 1)


def side_classifier(channels):
    return nn.Sequential(
        nn.AvgPool2d(5, 3, ceil_mode=True), nn.Conv2d(channels, 128, 1), relu(), nn.Flatten(),
        nn.Linear(2048, 1024), relu(), nn.Dropout(0.7), nn.Linear(1024, 1000))


class GoogLeNet(nn.Module):
    """With its two classifiers on the way, whose losses count 0.3 each."""

    def __init__(self):
        super().__init__()
        self.to_4a = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3), relu(), max_pool(3, 2), lrn(),
            nn.Conv2d(64, 64, 1), relu(), nn.Conv2d(64, 192, 3, padding=1), relu(), lrn(), max_pool(3, 2),
            Inception(192, 64, 96, 128, 16, 32, 32), Inception(256, 128, 128, 192, 32, 96, 64), max_pool(3, 2),
            Inception(480, 192, 96, 208, 16, 48, 64))
        self.side1 = side_classifier(512)
        self.to_4d = nn.Sequential(
            Inception(512, 160, 112, 224, 24, 64, 64), Inception(512, 128, 128, 256, 24, 64, 64),
            Inception(512, 112, 144, 288, 32, 64, 64))
        self.side2 = side_classifier(528)
        self.to_end = nn.Sequential(
            Inception(528, 256, 160, 320, 32, 128, 128), max_pool(3, 2),
            Inception(832, 256, 160, 320, 32, 128, 128), Inception(832, 384, 192, 384, 48, 128, 128),
            nn.AvgPool2d(7, 1), nn.Dropout(0.4), nn.Flatten(), nn.Linear(1024, 1000))

    def scores(self, images):
        at_4a = self.to_4a(images)
        at_4d = self.to_4d(at_4a)
        return [self.side1(at_4a), self.side2(at_4d), self.to_end(at_4d)]

    def forward(self, images, labels):
        side1, side2, end = self.scores(images)
        return cross_entropy(end, labels) + 0.3 * (cross_entropy(side1, labels) + cross_entropy(side2, labels))


NETS = {"quick": quick, "full": full, "alexnet": alexnet, "vgg16": vgg16, "googlenet": GoogLeNet}
