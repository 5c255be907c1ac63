"""Whole jobs over RDMA: parameters, a killed node, a wire that loses packets, nodes of which some have no device.

usage: jobs_test.py FOLDER_OF_THE_BINARIES [unittest's arguments], in the machine of test/rdma-vm/run
"""

import os
import re
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLE = os.path.join(HERE, "../../examples/digits")
sys.path[:0] = [os.path.join(HERE, "../process"), os.path.join(HERE, "../support")]

import cluster  # pylint: disable=wrong-import-position
import numpy  # pylint: disable=wrong-import-position
from caffe_wire import read_caffemodel  # pylint: disable=wrong-import-position

cluster.PATIENCE_S = PATIENCE_S = 400.0  # the processor is emulated
HOSTS = ["10.77.0.1", "10.77.0.2"]  # of the devices rxe0 and rxe1
HOSTS_IPV6 = ["fd00:77::1", "[fd00:77::2]"]  # of the same
VERBS = "transport { kind: VERBS verbs { timeout: 16 %s } }"
TOLERANCE = 1e-4  # of each blob's largest magnitude


def packets(device):
    """Packets that a device has sent."""
    with open("/sys/class/infiniband/%s/ports/1/hw_counters/sent_pkts" % device, encoding="ascii") as counter:
        return int(counter.read())


def missing():
    devices = ["rxe0", "rxe1"]
    lacking = [name for name in devices if not os.path.exists("/sys/class/infiniband/" + name)]
    return "no active RDMA device %s (test/rdma-vm/run has them)" % " ".join(lacking) if lacking else ""


class VerbsJobTest(cluster.JobTest):

    def setUp(self):
        super().setUp()
        if missing():
            self.skipTest(missing())

    def make_table(self, *args, extra=VERBS % "", hosts=None, **kwargs):
        nodes = kwargs.get("conv", 2) + kwargs.get("fc", 2)
        return super().make_table(*args, extra=extra, hosts=[(hosts or HOSTS)[i % 2] for i in range(nodes)], **kwargs)

    def expect_same_model(self, one, other, start=None):
        """Asserts that two models have the same parameters, and others than `start`."""
        expected, found = read_caffemodel(self.path(one)), read_caffemodel(self.path(other))
        self.assertEqual(list(found), list(expected))
        for layer, blobs in expected.items():
            for i, (blob, same) in enumerate(zip(blobs, found[layer])):
                largest = numpy.abs(blob).max()
                self.assertLess(numpy.abs(same - blob).max(), TOLERANCE * largest, layer)
                if start:
                    before = read_caffemodel(self.path(start))[layer][i]
                    self.assertGreater(numpy.abs(blob - before).max(), 10 * TOLERANCE * largest, layer)

    def tc(self, *arguments):
        subprocess.run(["tc", "qdisc", *arguments], check=True)


class DigitsTest(VerbsJobTest):

    def setUp(self):
        super().setUp()
        subprocess.run([sys.executable, EXAMPLE + "/make_idx.py", EXAMPLE + "/digits.csv.gz", self.folder], check=True,
                       stdout=subprocess.DEVNULL)
        for part in ("train", "test"):
            files = [self.path(part + name) for name in ("-images", "-labels", "_leveldb")]
            status, text = cluster.run_tool("convert_mnist_data", *files, "--backend=leveldb")
            self.assertEqual(status, 0, text)
        with open(EXAMPLE + "/digits_train_test.prototxt", encoding="utf-8") as net:
            self.write("net.prototxt", net.read().replace("examples/digits/work", self.folder))

    def train(self, name, conv, fc, extra, iterations=6):
        """Trains the digits under a table, with a snapshot after each iteration."""
        self.write(name + "_solver.prototxt", """net: "net.prototxt" base_lr: 0.01 lr_policy: "fixed" momentum: 0.9
            weight_decay: 0.0005 display: 1 max_iter: %d snapshot: 1 snapshot_prefix: "%s" random_seed: 3
            """ % (iterations, self.path(name)))
        names = self.make_table(conv=conv, fc=fc, extra=extra, name=name + ".prototxt", before="drop2", cut="ip1",
                                solver=name + "_solver.prototxt")
        nodes = [self.start(name=node, table=name + ".prototxt", log=name + "-" + node) for node in names]
        self.expect_all(nodes, 0, "Optimization Done", seconds=PATIENCE_S)
        return nodes

    def test_hybrid_over_verbs_matches_one_process(self):
        self.train("one", 1, 0, "")
        before = packets("rxe0"), packets("rxe1")
        nodes = self.train("hybrid", 2, 2, VERBS % "qps_per_connection: 2")
        for node, device in zip(nodes, ["rxe0", "rxe1", "rxe0", "rxe1"]):
            self.assertIn("RDMA on %s:1" % device, node.text())
        for device, count in zip(["rxe0", "rxe1"], before):
            self.assertGreater(packets(device), count + 100, "the tensors went over RDMA")
        self.expect_same_model("one_iter_6.caffemodel", "hybrid_iter_6.caffemodel", start="one_iter_1.caffemodel")
        nodes = self.train("rdmacm", 2, 2, VERBS % "qps_per_connection: 2 setup: RDMACM")
        for node, device in zip(nodes, ["rxe0", "rxe1", "rxe0", "rxe1"]):
            self.assertIn("RDMA on %s:1, queue pairs by librdmacm" % device, node.text())
        self.assertEqual(self.read("rdmacm_iter_6.caffemodel"), self.read("hybrid_iter_6.caffemodel"), "the same bits")


class WireTest(VerbsJobTest):

    def train(self, name, extra, conv=2, fc=1, hosts=None, **variables):
        self.make_job(iterations=8, snapshot=8)
        names = self.make_table(conv=conv, fc=fc, extra=extra, hosts=hosts)
        nodes = [self.start("--v=1", name=node, log=name + "-" + node, **variables.get(node, {})) for node in names]
        self.expect_all(nodes, 0, "Optimization Done", seconds=PATIENCE_S)
        os.rename(self.path("out_iter_8.caffemodel"), self.path(name))
        return nodes

    def test_packet_loss(self):
        self.train("clean", VERBS % "")
        for device in ("va", "vb"):
            self.tc("add", "dev", device, "root", "netem", "loss", "1%")
            self.addCleanup(self.tc, "del", "dev", device, "root")
        self.train("lossy", VERBS % "")
        self.assertEqual(self.read("lossy"), self.read("clean"), "the same bits")

    def test_ipv6(self):
        self.train("ipv4", VERBS % "")
        first, second = "fd00:77::1", "fd00:77::2"
        paths = [[(first, first), (first, second)], [(second, first)] * 2, [(first, first), (first, second)]]
        for setup, by in (("TCP", ": GID"), ("RDMACM", ": by librdmacm, GID")):
            before = packets("rxe0"), packets("rxe1")
            nodes = self.train("ipv6", VERBS % ("setup: " + setup), hosts=HOSTS_IPV6)
            for node, expected in zip(nodes, paths):
                self.assertEqual(sorted(re.findall(by + r" (\S+) to (\S+), MTU ", node.text())), expected, node.name)
            for device, count in zip(["rxe0", "rxe1"], before):
                self.assertGreater(packets(device), count + 100, "the tensors went over RDMA")
            self.assertEqual(self.read("ipv6"), self.read("ipv4"), "the same bits")

    def test_auto_takes_tcp_where_one_side_has_no_device(self):
        self.train("verbs", VERBS % "")
        auto = "transport { kind: AUTO verbs { timeout: 16 } }"
        nodes = self.train("auto", auto, fc0={"NCCL_IB_HCA": "mlx5"})
        said = {node.name: node.text() for node in nodes}
        self.assertRegex(said["auto-conv0"], r"conv1 \(\S+\): over RDMA, rxe0:1")
        self.assertRegex(said["auto-conv0"], r"fc0 \(\S+\): over TCP, because on the other side: no usable RDMA device")
        self.assertRegex(said["auto-fc0"], r'rxe0:1 is not among "mlx5"')
        self.assertEqual(self.read("auto"), self.read("verbs"), "the same bits")

    def test_without_a_device_verbs_says_so(self):
        self.make_job()
        self.make_table()
        node = self.start("--ib_hca=mlx5", name="conv0")
        self.expect_exit(node, 2, r'kind: VERBS.*rxe0:1 is not among "mlx5"', seconds=PATIENCE_S)


class DoctorTest(VerbsJobTest):

    def doctor(self, log, *flags):
        path = self.path(log)
        process = cluster.Process(log, [cluster.program("hpnode"), "--doctor", *flags], path, dict(os.environ))
        self.processes.append(process)
        return process

    def test_two_hosts(self):
        address = "%s:%d" % (HOSTS[0], cluster.free_ports(1)[0])
        waits = self.doctor("waits", "--doctor_address=" + HOSTS[0], "--doctor_listen=" + address)
        self.await_text(waits, "waiting for the other host at " + address, seconds=PATIENCE_S)
        comes = self.doctor("comes", "--doctor_address=" + HOSTS[1], "--doctor_peer=" + address)
        self.expect_exit(comes, 0, r"this host uses rxe1:1", r"round trip over RDMA: \S+ us; 64 MiB in one write: \S+ MB/s",
                         seconds=PATIENCE_S)
        self.expect_exit(waits, 0, r"this host uses rxe0:1", r"rxe0: does not take dma-buf", seconds=PATIENCE_S)


class LostNodeTest(VerbsJobTest):

    def lose(self, victim, number, settings=""):
        self.make_job()
        nodes = self.start_all(self.make_table(conv=2, fc=2, extra=VERBS % settings))
        self.await_training(nodes.values(), 3)
        sent = nodes[victim].send(number)
        for name, process in nodes.items():
            if name == victim:
                continue
            self.expect_exit(process, 4, r'lost node "%s"' % re.escape(victim), seconds=PATIENCE_S)
            took = process.logged_at('lost node "') - sent
            print("    %s: %s named after %.2f s" % (name, victim, took))
            self.assert_promised(took, "%s named the loss" % name)

    def test_fc_node_killed(self):
        self.lose("fc1", signal.SIGKILL)

    def test_conv_node_killed(self):
        self.lose("conv0", signal.SIGKILL)

    def test_node_killed_whose_queue_pairs_librdmacm_connected(self):
        self.lose("fc0", signal.SIGKILL, "setup: RDMACM")


if __name__ == "__main__":
    if missing():
        print("SKIPPED: " + missing())
        sys.exit(0)
    cluster.main()
