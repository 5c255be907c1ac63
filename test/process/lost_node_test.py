"""A node that dies, or stops without a word, in the middle of training: all others name it, soon, and exit with 4."""

import os
import re
import signal
import subprocess
import sys
import time

import cluster


class LostNodeTest(cluster.JobTest):

    def lose(self, names, victim, number, iterations=10):
        """Takes `victim` away in the middle of training and holds the others to what they promise."""
        nodes = self.start_all(names)
        self.await_training(nodes.values(), iterations)
        sent = nodes[victim].send(number)
        self.expect_named([p for p in nodes.values() if p.name != victim], victim, sent)
        if number == signal.SIGSTOP:
            # When it runs again it learns that the others gave it up, and goes too.
            self.assertIsNone(nodes[victim].popen.poll())
            nodes[victim].send(signal.SIGCONT)
            self.expect_exit(nodes[victim], 4, r"lost node|is lost", seconds=cluster.PATIENCE_S)

    def expect_named(self, survivors, victim, sent):
        for process in survivors:
            self.expect_exit(process, 4, r'lost node "%s"' % re.escape(victim))
            took = process.logged_at(r'lost node "') - sent
            print("    %s: %s named after %.2f s" % (process.name, victim, took))
            self.assert_promised(took, "%s named the loss" % process.name)
            lines = [line for line in process.text().splitlines() if 'lost node "' in line]
            self.assertEqual(len(lines), 1, "one clear line: %s" % lines)

    def hybrid(self):
        self.make_job()
        return self.make_table(conv=2, fc=2)

    def test_conv_node_killed(self):
        self.lose(self.hybrid(), "conv1", signal.SIGKILL)

    def test_first_node_killed(self):
        self.lose(self.hybrid(), "conv0", signal.SIGKILL)

    def test_fc_lead_killed(self):
        self.lose(self.hybrid(), "fc0", signal.SIGKILL)

    def test_fc_shard_killed(self):
        self.lose(self.hybrid(), "fc1", signal.SIGKILL)

    def served(self):
        self.make_job()
        return self.make_table(conv=2, fc=1, servers=2, staleness=1)

    def test_parameter_server_killed(self):
        self.lose(self.served(), "ps1", signal.SIGKILL)

    def test_parameter_server_stopped(self):
        self.lose(self.served(), "ps0", signal.SIGSTOP)

    def test_node_with_parameter_servers_killed(self):
        self.lose(self.served(), "conv1", signal.SIGKILL)

    def test_conv_node_stopped(self):
        self.lose(self.hybrid(), "conv1", signal.SIGSTOP)

    def test_first_node_stopped(self):
        self.lose(self.hybrid(), "conv0", signal.SIGSTOP)

    def test_fc_lead_stopped(self):
        self.lose(self.hybrid(), "fc0", signal.SIGSTOP)

    def test_fc_shard_stopped(self):
        self.lose(self.hybrid(), "fc1", signal.SIGSTOP)

    def replicas(self):
        # Nearly all the time goes into the allreduce of a product with a million parameters.
        self.make_job(hidden=10000, solver="display: 1\nbase_lr: 0.0001\n")
        return self.make_table(conv=3, fc=0, micro_batches=1)

    def test_replica_killed_in_allreduce(self):
        self.lose(self.replicas(), "conv1", signal.SIGKILL, iterations=3)

    def test_replica_stopped_in_allreduce(self):
        self.lose(self.replicas(), "conv2", signal.SIGSTOP, iterations=3)

    def test_first_replica_killed_in_allreduce(self):
        self.lose(self.replicas(), "conv0", signal.SIGKILL, iterations=3)

    def lose_in_test(self, victim, number):
        """Takes `victim` away in a test phase that does not end."""
        self.make_job(solver="display: 1\ntest_iter: 100000\ntest_interval: 10\ntest_initialization: false\n")
        names = self.make_table(conv=2, fc=2)
        nodes = self.start_all(names)
        deadline = time.monotonic() + cluster.PATIENCE_S
        while "Iteration 9 " not in "".join(node.text() for node in nodes.values()):  # the last before the test
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        self.await_silent_work(nodes["fc0"])
        sent = nodes[victim].send(number)
        self.expect_named([p for p in nodes.values() if p.name != victim], victim, sent)

    def await_silent_work(self, process):
        """Waits until the process has used some more CPU time and said nothing meanwhile: it tests."""
        def cpu_ticks():
            with open("/proc/%d/stat" % process.popen.pid, encoding="ascii") as stat:
                return sum(map(int, stat.read().rsplit(")", 1)[1].split()[11:13]))

        begin, said, deadline = cpu_ticks(), process.text(), time.monotonic() + cluster.PATIENCE_S
        while cpu_ticks() < begin + 5:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        self.assertNotIn("Testing net", said)
        self.assertNotIn("Iteration 10 ", process.text())

    def test_conv_node_killed_in_a_test(self):
        self.lose_in_test("conv1", signal.SIGKILL)

    def test_first_node_killed_in_a_test(self):
        self.lose_in_test("conv0", signal.SIGKILL)

    def test_fc_lead_stopped_in_a_test(self):
        self.lose_in_test("fc0", signal.SIGSTOP)

    def test_fc_shard_killed_in_a_test(self):
        self.lose_in_test("fc1", signal.SIGKILL)

    def test_two_nodes_killed_together(self):
        names = self.hybrid()
        nodes = self.start_all(names)
        self.await_training(nodes.values())
        sent = [nodes[name].send(signal.SIGKILL) for name in ("conv1", "fc1")][0]
        for name in ("conv0", "fc0"):
            self.expect_exit(nodes[name], 4, r'lost node "(conv1|fc1)"')
            self.assert_promised(nodes[name].logged_at('lost node "') - sent, "%s named a loss" % name)


class StarvedTest(cluster.JobTest):
    """Nodes of the idle class beside busy loops on the one processor that they all may use."""

    STARVED_S = 8  # several times the silence that makes a loss
    LOOPS = 4

    @staticmethod
    def schedule(nodes, policy, processors):
        for node in nodes:
            for thread in os.listdir("/proc/%d/task" % node.popen.pid):
                try:
                    os.sched_setaffinity(int(thread), processors)
                    os.sched_setscheduler(int(thread), policy, os.sched_param(0))
                except ProcessLookupError:
                    pass  # it has just ended
                except PermissionError:
                    pass  # out of the idle class not everybody may go; other programs leave it enough in the end

    def busy_loops(self, processor):
        loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"],
                                  preexec_fn=lambda: os.sched_setaffinity(0, {processor})) for _ in range(self.LOOPS)]
        for loop in loops:
            self.addCleanup(loop.wait)
            self.addCleanup(loop.kill)
        return loops

    @staticmethod
    def processor_seconds(nodes):
        ticks = 0
        for node in nodes:
            with open("/proc/%d/stat" % node.popen.pid, encoding="ascii") as stat:
                fields = stat.read().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def test_nodes_that_get_no_processor_time_blame_nobody(self):
        self.make_job(iterations=1000000)
        nodes = list(self.start_all(self.make_table(conv=2, fc=1)).values())
        self.await_training(nodes)
        processors = os.sched_getaffinity(0)
        self.schedule(nodes, os.SCHED_IDLE, {min(processors)})
        loops = self.busy_loops(min(processors))
        before = self.processor_seconds(nodes)
        time.sleep(self.STARVED_S)  # what is under test is that nothing happens meanwhile
        used = self.processor_seconds(nodes) - before
        for loop in loops:
            loop.kill()
        self.schedule(nodes, os.SCHED_OTHER, processors)
        print("    %d nodes had %.2f s of processor time in %d s" % (len(nodes), used, self.STARVED_S))
        self.assertLess(used, 0.2 * self.STARVED_S, "they were not starved")
        self.await_training(nodes)
        nodes[0].send(signal.SIGINT)
        self.expect_all(nodes, 5, "Optimization stopped early")
        for node in nodes:
            self.assertNotRegex(node.text(), "lost node")


class NeverThereTest(cluster.JobTest):

    def test_node_that_never_appears(self):
        self.make_job()
        # Long enough for all others to be there in time on a loaded machine.
        names = self.make_table(conv=2, fc=2, extra="transport { connect_timeout_s: 8 }")
        nodes = [self.start(name=name) for name in names if name != "fc1"]
        self.expect_all(nodes, 4, r"fc1 \(127\.0\.0\.1:\d+\) did not appear within 8 s")


class OrderlyEndTest(cluster.JobTest):

    def test_interrupt_of_one_node_ends_all_with_a_snapshot(self):
        self.make_job(snapshot=1000000)
        nodes = self.start_all(self.make_table(conv=2, fc=2))
        self.await_training(nodes.values())
        nodes["fc1"].send(signal.SIGINT)
        self.expect_all(nodes.values(), 5, "Optimization stopped early")
        self.assertRegex(nodes["conv0"].text(), r"Snapshotting solver state to binary proto file \S*solverstate")

    def test_schedulers_send_sigterm_twice_and_to_all(self):
        self.make_job(snapshot=0)  # nor one after training: a stop writes one all the same
        nodes = self.start_all(self.make_table(conv=2, fc=2))
        self.await_training(nodes.values())
        for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGTERM, signal.SIGINT, signal.SIGINT):
            for node in nodes.values():
                node.send(number)
        self.expect_all(nodes.values(), 5, "Optimization stopped early")
        self.assertRegex(nodes["conv0"].text(), r"Snapshotting solver state to binary proto file \S*solverstate")

    def test_a_stop_that_takes_too_long_ends_without_a_snapshot(self):
        self.make_job(snapshot=0)
        names = self.make_table(conv=2, fc=2)
        nodes = {name: self.start("--stop_within_s=1", name=name) for name in names}
        self.await_training(nodes.values())
        nodes["fc1"].send(signal.SIGSTOP)  # no boundary is reached, and silence is a loss after 2 s only
        nodes["conv1"].send(signal.SIGTERM)
        said = r"did not stop at a boundary within 1 s \(--stop_within_s\)"
        self.expect_all([nodes[name] for name in names if name != "fc1"], 5, said)
        nodes["fc1"].send(signal.SIGCONT)
        self.assertIn(nodes["fc1"].wait(), (4, 5))


if __name__ == "__main__":
    cluster.main()
