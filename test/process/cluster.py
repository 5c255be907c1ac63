"""Real hpnode processes on this machine: a tiny data set, net, solver and table, nodes that are watched and ended.

Each test case has a folder of its own and owns the processes that it starts. Nothing waits without a deadline.
"""

import ctypes
import datetime
import functools
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import running

LOSS_LIMIT_S = 3.0  # within which a lost node is named by all others
PATIENCE_S = 60.0  # for what takes long on a loaded machine only
BUSY = 0.25  # processors: what others use of a machine that is not quiet
SIDE = 12  # pixels of the images
CLASSES = 4

_bin_folder = None


def program(name):
    """Path of a program that the build made."""
    return os.path.join(_bin_folder, name)


def main():
    """Runs the tests of the calling file: FILE.py FOLDER_OF_THE_BINARIES [unittest's arguments]."""
    global _bin_folder
    if len(sys.argv) < 2 or not os.path.exists(os.path.join(sys.argv[1], "hpnode")):
        sys.exit("usage: %s FOLDER_OF_THE_BINARIES [-v] [CASE.test]" % sys.argv[0])
    _bin_folder = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)


def run_tool(name, *arguments):
    """Runs a tool to its end. Returns (exit status, all that it said)."""
    done = subprocess.run([program(name), *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=PATIENCE_S, check=False)
    return done.returncode, done.stdout.decode(errors="replace")


def multiplies_bfloat16():
    """Whether hpnode has products of bfloat16 on this host's processors."""
    return "precision FP32 or BF16" in run_tool("hpnode", "--list_devices")[1]


def has_ipv6():
    """Whether this host has IPv6, if only on loopback."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        return True
    except OSError:
        return False


_claims = []  # as long as this process runs


def claim(port):
    """Whether a port is ours: a test beside this one may have drawn it and not listen yet. Like ports, names of
    abstract sockets are of a network namespace."""
    mark = socket.socket(socket.AF_UNIX)
    try:
        mark.bind("\0hpnode-test-port-%d" % port)
    except OSError:
        mark.close()
        return False
    _claims.append(mark)
    return True


def free_ports(count, host="127.0.0.1"):
    """Ports that nobody listens on, below the range from which the kernel takes ports of its own for connections."""
    ports = []
    draw = random.SystemRandom()
    while len(ports) < count:
        port = draw.randrange(15000, 32000)
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            try:
                probe.bind((host, port))
            except OSError:
                continue
        if claim(port):
            ports.append(port)
    return ports


def write_database(path, records=48, seed=1, side=SIDE, backend="leveldb"):
    """A database of `records` noisy images of CLASSES classes, written by convert_mnist_data from IDX files."""
    draw = random.Random(seed)
    means = [[draw.randrange(160) for _ in range(side * side)] for _ in range(CLASSES)]
    labels = [draw.randrange(CLASSES) for _ in range(records)]
    pixels = b"".join(bytes(mean + draw.randrange(90) for mean in means[label]) for label in labels)
    with open(path + ".images", "wb") as out:
        out.write(struct.pack(">IIII", 2051, records, side, side) + pixels)
    with open(path + ".labels", "wb") as out:
        out.write(struct.pack(">II", 2049, records) + bytes(labels))
    status, text = run_tool("convert_mnist_data", "--backend=" + backend, path + ".images", path + ".labels", path)
    assert status == 0, text


NET = """name: "tiny"
layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TRAIN }
        transform_param { scale: 0.004 mirror: true } data_param { source: "%(source)s" batch_size: 12 backend: LEVELDB } }
layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TEST }
        transform_param { scale: 0.004 } data_param { source: "%(source)s" batch_size: 12 backend: LEVELDB } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
        convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1"
        pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: "ip1" type: "InnerProduct" bottom: "pool1" top: "ip1"
        inner_product_param { num_output: %(hidden)d weight_filler { type: "xavier" } } }
layer { name: "relu2" type: "ReLU" bottom: "ip1" top: "ip1" }
layer { name: "drop" type: "Dropout" bottom: "ip1" top: "ip1" dropout_param { dropout_ratio: 0.25 } }
layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
        inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "accuracy" type: "Accuracy" bottom: "ip2" bottom: "label" top: "accuracy" include { phase: TEST } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }
"""


def times_of(pattern, log):
    """Times of day of a log's lines that match, by their own prefixes."""
    times = []
    for line in log.splitlines():
        stamp = re.match(r"[IWEF](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{6}) ", line)
        if stamp and re.search(pattern, line):
            year = datetime.date.today().year
            times.append(datetime.datetime(year, *map(int, stamp.groups())).timestamp())
    return times


class Process:
    """A started hpnode with its log."""

    def __init__(self, name, command, log, environment, stderr=None):
        self.name, self.log = name, log
        with open(log, "wb") as out:
            out = out if stderr is None else stderr
            self.popen = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment,
                                          preexec_fn=die_with_parent)

    def text(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()

    def errors(self):
        """The log's lines of severity error."""
        return [line for line in self.text().splitlines() if re.match(r"E\d{4} ", line)]

    def send(self, number):
        """Sends a signal, and returns the time of day at which it went."""
        assert self.popen.poll() is None, "%s has ended with %s" % (self.name, self.popen.returncode)
        sent = time.time()
        os.kill(self.popen.pid, number)
        return sent

    def wait(self, seconds=PATIENCE_S):
        """Exit status; negative for a signal, None if it still runs."""
        try:
            return self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def times_of(self, pattern):
        return times_of(pattern, self.text())

    def logged_at(self, pattern):
        """Time of day of the first log line that matches; None if there is none."""
        return next(iter(self.times_of(pattern)), None)


class Late(AssertionError):
    """A node took longer for something than is promised, or this test longer than lets it say anything."""


class MachineUsage:
    """How many processors programs other than this test and those it started have used since this object was made."""

    def __init__(self):
        self.begin = self.now()

    @staticmethod
    def now():
        """(seconds that have passed, processor seconds of all programs, processor seconds of our own ended ones)"""
        with open("/proc/stat", encoding="ascii") as stat:
            user, nice, system, _, _, irq, softirq, steal = map(int, stat.readline().split()[1:9])
        busy = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
        return time.monotonic(), busy, sum(os.times()[:4])

    def others(self):
        seconds, busy, own = (end - begin for end, begin in zip(self.now(), self.begin))
        return (busy - own) / seconds

    def stretch(self):
        """By how much work that wants all processors took longer than with nobody beside it."""
        processors = len(os.sched_getaffinity(0))
        return processors / max(processors - self.others(), processors / 8)


def _with_second_try(test):
    """A promised time is missed where other programs keep our nodes from running: then, and only then, `test` may try
    again, once and from the start."""
    @functools.wraps(test)
    def tried(self):
        self.usage = MachineUsage()
        try:
            test(self)
            return
        except Late as late:
            self.end_processes()
            others = self.usage.others()
            if others < BUSY:
                raise
            print("    once more, because others used %.1f processors meanwhile: %s" % (others, late))
        self.tearDown()
        self.doCleanups()
        self.setUp()
        self.usage = MachineUsage()
        test(self)
    return tried


def die_with_parent():
    # A test that is killed leaves nothing behind.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class JobTest(unittest.TestCase):
    """A test case with a folder, files of a job in it, and nodes."""

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        for name, test in list(vars(cls).items()):
            if name.startswith("test_"):
                setattr(cls, name, _with_second_try(test))

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="hpnode-process-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        os.environ[running.MARK] = self.folder
        self.addCleanup(os.environ.pop, running.MARK)
        self.processes = []

    def tearDown(self):
        self.end_processes()
        if self.failed():
            for process in self.processes:
                tail = process.text().splitlines()[-25:]
                print("--- %s, exit status %s" % (process.log, process.popen.returncode), *tail, sep="\n")

    def end_processes(self):
        for process in self.processes:
            if process.popen.poll() is None:
                process.popen.kill()
            process.popen.wait()

    def failed(self):
        result = self._outcome.result
        return any(test is self for test, _ in result.failures + result.errors)

    # --- Files

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as out:
            out.write(text)
        return self.path(name)

    def make_job(self, iterations=1000000, snapshot=0, test=False, solver="", hidden=16, net=None, records=48):
        """Database "db", net.prototxt and solver.prototxt. Without `iterations`, training goes on until it is ended."""
        if not os.path.exists(self.path("db")):
            write_database(self.path("db"), records)
        self.write("net.prototxt", (net or NET) % {"source": self.path("db"), "hidden": hidden})
        text = 'net: "net.prototxt"\nlr_policy: "fixed"\nmax_iter: %d\n' % iterations
        text += "snapshot: %d\nsnapshot_after_train: %s\n" % (snapshot, "true" if snapshot else "false")
        text += 'snapshot_prefix: "%s"\n' % self.path("out")
        text += "random_seed: 7\nmomentum: 0.9\nweight_decay: 0.0005\n"
        text += "" if "base_lr" in solver else "base_lr: 0.01\n"
        text += "" if "display" in solver else "display: 5\n"
        if test:
            text += "test_iter: 2\ntest_interval: 10\n"
        self.write("solver.prototxt", text + solver)

    def make_table(self, conv=2, fc=2, micro_batches=2, name="table.prototxt", hosts=None, ports=None, cut="ip1",
                   before="pool1", extra="", solver="solver.prototxt", threads=1, stages=None, servers=0, staleness=0):
        """A table of conv0, conv1, ..., fc0, ... on loopback. Returns the names of its nodes.
        `servers`: parameter servers of the conv stage: ps0, ps1, ... behind all others.
        `stages`: instead of conv, fc, cut and before, (name, the rest of its text, number of nodes) of each."""
        each = "threads: %d " % threads if threads else ""
        if stages is None:
            stages = [("conv", 'kind: CONV to_layer: "%s"' % before if fc else "kind: CONV", conv)]
            stages += [("fc", 'kind: FC from_layer: "%s"' % cut, fc)] if fc else []
        if servers:
            stages[0] = (stages[0][0], stages[0][1] + " exchange: PARAMETER_SERVER", stages[0][2])
            stages = stages + [("ps", 'kind: PS serves: "%s"' % stages[0][0], servers)]
        if staleness:
            extra += "\nstaleness: %d" % staleness
        parts = [(stage, index) for stage, (_, _, nodes) in enumerate(stages) for index in range(nodes)]
        names = [stages[stage][0] + str(index) for stage, index in parts]
        ports = ports or free_ports(len(names))
        text = 'solver: "%s"\nmicro_batches: %d\n%s\n' % (solver, micro_batches, extra)
        for label, rest, _ in stages:
            text += 'stage { name: "%s" %s }\n' % (label, rest)
        for i, (node, port, (stage, index)) in enumerate(zip(names, ports, parts)):
            text += 'node { name: "%s" stage: %d index: %d host: "%s" port: %d %s}\n' % (
                node, stage, index, hosts[i] if hosts else "127.0.0.1", port, each)
        self.write(name, text)
        self.ports = dict(zip(names, ports))
        return names

    # --- Processes

    def start(self, *flags, name=None, table="table.prototxt", prefix=(), log=None, stderr=None, routing=None,
              **variables):
        """Starts `hpnode --node=name` or, without a name, with these flags only; `variables` of its environment.
        `routing`: where the table comes from, if it is not the file `table`.
        `stderr`: a descriptor that it logs to instead of its file."""
        label = log or name or "node"
        command = [*prefix, program("hpnode"), "--routing=" + (routing or self.path(table)), "--cache_dir=none", *flags]
        if name:
            command.append("--node=" + name)
        path = self.path("%s.%d.log" % (label, len(self.processes)))
        # Many small processes on few cores: an OpenMP thread that spins takes the core from the node that is to run.
        environment = dict(os.environ, OMP_WAIT_POLICY="passive", **variables)
        process = Process(label, command, path, environment, stderr)
        self.processes.append(process)
        return process

    def start_all(self, names, *flags, table="table.prototxt"):
        return {name: self.start(*flags, name=name, table=table) for name in names}

    def await_text(self, process, pattern, seconds=PATIENCE_S, count=1):
        """Waits until `count` lines of the log match."""
        deadline = time.monotonic() + seconds
        while len(re.findall(pattern, process.text())) < count:
            if process.popen.poll() is not None and len(re.findall(pattern, process.text())) < count:
                self.fail("%s ended with %s before it said %r" % (process.name, process.popen.returncode, pattern))
            if time.monotonic() > deadline:
                self.fail("%s did not say %r within %.0f s" % (process.name, pattern, seconds))
            time.sleep(0.01)

    def await_training(self, processes, iterations=10):
        """Waits until the node that holds the loss is past some iterations from now on."""
        deadline = time.monotonic() + PATIENCE_S
        target = None
        while time.monotonic() < deadline:
            seen = [int(n) for p in processes for n in re.findall(r"Iteration (\d+)[ ,].*loss = ", p.text())]
            if seen and target is None:
                target = max(seen) + iterations
            if seen and max(seen) >= target:
                return
            dead = [(p.name, p.popen.returncode) for p in processes if p.popen.poll() is not None]
            if dead:
                self.fail("ended before training went on: %s" % dead)
            time.sleep(0.01)
        self.fail("training did not go on within %.0f s" % PATIENCE_S)

    def expect_exit(self, process, status, *patterns, seconds=PATIENCE_S):
        """Asserts how a process ends and what its log has. Never a crash: no signal, no failed CHECK, no stack."""
        found = process.wait(seconds)
        text = process.text()
        self.assertEqual(found, status, "%s: exit status" % process.name)
        for pattern in patterns:
            self.assertRegex(text, pattern, "%s: log" % process.name)
        self.assertNotRegex(text, r"(?m)^F\d{4} |Check failed|\*\*\* Aborted|terminate called")

    def assert_promised(self, took_s, what, limit_s=LOSS_LIMIT_S):
        """Holds a node to a time that users are promised; `took_s` is by the node's own log, not by our waiting."""
        if took_s >= limit_s:
            raise Late("%s after %.2f s, promised within %.2f s" % (what, took_s, limit_s))

    def assert_promised_of_many(self, took_s, what, limit_s):
        """The same of so many nodes that they want all processors of this machine, whatever others use of them. After
        their end."""
        self.assert_promised(took_s, what, limit_s * self.usage.stretch())

    def expect_only(self, *processes):
        """Asserts that of all that this test has started, these and their children alone still run; waits for others."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            left = running.marked(self.folder)
            for process in processes:
                self.assertIsNone(process.popen.poll(), "%s has ended" % process.name)
                left -= {process.popen.pid, *running.children_of(process.popen.pid)}
            if not left:
                return
            if time.monotonic() > deadline:
                self.fail("still run: %s" % [" ".join(running.command_of(pid)) for pid in left])
            time.sleep(0.01)

    def expect_all(self, processes, status, *patterns, seconds=PATIENCE_S):
        for process in processes:
            self.expect_exit(process, status, *patterns, seconds=seconds)

    def run_job(self, names, *flags, table="table.prototxt"):
        """Runs a job to its good end."""
        processes = self.start_all(names, *flags, table=table)
        self.expect_all(processes.values(), 0, "Optimization Done")
        return processes

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()
