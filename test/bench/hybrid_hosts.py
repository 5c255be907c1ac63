"""Hosts for measurements on one machine: network namespaces on a bridge, shaped links, byte counters, processes.

Everything that an object here makes (namespaces, processes) it also ends, by name or process id, in `close`.
"""
import collections
import ctypes
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time

TICKS = os.sysconf("SC_CLK_TCK")


def run(*command):
    """Runs a command to its end; ends the program with what it said if it fails. Returns its standard output."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError("%s: %s" % (" ".join(command), (done.stderr or done.stdout).strip()))
    return done.stdout


class Hosts:
    """`count` hosts with an interface "eth0" each, joined by a bridge in a namespace of its own."""

    def __init__(self, count):
        self.prefix = "hpb%d" % os.getpid()
        self.namespaces = []
        try:
            self._namespace("switch")
            run("ip", "-n", self.name("switch"), "link", "add", "bridge0", "type", "bridge")
            run("ip", "-n", self.name("switch"), "link", "set", "bridge0", "up")
            for i in range(count):
                self._host(i)
        except BaseException:
            self.close()
            raise

    def name(self, host):
        return "%s-%s" % (self.prefix, host)

    def address(self, i):
        return "10.213.9.%d" % (i + 1)

    def prefix_of(self, i):
        """What to put before a command that is to run on host `i`."""
        return ["ip", "netns", "exec", self.name(i)]

    def _namespace(self, host):
        run("ip", "netns", "add", self.name(host))
        self.namespaces.append(self.name(host))
        run("ip", "-n", self.name(host), "link", "set", "lo", "up")

    def _host(self, i):
        self._namespace(i)
        run("ip", "-n", self.name("switch"), "link", "add", "port%d" % i, "type", "veth", "peer", "name", "eth0",
            "netns", self.name(i))
        run("ip", "-n", self.name("switch"), "link", "set", "port%d" % i, "master", "bridge0", "up")
        run("ip", "-n", self.name(i), "address", "add", self.address(i) + "/24", "dev", "eth0")
        run("ip", "-n", self.name(i), "link", "set", "eth0", "up")
        self.links = getattr(self, "links", 0) + 1

    def shape(self, rate):
        """Both directions of every host at `rate` ("200mbit"), or as fast as the machine is (None)."""
        for i in range(self.links):
            for namespace, device in ((self.name(i), "eth0"), (self.name("switch"), "port%d" % i)):
                tc = ["tc", "-n", namespace, "qdisc"]
                if rate:
                    run(*tc, "replace", "dev", device, "root", "tbf", "rate", rate, "burst", "128kb", "latency", "50ms")
                else:
                    subprocess.run([*tc, "del", "dev", device, "root"], stderr=subprocess.DEVNULL, check=False)

    def bytes(self):
        """[(sent, received)] of each host so far, as its port of the bridge counts them."""
        links = {link["ifname"]: link["stats64"]
                 for link in json.loads(run("ip", "-n", self.name("switch"), "-j", "-s", "link"))}
        return [(links["port%d" % i]["rx"]["bytes"], links["port%d" % i]["tx"]["bytes"]) for i in range(self.links)]

    def close(self):
        while self.namespaces:
            subprocess.run(["ip", "netns", "delete", self.namespaces.pop()], stderr=subprocess.DEVNULL, check=False)


def _die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: nothing is left over, whatever ends this program


class Job:
    """Processes on hosts. The log of one of them has Caffe's lines, "Iteration N ...", with glog's time of day."""

    def __init__(self, folder, hosts, count):
        self.folder, self.hosts, self.count = folder, hosts, count
        self.processes = []
        self.threads = {}  # CPU seconds an iteration, by (process, thread's name)

    def start(self, command, environment):
        i = len(self.processes)
        log = open(os.path.join(self.folder, "log.%d" % i), "wb")
        with log:
            self.processes.append(subprocess.Popen(
                self.hosts.prefix_of(i) + command, env=dict(os.environ, **environment), stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, preexec_fn=_die_with_parent))

    def text(self, i):
        with open(os.path.join(self.folder, "log.%d" % i), encoding="utf-8", errors="replace") as log:
            return log.read()

    def iterations(self, i):
        """{iteration: time of day in s} of the lines in the log of process `i`."""
        found = {}
        for line in re.finditer(r"(?m)^I\d{4} (\d\d):(\d\d):(\d\d\.\d+) .*Iteration (\d+)\b.* loss = (\S+)", self.text(i)):
            if line[5] in ("nan", "inf"):
                raise RuntimeError("loss is " + line[5])
            found[int(line[4])] = int(line[1]) * 3600 + int(line[2]) * 60 + float(line[3])
        return found

    def cpu_s(self):
        """CPU time of all processes so far."""
        total = 0
        for process in self.processes:
            with open("/proc/%d/stat" % process.pid, encoding="ascii") as stat:
                fields = stat.read().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
        return total / TICKS

    def thread_cpu_s(self):
        """{(process, thread's name): CPU time so far}."""
        found = collections.Counter()
        for i, process in enumerate(self.processes):
            for task in os.listdir("/proc/%d/task" % process.pid):
                try:
                    with open("/proc/%d/task/%s/stat" % (process.pid, task), encoding="ascii") as stat:
                        name, _, fields = stat.read().partition("(")[2].rpartition(")")
                except FileNotFoundError:
                    continue
                fields = fields.split()
                found[i, name] += (int(fields[11]) + int(fields[12])) / TICKS
        return found

    def check(self):
        for i, process in enumerate(self.processes):
            if process.poll() is not None:
                raise RuntimeError("process %d ended with %s:\n%s" % (i, process.returncode, self.text(i)[-3000:]))

    def measure(self, reporter, warm_up, seconds, at_least=3, patience=240):
        """Lets the job run past iteration `warm_up`, then for `seconds` and `at_least` iterations.
        Returns seconds an iteration, CPU seconds an iteration, and [(MB sent, MB received)] of each host an iteration."""
        deadline = time.monotonic() + patience
        marks = []  # (iteration, when it ended, CPU time, bytes) as iterations are seen to end
        while not marks or marks[-1][0] < marks[0][0] + at_least or marks[-1][1] - marks[0][1] < seconds:
            time.sleep(0.01)
            self.check()
            if time.monotonic() > deadline:
                raise RuntimeError("no end within %d s:\n%s" % (patience, self.text(reporter)[-3000:]))
            seen = self.iterations(reporter)
            last = max(seen, default=-1)
            if last < warm_up or (marks and last == marks[-1][0]):
                continue
            marks.append((last, seen[last], self.cpu_s(), self.hosts.bytes()))
            if len(marks) == 1:
                threads = self.thread_cpu_s()
        count = marks[-1][0] - marks[0][0]
        self.threads = {key: (cpu_s - threads[key]) / count for key, cpu_s in self.thread_cpu_s().items()}
        wire = [tuple(_median_growth(marks, host, k) / 1e6 for k in (0, 1)) for host in range(self.count)]
        return (marks[-1][1] - marks[0][1]) % 86400 / count, (marks[-1][2] - marks[0][2]) / count, wire

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
        for process in self.processes:
            process.wait()


def _median_growth(marks, host, k):
    """Bytes an iteration. The median, because a counter may be read late, when the next iteration's bytes are there."""
    return statistics.median((after[3][host][k] - before[3][host][k]) / (after[0] - before[0])
                             for before, after in zip(marks, marks[1:]))


class Priority:
    """Niceness of this program and what it starts. Where Linux groups processes by terminal, the group's counts too."""

    GROUP = "/proc/self/autogroup"

    def __init__(self, nice):
        self.before = None
        if nice == 0:
            return
        os.nice(nice)
        if os.path.exists(self.GROUP):
            with open(self.GROUP, encoding="ascii") as group:
                self.before = group.read().split()[-1]
            self._group(str(nice))

    def _group(self, nice):
        with open(self.GROUP, "w", encoding="ascii") as group:
            group.write(nice)

    def close(self):
        if self.before is not None:
            self._group(self.before)


def loads():
    return "load of the machine (1 min): %.1f" % os.getloadavg()[0]


def raise_on_signals():
    """So that `finally` runs."""
    def leave(number, _):
        sys.exit(128 + number)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
