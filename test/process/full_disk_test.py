"""A disk that is full at snapshot time: training goes on, says so, and tries again."""

import os
import subprocess

import cluster


class FullDiskTest(cluster.JobTest):

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest("SKIPPED: only root may mount the small disk")
        self.disk = self.path("disk")
        os.mkdir(self.disk)
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "hpnode-test", self.disk],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if made.returncode != 0:
            self.skipTest("SKIPPED: no small disk can be mounted: " + made.stdout.decode())
        self.addCleanup(subprocess.run, ["umount", self.disk], check=True)

    def fill(self):
        with open(self.path("disk/filler"), "wb", buffering=0) as filler:
            try:
                while True:
                    filler.write(b"x" * 4096)
            except OSError:
                pass

    def start_job(self, iterations, snapshot=20):
        self.make_job(iterations=iterations, snapshot=snapshot)
        solver = self.read("solver.prototxt").decode().replace(self.path("out"), self.path("disk/out"))
        self.write("solver.prototxt", solver)
        return self.start_all(self.make_table(conv=2, fc=2))

    FAILED = r"snapshot of iteration (\d+) failed, training does not wait for it: .*(No space left|no space)"

    def test_space_that_comes_back(self):
        self.fill()
        nodes = self.start_job(iterations=1000000)
        self.await_text(nodes["conv0"], self.FAILED)
        self.await_training(nodes.values())
        self.assertEqual([name for name in os.listdir(self.disk) if name != "filler"], [], "something is left behind")
        os.remove(self.path("disk/filler"))
        self.await_text(nodes["conv0"], r"Snapshotting solver state to binary proto file")
        for node in nodes.values():
            self.assertIsNone(node.popen.poll(), node.name)

    def test_databases_of_both_kinds(self):
        cluster.write_database(self.path("large"), records=800, side=28)
        for backend in ("lmdb", "leveldb"):
            status, text = cluster.run_tool("convert_mnist_data", "--backend=" + backend, self.path("large.images"),
                                            self.path("large.labels"), self.path("disk/db"))
            self.assertEqual(status, 2, text)
            self.assertRegex(text, "(?i)no space left on device")
            self.assertEqual(os.listdir(self.disk), [])

    def test_full_to_the_end(self):
        self.fill()
        nodes = self.start_job(iterations=60)
        # The parameters are lost for good: that is a fault, and the node that writes says so.
        self.expect_exit(nodes["conv0"], 1, self.FAILED, r"the last snapshot was not written: .*(?i:no space)")
        for name in ("conv1", "fc0", "fc1"):
            self.expect_exit(nodes[name], 0, "Optimization Done")

    def test_full_after_a_good_snapshot(self):
        nodes = self.start_job(iterations=1000000)
        state = r"Snapshotting solver state to binary proto file (\S*_iter_\d+\.solverstate)"
        self.await_text(nodes["conv0"], state)
        self.fill()
        self.await_text(nodes["conv0"], self.FAILED)
        last = cluster.re.findall(state, nodes["conv0"].text())[-1]
        for node in nodes.values():
            node.send(cluster.signal.SIGKILL)
            node.wait()
        os.remove(self.path("disk/filler"))
        iteration = int(cluster.re.search(r"_iter_(\d+)", last).group(1))
        self.write("solver.prototxt", self.read("solver.prototxt").decode()
                   .replace("max_iter: 1000000", "max_iter: %d" % (iteration + 5)).replace("snapshot: 20", ""))
        resumed = [self.start("--resume=" + last, name=name) for name in nodes]
        self.expect_all(resumed, 0, "resuming at iteration %d" % iteration, "Optimization Done")

    def test_pull_while_a_snapshot_waits_for_space(self):
        nodes = self.start_job(iterations=1000000, snapshot=1000000)
        self.await_training(nodes.values(), 2)
        self.fill()
        nodes["conv0"].send(cluster.signal.SIGHUP)
        self.await_text(nodes["conv0"], self.FAILED)
        waits = cluster.re.search(self.FAILED, nodes["conv0"].text()).group(1)
        status, text = cluster.run_tool("model_test", "--model=" + self.path("net.prototxt"), "--iterations=1",
                                        "--routing=" + self.path("table.prototxt"), "--cache_dir=none", "--threads=1")
        self.assertEqual(status, 0, text)
        os.remove(self.path("disk/filler"))
        self.await_text(nodes["conv0"], r"solver state to binary proto file \S*_iter_%s\.solverstate" % waits)
        # Once when it failed, and every 5 s until there was space.
        tries = nodes["conv0"].times_of(self.FAILED)
        for before, after in zip(tries, tries[1:]):
            self.assertGreater(after - before, 4.9)


class FileSizeTest(cluster.JobTest):
    """A limit on the size of files, as batch systems set it, is no reason to die by a signal."""

    def test_snapshot_beyond_the_limit(self):
        self.make_job(iterations=3, snapshot=3)
        self.make_table(conv=1, fc=1)
        done = subprocess.run(["bash", "-c", 'ulimit -f 1; exec "$0" --all --cache_dir=none --routing="$1"',
                               cluster.program("hpnode"), self.path("table.prototxt")],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=cluster.PATIENCE_S, check=False)
        self.assertEqual(done.returncode, 1, done.stdout.decode())
        self.assertRegex(done.stdout.decode(), "the last snapshot was not written: .*File too large")


if __name__ == "__main__":
    cluster.main()
