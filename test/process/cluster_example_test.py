"""examples/cifar10/run.sh --cluster: hosts, model server and Redis are there, the net learns, and nothing is left."""

import os
import re
import shutil
import signal
import subprocess

import numpy

import cluster
import launched

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RECORDS = 10000  # of a file
SIGMA = 30  # of the noise, in levels of grey


def write_images(folder):
    """Files like CIFAR-10's, of classes that are easy to tell apart: each is a pattern under noise."""
    os.mkdir(folder)
    draw = numpy.random.default_rng(1)
    patterns = draw.integers(40, 216, (10, 3, 4, 4)).repeat(8, axis=2).repeat(8, axis=3).reshape(10, -1)
    for name in [*("data_batch_%d" % i for i in range(1, 6)), "test_batch"]:
        labels = draw.integers(0, 10, RECORDS)
        noise = SIGMA * draw.standard_normal((RECORDS, 3072), dtype=numpy.float32)
        pixels = numpy.clip(patterns[labels] + noise, 0, 255).astype(numpy.uint8)
        records = numpy.concatenate([labels.astype(numpy.uint8)[:, None], pixels], axis=1)
        records.tofile(os.path.join(folder, name + ".bin"))


class ClusterExampleTest(launched.Launched):

    def setUp(self):
        super().setUp()
        self.started = []
        shutil.copytree(os.path.join(ROOT, "examples"), self.path("examples"), ignore=shutil.ignore_patterns("work"))
        solver = "examples/cifar10/cifar10_quick_solver.prototxt"
        text = self.read(solver).decode()
        self.write(solver, text.replace("test_iter: 100", "test_iter: 10").replace("display: 100", "display: 1") + "random_seed: 7\n")
        write_images(self.path("images"))

    def start_example(self, *flags):
        command = [self.path("examples/cifar10/run.sh"), "--data", self.path("images"), "--bin",
                   os.path.dirname(cluster.program("hpnode")), *flags]
        process = cluster.Process("run.sh", command, self.path("run.log"),
                                  dict(os.environ, OMP_WAIT_POLICY="passive"))
        self.processes.append(process)
        return process

    def start_on_cluster(self, iterations):
        process = self.start_example("--cluster", "--iterations=%d" % iterations)
        try:
            self.await_text(process, "hosts a b c d answer")
        except AssertionError:
            reason = re.search(r"--cluster needs .*", process.text())
            if reason and process.wait() == 1:
                self.skipTest("SKIPPED: " + reason.group())
            raise
        return process

    def expect_nothing_left(self, pids):
        self.await_none(pids, "processes of the cluster")
        self.assertNotIn("switch", subprocess.run(["ip", "netns", "list"], stdout=subprocess.PIPE, check=True,
                                                  text=True).stdout.split())
        with open("/proc/mounts", encoding="utf-8") as mounts:
            self.assertNotIn("/run/hosts", mounts.read())

    def test_it_learns_what_the_plain_way_does(self):
        process = self.start_on_cluster(60)
        everyone = launched.children_of(process.popen.pid)
        self.expect_exit(process, 0, "model server hands out the table of the first half, 30 iterations",
                         "through Redis the nodes agree on a table", "test accuracy", seconds=5 * cluster.PATIENCE_S)
        self.assertGreater(float(re.search(r"test accuracy ([\d.]+)%", process.text()).group(1)), 60)
        work = "examples/cifar10/work/"
        server = self.read(work + "server.log").decode()
        for number, host in enumerate("abcd"):
            self.assertRegex(server, r"of %s \(10\.213\.10\.%d:\d+\) runs in incarnation 1" % (host, number + 2))
            self.assertRegex(server, r"of %s \S+ ended with status 0" % host)
        logs = [self.read(work + "second/%s.log" % host).decode() for host in "abcd"]
        self.assertEqual(sum("incarnation 1 has 4 nodes" in log for log in logs), 1, "who has planned")
        for log in logs:
            self.assertRegex(log, "resuming at iteration 30 from")
        self.expect_nothing_left(everyone)
        model = self.read(work + "cifar10_quick_iter_60.caffemodel")
        self.expect_exit(self.start_example("--iterations=60"), 0, seconds=5 * cluster.PATIENCE_S)
        self.assertEqual(model, self.read(work + "cifar10_quick_iter_60.caffemodel"), "the plain way's model differs")

    def test_nothing_is_left_of_one_that_is_ended(self):
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -signal.SIGKILL)):
            process = self.start_on_cluster(5000)
            self.await_text(process, r"Iteration 2[ ,].*loss = ")
            everyone = launched.children_of(process.popen.pid)
            names = [name for pid in everyone for name in launched.command_of(pid)[:1]]
            for name in ("/hpnode", "/hpserver", "sshd"):
                self.assertTrue([each for each in names if name in each], "%s does not run: %s" % (name, names))
            process.send(number)
            self.assertEqual(process.wait(), status)
            self.expect_nothing_left(everyone)


if __name__ == "__main__":
    cluster.main()
