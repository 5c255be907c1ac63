"""A net of a prototxt in PyTorch, with the parameters of a .caffemodel, and Caffe's SGD."""
import torch
from torch.nn import functional

from caffe_net import in_phase
from caffe_text import one

IGNORED = ("Accuracy", "Data", "Dropout", "Silence")


def sizes(param, name, default):
    """Height and width of a window's field: kernel_size, stride, pad."""
    short = name.split("_")[0]
    if short + "_h" in param:
        return one(param, short + "_h"), one(param, short + "_w")
    values = param.get(name, [default])
    return values[0], values[-1]


class TorchNet:
    """Layers in their order, blobs by name. Dropout is left out: its draws can't be had here."""

    def __init__(self, spec, model):
        self.layers = [layer for layer in spec["layer"]
                       if in_phase(layer, "TRAIN") and one(layer, "type") not in IGNORED]
        self.params, self.learned = {}, []
        for layer in self.layers:
            name, blobs = one(layer, "name"), [torch.tensor(blob.copy()) for blob in model.get(one(layer, "name"), [])]
            if one(layer, "type") == "BatchNorm":
                continue  # statistics of what it sees
            if one(layer, "type") == "InnerProduct":
                blobs = [blob.reshape(blob.shape[-2:] if i == 0 else -1) for i, blob in enumerate(blobs)]
            elif len(blobs) == 2:
                blobs[1] = blobs[1].reshape(-1)
            self.params[name] = blobs
            for i, blob in enumerate(blobs):
                rates = layer.get("param", [])[i] if i < len(layer.get("param", [])) else {}
                blob.requires_grad_(True)
                lr_mult, decay_mult = one(rates, "lr_mult", 1.0), one(rates, "decay_mult", 1.0)
                self.learned.append((blob, lr_mult, decay_mult, torch.zeros_like(blob)))

    def loss(self, images, labels):
        return self.scores_and_loss(images, labels)[1]

    def scores_and_loss(self, images, labels):
        """Scores of the last loss."""
        blobs, total, scores = {"data": images, "label": labels}, 0, None
        for layer in self.layers:
            bottoms = [blobs[name] for name in layer.get("bottom", [])]
            kind = one(layer, "type")
            top = getattr(self, kind)(layer, *bottoms)
            if "Loss" in kind:
                total, scores = total + one(layer, "loss_weight", 1.0) * top, bottoms[0]
            blobs[one(layer, "top")] = top
        return scores, total

    def step(self, rate, momentum, decay):
        """Source: Caffe, src/caffe/solvers/sgd_solver.cpp."""
        with torch.no_grad():
            for blob, lr_mult, decay_mult, history in self.learned:
                history.mul_(momentum).add_(blob.grad + decay * decay_mult * blob, alpha=rate * lr_mult)
                blob.sub_(history)
                blob.grad = None

    # --- Layers

    def blobs(self, layer):
        found = self.params[one(layer, "name")]
        return found if len(found) > 1 else [*found, None]

    def Convolution(self, layer, bottom):
        param = one(layer, "convolution_param")
        weights, bias = self.blobs(layer)
        return functional.conv2d(bottom, weights, bias, sizes(param, "stride", 1), sizes(param, "pad", 0),
                                 groups=one(param, "group", 1))

    def InnerProduct(self, layer, bottom):
        weights, bias = self.blobs(layer)
        return functional.linear(bottom.flatten(1), weights, bias)

    def ReLU(self, _, bottom):
        return functional.relu(bottom)

    def Pooling(self, layer, bottom):
        param = one(layer, "pooling_param")
        kernel = bottom.shape[2:] if one(param, "global_pooling", False) else sizes(param, "kernel_size", 1)
        stride, pad = sizes(param, "stride", 1), sizes(param, "pad", 0)
        if one(param, "pool", "MAX") == "MAX":
            return functional.max_pool2d(bottom, kernel, stride, pad, ceil_mode=True)
        return functional.avg_pool2d(bottom, kernel, stride, pad, ceil_mode=True)

    def LRN(self, layer, bottom):
        param = one(layer, "lrn_param")
        if one(param, "norm_region", "ACROSS_CHANNELS") == "WITHIN_CHANNEL":
            size = one(param, "local_size", 5)
            mean = functional.avg_pool2d(bottom * bottom, size, 1, size // 2)
            return bottom * (1 + one(param, "alpha", 1.0) * mean) ** -one(param, "beta", 0.75)
        return functional.local_response_norm(bottom, one(param, "local_size", 5), one(param, "alpha", 1.0),
                                              one(param, "beta", 0.75), one(param, "k", 1.0))

    def Concat(self, _, *bottoms):
        return torch.cat(bottoms, 1)

    def Eltwise(self, _, *bottoms):
        return sum(bottoms)

    def BatchNorm(self, layer, bottom):
        eps = one(one(layer, "batch_norm_param", {}), "eps", 1e-5)
        return functional.batch_norm(bottom, None, None, training=True, eps=eps)

    def Scale(self, layer, bottom):
        scale, bias = self.blobs(layer)
        return bottom * scale.reshape(1, -1, 1, 1) + (0 if bias is None else bias.reshape(1, -1, 1, 1))

    def SoftmaxWithLoss(self, _, scores, labels):
        return functional.cross_entropy(scores, labels)
