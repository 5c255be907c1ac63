"""Nodes of one host, each a process of its own, copy tensors into each other's memory: the same bits as over TCP, and
who is lost is noticed all the same."""

import os
import re
import signal
import unittest

import cluster

# 6 rows of a micro-batch are 614 KB: large enough to be copied.
WIDE = cluster.NET.replace("num_output: 4 kernel_size: 3", "num_output: 256 kernel_size: 3 pad: 1").replace(
    "kernel_size: 2 stride: 2", "kernel_size: 2 stride: 1")
OFF = "transport { device_copies: OFF }"
ITERATIONS = 12


def shared_files(process):
    """Inodes of the memory of hpnode's that a process maps."""
    with open("/proc/%d/maps" % process.popen.pid, encoding="utf-8", errors="replace") as maps:
        return set(re.findall(r" (\d+) +/memfd:hpnode", maps.read()))


class HostCopiesTest(cluster.JobTest):

    def weights_of(self, extra):
        self.make_job(iterations=ITERATIONS, snapshot=ITERATIONS, net=WIDE)
        names = self.make_table(extra=extra)
        nodes = self.run_job(names)
        return self.read("out_iter_%d.caffemodel" % ITERATIONS), nodes

    def test_the_same_bits_as_over_tcp(self):
        sent, nodes = self.weights_of(OFF)
        for node in nodes.values():
            self.assertNotIn("memory to memory", node.text())
        copied, nodes = self.weights_of("")
        self.assertEqual(sent, copied)
        for name, node in nodes.items():
            peers = sorted(re.findall(r"cpu to (\w+) \(cpu\): from memory to memory, from 16 KiB on", node.text()))
            self.assertEqual(peers, sorted(set(nodes) - {name}), node.text())

    def test_what_is_mapped(self):
        self.make_job(net=WIDE)
        nodes = self.start_all(self.make_table(conv=1, fc=1))
        self.await_training(nodes.values())
        self.assertTrue(shared_files(nodes["conv0"]) & shared_files(nodes["fc0"]))

    def test_a_lost_node(self):
        self.make_job(net=WIDE)
        nodes = self.start_all(self.make_table())
        self.await_training(nodes.values())
        killed = nodes.pop("fc1").send(signal.SIGKILL)
        for node in nodes.values():
            self.expect_exit(node, 4, r'lost node "fc1"')
        for node in nodes.values():
            self.assert_promised(node.logged_at(r'lost node "fc1"') - killed, "the lost node was named")
            # What was granted ends with the connections, in order, and nobody is to blame for that.
            self.assertNotIn("CANCEL", node.text())

    def test_other_names_of_the_host_are_other_hosts(self):
        self.make_job(iterations=ITERATIONS, net=WIDE)
        names = self.make_table(conv=1, fc=1, hosts=["127.0.0.1", "localhost"])
        for node in self.run_job(names).values():
            self.assertNotIn("memory to memory", node.text())
            self.assertNotIn("over the network", node.text())

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to make a namespace")
    def test_another_container(self):
        self.make_job(iterations=ITERATIONS, net=WIDE)
        names = self.make_table(conv=1, fc=1)
        conv = self.start(name="conv0")
        fc = self.start(name="fc0", prefix=("unshare", "--pid", "--fork", "--mount-proc", "--kill-child"))
        self.expect_all([conv, fc], 0, "Optimization Done",
                        r"cpu to \w+ \(cpu\): over the network, because they are in different containers")
        self.assertEqual(len(names), 2)


if __name__ == "__main__":
    cluster.main()
