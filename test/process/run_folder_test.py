"""hpnode --run_folder: what nodes leave there, who may go in, and jobs of one user that do not meet."""

import os
import re
import shutil
import signal
import socket
import subprocess

import cluster


class RunFolderTest(cluster.JobTest):

    def setUp(self):
        super().setUp()
        self.run_flag = "--run_folder=" + self.path("run")

    def make_relative_job(self, **job):
        """With a snapshot_prefix that is relative."""
        self.make_job(**job)
        text = self.read("solver.prototxt").decode()
        self.write("solver.prototxt", text.replace(self.path("out"), "somewhere/tiny"))

    def record(self, folder="run"):
        """The lines of record.txt without their times."""
        lines = self.read(folder + "/record.txt").decode().splitlines()
        for line in lines:
            self.assertRegex(line, r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ")
        return [line[20:] for line in lines]

    def assert_in_record(self, *patterns):
        text = "\n".join(self.record())
        for pattern in patterns:
            self.assertRegex(text, "(?m)^%s$" % pattern)

    def test_what_nodes_leave_and_a_restart_goes_on(self):
        self.make_relative_job(iterations=20, snapshot=10)
        names = self.make_table(conv=1, fc=1)
        nodes = self.run_job(names, self.run_flag)
        for name, node in nodes.items():
            log = self.read("run/logs/%s.1.log" % name).decode()
            self.assertEqual(log, node.text(), "all that it says, from its first line on")
            begins = "%s, incarnation 1: begins: hpnode [\\d.]+, host %s, process %d, program [0-9a-f]{16}" % (
                name, re.escape(socket.gethostname()), node.popen.pid)
            self.assert_in_record(begins, "%s, incarnation 1: ended with exit status 0" % name)
        self.assertRegex(self.record()[0], '^incarnation 1: job "hpnode", table [0-9a-f]{16}$')
        snapshots = os.listdir(self.path("run/snapshots"))
        self.assertIn("tiny_iter_20.caffemodel", snapshots)
        self.assertFalse(os.path.exists(self.path("somewhere")) or os.path.exists("somewhere"))
        for name in ("table", "solver", "net"):
            self.assertIn(name + ".prototxt", os.listdir(self.path("run")))
        self.assertIn('snapshot_prefix: "%s"' % self.path("run/snapshots/tiny"), self.read("run/solver.prototxt").decode())

        # What lies there is a job by itself.
        self.write("run/solver.prototxt", self.read("run/solver.prototxt").decode().replace("max_iter: 20", "max_iter: 40"))
        again = self.start_all(names, self.run_flag, "--resume=latest", table="run/table.prototxt")
        self.expect_all(again.values(), 0, "resuming at iteration 20", "Optimization Done")
        self.assert_in_record("incarnation 2: .*", "conv0, incarnation 2: begins: .*")
        self.assertIn("resuming at iteration 20", self.read("run/logs/fc0.2.log").decode())

    def test_a_lost_node(self):
        self.make_relative_job(snapshot=10)
        names = self.make_table(conv=2, fc=1)
        nodes = self.start_all(names, self.run_flag)
        self.await_text(nodes["conv0"], "Snapshotting solver state")
        nodes["conv1"].send(signal.SIGKILL)
        nodes["conv1"].wait()
        self.expect_all([nodes["conv0"], nodes["fc0"]], 4)
        self.await_training(self.start_all(names, self.run_flag, "--resume=latest").values())
        self.assert_in_record("conv1, incarnation 1: ended without reporting a status: killed, or its host was lost",
                              'fc0, incarnation 1: ended with exit status 4: .*conv1.*')
        begun = [line for line in self.record() if re.search("incarnation 2: begins", line)]
        self.assertEqual(len(begun), 3, self.record())

    def test_a_second_live_run_is_refused(self):
        self.make_relative_job()
        first = self.start_all(self.make_table(conv=1, fc=1), self.run_flag)
        self.await_training(first.values())
        before = self.read("run/table.prototxt")
        second = self.start_all(self.make_table(conv=1, fc=1, name="other.prototxt"), self.run_flag,
                                table="other.prototxt")
        self.expect_all(second.values(), 2,
                        r'--run_folder: \S*/run: incarnation 1 of job "hpnode", table [0-9a-f]{16} runs there '
                        r"\(node (conv0|fc0) on host \S+, process (%d|%d)\); end that one, or give each run a folder" %
                        tuple(node.popen.pid for node in first.values()))
        self.await_training(first.values())
        self.assertEqual(self.read("run/table.prototxt"), before)

    def start_meeting(self, run, routing, *flags):
        """The nodes of a run whose table is handed out at `routing`."""
        return [self.start("--role=" + role, "--run_folder=" + self.path(run), *flags, routing=routing, log=run)
                for role in ("conv", "fc")]

    def expect_two_jobs(self, start):
        """Of one solver, whose prefix is relative, on one host, without a port that anybody chose. `start`: makes a run's
        nodes."""
        self.make_relative_job(iterations=200, snapshot=100)
        jobs = {run: start(run) for run in ("one", "two")}
        ports = []
        for run, nodes in jobs.items():
            self.expect_all(nodes, 0, "Optimization Done")
            self.assertIn("tiny_iter_200.caffemodel", os.listdir(self.path(run + "/snapshots")))
            self.assertIn('incarnation 1: run "%s"' % run, self.record(run))
            ports += re.findall(r"port: (\d+)", self.read(run + "/table.prototxt").decode())
            self.assertEqual(sorted(os.listdir(self.path(run + "/logs"))), ["conv0.1.log", "fc0.1.log"])
        self.assertEqual(len(set(ports)), 4, ports)

    def expect_two_jobs_and_a_restart(self, routing_of):
        def start(run, *flags):
            return self.start_meeting(run, routing_of(run), "--conv=1", "--fc=1", "--run_id=" + run,
                                      "--solver=" + self.path("solver.prototxt"), *flags)
        self.expect_two_jobs(start)
        self.expect_all(start("one", "--resume=latest"), 0, "resuming at iteration 200")
        self.assertIn('incarnation 2: run "one"', self.record("one"))
        self.assertIn("conv0.2.log", os.listdir(self.path("one/logs")))
        self.assertNotIn("conv0.2.log", os.listdir(self.path("two/logs")))
        self.expect_clients_take_the_run_folder(start, routing_of)

    def expect_clients_take_the_run_folder(self, start, routing_of):
        """hpctl refuses the way by which nodes get their table, and says what to take, and that is right."""
        self.make_relative_job()
        nodes = start("three")
        self.await_training(nodes)
        for command in ("status", "stop"):
            status, text = cluster.run_tool("hpctl", "--routing=" + routing_of("three"), command)
            self.assertEqual(status, 2, text)
            self.assertEqual(text, "hpctl: %s is no file, and only hpnode asks who hands tables out: take table.prototxt "
                                   "of the job's run folder (hpnode --run_folder=FOLDER)\n" % routing_of("three"))
        table = "--routing=" + self.path("three/table.prototxt")
        status, text = cluster.run_tool("hpctl", table, "status")
        self.assertEqual(status, 0, text)
        self.assertRegex(text, r"(?m)^conv0 +conv ")
        self.assertEqual(cluster.run_tool("hpctl", table, "stop")[0], 0)
        self.expect_all(nodes, 5, "Optimization stopped early")

    def test_two_jobs_that_meet_in_a_folder(self):
        self.expect_two_jobs_and_a_restart(lambda run: "dir://" + self.path("meeting"))

    def test_two_jobs_that_meet_at_redis(self):
        if shutil.which("redis-server") is None:
            self.skipTest("SKIPPED: redis-server is missing")
        port = cluster.free_ports(1)[0]
        server = cluster.Process("redis", ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir",
                                           self.folder], self.path("redis.log"), dict(os.environ))
        self.processes.append(server)
        self.await_text(server, "Ready to accept connections")
        self.expect_two_jobs_and_a_restart(lambda run: "redis://127.0.0.1:%d/%s" % (port, run))

    def test_two_jobs_of_servers(self):
        runs = ("one", "two", "three")
        routing = {run: "tcp://127.0.0.1:%d" % port for run, port in zip(runs, cluster.free_ports(len(runs)))}

        def start(run):
            address = routing[run].removeprefix("tcp://")
            command = [cluster.program("hpserver"), "--solver=" + self.path("solver.prototxt"), "--conv=1", "--fc=1",
                       "--run_id=" + run, "--cache_dir=none", "--listen=" + address,
                       "--folder=" + self.path("server-" + run)]
            server = cluster.Process("server", command, self.path(run + ".server.log"), dict(os.environ))
            self.processes.append(server)
            self.await_text(server, "listens on " + address)
            return self.start_meeting(run, routing[run])
        self.expect_two_jobs(start)
        self.expect_clients_take_the_run_folder(start, routing.get)

    def test_the_ports_that_tasks_take(self):
        self.make_relative_job(iterations=20)
        names = self.make_table(conv=1, fc=1)
        tasks = [self.start(self.run_flag, "--port_folder=" + self.path("run/ports"), log="task%d" % i,
                            SLURM_JOB_ID="12", SLURM_PROCID=str(i), SLURM_STEP_NUM_TASKS="2") for i in range(len(names))]
        self.expect_all(tasks, 0, "Optimization Done")
        ports = re.findall(r"listens on port (\d+)", "".join(task.text() for task in tasks))
        self.assertEqual(re.findall(r"port: (\d+)", self.read("run/table.prototxt").decode()), ports)
        self.assertEqual(self.record()[0], "incarnation 1: Slurm job 12")

    def test_all_nodes_in_one_process(self):
        self.make_relative_job(iterations=20, snapshot=20)
        self.make_table(conv=1, fc=1)
        node = self.start("--all", self.run_flag)
        self.expect_exit(node, 0, "Optimization Done")
        self.assertEqual(self.read("run/logs/all.1.log").decode(), node.text())
        self.assertIn("tiny_iter_20.caffemodel", os.listdir(self.path("run/snapshots")))

    def test_a_disk_that_hangs(self):
        """The log is a pipe that nobody opens for reading."""
        self.make_relative_job()
        os.makedirs(self.path("run/logs"))
        os.mkfifo(self.path("run/logs/fc0.1.log"))
        nodes = self.start_all(self.make_table(conv=1, fc=1), self.run_flag)
        self.await_training(nodes.values(), 100)
        nodes["fc0"].send(signal.SIGTERM)
        self.expect_all(nodes.values(), 5, "Optimization stopped early")
        self.assert_in_record("conv0, incarnation 1: ended with exit status 5: .*")

    def test_a_folder_that_cannot_be(self):
        self.make_relative_job()
        self.make_table(conv=1, fc=1)
        self.write("file", "")
        self.expect_exit(self.start("--run_folder=" + self.path("file/run"), name="conv0"), 2,
                         r"--run_folder: \S*file/run/logs: the folder cannot be made: Not a directory; expected a folder that")
        os.makedirs(self.path("run/net.prototxt"))
        self.write("run/record.txt", "")
        self.expect_exit(self.start(self.run_flag, name="conv0"), 2,
                         r"--run_folder: \S*run/net.prototxt: cannot open: Is a directory; expected a folder that this "
                         "user can make and write on this host")


class FullDiskTest(cluster.JobTest):

    def test_training_goes_on_and_says_so_once(self):
        if os.geteuid() != 0:
            self.skipTest("SKIPPED: only root may mount the small disk")
        os.mkdir(self.path("run"))
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "hpnode-test", self.path("run")],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if made.returncode != 0:
            self.skipTest("SKIPPED: no small disk can be mounted: " + made.stdout.decode())
        self.addCleanup(subprocess.run, ["umount", self.path("run")], check=True)
        self.make_job(solver="display: 1\n")
        nodes = self.start_all(self.make_table(conv=1, fc=1), "--run_folder=" + self.path("run"))
        self.await_training(nodes.values())
        with open(self.path("run/filler"), "wb", buffering=0) as filler:
            try:
                while True:
                    filler.write(b"x" * 4096)
            except OSError:
                pass
        missing = r"run/logs/fc0\.1\.log: No space left on device; lines are missing there, and training goes on"
        self.await_text(nodes["fc0"], missing)
        self.await_training(nodes.values(), 100)
        self.assertEqual(len(re.findall(missing, nodes["fc0"].text())), 1)


if __name__ == "__main__":
    cluster.main()
