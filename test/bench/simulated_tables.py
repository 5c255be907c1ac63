#!/usr/bin/env python3
"""Predicted speed of AlexNet, VGG-16 and a head of ten million classes on many hosts: hybrid beside data-parallel.

usage: test/bench/simulated_tables.py [--bin build/release/bin] [--nodes 8,64,512] [--links 1,25,100] [--nets alexnet,...]

Prints a line of a Markdown table for each net, number of nodes and link: images/s of plain data parallelism and of the
fastest of some hybrid tables, as hproute --simulate predicts them. Each node is a host with a device as HostConfig
supposes it: 10 TFLOP/s, 500 GB/s; 20 us from host to host. No such host is needed.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(HERE)), "examples")

SPLIT = 'split { layer: "fc7" by: INPUTS }'
# Net: (its file in examples, images of a node, shape of a sample, last conv layer, first FC layer, splits).
NETS = {
    "alexnet": ("alexnet/alexnet_train_val.prototxt", 128, "3,227,227", "pool5", "fc6", SPLIT),
    "vgg16": ("vgg16/vgg16_train_val.prototxt", 32, "3,224,224", "pool5", "fc6", SPLIT),
    # AlexNet's convolutions, 512 features, ten million classes.
    "head": ("alexnet/alexnet_train_val.prototxt", 64, "3,227,227", "pool5", "features", ""),
}
HEAD = """
layer { name: "features" type: "InnerProduct" bottom: "pool5" top: "features" inner_product_param { num_output: 512 } }
layer { name: "head" type: "InnerProduct" bottom: "features" top: "head"
        inner_product_param { num_output: 10000000 bias_term: false } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "head" bottom: "label" top: "loss" }
"""
# Nodes: the numbers of shards that are tried, on nodes of their own and beside the first replicas.
SHARDS = {8: (1, 2, 4, 8), 64: (1, 4, 8), 512: (8,)}


def write_job(folder, name, total):
    file, batch, _, _, first, _ = NETS[name]
    batch *= total or 1
    with open(os.path.join(EXAMPLES, file), encoding="utf-8") as net:
        text = re.sub(r"batch_size: \d+", "batch_size: %d" % batch, net.read())
    if name == "head":
        text = text[:text.index('layer {\n  name: "fc6"')] + HEAD
    with open(os.path.join(folder, name + ".prototxt"), "w", encoding="utf-8") as net:
        net.write(text)
    with open(os.path.join(folder, name + "_solver.prototxt"), "w", encoding="utf-8") as solver:
        solver.write('net: "%s.prototxt" base_lr: 0.01 lr_policy: "fixed" momentum: 0.9 max_iter: 1000\n' % name)
    return first


def write_hosts(folder, nodes, gbit):
    path = os.path.join(folder, "hosts.prototxt")
    with open(path, "w", encoding="utf-8") as hosts:
        for i in range(nodes):
            hosts.write('host { name: "h%d" device: "cuda:0" link_gbit_per_s: %g latency_us: 20 }\n' % (i, gbit))
    return path


def write_table(folder, name, nodes, shards, beside, micro_batches, total):
    """Of `nodes` nodes; shards 0: data-parallel. total: the batch is that of all replicas."""
    _, _, _, last, first, split = NETS[name]
    text = 'solver: "%s_solver.prototxt" batch: %s micro_batches: %d %s\n' % (
        name, "GLOBAL" if total else "PER_REPLICA", micro_batches, split if shards > 1 else "")
    text += 'stage { kind: CONV%s }\n' % (' to_layer: "%s"' % last if shards else "")
    text += 'stage { kind: FC from_layer: "%s" }\n' % first if shards else ""
    replicas = nodes if beside or not shards else nodes - shards
    for i in range(nodes):
        stage = "stage: 0 index: %d" % i if i < replicas else "stage: 1 index: %d" % (i - replicas)
        part = " part { stage: 1 index: %d }" % i if beside and i < shards else ""
        text += 'node { name: "n%d" %s%s host: "h%d" port: 29500 device: "cuda:0" }\n' % (i, stage, part, i)
    path = os.path.join(folder, "table.prototxt")
    with open(path, "w", encoding="utf-8") as table:
        table.write(text)
    return path


def simulate(binary, table, hosts, sample):
    """(images/s, bottleneck, seconds that the simulation took)."""
    done = subprocess.run([binary, "--simulate", table, "--hosts=" + hosts, "--sample=" + sample, "--cache_dir=none"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stdout)
    text = done.stdout
    return (float(re.search(r"([\d.]+) images/s", text)[1]), re.search(r"bottleneck: (.*)", text)[1],
            float(re.search(r"in ([\d.]+) s$", text, re.M)[1]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--nodes", default="8,64,512")
    parser.add_argument("--links", default="1,25,100")
    parser.add_argument("--total", type=int, default=0, metavar="N",
                        help="a batch of all replicas together, of N times the images; 0: of each replica")
    parser.add_argument("--shards", help="numbers of shards to try, such as 8,32; by default a few")
    parser.add_argument("--nets", default=",".join(NETS))
    arguments = parser.parse_args()
    binary = os.path.join(os.path.abspath(arguments.bin), "hproute")
    print("| net | nodes | Gbit/s | data-parallel, images/s | hybrid, images/s | with | speed-up | bottleneck |")
    print("|---" * 8 + "|")
    longest = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.nets.split(","):
            write_job(folder, name, arguments.total)
            for nodes in map(int, arguments.nodes.split(",")):
                for gbit in map(float, arguments.links.split(",")):
                    hosts = write_hosts(folder, nodes, gbit)
                    results = []
                    candidates = [(0, False, 1)]
                    numbers = map(int, arguments.shards.split(",")) if arguments.shards else SHARDS.get(nodes, (1, 4))
                    candidates += [(shards, beside, 4 if nodes < 64 else 1) for shards in numbers
                                   for beside in (False, True) if beside or shards < nodes]
                    for shards, beside, micro_batches in candidates:
                        table = write_table(folder, name, nodes, shards, beside, micro_batches, arguments.total)
                        speed, bottleneck, took = simulate(binary, table, hosts, NETS[name][2])
                        longest = max(longest, took)
                        results.append((speed, "%d shards%s" % (shards, " beside replicas" if beside else ""), bottleneck))
                        print(name, nodes, gbit, *results[-1], took, file=sys.stderr, flush=True)
                    best = max(results[1:])
                    print("| %s | %d | %g | %.0f | %.0f | %s | %.1f | %s |" % (
                        name, nodes, gbit, results[0][0], best[0], best[1], best[0] / results[0][0], best[2]), flush=True)
    print("the longest simulation took %.1f s" % longest)
    return 0


if __name__ == "__main__":
    sys.exit(main())
