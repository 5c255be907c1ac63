"""Nodes that get their table from hpserver, a shared folder or Redis, by real processes: the table is handed out, the
job trains whatever becomes of who handed it out, and nodes that are started again get the next incarnation's table."""

import glob
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest

import cluster
import cut_link_test
import running
from relay import Relay

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))

import caffe_wire  # pylint: disable=wrong-import-position

ROLES = ("conv", "conv", "fc", "fc")
PLAN = ("--conv=2", "--fc=2")


UNDER_WAY = (r"the run is under way: all 4 nodes of incarnation 1 live, conv0 on host [\d.:]+ among them; choose another "
             r"--run_id for a second run")


class RendezvousTest(cluster.JobTest):
    """Nodes without a table file."""

    def solver(self):
        return "--solver=" + self.path("solver.prototxt")

    def start_nodes(self, routing, *flags, roles=ROLES):
        return [self.start("--role=" + role, *flags, log=role, routing=routing) for role in roles]

    def expect_stop(self, nodes):
        """Ends a job that trains; nothing was wrong with it."""
        nodes[0].send(signal.SIGINT)
        self.expect_all(nodes, 5, "Optimization stopped early")
        for node in nodes:
            self.assertEqual(node.errors(), [])

    def expect_two_runs_are_refused(self, *own):
        """A job whose nodes have the flags `own` trains, and others with its id are refused."""
        self.make_job()
        nodes = self.start_nodes(self.routing, self.solver(), *PLAN, *own)
        self.await_training(nodes)
        others = [self.start("--role=conv", self.solver(), "--conv=1", "--fc=0", *own, routing=self.routing, log="other"),
                  self.start("--role=fc", self.solver(), *PLAN, *own, routing=self.routing, log="second")]
        self.expect_exit(others[0], 2, r"another run has this id \(conv0 on host [\d.:]+ runs\): it was started with "
                                       r"--solver=solver\.prototxt --conv=2 --fc=2, this node with --solver=solver\.prototxt "
                                       r"--conv=1 --fc=0; choose another --run_id")
        self.expect_exit(others[1], 2, UNDER_WAY)
        self.expect_only(*nodes)
        self.await_training(nodes)
        self.expect_stop(nodes)
        self.expect_only()

    def expect_next_incarnation(self, nodes, restart, number):
        """One node is killed, the others end, and all are started again. Returns the new ones."""
        nodes[-1].popen.kill()
        nodes[-1].popen.wait()
        self.expect_all(nodes[:-1], 4)
        nodes = restart()
        for node in nodes:
            self.await_text(node, "incarnation %d; this is " % number)
        self.await_training(nodes)
        return nodes


def decode_table(entry):
    """The text of a TableRecord from the bytes of an entry that has no seal: its field 1 alone."""
    assert entry[:1] == b"\x0a", entry[:16]
    body = 1
    while entry[body] & 0x80:  # the length
        body += 1
    proto = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../src/proto")
    return subprocess.run(["protoc", "--proto_path=" + proto, "--decode=hp.TableRecord", "rendezvous.proto"], check=True,
                          input=entry[body + 1:], stdout=subprocess.PIPE).stdout.decode()


# Flags of a node that makes the table where there is no server, the roles of the nodes, and what the table then says.
TABLES = [
    (("--conv=2", "--fc=2", "--micro_batches=3", "--split=ip2:INPUTS", "--scattered", "--job=mine", "--cut=ip1",
      "--precision=AUTO", "--wire_precision=BF16", "--shares=%s:2" % os.uname().nodename), ROLES,
     ("micro_batches: 3", "\n +precision: AUTO", "wire_precision: BF16", 'layer: "ip2"\\s+by: INPUTS', "boundary: SCATTERED", 'job: "mine"', 'from_layer: "ip1"',
      "share: 2")),
    (("--conv=2", "--fc=2", "--beside", "--batch_per_replica", "--ps=1", "--staleness=1"), ("conv", "conv", "ps"),
     ("part {", "batch: PER_REPLICA", 'serves: "conv"', "staleness: 1")),
    (("--conv=1,1", "--fc=1,1", "--cut=pool1,ip1,ip2"), ROLES,
     ('name: "conv_b0"', 'name: "fc_b0"', 'from_layer: "pool1"', 'from_layer: "ip2"')),
]


class ServerTest(RendezvousTest):
    """hpserver."""

    def setUp(self):
        super().setUp()
        self.port = cluster.free_ports(1)[0]
        self.routing = "tcp://127.0.0.1:%d" % self.port

    def server(self, *flags, plan=PLAN, listen=None, **variables):
        command = [cluster.program("hpserver"), self.solver(), *plan, "--cache_dir=none",
                   "--listen=" + (listen or "127.0.0.1:%d" % self.port), "--folder=" + self.path("run"), *flags]
        server = cluster.Process("server", command, self.path("server.%d.log" % len(self.processes)),
                                 dict(os.environ, **variables))
        self.processes.append(server)
        return server

    def start_server(self, *flags, **options):
        server = self.server(*flags, **options)
        self.await_text(server, "listens on 127.0.0.1:%d" % self.port)
        return server

    def test_four_nodes_train(self):
        self.make_job(iterations=20)
        server = self.start_server()
        nodes = self.start_nodes(self.routing)
        self.expect_all(nodes, 0, "Optimization Done", "incarnation 1; this is (conv|fc)[01]")
        names = [re.search(r"this is (\w+)", node.text()).group(1) for node in nodes]
        self.assertEqual(sorted(names), ["conv0", "conv1", "fc0", "fc1"])
        for name, role in zip(names, ROLES):
            self.assertTrue(name.startswith(role), "--role=%s became %s" % (role, name))
        self.await_text(server, r"ended with status 0", count=4)
        self.assertRegex(server.text(), r"ended with status 0 at iteration 20")

    def test_the_plan_decides_and_sends_others_home(self):
        self.make_job(iterations=20)
        self.start_server(plan=("--plan=auto", "--conv=2", "--fc=1"))
        nodes = self.start_nodes(self.routing, roles=("conv", "fc", "conv"))
        self.expect_all(nodes, 0, "Optimization Done|the plan needs")
        self.assertTrue(any("Optimization Done" in node.text() for node in nodes))

    def test_several_stages(self):
        self.make_job(iterations=20)
        self.start_server(plan=("--conv=2,1", "--fc=1,1", "--cut=pool1,ip1,ip2"))
        nodes = self.start_nodes(self.routing, roles=("fc", "conv", "fc", "conv", "conv"))
        self.expect_all(nodes, 0, "Optimization Done")
        names = [re.search(r"this is (\w+)", node.text()).group(1) for node in nodes]
        self.assertEqual(sorted(names), ["conv_a0", "conv_a1", "conv_b0", "fc_a0", "fc_b0"])

    def test_a_profile_of_its_host(self):
        self.make_job(iterations=20)
        for host in (os.uname().nodename, "elsewhere"):
            status, text = cluster.run_tool("hproute", self.solver(), "--profile=" + self.path(host + ".profile"),
                                            "--hosts=" + host, "--cache_dir=none")
            self.assertEqual(status, 0, text)
        server = self.start_server(plan=(
            "--plan=auto", "--conv=2", "--fc=0", "--precision=TF32",
            "--profile=%s,%s" % tuple(self.path(host + ".profile") for host in (os.uname().nodename, "elsewhere"))))
        nodes = self.start_nodes(self.routing, roles=("conv", "conv"))
        self.expect_all(nodes, 0, "Optimization Done|the plan needs")
        self.assertIn('elsewhere.profile is of host "elsewhere", which no node that asks is on', server.text())
        self.assertRegex(server.text(), r"note: \S+\.profile is of precision FP32, and the table of TF32, whose convolutions")
        self.assertNotIn('.profile is of host "%s"' % os.uname().nodename, server.text())
        self.assertRegex(server.text(), r"\n  %s +conv " % re.escape(os.uname().nodename), "the plan names no host")

    def test_its_loss_stops_nothing_and_started_again_it_goes_on(self):
        self.make_job()
        server = self.start_server()
        nodes = self.start_nodes(self.routing)
        self.await_training(nodes)
        server.popen.kill()
        server.popen.wait()
        for node in nodes:
            self.await_text(node, "does not hear this node, which goes on without it")
        self.await_training(nodes)
        server = self.start_server()
        self.await_text(server, "goes on with incarnation 1")
        self.await_text(server, "runs in incarnation 1", count=4)
        self.await_training(nodes)
        for node in nodes:
            self.assertEqual(node.text().count("does not hear"), 1)
        nodes = self.expect_next_incarnation(nodes, lambda: self.start_nodes(self.routing), 2)
        self.expect_stop(nodes)
        self.await_text(server, "ended with status 5", count=4)

    def test_a_server_that_is_not_there_yet(self):
        self.make_job(iterations=20)
        nodes = self.start_nodes(self.routing)
        alone = self.start("--role=conv", "--wait=1", routing=self.routing, log="alone")
        self.expect_exit(alone, 4, r"handed out no table within 1 s: .*%d" % self.port)
        self.start_server()
        self.expect_all(nodes, 0, "Optimization Done")

    @unittest.skipUnless(cluster.has_ipv6(), "SKIPPED: no IPv6 loopback")
    def test_ipv6(self):
        self.make_job(iterations=20)
        self.await_text(self.server(listen="[::1]:%d" % self.port), r"listens on \[::1\]:%d" % self.port)
        nodes = self.start_nodes("tcp://[::1]:%d" % self.port)
        self.expect_all(nodes, 0, "Optimization Done")

    @unittest.skipUnless(cluster.has_ipv6(), "SKIPPED: no IPv6 loopback")
    def test_a_host_that_is_left_out_by_its_ipv6_address(self):
        self.make_job(iterations=20)
        self.await_text(self.server("--exclude=[::1]", listen="[::1]:%d" % self.port), "listens on ")
        for node in self.start_nodes("tcp://[::1]:%d" % self.port):
            self.expect_exit(node, 0, r"this host is left out \(--exclude=\[?::1\]?\)")

    @unittest.skipUnless(cluster.has_ipv6(), "SKIPPED: no IPv6 loopback")
    def test_a_share_of_a_host_by_its_ipv6_address(self):
        self.make_job(iterations=20)
        listen = "[::1]:%d" % self.port
        for wrong, said in (("[::1]", r'--shares has "[::1]": nodes ask in any order; expected HOST:SHARE'),
                            ("fd00::1", r'--shares has "fd00::1": nodes ask in any order; expected HOST:SHARE'),
                            ("[::1]:", r'--shares has "[::1]:"; expected HOST:SHARE with a share of 1 or more'),
                            ("[fd00::1]:x", r'--shares has "x"; expected HOST:SHARE with a number')):
            self.expect_exit(self.server("--shares=" + wrong, listen=listen), 2, re.escape(said))
        server = self.server("--shares=[fd00::1]:3,[::1]:2", listen=listen)
        self.await_text(server, "listens on ")
        self.expect_all(self.start_nodes("tcp://" + listen), 0, "Optimization Done")
        self.assertIn('2 conv node(s) of host "[::1]" have share 2', server.text())
        self.assertIn('no node of the first conv stage is on host "[fd00::1]"', server.text())

    def test_token(self):
        self.make_job(iterations=20)
        for name in ("token", "other"):
            self.assertEqual(cluster.run_tool("hproute", "--new_token=" + self.path(name))[0], 0)
        token, other = ("--token_file=" + self.path(name) for name in ("token", "other"))
        server = self.start_server(token)
        wrong = [self.start("--role=conv", "--wait=3", *flags, routing=self.routing, log="wrong")
                 for flags in ((other,), ())]
        nodes = self.start_nodes(self.routing, token)
        self.expect_all(nodes, 0, "Optimization Done")
        self.expect_exit(wrong[0], 4, "does it have the same --token_file")
        self.expect_exit(wrong[1], 4, "a server with a token needs --token_file")
        self.assertIn("a table for 4 nodes", server.text())
        self.assertIsNone(server.popen.poll())

    def test_connections_with_a_token_are_encrypted(self):
        self.make_job(iterations=20)
        self.assertEqual(cluster.run_tool("hproute", "--new_token=" + self.path("token"))[0], 0)
        token = "--token_file=" + self.path("token")
        name = os.uname().nodename.encode()
        for flags in ((token,), ()):
            shutil.rmtree(self.path("run"), ignore_errors=True)
            server = self.start_server(*flags, *(["--tls"] if flags else []))
            wire = Relay(self, self.port)
            dialled, port = Relay(self), cluster.free_ports(1)[0]
            dialled.to = port
            own = ("--port=%d" % port, "--address=127.0.0.1:%d" % dialled.port) if flags else ()
            nodes = [self.start("--role=" + role, *flags, *(own if i == 0 else ()), log=role,
                                routing="tcp://127.0.0.1:%d" % wire.port) for i, role in enumerate(ROLES)]
            self.expect_all(nodes, 0, "Optimization Done")
            self.assertGreater(len(wire.seen), 1000)
            if len(name) > 5 or not flags:  # two letters stand among random bytes by chance
                self.assertEqual(name in wire.seen, not flags, "hosts' names can be read")
            self.assertEqual(b"solver.prototxt" in wire.seen, not flags, "the table can be read")
            if flags:
                self.assertGreater(len(dialled.seen), 1000, "nobody dialled the address that the node said")
                self.assertNotIn(b"conv0", dialled.seen, "nodes speak in clear")
            server.popen.terminate()
            server.wait()
        self.expect_exit(self.server("--tls"), 2, "--tls needs the job's token: --token_file=FILE")

    def test_strangers_lose_their_connection_only(self):
        self.make_job(iterations=20)
        self.start_server()
        for said in (b"GET / HTTP/1.0\r\n\r\n", b"HPNODE\r\n" + bytes(8), os.urandom(4000), b""):
            with socket.create_connection(("127.0.0.1", self.port), timeout=cluster.PATIENCE_S) as stranger:
                try:
                    stranger.sendall(said)
                    stranger.shutdown(socket.SHUT_WR)
                    self.assertEqual(stranger.recv(4096), b"")
                except OSError:
                    pass  # it was dropped meanwhile
        self.expect_all(self.start_nodes(self.routing), 0, "Optimization Done")

    def test_a_second_run_is_refused(self):
        self.make_job()
        server = self.start_server("--run_id=mine")
        nodes = self.start_nodes(self.routing, "--run_id=mine")
        self.await_training(nodes)
        self.expect_exit(self.start("--role=fc", "--run_id=yours", routing=self.routing, log="yours"), 2,
                         r'tcp://127\.0\.0\.1:%d: hpserver has the run "mine", and this node asks for "yours" \(--run_id\); '
                         "each run has an hpserver of its own, and its nodes may leave --run_id out" % self.port)
        self.expect_exit(self.start("--role=fc", *PLAN, self.solver(), routing=self.routing, log="planner"), 2,
                         "hpserver plans; leave out --solver")
        self.expect_exit(self.start("--role=fc", "--run_id=mine", routing=self.routing, log="second"), 2,
                         UNDER_WAY)
        self.expect_only(server, *nodes)
        self.await_training(nodes)
        self.expect_stop(nodes)
        server.popen.terminate()
        self.assertEqual(server.wait(), -signal.SIGTERM)
        self.expect_exit(self.server("--run_id=yours"), 2, 'is of the run "mine", not "yours": choose another --folder')
        self.expect_only()

    def test_an_id_is_drawn_and_kept(self):
        self.make_job()
        drawn = []
        for folder in ("run", "run", "other"):
            server = self.start_server("--folder=" + self.path(folder))
            drawn.append(self.read(folder + "/run_id").decode().strip())
            server.popen.terminate()
            server.wait()
        self.assertRegex(drawn[0], r"^[0-9a-f]{16,32}$")
        self.assertEqual(drawn[0], drawn[1])
        self.assertNotEqual(drawn[0], drawn[2])
        server = self.start_server("--folder=" + self.path("third"), SLURM_JOB_ID="42", SLURM_RESTART_COUNT="3")
        self.assertEqual(self.read("third/run_id").decode().strip(), "42.3")

    def test_what_is_wrong_is_said_before_anybody_waits(self):
        self.make_job()
        for listen in ("0.0.0.0:%d" % self.port, ":%d" % self.port):
            self.expect_exit(self.server(listen=listen), 2, "reached from other hosts: --token_file=FILE is missing")
        self.expect_exit(self.server(listen="nowhere"), 2, "--listen: \"nowhere\" is no HOST:PORT")
        self.expect_exit(self.server(plan=("--conv=0",)), 2, "--conv is 0; expected at least 1")
        self.expect_exit(self.server(plan=("--plan=best",)), 2, "--plan is \"best\"; expected auto")
        self.expect_exit(self.server("--shares=2,1"), 2, "--shares has \"2\": nodes ask in any order; expected HOST:SHARE")
        self.expect_exit(self.server("--profile=a.profile"), 2, "--profile goes with --plan=auto")
        for flag, said in (("--shares=a:2", "--shares does not go with"), ("--conv=1,1", "--conv asks for 2 stages"),
                           ("--profile=missing.profile", "missing.profile")):
            self.expect_exit(self.server(flag, plan=("--plan=auto",)), 2, said)
        self.expect_exit(self.server(plan=("--conv=1,1", "--fc=1")), 2, "expected --cut=LAYER,...")
        self.expect_exit(self.server("--solver=missing.prototxt"), 2, "missing.prototxt")
        self.make_job(net=re.sub(r"batch_size: \d+", "batch_size: 0", cluster.NET))
        self.expect_exit(self.server(), 2, r'net\.prototxt:\d+: layer "data": data_param { batch_size: 0 }')
        self.make_job()
        self.expect_exit(self.server("--run_id=a/b"), 2, "run id \"a/b\"")
        for routing, said in (("tcp://nowhere", "is no HOST:PORT"), ("etcd://a:1", "expected a table's file"),
                              ("dir://here", "expected an absolute path"), ("dir:///tmp", "--run_id=ID is missing")):
            self.expect_exit(self.start("--role=conv", routing=routing), 2, said)
        self.expect_exit(self.start("--all", routing=self.routing), 2, "--all goes with a table that is a file")
        self.make_table()
        self.expect_exit(self.start("--role=conv", "--run_id=7"), 2, "--run_id: the table is a file")

    def test_a_plan_that_fails_ends_those_who_asked(self):
        self.make_job(net=cluster.NET.replace('type: "InnerProduct"', 'type: "Convolution"').replace(
            "inner_product_param {", "convolution_param { kernel_size: 1"))
        server = self.start_server()
        nodes = self.start_nodes(self.routing)
        self.expect_all(nodes, 2, "hpserver can't plan: ")
        self.assertIsNone(server.popen.poll())


class HostsTest(cut_link_test.Hosts):
    """Nodes on hosts of their own: network namespaces on a switch."""

    def start_server(self, *plan):
        """hpserver on the host "server". Returns it, and the flag of the token that it wants."""
        self.assertEqual(cluster.run_tool("hproute", "--new_token=" + self.path("token"))[0], 0)
        token = "--token_file=" + self.path("token")
        server = cluster.Process(
            "server", [*self.on_host("server"), cluster.program("hpserver"), "--solver=" + self.path("solver.prototxt"),
                       *plan, "--cache_dir=none", "--listen=:29400", "--folder=" + self.path("run"), token],
            self.path("server.log"), None)
        self.processes.append(server)
        self.await_text(server, "listens on ")
        return server, token

    def test_nodes_of_other_hosts_train_by_the_addresses_that_they_say(self):
        self.make_job(iterations=20)
        hosts = ["server", "one", "two", "three"]
        address = self.make_hosts(hosts)[0]
        server, token = self.start_server("--conv=2", "--fc=1")
        flags = {"one": (), "two": ("--interface=eth0", "--port=29777"), "three": ("--interface=10.213.7.0/24",)}
        nodes = [self.start("--role=" + role, token, *flags[host], log=host, prefix=self.on_host(host),
                            routing="tcp://%s:29400" % address)
                 for host, role in zip(hosts[1:], ("conv", "conv", "fc"))]
        self.expect_all(nodes, 0, "Optimization Done")
        self.assertIn("conv of %s (10.213.7.3:29777) asks for a table" % os.uname().nodename, server.text())

    def test_a_share_finds_its_host_and_one_is_left_out(self):
        self.make_job(iterations=20)
        hosts = ["server", "one", "two", "three", "four"]
        addresses = dict(zip(hosts, self.make_hosts(hosts)))
        server, token = self.start_server("--conv=2", "--fc=1", "--shares=%s:3" % addresses["two"],
                                          "--exclude=" + addresses["four"])
        routing = "tcp://%s:29400" % addresses["server"]
        out = self.start("--role=conv", token, log="four", prefix=self.on_host("four"), routing=routing)
        self.expect_exit(out, 0, r"this host is left out \(--exclude=%s\)" % re.escape(addresses["four"]))
        nodes = [self.start("--role=" + role, token, log=host, prefix=self.on_host(host), routing=routing)
                 for host, role in (("three", "fc"), ("two", "conv"), ("one", "conv"))]
        self.expect_all(nodes, 0, "Optimization Done")
        self.assertIn('1 conv node(s) of host "%s" have share 3' % addresses["two"], server.text())


class FolderTest(RendezvousTest):
    """A shared folder."""

    def setUp(self):
        super().setUp()
        self.routing = "dir://" + self.path("shared")

    def flags(self, run="7"):
        return ("--run_id=" + run, self.solver(), *PLAN)

    def test_nodes_that_race_train_and_come_again(self):
        self.make_job()
        nodes = self.start_nodes(self.routing, *self.flags())
        self.await_training(nodes)
        self.assertEqual(sum("incarnation 1 has 4 nodes" in node.text() for node in nodes), 1, "who has planned")
        nodes = self.expect_next_incarnation(nodes, lambda: self.start_nodes(self.routing, *self.flags()), 2)
        self.expect_stop(nodes)
        names = os.listdir(self.path("shared/7"))
        self.assertIn("table.2", names)
        self.assertFalse([name for name in names if name.startswith("tmp.")], "temporary files are left")
        # The run has ended, and whoever has its id goes on with it.
        self.expect_stop_of_new(3)

    def expect_stop_of_new(self, incarnation):
        nodes = self.start_nodes(self.routing, *self.flags())
        for node in nodes:
            self.await_text(node, "incarnation %d; this is " % incarnation)
        self.await_training(nodes)
        self.expect_stop(nodes)

    def test_what_a_node_says_of_itself(self):
        self.make_job()
        node = self.start("--role=fc", *self.flags(), routing=self.routing)
        self.await_file(self.path("shared/7/node.*"), 1)
        path, = glob.glob(self.path("shared/7/node.*"))
        with open(path, "rb") as file:
            sealed = file.read()
        said = {}  # by the numbers of NodeRecord in src/proto/rendezvous.proto
        for number, value in caffe_wire.fields(dict(caffe_wire.fields(sealed))[1]):
            said.setdefault(number, []).append(value if isinstance(value, int) else bytes(value).decode(errors="replace"))
        self.assertEqual(path.rsplit(".", 1)[1], said[1][0])
        self.assertEqual(said[3], [os.uname().nodename])
        self.assertEqual((said[6], said[7], said[8]), (["fc"], ["cpu"], [len(os.sched_getaffinity(0))]))
        pages, page = (os.sysconf(name) for name in ("SC_PHYS_PAGES", "SC_PAGE_SIZE"))
        self.assertGreater(said[9][0], 100)
        self.assertLessEqual(said[9][0] << 20, pages * page)
        # Its first address is where it listens.
        socket.create_connection((said[4][0], said[5][0]), timeout=cluster.PATIENCE_S).close()
        self.assertIsNone(node.popen.poll())

    def test_a_folder_that_is_gone_is_one_warning(self):
        self.make_job()
        nodes = self.start_nodes(self.routing, *self.flags())
        self.await_training(nodes)
        shutil.move(self.path("shared"), self.path("elsewhere"))
        for node in nodes:
            self.await_text(node, "does not hear this node, which goes on without it")
        self.await_training(nodes, iterations=50)
        for node in nodes:
            self.assertEqual(node.text().count("does not hear"), 1)
        self.expect_stop(nodes)

    def test_leftovers_of_a_run_that_was_killed_harm_nothing(self):
        self.make_job()
        nodes = self.start_nodes(self.routing, *self.flags())
        self.await_training(nodes)
        waiting = self.start("--role=fc", *self.flags(), routing=self.routing, log="waiting")
        self.await_file(self.path("shared/7/node.*"), 5)
        for node in [*nodes, waiting]:
            node.popen.kill()
            node.popen.wait()
        self.write("shared/7/node." + "0" * 32, "rubbish")
        self.expect_stop_of_new(2)

    def await_file(self, pattern, count):
        deadline = time.monotonic() + cluster.PATIENCE_S
        while len(glob.glob(pattern)) < count:
            self.assertLess(time.monotonic(), deadline, "no %d files %s" % (count, pattern))
            time.sleep(0.01)

    def test_two_runs_with_one_id(self):
        self.expect_two_runs_are_refused("--run_id=7")

    def test_flags_of_the_table(self):
        self.make_job(iterations=20)
        for run, (flags, roles, expected) in enumerate(TABLES):
            nodes = self.start_nodes(self.routing, self.solver(), "--run_id=%d" % run, *flags, roles=roles)
            self.expect_all(nodes, 0, "Optimization Done")
            table = decode_table(self.read("shared/%d/table.1" % run))
            for text in expected:
                self.assertRegex(table, text, flags)

    def test_a_plan_with_a_profile(self):
        self.make_job(iterations=20)
        profile = "--profile=" + self.path("a.profile")
        status, text = cluster.run_tool("hproute", self.solver(), profile, "--hosts=elsewhere", "--cache_dir=none")
        self.assertEqual(status, 0, text)
        nodes = self.start_nodes(self.routing, self.solver(), "--run_id=7", "--plan=auto", "--conv=2", "--fc=0", profile,
                                 "--wire_precision=BF16", roles=("conv", "conv"))
        self.expect_all(nodes, 0, "Optimization Done|the plan needs")
        self.assertTrue(any('a.profile is of host "elsewhere"' in node.text() for node in nodes))
        self.assertIn("wire_precision: BF16", decode_table(self.read("shared/7/table.1")))

    def test_hosts_that_are_left_out(self):
        self.make_job(iterations=20)
        nodes = self.start_nodes(self.routing, *self.flags(), "--exclude=" + os.uname().nodename)
        self.expect_all(nodes, 0, "this host is left out")

    def test_flags_that_do_not_go_together(self):
        self.make_job(iterations=20)
        for flags, said in ((("--shares=2,1", *PLAN), "nodes ask in any order; expected HOST:SHARE"),
                            (("--profile=a.profile", *PLAN), "--profile goes with --plan=auto"),
                            (("--side_classifiers", "--cut=ip1", *PLAN), "--side_classifiers: the net has none"),
                            (("--tls", *PLAN), "--tls needs the job's token"),
                            (("--beside",), "--beside is of whoever makes the table"),
                            (("--scattered", "--plan=auto", *PLAN), "--scattered does not go with --plan=auto")):
            self.expect_exit(self.start("--role=conv", "--run_id=7", self.solver(), *flags, routing=self.routing), 2, said)
        self.make_table()
        self.expect_exit(self.start("--role=conv", "--beside"), 2, "--beside: the table is a file")

    def test_token(self):
        self.make_job(iterations=20)
        for name in ("token", "other"):
            self.assertEqual(cluster.run_tool("hproute", "--new_token=" + self.path(name))[0], 0)
        token, other = ("--token_file=" + self.path(name) for name in ("token", "other"))
        nodes = self.start_nodes(self.routing, token, *self.flags(), "--tls")
        self.expect_all(nodes, 0, "connections are encrypted(.|\n)*Optimization Done")
        for flags in ((other, "--tls"), ()):
            self.expect_exit(self.start("--role=conv", *flags, *self.flags(), routing=self.routing, log="wrong"), 2,
                             "table.1 is sealed by .*token")

    def test_a_table_that_hproute_put_there(self):
        self.make_job(iterations=20)
        arguments = ("--solver=" + self.path("solver.prototxt"), "--conv=2", "--fc=2", "--hosts=127.0.0.1",
                     "--port=%d" % cluster.free_ports(1)[0], "--out=" + self.routing, "--run_id=put")
        status, text = cluster.run_tool("hproute", *arguments)
        self.assertEqual(status, 0, text)
        for _ in range(2):  # as often as the job starts
            self.expect_all(self.start_nodes(self.routing, "--run_id=put"), 0, "Optimization Done")
        status, text = cluster.run_tool("hproute", *arguments)
        self.assertEqual(status, 2, text)
        self.assertIn("has a table already; choose another --run_id", text)

    def test_the_scheduler_names_the_run(self):
        self.make_job(iterations=20)
        nodes = [self.start("--role=" + role, self.solver(), *PLAN, log=role, routing=self.routing, SLURM_JOB_ID="42",
                            SLURM_RESTART_COUNT="1") for role in ROLES]
        self.expect_all(nodes, 0, "Optimization Done")
        self.assertTrue(os.path.exists(self.path("shared/42.1/table.1")))


@unittest.skipUnless(shutil.which("redis-server"), "redis-server is missing")
class RedisTest(RendezvousTest):
    """Debian's Redis server."""

    def setUp(self):
        super().setUp()
        self.port = cluster.free_ports(1)[0]
        self.address = "127.0.0.1"
        self.redis = None

    @property
    def routing(self):
        return "redis://%s/run-7" % self.server()

    def server(self):
        """Where Redis listens, as a flag has it."""
        return ("[%s]:%d" if ":" in self.address else "%s:%d") % (self.address, self.port)

    def tearDown(self):
        if self.redis is not None:
            self.redis.kill()
            self.redis.wait()
        super().tearDown()

    def start_redis(self, *flags):
        with open(self.path("redis.log"), "ab") as log:
            self.redis = subprocess.Popen(
                ["redis-server", "--port", str(self.port), "--bind", self.address, "--save", "", "--dir", self.folder,
                 *flags], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={name: value for name, value in os.environ.items() if name != running.MARK})  # no process of a job
        deadline = time.monotonic() + cluster.PATIENCE_S
        while True:
            try:
                socket.create_connection((self.address, self.port), timeout=1).close()
                return
            except OSError:
                self.assertIsNone(self.redis.poll(), "redis-server has ended")
                self.assertLess(time.monotonic(), deadline, "redis-server does not listen")
                time.sleep(0.01)

    def flags(self):
        return (self.solver(), *PLAN)

    def test_nodes_train_without_it_and_come_again(self):
        self.make_job()
        nodes = self.start_nodes(self.routing, *self.flags())  # they wait for the server as well
        self.start_redis("--appendonly", "yes", "--appendfsync", "always")
        self.await_training(nodes)
        self.assertEqual(sum("incarnation 1 has 4 nodes" in node.text() for node in nodes), 1, "who has planned")
        self.redis.kill()
        self.redis.wait()
        for node in nodes:
            self.await_text(node, "does not hear this node, which goes on without it")
        self.await_training(nodes, iterations=50)
        for node in nodes:
            self.assertEqual(len(re.findall(r"(?m)^W.*(?:redis|hear)", node.text())), 1, node.text())
        self.start_redis("--appendonly", "yes", "--appendfsync", "always")
        nodes = self.expect_next_incarnation(nodes, lambda: self.start_nodes(self.routing, *self.flags()), 2)
        self.expect_stop(nodes)

    def test_flags_of_the_table(self):
        self.make_job(iterations=20)
        self.start_redis()
        for run, (flags, roles, expected) in enumerate(TABLES):
            nodes = self.start_nodes("redis://%s/%d" % (self.server(), run), self.solver(), *flags, roles=roles)
            self.expect_all(nodes, 0, "Optimization Done")
            said = subprocess.run(["redis-cli", "-p", str(self.port), "get", "hpnode:%d:table:1" % run], check=True,
                                  stdout=subprocess.PIPE)
            table = decode_table(said.stdout[:-1])  # it ends the line
            for text in expected:
                self.assertRegex(table, text, flags)

    def test_two_runs_with_one_id(self):
        self.start_redis()
        self.expect_two_runs_are_refused()

    @unittest.skipUnless(cluster.has_ipv6(), "SKIPPED: no IPv6 loopback")
    def test_ipv6(self):
        self.address = "::1"
        self.make_job()
        self.start_redis()
        nodes = self.start_nodes(self.routing, *self.flags())
        self.await_training(nodes)
        self.redis.kill()
        self.redis.wait()
        for node in nodes:
            self.await_text(node, r"redis://\[::1\]:%d/run-7.* does not hear this node, which goes on without it" % self.port)
        self.expect_stop(nodes)
        # And as what hproute fills.
        self.start_redis()
        arguments = ("--solver=" + self.path("solver.prototxt"), "--conv=2", "--fc=2", "--hosts=::1",
                     "--port=%d" % cluster.free_ports(1, "::1")[0], "--out=" + self.routing)
        status, text = cluster.run_tool("hproute", *arguments)
        self.assertEqual(status, 0, text)
        self.make_job(iterations=20)
        self.expect_all(self.start_nodes(self.routing), 0, "Optimization Done")
        status, text = cluster.run_tool("hproute", *arguments)
        self.assertEqual(status, 2, text)
        self.assertIn("redis://[::1]:%d/run-7" % self.port, text)

    def test_password_and_a_planted_table(self):
        self.make_job(iterations=20)
        self.start_redis("--requirepass", "secret")
        self.expect_exit(self.start("--role=conv", *self.flags(), routing=self.routing), 2, "REDISCLI_AUTH")
        os.environ["REDISCLI_AUTH"] = "secret"
        self.addCleanup(os.environ.pop, "REDISCLI_AUTH")
        status, text = cluster.run_tool(
            "hproute", "--solver=" + self.path("solver.prototxt"), "--conv=2", "--fc=2", "--hosts=127.0.0.1",
            "--port=%d" % cluster.free_ports(1)[0], "--out=" + self.routing)
        self.assertEqual(status, 0, text)
        self.expect_all(self.start_nodes(self.routing), 0, "Optimization Done")


if __name__ == "__main__":
    cluster.main()
