"""precision: AUTO is decided once for the job, and kept by its snapshots; a node that can't do what the table says ends
with status 2. Nodes are kept from the instructions of this host's processors by oneDNN's own variable."""

import os
import unittest.mock

import cluster

OLD = {"DNNL_MAX_CPU_ISA": "AVX2"}
CANNOT = r'can\'t compute layer "conv1" with precision: BF16: the processors have neither AVX512_BF16 nor AMX \(oneDNN [\w. ]+\); ' \
         r"it can with FP32, and AUTO takes what all nodes can"


class PrecisionTest(cluster.JobTest):

    def make(self, precision, **job):
        self.make_job(iterations=6, snapshot=3, **job)
        return self.make_table(conv=2, fc=1, extra="precision: %s" % precision)

    def train(self, names, old, *flags):
        """The model, trained by nodes of which those in `old` are on older processors."""
        nodes = {name: self.start(*flags, name=name, **(OLD if name in old else {})) for name in names}
        self.expect_all(nodes.values(), 0, "Optimization Done")
        return self.read("out_iter_6.caffemodel"), nodes

    def test_auto_is_what_all_convolutions_can(self):
        everywhere = "BF16" if cluster.multiplies_bfloat16() else "FP32"
        for old, decided in (((), everywhere), (("fc0",), everywhere), (("conv1",), "FP32")):
            automatic, nodes = self.train(self.make("AUTO"), old)
            for node in nodes.values():
                self.assertRegex(node.text(), r"precision: AUTO is %s\n" % decided)
            self.assertEqual(self.train(self.make(decided), old)[0], automatic, old)

    def test_snapshots_keep_what_was_decided(self):
        names = self.make("AUTO")
        whole, _ = self.train(names, ("conv1",))
        resume = "--resume=" + self.path("out_iter_3.solverstate")
        self.assertEqual(self.train(names, ("conv1",), resume)[0], whole)
        nodes = self.start_all(names, resume)
        self.expect_all(nodes.values(), 0, "precision: AUTO is FP32, as before the snapshot", "Optimization Done")
        if not cluster.multiplies_bfloat16():
            self.skipTest("SKIPPED: no AVX512_BF16 or AMX here")
        resumed = self.read("out_iter_6.caffemodel")
        whole, nodes = self.train(names, ())
        self.assertRegex(nodes["conv0"].text(), r"precision: AUTO is BF16\n")
        self.assertNotEqual(whole, resumed)
        nodes = [self.start(resume, name=name, **(OLD if name == "conv1" else {})) for name in names]
        self.expect_exit(nodes[1], 2, "precision: AUTO is BF16, as before the snapshot",
                         r'node "conv1" can\'t compute layer "conv1" with precision: BF16, as before the snapshot: the proc.*; '
                         r"with precision: FP32 in the table the job can go on here")
        for node in (nodes[0], nodes[2]):
            self.assertIn(node.wait(), (2, 4))
            self.assertIn('lost node "conv1"', node.text())
        self.train(self.make("FP32"), ("conv1",), resume)

    def test_what_a_node_cannot_do(self):
        names = self.make("BF16")
        nodes = {name: self.start(name=name, **OLD) for name in names}
        self.assertEqual({node.wait() for node in nodes.values()} - {2, 4}, set())
        said = "".join(node.text() for node in nodes.values())
        self.assertRegex(said, 'node "conv[01]" ' + CANNOT)
        self.assertNotRegex(said, 'node "fc0" can')
        with unittest.mock.patch.dict(os.environ, OLD):
            table = self.path("table.prototxt")
            net = self.path("net.prototxt")
            for tool, flags, text in (
                    ("hproute", ["--check", table], 'node "conv0" ' + CANNOT),
                    ("hproute", ["--solver=" + self.path("solver.prototxt"), "--precision=BF16", "--hosts=127.0.0.1",
                                 "--out=" + self.path("planned.prototxt")], CANNOT),
                    ("hproute", ["--solver=" + self.path("solver.prototxt"), "--precision=BF16",
                                 "--profile=" + self.path("x.profile")], "device \"cpu\" can't compute with precision: BF16: the proc"),
                    ("hptime", ["--model=" + net, "--precision=BF16"], "device \"cpu\" can't compute with precision: BF16: the proc")):
                status, found = cluster.run_tool(tool, "--cache_dir=none", *flags)
                self.assertEqual(status, 2, found)
                self.assertRegex(found, text)
            status, found = cluster.run_tool("hptime", "--cache_dir=none", "--model=" + net, "--precision=AUTO", "--iterations=1")
            self.assertEqual(status, 0, found)


if __name__ == "__main__":
    cluster.main()
