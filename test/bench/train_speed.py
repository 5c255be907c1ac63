#!/usr/bin/python3
"""Training speed of hpnode beside PyTorch on this machine's CPUs: images/s of forward + backward + update.

usage: test/bench/train_speed.py [--bin build/release/bin] [--rounds 3] [--threads 1,2] [--nets quick,full,alexnet]

Debian packages: python3-torch. The two run in turn, round by round, and medians are printed; of PyTorch's variants
(contiguous and channels_last memory) the better one counts. hpnode reads its images from a database meanwhile, PyTorch
has its batch in memory.
"""
import argparse, os, re, statistics, subprocess, sys, time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NETS = {  # name: (prototxt, batch, record size, crop, classes, timed iterations)
    "quick": ("examples/cifar10/cifar10_quick_train_test.prototxt", 100, 32, 32, 10, 30),
    "full": ("examples/cifar10/cifar10_full_train_test.prototxt", 100, 32, 32, 10, 20),
    "alexnet": ("examples/alexnet/alexnet_train_val.prototxt", 32, 256, 227, 1000, 4),
}


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


def run_torch(name, threads):
    """Images/s and peak memory (MB) of the better memory format. Runs in a process of its own."""
    import resource
    import torch
    torch.set_num_threads(threads)
    _, batch, _, crop, classes, iterations = NETS[name]
    best = 0
    for memory_format in (torch.contiguous_format, torch.channels_last):
        net = torch_net(name).to(memory_format=memory_format)
        solver = torch.optim.SGD(net.parameters(), 1e-4, momentum=0.9, weight_decay=5e-4)
        images = torch.randn(batch, 3, crop, crop).to(memory_format=memory_format)
        labels = torch.randint(classes, (batch,))
        seconds = []
        for _ in range(iterations + 3):
            begin = time.perf_counter()
            solver.zero_grad(set_to_none=True)
            torch.nn.functional.cross_entropy(net(images), labels).backward()
            solver.step()
            seconds.append(time.perf_counter() - begin)
        best = max(best, batch / statistics.median(seconds[3:]))
    print(f"images_per_s {best:.2f} peak_mb {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}")


def measure(command, threads):
    env = dict(os.environ, OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads))
    out = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    found = re.search(r"images_per_s ([\d.]+) peak_mb (\d+)", out.stdout)
    if not found:
        sys.exit(f"{' '.join(command)} failed:\n{out.stderr[-2000:]}")
    return float(found[1]), float(found[2])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--nets", default="quick,full,alexnet")
    parser.add_argument("--torch", nargs=2, metavar=("NET", "THREADS"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.torch:
        return run_torch(args.torch[0], int(args.torch[1]))
    print(f"load of the machine (1 min): {os.getloadavg()[0]:.1f}")
    print("| net | threads | hpnode images/s (MB) | PyTorch images/s (MB) | ratio |\n|---|---|---|---|---|")
    for name in args.nets.split(","):
        prototxt, batch, size, _, classes, iterations = NETS[name]
        for threads in map(int, args.threads.split(",")):
            ours = [os.path.join(args.bin, "train_speed"), f"--net={prototxt}", f"--batch={batch}", f"--size={size}",
                    f"--classes={classes}", f"--threads={threads}", f"--iterations={iterations}"]
            theirs = [sys.executable, os.path.abspath(__file__), "--torch", name, str(threads)]
            pairs = [(measure(ours, threads), measure(theirs, threads)) for _ in range(args.rounds)]
            (a, a_mb), (b, b_mb) = [tuple(statistics.median(p[side][i] for p in pairs) for i in (0, 1)) for side in (0, 1)]
            print(f"| {name} | {threads} | {a:.1f} ({a_mb:.0f}) | {b:.1f} ({b_mb:.0f}) | {a / b:.2f} |", flush=True)


main()
