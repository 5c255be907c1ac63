#!/usr/bin/python3
"""Training speed of hpnode beside PyTorch on this machine's CPUs: images/s of forward + backward + update.

usage: test/bench/train_speed.py [--bin build/release/bin] [--rounds 5] [--threads 1,2] [--nets quick,full,alexnet]
                                 [--torch_python /usr/bin/python3,...]

Debian packages: python3-torch. --torch_python names the interpreters whose PyTorch is measured, so that a newer one from
PyPI in a virtual environment stands beside Debian's. Of each, every variant that it has is tried once (contiguous or
channels_last memory, plain or fused SGD, eager or torch.compile); the fastest then runs in turn with hpnode, round by
round, and medians are printed. hpnode reads its images from a database meanwhile, PyTorch has its batch in memory.
"""
import argparse, itertools, os, re, statistics, subprocess, sys, time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NETS = {  # name: (prototxt, batch, record size, crop, classes, timed iterations)
    "quick": ("examples/cifar10/cifar10_quick_train_test.prototxt", 100, 32, 32, 10, 40),
    "full": ("examples/cifar10/cifar10_full_train_test.prototxt", 100, 32, 32, 10, 30),
    "alexnet": ("examples/alexnet/alexnet_train_val.prototxt", 32, 256, 227, 1000, 5),
}
WARM_UP = 3
VARIANTS = ["-".join(v) for v in itertools.product(("contiguous", "channels_last"), ("plain", "fused"), ("eager", "compile"))]


def torch_net(name):
    import torch
    from torch import nn

    class WithinChannelLrn(nn.Module):
        """Caffe's: x / (1 + alpha * mean of squares of the window) ** beta."""

        def forward(self, x):
            mean = nn.functional.avg_pool2d(x * x, 3, 1, 1, count_include_pad=True)
            return x * (1 + 5e-5 * mean).pow(-0.75)

    relu = lambda: nn.ReLU(inplace=True)
    if name == "quick":
        return nn.Sequential(
            nn.Conv2d(3, 32, 5, padding=2), nn.MaxPool2d(3, 2, ceil_mode=True), relu(),
            nn.Conv2d(32, 32, 5, padding=2), relu(), nn.AvgPool2d(3, 2, ceil_mode=True),
            nn.Conv2d(32, 64, 5, padding=2), relu(), nn.AvgPool2d(3, 2, ceil_mode=True),
            nn.Flatten(), nn.Linear(1024, 64), nn.Linear(64, 10))
    if name == "full":
        return nn.Sequential(
            nn.Conv2d(3, 32, 5, padding=2), nn.MaxPool2d(3, 2, ceil_mode=True), relu(), WithinChannelLrn(),
            nn.Conv2d(32, 32, 5, padding=2), relu(), nn.AvgPool2d(3, 2, ceil_mode=True), WithinChannelLrn(),
            nn.Conv2d(32, 64, 5, padding=2), relu(), nn.AvgPool2d(3, 2, ceil_mode=True),
            nn.Flatten(), nn.Linear(1024, 10))
    lrn = lambda: nn.LocalResponseNorm(5, 1e-4, 0.75, 1.0)
    return nn.Sequential(
        nn.Conv2d(3, 96, 11, 4), relu(), lrn(), nn.MaxPool2d(3, 2, ceil_mode=True),
        nn.Conv2d(96, 256, 5, padding=2, groups=2), relu(), lrn(), nn.MaxPool2d(3, 2, ceil_mode=True),
        nn.Conv2d(256, 384, 3, padding=1), relu(), nn.Conv2d(384, 384, 3, padding=1, groups=2), relu(),
        nn.Conv2d(384, 256, 3, padding=1, groups=2), relu(), nn.MaxPool2d(3, 2, ceil_mode=True),
        nn.Flatten(), nn.Linear(9216, 4096), relu(), nn.Dropout(), nn.Linear(4096, 4096), relu(), nn.Dropout(),
        nn.Linear(4096, 1000))


def run_torch(name, threads, variant):
    """Prints images/s and peak memory (MB) of one variant, or that this PyTorch does not have it."""
    import resource
    import torch
    memory_format, update, mode = variant.split("-")
    if mode == "compile" and not hasattr(torch, "compile"):
        return print("not in this version")
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    _, batch, _, crop, classes, iterations = NETS[name]
    memory_format = getattr(torch, memory_format if memory_format == "channels_last" else "contiguous_format")
    net = torch_net(name).to(memory_format=memory_format)
    try:
        solver = torch.optim.SGD(net.parameters(), 1e-4, momentum=0.9, weight_decay=5e-4,
                                 **({"fused": True} if update == "fused" else {}))
    except (TypeError, RuntimeError):
        return print("not in this version")
    run = torch.compile(net) if mode == "compile" else net
    images = torch.randn(batch, 3, crop, crop).to(memory_format=memory_format)
    labels = torch.randint(classes, (batch,))
    seconds = []
    for _ in range(iterations + WARM_UP):
        begin = time.perf_counter()
        solver.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(run(images), labels).backward()
        solver.step()
        seconds.append(time.perf_counter() - begin)
    best = batch / statistics.median(seconds[WARM_UP:])
    print(f"images_per_s {best:.2f} peak_mb {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}")


def measure(command, threads):
    """(images/s, MB) that the command prints; None: this PyTorch has no such variant."""
    env = dict(os.environ, OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads))
    out = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    if "not in this version" in out.stdout:
        return None
    found = re.search(r"images_per_s ([\d.]+) peak_mb (\d+)", out.stdout)
    if not found:
        sys.exit(f"{' '.join(command)} failed:\n{out.stderr[-2000:]}")
    return float(found[1]), float(found[2])


def torch_command(python, name, threads, variant):
    return [python, os.path.abspath(__file__), "--torch", name, str(threads), variant]


def fastest(pythons, name, threads):
    """(interpreter, variant) of the fastest of all in one run each."""
    speeds = {}
    for choice in itertools.product(pythons, VARIANTS):
        result = measure(torch_command(choice[0], name, threads, choice[1]), threads)
        if result:
            speeds[choice] = result[0]
            print(f"  {name}, {threads} threads, {choice[0]}, {choice[1]}: {result[0]:.1f} images/s", file=sys.stderr)
    return max(speeds, key=speeds.get)


def torch_version(python):
    found = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True)
    if found.returncode:
        sys.exit(f"{python} has no PyTorch (Debian: apt-get install python3-torch)")
    return found.stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--nets", default="quick,full,alexnet")
    parser.add_argument("--torch_python", default="/usr/bin/python3")
    parser.add_argument("--torch", nargs=3, metavar=("NET", "THREADS", "VARIANT"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.torch:
        return run_torch(args.torch[0], int(args.torch[1]), args.torch[2])
    pythons = args.torch_python.split(",")
    versions = {python: torch_version(python) for python in pythons}
    print(f"load of the machine (1 min): {os.getloadavg()[0]:.1f}")
    print("| net | threads | hpnode images/s (MB) | PyTorch's best images/s (MB) | which | ratio |\n|---|---|---|---|---|---|")
    for name in args.nets.split(","):
        prototxt, batch, size, _, classes, iterations = NETS[name]
        for threads in map(int, args.threads.split(",")):
            python, variant = fastest(pythons, name, threads)
            ours = [os.path.join(args.bin, "train_speed"), f"--net={prototxt}", f"--batch={batch}", f"--size={size}",
                    f"--classes={classes}", f"--threads={threads}", f"--iterations={iterations}"]
            theirs = torch_command(python, name, threads, variant)
            pairs = [(measure(ours, threads), measure(theirs, threads)) for _ in range(args.rounds)]
            (a, a_mb), (b, b_mb) = [tuple(statistics.median(p[side][i] for p in pairs) for i in (0, 1)) for side in (0, 1)]
            ratio = statistics.median(a_[0] / b_[0] for a_, b_ in pairs)
            print(f"| {name} | {threads} | {a:.1f} ({a_mb:.0f}) | {b:.1f} ({b_mb:.0f}) | {versions[python]} {variant} | "
                  f"{ratio:.2f} |", flush=True)


main()
