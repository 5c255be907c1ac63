"""hproute --simulate: what a table does on given hosts, and a trace of it."""

import collections
import json
import re

import cluster


class SimulateTest(cluster.JobTest):

    def simulate(self, *flags, status=0):
        found, text = cluster.run_tool("hproute", "--simulate", self.path("table.prototxt"), "--cache_dir=none", *flags)
        self.assertEqual(found, status, text)
        return text

    def hosts(self, gbit, names="abcd"):
        """The flag for a hosts.prototxt of these hosts."""
        text = "".join('host { name: "%s" gflops: 1 link_gbit_per_s: %s }\n' % (name, gbit) for name in names)
        return "--hosts=" + self.write("hosts.prototxt", text)

    def make_apart(self):
        """A job of four nodes, each on a host of its own."""
        self.make_job()
        self.make_table(conv=2, fc=2, hosts=list("abcd"))

    def images_per_s(self, text):
        return float(re.search(r"^([\d.]+) images/s", text, re.M)[1])

    def test_says_what_nodes_and_links_do(self):
        self.make_apart()
        fast = self.simulate(self.hosts(10))
        for what in (r"^bottleneck: the executor of", r"conv0.*: computes \d+% ", r"hosts:", r"link busy",
                     r"simulated 10 iterations of 4 node\(s\), 8 of them counted"):
            self.assertRegex(fast, re.compile(what, re.M))
        again = self.simulate(self.hosts(10))
        self.assertEqual(fast.splitlines()[:-1], again.splitlines()[:-1], "the last line says how long it took")
        slow = self.simulate(self.hosts(0.0001))
        self.assertLess(self.images_per_s(slow), self.images_per_s(fast) / 2)
        self.assertRegex(slow, r"bottleneck: the link (out of|into) host")

    def test_a_trace_opens(self):
        self.make_apart()
        self.simulate(self.hosts(0.01), "--trace=" + self.path("out.json"))
        with open(self.path("out.json"), encoding="utf-8") as file:
            trace = json.load(file)
        spans = collections.defaultdict(list)
        names = {}
        for event in trace:
            if event["ph"] == "M":
                names[event["pid"], event["tid"], event["name"]] = event["args"]["name"]
                continue
            self.assertEqual(event["ph"], "X")
            self.assertGreater(event["dur"], 0)
            spans[event["pid"], event["tid"]].append((event["ts"], event["dur"], event["name"]))
        self.assertEqual([names[pid, 0, "process_name"] for pid in range(4)], list(self.ports))
        self.assertEqual([names[0, tid, "thread_name"] for tid in (1, 2, 3)], ["executor", "link out", "link in"])
        self.assertEqual(sorted(spans), [(pid, tid) for pid in range(4) for tid in (1, 2, 3)])
        for place, of_thread in spans.items():
            of_thread.sort()
            for before, after in zip(of_thread, of_thread[1:]):
                self.assertLessEqual(before[0] + before[1], after[0] + 0.0015, (place, before, after))
        self.assertIn("forward segment 0 id 3:1.0", [name for _, _, name in spans[0, 1]])

    def test_gpus_of_tasks(self):
        self.make_job()
        self.make_table(conv=2, fc=1, hosts=["a", "a", "b"])
        with open(self.path("table.prototxt"), encoding="utf-8") as file:
            text = file.read()
        texts = [self.write("table.prototxt", re.sub(r"threads: 1 ", lambda _: 'device: "%s" ' % next(names), text))
                 and self.simulate() for names in map(iter, (["cuda"] * 3, ["cuda:0", "cuda:1", "cuda:0"]))]
        self.assertEqual(*(text.splitlines()[:-1] for text in texts), "the last line says how long it took")
        self.assertIn("images/s", texts[0])

    def test_faults(self):
        self.make_apart()
        self.assertIn("which is not among the hosts", self.simulate(self.hosts(1, "abd"), status=2))
        self.assertIn("link_gbit_per_s is 0", self.simulate(self.hosts(0), status=2))
        self.assertIn("none.prototxt", self.simulate("--hosts=" + self.path("none.prototxt"), status=2))
        self.assertIn("none.prototxt", self.simulate("--profile=" + self.path("none.prototxt"), status=2))
        found, text = cluster.run_tool("hproute", "--simulate")
        self.assertEqual((found, text.count("\n")), (2, 1), text)
        found, text = cluster.run_tool("hproute", "--trace=x.json")
        self.assertEqual(found, 2, text)
        self.assertIn("--trace goes with --simulate", text)


if __name__ == "__main__":
    cluster.main()
