"""Caffe's solvers in NumPy: rate policies, clip_gradients, iter_size, L1/L2, SGD (momentum with the rate inside it),
Nesterov, AdaGrad, RMSProp, AdaDelta and Adam.

Sources: Caffe, src/caffe/solvers/{sgd,nesterov,adagrad,rmsprop,adadelta,adam}_solver.cpp and src/caffe/solver.cpp; for the warm-up,
min_lr and larc sgd_solver.cpp of Intel's and NVIDIA's Caffe.
"""
import numpy as np

from caffe_text import one


class Rate:
    """GetLearningRate with its state; call once for each iteration, in order."""

    def __init__(self, solver):
        self.solver, self.step = solver, 0

    def __call__(self, iteration):
        solver = self.solver
        policy, base = one(solver, "lr_policy"), one(solver, "base_lr", 0.0)
        gamma, power, stepsize = one(solver, "gamma", 0.0), one(solver, "power", 0.0), one(solver, "stepsize", 0)
        warm_up, start = one(solver, "warmup_iter", 0), one(solver, "warmup_start_lr", 0.0)
        if iteration < warm_up:
            return (iteration * base + (warm_up - iteration) * start) / warm_up
        if policy == "fixed":
            return base
        if policy == "step":
            return base * gamma**(iteration // stepsize)
        if policy == "exp":
            return base * gamma**iteration
        if policy == "inv":
            return base * (1 + gamma * iteration)**-power
        if policy == "multistep":
            values = solver["stepvalue"]
            if self.step < len(values) and iteration >= values[self.step]:
                self.step += 1
            return base * gamma**self.step
        if policy == "poly":
            least = one(solver, "min_lr", 0.0)
            return least + (base - least) * (1 - iteration / one(solver, "max_iter"))**power
        if policy == "sigmoid":
            return base / (1 + np.exp(-gamma * (iteration - stepsize)))
        raise ValueError(f"lr_policy {policy!r}")


class Sgd:
    """Updates objects that have value, grad, lr_mult and decay_mult. `history` is Caffe's, in the order of `params`:
    all first ones, then all second ones."""
    HISTORIES = 1

    def __init__(self, solver, params):
        self.solver, self.params, self.rate_at = solver, params, Rate(solver)
        self.history = [np.zeros_like(param.value) for _ in range(self.HISTORIES) for param in params]
        self.iteration, self.rate = 0, None

    def clip(self):
        limit = one(self.solver, "clip_gradients", -1.0)
        if limit < 0:
            return
        norm = np.sqrt(sum((param.grad**2).sum() for param in self.params if param.lr_mult != 0))
        if norm > limit:
            for param in self.params:
                param.grad *= limit / norm

    def rate_of(self, param, gradient):
        """Of one parameter. @param gradient without weight decay."""
        if not one(self.solver, "larc", False):
            return self.rate * param.lr_mult
        values, own = np.sqrt((param.value**2).sum()), np.sqrt((gradient**2).sum())
        ratio = one(self.solver, "larc_eta", 0.001) * values / own if values > 0 and own > 0 else 1.0
        clips = one(self.solver, "larc_policy", "scale") == "clip"
        return min(self.rate, ratio) if clips else self.rate * ratio

    def apply(self):
        """One update from gradients that were summed over iter_size batches."""
        self.rate = self.rate_at(self.iteration)
        self.clip()
        decay = one(self.solver, "weight_decay", 0.0)
        kind = one(self.solver, "regularization_type", "L2")
        for i, param in enumerate(self.params):
            if param.lr_mult == 0:
                continue  # Caffe's adaptive types gather squares of its decay, which move nothing; hpnode does not
            gradient = param.grad / one(self.solver, "iter_size", 1)
            rate = self.rate_of(param, gradient)
            penalty = param.value if kind == "L2" else np.sign(param.value)
            gradient = gradient + decay * param.decay_mult * penalty
            # Of a layer with a sample of its classes, the other rows take no step: no decay, no momentum.
            rows = slice(None) if param.touched is None else param.touched
            own = self.history[i::len(self.params)]
            *new, step = self.step(*own, rate, gradient)
            for old, history in zip(own, new):
                old[rows] = history[rows]
            param.value[rows] -= step[rows]
        self.iteration += 1

    def step(self, history, rate, gradient):
        """The new histories, and what the weights lose."""
        history = one(self.solver, "momentum", 0.0) * history + rate * gradient
        return history, history


class Nesterov(Sgd):

    def step(self, history, rate, gradient):
        momentum = one(self.solver, "momentum", 0.0)
        new = momentum * history + rate * gradient
        return new, (1 + momentum) * new - momentum * history


class AdaGrad(Sgd):

    def step(self, history, rate, gradient):
        new = history + gradient**2
        return new, rate * gradient / (np.sqrt(new) + one(self.solver, "delta", 1e-8))


class RmsProp(Sgd):

    def step(self, history, rate, gradient):
        decay = one(self.solver, "rms_decay", 0.99)
        new = decay * history + (1 - decay) * gradient**2
        return new, rate * gradient / (np.sqrt(new) + one(self.solver, "delta", 1e-8))


class AdaDelta(Sgd):
    HISTORIES = 2

    def step(self, squares, steps, rate, gradient):
        momentum, delta = one(self.solver, "momentum", 0.0), one(self.solver, "delta", 1e-8)
        squares = momentum * squares + (1 - momentum) * gradient**2
        step = gradient * np.sqrt((steps + delta) / (squares + delta))
        return squares, momentum * steps + (1 - momentum) * step**2, rate * step


class Adam(Sgd):
    HISTORIES = 2

    def step(self, mean, square, rate, gradient):
        # What Caffe's files and its arithmetic make of 0.999, whose distance from 1 counts.
        first, second = (float(np.float32(one(self.solver, field, default)))
                         for field, default in (("momentum", 0.0), ("momentum2", 0.999)))
        mean = first * mean + (1 - first) * gradient
        square = second * square + (1 - second) * gradient**2
        t = self.iteration + 1
        correction = np.sqrt(1 - second**t) / (1 - first**t)
        return mean, square, rate * correction * mean / (np.sqrt(square) + one(self.solver, "delta", 1e-8))


def make_solver(solver, params):
    """Of the class that `type` or its old form solver_type names."""
    types = {"SGD": Sgd, "NESTEROV": Nesterov, "ADAGRAD": AdaGrad, "RMSPROP": RmsProp, "ADADELTA": AdaDelta,
             "ADAM": Adam}
    return types[str(one(solver, "solver_type", one(solver, "type", "SGD"))).upper()](solver, params)
