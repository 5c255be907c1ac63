"""A node behind a translator of addresses (NAT): a router with nftables, whose one port leads to the node's."""

import shutil
import subprocess

import cluster
import cut_link_test
from cut_link_test import ip

OUTSIDE, INSIDE = "10.213.7.2", "192.168.77.2"  # the router, as others see it; the host of fc0, as nobody outside does
PORT = 7777  # of the router
ITERATIONS = 20


class NatTest(cut_link_test.Hosts):

    def setUp(self):
        super().setUp()
        if not shutil.which("nft"):
            self.skipTest("SKIPPED: no nft (Debian package nftables)")
        self.make_job(iterations=ITERATIONS, snapshot=ITERATIONS)
        self.make_hosts(["conv0", "router"])
        self.make_namespace("fc0")
        ip("-n", self.name("router"), "link", "add", "eth1", "type", "veth", "peer", "name", "eth0", "netns",
           self.name("fc0"))
        for host, interface, address in (("router", "eth1", "192.168.77.1/24"), ("fc0", "eth0", INSIDE + "/24")):
            ip("-n", self.name(host), "address", "add", address, "dev", interface)
            ip("-n", self.name(host), "link", "set", interface, "up")
        ip("-n", self.name("fc0"), "route", "add", "default", "via", "192.168.77.1")

    def translate(self, port):
        """Connections to the router's PORT go on to fc0's host; what fc0 dials comes from the router."""
        rules = ("table ip nat {\n"
                 "  chain in { type nat hook prerouting priority -100; tcp dport %d dnat to %s:%d; }\n"
                 "  chain out { type nat hook postrouting priority 100; oifname eth0 masquerade; }\n}\n" %
                 (PORT, INSIDE, port))
        for command in (["sysctl", "-qw", "net.ipv4.ip_forward=1"], ["nft", "-f", "-"]):
            done = subprocess.run([*self.on_host("router"), *command], input=rules.encode(), stderr=subprocess.PIPE,
                                  check=False)
            if done.returncode != 0:
                self.skipTest("SKIPPED: this kernel does not translate addresses: " + done.stderr.decode())

    def expected(self):
        """The model of the same table with all nodes in one process."""
        self.make_table(conv=1, fc=1, hosts=["10.213.7.1", OUTSIDE])
        self.expect_exit(self.start("--all"), 0, "Optimization Done")
        return self.read("out_iter_%d.caffemodel" % ITERATIONS)

    def test_a_table_names_the_routers_address_and_port(self):
        expected = self.expected()
        self.translate(PORT)
        self.make_table(conv=1, fc=1, hosts=["10.213.7.1", OUTSIDE], ports=[7000, PORT])
        table = self.read("table.prototxt").decode()
        self.write("table.prototxt", table.replace('host: "%s"' % OUTSIDE, 'host: "%s" listen: "%s"' % (OUTSIDE, INSIDE)))
        nodes = [self.start(name=name, prefix=self.on_host(name)) for name in ("conv0", "fc0")]
        self.expect_all(nodes, 0, "Optimization Done")
        self.assertEqual(self.read("out_iter_%d.caffemodel" % ITERATIONS), expected)

    def test_a_node_says_the_routers_address_and_port(self):
        """The table is made by the nodes themselves, over a shared folder; the router's port leads to another one."""
        self.translate(6000)
        status, said = cluster.run_tool("hproute", "--new_token=" + self.path("token"))
        self.assertEqual(status, 0, said)
        flags = ["--solver=" + self.path("solver.prototxt"), "--conv=1", "--fc=1", "--run_id=nat",
                 "--token_file=" + self.path("token")]
        routing = "dir://" + self.path("shared")
        nodes = [self.start("--role=conv", *flags, log="conv0", routing=routing, prefix=self.on_host("conv0")),
                 self.start("--role=fc", "--port=6000", "--address=%s:%d" % (OUTSIDE, PORT), *flags, log="fc0",
                            routing=routing, prefix=self.on_host("fc0"))]
        self.expect_all(nodes, 0, "Optimization Done")


if __name__ == "__main__":
    cluster.main()
