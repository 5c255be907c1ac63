"""mpirun starts the nodes: four tasks of a real Open MPI on this machine. Needs Debian's openmpi-bin."""

import glob
import os
import re
import shutil
import signal
import subprocess
import tempfile

import cluster
import digits

LIMIT = "odls_base_sigkill_timeout"
SLOW_S = 300.0  # mpirun waits the limit up to twice, whether anybody still runs or not


class MpiTest(digits.DigitsJob):

    def setUp(self):
        if not shutil.which("mpirun"):
            self.skipTest("SKIPPED: no mpirun")
        super().setUp()
        # Each mpirun makes sockets in a folder of its own in it, whose paths are short. In one folder two that start at
        # once would make the same one there, which Open MPI takes for an error.
        self.session = tempfile.mkdtemp(prefix="hpmpi-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.session, ignore_errors=True)

    def write_table(self, name, slots=4):
        """The table of NAME_solver.prototxt for a host file, as the README has it."""
        hostfile = self.write("hosts.txt", "localhost slots=%d\n" % slots)
        status, said = cluster.run_tool(
            "hproute", "--solver=" + self.path(name + "_solver.prototxt"), "--conv=2", "--fc=2",
            "--hosts=hostfile:" + hostfile, "--out=" + self.path("table.prototxt"))
        ports = iter(cluster.free_ports(4))
        if status == 0:
            text = self.read("table.prototxt").decode()
            self.write("table.prototxt", re.sub(r"port: \d+", lambda _: "port: %d threads: 1" % next(ports), text))
        return status, said

    def mpirun(self, *flags, tasks=4, hide=(), of_nodes=()):
        """`hide`: variables that the nodes do not see. `of_nodes`: flags of hpnode."""
        output = self.path("mpirun.%d" % len(self.processes))
        command = ["mpirun", "-n", str(tasks), "--hostfile", self.path("hosts.txt"), "--output-filename", output, *flags]
        command += ["--allow-run-as-root"] if os.geteuid() == 0 else []
        command += ["env", *("--unset=" + name for name in hide)]
        command += [cluster.program("hpnode"), "--routing=" + self.path("table.prototxt"), "--cache_dir=none", *of_nodes]
        session = os.path.join(self.session, str(len(self.processes)))
        os.mkdir(session)
        environment = dict(os.environ, OMP_WAIT_POLICY="passive", TMPDIR=session)
        process = cluster.Process("mpirun", command, output + ".log", environment)
        self.processes.append(process)
        return process

    def count_nodes(self, process, text):
        """Nodes that say so. By the file that mpirun writes for each: in its log what they say lies in pieces, not lines."""
        files = glob.glob(process.log.removesuffix(".log") + "/*/rank.*/stderr")
        return sum(text in self.read(file).decode() for file in files)

    def await_no_nodes(self, process):
        """mpirun has ended, and so has all that it has started."""
        self.assertIsNotNone(process.wait(SLOW_S), process.text())
        self.assertEqual(self.nodes(), [])
        self.expect_only()

    def nodes(self):
        """Processes of hpnode that run the test's table."""
        listed = subprocess.run(["ps", "-eo", "pid,args"], stdout=subprocess.PIPE, check=True).stdout.decode()
        lines = [line.split() for line in listed.splitlines() if self.path("table.prototxt") in line]
        return [int(words[0]) for words in lines if words[1] == cluster.program("hpnode")]

    def test_what_any_pmix_server_says(self):
        """Without Open MPI's own variables its tasks have those of the PMIx server that it brings along. (Debian has no
        package of prun.)"""
        self.write_solver("job", 20)
        status, said = self.write_table("job")
        self.assertEqual(status, 0, said)
        process = self.mpirun(hide=["OMPI_COMM_WORLD_" + name for name in ("RANK", "SIZE", "LOCAL_RANK")])
        self.expect_exit(process, 0, *(r"task %d \(PMIx\): node %s of" % task for task in enumerate(
            ("conv0", "conv1", "fc0", "fc1"))))
        self.await_no_nodes(process)

    def test_trains(self):
        self.write_solver("job", 500)
        status, said = self.write_table("job")
        self.assertEqual(status, 0, said)
        process = self.mpirun(of_nodes=["--run_folder=" + self.path("run")])
        self.expect_exit(process, 0, *(r"task %d of 4 \(Open MPI\): node %s of" % task for task in enumerate(
            ("conv0", "conv1", "fc0", "fc1"))))
        self.assertGreaterEqual(self.accuracy(process.text()), digits.PROMISED)
        self.assertEqual(self.count_nodes(process, "Optimization Done"), 4, process.text())
        self.await_no_nodes(process)
        record = self.read("run/record.txt").decode()
        self.assertRegex(record, r"^\S+ \S+ incarnation 1: Open MPI job \S+\n")
        self.assertEqual(record.count("incarnation 1: ended with exit status 0\n"), 4, record)

    def test_two_jobs_of_one_user_at_once(self):
        """Of one table, as hproute writes it, and one solver whose prefix is relative, as the README has it."""
        self.write_solver("job", 200)
        solver = self.path("job_solver.prototxt")
        text = re.sub(r'snapshot_prefix: "[^"]*"', 'snapshot_prefix: "job"', self.read("job_solver.prototxt").decode())
        self.write("job_solver.prototxt", text)
        hostfile = self.write("hosts.txt", "localhost slots=4\n")
        status, said = cluster.run_tool("hproute", "--solver=" + solver, "--conv=2", "--fc=2", "--hosts=hostfile:" + hostfile,
                                        "--out=" + self.path("table.prototxt"))
        self.assertEqual(status, 0, said)
        jobs = [self.mpirun(of_nodes=["--run_folder=" + self.path(run), "--port_folder=" + self.path(run + "/ports")])
                for run in ("run1", "run2")]
        self.expect_all(jobs, 0, "Optimization Done")
        ports = [set(re.findall(r"port: (\d+)", self.read(run + "/table.prototxt").decode())) for run in ("run1", "run2")]
        self.assertEqual([len(of_run) for of_run in ports], [4, 4])
        self.assertFalse(ports[0] & ports[1])
        for run in ("run1", "run2"):
            self.assertTrue(os.path.exists(self.path(run + "/snapshots/job_iter_200.solverstate")), run)
        self.await_no_nodes(jobs[0])

    def test_a_stop_has_the_time_that_it_takes(self):
        self.write_solver("job", 100000000)
        self.write_table("job")
        process = self.mpirun("--mca", LIMIT, "30")
        self.await_training([process], 60)
        process.send(signal.SIGTERM)
        self.await_no_nodes(process)
        self.assertEqual(self.count_nodes(process, "Optimization stopped early"), 4, process.text())
        states = [name for name in os.listdir(self.folder) if re.fullmatch(r"job_iter_\d+\.solverstate", name)]
        self.assertEqual(len(states), 1, states)

    def test_sigusr1_is_passed_on(self):
        self.write_solver("job", 100000000)
        self.write_table("job")
        process = self.mpirun()
        self.await_training([process], 60)
        process.send(signal.SIGUSR1)
        self.await_no_nodes(process)
        self.assertEqual(process.popen.returncode, 5, process.text())
        self.assertRegex(process.text(), "stopping, as asked by USR1")

    def test_a_lost_node_ends_all_and_the_next_start_goes_on(self):
        self.write_solver("job", 1000, "snapshot: 100\n")
        self.write_table("job")
        folder = "--run_folder=" + self.path("run")
        process = self.mpirun("--mca", LIMIT, "30", of_nodes=[folder, "--port_folder=" + self.path("run/ports")])
        self.await_text(process, "Snapshotting solver state to")
        nodes = self.nodes()
        self.assertEqual(len(nodes), 4)
        os.kill(nodes[-1], signal.SIGKILL)
        self.await_no_nodes(process)
        self.assertEqual(process.popen.returncode, 128 + signal.SIGKILL)
        # As the README has it: the same run folder, and ports of its own.
        again = self.mpirun(of_nodes=[folder, "--port_folder=" + self.path("run/ports-2"), "--resume=latest"])
        self.expect_exit(again, 0, r"resuming at iteration [1-9]", seconds=SLOW_S)
        self.assertEqual(self.count_nodes(again, "Optimization Done"), 4, again.text())
        self.assertGreaterEqual(self.accuracy(again.text()), digits.PROMISED)
        self.await_no_nodes(again)
        self.assertIn("conv0.2.log", os.listdir(self.path("run/logs")))

    def test_another_number_of_tasks_than_nodes(self):
        self.write_solver("job", 100)
        status, said = self.write_table("job", slots=3)
        self.assertEqual(status, 2, said)
        self.assertIn("--hosts=hostfile:%s: it has 3 task(s), and the table 4 node(s); expected a task for each node: start 4, "
                      "or give the table 3" % self.path("hosts.txt"), said)
        self.write_table("job")
        process = self.mpirun(tasks=3)
        self.expect_exit(process, 2, r"/table\.prototxt: the table has 4 node\(s\), and the job 3 task\(s\) "
                                     r"\(OMPI_COMM_WORLD_SIZE\); expected a task for each node: start as many, or write a "
                                     r"table for these \(hproute --hosts\)")
        self.await_no_nodes(process)


if __name__ == "__main__":
    cluster.main()
