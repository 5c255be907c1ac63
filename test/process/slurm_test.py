"""A real Slurm on this machine, of two virtual hosts: sbatch trains digits over 4 tasks, and queues itself again after a
lost node. Needs root, and Debian's slurmctld, slurmd, slurm-client and munge."""

import glob
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

import cluster
import digits
import namespaces

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = os.path.join(HERE, "../../tools/cluster/slurm/hpnode.sbatch")
PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "srun", "scontrol", "squeue", "sinfo")
HOSTS = ("n0", "n1")
TASKS_OF_A_HOST = 2
CGROUPS = "/sys/fs/cgroup"
SLOW_S = 180.0  # for a whole job, on a loaded machine

CONF = """ClusterName=test
SlurmctldHost=ctl
AuthType=auth/munge
AuthInfo=socket=%(folder)s/munge/%(host)s.socket,cred_expire=5
SlurmUser=root
StateSaveLocation=%(folder)s/state
SlurmdSpoolDir=%(folder)s/spool.%%n
SlurmctldPidFile=%(folder)s/slurmctld.pid
SlurmdPidFile=%(folder)s/slurmd.%%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_interval=1
DebugFlags=NO_CONF_HASH
MpiDefault=none
PlugStackConfig=%(folder)s/plugstack.conf
MailProg=/bin/true
KillWait=10
MinJobAge=600
SlurmdParameters=config_overrides
NodeName=n[0-1] NodeHostname=ctl NodeAddr=n[0-1] Port=[6820-6821] CPUs=%(tasks)d State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Slurm:
    """Its daemons, with all that they write in a folder. A munged for each: one takes a credential once, and a step's goes
    to both hosts."""

    def __init__(self, folder, hosts):
        self.folder, self.hosts, self.daemons = folder, hosts, []
        os.makedirs(os.path.join(folder, "munge"), 0o755)
        os.makedirs(os.path.join(folder, "state"))
        os.chmod(folder, 0o755)
        self.write("plugstack.conf", "")
        with open(self.path("munge/key"), "wb") as out:
            out.write(os.urandom(128))
        os.chmod(self.path("munge/key"), 0o600)
        self.environment = dict(os.environ, SLURM_CONF=self.path("ctl.conf"))

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="ascii") as out:
            out.write(text)

    def start(self):
        for host in ("ctl", *HOSTS):
            self.write(host + ".conf", CONF % {"folder": self.folder, "host": host, "tasks": TASKS_OF_A_HOST})
            self.daemon("munged." + host, "munged", "--foreground", "--force",
                        *("--%s=%s" % (flag, self.path("munge/" + name)) for flag, name in (
                            ("key-file", "key"), ("socket", host + ".socket"), ("pid-file", host + ".pid"),
                            ("log-file", host + ".log"), ("seed-file", host + ".seed"))))
        self.wait_for(lambda: len(glob.glob(self.path("munge/*.socket"))) == 1 + len(HOSTS), "munged")
        self.daemon("slurmctld", "slurmctld", "-D", "-f", self.path("ctl.conf"))
        for host, on_host in self.hosts.items():
            self.daemon("slurmd." + host, *on_host, "slurmd", "-D", "-N", host, "-f", self.path(host + ".conf"))
        self.wait_for(lambda: self.ask("sinfo", "--noheader", "--format=%T %D").split() == ["idle", str(len(HOSTS))],
                      "slurmd")

    def daemon(self, label, *command):
        with open(self.path(label + ".log"), "wb") as out:
            self.daemons.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out))

    def stop(self):
        """Ends the daemons, those last that the others need."""
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def wait_for(self, condition, what):
        deadline = time.monotonic() + SLOW_S
        while not condition():
            ended = [daemon.args[0] for daemon in self.daemons if daemon.poll() is not None]
            if ended or time.monotonic() > deadline:
                raise AssertionError("no %s: %s ended\n%s" % (what, ended or "none", self.logs()))
            time.sleep(0.05)

    def ask(self, *command):
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=self.environment,
                              timeout=cluster.PATIENCE_S, check=False).stdout.decode()

    def logs(self):
        text = ""
        for path in glob.glob(self.path("*.log")):
            with open(path, encoding="utf-8", errors="replace") as log:
                text += "--- %s\n%s" % (path, "".join(log.readlines()[-15:]))
        return text


class SlurmTest(digits.DigitsJob):

    @classmethod
    def setUpClass(cls):
        missing = [name for name in PROGRAMS if not shutil.which(name)]
        if missing or not namespaces.inside():
            raise cluster.unittest.SkipTest("SKIPPED: needs %s" % (", ".join(missing) or "root and namespaces"))
        if not os.path.isdir(CGROUPS) or not os.listdir(CGROUPS):
            raise cluster.unittest.SkipTest("SKIPPED: no control groups at %s, without which slurmd does not start" % CGROUPS)
        folder = tempfile.mkdtemp(prefix="hpnode-slurm-")
        cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
        try:
            hosts = namespaces.make_hosts(folder, HOSTS)
        except subprocess.CalledProcessError as error:
            raise cluster.unittest.SkipTest("SKIPPED: no network of its own: " + error.stderr.decode()) from error
        cls.slurm = Slurm(folder, hosts)
        cls.addClassCleanup(cls.slurm.stop)
        cls.slurm.start()

    def submit(self, name, *flags, tasks=4, each=TASKS_OF_A_HOST, **variables):
        """Submits the example script for the solver NAME_solver.prototxt. `each`: tasks of a host. Returns the number of
        the job."""
        environment = dict(self.slurm.environment, OMP_WAIT_POLICY="passive", RUN_FOLDER=self.path("run-" + name),
                           PATH="%s:%s" % (os.path.dirname(cluster.program("hpnode")), os.environ["PATH"]))
        environment.update({"HPNODE_FLAGS": "--cache_dir=none"}, **variables)
        done = subprocess.run(["sbatch", "--parsable", "--ntasks=%d" % tasks, "--ntasks-per-node=%d" % each,
                               "--time=60", "--chdir=" + self.folder, "--output=" + self.path(name + ".out"), SCRIPT,
                               self.path(name + "_solver.prototxt"), *flags], env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=cluster.PATIENCE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout.decode().strip()

    def output(self, name):
        path = self.path(name + ".out")
        return self.read(name + ".out").decode(errors="replace") if os.path.exists(path) else ""

    def field(self, job, name):
        return re.search(r"\b%s=(\S*)" % name, self.slurm.ask("scontrol", "show", "job", job))[1]

    def await_end(self, job, name):
        """Returns the exit status of the job's last start."""
        try:
            self.slurm.wait_for(lambda: self.field(job, "JobState") in ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED"),
                                "end of the job")
        except AssertionError as error:
            raise AssertionError(self.output(name)) from error
        return int(self.field(job, "ExitCode").split(":")[0])

    def await_snapshot(self, name):
        self.slurm.wait_for(lambda: glob.glob(self.path(name + "_iter_*.hpnode")), "snapshot")

    def result(self, name, iterations):
        """Model and state, but for the name of the model in the state. Names are of one length."""
        return [self.read("%s_iter_%d.%s" % (name, iterations, kind)).replace(name.encode(), b"STATED")
                for kind in ("caffemodel", "solverstate")]

    def assert_run_folder(self, name, job, incarnations, *ends):
        """What the nodes leave: the files of the latest start, a log of each node and start, and what happened."""
        record = self.read("run-%s/record.txt" % name).decode()
        names = ("conv0", "conv1", "fc0", "fc1")
        for number in range(1, incarnations + 1):
            self.assertRegex(record, r"(?m)^\S+ \S+ incarnation %d: Slurm job %s$" % (number, job))
            for node in names:
                self.assertRegex(record, r"%s, incarnation %d: begins: hpnode [\d.]+, host \S+, process \d+, program "
                                 "[0-9a-f]{16}\n" % (node, number))
                self.assertRegex(record, "%s, incarnation %d: ended " % (node, number))
                self.assertIn("node %s of" % node, self.read("run-%s/logs/%s.%d.log" % (name, node, number)).decode())
        for end in ends:
            self.assertRegex(record, end)
        for kind in ("table", "solver", "net"):
            self.assertTrue(os.path.exists(self.path("run-%s/%s.prototxt" % (name, kind))), kind)

    def nodes(self):
        """The processes of hpnode, by the names of the programs that run here."""
        found = []
        for entry in os.listdir("/proc"):
            try:
                with open("/proc/%s/comm" % entry, encoding="utf-8") as comm:
                    if comm.read() == "hpnode\n":
                        found.append(int(entry))
            except OSError:
                continue
        return found

    def test_trains_and_goes_on_after_a_lost_node(self):
        iterations = 500
        for name in ("steady", "killed"):
            self.write_solver(name, iterations, "snapshot: 50\n")
        job = self.submit("steady", "--conv=2", "--fc=2")
        self.assertEqual(self.await_end(job, "steady"), 0, self.output("steady"))
        text = self.output("steady")
        self.assertGreaterEqual(self.accuracy(text), digits.PROMISED)
        for task, node in enumerate(("conv0", "conv1", "fc0", "fc1")):
            self.assertRegex(text, r"task %d of 4 \(Slurm job %s\): node %s of" % (task, job, node))
        hosts = re.findall(r'host: "(\w+)"', self.read("run-steady/table.prototxt").decode())
        self.assertEqual(hosts, ["n0", "n0", "n1", "n1"])
        self.assert_run_folder("steady", job, 1, r"ended with exit status 0")

        job = self.submit("killed", "--conv=2", "--fc=2")
        self.await_snapshot("killed")
        os.kill(max(self.nodes()), signal.SIGKILL)
        self.assertEqual(self.await_end(job, "killed"), 0, self.output("killed"))
        text = self.output("killed")
        self.assertEqual(self.field(job, "Restarts"), "1", text)
        self.assertRegex(text, r'lost node "(conv|fc)[01]"')
        self.assertRegex(text, r"task 0 of 4 \(Slurm job %s, restart 1\)" % job)
        self.assertRegex(text, r"resuming at iteration [1-9]\d*0 from")
        self.assert_run_folder("killed", job, 2, r"ended with exit status 4: .*lost", "ended without reporting a status")
        same = [one == other for one, other in zip(*(self.result(name, iterations) for name in ("steady", "killed")))]
        self.assertEqual(same, [True, True], "model and state")
        self.assertEqual(self.nodes(), [])

    def test_two_jobs_on_the_same_hosts(self):
        """Slurm gives them a processor of each host, and hproute the same ports; their nodes have others."""
        jobs = {}
        for name in ("first", "other"):
            self.write_solver(name, 100000000, "snapshot: 100\n")
            jobs[name] = self.submit(name, "--conv=1", "--fc=1", tasks=2, each=1)
        for name in jobs:
            self.await_snapshot(name)
        hosts = [self.field(job, "NodeList") for job in jobs.values()]
        self.assertEqual(hosts, ["n[0-1]"] * 2)
        tables = [self.read("run-%s/table.prototxt" % name).decode() for name in jobs]
        ports = [set(re.findall(r"port: (\d+)", table)) for table in tables]
        self.assertTrue(all(ports) and "29500" not in ports[0] | ports[1], tables)
        for job in jobs.values():
            self.slurm.ask("scancel", job)
        for name, job in jobs.items():
            self.await_end(job, name)
            self.assertNotIn("restart 1", self.output(name))
        self.assertEqual(self.nodes(), [])

    def test_two_jobs_of_one_solver(self):
        """Its prefix is relative, and nobody says where their runs are: each has a folder that is named after it."""
        self.write_solver("twice", 200)
        solver = self.read("twice_solver.prototxt").decode()
        self.write("twice_solver.prototxt", re.sub(r'snapshot_prefix: "[^"]*"', 'snapshot_prefix: "digits"', solver))
        jobs = [self.submit("twice", "--conv=1", "--fc=1", tasks=2, each=1, RUN_FOLDER="") for _ in range(2)]
        for job in jobs:
            self.assertEqual(self.await_end(job, "twice"), 0, self.output("twice"))
            run = "hpnode-%s/" % job
            self.assertTrue(os.path.exists(self.path(run + "snapshots/digits_iter_200.solverstate")))
            self.assertEqual(sorted(os.listdir(self.path(run + "logs"))), ["conv0.1.log", "fc0.1.log"])
            self.assertRegex(self.read(run + "record.txt").decode(), r"incarnation 1: Slurm job %s\n" % job)

    def test_a_plan_for_the_allocation(self):
        self.write_solver("planned", 200)
        job = self.submit("planned", "--plan=auto")
        self.assertEqual(self.await_end(job, "planned"), 0, self.output("planned"))
        hosts = re.findall(r'host: "(\w+)"', self.read("run-planned/table.prototxt").decode())
        self.assertEqual(hosts, list(HOSTS[:len(hosts)]))
        for task in range(len(hosts)):
            self.assertRegex(self.output("planned"), r"task %d of %d \(Slurm job %s\): node " % (task, len(hosts), job))

    def test_stops_ahead_of_the_limit_and_goes_on(self):
        self.write_solver("limited", 100000000)
        job = self.submit("limited", "--conv=3", "--fc=1", MOST_RESTARTS="1",
                          SLURM_JOB_END_TIME=str(int(time.time()) + 40))
        self.assertEqual(self.await_end(job, "limited"), 5, self.output("limited"))
        text = self.output("limited")
        self.assertEqual(len(re.findall("hpnode ended with 5", text)), 2, text)
        self.assertRegex(text, "stopping, 30 s ahead of the end of the allocation")
        self.assertRegex(text, r"not queued again after 1 restarts \(MOST_RESTARTS\)")

    def test_the_end_of_the_allocation_is_asked_for(self):
        self.write_solver("asked", 100)
        job = self.submit("asked", "--conv=3", "--fc=1", HPNODE_FLAGS="--cache_dir=none --stop_before_s=3600",
                          MOST_RESTARTS="0")
        self.assertEqual(self.await_end(job, "asked"), 5, self.output("asked"))
        self.assertRegex(self.output("asked"), "stopping, 3600 s ahead of the end of the allocation")

    def test_an_allocation_smaller_than_the_table(self):
        self.write_solver("small", 100)
        job = self.submit("small", "--conv=3", "--fc=2")
        self.assertEqual(self.await_end(job, "small"), 2, self.output("small"))
        self.assertRegex(self.output("small"), r"(?m)^hproute: --hosts=slurm: the allocation on n0, n1 has 4 task\(s\), and the "
                                                r"table 5 node\(s\); expected a task for each node: ask for 5 \(sbatch "
                                                r"--ntasks=5\), or give the table 4 \(--conv, --fc\)$")
        self.assertEqual(self.nodes(), [])
        said = subprocess.run(["srun", "--ntasks=2", cluster.program("hpnode"), "--routing=" + self.small_table()],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=self.slurm.environment, check=False,
                              timeout=SLOW_S)
        self.assertEqual(said.returncode, 2, said.stdout)
        self.assertRegex(said.stdout.decode(), r"small_table\.prototxt: the table has 3 node\(s\), and the job 2 task\(s\) "
                                              r"\(SLURM_STEP_NUM_TASKS\); expected a task for each node: start as many, or "
                                              r"write a table for these \(hproute --hosts\)")
        self.assertEqual(self.nodes(), [])

    def small_table(self):
        self.make_job()
        self.make_table(conv=2, fc=1, name="small_table.prototxt")
        return self.path("small_table.prototxt")


if __name__ == "__main__":
    namespaces.enter()
    cluster.main()
