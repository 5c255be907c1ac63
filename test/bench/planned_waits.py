#!/usr/bin/env python3
"""The planner's choice beside its own next best tables and 14 tables named beforehand: AlexNet and VGG-16 on four hosts
whose links are shaped (tc tbf) and whose computing is replaced by timed waits, so that few cores stand for many. Pipelines,
TCP and rings are real; each run is a process for each node in a network namespace.

usage: test/bench/planned_waits.py [BIN] [--nets alexnet,vgg16] [--links 1000,200] [--best=10] [--slower=5]     as root

With --slower=N hosts compute and links carry N times less, which changes no ratio, and images/s are given times N: the
machine's own processors must not be what limits a link. Of each named table the number of micro-batches is taken that
is the fastest by simulation. A table that is simulated at less than --least of the choice's speed is not run.
"""
import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile

import hybrid_hosts
import pipeline_waits

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(HERE)), "examples")
HOSTS = 4
# Net: (batch, shape of a sample, clocks, last layer of the first of two conv stages, first of the second).
NETS = {"alexnet": (128, "3,227,227", 6, "pool2", "conv3"), "vgg16": (16, "3,224,224", 5, "pool3", "conv4_1")}
ALTERNATING = 'split { layer: "fc6" by: INPUTS } split { layer: "fc8" by: INPUTS }'


def named(net):
    """{name: (stages as (name, text, nodes), more text, stages whose shards lie beside the replicas)}"""
    _, _, _, last, first = NETS[net]
    conv, fc = 'kind: CONV to_layer: "pool5"', 'kind: FC from_layer: "fc6"'
    front = ("front", 'kind: CONV to_layer: "%s"' % last)
    back = 'kind: CONV from_layer: "%s"' % first
    tables = {"one machine": ([("conv", "kind: CONV", 1)], "", ())}
    for nodes in (2, 3, 4):
        tables["data-parallel, %d" % nodes] = ([("conv", "kind: CONV", nodes)], "", ())
    for nodes in (1, 2, 3):
        tables["%d conv + 1 FC" % nodes] = ([("conv", conv, nodes), ("fc", fc, 1)], "", ())
    tables["2 conv + 2 FC"] = ([("conv", conv, 2), ("fc", fc, 2)], ALTERNATING, ())
    tables["2 conv + 2 FC, scattered"] = ([("conv", conv, 2), ("fc", fc + " boundary: SCATTERED", 2)], "", ())
    tables["2 conv + fc6 + fc7, fc8"] = ([("conv", conv, 2), ("fca", fc + ' to_layer: "drop6"', 1),
                                          ("fcb", 'kind: FC from_layer: "fc7"', 1)], "", ())
    tables["4 conv, 1 FC beside"] = ([("conv", conv, 4), ("fc", fc, 1)], "", (1,))
    tables["4 conv, 4 FC beside"] = ([("conv", conv, 4), ("fc", fc, 4)], ALTERNATING, (1,))
    tables["conv 1 + conv 1 + 1 FC"] = ([(*front, 1), ("back", back + ' to_layer: "pool5"', 1), ("fc", fc, 1)], "", ())
    tables["conv 2 + conv and FC 2"] = ([(*front, 2), ("back", back, 2)], "", ())
    return tables


def table_text(solver, stages, more, beside, micro_batches):
    text = 'solver: "%s"\nmicro_batches: %d\n%s\n' % (solver, micro_batches, more)
    text += "".join('stage { name: "%s" %s }\n' % (name, rest) for name, rest, _ in stages)
    host = 0
    for stage, (name, _, nodes) in enumerate(stages):
        for index in range(nodes):
            if stage in beside:
                continue
            parts = "".join(" part { stage: %d index: %d }" % (other, index)
                            for other in beside if stage == 0 and index < stages[other][2])
            text += 'node { name: "%s%d" stage: %d index: %d host: "h%d" port: 29500%s }\n' % (
                name, index, stage, index, host, parts)
            host += 1
    return text


class Bench:
    def __init__(self, folder, binaries, net, mbit, slower):
        self.folder, self.binaries, self.net, self.slower = folder, binaries, net, slower
        mbit /= slower
        batch, self.sample, self.clocks, _, _ = NETS[net]
        with open(os.path.join(EXAMPLES, net, net + "_train_val.prototxt"), encoding="utf-8") as file:
            self.write("net.prototxt", re.sub(r"batch_size: \d+", "batch_size: %d" % batch, file.read()))
        self.solver = self.write(
            "solver.prototxt",
            'net: "%s/net.prototxt" base_lr: 0.01 lr_policy: "fixed" momentum: 0.9 max_iter: 1000' % folder)
        # hproute takes a link to carry 1448 of 1538 bytes, tc counts 1514 of them.
        self.hosts = self.write("hosts.prototxt", "".join(
            'host { name: "h%d" gflops: %g memory_gb_per_s: %g cores: 2 memory_mb: 16384 '
            'link_gbit_per_s: %g latency_us: 100 }\n' % (i, 200 / slower, 10 / slower, mbit / 1000)
            for i in range(HOSTS)))
        self.rate = "%dkbit" % round(mbit * 1000 * 1514 / 1538)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def tool(self, name, *flags):
        return hybrid_hosts.run(os.path.join(self.binaries, name), *flags)

    def waits(self, path, *flags):
        return [os.path.join(self.binaries, "pipeline_waits"), "--routing=" + path, "--hosts=" + self.hosts,
                "--sample=" + self.sample, "--clocks=%d" % self.clocks, *flags]

    def simulated(self, path):
        with open(path, encoding="utf-8") as file:
            nodes = re.findall(r'host: "h(\d+)"', file.read())
        return self.slower * pipeline_waits.rate(
            hybrid_hosts.run(*self.waits(path, "--simulate", "--addresses=" + ",".join(nodes))))

    def measured(self, path):
        with open(path, encoding="utf-8") as file:
            nodes = [int(host) for host in re.findall(r'host: "h(\d+)"', file.read())]
        hosts, processes = pipeline_waits.ShapedHosts(HOSTS), []
        try:
            hosts.shape(self.rate)
            addresses = "--addresses=" + ",".join(hosts.address(host) for host in nodes)
            for node, host in enumerate(nodes):
                processes.append(subprocess.Popen(
                    ["nice", "-n", "-15", *hosts.prefix_of(host), *self.waits(path, addresses, "--node=%d" % node)],
                    stdout=subprocess.PIPE, text=True))
            return self.slower * min(pipeline_waits.rate(process.communicate(timeout=580)[0]) for process in processes)
        finally:
            for process in processes:
                if process.poll() is None:
                    process.send_signal(signal.SIGKILL)
                    process.wait()
            hosts.close()

    def planned(self, number):
        path = os.path.join(self.folder, "plan%d.prototxt" % number)
        text = self.tool("hproute", "--solver=" + self.solver, "--plan=auto", "--take=%d" % number, "--sample=" + self.sample,
                         "--hosts=" + self.hosts, "--out=" + path)
        return re.search("plan: (.*)", text)[1], path

    def named(self):
        """(name, path) of each, with the number of micro-batches that is the fastest by simulation."""
        for number, (name, (stages, more, beside)) in enumerate(named(self.net).items()):
            best = (0, "", "")
            for micro_batches in (1, 2, 4, 8):
                if micro_batches * stages[0][2] > NETS[self.net][0]:
                    break
                path = self.write("tried.prototxt", table_text(self.solver, stages, more, beside, micro_batches))
                rate = self.simulated(path)
                if rate > best[0]:
                    with open(path, encoding="utf-8") as file:
                        best = (rate, "%s, micro-batches: %d" % (name, micro_batches), file.read())
            yield best[1], self.write("named%d.prototxt" % number, best[2])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", nargs="?", default="build/release/bin")
    parser.add_argument("--nets", default="alexnet,vgg16")
    parser.add_argument("--links", default="1000,200", help="Mbit/s")
    parser.add_argument("--best", type=int, default=10, help="of the planner's tables")
    parser.add_argument("--slower", type=float, default=5)
    parser.add_argument("--least", type=float, default=0.85)
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        print("SKIPPED: network namespaces need root")
        return 0
    print("| net | Mbit/s | table | simulated | measured | of the choice |\n|---|---|---|---|---|---|")
    for net in arguments.nets.split(","):
        for mbit in (int(link) for link in arguments.links.split(",")):
            with tempfile.TemporaryDirectory() as folder:
                bench = Bench(folder, arguments.bin, net, mbit, arguments.slower)
                tables = [bench.planned(number) for number in range(1, arguments.best + 1)]
                choice = 0
                for name, path in [*tables, *bench.named()]:
                    simulated = bench.simulated(path)
                    line = "| %s | %d | %s | %.2f |" % (net, mbit, name, simulated)
                    choice = choice or (simulated, bench.measured(path))
                    if simulated < arguments.least * choice[0]:
                        print(line + " - | - |", flush=True)
                        continue
                    measured = choice[1] if path.endswith("plan1.prototxt") else bench.measured(path)
                    print(line + " %.2f | %.3f |" % (measured, measured / choice[1]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
