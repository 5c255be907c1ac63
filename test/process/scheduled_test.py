"""What a scheduler needs of a node: a stop ahead of the end of its allocation, and a file that follows iterations."""

import functools
import os
import re
import textwrap
import time

import cluster
import digits

MANIFEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/cluster/kubernetes/digits.yaml")


def read_manifest():
    with open(MANIFEST, encoding="utf-8") as file:
        return file.read()


class TimeLimitTest(cluster.JobTest):

    def start_limited(self, left_s, *flags, **job):
        """One process, whose allocation ends in `left_s` seconds."""
        self.make_job(**job)
        self.make_table(conv=1, fc=1)
        return self.start("--all", *flags, SLURM_JOB_END_TIME=str(int(time.time()) + left_s))

    def test_a_stop_ahead_of_the_end(self):
        node = self.start_limited(36)
        self.expect_exit(node, 5, r"stopping, 30 s ahead of the end of the allocation: in 20 s at most",
                         "Optimization stopped early|stopped before training began")

    def test_the_end_is_near_at_the_start(self):
        node = self.start_limited(-5, "--stop_before_s=21")
        self.expect_exit(node, 5, "stopping, 21 s ahead of the end of the allocation")

    def test_far_from_the_end_or_not_asked_for(self):
        self.expect_exit(self.start_limited(100000, iterations=20), 0, "Optimization Done")
        self.expect_exit(self.start_limited(-5, "--stop_before_s=0", iterations=20), 0, "Optimization Done")

    def test_too_short_for_a_stop(self):
        self.expect_exit(self.start_limited(100, "--stop_before_s=19"), 2,
                         r"--stop_before_s is 19; expected 0, -1, or --stop_within_s \(20\) or more")


class KubernetesCommandTest(cluster.JobTest):
    """The command of tools/cluster/kubernetes/digits.yaml, as two pods run it."""

    def start_pods(self, iterations):
        self.make_job(iterations=iterations, snapshot=20)
        text = re.sub(r'snapshot_prefix: "[^"]*"', 'snapshot_prefix: "digits"', self.read("solver.prototxt").decode())
        self.write("solver.prototxt", text)
        if not os.path.exists(self.path("table.prototxt")):
            self.make_table(conv=1, fc=1)
        places = {"/token/job.token": self.path("token"), "/data/": self.path("")}
        flags = [functools.reduce(lambda text, place: text.replace(*place), places.items(), flag) for flag in self.flags]
        for i, label in enumerate(("pod0", "pod1")):
            own = [flag.replace("/dev/shm/", self.path(label) + ".") for flag in flags]
            self.start(*own, log=label, JOB_COMPLETION_INDEX=str(i), WORLD_SIZE="2")
        return self.processes[-2:]

    def test_goes_on_from_the_newest_snapshot(self):
        program, routing, *self.flags = re.search(r"command:\n((?: +- \S+\n)+)", read_manifest())[1].split()[1::2]
        self.assertEqual((program, routing), ("hpnode", "--routing=/job/table.prototxt"))
        self.assertEqual(cluster.run_tool("hproute", "--new_token=" + self.path("token"))[0], 0)
        self.expect_all(self.start_pods(20), 0, "Optimization Done")
        self.assertEqual(self.read("pod1.progress").decode().split()[0], "20")
        self.expect_all(self.start_pods(40), 0, "resuming at iteration 20", "Optimization Done")
        self.assertEqual(sorted(os.listdir(self.path("digits-run/logs"))),
                         ["conv0.1.log", "conv0.2.log", "fc0.1.log", "fc0.2.log"])
        self.assertTrue(os.path.exists(self.path("digits-run/snapshots/digits_iter_40.solverstate")))
        record = self.read("digits-run/record.txt").decode()
        self.assertEqual(len(re.findall(r"ended with exit status 0\n", record)), 4, record)


class KubernetesJobTest(digits.DigitsJob):
    """Table, solver and net of tools/cluster/kubernetes/digits.yaml."""

    def setUp(self):
        super().setUp()
        self.files = {name: textwrap.dedent(text) for name, text in
                      re.findall(r"(?m)^  (\w+\.prototxt): \|\n((?:    .*\n|\n)+)", read_manifest())}
        self.assertEqual(sorted(self.files), ["net.prototxt", "solver.prototxt", "table.prototxt"])

    def test_trains_what_examples_digits_trains(self):
        def fields(text):
            return re.findall(r"(?m)^(?! *#).*\S.*$", text)

        net = self.of_example("digits_train_test.prototxt").replace("examples/digits/work", "/data")
        self.assertEqual(fields(self.files["net.prototxt"]), fields(net))
        solver = self.of_example("digits_solver.prototxt").replace("examples/digits/digits_train_test", "net")
        solver = solver.replace('"examples/digits/work/digits"', '"digits"')
        self.assertEqual(fields(re.sub("snapshot: .*", "", self.files["solver.prototxt"])), fields(solver))

    def test_trains(self):
        self.write("net.prototxt", self.files["net.prototxt"].replace("/data/", self.path("")))
        self.write("solver.prototxt", self.files["solver.prototxt"])
        ports = iter(cluster.free_ports(4))
        self.write("table.prototxt", re.sub(
            r'host: "[^"]*" port: \d+', lambda _: 'host: "127.0.0.1" port: %d threads: 1' % next(ports),
            self.files["table.prototxt"]))
        status, text = cluster.run_tool("hproute", "--check", self.path("table.prototxt"))
        self.assertEqual(status, 0, text)
        job = self.start("--all", "--run_folder=" + self.path("digits-run"))
        self.expect_exit(job, 0, "Optimization Done")
        self.assertGreaterEqual(self.accuracy(job.text()), digits.PROMISED)
        self.assertTrue(os.path.exists(self.path("digits-run/snapshots/digits_iter_1000.solverstate")))


class ProgressFileTest(cluster.JobTest):

    def iterations(self):
        """What the file says; 0: it is not there, or empty."""
        if not os.path.exists(self.path("progress")):
            return 0
        return int((self.read("progress").split() or [0])[0])

    def await_iterations(self, least):
        deadline = time.monotonic() + cluster.PATIENCE_S
        while self.iterations() < least:
            self.assertLess(time.monotonic(), deadline, "the file does not go on")
            time.sleep(0.01)
        return self.iterations()

    def test_follows_the_iterations_of_a_node(self):
        self.make_job()
        names = self.make_table(conv=1, fc=1)
        first = self.start("--progress_file=" + self.path("progress"), name=names[0])
        self.await_text(first, "waiting for|conv0")
        self.assertEqual(self.iterations(), 0, "before the other node is there")
        self.start(name=names[1])
        self.await_iterations(self.await_iterations(1) + 1)

    def test_all_nodes_in_one_process(self):
        self.write("progress", "812 iterations\n")
        self.make_job(iterations=20)
        self.make_table(conv=1, fc=1)
        self.expect_exit(self.start("--all", "--progress_file=" + self.path("progress")), 0, "Optimization Done")
        self.assertEqual(self.iterations(), 20)

    def test_a_file_that_cannot_be(self):
        self.make_job()
        names = self.make_table(conv=1, fc=0)
        self.expect_exit(self.start("--progress_file=/nowhere/progress", name=names[0]), 2,
                         "--progress_file=/nowhere/progress: No such file or directory")


if __name__ == "__main__":
    cluster.main()
