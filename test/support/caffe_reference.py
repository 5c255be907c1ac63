#!/usr/bin/python3
"""Trains a net as Caffe would, in NumPy and without any code of hpnode, and writes or compares every blob.

  caffe_reference.py --solver solver.prototxt --net net.prototxt --weights initial.caffemodel \\
      --data records.bin --shape 3,8,8 --iterations 20 \\
      [--out final.caffemodel] [--losses losses.txt] [--staleness 0] \\
      [--compare hpnode_iter_20.caffemodel] [--compare-state hpnode_iter_20.solverstate] [--tolerance 1e-4]

--solver  a solver of any type; fields that change no numbers are not read. `net` in it is not read either.
--net     prototxt in today's format; layers of the TRAIN phase. Types: Data, Convolution, Deconvolution, Pooling, ReLU,
          Sigmoid, TanH, LRN, ArgMax, Crop, Embed, Flatten, Concat, Eltwise (SUM), InfogainLoss, InnerProduct,
          SoftmaxWithLoss, the last two with what hpnode adds to them (normalize, sample_rate, margin_param); Accuracy is
          passed over. Data: batch_size, scale, mean_value; no crop, no mirror. Nothing random: no Dropout.
--weights the start: a .caffemodel with every learnable blob (one that hpnode wrote at iteration 0).
--data    records of one label byte and C*H*W pixel bytes, as in CIFAR-10's binary files. Batch b of the training is
          records [b * batch_size, (b+1) * batch_size), from the start again at the end of the file.
--losses  one line for each iteration: iteration, rate, loss (mean over iter_size).
--staleness
          iteration t has the gradients of the parameters after t - staleness updates; 0 if not given.
--compare fails (exit 1) unless every blob agrees within tolerance x its largest magnitude; it prints each difference.
          --compare-state does the same for the histories, to (tolerance x the largest magnitude).

Exit status: 0 done and equal, 1 different, 2 bad arguments, 77 NumPy is missing (ctest: skipped).
"""
import argparse
import collections
import sys

try:
    import numpy as np
except ImportError:
    print("SKIPPED: python3-numpy is missing")
    sys.exit(77)

from caffe_net import Net
from caffe_solver import make_solver
from caffe_text import one, read_prototxt
from caffe_wire import read_caffemodel, read_solverstate, write_caffemodel


class Records:
    """Batches of a file of records, as a Data layer without crop and mirror yields them."""

    def __init__(self, path, shape, data_layer):
        rows = np.fromfile(path, np.uint8).reshape(-1, 1 + int(np.prod(shape)))
        self.labels, self.pixels = rows[:, 0].astype(int), rows[:, 1:].reshape((-1,) + shape).astype(np.float64)
        self.batch_size = one(one(data_layer, "data_param", {}), "batch_size")
        transform = one(data_layer, "transform_param", {})
        for field in ("crop_size", "mirror", "mean_file"):
            if one(transform, field, 0):
                raise ValueError(f"{field} is not in this reference")
        mean = np.array(transform.get("mean_value", [0.0])).reshape(-1, 1, 1)
        self.pixels = (self.pixels - mean) * one(transform, "scale", 1.0)
        self.tops = data_layer["top"]

    def batch(self, index):
        rows = np.arange(index * self.batch_size, (index + 1) * self.batch_size) % len(self.labels)
        return dict(zip(self.tops, (self.pixels[rows], self.labels[rows])))


def train(solver_spec, net, records, iterations, staleness=0):
    """Iteration t has the gradients of the parameters after t - staleness updates, and takes its step from the latest.
    @return the solver, and (rate, mean loss) of every iteration."""
    solver, log, iter_size = make_solver(solver_spec, net.params), [], one(solver_spec, "iter_size", 1)
    versions = collections.deque(maxlen=staleness + 1)
    learned = [param for param in net.params if param.lr_mult != 0]  # others are constant, or changed by their layer
    for iteration in range(iterations):
        versions.append([param.value.copy() for param in learned])
        for param, delayed in zip(learned, versions[0]):
            param.value[...] = delayed
        net.clear_gradients()
        loss = 0.0
        for part in range(iter_size):
            batch = records.batch(iteration * iter_size + part)
            net.draw(one(solver_spec, "random_seed", -1), iteration, batch)
            loss += net.forward(batch) / iter_size
            net.backward()
        for param, latest in zip(learned, versions[-1]):
            param.value[...] = latest
        solver.apply()
        log.append((solver.rate, loss))
    return solver, log


def largest(array):
    return np.abs(array).max() if array.size else 0.0


def differences(expected, found, names, tolerance):
    """Prints one line a blob. @return how many differ."""
    bad = 0
    for name, want, have in zip(names, expected, found):
        have = have.reshape(want.shape)
        difference, scale = largest(have - want), largest(want)
        wrong = not difference <= tolerance * scale
        bad += wrong
        print(f"{'DIFFERS' if wrong else 'equal  '} {name}: {difference:.3g} of {scale:.3g}")
    return bad


def compare(args, net, solver):
    names, bad = [f"{p.layer}.{p.index}" for p in net.params], 0
    if args.compare:
        model = read_caffemodel(args.compare)
        bad += differences([p.value for p in net.params], [model[p.layer][p.index] for p in net.params], names,
                           args.tolerance)
    if args.compare_state:
        iteration, _, history = read_solverstate(args.compare_state)
        expected = [f"{name} history {number + 1}" for number in range(solver.HISTORIES) for name in names]
        if iteration != solver.iteration or len(history) != len(expected):
            print(f"DIFFERS: iteration {iteration} of {solver.iteration}, {len(history)} histories of {len(expected)}")
            return 1
        bad += differences(solver.history, history, expected, args.tolerance)
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("solver", "net", "weights", "data", "shape"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--iterations", type=int, required=True)
    for name in ("out", "losses", "compare", "compare-state"):
        parser.add_argument("--" + name)
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--staleness", type=int, default=0)
    args = parser.parse_args()

    net = Net(read_prototxt(args.net), read_caffemodel(args.weights))
    shape = tuple(int(dim) for dim in args.shape.split(","))
    solver, log = train(read_prototxt(args.solver), net, Records(args.data, shape, net.data), args.iterations,
                        args.staleness)
    if args.losses:
        with open(args.losses, "w") as file:
            file.writelines(f"{i} {rate:.9g} {loss:.9g}\n" for i, (rate, loss) in enumerate(log))
    if args.out:
        model = {}
        for param in net.params:
            model.setdefault(param.layer, []).append(param.value)
        write_caffemodel(args.out, model)
    return 1 if compare(args, net, solver) else 0


if __name__ == "__main__":
    sys.exit(main())
