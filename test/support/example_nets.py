"""The nets of examples/ on drawn images, for a few gentle updates, and the form of a net that is deployed."""
import os
import re
import shutil
import sys

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples")
MNIST = ("lenet", "mnist_siamese", "mnist_autoencoder")
CIFAR = ("cifar10_quick", "cifar10_full", "cifar10_full_sigmoid_bn")
SHORT = MNIST + CIFAR  # of 10 classes; their nets are called train_test
# Side of the images that the net sees: small ones for those that take any size.
SMALL = {**{name: 28 for name in MNIST}, **{name: 32 for name in CIFAR}, "nin": 67, "squeezenet": 67, "resnet50": 64}
LARGE = {"alexnet": 227, "caffenet": 227, "googlenet": 224, "vgg16": 224, "vgg19": 224}
SIDES = {**SMALL, **LARGE}
# One update where a statistic is of two small images: from the second on, what rounding does to weights (1e-7) changes
# gradients by a tenth and more, in PyTorch as well.
UPDATES = {**{name: 3 for name in SIDES}, "resnet50": 1}
RECORDS = 24
SLIM = 8

INPUT = 'layer {{ name: "data" type: "Input" top: "{top}" input_param {{ shape {{ {dims} }} }} }}\n'
SOFTMAX = 'layer {{ name: "prob {bottom}" type: "Softmax" bottom: "{bottom}" top: "prob {bottom}" }}\n'


def example_file(name, kind):
    """Path of a net's file: "solver", "net", "table", ... Those of CIFAR-10 share a folder."""
    if kind == "net":
        kind = "train_test" if name in SHORT else "train_val"
    if name.startswith("cifar10_"):
        return "%s/cifar10/%s_%s.prototxt" % (EXAMPLES, name, kind)
    return "%s/%s/%s.prototxt" % (EXAMPLES, name, "table" if kind == "table" else name + "_" + kind)


def read_text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write_text(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def slim(net):
    """The net with an eighth of each layer's outputs, but for its 1000 classes: the layers, shapes of kernels and sizes
    of images are the same, and the work is a fiftieth of it. Gaussian weights are drawn wider, as so few inputs need:
    of those that AlexNet draws nothing would reach the first layers' gradients but what rounding leaves."""
    net = re.sub(r"std: [\d.e-]+", "std: 0.04", net)
    return re.sub(r"num_output: (\d+)",
                  lambda found: found[0] if found[1] == "1000" else "num_output: %d" % (int(found[1]) // SLIM), net)


def is_slim(name):
    """Whether tests take a net's slim form: those of full images, whose whole form takes minutes and several GB.
    HPNODE_ALL_NETS=1 takes the whole form of all."""
    return name in LARGE and "HPNODE_ALL_NETS" not in os.environ


def write_example(folder, name, batch, updates, run):
    """The example's net and solver in `folder`, net.prototxt and solver.prototxt, on drawn images (images/0000.png and
    so on) for a few gentle updates; slim where is_slim says so.
    @param run runs a program of the build by its name, or any by its path, with arguments, and raises where it fails.
    @return path of the model that the training will write."""
    for old in ("db", "images"):
        shutil.rmtree(os.path.join(folder, old), ignore_errors=True)
    gray, images, side = name in MNIST, folder + "/images", SIDES[name]
    run(sys.executable, EXAMPLES + "/make_images.py", images, str(RECORDS), str(side), "1" if gray else "3",
        "10" if name in SHORT else "1000")
    if name == "mnist_siamese":
        run("convert_mnist_siamese_data", images + "/images", images + "/labels", folder + "/db")
    else:
        run("convert_imageset", *(["--gray"] if gray else []), "--backend=leveldb", images + "/", images + "/list.txt",
            folder + "/db")
    run("compute_image_mean", "--backend=leveldb", folder + "/db", folder + "/mean")
    net = read_text(example_file(name, "net"))
    for pattern, text in ((r'source: "[^"]*"', 'source: "%s/db"' % folder), (r"crop_size: \d+", "crop_size: %d" % side),
                          (r'mean_file: "[^"]*"', 'mean_file: "%s/mean"' % folder),
                          (r"batch_size: \d+", "batch_size: %d" % batch)):
        net = re.sub(pattern, text, net)
    if is_slim(name):
        net = slim(net)
    write_text(folder + "/net.prototxt", net)
    left_out = "net|test_iter|test_interval|test_initialization|iter_size|snapshot|snapshot_prefix|max_iter"
    solver = re.sub(r"(?m)^(%s): .*\n" % left_out, "", read_text(example_file(name, "solver")))
    solver = re.sub(r"base_lr: (\S+)", lambda found: "base_lr: %g" % (float(found[1]) / 50), solver)
    write_text(folder + "/solver.prototxt", solver + 'net: "net.prototxt"\nmax_iter: %d\nsnapshot_prefix: "%s/out"\n'
               "random_seed: 7\n" % (updates, folder))
    return folder + "/out_iter_%d.caffemodel" % updates


def example_table(name):
    """The table beside an example's net, for what write_example wrote, and how many replicas it has. They have one
    micro-batch each, with one thread."""
    table = read_text(example_file(name, "table"))
    table = re.sub(r'solver: ".*"', 'solver: "solver.prototxt"', table)
    table = re.sub(r"micro_batches: \d+", "micro_batches: 1", table)
    return re.sub(r"port: \d+", lambda port: port[0] + " threads: 1", table), len(re.findall(r'name: "conv\d+"', table))


def layer_texts(net):
    """The text of each layer; one begins a line."""
    return re.split(r"(?m)^(?=layer \{)", net)[1:]


def deploy(net, shape, softmax=False):
    """A train_val net up to its outputs, with an Input layer of `shape` instead of its Data layers.
    @param softmax whether each classifier that has a loss ends with its probabilities."""
    layers = layer_texts(net)
    top = next(re.search(r'top: "(\w+)"', layer)[1] for layer in layers if 'type: "Data"' in layer)
    text = INPUT.format(top=top, dims=" ".join("dim: %d" % dim for dim in shape))
    text += "".join(layer for layer in layers if not re.search(r'type: "(Data|Accuracy|\w+Loss)"', layer))
    classifiers = re.findall(r'type: "SoftmaxWithLoss" bottom: "([^"]+)"', net) if softmax else []
    return text + "".join(SOFTMAX.format(bottom=bottom) for bottom in classifiers)
