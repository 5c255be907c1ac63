"""A node that is killed while the job comes together: the others name it, do not wait longer than they say, and exit 4."""

import random
import re
import shutil
import signal
import subprocess
import time

import cluster

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

    def test_hosts_may_be_names(self):
        self.make_job(iterations=20)
        names = self.make_table(conv=2, fc=2, hosts=["localhost"] * 4)
        self.expect_all(self.start_all(names).values(), 0, "Optimization Done")

    def test_ctrl_c_while_waiting_for_others(self):
        self.make_job()
        names = self.make_table(conv=1, fc=1)
        node = self.start(name=names[1])
        self.await_text(node, "listening|waits|Solving")
        node.send(signal.SIGINT)
        self.assertEqual(node.wait(), -signal.SIGINT)


if __name__ == "__main__":
    cluster.main()
