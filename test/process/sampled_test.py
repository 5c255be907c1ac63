"""A head of which training computes a sample of the classes: its tests go over all classes, in blocks, and say the same
as tests that have the scores of all classes in memory."""

import re

import cluster

CLASSES = 60000
ROWS = 12

HEAD = """layer { name: "head" type: "InnerProduct" bottom: "ip1" top: "head" inner_product_param { num_output: %d
        normalize: true bias_term: false sample_rate: 0.05 weight_filler { type: "gaussian" std: 0.1 } } }
layer { name: "top1" type: "Accuracy" bottom: "head" bottom: "label" top: "top1" include { phase: TEST } }
layer { name: "top500" type: "Accuracy" bottom: "head" bottom: "label" top: "top500" accuracy_param { top_k: 500 }
        include { phase: TEST } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "head" bottom: "label" top: "loss"
        margin_param { scale: 16 angle: 0.2 } }
""" % CLASSES
# Whoever reads all scores needs all of them.
SOFTMAX = 'layer { name: "all" type: "Softmax" bottom: "head" top: "all" include { phase: TEST } }\n'


class SampledTest(cluster.JobTest):

    def write_job(self, extra):
        body = cluster.NET[:cluster.NET.index('layer { name: "ip2"')]
        self.make_job(iterations=10, test=True, snapshot=10, hidden=8, solver="restart_tests: true\n",
                      net=body + HEAD + extra)

    def outputs(self, text):
        """[(name, value)] of all outputs of all tests."""
        return [(name, float(value)) for name, value in re.findall(r"Test net output #\d+: (\S+) = (\S+)", text)]

    def train(self, conv, fc):
        names = self.make_table(conv=conv, fc=fc, micro_batches=1)
        nodes = [self.start(name=name) for name in names]
        self.expect_all(nodes, 0, "Optimization Done")
        return [node.text() for node in nodes]

    def scores_bytes(self, text):
        """Bytes of activations and scratch that a node has."""
        solver, scratch = re.search(r"solvers of ([\d.]+) MB each, .* scratch ([\d.]+) MB", text).groups()
        return (float(solver) + float(scratch)) * 1e6

    def expect_same(self, got, want):
        self.assertEqual([name for name, _ in got], [name for name, _ in want])
        self.assertEqual({name for name, _ in want}, {"top1", "top500", "loss"})
        for (name, value), (_, wanted) in zip(got, want):
            self.assertAlmostEqual(value, wanted, delta=2e-5 * abs(wanted) if name == "loss" else 1e-6, msg=name)

    def test_in_blocks_as_with_all_scores(self):
        self.write_job(SOFTMAX)
        whole = self.train(1, 0)[0]
        want = self.outputs(whole)
        self.assertGreaterEqual(self.scores_bytes(whole), 4 * ROWS * CLASSES)
        self.assertNotEqual(want[0], want[-3], "training changes nothing")
        self.write_job("")
        for conv, fc in ((1, 0), (2, 2), (1, 3)):
            with self.subTest(conv=conv, fc=fc):
                logs = self.train(conv, fc)
                said = [self.outputs(text) for text in logs]
                self.expect_same(next(outputs for outputs in said if outputs), want)
                for text in logs:
                    self.assertLess(self.scores_bytes(text), 4 * ROWS * CLASSES / max(fc, 1))
        status, text = cluster.run_tool("model_test", "--model=" + self.path("net.prototxt"),
                                        "--weights=" + self.path("out_iter_10.caffemodel"), "--iterations=2",
                                        "--cache_dir=none")
        self.assertEqual(status, 0, text)
        for name, value in want[-3:]:
            found = float(re.search(r"\] %s = (\S+)" % name, text).group(1))
            self.assertAlmostEqual(found, value, delta=1e-4 * max(1, abs(value)))


if __name__ == "__main__":
    cluster.main()
