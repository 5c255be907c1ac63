"""hpnode --doctor --routing: every pair of a table's hosts is measured, on hosts that are network namespaces."""

import os
import re
import shutil
import signal
import subprocess

import cluster
import cut_link_test
from relay import Relay

RATE_GBIT_PER_S = 0.04
PAIR = r"ok    (\S+) - (\S+): latency (\d+) us, (\S+) Gbit/s there, (\S+) back, MTU (\d+), clock ([-+]\S+) ms"

DELAY_S = 0.04

WRONG_S = 3
# A C library for a host whose clock is wrong: in front of libc's own function.
WRONG_CLOCK = """#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec* time) {
  const long said = syscall(SYS_clock_gettime, clock, time);
  if (said == 0 && clock == CLOCK_REALTIME) time->tv_sec += %d;
  return (int)said;
}
""" % WRONG_S


class SurveyTest(cut_link_test.Hosts):

    def survey(self, names, *flags, table="table.prototxt"):
        """Starts `hpnode --doctor` on each host."""
        return [self.start("--doctor", *flags, table=table, log=name, prefix=self.on_host(name)) for name in names]

    def make_slow_hosts(self):
        """Three hosts behind token buckets, and a table with a node on each."""
        names = ["conv0", "conv1", "fc0"]
        self.make_job()
        self.addresses = self.make_hosts(names, "%gmbit" % (RATE_GBIT_PER_S * 1000))
        self.make_table(conv=2, fc=1, hosts=self.addresses)
        return names

    def check_pairs(self, text):
        pairs = re.findall(PAIR, text)
        a, b, c = self.addresses
        self.assertEqual(sorted((first, second) for first, second, *_ in pairs), [(a, b), (a, c), (b, c)], text)
        for *_, latency, there, back, mtu, clock in pairs:
            for measured in (float(there), float(back)):
                self.assertLess(measured, 1.1 * RATE_GBIT_PER_S)
                self.assertGreater(measured, 0.5 * RATE_GBIT_PER_S)
            self.assertEqual(mtu, "1500")
            self.assertGreater(float(latency), 0)
            self.assertLess(abs(float(clock)), 1000, "one machine's clock")

    def test_pairs_behind_token_buckets(self):
        names = self.make_slow_hosts()
        out = self.path("hosts.prototxt")
        nodes = self.survey(names[1:]) + self.survey(names[:1], "--doctor_out=" + out)
        self.expect_all(nodes, 0)
        for node in nodes:
            self.check_pairs(node.text())
            for address in self.addresses:
                self.assertRegex(node.text(), r"ok    host %s \(\w+\): \d+ cores, memory [\d.]+ GB free of [\d.]+ GB, disk "
                                 r"[\d.]+ GB free at /\S*, eth0.* with MTU 1500" % re.escape(address))
        # The interface says 10 Gbit/s: what a switch or a shaper takes away is said.
        self.assertRegex(nodes[0].text(), r"LOOK  host \S+: 0.0\d+ Gbit/s of 10 of its interface\n      -> is the switch slower")
        # The planner's input.
        text = self.read("hosts.prototxt").decode()
        self.assertEqual(re.findall(r'name: "(\S+)"', text), self.addresses)
        for field in re.findall(r"link_gbit_per_s: (\S+)", text):
            self.assertAlmostEqual(float(field), RATE_GBIT_PER_S, delta=0.5 * RATE_GBIT_PER_S)
        status, said = cluster.run_tool("hproute", "--solver=" + self.path("solver.prototxt"), "--hosts=" + out,
                                        "--out=" + self.path("planned.prototxt"))
        self.assertEqual(status, 0, said)

    def plan_by(self, text):
        """Hosts of the table that hproute plans for these, written as `--doctor_out` does."""
        self.write("edited.prototxt", text)
        status, said = cluster.run_tool("hproute", "--solver=" + self.path("solver.prototxt"), "--cache_dir=none",
                                        "--hosts=" + self.path("edited.prototxt"), "--out=" + self.path("planned.prototxt"))
        self.assertEqual(status, 0, said)
        return set(re.findall(r' host: "(\S+)"', self.read("planned.prototxt").decode()))

    def test_what_was_measured_decides_the_plan(self):
        names = ["conv0", "conv1", "fc0"]
        # 73 to 97 kB of gradients in each iteration, for which each of two hosts computes 5 ms less than one alone.
        net = cluster.NET.replace("num_output: 4 kernel_size: 3", "num_output: 64 kernel_size: 5")
        self.make_job(net=net.replace("batch_size: 12", "batch_size: 960"))
        a, b, c = self.make_hosts(names)
        for namespace, device in ((self.name("fc0"), "eth0"), (self.name("switch"), "port2")):
            subprocess.run(["tc", "-n", namespace, "qdisc", "add", "dev", device, "root", "tbf", "rate",
                            "%gmbit" % (RATE_GBIT_PER_S * 1000), "burst", "64kb", "latency", "50ms"], check=True)
        self.make_table(conv=2, fc=1, hosts=self.addresses)
        out = self.path("hosts.prototxt")
        self.expect_all(self.survey(names[1:]) + self.survey(names[:1], "--doctor_out=" + out), 0)
        measured = self.read("hosts.prototxt").decode()
        fast, _, slow = re.findall(r"link_gbit_per_s: (\S+)", measured)
        self.assertEqual(self.plan_by(measured), {a, b}, measured)
        self.assertEqual(self.plan_by(measured.replace(slow, fast)), {a, b, c}, measured)
        self.assertEqual(len(self.plan_by(re.sub(r"(link_gbit_per_s:) \S+", r"\1 " + slow, measured))), 1, measured)
        # What was not measured can be written beside it: one of ten times the speed does best alone.
        at = measured.index("}", measured.index('"%s"' % b))
        self.assertEqual(self.plan_by(measured[:at] + "  gflops: 800\n  memory_gb_per_s: 200\n" + measured[at:]), {b})

    def make_wrong_clock(self):
        """Returns the library's path."""
        if not shutil.which("cc"):
            self.skipTest("SKIPPED: no C compiler for a library whose clock is wrong")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", self.path("clock.so"), self.write("clock.c", WRONG_CLOCK)], check=True)
        return self.path("clock.so")

    def test_one_way_is_slower_and_a_clock_is_wrong(self):
        names = ["conv0", "fc0"]
        clock = self.make_wrong_clock()
        self.make_job()
        first, second = self.make_hosts(names, "%gmbit" % (RATE_GBIT_PER_S * 1000))
        subprocess.run(["tc", "-n", self.name("conv0"), "qdisc", "change", "dev", "eth0", "root", "tbf", "rate",
                        "%gmbit" % (RATE_GBIT_PER_S * 500), "burst", "64kb", "latency", "50ms"], check=True)
        self.make_table(conv=1, fc=1, hosts=[first, second])
        nodes = self.survey(names[:1])
        nodes += [self.start("--doctor", log="fc0", prefix=self.on_host("fc0"), LD_PRELOAD=clock)]
        for node in nodes:
            self.expect_exit(node, 0, r"LOOK  %s - %s: \S+ Gbit/s one way, \S+ the other\n      -> look for lost packets" %
                             (first, second), r"LOOK  %s - %s: the second clock is \+[23]\.\d s apart\n      -> set both by NTP"
                             % (first, second))
            (*ends, _, there, back, _, ahead_ms), = re.findall(PAIR, node.text())
            self.assertEqual(ends, [first, second])
            self.assertAlmostEqual(float(there), RATE_GBIT_PER_S / 2, delta=RATE_GBIT_PER_S / 8)
            self.assertAlmostEqual(float(back), RATE_GBIT_PER_S, delta=RATE_GBIT_PER_S / 4)
            self.assertAlmostEqual(float(ahead_ms), 1000 * WRONG_S, delta=100)

    def latency_by_relay(self, there_s, back_s):
        """What is said in s of two hosts, of which the second one dials the first one by a relay: that has the same port
        of another address, and holds what it carries."""
        self.make_table(conv=1, fc=1, hosts=["127.0.0.4", "127.0.0.3"])
        text = self.read("table.prototxt").decode()
        self.write("table.prototxt", text.replace('host: "127.0.0.4"', 'host: "127.0.0.4" listen: "127.0.0.2"'))
        port = self.ports["conv0"]
        Relay(self, to=port, host="127.0.0.4", port=port, target="127.0.0.2", there_s=there_s, back_s=back_s)
        nodes = [self.start("--doctor", name=name) for name in ("conv0", "fc0")]
        self.expect_all(nodes, 0, r"LOOK  127\.0\.0\.4 - 127\.0\.0\.3: a latency of \d+ us")
        (*_, latency_us, _, _, _, _), = re.findall(PAIR, nodes[0].text())
        return float(latency_us) / 1e6

    def test_latency_is_half_of_what_a_round_trip_takes(self):
        self.make_job()
        for there_s, back_s in ((DELAY_S, DELAY_S), (DELAY_S, 0)):
            added_s, tries = (there_s + back_s) / 2, 0
            latency_s = self.latency_by_relay(there_s, back_s)
            # A busy machine adds to it; it never comes out of a figure that is the round trip, or of other units.
            while latency_s > 1.5 * added_s and tries < 6:
                latency_s, tries = self.latency_by_relay(there_s, back_s), tries + 1
            print("    latency %.1f ms, of which the relay adds %.1f" % (latency_s * 1e3, added_s * 1e3))
            self.assertGreater(latency_s, 0.99 * added_s)
            self.assertLess(latency_s, 1.5 * added_s)

    def test_with_token_and_tls(self):
        names = ["conv0", "fc0"]
        self.make_job()
        self.make_hosts(names)
        tokens = [self.path(name) for name in ("token", "other")]
        for token in tokens:
            self.assertEqual(cluster.run_tool("hproute", "--new_token=" + token)[0], 0)
        for extra in ("", "transport { tls: true }"):
            self.make_table(conv=1, fc=1, hosts=self.addresses, extra=extra)
            for node in self.survey(names, "--token_file=" + tokens[0]):
                self.expect_exit(node, 0, "ok    %s - %s: latency" % tuple(map(re.escape, self.addresses)))
            # Who has another token, or none, measures nothing.
            stranger = [] if not extra else ["--token_file=" + tokens[1]]
            nodes = self.survey(names[:1], "--token_file=" + tokens[0], "--wait=3")
            nodes += self.survey(names[1:], *stranger, "--wait=3")
            for node in nodes:  # who has not proven that it has the token is told nothing
                self.expect_exit(node, 4, "did not appear: is hpnode --doctor .* running there, with the same --token_file, ")
                self.assertNotIn("latency", node.text())
            self.assertRegex(nodes[0].text(), r"dropped a connection from \S+: (it has no token|TLS was not set up)")
        self.expect_exit(self.survey(names[:1])[0], 2, "tls: true } needs the job's token")

    def test_a_smaller_mtu_and_ipv6(self):
        names = ["conv0", "fc0"]
        self.make_job()
        self.make_hosts(names)
        for i, name in enumerate(names):
            cut_link_test.ip("-n", self.name(name), "-6", "address", "add", "fd00:7::%d/64" % (i + 1), "dev", "eth0", "nodad")
        cut_link_test.ip("-n", self.name("fc0"), "link", "set", "eth0", "mtu", "1400")
        self.make_table(conv=1, fc=1, hosts=["fd00:7::1", "fd00:7::2"])
        for node in self.survey(names):
            self.expect_exit(node, 0, "ok    fd00:7::1 - fd00:7::2: latency", r"LOOK  fd00:7::1 - fd00:7::2: MTU 1500 and 1400\n"
                             "      -> give both interfaces the same")

    def test_a_host_that_is_missing(self):
        names = self.make_slow_hosts()
        for node in self.survey(names[:2], "--wait=3"):
            self.expect_exit(node, 4, r"host %s \(node fc0, %s:%d\) did not appear: is hpnode --doctor" %
                             (re.escape(self.addresses[2]), re.escape(self.addresses[2]), self.ports["fc0"]))
            self.assertNotIn("- ", "".join(line for line in node.text().splitlines() if line.startswith("ok")))

    def test_a_host_that_is_killed(self):
        names = self.make_slow_hosts()
        nodes = self.survey(names)
        # All are connected when one has a byte of a measurement: its counter tells.
        self.await_bytes("fc0")
        nodes[2].send(signal.SIGKILL)
        for node in nodes[:2]:
            self.expect_exit(node, 4, r"host %s \(node fc0, .*was lost" % re.escape(self.addresses[2]))

    def await_bytes(self, name):
        deadline = cluster.time.monotonic() + cluster.PATIENCE_S
        path = "/sys/class/net/eth0/statistics/rx_bytes"
        while int(cluster.subprocess.run([*self.on_host(name), "cat", path], check=True,
                                         stdout=cluster.subprocess.PIPE).stdout) < 200000:
            self.assertLess(cluster.time.monotonic(), deadline)

    def test_another_table_on_one_host(self):
        names = self.make_slow_hosts()
        text = self.read("table.prototxt").decode()
        self.write("other.prototxt", text.replace("micro_batches: 2", "micro_batches: 3"))
        first, second = self.survey(names[:2])
        odd, = self.survey(names[2:], table="other.prototxt")
        self.expect_exit(odd, 2, "its routing table is another one than")
        # Whoever met it ends, too; whoever had no time to waits for hosts that are gone, and says for which, or lost one
        # that had met it.
        met, waits, lost = "host .*its routing table is another one than", r"waiting for (conv|fc)\d \(", "was lost"
        for node in (first, second):
            self.await_text(node, "(%s)|%s|%s" % (met, waits, lost))
        ended = {}
        for node in (first, second):
            if re.search(met, node.text()):
                ended[node] = (2, met)
            elif re.search(lost, node.text()):
                ended[node] = (4, r"host .*\(node conv\d, .*was lost")
        self.assertIn((2, met), ended.values())
        for node, (status, pattern) in ended.items():
            self.expect_exit(node, status, pattern)

    def test_bad_input(self):
        self.make_job()
        self.write("bad.prototxt", 'node { nam: "a" }\n')
        self.expect_exit(self.start("--doctor", table="bad.prototxt"), 2, r"bad.prototxt:1:\d+: ")
        self.expect_exit(self.start("--doctor", table="none.prototxt"), 2, "none.prototxt")
        self.make_table(conv=1, fc=1, hosts=["198.51.100.1", "203.0.113.2"])
        self.expect_exit(self.start("--doctor"), 2, "no host of the table is this one, which has the addresses .*127.0.0.1.*; "
                         "the table has 198.51.100.1, 203.0.113.2")
        self.expect_exit(self.start("--doctor", "--doctor_listen=127.0.0.1:1"), 2, "either the table's hosts")
        self.expect_exit(self.start("--doctor_out=x"), 2, "--doctor_out needs --doctor")

    def test_one_host(self):
        self.make_job()
        self.make_table(conv=2, fc=1)
        out = self.path("hosts.prototxt")
        node = self.start("--doctor", "--doctor_out=" + out)
        self.expect_exit(node, 0)
        self.assertIn('name: "127.0.0.1"', self.read("hosts.prototxt").decode())
        # As Python counts them; what is free changes meanwhile.
        said = re.search(r"ok    host 127.0.0.1 \(conv0\): (\d+) cores, memory (\S+) GB free of (\S+) GB, disk (\S+) GB free at "
                         r"(\S+),", node.text())
        self.assertEqual(int(said[1]), len(os.sched_getaffinity(0)))
        pages, page = (os.sysconf(name) for name in ("SC_PHYS_PAGES", "SC_PAGE_SIZE"))
        self.assertLessEqual(float(said[3]), 1.01 * pages * page / 1e9)
        self.assertLess(float(said[2]), float(said[3]))
        self.assertEqual(said[5], self.folder)
        self.assertAlmostEqual(float(said[4]), shutil.disk_usage(self.folder).free / 1e9, delta=0.2 * float(said[4]))


if __name__ == "__main__":
    cluster.main()
