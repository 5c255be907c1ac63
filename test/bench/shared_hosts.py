#!/usr/bin/python3
"""Replicas that share hosts: AlexNet's conv layers on 2 hosts of 2 replicas each and their FC layers on a third, where
each host sums its replicas' gradients before they cross its link, beside the same with an address for each replica, so
that the table does not know who shares a host.

usage (root): test/bench/shared_hosts.py [--bin build/release/bin] [--links 1gbit,200mbit,100mbit] [--precisions FP32,BF16]
                  [--rounds 3] [--seconds 8]

Hosts are network namespaces (hybrid_hosts.py), a thread for each node, 16 images a replica. Both sides run in turn;
medians count, and ratios are those of pairs. MB are what the first host sends in an iteration.
"""
import argparse
import itertools
import os
import re
import shutil
import statistics
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import hybrid_hosts
import hybrid_speed

CONV, PER_HOST, FC = 4, 2, 1


class SharedHosts:
    """Nodes in place of hybrid_hosts.Hosts' hosts. The second replica of a host has an address of its own, too."""

    def __init__(self):
        self.hosts = hybrid_hosts.Hosts(CONV // PER_HOST + FC)
        self.known = True  # whether nodes go by their host's first address
        for host in range(CONV // PER_HOST):
            hybrid_hosts.run("ip", "-n", self.hosts.name(host), "address", "add", self.second(host) + "/24", "dev", "eth0")

    def second(self, host):
        return "10.213.9.%d" % (100 + host)

    def host_of(self, node):
        return node // PER_HOST if node < CONV else CONV // PER_HOST + node - CONV

    def address(self, node):
        host = self.host_of(node)
        first = node >= CONV or node % PER_HOST == 0 or self.known
        return self.hosts.address(host) if first else self.second(host)

    def prefix_of(self, node):
        return self.hosts.prefix_of(self.host_of(node))

    def bytes(self):
        return self.hosts.bytes()

    def shape(self, rate):
        self.hosts.shape(rate)

    def close(self):
        self.hosts.close()


def measure(side, hosts, variant, seconds):
    side.write_job(hosts, CONV, FC, variant)
    # For hproute each address is a host with ports of its own.
    ports = itertools.count(29500)
    with open(side.path("table.prototxt"), encoding="ascii") as table:
        text = re.sub(r"port: \d+", lambda _: "port: %d" % next(ports), table.read())
    side.write("table.prototxt", text)
    job = hybrid_hosts.Job(side.folder, hosts, 1)
    try:
        for i in range(CONV + FC):
            node = "conv%d" % i if i < CONV else "fc%d" % (i - CONV)
            job.start([os.path.join(side.bin, "hpnode"), "--routing=" + side.path("table.prototxt"), "--node=" + node],
                      {"OMP_WAIT_POLICY": "passive"})
        seconds_each, _, wire = job.measure(CONV, hybrid_speed.WARM_UP, seconds)
        return hybrid_speed.BATCH * CONV / seconds_each, wire[0][0]
    finally:
        job.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=os.path.join(hybrid_speed.ROOT, "build/release/bin"))
    parser.add_argument("--links", default="1gbit,200mbit,100mbit")
    parser.add_argument("--precisions", default="FP32,BF16", help="wire_precision")
    parser.add_argument("--variant", default="2:0:1:1", help=hybrid_speed.Hpnode.__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8, help="measured at least, in each round")
    args = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("network namespaces need root")
    args.hpnode, args.flags, args.detail = args.variant, "", False
    hybrid_hosts.raise_on_signals()
    folder = tempfile.mkdtemp(prefix="shared-hosts-")
    hosts = None
    try:
        hosts = SharedHosts()
        side = hybrid_speed.Hpnode(args, folder)
        print(hybrid_hosts.loads())
        print("| link, wire | hosts sum first: images/s (MB) | each replica by itself | ratio |\n|---|---|---|---|")
        for link in args.links.split(","):
            hosts.shape(None if link == "none" else link)
            for precision in args.precisions.split(","):
                rounds = []
                for turn in range(args.rounds):
                    results = {}
                    for known in ((True, False) if turn % 2 == 0 else (False, True)):
                        hosts.known = known
                        results[known] = measure(side, hosts, args.variant + ":" + precision, args.seconds)
                    rounds.append((results[True], results[False]))
                cells = ["%.1f (%.1f)" % tuple(statistics.median(pair[side_of][i] for pair in rounds) for i in (0, 1))
                         for side_of in (0, 1)]
                ratio = statistics.median(first[0] / second[0] for first, second in rounds)
                print("| %s, %s | %s | %.2f |" % (link, precision, " | ".join(cells), ratio), flush=True)
        print(hybrid_hosts.loads())
    finally:
        if hosts:
            hosts.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
