"""Bytes: what nodes count while they train is what hproute --check says of each iteration, to the byte."""

import re

import cluster

ITERATIONS = 10
INPUTS = 'split { layer: "ip2" by: INPUTS }'
LEAD = 'split { layer: "ip1" by: NONE }'


class PayloadTest(cluster.JobTest):

    def promised(self):
        """{node: (sent, received)} of an iteration."""
        status, text = cluster.run_tool("hproute", "--check", self.path("table.prototxt"), "--cache_dir=none")
        self.assertEqual(status, 0, text)
        found = re.findall(r'node "(\w+)":(?:.*\n)+?  sends (\d+) bytes and receives (\d+) bytes in each iteration', text)
        return {name: (int(sent), int(received)) for name, sent, received in found}

    def check(self, names):
        promised, counted = self.promised(), self.counted(names)
        self.assertEqual(sorted(promised), sorted(names))
        self.assertEqual(counted, {name: (sent * ITERATIONS, received * ITERATIONS)
                                   for name, (sent, received) in promised.items()})
        self.assertEqual(sum(sent for sent, _ in counted.values()), sum(received for _, received in counted.values()))
        if len(names) > 1:
            self.assertTrue(all(sent > 0 for sent, _ in counted.values()), counted)

    def counted(self, names):
        nodes = [self.start(name=name) for name in names]
        self.expect_all(nodes, 0, "Optimization Done")
        found = {}
        for node in nodes:
            line = re.search(r"node (\w+): sent (\d+) and received (\d+) bytes of tensors in (\d+) iterations", node.text())
            self.assertIsNotNone(line, node.text())
            self.assertEqual(int(line.group(4)), ITERATIONS)
            found[line.group(1)] = (int(line.group(2)), int(line.group(3)))
        return found

    def test_tables(self):
        self.make_job(iterations=ITERATIONS, test=True)
        # Conv nodes, FC nodes, and what else the table says. 4 classes: with 5 shards they are gathered.
        for conv, fc, extra, boundary in ((1, 1, "", ""), (2, 0, "", ""), (4, 2, "", ""), (2, 3, INPUTS, ""), (1, 2, LEAD, ""),
                                          (2, 4, "", "boundary: SCATTERED"), (1, 5, INPUTS, "boundary: SCATTERED")):
            with self.subTest(conv=conv, fc=fc, extra=extra, boundary=boundary):
                names = self.make_table(conv=conv, fc=fc, micro_batches=2)
                table = self.read("table.prototxt").decode()
                table = table.replace('from_layer: "ip1"', 'from_layer: "ip1" ' + boundary) + extra + "\n"
                self.write("table.prototxt", table)
                self.check(names)

    def test_parameter_servers(self):
        self.make_job(iterations=ITERATIONS, test=True)
        for conv, fc, servers, staleness in ((2, 1, 1, 0), (3, 2, 2, 0), (2, 0, 3, 2), (1, 1, 1, 1)):
            with self.subTest(conv=conv, fc=fc, servers=servers, staleness=staleness):
                self.check(self.make_table(conv=conv, fc=fc, servers=servers, staleness=staleness))

    def test_sets_of_layers(self):
        self.make_job(iterations=ITERATIONS, test=True)
        above = 'kind: FC layer: "ip?" layer: "relu2" layer: "drop"'
        for stages in ([("a", 'kind: CONV to_layer: "relu1"', 2), ("b", 'kind: CONV from_layer: "pool1"', 4)],
                       [("a", "kind: CONV", 2), ("b", above, 2)],
                       [("a", 'kind: CONV to_layer: "conv1"', 1), ("c", 'kind: FC from_layer: "ip1"', 3),
                        ("b", 'kind: CONV from_layer: "relu1" to_layer: "pool1"', 2)]):
            with self.subTest(stages=stages):
                self.check(self.make_table(micro_batches=2, stages=stages))

    def test_replicas_that_share_hosts(self):
        self.make_job(iterations=ITERATIONS, test=True)
        here, there = "127.0.0.1", "127.0.0.2"
        for hosts, extra in (([here, here, there, there], ""), ([here, there, there, here, there], ""),
                             ([here, here, there, there], "wire_precision: BF16")):
            with self.subTest(hosts=hosts, extra=extra):
                fc = len(hosts) - 3
                self.check(self.make_table(conv=3, fc=fc, hosts=hosts, ports=cluster.free_ports(len(hosts), "0.0.0.0"),
                                           extra=extra))

    def test_a_replica_and_a_shard_on_one_node(self):
        self.make_job(iterations=ITERATIONS, test=True)
        names = self.make_table(conv=2, fc=3, micro_batches=2)
        apart = self.promised()
        table = self.read("table.prototxt").decode().splitlines()
        on_conv = [line.replace(" stage: 0", " part { stage: 1 index: 1 } stage: 0") if '"conv0"' in line else line
                   for line in table if '"fc1"' not in line]
        self.write("table.prototxt", "\n".join(on_conv))
        names.remove("fc1")
        together = self.promised()
        self.assertLess(sum(sent for sent, _ in together.values()), sum(sent for sent, _ in apart.values()))
        self.check(names)


if __name__ == "__main__":
    cluster.main()
