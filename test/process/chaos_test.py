"""Faults on a schedule: round after round one node of a job is killed, stopped, cut off or disturbed at a random moment.

What is expected of each fault stands beside it. After a loss every survivor names the right node in time and exits 4,
and the last snapshot is resumed: it has to come to the bytes of a run that nobody disturbed.

HPNODE_CHAOS_ROUNDS (10) and HPNODE_CHAOS_SEED (1) choose how many rounds, and which.
"""

import glob
import itertools
import os
import random
import re
import shutil
import signal
import subprocess
import time

import cluster
import cut_link_test

NODES = ("conv0", "conv1", "fc0", "fc1")
EVERY = 50  # iterations between snapshots
MORE = 100  # iterations that a resumed job trains


class ChaosTest(cut_link_test.Hosts):

    def test_rounds(self):
        rounds = int(os.environ.get("HPNODE_CHAOS_ROUNDS", "10"))
        seed = int(os.environ.get("HPNODE_CHAOS_SEED", "1"))
        draw = random.Random(seed)
        faults = [(fault, node) for node, fault in itertools.product(NODES, self.FAULTS)]
        draw.shuffle(faults)
        self.results = {}  # iteration -> (model, state) of resumed jobs
        self.make_hosts(NODES)
        for number, (fault, victim) in zip(range(rounds), itertools.cycle(faults)):
            delay_s = draw.uniform(0, 1)
            print("    seed %d, round %d: %s %s after %.3f s" % (seed, number, fault.__name__, victim, delay_s), flush=True)
            self.round(fault, victim, delay_s)
        self.compare()

    def round(self, fault, victim, delay_s):
        for path in glob.glob(self.path("disk/out*")) + glob.glob(self.path("*.log")):
            os.remove(path)
        self.write_job(1000000)
        nodes = {name: self.start_node(name) for name in NODES}
        self.await_training(nodes.values(), 2 * EVERY)
        time.sleep(delay_s)  # the moment that is tried, not something that is waited for
        fault(self, nodes, victim)
        self.assertEqual([name for name in os.listdir(self.path("disk")) if name.endswith(".tmp")] if self.ended(nodes)
                         else [], [], "a temporary file is left over")
        self.end_processes()
        self.processes.clear()
        self.resume()

    # --- Faults: each does its harm and checks what follows.

    def kill(self, nodes, victim):
        self.expect_lost(nodes, victim, nodes[victim].send(signal.SIGKILL))

    def stop(self, nodes, victim):
        self.expect_lost(nodes, victim, nodes[victim].send(signal.SIGSTOP))
        nodes[victim].send(signal.SIGCONT)
        self.expect_exit(nodes[victim], 4, "lost node|is lost")

    def pause(self, nodes, victim):
        nodes[victim].send(signal.SIGSTOP)
        time.sleep(0.7)
        nodes[victim].send(signal.SIGCONT)
        self.expect_going_on(nodes)

    def cut(self, nodes, victim):
        since = time.time()
        self.link(victim, "down")
        self.expect_lost(nodes, victim, since)
        self.expect_exit(nodes[victim], 4, "this one, is lost|lost node")
        self.link(victim, "up")

    def delay(self, nodes, victim):
        self.link(victim, "down")
        time.sleep(0.5)
        self.link(victim, "up")
        self.expect_going_on(nodes)

    def fill_disk(self, nodes, _):
        with open(self.path("disk/filler"), "wb", buffering=0) as filler:
            try:
                while True:
                    filler.write(b"x" * 4096)
            except OSError:
                pass
        self.await_text(nodes["conv0"], "failed, training does not wait for it")
        os.remove(self.path("disk/filler"))
        written = len(re.findall("Snapshotting solver state", nodes["conv0"].text()))
        self.await_text(nodes["conv0"], "Snapshotting solver state", count=written + 1)
        self.expect_going_on(nodes)

    def break_reads(self, nodes, victim):
        if not victim.startswith("conv"):
            victim = "conv1"  # who reads
        for path in glob.glob(self.path(victim + "/db/*")):
            os.truncate(path, os.path.getsize(path) // 2)
        self.expect_exit(nodes[victim], 2, r"(?m)^E.*%s" % re.escape(self.path(victim)))
        for node in nodes.values():
            if node.name != victim:
                self.expect_exit(node, 2, 'lost node "%s"' % victim)

    FAULTS = (kill, stop, pause, cut, delay, fill_disk, break_reads)

    def expect_lost(self, nodes, victim, since):
        for node in nodes.values():
            if node.name == victim:
                continue
            self.expect_exit(node, 4, 'lost node "%s"' % victim)
            self.assertEqual(len(node.errors()), 1, node.errors())
            self.assert_promised(node.logged_at('lost node "') - since, node.name + " named the loss")

    def expect_going_on(self, nodes):
        try:
            self.await_training(nodes.values())
            nodes["fc1"].send(signal.SIGTERM)
            self.expect_all(nodes.values(), 5, "Optimization stopped early")
        except AssertionError as error:
            if any("no heartbeat for" in node.text() for node in nodes.values()):
                raise cluster.Late("a node that was disturbed for a moment was lost") from error
            raise
        for node in nodes.values():
            self.assertEqual(node.errors(), [])

    # --- The job

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("disk"))
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "hpnode-test", self.path("disk")],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if made.returncode != 0:
            self.skipTest("SKIPPED: no small disk can be mounted: " + made.stdout.decode())
        self.addCleanup(subprocess.run, ["umount", self.path("disk")], check=True)
        cluster.write_database(self.path("db"))

    def write_job(self, iterations):
        """A folder for each node, as if it were its host's."""
        self.make_job(iterations=iterations, snapshot=EVERY)
        self.make_table(conv=2, fc=2, hosts=self.addresses)
        for name in NODES:
            shutil.rmtree(self.path(name), ignore_errors=True)
            os.mkdir(self.path(name))
            shutil.copytree(self.path("db"), self.path(name + "/db"))
            for file in ("net.prototxt", "solver.prototxt", "table.prototxt"):
                text = self.read(file).decode().replace(self.path("db"), self.path(name + "/db"))
                self.write(name + "/" + file, text.replace(self.path("out"), self.path("disk/out")))

    def start_node(self, name, *flags):
        return self.start(*flags, name=name, table=name + "/table.prototxt", prefix=self.on_host(name))

    @staticmethod
    def ended(nodes):
        return all(node.popen.poll() is not None for node in nodes.values())

    def resume(self):
        last = max((int(re.search(r"_iter_(\d+)", path).group(1)) for path in glob.glob(self.path("disk/out*.hpnode"))))
        until = (last // EVERY) * EVERY + MORE
        self.write_job(until)
        state = "--resume=" + self.path("disk/out_iter_%d.solverstate" % last)
        nodes = [self.start_node(name, state) for name in NODES]
        self.expect_all(nodes, 0, "Optimization Done")
        self.results.setdefault(until, []).append(self.result(until))

    def result(self, iteration):
        return [self.read("disk/out_iter_%d.%s" % (iteration, kind)) for kind in ("caffemodel", "solverstate")]

    def compare(self):
        """With one run that nobody disturbs."""
        for path in glob.glob(self.path("disk/out*")):
            os.remove(path)
        subprocess.run(["mount", "-o", "remount,size=1g", self.path("disk")], check=True)
        self.write_job(max(self.results))
        self.expect_all([self.start_node(name) for name in NODES], 0, "Optimization Done")
        for iteration, results in self.results.items():
            for result in results:
                self.assertEqual(result, self.result(iteration), "resumed to iteration %d" % iteration)


if __name__ == "__main__":
    cluster.main()
