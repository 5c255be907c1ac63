#!/usr/bin/python3
"""Hybrid training of AlexNet over slow links: hpnode beside PyTorch DDP and beside a hybrid written by hand in PyTorch.

usage (root): test/bench/hybrid_speed.py [--bin build/release/bin] [--quick] [--tables 2x1,3x1,2x2]
                  [--links none,1gbit,200mbit] [--rounds 3] [--seconds 6] [--nice N]
              test/bench/hybrid_speed.py --only hpnode --tables 2x1 --links none --hpnode 2:0:1:1,4:0:1:1

Each node is a host of its own, a network namespace on a bridge, whose link is shaped in both directions. 2x1 is two conv
nodes and one FC node, with 16 images a conv worker; DDP has as many workers as there are conv nodes. For each table and
link, every side first tries its variants once, and the best one is what the rounds measure, sides in turn; medians
count. MB are those of interfaces, of the node that sends or receives most, in one iteration. CPU s/image is the
CPU time of all processes: on a machine that is busy with other work it says more than images/s.
Debian packages: iproute2, python3-torch.
"""
import argparse
import collections
import os
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import hybrid_hosts

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BATCH = 16  # images of a conv worker
RECORDS = 96
SIDE = 256
WARM_UP = 2  # iterations
SIDES = ("hpnode", "hybrid", "ddp")

Result = collections.namedtuple("Result", "images_per_s cpu_s_per_image sent_mb received_mb per_node")


def random_png(side):
    """A colour image, [side, side]."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + os.urandom(3 * side) for _ in range(side))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))


class Hpnode:
    """Variants are micro_batches:pool_size:threads of a conv node:threads of an FC node (pool 0: hpnode's choice), and
    with :BF16 behind, the wire_precision."""

    name = "hpnode"

    def __init__(self, args, folder):
        self.bin, self.folder = os.path.abspath(args.bin), folder
        self.variants = args.hpnode.split(",")
        self.flags, self.detail = args.flags.split(), args.detail
        self.make_images()

    def make_images(self):
        os.mkdir(self.path("images"))
        with open(self.path("list.txt"), "w", encoding="ascii") as names:
            for i in range(RECORDS):
                with open(self.path("images/%d.png" % i), "wb") as image:
                    image.write(random_png(SIDE))
                names.write("%d.png %d\n" % (i, i * 10))
        hybrid_hosts.run(os.path.join(self.bin, "convert_imageset"), "--backend=leveldb", self.path("images/"),
                         self.path("list.txt"), self.path("db"))
        shutil.rmtree(self.path("images"))

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="ascii") as out:
            out.write(text)

    def write_job(self, hosts, conv, fc, variant):
        fields = variant.split(":")
        micro_batches, pool, conv_threads, fc_threads = map(int, fields[:4])
        with open(os.path.join(ROOT, "examples/alexnet/alexnet_train_val.prototxt"), encoding="ascii") as net:
            text = net.read()
        text = re.sub(r'source: "[^"]*"', 'source: "%s"' % self.path("db"), text)
        text = re.sub(r'mean_file: "[^"]*"', "mean_value: 128", text)
        self.write("net.prototxt", re.sub(r"batch_size: \d+", "batch_size: %d" % (BATCH * conv), text))
        self.write("solver.prototxt", 'net: "net.prototxt"\nbase_lr: 0.0001\nlr_policy: "fixed"\nmomentum: 0.9\n'
                   "weight_decay: 0.0005\ndisplay: 1\nmax_iter: 1000000\nrandom_seed: 1\n")
        addresses = ",".join(hosts.address(i) for i in range(conv + fc))
        hybrid_hosts.run(os.path.join(self.bin, "hproute"), "--solver=" + self.path("solver.prototxt"),
                         "--conv=%d" % conv, "--fc=%d" % fc, "--hosts=" + addresses,
                         "--wire_precision=" + (fields[4] if len(fields) > 4 else "FP32"),
                         "--micro_batches=%d" % micro_batches, "--out=" + self.path("table.prototxt"))
        with open(self.path("table.prototxt"), encoding="ascii") as table:
            text = table.read()
        for role, threads in (("conv", conv_threads), ("fc", fc_threads)):
            text = re.sub(r'(name: "%s\d+"\n  stage:)' % role, "threads: %d\n  pool_size: %d\n  \\1" % (threads, pool), text)
        self.write("table.prototxt", text)

    def measure(self, hosts, conv, fc, variant, seconds):
        self.write_job(hosts, conv, fc, variant)
        job = hybrid_hosts.Job(self.folder, hosts, conv + fc)
        try:
            for i in range(conv + fc):
                node = "conv%d" % i if i < conv else "fc%d" % (i - conv)
                command = [os.path.join(self.bin, "hpnode"), "--routing=" + self.path("table.prototxt"),
                           "--node=" + node, *self.flags]
                job.start(command, {"OMP_WAIT_POLICY": "passive"})
            result = result_of(job.measure(conv, WARM_UP, seconds), conv)
            if self.detail:
                show_threads(job)
            return result
        finally:
            job.close()


class Torch:
    """Variants are threads of a conv node:threads of an FC node:1 for channels_last."""

    def __init__(self, args, folder, how):
        self.name, self.folder, self.python = how, folder, args.python
        self.variants = (args.hybrid if how == "hybrid" else args.ddp).split(",")

    def measure(self, hosts, conv, fc, variant, seconds):
        conv_threads, fc_threads, channels_last = variant.split(":")
        job = hybrid_hosts.Job(self.folder, hosts, conv + (fc if self.name == "hybrid" else 0))
        try:
            for i in range(job.count):
                threads = conv_threads if i < conv else fc_threads
                command = [self.python, os.path.join(HERE, "hybrid_torch.py"), "--how=" + self.name, "--rank=%d" % i,
                           "--conv=%d" % conv, "--fc=%d" % fc, "--batch=%d" % BATCH, "--threads=" + threads,
                           "--channels_last=" + channels_last]
                job.start(command, {"MASTER_ADDR": hosts.address(0), "MASTER_PORT": "29400",
                                    "OMP_NUM_THREADS": threads, "OMP_WAIT_POLICY": "passive"})
            return result_of(job.measure(conv if self.name == "hybrid" else 0, WARM_UP, seconds), conv)
        finally:
            job.close()


def result_of(measured, conv):
    seconds, cpu_s, wire = measured
    return Result(BATCH * conv / seconds, cpu_s / (BATCH * conv), max(s for s, _ in wire), max(r for _, r in wire), wire)


def median_of(results):
    return Result(*(statistics.median(r[i] for r in results) for i in range(4)), results[0].per_node)


def show(what, result):
    nodes = " ".join("%.1f/%.1f" % node for node in result.per_node)
    print("    %-24s %6.1f images/s  %.4f CPU s/image  MB sent/received by node: %s" %
          (what, result.images_per_s, result.cpu_s_per_image, nodes), flush=True)


def show_threads(job):
    for (process, thread), seconds in sorted(job.threads.items()):
        if seconds >= 0.001:
            print("        process %d, thread %-16s %7.1f ms of CPU an iteration" % (process, thread, seconds * 1e3))


def choose(side, hosts, conv, fc, seconds):
    """The side's best variant."""
    if len(side.variants) == 1:
        return side.variants[0]
    results = {variant: side.measure(hosts, conv, fc, variant, seconds) for variant in side.variants}
    for variant, result in results.items():
        show("try %s %s" % (side.name, variant), result)
    return max(results, key=lambda variant: results[variant].images_per_s)


def compare(sides, hosts, conv, fc, link, args):
    """Prints the results of one table on one link. Returns a row of the final table."""
    hosts.shape(None if link == "none" else link)
    chosen = {side.name: choose(side, hosts, conv, fc, args.try_seconds) for side in sides}
    results = collections.defaultdict(list)
    for turn in range(args.rounds):
        for side in sides[turn % len(sides):] + sides[:turn % len(sides)]:
            results[side.name].append(side.measure(hosts, conv, fc, chosen[side.name], args.seconds))
            show("%s %s" % (side.name, chosen[side.name]), results[side.name][-1])
    medians = {name: median_of(all_results) for name, all_results in results.items()}
    return row(conv, fc, link, chosen, medians)


def row(conv, fc, link, chosen, medians):
    cells = ["%d conv + %d FC" % (conv, fc), "unshaped" if link == "none" else link]
    for side in SIDES:
        if side not in medians:
            cells.append("")
            continue
        m = medians[side]
        cells.append("%.1f (%.3f; %.0f / %.0f; %s)" %
                     (m.images_per_s, m.cpu_s_per_image, m.sent_mb, m.received_mb, chosen[side]))
    for other in SIDES[1:]:
        both = "hpnode" in medians and other in medians
        cells.append("%.2f" % (medians["hpnode"].images_per_s / medians[other].images_per_s) if both else "")
    return "| " + " | ".join(cells) + " |"


HEAD = """| nodes | links | hpnode: images/s (CPU s/image; MB sent / received; variant) | hybrid by hand | DDP | hpnode / hybrid | hpnode / DDP |
|---|---|---|---|---|---|---|"""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin"))
    parser.add_argument("--python", default=sys.executable, help="with PyTorch (the default runs this file)")
    parser.add_argument("--tables", default="2x1,3x1,2x2", help="conv nodes x FC nodes")
    parser.add_argument("--links", default="none,1gbit,200mbit")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6, help="measured at least, in each round")
    parser.add_argument("--try_seconds", type=float, default=4, help="for each variant before the rounds")
    parser.add_argument("--only", default=",".join(SIDES), help="sides")
    parser.add_argument("--hpnode", default="1:0:1:2,2:0:1:2,1:0:2:2,2:0:1:1", help=Hpnode.__doc__)
    parser.add_argument("--hybrid", default="1:2:0,1:1:0,2:2:0,1:2:1", help=Torch.__doc__)
    parser.add_argument("--ddp", default="2:2:0,1:1:0,2:2:1", help=Torch.__doc__)
    parser.add_argument("--flags", default="", help="more flags of hpnode, with spaces between")
    parser.add_argument("--detail", action="store_true", help="CPU time of hpnode's threads")
    parser.add_argument("--keep", help="folder to keep the logs of the last job in")
    parser.add_argument("--nice", type=int, default=0, help="of all sides, where other work must not disturb")
    parser.add_argument("--quick", action="store_true", help="one table, unshaped and 200mbit, one round, no variants")
    args = parser.parse_args()
    if args.quick:
        args.tables, args.links, args.rounds, args.seconds = "2x1", "none,200mbit", 1, 4
        for side in SIDES:
            setattr(args, side, getattr(args, side).split(",")[0])
    return args


def main():
    args = arguments()
    if os.geteuid() != 0:
        sys.exit("network namespaces need root")
    tables = [tuple(map(int, table.split("x"))) for table in args.tables.split(",")]
    hybrid_hosts.raise_on_signals()
    priority = hybrid_hosts.Priority(args.nice)
    print(hybrid_hosts.loads(), flush=True)
    folder = tempfile.mkdtemp(prefix="hybrid-speed-")
    hosts = None
    try:
        hosts = hybrid_hosts.Hosts(max(conv + fc for conv, fc in tables))
        sides = [Hpnode(args, folder) if name == "hpnode" else Torch(args, folder, name) for name in args.only.split(",")]
        rows = []
        for conv, fc in tables:
            for link in args.links.split(","):
                print("%d conv + %d FC, link: %s; %s" % (conv, fc, link, hybrid_hosts.loads()), flush=True)
                rows.append(compare(sides, hosts, conv, fc, link, args))
        print(HEAD, *rows, sep="\n")
        print(hybrid_hosts.loads())
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        if args.keep:
            shutil.copytree(folder, args.keep, dirs_exist_ok=True, ignore=shutil.ignore_patterns("db"))
        if hosts:
            hosts.close()
        shutil.rmtree(folder, ignore_errors=True)
        priority.close()


if __name__ == "__main__":
    main()
