"""Caffe's layers in NumPy, written from its equations for few pixels and much clarity. Arrays are NCHW, float64.

A layer has `params` (arrays), `grads` (alike, added to by backward), forward(*bottoms) -> [top, ...] and
backward(*top gradients) -> [bottom gradients]. What forward saw is kept until backward.
"""
import numpy as np

from caffe_sampling import drawn
from caffe_text import one
from caffe_wire import read_blob


class Layer:
    def __init__(self, spec):
        self.spec, self.name, self.params, self.grads = spec, one(spec, "name"), [], []

    def sub(self, name):
        return one(self.spec, name, {})


def pair(message, plural, h, w, default):
    """kernel_size: 5, or kernel_h and kernel_w, or two values."""
    if h in message or w in message:
        return one(message, h, default), one(message, w, default)
    values = message.get(plural, [default])
    return (values[0], values[0]) if len(values) == 1 else tuple(values)


class Convolution(Layer):
    def __init__(self, spec):
        super().__init__(spec)
        p = self.sub("convolution_param")
        self.group, self.bias = one(p, "group", 1), one(p, "bias_term", True)
        self.kernel = pair(p, "kernel_size", "kernel_h", "kernel_w", None)
        self.stride = pair(p, "stride", "stride_h", "stride_w", 1)
        self.pad = pair(p, "pad", "pad_h", "pad_w", 0)
        self.dilation = pair(p, "dilation", "", "", 1)

    def windows(self, padded):
        """Yields (ky, kx, the view of `padded` that tap (ky, kx) sees)."""
        (kh, kw), (sh, sw), (dh, dw) = self.kernel, self.stride, self.dilation
        oh = (padded.shape[2] - dh * (kh - 1) - 1) // sh + 1
        ow = (padded.shape[3] - dw * (kw - 1) - 1) // sw + 1
        for y in range(kh):
            for x in range(kw):
                yield y, x, padded[:, :, y * dh:y * dh + sh * (oh - 1) + 1:sh, x * dw:x * dw + sw * (ow - 1) + 1:sw]

    def split(self, array, axis):
        return np.split(array, self.group, axis)

    def forward(self, bottom):
        (ph, pw), weights = self.pad, self.params[0]
        self.padded = np.pad(bottom, ((0, 0), (0, 0), (ph, ph), (pw, pw)))
        top = 0
        for y, x, view in self.windows(self.padded):
            taps = zip(self.split(view, 1), self.split(weights[:, :, y, x], 0))
            top = top + np.concatenate([np.einsum("nchw,oc->nohw", v, w) for v, w in taps], 1)
        return [top + self.params[1][None, :, None, None] if self.bias else top]

    def backward(self, d_top):
        (ph, pw), weights = self.pad, self.params[0]
        d_padded = np.zeros_like(self.padded)
        d_views = {(y, x): view for y, x, view in self.windows(d_padded)}
        for y, x, view in self.windows(self.padded):
            taps = list(zip(self.split(view, 1), self.split(weights[:, :, y, x], 0), self.split(d_top, 1)))
            self.grads[0][:, :, y, x] += np.concatenate([np.einsum("nchw,nohw->oc", v, d) for v, _, d in taps], 0)
            d_views[y, x] += np.concatenate([np.einsum("oc,nohw->nchw", w, d) for _, w, d in taps], 1)
        if self.bias:
            self.grads[1] += d_top.sum((0, 2, 3))
        return [d_padded[:, :, ph:d_padded.shape[2] - ph, pw:d_padded.shape[3] - pw]]


class Deconvolution(Convolution):
    """What the convolution of this window does to gradients: each input adds a window to the top."""

    def cut(self, padded):
        (ph, pw) = self.pad
        return padded[:, :, ph:padded.shape[2] - ph, pw:padded.shape[3] - pw]

    def forward(self, bottom):
        (kh, kw), (sh, sw), (dh, dw), weights = self.kernel, self.stride, self.dilation, self.params[0]
        self.bottom = bottom
        rows, _, height, width = bottom.shape
        padded = np.zeros((rows, weights.shape[1] * self.group, sh * (height - 1) + dh * (kh - 1) + 1,
                           sw * (width - 1) + dw * (kw - 1) + 1))
        for y, x, view in self.windows(padded):
            taps = zip(self.split(bottom, 1), self.split(weights[:, :, y, x], 0))
            view += np.concatenate([np.einsum("nchw,co->nohw", b, w) for b, w in taps], 1)
        return [self.cut(padded) + (self.params[1][None, :, None, None] if self.bias else 0)]

    def backward(self, d_top):
        (ph, pw), weights, d_bottom = self.pad, self.params[0], 0
        d_padded = np.pad(d_top, ((0, 0), (0, 0), (ph, ph), (pw, pw)))
        for y, x, view in self.windows(d_padded):
            taps = list(zip(self.split(self.bottom, 1), self.split(weights[:, :, y, x], 0), self.split(view, 1)))
            self.grads[0][:, :, y, x] += np.concatenate([np.einsum("nchw,nohw->co", b, d) for b, _, d in taps], 0)
            d_bottom = d_bottom + np.concatenate([np.einsum("nohw,co->nchw", d, w) for _, w, d in taps], 1)
        if self.bias:
            self.grads[1] += d_top.sum((0, 2, 3))
        return [d_bottom]


class Crop(Layer):
    """The part of bottom 0 that has the size of bottom 1 along `axis` and the axes behind it."""

    def forward(self, bottom, like):
        p = self.sub("crop_param")
        axis, offsets = one(p, "axis", 2), p.get("offset", [0])
        ranges = [slice(None)] * axis
        for i in range(axis, 4):
            offset = offsets[0] if len(offsets) == 1 else offsets[i - axis]
            ranges.append(slice(offset, offset + like.shape[i]))
        self.shape, self.ranges = bottom.shape, tuple(ranges)
        return [bottom[self.ranges]]

    def backward(self, d_top):
        d_bottom = np.zeros(self.shape)
        d_bottom[self.ranges] = d_top
        return [d_bottom, None]


class Unit:
    """Rows over their norms, which count as at least 1e-12."""

    def __init__(self, rows):
        self.norms = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        self.rows = rows / self.norms

    def backward(self, d_rows):
        return (d_rows - self.rows * (d_rows * self.rows).sum(1, keepdims=True)) / self.norms


class InnerProduct(Layer):
    """Axes before `axis` are rows, which the top keeps. With hpnode's `normalize` the cosine between each row of the bottom and each row of the weights. With its
    `sample_rate` the top is NaN, which SoftmaxWithLoss takes as no class, where `sample` is false; `touched` are the
    classes of all samples of an update."""

    def __init__(self, spec):
        super().__init__(spec)
        p = self.sub("inner_product_param")
        self.axis, self.transpose = one(p, "axis", 1), one(p, "transpose", False)
        self.normalize, self.sample_rate = one(p, "normalize", False), one(p, "sample_rate", 1.0)
        self.sample, self.touched = None, np.zeros(one(p, "num_output"), bool)

    def draw(self, seed, iteration, labels):
        """@param labels of the batch that are counted."""
        self.sample = drawn(seed, self.name, iteration, len(self.touched), self.sample_rate)
        self.sample[labels] = True
        self.touched |= self.sample

    def forward(self, bottom):
        self.shape, rows = bottom.shape, bottom.shape[:self.axis]
        self.flat = bottom.reshape(int(np.prod(rows)), -1)
        if self.normalize:
            self.features, self.weights = Unit(self.flat), Unit(self.params[0])
            top = self.features.rows @ self.weights.rows.T
        else:
            top = self.flat @ self.matrix() + (self.params[1] if len(self.params) > 1 else 0)
        top = top.reshape(rows + (-1,))
        return [top if self.sample is None else np.where(self.sample, top, np.nan)]

    def matrix(self):
        """The weights, [inputs, outputs]."""
        return self.params[0] if self.transpose else self.params[0].T

    def backward(self, d_top):
        d_top = d_top.reshape(len(self.flat), -1)
        if self.normalize:
            self.grads[0] += self.weights.backward(d_top.T @ self.features.rows)
            return [self.features.backward(d_top @ self.weights.rows).reshape(self.shape)]
        self.grads[0] += self.flat.T @ d_top if self.transpose else d_top.T @ self.flat
        if len(self.params) > 1:
            self.grads[1] += d_top.sum(0)
        return [(d_top @ self.matrix().T).reshape(self.shape)]


class Pooling(Layer):
    """Sizes round up; a window must start inside the image or its left padding; AVE divides by the part of the window
    that lies in the padded image."""

    def windows(self, shape):
        p = self.sub("pooling_param")
        if one(p, "global_pooling", False):
            kernel, stride, pad = shape[2:], (1, 1), (0, 0)
        else:
            kernel = pair(p, "kernel_size", "kernel_h", "kernel_w", None)
            stride, pad = pair(p, "stride", "stride_h", "stride_w", 1), pair(p, "pad", "pad_h", "pad_w", 0)
        sizes = []
        for n, k, s, q in zip(shape[2:], kernel, stride, pad):
            out = -(-(n + 2 * q - k) // s) + 1
            if q > 0 and (out - 1) * s >= n + q:
                out -= 1
            sizes.append(out)
        for oy in range(sizes[0]):
            for ox in range(sizes[1]):
                box, padded_area = [], 1
                for o, n, k, s, q in zip((oy, ox), shape[2:], kernel, stride, pad):
                    begin, end = o * s - q, min(o * s - q + k, n + q)
                    padded_area *= end - begin
                    box += [max(begin, 0), min(end, n)]
                yield oy, ox, box, padded_area, sizes

    def forward(self, bottom):
        self.bottom, self.max = bottom, one(self.sub("pooling_param"), "pool", "MAX") == "MAX"
        top = None
        for oy, ox, (y0, y1, x0, x1), area, sizes in self.windows(bottom.shape):
            top = np.empty(bottom.shape[:2] + tuple(sizes)) if top is None else top
            view = bottom[:, :, y0:y1, x0:x1]
            top[:, :, oy, ox] = view.max((2, 3)) if self.max else view.sum((2, 3)) / area
        return [top]

    def backward(self, d_top):
        d_bottom = np.zeros_like(self.bottom)
        n, c = np.indices(self.bottom.shape[:2])
        for oy, ox, (y0, y1, x0, x1), area, _ in self.windows(self.bottom.shape):
            if not self.max:
                d_bottom[:, :, y0:y1, x0:x1] += d_top[:, :, oy, ox][:, :, None, None] / area
                continue
            view = self.bottom[:, :, y0:y1, x0:x1]
            first = view.reshape(view.shape[:2] + (-1,)).argmax(2)  # the first of equal ones, row by row
            y, x = np.divmod(first, x1 - x0)
            d_bottom[n, c, y0 + y, x0 + x] += d_top[:, :, oy, ox]
        return [d_bottom]


class ReLU(Layer):
    def forward(self, bottom):
        self.slope = np.where(bottom > 0, 1.0, one(self.sub("relu_param"), "negative_slope", 0))
        return [bottom * self.slope]

    def backward(self, d_top):
        return [d_top * self.slope]


class Sigmoid(Layer):
    def forward(self, bottom):
        self.top = 1 / (1 + np.exp(-bottom))
        return [self.top]

    def backward(self, d_top):
        return [d_top * self.top * (1 - self.top)]


class TanH(Layer):
    def forward(self, bottom):
        self.top = np.tanh(bottom)
        return [self.top]

    def backward(self, d_top):
        return [d_top * (1 - self.top**2)]


class ELU(Layer):
    def forward(self, bottom):
        self.bottom, self.alpha = bottom, one(self.sub("elu_param"), "alpha", 1.0)
        self.top = np.where(bottom > 0, bottom, self.alpha * (np.exp(np.minimum(bottom, 0)) - 1))
        return [self.top]

    def backward(self, d_top):
        return [d_top * np.where(self.bottom > 0, 1.0, self.top + self.alpha)]


class AbsVal(Layer):
    def forward(self, bottom):
        self.bottom = bottom
        return [np.abs(bottom)]

    def backward(self, d_top):
        return [d_top * np.sign(self.bottom)]


class Power(Layer):
    def forward(self, bottom):
        p = self.sub("power_param")
        power, scale, shift = one(p, "power", 1.0), one(p, "scale", 1.0), one(p, "shift", 0.0)
        base = shift + scale * bottom
        self.slope = np.zeros_like(bottom) if power * scale == 0 else power * scale * base**(power - 1)
        return [base**power]

    def backward(self, d_top):
        return [d_top * self.slope]


def natural_log(base):
    return 1.0 if base == -1 else np.log(base)


class Exp(Layer):
    def forward(self, bottom):
        p = self.sub("exp_param")
        log, scale = natural_log(one(p, "base", -1.0)), one(p, "scale", 1.0)
        top = np.exp(log * (one(p, "shift", 0.0) + scale * bottom))
        self.slope = log * scale * top
        return [top]

    def backward(self, d_top):
        return [d_top * self.slope]


class Log(Layer):
    def forward(self, bottom):
        p = self.sub("log_param")
        log, scale = natural_log(one(p, "base", -1.0)), one(p, "scale", 1.0)
        inner = one(p, "shift", 0.0) + scale * bottom
        self.slope = scale / (inner * log)
        return [np.log(inner) / log]

    def backward(self, d_top):
        return [d_top * self.slope]


class BNLL(Layer):
    def forward(self, bottom):
        self.slope = 1 / (1 + np.exp(-bottom))
        return [np.logaddexp(0, bottom)]

    def backward(self, d_top):
        return [d_top * self.slope]


class Swish(Layer):
    def forward(self, bottom):
        beta = one(self.sub("swish_param"), "beta", 1.0)
        gate = 1 / (1 + np.exp(-beta * bottom))
        top = bottom * gate
        self.slope = beta * top + gate * (1 - beta * top)
        return [top]

    def backward(self, d_top):
        return [d_top * self.slope]


class Clip(Layer):
    def forward(self, bottom):
        p = self.sub("clip_param")
        low, high = one(p, "min"), one(p, "max")
        self.slope = (bottom >= low) & (bottom <= high)
        return [np.clip(bottom, low, high)]

    def backward(self, d_top):
        return [d_top * self.slope]


class LRN(Layer):
    """top = x * scale^-beta. ACROSS_CHANNELS: scale = k + alpha/n * sum of x^2 over n channels. WITHIN_CHANNEL: scale =
    1 + alpha * average of x^2 over an n x n window, the average of AVE pooling with pad (n-1)/2; k is not read there."""

    def __init__(self, spec):
        super().__init__(spec)
        p = self.sub("lrn_param")
        self.size, self.k = one(p, "local_size", 5), one(p, "k", 1.0)
        self.alpha, self.beta = one(p, "alpha", 1.0), one(p, "beta", 0.75)
        self.within = one(p, "norm_region", "ACROSS_CHANNELS") == "WITHIN_CHANNEL"
        half = (self.size - 1) // 2
        self.pool = Pooling({"name": ["square"], "pooling_param": [
            {"pool": ["AVE"], "kernel_size": [self.size], "pad": [half]}]})

    def channel_sums(self, array):
        half, channels = (self.size - 1) // 2, array.shape[1]
        return np.stack([array[:, max(0, c - half):min(channels, c + half + 1)].sum(1) for c in range(channels)], 1)

    def forward(self, bottom):
        self.bottom = bottom
        if self.within:
            self.scale = 1 + self.alpha * self.pool.forward(bottom**2)[0]
        else:
            self.scale = self.k + self.alpha / self.size * self.channel_sums(bottom**2)
        return [bottom * self.scale**-self.beta]

    def backward(self, d_top):
        d_scale = -self.beta * d_top * self.bottom * self.scale**(-self.beta - 1)
        if self.within:
            d_square = self.alpha * self.pool.backward(d_scale)[0]
        else:
            d_square = self.alpha / self.size * self.channel_sums(d_scale)
        return [d_top * self.scale**-self.beta + 2 * self.bottom * d_square]


class BatchNorm(Layer):
    """Training with the statistics of the rows. Its params are what Caffe's layer keeps itself: sums of means and of
    sample variances, and the sum of their weights. A batch in `parts`, of rows behind each other, is normalised part by
    part, and adds the mean of their statistics."""
    parts = 1

    def __init__(self, spec):
        super().__init__(spec)
        p = self.sub("batch_norm_param")
        self.fraction, self.eps = one(p, "moving_average_fraction", 0.999), one(p, "eps", 1e-5)

    def over_rows(self, array):
        return array.mean((0,) + tuple(range(2, array.ndim)), keepdims=True)

    def forward(self, bottom):
        self.tops, self.deviations, means, variances = [], [], 0.0, 0.0
        for rows in np.array_split(bottom, self.parts):
            mean, share = self.over_rows(rows), len(rows) / len(bottom)
            variance, count = self.over_rows((rows - mean)**2), rows.size // rows.shape[1]
            self.deviations.append(np.sqrt(variance + self.eps))
            self.tops.append((rows - mean) / self.deviations[-1])
            means, variances = means + share * mean, variances + share * variance * count / max(count - 1, 1)
        for param, moment in zip(self.params, (means, variances, np.ones(1))):
            param[...] = self.fraction * param + moment.reshape(-1)
        return [np.concatenate(self.tops)]

    def backward(self, d_top):
        return [np.concatenate([(d - self.over_rows(d) - top * self.over_rows(d * top)) / deviation for d, top, deviation
                                in zip(np.array_split(d_top, self.parts), self.tops, self.deviations)])]


class Scale(Layer):
    """A factor, and a bias, for each channel."""

    def channels(self, array, values):
        return values.reshape((1, -1) + (1,) * (array.ndim - 2))

    def forward(self, bottom):
        self.bottom = bottom
        bias = self.channels(bottom, self.params[1]) if len(self.params) > 1 else 0.0
        return [bottom * self.channels(bottom, self.params[0]) + bias]

    def backward(self, d_top):
        others = (0,) + tuple(range(2, d_top.ndim))
        self.grads[0] += (d_top * self.bottom).sum(others)
        if len(self.params) > 1:
            self.grads[1] += d_top.sum(others)
        return [d_top * self.channels(d_top, self.params[0])]


class ArgMax(Layer):
    """The places of the top_k largest elements along `axis`, the last of equal ones first; no gradient."""

    def forward(self, bottom):
        p = self.sub("argmax_param")
        axis, top_k = one(p, "axis", 1), one(p, "top_k", 1)
        order = bottom.shape[axis] - 1 - np.argsort(-np.flip(bottom, axis), axis, kind="stable")
        return [np.take(order, range(top_k), axis).astype(float)]

    def backward(self, d_top):
        return [None]


class Embed(Layer):
    """The row of a table that each number of the bottom names, plus a bias; no gradient goes to the numbers."""

    def forward(self, bottom):
        self.rows = bottom.astype(int)
        assert (self.rows == bottom).all() and (self.rows >= 0).all() and (self.rows < len(self.params[0])).all()
        return [self.params[0][self.rows] + (self.params[1] if len(self.params) > 1 else 0)]

    def backward(self, d_top):
        np.add.at(self.grads[0], self.rows, d_top)
        if len(self.params) > 1:
            self.grads[1] += d_top.reshape(-1, d_top.shape[-1]).sum(0)
        return [None]


class Flatten(Layer):
    def forward(self, bottom):
        self.shape = bottom.shape
        return [bottom.reshape(len(bottom), -1)]

    def backward(self, d_top):
        return [d_top.reshape(self.shape)]


class Concat(Layer):
    def forward(self, *bottoms):
        self.axis = one(self.sub("concat_param"), "axis", 1)
        self.cuts = np.cumsum([bottom.shape[self.axis] for bottom in bottoms])[:-1]
        return [np.concatenate(bottoms, self.axis)]

    def backward(self, d_top):
        return np.split(d_top, self.cuts, self.axis)


class Eltwise(Layer):
    def forward(self, *bottoms):
        p = self.sub("eltwise_param")
        if one(p, "operation", "SUM") != "SUM":
            raise ValueError("Eltwise: only SUM")
        self.coeff = p.get("coeff", [1.0] * len(bottoms))
        return [sum(c * bottom for c, bottom in zip(self.coeff, bottoms))]

    def backward(self, d_top):
        return [c * d_top for c in self.coeff]


class SoftmaxWithLoss(Layer):
    """Class axis 1, labels [N] or [N, 1, H, W]. The loss is summed over labels that are not ignored and divided as
    `normalization` says: FULL by all, VALID (default) by those counted, BATCH_SIZE by N, NONE by 1.

    With hpnode's `margin_param` the scores are cosines. The gradient goes straight through the margin: it is that of
    scale * cosine, at the probabilities of the logits with the margin."""

    def with_margin(self, flat, label):
        """Logits of cosines; `label` is true where a class is the label of its row."""
        p = self.sub("margin_param")
        cosines = np.clip(flat, -1, 1)
        harder = np.cos(np.arccos(cosines) + one(p, "angle", 0.0)) - one(p, "cosine", 0.0)
        return self.scale * np.where(label, harder, cosines)

    def forward(self, scores, labels):
        p = self.sub("loss_param")
        self.shape = scores.shape
        flat = scores.reshape(scores.shape[0], scores.shape[1], -1)
        absent = np.isnan(flat)  # InnerProduct's sample_rate
        labels = np.broadcast_to(labels.reshape(len(labels), -1), (flat.shape[0], flat.shape[2])).astype(int)
        ignore = one(p, "ignore_label")
        self.counted = np.ones(labels.shape, bool) if ignore is None else labels != ignore
        self.labels, self.scale = np.where(self.counted, labels, 0), 1.0
        if "margin_param" in self.spec:
            self.scale = one(self.sub("margin_param"), "scale", 64.0)
            classes = np.arange(flat.shape[1])[None, :, None]
            flat = self.with_margin(flat, (classes == self.labels[:, None]) & self.counted[:, None])
        flat = np.where(absent, -np.inf, flat)
        e = np.exp(flat - flat.max(1, keepdims=True))
        self.prob = e / e.sum(1, keepdims=True)
        mode = one(p, "normalization", "VALID" if one(p, "normalize", True) else "BATCH_SIZE")
        divisor = {"FULL": labels.size, "VALID": self.counted.sum(), "BATCH_SIZE": len(scores), "NONE": 1}[mode]
        self.divisor = max(1, divisor)
        n, s = np.indices(labels.shape)
        self.index = (n, self.labels, s)
        picked = np.maximum(self.prob[self.index], np.finfo(np.float32).tiny)
        return [-(np.log(picked) * self.counted).sum() / self.divisor]

    def backward(self, d_loss):
        d_scores = self.prob.copy()
        d_scores[self.index] -= 1
        d_scores *= self.counted[:, None, :] * (self.scale * d_loss / self.divisor)
        return [d_scores.reshape(self.shape), None]


class InfogainLoss(Layer):
    """A matrix has a weight for each pair of label and class: -weight * log(probability), summed over classes and rows
    [N, C], divided as SoftmaxWithLoss does it."""

    def forward(self, scores, labels):
        with open(one(self.sub("infogain_loss_param"), "source"), "rb") as file:
            gains = read_blob(file.read()).reshape(scores.shape[1], -1)
        ignore = one(self.sub("loss_param"), "ignore_label")
        labels = labels.reshape(-1).astype(int)
        counted = np.ones(len(labels), bool) if ignore is None else labels != ignore
        self.gains = gains.astype(np.float64)[np.where(counted, labels, 0)] * counted[:, None]
        e = np.exp(scores - scores.max(1, keepdims=True))
        self.prob = e / e.sum(1, keepdims=True)
        mode = one(self.sub("loss_param"), "normalization", "VALID")
        self.divisor = max(1, {"FULL": len(labels), "VALID": counted.sum(), "BATCH_SIZE": len(labels), "NONE": 1}[mode])
        return [-(self.gains * np.log(np.maximum(self.prob, 1e-20))).sum() / self.divisor]

    def backward(self, d_loss):
        d_scores = self.prob * self.gains.sum(1, keepdims=True) - self.gains
        return [d_scores * (d_loss / self.divisor), None]


LAYERS = {kind.__name__: kind for kind in (ArgMax, Convolution, Deconvolution, Embed, InfogainLoss, InnerProduct, Pooling,
                                           ReLU, Sigmoid, TanH, ELU, AbsVal, Power, Exp, Log, BNLL, Swish, Clip, LRN,
                                           Flatten, Concat, Eltwise, BatchNorm, Scale, Crop, SoftmaxWithLoss)}
