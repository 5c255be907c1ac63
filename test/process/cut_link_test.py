"""A link that is cut: hosts are network namespaces on a switch, and a port of the switch goes down."""

import os
import re
import shutil
import subprocess

import cluster


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


class Hosts(cluster.JobTest):
    """Nodes on hosts of their own."""

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
        self.hosts = list(names)
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
        self.addresses = addresses
        return addresses

    def add_ipv6(self):
        """Gives each host an IPv6 address as well. Returns these."""
        addresses = ["fd00:7::%d" % (i + 1) for i in range(len(self.hosts))]
        for name, address in zip(self.hosts, addresses):
            ip("-n", self.name(name), "-6", "address", "add", address + "/64", "dev", "eth0", "nodad")
        return addresses

    def use_another_folder(self):
        """Gives all nodes but the first a snapshot folder of their own, as hosts without a shared disk have. Returns their
        table."""
        os.makedirs(self.path("else"), exist_ok=True)
        table, solver = (self.read(name).decode() for name in ("table.prototxt", "solver.prototxt"))
        self.write("others.prototxt", table.replace("solver.prototxt", "others_solver.prototxt"))
        self.write("others_solver.prototxt", solver.replace(self.path("out"), self.path("else/out")))
        return "others.prototxt"

    def start_hosts(self, conv, fc, rate=None, iterations=10, own_folders=False, **table):
        """Starts each node on a host of its own, and waits until they train."""
        names = ["conv%d" % i for i in range(conv)] + ["fc%d" % i for i in range(fc)]
        self.make_table(conv=conv, fc=fc, hosts=self.make_hosts(names, rate), **table)
        others = self.use_another_folder() if own_folders else "table.prototxt"
        nodes = {name: self.start(name=name, prefix=self.on_host(name), table=others if i > 0 else "table.prototxt")
                 for i, name in enumerate(names)}
        self.await_training(nodes.values(), iterations)
        return nodes

    def on_host(self, name):
        """What a command has to begin with to run on the host of this node."""
        return ["ip", "netns", "exec", self.name(name)]

    def link(self, host, state):
        """Takes the port of the switch that a host is at "down" or "up"."""
        ip("-n", self.name("switch"), "link", "set", "port%d" % self.hosts.index(host), state)


class CutLinkTest(Hosts):

    def cut(self, conv, fc, victim, **job):
        nodes = self.start_hosts(conv, fc, **job)
        cut = cluster.time.time()
        self.link(victim, "down")
        for node in nodes.values():
            said = r'lost node "%s"' % victim if node.name != victim else r'node "%s", this one, is lost' % victim
            self.expect_exit(node, 4, said)
            self.assertEqual(len(node.errors()), 1, node.errors())
            took = node.logged_at(re.escape(victim) + '".*: ') - cut
            print("    %s: %s named after %.2f s" % (node.name, victim, took))
            if node.name != victim:  # that one also gives its silent peers a chance to be heard
                self.assert_promised(took, "%s named the loss" % node.name)

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

    # 512 channels of 5 x 5: 12 samples of them are 614 kB to each shard and back, 0.1 s on these links.
    def hybrid_on_full_links(self, victim):
        self.make_job(net=cluster.NET.replace("num_output: 4 kernel_size", "num_output: 512 kernel_size"),
                      solver="display: 1\nbase_lr: 0.0001\n")
        self.cut(2, 2, victim, rate="50mbit", iterations=2)

    def test_conv_node_cut_off_while_tensors_fill_the_link(self):
        self.hybrid_on_full_links("conv1")

    def test_fc_node_cut_off_while_tensors_fill_the_link(self):
        self.hybrid_on_full_links("fc1")

    def lose_in_gather(self, victim):
        """Kills `victim` while the first node gathers a snapshot over a slow link."""
        self.make_job(hidden=10000, snapshot=1000000, solver="display: 1\nbase_lr: 0.0001\n")
        nodes = self.start_hosts(2, 1, rate="40mbit", own_folders=True)
        received = self.received("conv0")
        nodes["conv0"].send(cluster.signal.SIGHUP)
        deadline = cluster.time.monotonic() + cluster.PATIENCE_S
        while self.received("conv0") < received + 2000000:  # of 8 MB
            self.assertLess(cluster.time.monotonic(), deadline)
            cluster.time.sleep(0.01)
        sent = nodes[victim].send(cluster.signal.SIGKILL)
        for node in nodes.values():
            if node.name == victim:
                continue
            self.expect_exit(node, 4, r'lost node "%s"' % victim)
            self.assert_promised(node.logged_at(r'lost node "') - sent, "%s named the loss" % node.name)
        if "Snapshotting" in nodes["conv0"].text():
            raise cluster.Late("the snapshot was gathered before the kill")
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("out_iter")], [])

    def received(self, host):
        """Bytes that came to a host."""
        counter = "/sys/class/net/eth0/statistics/rx_bytes"
        return int(subprocess.run(["ip", "netns", "exec", self.name(host), "cat", counter], check=True,
                                  stdout=subprocess.PIPE).stdout)

    def test_owner_killed_while_a_snapshot_is_gathered(self):
        self.lose_in_gather("fc0")

    def test_first_node_killed_while_a_snapshot_is_gathered(self):
        self.lose_in_gather("conv0")


if __name__ == "__main__":
    cluster.main()
