"""hpnode --trace: what nodes do, as events that ui.perfetto.dev opens."""

import json
import os
import re
import stat

import cluster

ITERATIONS = 20

# Some long convolutions, so that a replica's pass takes much longer than a shard's.
LONG_CONVOLUTIONS = cluster.NET.replace("""bottom: "pool1" top: "ip1\"""", """bottom: "long6" top: "ip1\"""").replace(
    """layer { name: "ip1\"""", "".join(
        """layer { name: "long%d" type: "Convolution" bottom: "%s" top: "long%d" convolution_param { num_output: 96
                kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
        """ % (i, "long%d" % (i - 1) if i > 1 else "pool1", i) for i in range(1, 7)) + """layer { name: "ip1\"""")


class TraceTest(cluster.JobTest):

    def events(self, name):
        with open(self.path("trace/%s.json" % name), encoding="utf-8") as file:
            return json.load(file)

    def spans(self, name, track):
        events = self.events(name)
        tid = next(e["tid"] for e in events if e["name"] == "thread_name" and e["args"]["name"] == track)
        return [e for e in events if e["ph"] in "Xi" and e["tid"] == tid]

    def test_what_nodes_do(self):
        self.make_job(iterations=ITERATIONS, test=True)
        names = self.make_table(conv=2, fc=1, micro_batches=2)
        nodes = [self.start("--trace=" + self.path("trace"), name=name) for name in names]
        self.expect_all(nodes, 0, "Optimization Done")
        self.assertEqual(sorted(os.listdir(self.path("trace"))), sorted(name + ".json" for name in names))
        for rank, name in enumerate(names):
            events = self.events(name)
            self.assertEqual({e["pid"] for e in events}, {rank})
            self.assertEqual([e["args"]["name"] for e in events if e["name"] == "process_name"], [name])
            spans = sorted(self.spans(name, "executor"), key=lambda e: e["ts"])
            for before, after in zip(spans, spans[1:]):  # one thing at a time; times are in us, to the ns
                self.assertLessEqual(before["ts"] + before["dur"], after["ts"] + 0.01, (before, after))
            forward = [e["name"] for e in spans if re.fullmatch(r"forward segment 0 id \d+:\d\.\d", e["name"])]
            self.assertEqual(len(forward), ITERATIONS * 2 * (1 if name.startswith("conv") else 2))
            self.assertTrue(any(e["name"].startswith("waiting for ") for e in spans), spans[:20])
            self.assertEqual(len([e for e in spans if e["name"].startswith("finish")]), ITERATIONS)
        # What one sends, the other gets: activations, and gradients back; and the replicas their sums.
        def tensors(events):
            return sorted(e["name"] for e in events)
        sent = sum((tensors(self.spans(name, "link out")) for name in names), [])
        arrived = sum((tensors(self.spans(name, "link in")) for name in names), [])
        self.assertEqual(sorted(sent), sorted(arrived))
        self.assertTrue(any(re.fullmatch(r"tensor \d+ id 3:1\.1 conv1 > fc0", name) for name in sent), sent[:9])
        self.assertTrue(any(re.fullmatch(r"tensor \d+ id 3:1\.1 fc0 > conv1", name) for name in sent), sent[:9])
        self.assertTrue(any(re.fullmatch(r"tensor \d+ id 10:test 0\.0 conv0 > fc0", name) for name in sent), sent[:9])
        self.assertTrue(any(re.fullmatch(r"exchange of stage 0 clock 3 part \d+ conv0 > conv1", name) for name in sent))

    def test_a_shard_answers_in_between_the_layers_of_its_replica(self):
        self.make_job(iterations=ITERATIONS, net=LONG_CONVOLUTIONS)
        status, text = cluster.run_tool(
            "hproute", "--solver=" + self.path("solver.prototxt"), "--conv=2", "--fc=2", "--beside", "--micro_batches=3",
            "--hosts=127.0.0.1", "--port=%d" % cluster.free_ports(2)[0], "--out=" + self.path("table.prototxt"))
        self.assertEqual(status, 0, text)
        names = ["conv0", "conv1"]
        nodes = [self.start("--trace=" + self.path("trace"), name=name) for name in names]
        self.expect_all(nodes, 0, "Optimization Done")
        inside = 0
        for name in names:
            spans = self.spans(name, "executor")
            passes = [e for e in spans if re.match("(forward|backward) segment", e["name"])]
            for e in passes:
                within = [o for o in passes if o is not e and o["ts"] <= e["ts"] and
                          e["ts"] + e["dur"] <= o["ts"] + o["dur"] + 0.01]
                self.assertLessEqual(len(within), 1, "one deep")
                inside += len(within)
                self.assertTrue(all(o["name"].split()[-1] != e["name"].split()[-1] for o in within), (e, within))
        self.assertGreater(inside, 0)

    def test_a_folder_that_cannot_be_written(self):
        self.make_job(iterations=ITERATIONS)
        self.make_table(conv=1, fc=0)
        self.write("trace", "a file")
        node = self.start("--trace=" + self.path("trace"), name="conv0")
        self.expect_exit(node, 2, "cannot write the trace .*/trace/conv0.json")

    def test_a_full_disk_costs_the_trace_alone(self):
        if not os.path.exists("/dev/full") or not stat.S_ISCHR(os.stat("/dev/full").st_mode):
            self.skipTest("SKIPPED: no /dev/full")
        self.make_job(iterations=ITERATIONS)
        self.make_table(conv=1, fc=0)
        os.mkdir(self.path("trace"))
        os.symlink("/dev/full", self.path("trace/conv0.json"))
        node = self.start("--trace=" + self.path("trace"), name="conv0")
        self.expect_exit(node, 0, "Optimization Done")
        self.assertRegex(node.text(), "node conv0: its trace ends here, it cannot be written")


if __name__ == "__main__":
    cluster.main()
