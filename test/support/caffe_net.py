"""A train net of Caffe in NumPy: layers of a prototxt in their order, blobs by name, in-place tops."""
import numpy as np

from caffe_layers import LAYERS
from caffe_text import one

IGNORED = ("Accuracy", "HDF5Data", "Input", "Silence")


def in_phase(spec, phase):
    def matches(rule):
        return one(rule, "phase", phase) == phase

    if "include" in spec:
        return any(matches(rule) for rule in spec["include"])
    return not any(matches(rule) for rule in spec.get("exclude", []))


class Param:
    """One learnable blob: (layer, index), multipliers, value and gradient."""

    def __init__(self, layer, index, value):
        specs = layer.spec.get("param", [])
        spec = specs[index] if index < len(specs) else {}
        self.layer, self.index, self.value, self.grad = layer.name, index, value, np.zeros_like(value)
        self.touched = layer.touched if getattr(layer, "sample_rate", 1.0) < 1 else None  # rows of an update; all
        self.lr_mult, self.decay_mult = one(spec, "lr_mult", 1.0), one(spec, "decay_mult", 1.0)


class Net:
    """`model` is {layer: [array, ...]} with the initial values of every learnable blob."""

    def __init__(self, spec, model, phase="TRAIN"):
        self.data, self.layers, self.params, self.named = None, [], [], {}
        for layer in spec["layer"]:
            kind = one(layer, "type")
            if not in_phase(layer, phase) or kind in IGNORED:
                continue
            if kind == "Data":
                self.data = layer
                continue
            if kind not in LAYERS:
                raise ValueError(f"layer {one(layer, 'name')!r}: type {kind!r} is not in this reference")
            self.layers.append(LAYERS[kind](layer))
            self.add_params(self.layers[-1], model)

    def add_params(self, layer, model):
        for index, value in enumerate(model.get(layer.name, [])):
            if type(layer).__name__ == "InnerProduct":  # old files have 1 x 1 in front
                value = value.reshape(value.shape[-2:] if index == 0 else -1)
            elif index == 1:
                value = value.reshape(-1)
            param = self.owner(Param(layer, index, value.astype(np.float64)), layer)
            layer.params.append(param.value)
            layer.grads.append(param.grad)
        if type(layer).__name__ in ("Convolution", "Deconvolution", "Embed", "InnerProduct") and not layer.params:
            raise ValueError(f"layer {layer.name!r}: no initial values")

    def owner(self, param, layer):
        """@return the one of the same name that an earlier layer has, with the factors that this one states; else `param`."""
        specs = layer.spec.get("param", [])
        spec = specs[param.index] if param.index < len(specs) else {}
        name = one(spec, "name", "")
        if name in self.named:
            shared = self.named[name]
            for field in ("lr_mult", "decay_mult"):
                if field in spec:
                    setattr(shared, field, getattr(param, field))
            return shared
        if name:
            self.named[name] = param
        self.params.append(param)
        return param

    def forward(self, blobs):
        """Runs all layers on {name: array}. @return the weighted sum of losses."""
        self.blobs, self.trace, self.losses, loss = dict(blobs), [], {}, 0.0
        for layer in self.layers:
            bottoms = [self.blobs[name] for name in layer.spec.get("bottom", [])]
            tops = layer.forward(*bottoms)
            weights = layer.spec.get("loss_weight", [1.0] if type(layer).__name__.endswith("Loss") else [])
            for name, top, weight in zip(layer.spec["top"], tops, list(weights) + [0.0] * len(tops)):
                self.blobs[name] = top
                if weight:
                    self.losses[name] = (float(top), weight)
                    loss += weight * float(top)
        return loss

    def backward(self):
        """Adds the gradients of the loss to every parameter's."""
        # By name and from the end: a name that is overwritten in place hands its gradient down to the one before it.
        gradients = {name: weight for name, (_, weight) in self.losses.items()}
        for layer in reversed(self.layers):
            tops = layer.spec["top"]
            if not any(name in gradients for name in tops):
                continue
            d_bottoms = layer.backward(*[gradients.pop(name) for name in tops])
            for name, gradient in zip(layer.spec["bottom"], d_bottoms):
                if gradient is not None:
                    gradients[name] = gradients[name] + gradient if name in gradients else gradient

    def draw(self, seed, iteration, batch):
        """Before forward: the samples of classes that hpnode's `sample_rate` computes for this batch."""
        for layer in self.layers:
            if getattr(layer, "sample_rate", 1.0) == 1:
                continue
            loss = next(other for other in self.layers if layer.spec["top"][0] in other.spec["bottom"])
            labels = batch[loss.spec["bottom"][1]]
            layer.draw(seed, iteration, labels[labels != one(loss.sub("loss_param"), "ignore_label")])

    def clear_gradients(self):
        for param in self.params:
            param.grad[...] = 0
            if param.touched is not None:
                param.touched[...] = False
