#!/usr/bin/python3
"""Jobs whose nodes share a host: AlexNet with tensors copied from memory to memory beside the same over loopback TCP.

usage: test/bench/one_host.py [--bin build/release/bin] [--tables 1x1,2x0,2x1] [--rounds 4] [--seconds 8]

Tables are conv nodes x FC nodes, a thread each, with 16 images a conv node. Both sides run in turn; medians count, and
ratios are those of pairs. CPU s/image is of all processes; MB go through loopback in an iteration.
"""
import argparse
import os
import shutil
import statistics
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import hybrid_hosts
import hybrid_speed


class OneHost:
    """In place of hybrid_hosts.Hosts: all nodes are here."""

    def address(self, _):
        return "127.0.0.1"

    def prefix_of(self, _):
        return []

    def bytes(self):
        """[(sent, received)] over loopback so far, of all together."""
        with open("/proc/net/dev", encoding="ascii") as devices:
            fields = next(line.split() for line in devices if line.strip().startswith("lo:"))
        return [(int(fields[9]), int(fields[1]))]


class Side(hybrid_speed.Hpnode):
    """hpnode with a table's device_copies."""

    def __init__(self, args, folder, copies):
        self.copies = copies
        super().__init__(args, folder)

    def write_job(self, hosts, conv, fc, variant):
        super().write_job(hosts, conv, fc, variant)
        with open(self.path("table.prototxt"), "a", encoding="ascii") as table:
            table.write("transport { device_copies: %s }\n" % self.copies)


def measure(side, conv, fc, variant, seconds):
    side.write_job(OneHost(), conv, fc, variant)
    job = hybrid_hosts.Job(side.folder, OneHost(), 1)
    try:
        for i in range(conv + fc):
            node = "conv%d" % i if i < conv else "fc%d" % (i - conv)
            job.start([os.path.join(side.bin, "hpnode"), "--routing=" + side.path("table.prototxt"), "--node=" + node],
                      {"OMP_WAIT_POLICY": "passive"})
        seconds_each, cpu_s, wire = job.measure(conv if fc else 0, hybrid_speed.WARM_UP, seconds)
        images = hybrid_speed.BATCH * conv
        return images / seconds_each, cpu_s / images, wire[0][0]
    finally:
        job.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=os.path.join(hybrid_speed.ROOT, "build/release/bin"))
    parser.add_argument("--tables", default="1x1,2x0,2x1", help="conv nodes x FC nodes")
    parser.add_argument("--variant", default="2:0:1:1", help=hybrid_speed.Hpnode.__doc__)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=8, help="measured at least, in each round")
    args = parser.parse_args()
    args.hpnode, args.flags, args.detail = args.variant, "", False
    hybrid_hosts.raise_on_signals()
    folder = tempfile.mkdtemp(prefix="one-host-")
    try:
        sides = []
        for copies in ("ON", "OFF"):
            os.mkdir(os.path.join(folder, copies))
            sides.append(Side(args, os.path.join(folder, copies), copies))
        print(hybrid_hosts.loads())
        print("| nodes | copied: images/s (CPU s/image; MB over loopback) | sent | ratio | of CPU |\n|---|---|---|---|---|")
        for table in args.tables.split(","):
            conv, fc = map(int, table.split("x"))
            rounds = []
            for turn in range(args.rounds):
                results = {side.copies: measure(side, conv, fc, args.variant, args.seconds)
                           for side in (sides if turn % 2 == 0 else sides[::-1])}
                rounds.append((results["ON"], results["OFF"]))
            cells = ["%.1f (%.4f; %.1f)" % tuple(statistics.median(pair[side][i] for pair in rounds) for i in range(3))
                     for side in (0, 1)]
            ratios = ["%.3f" % statistics.median(on[i] / off[i] for on, off in rounds) for i in (0, 1)]
            print("| %d conv + %d FC | %s |" % (conv, fc, " | ".join(cells + ratios)), flush=True)
        print(hybrid_hosts.loads())
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
