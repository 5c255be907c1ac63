"""Many nodes of a tiny net on this machine: how fast they come up and go down, and what they take while they wait.

HPNODE_MANY_NODES=64 runs 64 of them, 32 conv nodes and 32 shards. The times that are promised of those hold for fewer."""

import os
import re
import signal
import time

import cluster

NODES = int(os.environ.get("HPNODE_MANY_NODES", "16"))
UP_S, DOWN_S = 10, 2
# Of all nodes together. A loaded machine takes longer, but not more of its processors.
UP_CPU_S, DOWN_CPU_S = 0.25 * NODES, 0.15 * NODES
# A heartbeat from each node to each other one, twice a second, is most of it. On a loaded machine nodes don't wake at the
# moments that they have in common, and each heartbeat costs them more.
IDLE_CORES = 0.08 + 1.1e-4 * NODES ** 2
TICKS = os.sysconf("SC_CLK_TCK")
NET = cluster.NET.replace("batch_size: 12", "batch_size: 64", 1)


class ManyNodesTest(cluster.JobTest):

    def cpu(self, processes):
        """Processor seconds that live processes have used."""
        ticks = 0
        for process in processes:
            with open("/proc/%d/stat" % process.popen.pid, encoding="ascii") as stat:
                fields = stat.read().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / TICKS

    def assert_no_gpu_libraries(self, process):
        """A library that only GPUs need costs each node 96 MB, and time at both ends."""
        with open("/proc/%d/maps" % process.popen.pid, encoding="ascii") as maps:
            self.assertNotIn("libcublas", maps.read())

    def test_up_and_down(self):
        self.make_job(net=NET, hidden=64, records=64)
        # A stop is carried out behind the next iteration, which is 130,000 small messages among 64 nodes as it is.
        names = self.make_table(conv=NODES // 2, fc=NODES - NODES // 2, micro_batches=1)
        begun = time.monotonic()
        nodes = self.start_all(names)
        reporter = nodes["fc0"]
        self.await_text(reporter, r"Iteration \d+ \(.* loss = ")
        up, up_cpu = time.monotonic() - begun, self.cpu(nodes.values())
        self.await_training(nodes.values(), 5)
        self.assert_no_gpu_libraries(reporter)
        before = os.times()
        cpu = self.cpu(nodes.values())
        begun = nodes["conv0"].send(signal.SIGINT)
        self.expect_all(nodes.values(), 5, "Optimization stopped early")
        down = time.time() - begun
        after = os.times()
        down_cpu = (after.children_user + after.children_system - before.children_user - before.children_system) - cpu
        print("    %d nodes: up in %.1f s (%.1f processor seconds), down in %.1f s (%.1f)"
              % (NODES, up, up_cpu, down, down_cpu))
        self.assertLess(up_cpu, UP_CPU_S)
        self.assertLess(down_cpu, DOWN_CPU_S)
        self.assert_promised_of_many(up, "training began", UP_S)
        self.assert_promised_of_many(down, "the last node ended", DOWN_S)
        for process in nodes.values():
            self.assertFalse(os.path.exists("/proc/%d" % process.popen.pid))

    def test_up_by_a_rendezvous(self):
        """Nobody has a table: each asks hpserver, which hands one out to all."""
        self.make_job(net=NET, hidden=64, records=64)
        port = cluster.free_ports(1)[0]
        server = cluster.Process(
            "server", [cluster.program("hpserver"), "--solver=" + self.path("solver.prototxt"),
                       "--conv=%d" % (NODES // 2), "--fc=%d" % (NODES - NODES // 2), "--cache_dir=none",
                       "--listen=127.0.0.1:%d" % port, "--folder=" + self.path("run")], self.path("server.log"), None)
        self.processes.append(server)
        self.await_text(server, "listens on ")
        begun = time.monotonic()
        nodes = [self.start("--role=" + ("conv" if i < NODES // 2 else "fc"), log="asker%d" % i,
                            routing="tcp://127.0.0.1:%d" % port) for i in range(NODES)]
        reporter = None
        deadline = begun + cluster.PATIENCE_S
        while reporter is None and time.monotonic() < deadline:
            reporter = next((node for node in nodes if "this is fc0" in node.text()), None)
            if reporter is None:
                time.sleep(0.02)
        self.assertIsNotNone(reporter, "no node is fc0: " + server.text()[-2000:])
        self.await_text(reporter, r"Iteration \d+ \(.* loss = ")
        up, cpu, up_cpu = time.monotonic() - begun, self.cpu([server]), self.cpu(nodes)
        self.assert_no_gpu_libraries(reporter)
        before = os.times()
        begun = nodes[0].send(signal.SIGINT)
        self.expect_all(nodes, 5, "Optimization stopped early")
        down, after = time.time() - begun, os.times()
        down_cpu = (after.children_user + after.children_system - before.children_user - before.children_system) - up_cpu
        print("    %d nodes by hpserver: up in %.1f s (%.1f processor seconds), down in %.1f s (%.1f); hpserver took %.2f"
              % (NODES, up, up_cpu, down, down_cpu, cpu))
        self.assertEqual(server.text().count(" asks for a table"), NODES)
        self.assertLess(cpu, UP_CPU_S)
        self.assertLess(down_cpu, DOWN_CPU_S)
        self.assert_promised_of_many(up, "training began", UP_S)
        self.assert_promised_of_many(down, "the last node ended", DOWN_S)

    def test_waiting_takes_next_to_nothing(self):
        self.make_job(net=NET, hidden=64, records=64)
        names = self.make_table(conv=NODES // 2, fc=NODES - NODES // 2)
        missing = names.pop()
        nodes = self.start_all(names)
        waits = r"waiting for %s \(127\.0\.0\.1:\d+\), which has not connected" % missing
        for node in nodes.values():
            self.await_text(node, waits)
        begun, cpu = time.monotonic(), self.cpu(nodes.values())
        for node in nodes.values():  # 15 s later
            self.await_text(node, waits, count=2)
        cores = (self.cpu(nodes.values()) - cpu) / (time.monotonic() - begun)
        print("    %d nodes that wait take %.3f processors" % (len(names), cores))
        self.assertLess(cores, IDLE_CORES)
        nodes["conv0"].send(signal.SIGINT)
        for node in nodes.values():
            self.assertIn(node.wait(), (4, 5))

    def test_too_few_open_files(self):
        self.make_job(net=NET, hidden=64, records=64)
        self.make_table(conv=NODES // 2, fc=NODES - NODES // 2)
        node = self.start(name="conv0", prefix=("bash", "-c", "ulimit -n 64 && exec \"$@\"", "bash"))
        self.expect_exit(node, 2, r"the connections to %d other nodes need \d+ open files, and this process may have 64"
                         % (NODES - 1))

    def test_a_limit_that_may_be_raised(self):
        self.make_job(net=NET, hidden=64, records=64)
        self.make_table(conv=NODES // 2, fc=NODES - NODES // 2)
        node = self.start(name="conv0", prefix=("bash", "-c", "ulimit -S -n 64 && exec \"$@\"", "bash"))
        self.await_text(node, "waiting for .* which ha(s|ve) not connected")
        with open("/proc/%d/limits" % node.popen.pid, encoding="ascii") as limits:
            soft, hard = re.search(r"Max open files +(\d+) +(\d+)", limits.read()).groups()
        self.assertEqual(soft, hard)
        self.assertGreater(int(soft), 64)


if __name__ == "__main__":
    cluster.main()
