#!/usr/bin/python3
"""Training speed of hpnode beside PyTorch on one device: images/s of forward + backward + update.

usage: test/bench/train_speed.py [--nets quick,full,alexnet] [--threads 1,2] [--precisions fp32,bf16]   on CPUs; nets: --help
       test/bench/train_speed.py --device cuda:0 [--nets alexnet,vgg16,googlenet] [--precisions fp32,tf32]      on a GPU

--torch_python names the interpreters whose PyTorch is measured, so that a newer one from PyPI in a virtual environment
stands beside Debian's (python3-torch, which has no GPUs). Of each, variants are tried in one run each: layout of memory
(contiguous, channels_last), update (plain, foreach, fused), and eager or torch.compile (default, reduce-overhead, which
is CUDA graphs, max-autotune). On CPUs all are tried; on a GPU first the layouts, then with the better one the modes,
then the updates, until --search_s seconds are over; --variants names some instead. The fastest then runs in turn with
hpnode, round by round, and medians are printed. hpnode reads its images from a database meanwhile; PyTorch has its batch
on the device. Both must have the same number of parameters.
"""
import argparse, collections, itertools, os, re, shutil, statistics, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
Net = collections.namedtuple("Net", "prototxt size crop classes cpu_batch cpu_iterations gpu_batch gpu_iterations channels",
                             defaults=[3])
NETS = {
    "lenet": Net("examples/lenet/lenet_train_test.prototxt", 28, 28, 10, 64, 60, 64, 2000, 1),
    "quick": Net("examples/cifar10/cifar10_quick_train_test.prototxt", 32, 32, 10, 100, 40, 100, 2000),
    "full": Net("examples/cifar10/cifar10_full_train_test.prototxt", 32, 32, 10, 100, 30, 100, 2000),
    "full_sigmoid_bn": Net("examples/cifar10/cifar10_full_sigmoid_bn_train_test.prototxt", 32, 32, 10, 100, 30, 100, 2000),
    "siamese": Net("examples/mnist_siamese/mnist_siamese_train_test.prototxt", 28, 28, 2, 64, 40, 64, 2000, 2),
    "autoencoder": Net("examples/mnist_autoencoder/mnist_autoencoder_train_test.prototxt", 28, 28, 10, 100, 40, 100, 2000,
                       1),
    "alexnet": Net("examples/alexnet/alexnet_train_val.prototxt", 256, 227, 1000, 32, 5, 256, 300),
    "caffenet": Net("examples/caffenet/caffenet_train_val.prototxt", 256, 227, 1000, 32, 5, 256, 300),
    "nin": Net("examples/nin/nin_train_val.prototxt", 256, 224, 1000, 16, 5, 128, 300),
    "squeezenet": Net("examples/squeezenet/squeezenet_train_val.prototxt", 256, 227, 1000, 16, 5, 128, 300),
    "vgg16": Net("examples/vgg16/vgg16_train_val.prototxt", 256, 224, 1000, 4, 3, 64, 100),
    "vgg19": Net("examples/vgg19/vgg19_train_val.prototxt", 256, 224, 1000, 4, 3, 64, 100),
    "googlenet": Net("examples/googlenet/googlenet_train_val.prototxt", 256, 224, 1000, 16, 5, 128, 200),
    "resnet50": Net("examples/resnet50/resnet50_train_val.prototxt", 256, 224, 1000, 8, 5, 128, 200),
}
Result = collections.namedtuple("Result", "images_per_s mb parameters")
Setting = collections.namedtuple("Setting", "name net device precision threads batch")
FORMATS, UPDATES = ("contiguous", "channels_last"), ("plain", "foreach", "fused")
MODES = ("eager", "default", "reduce-overhead", "max-autotune")
GPU_WARM_UP, GPU_BLOCK, GPU_RECORDS = 30, 20, 1024


class Failed(Exception):
    """Why there is no figure."""


def run(command, threads, timeout=None):
    """What the command measures, in at most so many seconds."""
    env = dict(os.environ, OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads))
    try:
        out = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Failed("takes longer than the time that is left") from None
    if "not in this version" in out.stdout:
        raise Failed("not in this version")
    found = re.search(r"images_per_s ([\d.]+) peak_mb (\d+) parameters (\d+)", out.stdout)
    if not found:
        raise Failed(f"{' '.join(command)}:\n{out.stderr[-2000:]}")
    return Result(float(found[1]), float(found[2]), int(found[3]))


def torch_command(python, setting, variant):
    net = setting.net
    return [python, os.path.join(HERE, "torch_speed.py"), setting.name, f"--variant={variant}",
            f"--device={setting.device}", f"--precision={setting.precision}", f"--batch={setting.batch}",
            f"--crop={net.crop}", f"--channels={net.channels}", f"--classes={net.classes}",
            f"--iterations={net.cpu_iterations}", f"--threads={setting.threads}"]


def hpnode_command(args, setting, images):
    net = setting.net
    command = [os.path.join(args.bin, "train_speed"), f"--net={net.prototxt}", f"--batch={setting.batch}",
               f"--size={net.size}", f"--channels={net.channels}", f"--classes={net.classes}", f"--threads={setting.threads}",
               f"--micro_batches={args.micro_batches}"]
    command += [f"--precision={setting.precision.upper()}"]
    if setting.device == "cpu":
        return command + [f"--iterations={net.cpu_iterations}"]
    return command + [f"--device={setting.device}", f"--iterations={net.gpu_iterations}", f"--warm_up={GPU_WARM_UP}", f"--block={GPU_BLOCK}",
                      f"--reader_threads={args.reader_threads}", f"--records={GPU_RECORDS}",
                      f"--images={os.path.join(images, str(net.size))}"]


class Search:
    """Tries variants of PyTorch in one run each."""

    def __init__(self, pythons, setting, seconds):
        self.pythons, self.setting = pythons, setting
        self.end = time.monotonic() + seconds if seconds else None
        self.speeds = {}

    def best(self):
        if not self.speeds:
            sys.exit(f"{self.setting.name}: no variant of PyTorch has run")
        return max(self.speeds, key=self.speeds.get)

    def attempt(self, python, variant):
        setting = self.setting
        left = max(1, self.end - time.monotonic()) if self.end else None
        what = f"  {setting.name} {setting.precision}, {setting.threads} threads, {python}, {variant}"
        try:
            speed = run(torch_command(python, setting, variant), setting.threads, left).images_per_s
        except Failed as why:
            return print(f"{what}: {why}", file=sys.stderr)
        self.speeds[python, variant] = speed
        print(f"{what}: {speed:.1f} images/s", file=sys.stderr)

    def attempt_all(self, variants):
        for python, variant in itertools.product(self.pythons, variants):
            self.attempt(python, variant)

    def attempt_in_stages(self):
        """One choice after the other, each with the best of those before."""
        self.attempt_all(f"{layout}/fused/eager" for layout in FORMATS)
        for stage in range(2):
            python, variant = self.best()
            layout, update, mode = variant.split("/")
            for choice in MODES[1:] if stage == 0 else UPDATES[:-1]:
                self.attempt(python, f"{layout}/{update}/{choice}" if stage == 0 else f"{layout}/{choice}/{mode}")


def fastest(args, pythons, setting):
    """(interpreter, variant) of the fastest of all."""
    search = Search(pythons, setting, args.search_s if setting.device != "cpu" else None)
    if args.variants:
        search.attempt_all(args.variants.split(","))
    elif setting.device == "cpu":
        search.attempt_all(map("/".join, itertools.product(FORMATS, ("plain", "fused"), MODES[:2])))
    else:
        search.attempt_in_stages()
    return search.best()


def torch_version(python):
    found = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True)
    if found.returncode:
        sys.exit(f"{python} has no PyTorch (Debian: apt-get install python3-torch)")
    return found.stdout.strip()


def compare(args, pythons, versions, setting, images):
    python, variant = fastest(args, pythons, setting)
    commands = hpnode_command(args, setting, images), torch_command(python, setting, variant)
    pairs = [[run(command, setting.threads) for command in commands] for _ in range(args.rounds)]
    ours, theirs = (Result(*map(statistics.median, zip(*side))) for side in zip(*pairs))
    if ours.parameters != theirs.parameters:
        sys.exit(f"{setting.name}: {ours.parameters:.0f} parameters, in PyTorch {theirs.parameters:.0f}: not one net")
    ratio = statistics.median(a.images_per_s / b.images_per_s for a, b in pairs)
    print(f"| {setting.name} | {setting.precision}{f', {setting.threads}' if setting.device == 'cpu' else ''} | "
          f"{ours.images_per_s:.1f} ({ours.mb:.0f}) | {theirs.images_per_s:.1f} ({theirs.mb:.0f}) | "
          f"{versions[python]} {variant} | {ratio:.2f} |", flush=True)


def settings(args):
    on_cpu = args.device == "cpu"
    for name in args.nets.split(","):
        net = NETS[name]
        if on_cpu:
            for precision, threads in itertools.product(args.precisions.split(","), map(int, args.threads.split(","))):
                yield Setting(name, net, "cpu", precision, threads, args.batch or net.cpu_batch)
        else:
            for precision in args.precisions.split(","):
                yield Setting(name, net, args.device, precision, 1, args.batch or net.gpu_batch)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--nets", help="of " + ", ".join(NETS))
    parser.add_argument("--batch", type=int, help="instead of each net's own")
    parser.add_argument("--torch_python", default="/usr/bin/python3")
    parser.add_argument("--variants", help="of PyTorch, as channels_last/fused/eager, in a row with commas")
    parser.add_argument("--micro_batches", type=int, default=1, help="of hpnode")
    parser.add_argument("--device", default="cpu", help="cpu or cuda:N")
    parser.add_argument("--threads", default="1,2", help="on CPUs")
    parser.add_argument("--precisions", help="of fp32, tf32, bf16, fp16; on CPUs fp32 and bf16")
    parser.add_argument("--reader_threads", type=int, default=max(1, min(8, os.cpu_count() - 2)),
                        help="of hpnode, on a GPU")
    parser.add_argument("--search_s", type=int, default=180, help="on a GPU: for the variants of one net and precision")
    args = parser.parse_args()
    args.nets = args.nets or ("quick,full,alexnet" if args.device == "cpu" else "alexnet,vgg16,googlenet")
    args.precisions = args.precisions or ("fp32" if args.device == "cpu" else "fp32,tf32")
    pythons = args.torch_python.split(",")
    versions = {python: torch_version(python) for python in pythons}
    print(f"load of the machine (1 min): {os.getloadavg()[0]:.1f}")
    column = "precision, threads" if args.device == "cpu" else "precision"
    print(f"| net | {column} | hpnode images/s (MB) | PyTorch's best images/s (MB) | which | ratio |")
    print("|---|---|---|---|---|---|")
    images = tempfile.mkdtemp(prefix="hpnode-bench-")
    try:
        for setting in settings(args):
            compare(args, pythons, versions, setting, images)
    except Failed as why:
        sys.exit(str(why))
    finally:
        shutil.rmtree(images)


main()
