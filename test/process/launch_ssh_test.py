"""hplaunch on hosts that are network namespaces, each with an sshd, and a disk of its own where a test says so."""

import os
import re
import shutil
import signal
import subprocess
import time

import cluster
import cut_link_test
import launched
from cluster import PATIENCE_S, program, run_tool
from running import children_of, command_of

SSHD = """Port 22
ListenAddress %(address)s
HostKey %(folder)s/host_key
PidFile none
AuthorizedKeysFile %(folder)s/user_key.pub
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
"""
MOST_BUNDLE_BYTES = 500 << 20  # that two hosts here have memory for, unpacked
SSH = """Host *
  IdentityFile %(folder)s/user_key
  IdentitiesOnly yes
  UserKnownHostsFile %(folder)s/known_hosts
  GlobalKnownHostsFile /dev/null
  LogLevel ERROR
"""

# Says hello in another version, and waits for its end.
OTHER_AGENT = """#!/usr/bin/python3
import sys
text = b"hpnode 9.9, launch protocol 1"
hello = b"\\x0a" + bytes([len(text)]) + text
body = b"\\x0a" + bytes([len(hello)]) + hello
sys.stdout.buffer.write(len(body).to_bytes(4, "big") + body)
sys.stdout.flush()
sys.stdin.buffer.read()
"""


class LaunchSshTest(cut_link_test.Hosts, launched.Launched):
    """Node i lies on host i; hplaunch has a host of its own. `hosts` of a test: which disks are their own."""

    def setUp(self):
        super().setUp()
        self.sshd = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin")
        if not self.sshd or not shutil.which("ssh-keygen"):
            self.skipTest("SKIPPED: no sshd here (openssh-server)")
        os.makedirs("/run/sshd", exist_ok=True)  # its privilege separation wants it
        os.mkdir(self.path("ssh"))
        for name in ("host_key", "user_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.path("ssh/" + name)], check=True)
        self.servers = {}

    def tearDown(self):
        # hplaunch has ended, or does now: then nothing of its job runs on any host, and nobody needs to end it.
        self.end_processes()
        self.await_none(self.nodes_of_run().values(), "nodes")
        self.await_quiet_hosts()
        for server in self.servers.values():
            if server.poll() is None:
                for pid in [*children_of(server.pid), server.pid]:
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
            server.wait()
        super().tearDown()

    def await_quiet_hosts(self):
        """Waits until nothing runs on any host but sshd: no node, agent, shell or ssh, whoever its parent is now."""
        deadline = time.monotonic() + PATIENCE_S
        for host in getattr(self, "hosts", ()):
            while self.commands_on(host):
                self.assertLess(time.monotonic(), deadline, "on host %s still run: %s" % (host, self.commands_on(host)))
                time.sleep(0.01)

    def commands_on(self, host):
        """What runs on a host. Not sshd, of which a session may wait for a link that was cut."""
        commands = [" ".join(command_of(pid)) for pid in self.pids_on(host)]
        return [command for command in commands if command and not re.match(r"(\S*/)?sshd\b", command)]

    def pids_on(self, host):
        found = subprocess.run(["ip", "netns", "pids", self.name(host)], stdout=subprocess.PIPE, check=True)
        return [int(pid) for pid in found.stdout.split()]

    def start_servers(self, names, own_disk=(), size="64m", setup="", ipv6=False):
        """Hosts `names` with sshd, and one for hplaunch, "boss". Those of `own_disk` see a disk of their own where the
        run's folder and data are. `setup`: shell commands on them first. `ipv6`: they have no other addresses. All know
        each other by name, too, from an /etc/hosts of their own."""
        addresses = self.make_hosts(["boss", *names])
        if ipv6:
            addresses = self.add_ipv6()
            for name in self.hosts:
                cut_link_test.ip("-n", self.name(name), "-4", "address", "flush", "dev", "eth0")
        self.addresses_of = dict(zip(self.hosts, addresses))
        os.makedirs(self.path("run"), exist_ok=True)
        key = self.read("ssh/host_key.pub").decode()
        self.write("ssh/known_hosts", "".join("%s,%s %s" % (self.addresses_of[name], name, key) for name in names))
        self.write("hosts", "127.0.0.1 localhost\n" + "".join("%s %s\n" % (self.addresses_of[name], name)
                                                             for name in self.hosts))
        self.write("ssh/config", SSH % {"folder": self.path("ssh")})
        for name in names:
            self.write("ssh/sshd_" + name, SSHD % {"folder": self.path("ssh"), "address": self.addresses_of[name]})
            script = "mount --make-rprivate / && mount --bind %s /etc/hosts && " % self.path("hosts")
            if name in own_disk:
                script += "mount -t tmpfs -o size=%s hpnode-test %s && " % (size, self.path("run"))
            script += "%s exec %s -D -e -f %s" % (setup if name in own_disk else "", self.sshd,
                                                 self.path("ssh/sshd_" + name))
            log = open(self.path("sshd_%s.log" % name), "wb")
            self.addCleanup(log.close)
            self.servers[name] = subprocess.Popen([*self.on_host(name), "unshare", "-m", "sh", "-c", script],
                                                  stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        for name in names:
            deadline = time.monotonic() + PATIENCE_S
            while b"listening" not in self.read("sshd_%s.log" % name):
                self.assertIsNone(self.servers[name].poll(), self.read("sshd_%s.log" % name))
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.01)

    def start_on(self, names, *flags, conv=1, fc=1, spares=(), config="ssh/config", servers=None, extra="", **job):
        """Starts a job of conv and FC nodes, one for each of `names`."""
        self.start_servers(servers or [*names, *spares], **job)
        self.make_table(conv=conv, fc=fc, hosts=[self.addresses_of[name] for name in names], extra=extra)
        return self.launch_here(*flags, config=config)

    def launch_here(self, *flags, config="ssh/config"):
        return self.launch(self.table(), "--ssh=ssh -F " + self.path(config), *flags, prefix=self.on_host("boss"))

    def launch_planned(self, hosts, *flags):
        """Starts a job for which a table is planned. `hosts`: as the flag has them, which may be by name."""
        # It gets a mount namespace from ip netns exec.
        prefix = [*self.on_host("boss"), "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', self.path("hosts")]
        return self.launch("--solver=" + self.path("solver.prototxt"), "--hosts=" + hosts,
                           "--ssh=ssh -F " + self.path("ssh/config"), *flags, prefix=prefix)

    def test_files_are_copied_where_there_is_no_shared_disk(self):
        self.make_job(iterations=20)
        self.assertEqual(run_tool("hproute", "--new_token=" + self.path("token"))[0], 0)
        job = self.start_on(["a", "b"], "--token_file=" + self.path("token"), own_disk=["b"])
        self.expect_exit(job, 0, r"run folder \S*: 3 file\(s\) copied", r"(?m)^\[10\.213\.7\.2 conv0\] .*Optimization Done",
                         r"(?m)^\[10\.213\.7\.3 fc0\] .*Optimization Done")

    def test_where_the_token_is(self):
        """In memory of a host that shares no disk with hplaunch's: in none of its files, and on no command line."""
        self.make_job()
        os.mkdir(self.path("secrets"))
        self.assertEqual(run_tool("hproute", "--new_token=" + self.path("secrets/token"))[0], 0)
        secret = self.read("secrets/token").split()[2]
        own = [self.path("secrets"), os.path.expanduser("~"), "/dev/shm"]
        disks = "".join("mount -t tmpfs -o size=64m hpnode-test %s && " % folder for folder in own)
        job = self.start_on(["a", "b"], "--token_file=" + self.path("secrets/token"), own_disk=["b"], setup=disks,
                            extra="transport { tls: true }")
        node = self.await_launched(job)["fc0"]
        self.assertRegex(os.readlink("/proc/%d/fd/3" % node), "^/memfd:")
        with open("/proc/%d/fd/3" % node, "rb") as memory:
            self.assertIn(secret, memory.read())
        for pid in self.pids_on("b"):
            with open("/proc/%d/environ" % pid, "rb") as environment:
                self.assertNotIn(secret, environment.read())
        for pid in filter(str.isdigit, os.listdir("/proc")):
            self.assertNotIn(secret.decode(), " ".join(command_of(int(pid))))
        self.expect_on_no_disk_of("b", secret, [self.folder, *own])
        job.send(signal.SIGTERM)
        self.expect_exit(job, 5, "Optimization stopped early")
        self.expect_on_no_disk_of("b", secret, [self.folder, *own])
        self.assertNotIn(secret.decode(), job.text())

    def expect_on_no_disk_of(self, name, secret, folders):
        """Neither as text nor as the bytes that it stands for; a file that is meant to be there is found."""
        patterns = [secret, bytes.fromhex(secret.decode())]
        self.assertIn(self.path("run/table.prototxt"), self.files_with(name, b'name: "fc0"', folders))
        for pattern in patterns:
            self.assertEqual(self.files_with(name, pattern, folders), [])

    def files_with(self, name, pattern, folders):
        """Files of these folders, as a host sees them, that have some bytes."""
        script = ("import os, sys; pattern = sys.stdin.buffer.read()\n"
                  "for top in sys.argv[1:]:\n"
                  "    for folder, _, names in os.walk(top):\n"
                  "        for path in (os.path.join(folder, name) for name in names):\n"
                  "            if os.path.isfile(path) and pattern in open(path, 'rb').read(): print(path)\n")
        found = subprocess.run(["nsenter", "--mount", "--target=%d" % self.servers[name].pid, "/usr/bin/python3", "-c",
                                script, *folders], input=pattern, stdout=subprocess.PIPE, check=True)
        return found.stdout.decode().split()

    def test_nothing_is_copied_to_a_shared_disk(self):
        self.make_job(iterations=20)
        job = self.start_on(["a", "b"])
        self.expect_exit(job, 0, r"run folder \S*: 0 file\(s\) copied", "Optimization Done")

    def test_a_node_that_is_killed_on_another_host(self):
        self.make_job()
        job = self.start_on(["a", "b"])
        nodes = self.await_launched(job)
        os.kill(nodes["fc0"], signal.SIGKILL)
        self.expect_exit(job, 4, r'first failure: node "fc0" on host 10\.213\.7\.3: killed by signal 9')
        self.await_none(nodes.values(), "nodes")

    def test_ssh_that_is_killed_ends_the_nodes_of_its_host(self):
        self.make_job()
        job = self.start_on(["a", "b"])
        nodes = self.await_launched(job)
        ssh, = [pid for pid in children_of(job.popen.pid)
                if "10.213.7.3" in command_of(pid) and command_of(pid)[0] == "ssh"]
        os.kill(ssh, signal.SIGKILL)
        self.expect_exit(job, 4, r"host 10\.213\.7\.3: its agent is gone")
        self.await_none(nodes.values(), "nodes")

    def test_hplaunch_that_is_killed_ends_all(self):
        self.make_job()
        job = self.start_on(["a", "b"])
        nodes = self.await_launched(job)
        job.send(signal.SIGKILL)
        self.await_none(nodes.values(), "nodes")

    def test_one_line_plans_launches_and_trains(self):
        self.make_job(iterations=20)
        self.start_servers(["a", "b"])
        # Slow enough for one host not to be better than both.
        self.write("hosts.prototxt", "".join(
            'host { name: "%s" cores: 1 gflops: 0.01 link_gbit_per_s: 100 latency_us: 1 }' % self.addresses_of[name]
            for name in ("a", "b")))
        job = self.launch("--solver=" + self.path("solver.prototxt"), "--hosts=" + self.path("hosts.prototxt"),
                          "--ssh=ssh -F " + self.path("ssh/config"), prefix=self.on_host("boss"))
        self.expect_exit(job, 0, r"(?m)^\[10\.213\.7\.2 .*Optimization Done",
                         r"(?m)^\[10\.213\.7\.3 .*Optimization Done")

    def make_job_for_two_hosts(self):
        """So much to compute, for so few parameters, that two hosts are better than one of the same kind."""
        net = cluster.NET.replace("num_output: 4 kernel_size: 3", "num_output: 64 kernel_size: 5")
        self.make_job(iterations=5, net=net.replace("batch_size: 12", "batch_size: 960"))

    def test_one_line_with_names_of_hosts(self):
        """The README's: nothing is known of the hosts but how to reach them."""
        self.make_job_for_two_hosts()
        self.start_servers(["red", "blue"])
        job = self.launch_planned("red,blue")
        self.expect_exit(job, 0, r"hosts: taken to be like this one", r"2 host\(s\) answer: (red, blue|blue, red)\n",
                         r"(?m)^\[red \w+\] .*Optimization Done", r"(?m)^\[blue \w+\] .*Optimization Done")
        table = self.read("run/table.prototxt").decode()
        self.assertEqual(set(re.findall(r'host: "(.*)"', table)), {"red", "blue"})
        for name in ("red", "blue"):
            self.assertIn(b"Accepted publickey", self.read("sshd_%s.log" % name))

    def test_a_dry_run_of_one_line(self):
        self.make_job_for_two_hosts()
        self.start_servers(["red", "blue"])
        job = self.launch_planned("red,blue", "--dry_run")
        self.expect_exit(job, 0, r"(?m)^plan: ", r"(?m)^host red:\n  agent: ssh .* red exec '\S*/hplaunch' --agent$",
                         r"(?m)^host blue:\n  agent: ssh .* blue exec ",
                         r"(?m)^  \w+: hpnode --routing=\S*/run/table\.prototxt ")
        self.assertEqual((self.nodes_of_run(), os.listdir(self.path("run"))), ({}, []))
        for name in ("red", "blue"):
            self.assertNotIn(b"Accepted publickey", self.read("sshd_%s.log" % name), "nobody has logged in")

    def test_a_host_that_cannot_be_reached_is_replaced_at_its_first_start(self):
        self.make_job(iterations=20)
        self.start_servers(["a"])
        self.make_table(conv=1, fc=1, hosts=[self.addresses_of["a"], "10.213.7.9"])
        job = self.launch_here("--max_restarts=2", "--spares=10.213.7.8," + self.addresses_of["boss"])
        self.expect_exit(job, 0, r"host 10\.213\.7\.8 takes the place of 10\.213\.7\.9",
                         r"host 10\.213\.7\.1 takes the place of 10\.213\.7\.8", "Optimization Done")

    def test_ipv6(self):
        self.make_job(iterations=20)
        self.start_servers(["a", "b"], own_disk=["b"], ipv6=True)
        self.make_table(conv=2, fc=1, hosts=["[fd00:7::2]", "fd00:7::1", "fd00:7::3"])
        job = self.launch_here()
        self.expect_exit(job, 0, r"3 host\(s\) answer: fd00:7::2, fd00:7::1, fd00:7::3", r"run folder \S*: 3 file\(s\) copied",
                         r"(?m)^\[fd00:7::2 conv0\] .*Optimization Done", r"(?m)^\[fd00:7::1 conv1\] .*Optimization Done",
                         r"(?m)^\[fd00:7::3 fc0\] .*Optimization Done")
        status, text = run_tool("hproute", "--check", self.path("run/table.prototxt"))
        self.assertEqual(status, 0, text)

    def test_a_plan_over_ipv6_without_a_host(self):
        self.make_job(iterations=20)
        self.start_servers(["a", "b", "c"], ipv6=True)
        self.write("hosts.prototxt", "".join(
            'host { name: "%s" cores: 1 gflops: 0.01 link_gbit_per_s: 100 latency_us: 1 }' % name
            for name in ("[fd00:7::2]", "fd00:7::3", "fd00:7::4")))
        job = self.launch("--solver=" + self.path("solver.prototxt"), "--hosts=" + self.path("hosts.prototxt"),
                          "--ssh=ssh -F " + self.path("ssh/config"), "--exclude=[fd00:7::3]", prefix=self.on_host("boss"))
        self.expect_exit(job, 0, r"(?m)^\[fd00:7::2 .*Optimization Done", r"(?m)^\[fd00:7::4 .*Optimization Done")
        self.assertNotIn("[fd00:7::3 ", job.text())

    def test_a_spare_over_ipv6(self):
        self.make_job_with_snapshots()
        job = self.start_on(["a", "b"], "--max_restarts=1", "--spares=[fd00:7::4]", spares=["c"], ipv6=True,
                            own_disk=["a", "b", "c"], extra="snapshot_copies: 2")
        self.expect_replacement(job, "b", "fc0", "c")

    def test_faults_of_hosts_over_ipv6(self):
        self.make_job()
        self.start_servers(["a", "b"], ipv6=True)
        self.make_table(conv=1, fc=1, hosts=["fd00:7::2", "[fd00:7::9]"])
        self.expect_exit(self.launch_here(), 4, r"(?m)^hplaunch: host fd00:7::9: cannot be reached: .*; "
                                                r'try "ssh fd00:7::9 true", or leave it out \(--exclude=fd00:7::9\)')
        self.expect_exit(self.launch_here("--exclude=[fd00:7::9]"), 2, r"--exclude leaves out 1 host\(s\) of the table")
        self.write("ssh/known_hosts", self.read("ssh/known_hosts").decode().splitlines(True)[0])
        self.make_table(conv=1, fc=1, hosts=["fd00:7::2", "[fd00:7::3]"])
        self.expect_exit(self.launch_here(), 2,
                         r"(?m)^hplaunch: host fd00:7::3: ssh does not know its key .*; log in once by hand: ssh fd00:7::3")
        self.assertEqual(self.nodes_of_run(), {})

    def make_job_with_snapshots(self, prefix="s"):
        self.make_job(snapshot=10)
        self.write("solver.prototxt", re.sub('snapshot_prefix: ".*"', 'snapshot_prefix: "%s"' % prefix,
                                             self.read("solver.prototxt").decode()))

    def expect_replacement(self, job, victim, node, spare):
        """Cuts the host `victim` off: after 10 s its `node` runs on `spare`, from a snapshot that another host has."""
        lost, new = self.addresses_of[victim], self.addresses_of[spare]
        self.await_launched(job)
        self.await_text(job, "Snapshotting solver state")
        self.link(victim, "down")
        cut = time.time()
        self.await_text(job, r"host %s takes the place of %s" % (new, lost))
        # The last that was heard of it came up to 0.5 s before the cut; its agent has ended its nodes after 8 s.
        self.assertGreater(time.time() - cut, 9.4)
        self.assertEqual(self.nodes_of_run(), {})
        self.await_text(job, r"\[%s %s\] .*resuming at iteration \d+ from the snapshot of node" % (re.escape(new), node))
        self.await_training([job], 10)
        self.assertNotIn("--resume=latest: no node has", job.text())
        job.send(signal.SIGTERM)
        self.expect_exit(job, 5, "Optimization stopped early")

    def test_a_lost_host_is_replaced_by_a_spare(self):
        self.make_job_with_snapshots()
        job = self.start_on(["a", "b"], "--max_restarts=1", "--spares=10.213.7.4", spares=["c"],
                            own_disk=["a", "b", "c"], extra="snapshot_copies: 2")
        self.expect_replacement(job, "b", "fc0", "c")

    def test_the_host_of_the_first_node_is_lost_with_its_snapshots(self):
        self.make_job_with_snapshots()
        job = self.start_on(["a", "b"], "--max_restarts=1", "--spares=10.213.7.4", spares=["c"],
                            own_disk=["a", "b", "c"], extra="snapshot_copies: 2")
        self.expect_replacement(job, "a", "conv0", "c")

    def test_spares_without_a_shared_disk_need_copies(self):
        self.make_job_with_snapshots()
        job = self.start_on(["a", "b"], "--spares=10.213.7.4", own_disk=["b"], spares=["c"])
        self.expect_exit(job, 2, r"(?m)^hplaunch: --spares: the folder of snapshots of host 10\.213\.7\.2, "
                                 r"\S*/run/snapshots, is not shared by host 10\.213\.7\.3: .*let all hosts and spares "
                                 r'share that folder .*write "snapshot_copies: 2" into the table')
        self.assertEqual(self.nodes_of_run(), {})
        # Nor does it say so of a disk that is shared, or leave anything there.
        self.make_table(conv=1, fc=1, hosts=[self.addresses_of["a"], self.addresses_of["c"]])
        job = self.launch_here("--spares=" + self.addresses_of["boss"])
        self.await_launched(job)
        job.send(signal.SIGTERM)
        self.expect_exit(job, 5)
        self.expect_no_nonce()

    def expect_no_nonce(self):
        for _, _, names in os.walk(self.path("run")):
            self.assertFalse([name for name in names if "nonce" in name], names)

    def expect_refused_spare(self, spare, *ways_out):
        job = self.launch_here("--max_restarts=1", "--spares=" + spare)
        self.expect_exit(job, 2, r"(?m)^hplaunch: --spares: the folder of snapshots of host 10\.213\.7\.2, "
                                 r"\S*/run/snapshots, is not shared by spare %s: .*let all hosts and spares share "
                                 r"that folder" % re.escape(spare), *ways_out)
        self.assertEqual(self.nodes_of_run(), {})
        self.assertNotIn("started", job.text())
        self.expect_no_nonce()
        self.assertEqual([name for name in self.on_disk_of("c") if "nonce" in name], [])

    def on_disk_of(self, name, folder="run"):
        """What lies below the run's folder, or another one, of a host, as it sees it."""
        found = subprocess.run(["nsenter", "--mount", "--target=%d" % self.servers[name].pid, "find", self.path(folder)],
                               stdout=subprocess.PIPE, check=True)
        return found.stdout.decode().split()

    def test_a_spare_that_does_not_share_the_folder_is_found_at_the_start(self):
        self.make_job_with_snapshots()
        self.start_servers(["a", "b", "c"], own_disk=["c"])
        a, b, c = (self.addresses_of[name] for name in ("a", "b", "c"))
        self.make_table(conv=1, fc=1, hosts=[a, b])
        self.expect_refused_spare(c, r'or write "snapshot_copies: 2" into the table, so that a second host')
        # Of a job on one host, the second way needs another one.
        self.make_table(conv=1, fc=1, hosts=[a, a])
        self.expect_refused_spare(c, r'or have nodes on a second host and "snapshot_copies: 2" in the table')
        # With copies nobody minds; and one that shares the folder is a spare like any other.
        self.make_table(conv=1, fc=1, hosts=[a, b], extra="snapshot_copies: 2")
        for spare, hosts in ((c, None), (b, [a, a])):
            if hosts:
                self.make_table(conv=1, fc=1, hosts=hosts)
            job = self.launch_here("--spares=" + spare)
            self.await_launched(job)
            job.send(signal.SIGTERM)
            self.expect_exit(job, 5)
            self.expect_no_nonce()

    def test_a_spare_that_cannot_be_used(self):
        self.make_job_with_snapshots()
        self.start_servers(["a", "b"])
        self.make_table(conv=1, fc=1, hosts=[self.addresses_of["a"]] * 2)
        known = self.read("ssh/known_hosts").decode()
        self.write("ssh/known_hosts", known.splitlines(True)[0])
        self.expect_exit(self.launch_here("--spares=10.213.7.3"), 2,
                         r"(?m)^hplaunch: --spares: host 10\.213\.7\.3: ssh does not know its key")
        # It may come up later.
        self.write("ssh/known_hosts", known)
        self.servers["b"].kill()
        self.servers["b"].wait()
        job = self.launch_here("--spares=10.213.7.3")
        self.await_launched(job)
        job.send(signal.SIGTERM)
        self.expect_exit(job, 5, r"--spares: whether 10\.213\.7\.3 shares the folder of snapshots is not known: "
                                 r"host 10\.213\.7\.3: cannot be reached: ")
        self.expect_no_nonce()

    def test_a_planned_table_gets_copies_where_there_are_spares(self):
        self.make_job_with_snapshots()
        self.start_servers(["a", "b"], own_disk=["b"])
        self.write("hosts.prototxt", "".join(
            'host { name: "%s" cores: 1 gflops: 0.01 link_gbit_per_s: 100 latency_us: 1 }' % self.addresses_of[name]
            for name in ("a", "b")))
        job = self.launch("--solver=" + self.path("solver.prototxt"), "--hosts=" + self.path("hosts.prototxt"),
                          "--ssh=ssh -F " + self.path("ssh/config"), "--spares=10.213.7.9",
                          prefix=self.on_host("boss"))
        self.await_text(job, r"a second host writes each one too \(snapshot_copies: 2\)")
        self.await_launched(job)
        self.assertIn("snapshot_copies: 2", self.read("run/table.prototxt").decode())
        job.send(signal.SIGTERM)
        self.expect_exit(job, 5)

    def test_an_absolute_prefix_on_hosts_that_hplaunch_is_not_among(self):
        os.mkdir(self.path("snapshots"))
        self.make_job_with_snapshots(prefix=self.path("snapshots/s"))
        job = self.start_on(["a", "b"], "--max_restarts=1", own_disk=["a", "b"],
                            setup="mount -t tmpfs hpnode-test %s && " % self.path("snapshots"))
        nodes = self.await_launched(job)
        self.await_text(job, "Snapshotting solver state")
        os.kill(nodes["fc0"], signal.SIGKILL)
        self.await_text(job, "started 2 nodes, incarnation 2")
        self.await_text(job, r"\[10\.213\.7\.2 conv0\] .*resuming at iteration \d+ from %s/s_iter_"
                        % re.escape(self.path("snapshots")))
        self.await_text(job, r'\[10\.213\.7\.3 fc0\] .*resuming at iteration \d+ from the snapshot of node "conv0"')
        self.await_training([job], 10)
        job.send(signal.SIGTERM)
        self.expect_exit(job, 5, "Optimization stopped early")
        self.assertEqual(os.listdir(self.path("snapshots")), [])  # as hplaunch's host sees it

    def test_a_snapshot_in_parts_is_copied_to_a_disk_that_is_not_shared(self):
        self.make_job(snapshot=10)
        os.mkfifo(self.path("out_iter_20.caffemodel.1.tmp"))  # holds the merge up
        nodes = self.start_all(self.make_table(conv=1, fc=1))
        self.await_text(nodes["conv0"], "snapshot of iteration 20: complete, 2 node")
        for node in nodes.values():
            node.send(signal.SIGKILL)
            node.wait()
        os.makedirs(self.path("run/old"))
        for name in ("out_iter_20.hpnode", "out_iter_20.1.0.slices", "out_iter_20.1.1.slices"):
            os.rename(self.path(name), self.path("run/old/" + name))
        self.make_job(iterations=40)
        job = self.start_on(["a", "b"], "--resume=" + self.path("run/old/out_iter_20.solverstate"), own_disk=["b"])
        self.expect_exit(job, 0, r"run folder \S*: 6 file\(s\) copied",
                         r"\[10\.213\.7\.3 fc0\] .*resuming at iteration 20 from \S*/run/old/out_iter_20\.solverstate",
                         "all 2 nodes have ended")

    def test_a_host_that_cannot_be_reached(self):
        self.make_job()
        self.start_servers(["a"])
        self.make_table(conv=1, fc=1, hosts=[self.addresses_of["a"], "10.213.7.9"])
        job = self.launch_here()
        self.expect_exit(job, 4, r"(?m)^hplaunch: host 10\.213\.7\.9: cannot be reached: .*; "
                                 r'try "ssh 10\.213\.7\.9 true", or leave it out \(--exclude=10\.213\.7\.9\)')

    def test_a_host_without_an_sshd(self):
        self.make_job()
        self.start_servers(["a", "b"])
        self.servers["b"].kill()
        self.servers["b"].wait()
        self.make_table(conv=1, fc=1, hosts=[self.addresses_of["a"], self.addresses_of["b"]])
        job = self.launch_here()
        self.expect_exit(job, 4, r"(?m)^hplaunch: host 10\.213\.7\.3: cannot be reached: .*Connection refused.*; "
                                 r'try "ssh 10\.213\.7\.3 true", or leave it out \(--exclude=10\.213\.7\.3\)')

    def test_an_unknown_host_key(self):
        self.make_job()
        self.start_servers(["a", "b"])
        self.make_table(conv=1, fc=1, hosts=[self.addresses_of["a"], self.addresses_of["b"]])
        self.write("ssh/known_hosts", self.read("ssh/known_hosts").decode().splitlines(True)[0])
        job = self.launch_here()
        self.expect_exit(job, 2, r"(?m)^hplaunch: host 10\.213\.7\.3: ssh does not know its key .*; "
                                 r"log in once by hand: ssh 10\.213\.7\.3$")
        self.assertEqual(self.nodes_of_run(), {})

    def test_a_host_without_the_program(self):
        self.make_job()
        job = self.start_on(["a"], "--remote_bin=/no/such", fc=0)
        self.expect_exit(job, 2, r"(?m)^hplaunch: host 10\.213\.7\.2: no hplaunch there: .*--remote_bin.*--bundle")

    def test_another_version_on_one_host(self):
        self.make_job()
        os.mkdir(self.path("other"))
        with open(self.write("other/hplaunch", OTHER_AGENT), encoding="utf-8") as script:
            os.fchmod(script.fileno(), 0o755)
        job = self.start_on(["a"], "--remote_bin=" + self.path("other"), fc=0)
        self.expect_exit(job, 2, r'(?m)^hplaunch: host 10\.213\.7\.2 has "hpnode 9\.9, launch protocol 1", '
                                 r'this host "hpnode 0\.1.*": install the same version on both, or copy it with --bundle')
        self.assertEqual(self.nodes_of_run(), {})

    def test_another_build_of_the_same_version_on_one_host(self):
        self.make_job(iterations=20)
        os.mkdir(self.path("other"))
        for name in ("hplaunch", "hpnode"):
            shutil.copy(program(name), self.path("other"))
        with open(self.path("other/hpnode"), "ab") as copy:
            copy.write(b".")
        self.start_servers(["a"])
        self.make_table(conv=1, fc=1, hosts=[self.addresses_of["boss"], self.addresses_of["a"]])
        job = self.launch_here("--remote_bin=" + self.path("other"))
        self.expect_exit(job, 0, r"(?m)^\S*W.* hpnode of 10\.213\.7\.2 is another build than that of 10\.213\.7\.1",
                         "Optimization Done")

    def test_a_disk_that_is_full_at_the_copy(self):
        self.make_job()
        fill = "head -c 4096 /dev/zero > %s/filler; " % self.path("run")
        job = self.start_on(["a", "b"], own_disk=["b"], size="4k", setup=fill)
        self.expect_exit(job, 2, r"(?m)^hplaunch: host 10\.213\.7\.3: \S*/run/\S*: .*No space left on device; "
                                 r"make room on that disk; --run_dir names another folder for all hosts")
        self.assertEqual(self.nodes_of_run(), {})

    def test_a_disk_that_is_full_at_the_copy_of_data(self):
        os.mkdir(self.path("others"))
        small = "mount -t tmpfs -o size=8k hpnode-test %s && " % self.path("others")
        job = self.start_with_data("--stage_data", others=self.path("others"), setup=small)
        self.expect_exit(job, 2, r"(?m)^hplaunch: host 10\.213\.7\.3: \S*/data/db\.staging-\S*: .*No space left on device; "
                                 r"make room on that disk$")
        self.assertEqual(self.nodes_of_run(), {})
        # The name of the data is as free as before.
        self.assertEqual([path for path in self.on_disk_of("b", "data") if "/db.staging-run" not in path],
                         [self.path("data")])

    def make_data_in(self, folder, seed):
        os.makedirs(folder, exist_ok=True)
        cluster.write_database(os.path.join(folder, "db"), seed=seed)

    def start_with_data(self, *flags, others, iterations=20, setup=""):
        """Two conv nodes on hosts a and b. What b has instead of this host's data: the folder `others`. `setup`: shell
        commands on b first."""
        self.make_data_in(self.path("data"), 1)
        self.make_job(iterations=iterations)
        self.write("net.prototxt", self.read("net.prototxt").decode().replace(self.path("db"), self.path("data/db")))
        bind = "mount --bind %s %s && " % (others, self.path("data"))
        return self.start_on(["a", "b"], *flags, conv=2, fc=0, own_disk=["b"], setup=setup + bind)

    def test_data_that_differs_on_one_host(self):
        self.make_data_in(self.path("others"), 2)
        job = self.start_with_data(others=self.path("others"))
        self.expect_exit(job, 2, r"(?m)^hplaunch: host 10\.213\.7\.3: its data differs from that of host 10\.213\.7\.2: "
                                      r"[0-9a-f]{16}, to train 48 records and [0-9a-f]{16}, to train 48 records")

    def test_data_that_one_host_lacks(self):
        os.mkdir(self.path("others"))
        job = self.start_with_data(others=self.path("others"))
        self.expect_exit(job, 2, r"(?m)^hplaunch: host 10\.213\.7\.3: its data: .*data/db.*--stage_data copies")
        self.assertEqual(os.listdir(self.path("others")), [])

    def test_data_that_is_staged(self):
        os.mkdir(self.path("others"))
        job = self.start_with_data("--stage_data", others=self.path("others"))
        self.expect_exit(job, 0, r"copying \S*/data/db \(\d+ file\(s\)\) to host 10\.213\.7\.3", "Optimization Done")
        self.assertEqual(os.listdir(self.path("others")), ["db"])

    def test_only_what_is_missing_is_staged(self):
        self.make_data_in(self.path("data"), 1)
        cluster.write_database(self.path("data/db_test"), seed=2)
        self.make_data_in(self.path("others"), 1)
        self.make_job(iterations=20, test=True)
        net = self.read("net.prototxt").decode().split('source: "%s"' % self.path("db"))
        names = [""] + ['source: "%s"' % self.path(name) for name in ("data/db", "data/db_test")]
        self.write("net.prototxt", "".join(name + text for name, text in zip(names, net)))
        bind = "mount --bind %s %s && " % (self.path("others"), self.path("data"))
        job = self.start_on(["a", "b"], "--stage_data", conv=2, fc=0, own_disk=["b"], setup=bind)
        self.expect_exit(job, 0, "copying .*db_test", "Optimization Done")
        self.assertNotRegex(job.text(), r"copying \S*/db ")

    def start_bundled(self, size):
        """A job on hosts whose homes are empty, with a bundle of this build's programs."""
        self.make_job(iterations=10)
        os.makedirs(self.path("made/hpnode/bin"))
        for name in ("hpnode", "hplaunch"):
            os.symlink(program(name), self.path("made/hpnode/bin/" + name))
        subprocess.run(["tar", "-czhf", self.path("bundle.tar.gz"), "-C", self.path("made"), "hpnode"], check=True)
        home = "mount -t tmpfs -o size=%s hpnode-test %s && " % (size, os.path.expanduser("~"))
        return self.start_on(["a", "b"], "--bundle=" + self.path("bundle.tar.gz"), own_disk=["a", "b"], setup=home)

    def test_a_bundle(self):
        job = self.start_bundled("400m")
        self.expect_exit(job, 0, r"host 10\.213\.7\.2 gets the bundle, \d+\.\d MB", "host 10.213.7.3 gets the bundle",
                         r"\] .*Optimization Done")
        # Their caches have it now.
        job = self.launch_here("--bundle=" + self.path("bundle.tar.gz"))
        self.expect_exit(job, 0, "Optimization Done")
        self.assertNotIn("gets the bundle", job.text())

    def test_the_bundle_of_this_build_on_hosts_without_its_folder(self):
        if shutil.which("patchelf") is None:
            self.skipTest("SKIPPED: no patchelf here (tools/dev/setup.sh)")
        bin_folder = os.path.dirname(program("hpnode"))
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/dev/bundle.sh")
        done = subprocess.run([script, os.path.dirname(bin_folder), self.path("out")], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        bundle = done.stdout.splitlines()[-1]
        if os.path.getsize(bundle) > MOST_BUNDLE_BYTES:
            self.skipTest("SKIPPED: a bundle of %.1f GB, with CUDA's libraries" % (os.path.getsize(bundle) / 1e9))
        self.make_job()
        home = os.path.expanduser("~")
        hide = "".join("mount -t tmpfs -o size=1g hpnode-test %s && " % folder for folder in (home, bin_folder))
        job = self.start_on(["a", "b"], "--bundle=" + bundle, own_disk=["a", "b"], setup=hide)
        for pid in self.await_launched(job).values():
            with open("/proc/%d/maps" % pid, encoding="utf-8") as maps:
                libraries = {line.split()[-1] for line in maps if ".so" in line}
            unpacked = {path for path in libraries if path.startswith(home + "/.cache/hpnode/bundles/")}
            self.assertTrue([path for path in unpacked if "libprotobuf" in path], libraries)
            for path in libraries - unpacked:
                self.assertRegex(path, r"/(ld-linux\S*|lib(c|m|mvec|dl|pthread|rt|resolv|nss_\w+|ibverbs|rdmacm|nl-\S+))[-.]")
        job.send(signal.SIGTERM)
        self.expect_exit(job, 5, "host 10.213.7.2 gets the bundle", "host 10.213.7.3 gets the bundle")

    def test_a_bundle_for_a_full_disk(self):
        job = self.start_bundled("1m")
        self.expect_exit(job, 2, r"(?m)^hplaunch: host 10\.213\.7\.[23]: the bundle was not unpacked: .*No space left.*; "
                                 r"make room in ~/\.cache/hpnode there, or install the programs and name their folder with "
                                 r"--remote_bin")
        self.assertEqual(self.nodes_of_run(), {})


if __name__ == "__main__":
    cluster.main()
