#!/usr/bin/env python3
"""The simulator beside real pipelines: jobs whose tasks only wait, over TCP between network namespaces with shaped links,
and on simulated time. Prints images/s of both; of several runs the fastest, since other work on the machine only slows them.

usage: test/bench/pipeline_waits.py [BIN] [--repeats=N] [--only=TEXT]     as root; BIN: the folder of pipeline_waits
"""
import argparse
import os
import signal
import subprocess
import sys

import hybrid_hosts


class ShapedHosts(hybrid_hosts.Hosts):
    """Hosts whose links send no faster after a pause, as adapters, and drop nothing. TCP is as on most hosts (cubic)."""

    def shape(self, rate):
        for i in range(self.links):
            hybrid_hosts.run("ip", "-n", self.name(i), "route", "replace", "10.213.9.0/24", "dev", "eth0",
                             "src", self.address(i), "congctl", "cubic")
            hybrid_hosts.run(*self.prefix_of(i), "sysctl", "-qw", "net.ipv4.tcp_slow_start_after_idle=0")
            for namespace, device in ((self.name(i), "eth0"), (self.name("switch"), "port%d" % i)):
                hybrid_hosts.run("tc", "-n", namespace, "qdisc", "replace", "dev", device, "root", "tbf",
                                 "rate", rate, "burst", "16kb", "latency", "200ms")


# Every fourth forward pass of a replica, at random, takes 241 ms instead of 41.
LATE = "--replicas=3 --micro_batches=1 --row_kb=16 --shard_ms=11.3 --late_ms=200 --clocks=60"

# (what it shows, hosts of the nodes, links in Mbit/s, flags)
CASES = [
    ("compute alone", [0, 1, 2], 50, "--row_kb=1"),
    ("pools of one", [0, 1, 2], 50, "--row_kb=8 --pool=1 --shard_pool=1"),
    ("pools of two", [0, 1, 2], 50, "--row_kb=8 --pool=2 --shard_pool=2"),
    ("a shard's link is full", [0, 1, 2], 50, "--row_kb=64"),
    ("likewise, pools of one", [0, 1, 2], 50, "--row_kb=64 --pool=1 --shard_pool=2"),
    ("four replicas into one shard", [0, 1, 2, 3, 4], 50, "--replicas=4 --row_kb=32 --shard_ms=21.3"),
    ("two shards gather", [0, 1, 2, 3], 50, "--shards=2 --row_kb=24"),
    ("two replicas share a host", [0, 0, 1], 50, "--row_kb=32"),
    ("replicas and shard share hosts", [0, 1, 0], 50, "--row_kb=48"),
    ("data-parallel, exchange of 8 MB", [0, 1], 50, "--shards=0 --micro_batches=1 --exchange_mb=4"),
    ("data-parallel, 4 replicas, 8 MB", [0, 1, 2, 3], 50, "--replicas=4 --shards=0 --micro_batches=1 --exchange_mb=4"),
    ("exchange beside boundaries", [0, 1, 2], 50, "--row_kb=24 --exchange_mb=2"),
    ("late replicas", [0, 1, 2, 3], 50, LATE + " --pool=1"),
    ("likewise, staleness 1", [0, 1, 2, 3], 50, LATE + " --pool=2 --staleness=1"),
    ("likewise, staleness 4", [0, 1, 2, 3], 50, LATE + " --pool=5 --staleness=4"),
    ("likewise, a shard pool of 6", [0, 1, 2, 3], 50, LATE + " --pool=5 --staleness=4 --shard_pool=6"),
]


def rate(text):
    return float(text.split(" images/s")[0].split()[-1])


def run_case(binary, nodes, mbit, flags):
    """(simulated, measured) images/s."""
    hosts = ShapedHosts(max(nodes) + 1)
    processes = []
    try:
        hosts.shape("%dmbit" % mbit)
        addresses = "--addresses=" + ",".join(hosts.address(host) for host in nodes)
        command = [binary, addresses, *flags.split()]
        simulated = rate(hybrid_hosts.run(*command, "--simulate", "--mbit=%d" % mbit))
        for node, host in enumerate(nodes):
            processes.append(subprocess.Popen(
                ["nice", "-n", "-15", *hosts.prefix_of(host), *command, "--node=%d" % node], stdout=subprocess.PIPE,
                text=True))
        texts = [process.communicate(timeout=300)[0] for process in processes]
        return simulated, min(rate(text) for text in texts)
    finally:
        for process in processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()
        hosts.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", nargs="?", default="build/release/bin")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="cases with this in their flags or in what they show")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        print("SKIPPED: network namespaces need root")
        return 0
    print("| job | links, Mbit/s | measured | simulated | ratio |\n|---|---|---|---|---|")
    worst = 0
    for what, nodes, mbit, flags in CASES:
        if arguments.only not in what + flags:
            continue
        binary = os.path.join(arguments.bin, "pipeline_waits")
        runs = [run_case(binary, nodes, mbit, flags) for _ in range(arguments.repeats)]
        simulated, measured = runs[0][0], max(run[1] for run in runs)
        worst = max(worst, abs(simulated / measured - 1))
        print("| %s | %d | %.1f | %.1f | %.3f |" % (what, mbit, measured, simulated, simulated / measured), flush=True)
    print("largest difference: %.1f%%" % (100 * worst))
    return 0


if __name__ == "__main__":
    sys.exit(main())
