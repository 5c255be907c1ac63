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


def caffenet():
    return OneLoss(
        nn.Conv2d(3, 96, 11, 4), relu(), max_pool(3, 2), lrn(),
        nn.Conv2d(96, 256, 5, padding=2, groups=2), relu(), max_pool(3, 2), lrn(),
        nn.Conv2d(256, 384, 3, padding=1), relu(), nn.Conv2d(384, 384, 3, padding=1, groups=2), relu(),
        nn.Conv2d(384, 256, 3, padding=1, groups=2), relu(), max_pool(3, 2), *fc_layers(9216))


def vgg(*counts):
    layers, channels = [], 3
    for outputs, count in zip((64, 128, 256, 512, 512), counts):
        for _ in range(count):
            layers += [nn.Conv2d(channels, outputs, 3, padding=1), relu()]
            channels = outputs
        layers.append(max_pool(2, 2))
    return OneLoss(*layers, *fc_layers(25088))


def vgg16():
    return vgg(2, 2, 3, 3, 3)


def vgg19():
    return vgg(2, 2, 4, 4, 4)


def lenet_layers(outputs):
    return [nn.Conv2d(1, 20, 5), max_pool(2, 2), nn.Conv2d(20, 50, 5), max_pool(2, 2), nn.Flatten(),
            nn.Linear(800, 500), relu(), nn.Linear(500, outputs)]


def lenet():
    return OneLoss(*lenet_layers(10))


def full_sigmoid_bn():
    return OneLoss(
        nn.Conv2d(3, 32, 5, padding=2, bias=False), max_pool(3, 2), nn.BatchNorm2d(32, affine=False), nn.Sigmoid(),
        nn.Conv2d(32, 32, 5, padding=2, bias=False), nn.BatchNorm2d(32, affine=False), nn.Sigmoid(),
        nn.AvgPool2d(3, 2, ceil_mode=True),
        nn.Conv2d(32, 64, 5, padding=2, bias=False), nn.BatchNorm2d(64, affine=False), nn.Sigmoid(),
        nn.AvgPool2d(3, 2, ceil_mode=True), nn.Flatten(), nn.Linear(1024, 10))


def nin():
    def block(inputs, outputs, kernel, stride=1, pad=0, last=None):
        return [nn.Conv2d(inputs, outputs, kernel, stride, pad), relu(), nn.Conv2d(outputs, outputs, 1), relu(),
                nn.Conv2d(outputs, last or outputs, 1), relu()]
    return OneLoss(
        *block(3, 96, 11, 4), max_pool(3, 2), *block(96, 256, 5, pad=2), max_pool(3, 2),
        *block(256, 384, 3, pad=1), max_pool(3, 2), nn.Dropout(), *block(384, 1024, 3, pad=1, last=1000),
        nn.AdaptiveAvgPool2d(1), nn.Flatten())


class Fire(nn.Module):
    def __init__(self, inputs, squeezed, expanded):
        super().__init__()
        self.squeeze = nn.Sequential(nn.Conv2d(inputs, squeezed, 1), relu())
        self.expand1 = nn.Sequential(nn.Conv2d(squeezed, expanded, 1), relu())
        self.expand3 = nn.Sequential(nn.Conv2d(squeezed, expanded, 3, padding=1), relu())

    def forward(self, x):
        squeezed = self.squeeze(x)
        return torch.cat([self.expand1(squeezed), self.expand3(squeezed)], 1)


def squeezenet():
    return OneLoss(
        nn.Conv2d(3, 64, 3, 2), relu(), max_pool(3, 2), Fire(64, 16, 64), Fire(128, 16, 64), max_pool(3, 2),
        Fire(128, 32, 128), Fire(256, 32, 128), max_pool(3, 2), Fire(256, 48, 192), Fire(384, 48, 192),
        Fire(384, 64, 256), Fire(512, 64, 256), nn.Dropout(), nn.Conv2d(512, 1000, 1), relu(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten())


def normalized(inputs, outputs, kernel, stride=1, pad=0):
    return [nn.Conv2d(inputs, outputs, kernel, stride, pad, bias=False), nn.BatchNorm2d(outputs)]


class Bottleneck(nn.Module):
    """The stride lies in the first convolution, as in the authors' model."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        self.projection = nn.Sequential(*normalized(inputs, 4 * width, 1, stride)) if inputs != 4 * width else None
        self.branch = nn.Sequential(
            *normalized(inputs, width, 1, stride), relu(), *normalized(width, width, 3, pad=1), relu(),
            *normalized(width, 4 * width, 1))

    def forward(self, x):
        shortcut = x if self.projection is None else self.projection(x)
        return nn.functional.relu(shortcut + self.branch(x), inplace=True)


def resnet50():
    blocks, inputs = [], 64
    for width, count in (64, 3), (128, 4), (256, 6), (512, 3):
        for i in range(count):
            blocks.append(Bottleneck(inputs, width, 2 if i == 0 and width > 64 else 1))
            inputs = 4 * width
    return OneLoss(*normalized(3, 64, 7, 2, 3), relu(), max_pool(3, 2), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                   nn.Linear(2048, 1000))


class Siamese(nn.Module):
    """Two images in the channels of one, which one net lays out in a plane."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*lenet_layers(10), nn.Linear(10, 2))

    def scores(self, images):
        return [self.layers(images[:, :1]), self.layers(images[:, 1:])]

    def forward(self, images, similar):
        first, second = self.scores(images)
        squares = ((first - second) ** 2).sum(1)
        apart = (1 - (squares + 1e-12).sqrt()).clamp(min=0) ** 2
        return torch.where(similar > 0, squares, apart).sum() / (2 * len(images))


class Autoencoder(nn.Module):
    """Its second loss is reported alone."""

    def __init__(self):
        super().__init__()
        sizes, layers = (784, 1000, 500, 250, 30, 250, 500, 1000, 784), []
        for inputs, outputs in zip(sizes, sizes[1:]):
            layers += [nn.Linear(inputs, outputs)] + ([] if outputs in (30, 784) else [nn.Sigmoid()])
        self.layers = nn.Sequential(nn.Flatten(), *layers)

    def scores(self, images):
        return [self.layers(images)]

    def forward(self, images, _):
        flat = images.flatten(1)
        scores, = self.scores(images)
        with torch.no_grad():
            self.error = ((torch.sigmoid(scores) - flat) ** 2).sum() / (2 * len(images))
        return nn.functional.binary_cross_entropy_with_logits(scores, flat, reduction="sum") / len(images)


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


NETS = {"lenet": lenet, "quick": quick, "full": full, "full_sigmoid_bn": full_sigmoid_bn, "siamese": Siamese,
        "autoencoder": Autoencoder, "alexnet": alexnet, "caffenet": caffenet, "nin": nin, "squeezenet": squeezenet,
        "vgg16": vgg16, "vgg19": vgg19, "googlenet": GoogLeNet, "resnet50": resnet50}
