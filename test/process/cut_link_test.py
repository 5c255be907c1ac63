"""A link that is cut: hosts are network namespaces on a switch, and a port of the switch goes down."""

import os
import re
import shutil
import subprocess

import cluster


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


class CutLinkTest(cluster.JobTest):

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0 or not shutil.which("ip"):
            self.skipTest("SKIPPED: network namespaces need root and iproute2")
        self.prefix = "hp%d" % os.getpid()
        try:
            self.make_namespace("switch")
            ip("-n", self.name("switch"), "link", "add", "bridge0", "type", "bridge")
            ip("-n", self.name("switch"), "link", "set", "bridge0", "up")
        except subprocess.CalledProcessError as error:
            self.skipTest("SKIPPED: no network namespaces here: " + error.stderr.decode())

    def name(self, host):
        return "%s-%s" % (self.prefix, host)

    def make_namespace(self, host):
        ip("netns", "add", self.name(host))
        self.addCleanup(ip, "netns", "delete", self.name(host))
        ip("-n", self.name(host), "link", "set", "lo", "up")

    def make_hosts(self, names, rate=None):
        """A host for each node. Returns their addresses."""
        addresses = []
        for i, name in enumerate(names):
            self.make_namespace(name)
            ip("-n", self.name("switch"), "link", "add", "port%d" % i, "type", "veth", "peer", "name", "eth0",
               "netns", self.name(name))
            ip("-n", self.name("switch"), "link", "set", "port%d" % i, "master", "bridge0", "up")
            ip("-n", self.name(name), "address", "add", "10.213.7.%d/24" % (i + 1), "dev", "eth0")
            ip("-n", self.name(name), "link", "set", "eth0", "up")
            if rate:
                subprocess.run(["tc", "-n", self.name(name), "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate,
                                "burst", "64kb", "latency", "50ms"], check=True)
            addresses.append("10.213.7.%d" % (i + 1))
        return addresses

    def cut(self, conv, fc, victim, rate=None, iterations=10, **table):
        names = ["conv%d" % i for i in range(conv)] + ["fc%d" % i for i in range(fc)]
        self.make_table(conv=conv, fc=fc, hosts=self.make_hosts(names, rate), **table)
        nodes = {name: self.start(name=name, prefix=["ip", "netns", "exec", self.name(name)]) for name in names}
        self.await_training(nodes.values(), iterations)
        cut = cluster.time.time()
        ip("-n", self.name("switch"), "link", "set", "port%d" % names.index(victim), "down")
        for node in nodes.values():
            node.wait(cluster.LOSS_LIMIT_S + 2)
        for node in nodes.values():
            said = r'lost node "%s"' % victim if node.name != victim else r'node "%s", this one, is lost' % victim
            self.expect_exit(node, 4, said, seconds=0)
            self.assertEqual(len(node.errors()), 1, node.errors())
            took = node.logged_at(re.escape(victim) + '".*: ') - cut
            print("    %s: %s named after %.2f s" % (node.name, victim, took))
            if node.name != victim:  # that one also gives its silent peers a chance to be heard
                self.assertLess(took, cluster.LOSS_LIMIT_S, node.name)

    def test_conv_node_cut_off(self):
        self.make_job()
        self.cut(2, 1, "conv1")

    def test_fc_node_cut_off(self):
        self.make_job()
        self.cut(2, 1, "fc0")

    def test_first_node_cut_off(self):
        self.make_job()
        self.cut(2, 1, "conv0")

    def test_replica_cut_off_in_an_allreduce_that_fills_the_link(self):
        self.make_job(hidden=10000, solver="display: 1\nbase_lr: 0.0001\n")
        self.cut(3, 0, "conv1", rate="200mbit", iterations=2, micro_batches=1)


if __name__ == "__main__":
    cluster.main()
