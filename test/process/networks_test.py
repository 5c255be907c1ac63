"""Networks of several kinds: hosts are network namespaces with two interfaces, each with an IPv4 and an IPv6 address."""

import json
import os
import shutil
import subprocess
import unittest

import cluster
import cut_link_test
from cut_link_test import ip

NAMES = ("conv0", "fc0")
ITERATIONS = 20


class Networks(cut_link_test.Hosts):

    def bytes_of(self, name, interface):
        """Bytes that a host has sent over an interface."""
        said = subprocess.run(["ip", "-n", self.name(name), "-j", "-s", "link", "show", interface], check=True,
                              stdout=subprocess.PIPE)
        return json.loads(said.stdout)[0]["stats64"]["tx"]["bytes"]


class NetworksTest(Networks):

    def setUp(self):
        super().setUp()
        ip("-n", self.name("switch"), "link", "add", "bridge1", "type", "bridge")
        ip("-n", self.name("switch"), "link", "set", "bridge1", "up")
        self.make_job(iterations=ITERATIONS, snapshot=ITERATIONS)
        self.make_hosts(NAMES)
        self.add_ipv6()
        for i, name in enumerate(NAMES):
            ip("-n", self.name("switch"), "link", "add", "second%d" % i, "type", "veth", "peer", "name", "eth1",
               "netns", self.name(name))
            ip("-n", self.name("switch"), "link", "set", "second%d" % i, "master", "bridge1", "up")
            ip("-n", self.name(name), "address", "add", "10.213.8.%d/24" % (i + 1), "dev", "eth1")
            ip("-n", self.name(name), "-6", "address", "add", "fd00:8::%d/64" % (i + 1), "dev", "eth1", "nodad")
            ip("-n", self.name(name), "link", "set", "eth1", "up")

    def train(self, hosts, *flags, ports=None):
        """Trains with a node on each host, which finds its entry by its own addresses. Returns the model."""
        self.make_table(conv=1, fc=1, hosts=hosts, ports=ports)
        nodes = [self.start("--role=" + name[:-1], *flags, log=name, prefix=self.on_host(name)) for name in NAMES]
        self.expect_all(nodes, 0, "Optimization Done")
        return self.read("out_iter_%d.caffemodel" % ITERATIONS)

    def test_ipv6_gives_the_same_bits(self):
        expected = self.train(["10.213.7.1", "10.213.7.2"])
        self.assertEqual(self.train(["fd00:7::1", "fd00:7::2"]), expected)
        self.assertEqual(self.train(["[fd00:7::1]", "[fd00:7::2]"]), expected)

    def test_link_local_ipv6(self):
        expected = self.train(["10.213.7.1", "10.213.7.2"])
        for i, name in enumerate(NAMES):
            ip("-n", self.name(name), "-6", "address", "add", "fe80::7:%d/64" % (i + 1), "dev", "eth0", "nodad")
        hosts = ["fe80::7:1%eth0", "fe80::7:2%eth0"]
        self.assertEqual(self.train(hosts), expected)
        # Without the interface: every host has that network on each of its interfaces.
        self.make_table(conv=1, fc=1, hosts=["fe80::7:1", "fe80::7:2"])
        self.expect_exit(self.start("--role=conv", prefix=self.on_host("conv0")), 2,
                         r"this host, which has the addresses .*fe80::7:1%eth0, .*; the table has conv0 on \[fe80::7:1\]")

    def test_the_interface_that_the_table_names_carries_all(self):
        for hosts, flag in ((["10.213.8.1", "10.213.8.2"], "--interface=eth1"),
                            (["fd00:8::1", "fd00:8::2"], "--interface=eth1"),  # which has an IPv4 address, too
                            (["fd00:8::1", "fd00:8::2"], "--interface=fd00:8::/64"),
                            (["10.213.8.1", "10.213.8.2"], "--interface=10.213.8.0/24")):
            before = [(self.bytes_of(name, "eth0"), self.bytes_of(name, "eth1")) for name in NAMES]
            self.train(hosts, flag)
            for name, (first, second) in zip(NAMES, before):
                self.assertLess(self.bytes_of(name, "eth0") - first, 2000, (hosts, flag))
                self.assertGreater(self.bytes_of(name, "eth1") - second, 50000, (hosts, flag))

    def let_in(self, host, port):
        """Has a host drop new TCP connections but to this port."""
        rules = ("table inet f\nflush table inet f\ntable inet f {\n"
                 "chain in { type filter hook input priority 0; tcp flags & (syn|ack) == syn tcp dport != %d drop; }\n}\n")
        done = subprocess.run([*self.on_host(host), "nft", "-f", "-"], input=(rules % port).encode(),
                              stderr=subprocess.PIPE, check=False)
        if done.returncode != 0:
            self.skipTest("SKIPPED: this kernel does not filter packets: " + done.stderr.decode())

    @unittest.skipUnless(shutil.which("nft"), "SKIPPED: no nft (Debian package nftables)")
    def test_hosts_that_let_in_what_is_for_the_nodes_port(self):
        hosts = ["10.213.7.1", "10.213.7.2"]
        ports = cluster.free_ports(2)
        for name, port in zip(NAMES, ports):
            self.let_in(name, port)
        self.train(hosts, ports=ports)
        # The other way round nothing gets through, neither in training nor in the survey of hosts.
        for name, port in zip(NAMES, reversed(ports)):
            self.let_in(name, port)
        for flags in ((), ("--doctor",)):
            nodes = [self.start("--wait=2", *flags, name=name, prefix=self.on_host(name)) for name in NAMES]
            self.expect_all(nodes, 4, r"did not appear")

    def test_an_interface_that_is_not_here(self):
        self.make_table(conv=1, fc=1, hosts=["fd00:7::1", "fd00:7::2"])
        for interface in ("eth7", "fd00:9::/64"):
            node = self.start("--role=conv", "--interface=" + interface, prefix=self.on_host("conv0"))
            self.expect_exit(node, 2, 'no address of this host is on the interface "%s".*eth0 fd00:7::1, ' % interface)

    def test_addresses_in_brackets(self):
        out = self.path("made.prototxt")
        status, said = cluster.run_tool("hproute", "--solver=" + self.path("solver.prototxt"), "--conv=1", "--fc=1",
                                        "--hosts=[::1],::1", "--out=" + out)
        self.assertEqual(status, 0, said)
        self.assertIn("conv0  --role=conv  [::1]:29500", said)
        self.assertNotIn("[", self.read("made.prototxt").decode().split("node {", 1)[1].split("host:")[1].split("\n")[0])
        status, said = cluster.run_tool("hproute", "--check", out)
        self.assertEqual(status, 0, said)
        # Whoever writes a table knows which host is the first: HOST:SHARE is for nodes that ask in any order.
        status, said = cluster.run_tool("hproute", "--solver=" + self.path("solver.prototxt"), "--conv=2", "--fc=0",
                                        "--hosts=[::1],::1", "--shares=[::1]:2", "--out=" + self.path("shares.prototxt"))
        self.assertEqual((status, said), (2, 'hproute: --shares has "[::1]:2"; expected a share of the batch\n'))
        self.assertFalse(os.path.exists(self.path("shares.prototxt")))


class OwnNetworksTest(Networks):
    """Hosts that have a network of their own in front, which leads to hpserver and not to the other host, and eth0, which
    joins them."""

    def setUp(self):
        super().setUp()
        self.make_job(iterations=ITERATIONS)
        self.make_hosts(NAMES)
        self.add_ipv6()
        self.route(0)
        status, text = cluster.run_tool("hproute", "--new_token=" + self.path("token"))
        self.assertEqual(status, 0, text)
        self.token = "--token_file=" + self.path("token")
        self.plan = ("--solver=" + self.path("solver.prototxt"), "--conv=1", "--fc=1")

    def make_namespace(self, host):
        super().make_namespace(host)
        if host == "switch":
            return
        i = 1 + NAMES.index(host)
        ip("-n", self.name("switch"), "link", "add", "own%d" % i, "type", "veth", "peer", "name", "own", "netns",
           self.name(host))
        for place, interface, number in (("switch", "own%d" % i, 9), (host, "own", 1)):
            ip("-n", self.name(place), "address", "add", "10.214.%d.%d/24" % (i, number), "dev", interface)
            ip("-n", self.name(place), "-6", "address", "add", "fd00:214:%d::%d/64" % (i, number), "dev", interface, "nodad")
            ip("-n", self.name(place), "link", "set", interface, "up")

    def route(self, forward):
        """Whether the switch leads from each host's own network to that of the other."""
        with open(self.path("sysctl"), "wb") as out:
            subprocess.run([*self.on_host("switch"), "sysctl", "-w", "net.ipv4.ip_forward=%d" % forward,
                            "net.ipv6.conf.all.forwarding=%d" % forward], check=True, stdout=out)

    def train(self, routing, *flags):
        """Starts a node on each host. `routing`: of each. Returns all that they say."""
        nodes = [self.start("--role=" + name[:-1], self.token, *flags, log=name, prefix=self.on_host(name),
                            routing=routing[i]) for i, name in enumerate(NAMES)]
        self.expect_all(nodes, 0, "Optimization Done")
        return "".join(node.text() for node in nodes)

    def by_folder(self, run, *flags):
        return self.train(["dir://" + self.path("shared")] * 2, *self.plan, "--run_id=" + run, *flags)

    def by_server(self, pattern):
        """`pattern`: of hpserver's address in a host's own network. Returns what hpserver says."""
        port = cluster.free_ports(1)[0]
        listen = ("[::]:%d" if "[" in pattern else "0.0.0.0:%d") % port
        server = cluster.Process("server", [*self.on_host("switch"), cluster.program("hpserver"), *self.plan, self.token,
                                            "--cache_dir=none", "--listen=" + listen, "--folder=" + self.path("run%d" % port)],
                                 self.path("server.%d.log" % port), dict(os.environ))
        self.processes.append(server)
        self.await_text(server, "listens on ")
        self.train(["tcp://%s:%d" % (pattern % (i + 1), port) for i in range(len(NAMES))])
        return server.text()

    def test_the_network_that_all_are_in(self):
        ipv4 = r"addresses of the nodes: in 10\.213\.7\.0/24, a network that all are in; .* has 10\.214\.[12]\.1 in front, "
        ipv6 = r"addresses of the nodes: in fd00:7::/64, a network that all are in; .* has fd00:214:[12]::1 in front, "
        self.assertRegex(self.by_server("10.214.%d.9"), ipv4)
        self.assertRegex(self.by_server("[fd00:214:%d::9]"), ipv6)
        self.assertRegex(self.by_folder("4"), ipv4)
        for name in NAMES:
            for interface in ("own", "eth0"):
                ip("-n", self.name(name), "-4", "address", "flush", "dev", interface)
        self.assertRegex(self.by_folder("6"), ipv6)

    def test_routed_networks_that_the_nodes_are_told_to_take(self):
        """Racks with networks of their own, whose hosts have a slower network for their management in common."""
        self.route(1)
        for i, name in enumerate(NAMES):
            ip("-n", self.name(name), "route", "add", "10.214.0.0/16", "via", "10.214.%d.9" % (i + 1))
        before = [(self.bytes_of(name, "eth0"), self.bytes_of(name, "own")) for name in NAMES]
        said = self.by_folder("routed", "--interface=10.214.0.0/16")
        self.assertIn("addresses of the nodes: the first of IPv4 of each, since no network is known that all are in", said)
        for name, (first, second) in zip(NAMES, before):
            self.assertLess(self.bytes_of(name, "eth0") - first, 2000)
            self.assertGreater(self.bytes_of(name, "own") - second, 50000)


if __name__ == "__main__":
    cluster.main()
