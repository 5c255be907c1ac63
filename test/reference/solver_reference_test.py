#!/usr/bin/python3
"""Trains a small net 20 iterations with hpnode and with the NumPy program of test/support, from the same weights on the
same records, and compares every blob and every history: all rate policies, solver types and their options. Some also go on
from a snapshot under another table.

  solver_reference_test.py HPNODE HPROUTE CONVERT_MNIST_DATA CONV FC      (nodes of the table: 1 0 is plain training)
"""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
try:
    import numpy as np
except ImportError as missing:
    print("SKIPPED:", missing)
    sys.exit(77)

from caffe_net import Net
from caffe_reference import Records, train
from caffe_text import read_prototxt
from caffe_wire import blob_bytes, read_caffemodel, read_solverstate, write_caffemodel

TOLERANCE = 1e-4  # of a blob's largest magnitude
ITERATIONS = 20
SIZE, RECORDS, CLASSES = 12, 100, 5
SAMPLED = 90  # classes of a head that draws some of them; the others are no labels
NET = """
name: "reference"
layer {{ name: "data" type: "Data" top: "data" top: "label" data_param {{ source: "{folder}/db" batch_size: 12 }}
  transform_param {{ scale: 0.0078125 mean_value: 110 }} }}
layer {{ name: "conv1" type: "Convolution" bottom: "data" top: "conv1" {conv1}
  convolution_param {{ num_output: 8 kernel_size: 3 pad: 1 }} }}
{normed}layer {{ name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }}
layer {{ name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1" pooling_param {{ kernel_size: 3 stride: 2 }} }}
layer {{ name: "norm1" type: "LRN" bottom: "pool1" top: "norm1" lrn_param {{ local_size: 3 alpha: 0.3 beta: 0.75 }} }}
layer {{ name: "conv2" type: "Convolution" bottom: "norm1" top: "conv2" {conv2}
  convolution_param {{ num_output: 12 kernel_size: 3 pad: 1 group: 2 }} }}
layer {{ name: "relu2" type: "ReLU" bottom: "conv2" top: "conv2" relu_param {{ negative_slope: 0.1 }} }}
layer {{ name: "pool2" type: "Pooling" bottom: "conv2" top: "pool2"
  pooling_param {{ pool: AVE kernel_size: 3 stride: 2 pad: 1 }} }}
layer {{ name: "ip1" type: "InnerProduct" bottom: "pool2" top: "ip1" {ip1}
  inner_product_param {{ num_output: 31 {transpose} }} }}
layer {{ name: "relu3" type: "ReLU" bottom: "ip1" top: "ip1" }}
layer {{ name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2" {ip2} inner_product_param {{ {head} }} }}
layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" {margin} }}
"""
SHAPES = {"conv1": [(8, 1, 3, 3), (8,)], "conv2": [(12, 4, 3, 3), (12,)], "ip1": [(31, 192), (31,)],
          "ip2": [(5, 31), (5,)]}
NORMED = """layer { name: "mean1" type: "BatchNorm" bottom: "conv1" top: "conv1" param { lr_mult: 0 }
  param { lr_mult: 0 } param { lr_mult: 0 } batch_norm_param { moving_average_fraction: 0.8 eps: 0.001 } }
layer { name: "scale1" type: "Scale" bottom: "conv1" top: "conv1" scale_param { bias_term: true } }
"""
# Two towers, on the images and on blurred ones, and a product twice in a row.
SHARED = """
name: "shared"
layer {{ name: "data" type: "Data" top: "data" top: "label" data_param {{ source: "{folder}/db" batch_size: 12 }}
  transform_param {{ scale: 0.0078125 mean_value: 110 }} }}
layer {{ name: "blurred" type: "Pooling" bottom: "data" top: "blurred"
  pooling_param {{ pool: AVE kernel_size: 3 stride: 1 pad: 1 }} }}
""" + "".join(f"""
layer {{{{ name: "conv1{p}" type: "Convolution" bottom: "{bottom}" top: "conv1{p}"
  param {{{{ name: "c1w" {first} }}}} param {{{{ name: "c1b" {second} }}}} convolution_param {{{{ num_output: 8 kernel_size: 3 pad: 1 }}}} }}}}
layer {{{{ name: "relu1{p}" type: "ReLU" bottom: "conv1{p}" top: "conv1{p}" }}}}
layer {{{{ name: "pool1{p}" type: "Pooling" bottom: "conv1{p}" top: "pool1{p}" pooling_param {{{{ kernel_size: 3 stride: 2 }}}} }}}}
layer {{{{ name: "conv2{p}" type: "Convolution" bottom: "pool1{p}" top: "conv2{p}" param {{{{ name: "c2w" }}}}
  convolution_param {{{{ num_output: 12 kernel_size: 3 pad: 1 group: 2 }}}} }}}}
layer {{{{ name: "relu2{p}" type: "ReLU" bottom: "conv2{p}" top: "conv2{p}" }}}}
layer {{{{ name: "pool2{p}" type: "Pooling" bottom: "conv2{p}" top: "pool2{p}"
  pooling_param {{{{ pool: AVE kernel_size: 3 stride: 2 pad: 1 }}}} }}}}"""
              for p, bottom, first, second in (("", "data", "lr_mult: 0.5", ""),
                                               ("_p", "blurred", "", "lr_mult: 2 decay_mult: 0"))) + "".join(f"""
layer {{{{ name: "ip1{p}" type: "InnerProduct" bottom: "pool2{p}" top: "ip1{p}" param {{{{ name: "i1w" }}}} param {{{{ name: "i1b" }}}}
  inner_product_param {{{{ num_output: 31 }}}} }}}}
layer {{{{ name: "relu3{p}" type: "ReLU" bottom: "ip1{p}" top: "ip1{p}" }}}}""" for p in ("", "_p")) + """
layer {{ name: "apart" type: "Eltwise" bottom: "ip1" bottom: "ip1_p" top: "apart" eltwise_param {{ coeff: 1 coeff: -1 }} }}
layer {{ name: "again1" type: "InnerProduct" bottom: "apart" top: "again1" param {{ name: "aw" }} param {{ name: "ab" }}
  inner_product_param {{ num_output: 31 }} }}
layer {{ name: "relu4" type: "ReLU" bottom: "again1" top: "again1" relu_param {{ negative_slope: 0.1 }} }}
layer {{ name: "again2" type: "InnerProduct" bottom: "again1" top: "again2" param {{ name: "aw" }}
  inner_product_param {{ num_output: 31 }} }}
layer {{ name: "ip2" type: "InnerProduct" bottom: "again2" top: "ip2" inner_product_param {{ num_output: 5 }} }}
layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }}
"""
SHARED_SHAPES = {**{name + p: SHAPES[name] for name in ("conv1", "conv2", "ip1") for p in ("", "_p")},
                 "again1": [(31, 31), (31,)], "again2": [(31, 31), (31,)], "ip2": SHAPES["ip2"]}
# Between conv1 and relu1, which work on its top then: 24 x 24 pixels, and 7 x 7 in front of ip1.
ENLARGED = """layer { name: "up1" type: "Deconvolution" bottom: "conv1" top: "up1" param { lr_mult: 0.5 }
  param { lr_mult: 2 decay_mult: 0 } convolution_param { num_output: 8 group: 2 kernel_size: 4 stride: 2 pad: 1 } }
"""
# Behind ip1, which is as wide: rows of a table for each image's brightest pixels.
EMBEDDED = """layer {{ name: "flat" type: "Flatten" bottom: "data" top: "flat" }}
layer {{ name: "words" type: "ArgMax" bottom: "flat" top: "words" argmax_param {{ axis: 1 top_k: 4 }} }}
layer {{ name: "table" type: "Embed" bottom: "words" top: "table" param {{ lr_mult: 2 }} param {{ lr_mult: 0.5 decay_mult: 0 }}
  embed_param {{ input_dim: 144 num_output: 8 }} }}
layer {{ name: "of_words" type: "InnerProduct" bottom: "table" top: "of_words" inner_product_param {{ num_output: 31 }} }}
layer {{ name: "both" type: "Eltwise" bottom: "ip1" bottom: "of_words" top: "both" }}
"""
MULTIPLIERS = {
    "conv1": "param { lr_mult: 0.5 decay_mult: 3 } param { lr_mult: 2 decay_mult: 0 }",
    "conv2": "param { lr_mult: 1 } param { lr_mult: 0 }",
    "ip1": "param { lr_mult: 0 } param { lr_mult: 3 decay_mult: 5 }",
    "ip2": "param { lr_mult: 2 decay_mult: 0 }",
}
BASE = {"base_lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, "lr_policy": '"fixed"'}
CASES = {
    "fixed": {},
    "no momentum": {"momentum": 0, "base_lr": 0.3},
    "step": {"lr_policy": '"step"', "gamma": 0.4, "stepsize": 7},
    "exp": {"lr_policy": '"exp"', "gamma": 0.93},
    "inv": {"lr_policy": '"inv"', "gamma": 0.2, "power": 0.75},
    "multistep": {"lr_policy": '"multistep"', "gamma": 0.3, "stepvalue": "[5, 6, 14]"},
    "poly": {"lr_policy": '"poly"', "power": 1.5},
    "sigmoid": {"lr_policy": '"sigmoid"', "gamma": -0.4, "stepsize": 9},
    "L1": {"regularization_type": '"L1"', "weight_decay": 0.004},
    "no decay": {"weight_decay": 0},
    "multipliers": {"multipliers": True},
    "iter_size": {"iter_size": 2},
    "clip_gradients": {"clip_gradients": 0.3},
    "larc": {"larc": "true", "larc_eta": 0.05, "multipliers": True},
    "larc, all together": {"larc": "true", "larc_eta": 0.01, "larc_policy": '"clip"', "type": '"Nesterov"', "iter_size": 2,
                           "clip_gradients": 1.5, "staleness": 1, "servers": 2},
    "Nesterov": {"type": '"Nesterov"', "iter_size": 2, "multipliers": True},
    "AdaGrad": {"type": '"AdaGrad"', "momentum": 0, "delta": 0.1},
    "RMSProp": {"type": '"RMSProp"', "momentum": 0, "delta": 0.1, "rms_decay": 0.9, "base_lr": 0.02, "clip_gradients": 0.3},
    "AdaDelta": {"type": '"AdaDelta"', "delta": 0.001, "base_lr": 0.3, "resume": True},
    "AdaDelta, all together": {"type": '"AdaDelta"', "delta": 0.001, "base_lr": 0.3, "multipliers": True, "iter_size": 2,
                               "clip_gradients": 0.5, "regularization_type": '"L1"', "weight_decay": 0.004},
    "Adam": {"type": '"Adam"', "delta": 0.01, "base_lr": 0.01, "multipliers": True, "resume": True},
    "Adam, all together": {"type": '"Adam"', "delta": 0.01, "base_lr": 0.01, "momentum2": 0.9, "iter_size": 2,
                           "clip_gradients": 0.5, "regularization_type": '"L1"', "weight_decay": 0.004, "servers": 2,
                           "staleness": 1},
    "Adam, sampled": {"type": '"Adam"', "delta": 0.01, "base_lr": 0.01, "sampled": True},
    "transposed": {"transposed": True},
    "margin": {"margin": True},
    "margin clipped": {"margin": True, "clip_gradients": 0.3, "iter_size": 2},
    "sampled": {"sampled": True},
    "sampled margin": {"sampled": True, "margin": True, "iter_size": 2},
    "sampled margin clipped": {"sampled": True, "margin": True, "clip_gradients": 0.3, "iter_size": 3},
    "normed": {"normed": True},
    "normed, all together": {"normed": True, "iter_size": 3, "clip_gradients": 1.5, "staleness": 1, "servers": 2},
    "enlarged": {"enlarged": True},
    "enlarged, all together": {"enlarged": True, "multipliers": True, "iter_size": 2, "clip_gradients": 0.5},
    "embedded": {"embedded": True},
    "embedded, all together": {"embedded": True, "iter_size": 2, "clip_gradients": 1.5, "staleness": 1, "servers": 2},
    "infogain": {"infogain": ""},
    "infogain, ignored": {"infogain": "loss_param { ignore_label: 3 } loss_weight: 0.5", "iter_size": 2},
    "staleness 1": {"staleness": 1},
    "staleness 4": {"staleness": 4, "clip_gradients": 0.3},
    "servers": {"servers": 2},
    "servers, staleness 2": {"servers": 2, "staleness": 2, "multipliers": True, "iter_size": 2},
    "shared": {"shared": True},
    "shared, all together": {"shared": True, "iter_size": 2, "clip_gradients": 1.5, "staleness": 1, "servers": 2},
    "shared Adam": {"shared": True, "type": '"Adam"', "delta": 0.01, "base_lr": 0.01, "resume": True},
    "all together": {"multipliers": True, "iter_size": 3, "clip_gradients": 1.5, "regularization_type": '"L1"',
                     "weight_decay": 0.004, "lr_policy": '"step"', "gamma": 0.4, "stepsize": 7},
}


def write_records(folder, random):
    """The same images as an IDX pair, for the converter, and as label and pixel bytes, for the reference."""
    labels = random.integers(0, CLASSES, RECORDS).astype(np.uint8)
    means = random.integers(0, 140, (CLASSES, SIZE * SIZE))
    images = (means[labels] + random.integers(0, 110, (RECORDS, SIZE * SIZE))).astype(np.uint8)
    with open(f"{folder}/images", "wb") as file:
        file.write(np.array([0x803, RECORDS, SIZE, SIZE], ">u4").tobytes() + images.tobytes())
    with open(f"{folder}/labels", "wb") as file:
        file.write(np.array([0x801, RECORDS], ">u4").tobytes() + labels.tobytes())
    np.concatenate([labels[:, None], images], 1).tofile(f"{folder}/records")


def run(*command):
    environment = dict(os.environ, OMP_WAIT_POLICY="passive")
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nexit status {done.returncode}\n{done.stdout}")


def write_job(folder, name, case):
    """The prototxts of a case. @return their paths: solver, net."""
    settings = {field: value for field, value in {**BASE, **case}.items() if field not in ("staleness", "servers")}
    if settings.pop("resume", False):
        settings["snapshot"] = ITERATIONS // 2
    multipliers = MULTIPLIERS if settings.pop("multipliers", False) else {}
    solver, net = f"{folder}/{name}_solver.prototxt", f"{folder}/{name}_net.prototxt"
    margin, sampled = settings.pop("margin", False), settings.pop("sampled", False)
    normed = NORMED if settings.pop("normed", False) else ""
    layers = SHARED if settings.pop("shared", False) else NET
    if settings.pop("enlarged", False):
        normed, layers = ENLARGED, NET.replace('"ReLU" bottom: "conv1" top: "conv1"', '"ReLU" bottom: "up1" top: "up1"')
        layers = layers.replace('"Pooling" bottom: "conv1"', '"Pooling" bottom: "up1"')
    if settings.pop("embedded", False):
        layers = NET.replace('layer {{ name: "relu3" type: "ReLU" bottom: "ip1" top: "ip1" }}\n', EMBEDDED +
                             'layer {{ name: "relu3" type: "ReLU" bottom: "both" top: "both" }}\n')
        layers = layers.replace('"InnerProduct" bottom: "ip1" top: "ip2"', '"InnerProduct" bottom: "both" top: "ip2"')
    infogain = settings.pop("infogain", None)
    if infogain is not None:
        gains = f'infogain_loss_param {{{{ source: "{folder}/gains.binaryproto" }}}} '
        layers = layers.replace("SoftmaxWithLoss", "InfogainLoss")
        layers = layers.replace("{margin}", gains + infogain.replace("{", "{{").replace("}", "}}"))
    transpose = "transpose: true" if settings.pop("transposed", False) else ""
    head = f"num_output: {SAMPLED if sampled else CLASSES}"
    head += (" normalize: true" if margin else "") + (" sample_rate: 0.2" if sampled else "")
    head += " bias_term: false" if margin or sampled else ""
    with open(net, "w") as file:
        file.write(layers.format(folder=folder, head=head, normed=normed, transpose=transpose,
                                 margin="margin_param { scale: 6 angle: 0.4 cosine: 0.1 }" if margin else "",
                                 **{layer: multipliers.get(layer, "") for layer in SHAPES}))
    with open(solver, "w") as file:
        file.write(f'net: "{net}"\nsnapshot_prefix: "{folder}/{name}"\nmax_iter: {ITERATIONS}\nrandom_seed: 1\n')
        file.writelines(f"{field}: {value}\n" for field, value in settings.items())
    return solver, net


def histories(names, arrays):
    """{blob and number: array} of all first histories, then all second ones."""
    return {f"{names[i % len(names)]} {i // len(names) + 1}": array for i, array in enumerate(arrays)}


def train_reference(folder, solver, net, start, staleness, replicas):
    """@return {blob: final values}, {blob and number: history}, losses."""
    model = Net(read_prototxt(net), read_caffemodel(start))
    for layer in model.layers:
        layer.parts = replicas  # what normalises does so by the rows that are together
    records = Records(f"{folder}/records", (1, SIZE, SIZE), model.data)
    sgd, log = train(read_prototxt(solver), model, records, ITERATIONS, staleness)
    names = [f"{param.layer}.{param.index}" for param in model.params]
    return dict(zip(names, (param.value for param in model.params))), histories(names, sgd.history), log


def owners_of(net):
    """{blob: the first one of its name} of those that share a parameter with an earlier layer."""
    first, owners = {}, {}
    for layer in read_prototxt(net)["layer"]:
        for index, spec in enumerate(layer.get("param", [])):
            if "name" in spec:
                blob = f"{layer['name'][0]}.{index}"
                owner = first.setdefault(spec["name"][0], blob)
                if owner != blob:
                    owners[blob] = owner
    return owners


def train_hpnode(tools, folder, name, solver, begin, nodes, case):
    """The same of what hpnode writes at the end. begin: --weights or --resume."""
    table = f"{folder}/{name}_table.prototxt"
    conv, fc = nodes
    hpnode, hproute, _ = tools
    run(hproute, f"--solver={solver}", f"--conv={conv}", f"--fc={fc}", "--hosts=127.0.0.1", f"--out={table}",
        f"--ps={case.get('servers', 0)}", f"--staleness={case.get('staleness', 0)}")
    run(hpnode, "--all", f"--routing={table}", begin, "--cache_dir=none")
    model = read_caffemodel(f"{folder}/{name}_iter_{ITERATIONS}.caffemodel")
    values = {f"{layer}.{index}": blob for layer, blobs in model.items() for index, blob in enumerate(blobs)}
    # As Caffe writes them: every layer has all of its blobs, the state each parameter once.
    for blob, owner in owners_of(f"{folder}/{name}_net.prototxt").items():
        assert np.array_equal(values.pop(blob), values[owner]), (blob, owner)
    iteration, _, history = read_solverstate(f"{folder}/{name}_iter_{ITERATIONS}.solverstate")
    assert iteration == ITERATIONS and len(history) % len(values) == 0, (iteration, len(history))
    return values, histories(list(values), history)


def difference(found, expected):
    """The largest of all blobs, each relative to its largest magnitude, and the blob's name."""
    assert list(found) == list(expected), (list(found), list(expected))
    worst = (0.0, "none")
    for name, want in expected.items():
        scale = np.abs(want).max()
        wrong = np.abs(found[name].reshape(want.shape) - want).max()
        assert np.isfinite(found[name]).all(), name
        worst = max(worst, (wrong / scale if scale > 0 else wrong, name))
    return worst


def main():
    tools, nodes = sys.argv[1:4], (int(sys.argv[4]), int(sys.argv[5]))
    random = np.random.default_rng(23)
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        write_records(folder, random)
        run(tools[2], "--backend=leveldb", f"{folder}/images", f"{folder}/labels", f"{folder}/db")
        start = {layer: [random.normal(0, 1 / np.sqrt(np.prod(shape[1:])) if len(shape) > 1 else 0.1, shape)
                         for shape in shapes] for layer, shapes in SHAPES.items()}
        write_caffemodel(f"{folder}/start.caffemodel", start)
        # Cosines have no bias.
        write_caffemodel(f"{folder}/margin.caffemodel", {**start, "ip2": start["ip2"][:1]})
        normed = {"mean1": [np.zeros(8), np.zeros(8), np.zeros(1)], "scale1": [random.uniform(0.5, 1.5, 8), np.ones(8)]}
        write_caffemodel(f"{folder}/normed.caffemodel", {**start, **normed})
        # Draws of their own: more cases leave the others as they were.
        random = np.random.default_rng(31)
        enlarged = {"up1": [random.normal(0, 0.2, (8, 4, 4, 4)), random.normal(0, 0.1, 8)],
                    "ip1": [random.normal(0, 1 / np.sqrt(588), (31, 588)), start["ip1"][1]]}
        write_caffemodel(f"{folder}/enlarged.caffemodel", {**start, **enlarged})
        draws = np.random.default_rng(33)
        embedded = {"table": [draws.normal(0, 0.3, (144, 8)), draws.normal(0, 0.1, 8)],
                    "of_words": [draws.normal(0, 0.2, (31, 32)), draws.normal(0, 0.1, 31)]}
        write_caffemodel(f"{folder}/embedded.caffemodel", {**start, **embedded})
        with open(f"{folder}/gains.binaryproto", "wb") as file:
            file.write(blob_bytes(draws.uniform(0, 0.3, (1, 1, CLASSES, CLASSES)) + np.eye(CLASSES)))
        # The same numbers in the other shape: another net.
        across = {**start, "ip1": [start["ip1"][0].reshape(192, 31), start["ip1"][1]]}
        write_caffemodel(f"{folder}/transposed.caffemodel", across)
        many = random.normal(0, 1 / np.sqrt(31), (SAMPLED, 31))
        write_caffemodel(f"{folder}/sampled.caffemodel", {**start, "ip2": [many]})
        random = np.random.default_rng(32)
        shared = {layer: [random.normal(0, 1 / np.sqrt(np.prod(shape[1:])) if len(shape) > 1 else 0.1, shape)
                          for shape in shapes] for layer, shapes in SHARED_SHAPES.items()}
        for layer, blobs in shared.items():
            owner = {"again2": "again1"}.get(layer, layer.removesuffix("_p"))
            both = (0, 1) if layer.startswith(("conv1", "ip1")) else (0,)
            for index in both:
                blobs[index] = shared[owner][index]
        write_caffemodel(f"{folder}/shared.caffemodel", shared)
        plain = None
        for name, case in CASES.items():
            solver, net = write_job(folder, re.sub("[ ,]+", "_", name), case)
            head = next((key for key in ("sampled", "margin", "normed", "enlarged", "embedded", "shared", "transposed") if case.get(key)), "start")
            weights = f"{folder}/{head}.caffemodel"
            expected, momentum, log = train_reference(folder, solver, net, weights, case.get("staleness", 0),
                                                      nodes[0])
            files = re.sub("[ ,]+", "_", name)
            runs = [(f"--weights={weights}", nodes)]
            if case.get("resume"):
                half = f"{folder}/{files}_iter_{ITERATIONS // 2}.solverstate"
                runs.append((f"--resume={half}", (1, 0) if nodes[1] else (2, 2)))
            found = [train_hpnode(tools, folder, files, solver, begin, table, case) for begin, table in runs]
            blob = max(difference(values, expected) for values, _ in found)
            history = max(difference(kept, momentum) for _, kept in found)
            print(f"{name}: loss {log[0][1]:.3f} to {log[-1][1]:.3f}; largest difference {blob[0]:.2g} ({blob[1]}), "
                  f"history {history[0]:.2g} ({history[1]})", flush=True)
            # The case must matter: solved by the plain rules, its blobs would differ by far more than is allowed.
            plain = plain or expected
            if name not in ("fixed", "servers") and head == "start":  # else it has other blobs
                assert difference(plain, expected)[0] > 30 * TOLERANCE, f"{name} is hardly different from fixed"
            if blob[0] > TOLERANCE or history[0] > 10 * TOLERANCE:
                failed.append(name)
    if failed:
        print("DIFFERENT:", ", ".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
