#!/usr/bin/python3
"""hpnode's updates against Caffe's rules in NumPy: 20 iterations over random gradients for each solver type, rate policy,
regulariser, iter_size and clip_gradients.   updates_against_numpy.py PATH/TO/updates_against_numpy
"""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
try:
    import numpy as np
except ImportError as missing:
    print("SKIPPED:", missing)
    sys.exit(77)

from caffe_solver import make_solver
from caffe_text import Parser, one

ITERATIONS = 20
PARAMS = [(33_003, 1, 1), (17, 2, 0), (300, 0, 1), (1_000, 0.5, 3)]  # count, lr_mult, decay_mult
POLICIES = ["lr_policy: 'fixed'", "lr_policy: 'step' gamma: 0.7 stepsize: 6", "lr_policy: 'exp' gamma: 0.95",
            "lr_policy: 'inv' gamma: 0.1 power: 0.75", "lr_policy: 'poly' power: 2",
            "lr_policy: 'multistep' gamma: 0.5 stepvalue: 3 stepvalue: 4 stepvalue: 15",
            "lr_policy: 'multistep' gamma: 0.5 stepvalue: 9 stepvalue: 3 stepvalue: 3 stepvalue: 15", "lr_policy: 'poly'",
            "lr_policy: 'step' stepsize: 6", "lr_policy: 'inv' gamma: 0.1",
            "lr_policy: 'sigmoid' gamma: -0.3 stepsize: 10",
            "lr_policy: 'exp' gamma: 0.95 warmup_iter: 7 warmup_start_lr: 0.003", "lr_policy: 'poly' power: 2 min_lr: 0.001"]
RULES = ["", "momentum: 0.9", "momentum: 0.9 weight_decay: 0.05",
         "momentum: 0.8 weight_decay: 0.05 regularization_type: 'L1'", "momentum: 0.9 clip_gradients: 100",
         "momentum: 0.9 weight_decay: 0.05 iter_size: 3",
         "type: 'Nesterov' momentum: 0.9 weight_decay: 0.05 iter_size: 2", "solver_type: NESTEROV",
         "type: 'AdaGrad' delta: 0.001 weight_decay: 0.05", "solver_type: ADAGRAD regularization_type: 'L1' weight_decay: 0.05",
         "type: 'RMSProp' rms_decay: 0.9 delta: 0.001 iter_size: 2", "solver_type: RMSPROP delta: 0.01 clip_gradients: 150",
         "type: 'AdaDelta' momentum: 0.95 delta: 0.001 weight_decay: 0.05 iter_size: 2",
         "solver_type: ADADELTA delta: 0.001 momentum: 0.9 regularization_type: 'L1' weight_decay: 0.05 clip_gradients: 150",
         "type: 'Adam' momentum: 0.9 weight_decay: 0.05", "type: 'Adam' delta: 0.01 iter_size: 2",
         "solver_type: ADAM momentum: 0.8 momentum2: 0.9 delta: 0.001 regularization_type: 'L1' weight_decay: 0.05 "
         "clip_gradients: 150",
         "momentum: 0.9 weight_decay: 0.05 regularization_type: 'L1' iter_size: 2 clip_gradients: 150",
         "momentum: 0.9 weight_decay: 0.05 larc: true larc_eta: 0.1",
         "type: 'Nesterov' momentum: 0.9 larc: true larc_policy: 'clip' larc_eta: 0.02 iter_size: 2 clip_gradients: 150"]


class Param:
    def __init__(self, value, lr_mult, decay_mult):
        self.value, self.grad = value.astype(np.float64), np.zeros(value.shape)
        self.lr_mult, self.decay_mult = lr_mult, decay_mult
        self.touched = None  # all rows are updated


def run_numpy(solver, weights, gradients):
    params = [Param(value, lr, decay) for value, (_, lr, decay) in zip(weights, PARAMS)]
    made, rates = make_solver(solver, params), []
    for batches in gradients:
        for i, param in enumerate(params):
            param.grad[...] = sum(batch[i].astype(np.float64) for batch in batches)
        made.apply()
        rates.append(made.rate)
    return rates, [param.value for param in params], made.history


def run_hpnode(program, text, weights, gradients, histories):
    with tempfile.NamedTemporaryFile("w", suffix=".prototxt") as file:
        file.write(text)
        file.flush()
        arrays = weights + [array for batches in gradients for batch in batches for array in batch]
        command = [program, file.name, str(ITERATIONS)] + [f"{n}:{lr}:{decay}" for n, lr, decay in PARAMS]
        done = subprocess.run(command, input=b"".join(a.tobytes() for a in arrays), stdout=subprocess.PIPE, check=True)
    found = np.frombuffer(done.stdout, np.float32)
    sizes = [ITERATIONS] + [n for n, _, _ in PARAMS] + histories * [n for n, lr, _ in PARAMS if lr != 0]
    assert found.size == sum(sizes), f"{found.size} values instead of {sum(sizes)}"
    parts = np.split(found, np.cumsum(sizes)[:-1])
    return parts[0], parts[1:1 + len(PARAMS)], parts[1 + len(PARAMS):]


def check(what, expected, found):
    scale = np.abs(expected).max()
    difference = np.abs(found - expected).max()
    assert difference <= 1e-5 * scale, f"{what}: off by {difference:.3g} of {scale:.3g}"


def main():
    random = np.random.default_rng(11)
    # All rules with one policy, all policies with one rule.
    cases = [(POLICIES[0], rule) for rule in RULES] + [(policy, RULES[-1]) for policy in POLICIES[1:]]
    for policy, rule in cases:
        text = f"net: 'x' base_lr: 0.05 max_iter: 25 {policy} {rule}"
        solver = Parser(text).message()
        draw = lambda: [random.normal(0, 1, n).astype(np.float32) for n, _, _ in PARAMS]
        weights = draw()
        gradients = [[draw() for _ in range(one(solver, "iter_size", 1))] for _ in range(ITERATIONS)]
        rates, values, history = run_numpy(solver, weights, gradients)
        found_rates, found_values, found_history = run_hpnode(sys.argv[1], text, weights, gradients,
                                                              len(history) // len(PARAMS))
        check(f"{text}: rates", np.array(rates), found_rates)
        for i, (expected, found) in enumerate(zip(values, found_values)):
            check(f"{text}: weights {i}", expected, found)
        learning = [h for h, (_, lr, _) in zip(history, PARAMS * 2) if lr != 0]
        for i, (expected, found) in enumerate(zip(learning, found_history)):
            check(f"{text}: history {i}", expected, found)
        assert np.array_equal(found_values[2], weights[2]), "a frozen parameter moved"
    print(f"{len(cases)} solvers, {ITERATIONS} iterations each: equal")
    return 0


if __name__ == "__main__":
    sys.exit(main())
