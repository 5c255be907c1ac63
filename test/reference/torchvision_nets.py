"""Nets of torchvision.models: which tensors their state_dict has, and what they compute, in NumPy or by PyTorch's own
functions.

A net is a function of a Module, whose methods each make the tensors of one of PyTorch's modules, under its name, and
apply it. Run once with a batch that holds zeros it yields the names and shapes. AlexNet and VGG pool to a fixed size in
front of their classifiers, which changes nothing at 224 pixels; here that size is the image's, so that small images do.

Source: github.com/pytorch/vision, torchvision/models/alexnet.py, vgg.py, resnet.py, googlenet.py.
"""
import numpy as np

RGB_MEAN, RGB_STD = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])


class NumpyFunctions:
    """As torch.nn.functional's, float32."""

    @staticmethod
    def windows(x, size, stride):
        view = np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(2, 3))
        return view[:, :, ::stride, ::stride]

    def conv(self, x, weight, bias, stride, pad, groups):
        x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        parts = []
        for part, kernel in zip(np.split(x, groups, 1), np.split(weight, groups)):
            windows = self.windows(part, weight.shape[2], stride)
            parts.append(np.moveaxis(np.tensordot(windows, kernel, ((1, 4, 5), (1, 2, 3))), 3, 1))
        out = np.concatenate(parts, 1)
        return out if bias is None else out + bias[:, None, None]

    @staticmethod
    def batch_norm(x, mean, var, weight, bias, eps):
        mean, var, weight, bias = (values[:, None, None] for values in (mean, var, weight, bias))
        return (x - mean) / np.sqrt(var + np.float32(eps)) * weight + bias

    def max_pool(self, x, size, stride, pad, ceil):
        extent = x.shape[2] + 2 * pad - size
        out = (extent + (stride - 1 if ceil else 0)) // stride + 1
        if (out - 1) * stride >= x.shape[2] + pad:  # a window that would begin behind the image
            out -= 1
        behind = max(0, (out - 1) * stride + size - x.shape[2] - pad)
        x = np.pad(x, ((0, 0), (0, 0), (pad, behind), (pad, behind)), constant_values=-np.inf)
        return self.windows(x, size, stride)[:, :, :out, :out].max((4, 5))

    @staticmethod
    def relu(x):
        return np.maximum(x, 0)

    @staticmethod
    def linear(x, weight, bias):
        return x @ weight.T + bias

    @staticmethod
    def mean(x):
        return x.mean((2, 3))

    @staticmethod
    def flatten(x):
        return x.reshape(len(x), -1)

    @staticmethod
    def concatenate(parts):
        return np.concatenate(parts, 1)

    @staticmethod
    def array(x):
        return x

    numpy = array


class TorchFunctions:
    """By PyTorch itself."""

    def __init__(self, torch):
        self.torch, self.functional = torch, torch.nn.functional

    def conv(self, x, weight, bias, stride, pad, groups):
        return self.functional.conv2d(x, weight, bias, stride, pad, 1, groups)

    def batch_norm(self, x, mean, var, weight, bias, eps):
        return self.functional.batch_norm(x, mean, var, weight, bias, False, 0.1, eps)

    def max_pool(self, x, size, stride, pad, ceil):
        return self.functional.max_pool2d(x, size, stride, pad, ceil_mode=ceil)

    def relu(self, x):
        return self.torch.relu(x)

    def linear(self, x, weight, bias):
        return self.functional.linear(x, weight, bias)

    def mean(self, x):
        return x.mean((2, 3))

    def flatten(self, x):
        return x.flatten(1)

    def concatenate(self, parts):
        return self.torch.cat(parts, 1)

    def array(self, x):
        return self.torch.from_numpy(np.array(x))

    def numpy(self, x):
        return x.numpy()


class Module:
    """Applies modules to batches; makes their tensors, drawn with a seed, when it meets them first."""

    def __init__(self, functions, seed=1):
        self.of, self.random, self.tensors, self.parameters = functions, np.random.default_rng(seed), {}, 0

    def tensor(self, name, shape, draw, learned=True):
        if name not in self.tensors:
            self.tensors[name] = draw(shape).astype("f4")
            self.parameters += self.tensors[name].size if learned else 0
        return self.of.array(self.tensors[name])

    def weights(self, name, *shape):
        return self.tensor(name, shape, lambda s: self.random.standard_normal(s, 'f4') * np.sqrt(2 / np.prod(s[1:])))

    def around(self, name, size, middle, learned=True):
        return self.tensor(name, (size,), lambda s: middle + self.random.uniform(-0.2, 0.2, s), learned)

    def conv(self, name, x, out, size, stride=1, pad=0, bias=True, groups=1):
        weight = self.weights(name + ".weight", out, x.shape[1] // groups, size, size)
        return self.of.conv(x, weight, self.around(name + ".bias", out, 0) if bias else None, stride, pad, groups)

    def batch_norm(self, name, x, eps=1e-5):
        n = x.shape[1]
        weight, bias = self.around(name + ".weight", n, 1), self.around(name + ".bias", n, 0)
        mean, var = (self.around(name + ".running_mean", n, 0, False), self.around(name + ".running_var", n, 1, False))
        self.tensors[name + ".num_batches_tracked"] = np.array(100, "i8")
        return self.of.batch_norm(x, mean, var, weight, bias, eps)

    def linear(self, name, x, out):
        return self.of.linear(x, self.weights(name + ".weight", out, x.shape[1]), self.around(name + ".bias", out, 0))

    def relu(self, x):
        return self.of.relu(x)

    def max_pool(self, x, size, stride, pad=0, ceil=False):
        return self.of.max_pool(x, size, stride, pad, ceil)


def alexnet(m, x):
    for at, out, size, stride, pad, pooled in ((0, 64, 11, 4, 2, True), (3, 192, 5, 1, 2, True),
                                               (6, 384, 3, 1, 1, False), (8, 256, 3, 1, 1, False),
                                               (10, 256, 3, 1, 1, True)):
        x = m.relu(m.conv("features.%d" % at, x, out, size, stride, pad))
        x = m.max_pool(x, 3, 2) if pooled else x
    x = m.relu(m.linear("classifier.1", m.of.flatten(x), 4096))
    x = m.relu(m.linear("classifier.4", x, 4096))
    return m.linear("classifier.6", x, 1000)


def vgg16(m, x):
    at = 0
    for out in (64, 64, "M", 128, 128, "M", 256, 256, 256, "M", 512, 512, 512, "M", 512, 512, 512, "M"):
        if out == "M":
            x, at = m.max_pool(x, 2, 2), at + 1
        else:
            x, at = m.relu(m.conv("features.%d" % at, x, out, 3, 1, 1)), at + 2
    x = m.relu(m.linear("classifier.0", m.of.flatten(x), 4096))
    x = m.relu(m.linear("classifier.3", x, 4096))
    return m.linear("classifier.6", x, 1000)


def resnet50(m, x):

    def unit(conv, norm, x, *shape):
        return m.batch_norm(norm, m.conv(conv, x, *shape, bias=False))

    x = m.max_pool(m.relu(unit("conv1", "bn1", x, 64, 7, 2, 3)), 3, 2, 1)
    for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), 1):
        for block in range(blocks):
            name, stride = "layer%d.%d." % (stage, block), 2 if stage > 1 and block == 0 else 1
            y = m.relu(unit(name + "conv1", name + "bn1", x, width, 1))
            y = m.relu(unit(name + "conv2", name + "bn2", y, width, 3, stride, 1))
            y = unit(name + "conv3", name + "bn3", y, 4 * width, 1)
            if block == 0:
                x = unit(name + "downsample.0", name + "downsample.1", x, 4 * width, 1, stride)
            x = m.relu(x + y)
    return m.linear("fc", m.of.mean(x), 1000)


def googlenet(m, x):

    def unit(name, x, *shape):
        return m.relu(m.batch_norm(name + ".bn", m.conv(name + ".conv", x, *shape, bias=False), 0.001))

    def inception(name, x, one, reduce3, three, reduce5, five, pooled):
        return m.of.concatenate([
            unit(name + ".branch1", x, one, 1),
            unit(name + ".branch2.1", unit(name + ".branch2.0", x, reduce3, 1), three, 3, 1, 1),
            unit(name + ".branch3.1", unit(name + ".branch3.0", x, reduce5, 1), five, 3, 1, 1),
            unit(name + ".branch4.1", m.max_pool(x, 3, 1, 1, True), pooled, 1)])

    # transform_input: from torchvision's mean and std to 0.5 and 0.5.
    std, mean = RGB_STD[:, None, None], RGB_MEAN[:, None, None]
    x = x * m.of.array(std / np.float32(0.5)) + m.of.array((mean - np.float32(0.5)) / np.float32(0.5))
    x = m.max_pool(unit("conv1", x, 64, 7, 2, 3), 3, 2, 0, True)
    x = m.max_pool(unit("conv3", unit("conv2", x, 64, 1), 192, 3, 1, 1), 3, 2, 0, True)
    x = inception("inception3a", x, 64, 96, 128, 16, 32, 32)
    x = m.max_pool(inception("inception3b", x, 128, 128, 192, 32, 96, 64), 3, 2, 0, True)
    x = inception("inception4a", x, 192, 96, 208, 16, 48, 64)
    x = inception("inception4b", x, 160, 112, 224, 24, 64, 64)
    x = inception("inception4c", x, 128, 128, 256, 24, 64, 64)
    x = inception("inception4d", x, 112, 144, 288, 32, 64, 64)
    x = m.max_pool(inception("inception4e", x, 256, 160, 320, 32, 128, 128), 2, 2, 0, True)
    x = inception("inception5a", x, 256, 160, 320, 32, 128, 128)
    x = inception("inception5b", x, 384, 192, 384, 48, 128, 128)
    return m.linear("fc", m.of.mean(x), 1000)
