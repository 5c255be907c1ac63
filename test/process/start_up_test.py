"""A node that is killed while the job comes together: the others name it, do not wait longer than they say, and exit 4."""

import os
import random
import re
import shutil
import signal
import socket
import subprocess
import time

import cluster
import running

DEADLINE_S = 5  # on a loaded machine, too, the nodes that are not killed are there by then


class StartUpTest(cluster.JobTest):

    def setUp(self):
        super().setUp()
        self.make_job()
        self.names = self.make_table(conv=2, fc=2, extra="transport { connect_timeout_s: %d }" % DEADLINE_S)

    def expect_named(self, survivors, victim, limit_s, since):
        for process in survivors:
            self.expect_exit(process, 4)
            errors = process.errors()
            self.assertEqual(len(errors), 1, errors)
            self.assertRegex(errors[0], r'lost node "%s"|%s \(\S+\) did not appear' % (victim, victim), process.name)
            self.assert_promised(process.logged_at(re.escape(errors[0])) - since, process.name + " gave up", limit_s)

    def bytes_received(self):
        """Of each connection of the job's ports that stands, in the order of their addresses."""
        ports = " or ".join("sport = :%d or dport = :%d" % (port, port) for port in self.ports.values())
        text = subprocess.run(["ss", "-tinOH", "state", "established", "( %s )" % ports], check=True,
                              stdout=subprocess.PIPE).stdout.decode()
        return {tuple(re.findall(r"127\.0\.0\.1:\d+", line)): int(count) for line in text.splitlines()
                for count in re.findall(r"bytes_received:(\d+)", line)}

    def await_heartbeats(self, connections):
        """Waits until something came twice more on every one of so many connections: the handshakes are over."""
        deadline = time.monotonic() + cluster.PATIENCE_S
        for _ in range(2):
            before = self.bytes_received()
            now = {}
            while len(now) < 2 * connections or not all(now[end] > before.get(end, 0) for end in now):
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.01)
                now = self.bytes_received()

    def lose_before_the_last_comes(self, victim):
        if not shutil.which("ss"):
            self.skipTest("SKIPPED: iproute2's ss is not here")
        last = next(name for name in reversed(self.names) if name != victim)
        self.make_table(conv=2, fc=2)  # nobody waits as long as the default
        nodes = {name: self.start(name=name) for name in self.names if name != last}
        self.await_heartbeats(3)
        sent = nodes[victim].send(signal.SIGKILL)
        self.expect_named([node for node in nodes.values() if node.name != victim], victim, cluster.LOSS_LIMIT_S, sent)

    def test_first_node_lost_before_the_last_comes(self):
        self.lose_before_the_last_comes("conv0")

    def test_conv_node_lost_before_the_last_comes(self):
        self.lose_before_the_last_comes("conv1")

    def test_fc_node_lost_before_the_last_comes(self):
        self.lose_before_the_last_comes("fc1")

    def lose_at_any_time(self, victim, seed):
        delay_s = random.Random(seed).uniform(0, 0.3)
        print("    seed %d: killed after %.3f s" % (seed, delay_s))
        nodes = self.start_all(self.names)
        time.sleep(delay_s)  # the point of the start-up that is tried, not something that is waited for
        sent = nodes[victim].send(signal.SIGKILL)
        survivors = [node for node in nodes.values() if node.name != victim]
        self.expect_named(survivors, victim, DEADLINE_S + cluster.LOSS_LIMIT_S, sent)

    def test_first_node_lost_at_any_time(self):
        self.lose_at_any_time("conv0", 1)

    def test_conv_node_lost_at_any_time(self):
        self.lose_at_any_time("conv1", 2)

    def test_fc_lead_lost_at_any_time(self):
        self.lose_at_any_time("fc0", 3)

    def test_fc_shard_lost_at_any_time(self):
        self.lose_at_any_time("fc1", 4)

    # All that nodes say to each other goes over the connections that were made by the handshake.
    def test_one_port_and_one_connection_to_each_other_node(self):
        names = self.make_table(conv=3, fc=1)
        nodes = self.start_all(names)
        self.await_training(nodes.values(), 5)
        for name in names:
            listening, connected = running.tcp_sockets(nodes[name].popen.pid)
            self.assertEqual(listening, [self.ports[name]], name)
            self.assertEqual(len(connected), len(names) - 1, name)

    def test_hosts_may_be_names(self):
        self.make_job(iterations=20)
        names = self.make_table(conv=2, fc=2, hosts=["localhost"] * 4)
        self.expect_all(self.start_all(names).values(), 0, "Optimization Done")

    def test_a_stop_while_waiting_for_others(self):
        self.make_job()
        names = self.make_table(conv=1, fc=1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
            node = self.start(name=names[1])
            self.await_dialing(node)
            node.send(number)
            self.expect_exit(node, 5, "stopped before training began")

    def test_a_stop_ends_those_that_are_there_already(self):
        self.make_job()
        names = self.make_table(conv=2, fc=1)
        nodes = [self.start(name=name) for name in names[:2]]
        self.await_connection(nodes)
        nodes[1].send(signal.SIGTERM)
        self.expect_all(nodes, 5, "stopped before training began")

    def test_a_stop_of_a_containers_first_process(self):
        """The kernel spares it the signals that it has not asked for."""
        unshare = ["unshare", "--pid", "--fork", "--kill-child"]
        if subprocess.run([*unshare, "true"], check=False, stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("SKIPPED: no process namespaces here")
        self.make_job(snapshot=1000000)
        self.make_table(conv=1, fc=0)
        for training in (False, True):
            self.make_table(conv=1 if training else 2, fc=0, micro_batches=1)
            node = self.start(name="conv0" if training else "conv1", prefix=unshare)
            if training:
                self.await_training([node])
            else:
                self.await_dialing(node)
            with open("/proc/%d/task/%d/children" % (node.popen.pid, node.popen.pid), encoding="ascii") as children:
                os.kill(int(children.read().split()[0]), signal.SIGTERM)
            self.expect_exit(node, 5, "Optimization stopped early" if training else "stopped before training began")

    def await_connection(self, nodes):
        """Waits until the two nodes are connected and hear each other."""
        if not shutil.which("ss"):
            self.skipTest("SKIPPED: iproute2's ss is not here")
        self.await_heartbeats(1)
        self.assertEqual([node.popen.poll() for node in nodes], [None, None])

    def await_dialing(self, node):
        """Waits until the node knocks at the first node's door, where nobody is."""
        with socket.socket() as door:
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            door.bind(("127.0.0.1", self.ports["conv0"]))
            door.listen()
            door.settimeout(cluster.PATIENCE_S)
            knock, _ = door.accept()
            knock.close()
        self.assertIsNone(node.popen.poll())

    def test_the_flag_wait_overrides_the_table(self):
        self.make_job()
        names = self.make_table(conv=1, fc=1)
        node = self.start("--wait=2", name=names[0])
        self.expect_exit(node, 4, r"fc0 \(127\.0\.0\.1:\d+\) did not appear within 2 s")

    def test_listening_elsewhere_than_others_dial(self):
        self.make_job(iterations=20)
        names = self.make_table(conv=2, fc=1, hosts=["127.0.0.1"] * 3)
        text = self.read("table.prototxt").decode().replace('name: "conv0"', 'listen: "0.0.0.0" name: "conv0"')
        self.write("table.prototxt", text)
        nodes = [self.start(*(["--interface=127.0.0.0/8"] if name == "conv1" else ["--interface=lo"] if name == "fc0"
                              else []), name=name) for name in names]
        self.expect_all(nodes, 0, "Optimization Done")
        wrong = self.start("--interface=203.0.113.0/24", name="conv0")
        self.expect_exit(wrong, 2, r'no address of this host is on the interface "203\.0\.113\.0/24"')


if __name__ == "__main__":
    cluster.main()
