"""Bytes on the wire: what interfaces count beside the tensors that nodes count, and the gauge's limit of a link."""

import json
import re
import subprocess

import cluster
import cut_link_test

ITERATIONS = 10
# Frames, TCP and IP headers, acknowledgements, grants, reports and heartbeats; and what nodes say before they train.
OVERHEAD, START = 0.06, 100_000
# 512 channels of 5 x 5: 12 samples of them are 614 kB.
WIDE = cluster.NET.replace("num_output: 4 kernel_size", "num_output: 512 kernel_size")
# As wide at the boundary, and next to nothing to compute: without AVX512, oneDNN has no fast weight gradient of a
# convolution with one input channel.
TILED = cluster.NET.replace('layer { name: "pool1" type: "Pooling" bottom: "conv1"',
                            'layer { name: "wide" type: "Tile" bottom: "conv1" top: "wide" tile_param { tiles: 128 } }\n'
                            'layer { name: "pool1" type: "Pooling" bottom: "wide"')


class LinkBytesTest(cut_link_test.Hosts):

    def on_links(self, name):
        """(sent, received) of a host so far, as its port of the switch counts them."""
        said = subprocess.run(["ip", "-n", self.name("switch"), "-j", "-s", "link"], check=True, stdout=subprocess.PIPE)
        stats = {link["ifname"]: link["stats64"] for link in json.loads(said.stdout)}["port%d" % self.hosts.index(name)]
        return stats["rx"]["bytes"], stats["tx"]["bytes"]

    def run_hosts(self, conv, fc, rate=None, edit=lambda table: table):
        names = ["conv%d" % i for i in range(conv)] + ["fc%d" % i for i in range(fc)]
        self.make_table(conv=conv, fc=fc, hosts=self.make_hosts(names, rate))
        self.write("table.prototxt", edit(self.read("table.prototxt").decode()))
        nodes = [self.start(name=name, prefix=self.on_host(name)) for name in names]
        self.expect_all(nodes, 0, "Optimization Done")
        return nodes

    def check(self, nodes):
        for node in nodes:
            counted = list(map(int, re.search(r"sent (\d+) and received (\d+) bytes of tensors", node.text()).groups()))
            for tensors, link in zip(counted, self.on_links(node.name)):
                print("    %s: %d bytes of tensors, %d on the link" % (node.name, tensors, link))
                self.assertGreater(tensors, 10 * START)
                self.assertGreaterEqual(link, tensors)
                self.assertLessEqual(link, tensors * (1 + OVERHEAD) + START)

    def test_boundaries_direct(self):
        self.make_job(iterations=ITERATIONS, net=WIDE)
        self.check(self.run_hosts(2, 2))

    def test_boundaries_scattered(self):
        self.make_job(iterations=ITERATIONS, net=WIDE)
        self.check(self.run_hosts(2, 2, edit=lambda table: table.replace('"ip1"', '"ip1" boundary: SCATTERED')))

    def test_boundaries_in_bfloat16(self):
        self.make_job(iterations=ITERATIONS, net=WIDE)
        nodes = self.run_hosts(1, 2, edit=lambda table: "wire_precision: BF16\n" + table)
        self.check(nodes)
        self.assertRegex(nodes[0].text(), "sent %d and received" % (ITERATIONS * 2 * 12 * 512 * 5 * 5 * 2))

    def test_the_exchange(self):
        self.make_job(iterations=ITERATIONS, hidden=4000)
        self.check(self.run_hosts(3, 0))

    def test_the_exchange_in_bfloat16(self):
        self.make_job(iterations=ITERATIONS, hidden=4000)
        nodes = self.run_hosts(3, 0, edit=lambda table: "wire_precision: BF16\n" + table)
        self.check(nodes)
        sent = int(re.search(r"sent (\d+) and", nodes[0].text()).group(1))
        values = 4 * 9 + 4 + 100 * 4000 + 4000 + 4000 * 4 + 4
        self.assertAlmostEqual(sent, ITERATIONS * 2 * 2 / 3 * values * 2, delta=0.001 * sent)

    def test_replicas_of_a_host_sum_first(self):
        """Of two hosts each sends one sum of its own, halved among the blocks of both, and as much of the sum of all."""
        values = 4 * 9 + 4 + 100 * 4000 + 4000 + 4000 * 4 + 4
        hosts = self.make_hosts(["a", "b"])
        for precision, value_bytes in (("FP32", 4), ("BF16", 2)):
            with self.subTest(precision=precision):
                self.make_job(iterations=ITERATIONS, hidden=4000)
                names = self.make_table(conv=4, fc=0, hosts=[hosts[0], hosts[1], hosts[1], hosts[0]],
                                        extra="wire_precision: " + precision)
                before = [self.on_links(host) for host in self.hosts]
                nodes = [self.start(name=name, prefix=self.on_host(host)) for name, host in zip(names, "abba")]
                self.expect_all(nodes, 0, "Optimization Done")
                expected = ITERATIONS * values * value_bytes
                for host, begin in zip(self.hosts, before):
                    for way, (first, last) in enumerate(zip(begin, self.on_links(host))):
                        print("    %s, way %d: %d bytes of sums, %d on the link" % (host, way, expected, last - first))
                        self.assertGreaterEqual(last - first, 0.999 * expected)
                        self.assertLessEqual(last - first, expected * (1 + OVERHEAD) + 2 * START)

    def test_the_gauge_knows_the_limit_of_a_link(self):
        self.make_job(iterations=ITERATIONS, net=TILED)
        nodes = self.run_hosts(1, 1, rate="40mbit", edit=lambda table: re.sub(
            r"(name: \"\w+\" stage: \d)", r"\1 link_gbit_per_s: 0.04", table))
        sent = int(re.search(r"sent (\d+) and", nodes[0].text()).group(1)) / ITERATIONS
        line = re.findall(r"gauge: iterations 0 to 9 took ([\d.]+) ms each, limit ([\d.]+) ms \(host \S+ (?:sends|receives) "
                          r"([\d.]+) MB over 0.04 Gbit/s\): (\d+)% reached", nodes[0].text())
        self.assertEqual(len(line), 1, nodes[0].text())
        took, limit, megabytes, reached = map(float, line[0])
        self.assertAlmostEqual(megabytes, sent / 1e6, delta=0.06)
        self.assertAlmostEqual(limit, sent * 8 / 0.04e9 * 1e3, delta=0.06)
        self.assertAlmostEqual(reached, 100 * limit / took, delta=1)
        self.assertGreater(took, 0.9 * limit)  # the token bucket lets a burst pass


if __name__ == "__main__":
    cluster.main()
