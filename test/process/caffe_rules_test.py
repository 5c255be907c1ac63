"""Rules of Caffe's that show only when a job runs: what is printed, when it tests, and whose weights it begins with."""

import os
import re
import sys

import cluster

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import caffe_wire  # pylint: disable=wrong-import-position

V1_LAYERS, V1_NAME, V1_BLOBS = caffe_wire.NET_LAYERS_V1, caffe_wire.V1_NAME, caffe_wire.V1_BLOBS
SHAPE_OF_4 = (caffe_wire.BLOB_NUM, caffe_wire.BLOB_CHANNELS, caffe_wire.BLOB_HEIGHT, caffe_wire.BLOB_WIDTH)


def write_v1_caffemodel(path, model):
    """As Caffe wrote it before layers had a shape of any number of axes: {layer name: [array, ...]}."""
    with open(path, "wb") as file:
        for name, blobs in model.items():
            layer = caffe_wire.message(V1_NAME, name.encode())
            for blob in blobs:
                dims = (1,) * (4 - blob.ndim) + blob.shape
                content = b"".join(caffe_wire.varint(field << 3) + caffe_wire.varint(dim) for field, dim in zip(SHAPE_OF_4, dims))
                content += caffe_wire.message(caffe_wire.BLOB_DATA, blob.astype("<f4").tobytes())
                layer += caffe_wire.message(V1_BLOBS, content)
            file.write(caffe_wire.message(V1_LAYERS, layer))


class CaffeRulesTest(cluster.JobTest):

    def train(self, *flags, **job):
        """One conv and one FC node. Returns their logs, and the model."""
        self.make_job(**job)
        nodes = self.run_job(self.make_table(conv=1, fc=1), *flags)
        return "".join(node.text() for node in nodes.values()), caffe_wire.read_caffemodel(self.path("out_iter_%d.caffemodel" % job["iterations"]))

    def test_average_loss_is_that_of_the_last_iterations(self):
        shown = []
        for average in (1, 3):
            text, _ = self.train(iterations=6, snapshot=6, solver="display: 1\naverage_loss: %d\n" % average)
            shown.append([float(value) for value in re.findall(r"Iteration \d+ \(.*\), loss = (\S+)", text)])
        each, means = shown
        self.assertEqual(len(each), 6)
        for i, mean in enumerate(means):
            last = each[max(0, i - 2):i + 1]
            self.assertAlmostEqual(mean, sum(last) / len(last), delta=1e-5 * mean)
        self.assertNotEqual(each, means)

    def test_without_test_iter_nothing_is_tested(self):
        text, _ = self.train(iterations=6, snapshot=6, solver="test_interval: 2\n")
        self.assertNotIn("Testing net", text)

    def test_tops_that_no_layer_reads_are_printed(self):
        net = cluster.NET + "".join('layer { name: "%s" type: "Reduction" bottom: "ip2" top: "%s" reduction_param { coeff: %d } }\n'
                                    % (name, name, coeff) for name, coeff in (("sum", 1), ("twice", 2)))
        text, _ = self.train(iterations=3, snapshot=3, net=net, solver="display: 1\n")
        sums, twice = (re.findall(r"Train net output #\d+: %s = (\S+)\n" % name, text) for name in ("sum", "twice"))
        self.assertEqual(len(sums), 3, text)
        for once, two in zip(sums, twice):
            self.assertAlmostEqual(2 * float(once), float(two), delta=1e-4 * abs(float(two)))
        self.assertEqual(len(set(sums)), 3)

    def test_stages_of_training_and_tests(self):
        """A layer of a stage is in those nets alone whose state names it, on all nodes."""
        ratio, scored = "dropout_param { dropout_ratio: 0.25 }", 'top: "accuracy" include { phase: TEST'
        self.assertIn(ratio, cluster.NET)
        self.assertIn(scored, cluster.NET)
        net = cluster.NET.replace(ratio, ratio + ' include { stage: "dropped" }').replace(scored, scored + ' stage: "scored"')
        always = self.train(iterations=6, snapshot=6, test=True)
        never = self.train(iterations=6, snapshot=6, test=True, net=cluster.NET.replace(ratio, "dropout_param { dropout_ratio: 0 }"))
        for states, (_, expected), shown in (
                ("", never, False), ('train_state { stage: "dropped" }\n', always, False),
                ('train_state { stage: "scored" }\ntest_state { stage: "dropped" }\n', never, False),
                ('train_state { stage: "dropped" }\ntest_state { stage: "scored" }\n', always, True)):
            text, model = self.train(iterations=6, snapshot=6, test=True, net=net, solver=states)
            self.assertEqual("Test net output #0: accuracy" in text, shown, states)
            self.assertEqual(model["ip2"][0].tolist(), expected["ip2"][0].tolist(), states)
        self.assertNotEqual(always[1]["ip2"][0].tolist(), never[1]["ip2"][0].tolist())

    def test_weights_of_several_files(self):
        """The last file has the last word, and an old format is as good as the new one."""
        first = self.train(iterations=3, snapshot=3)[1]
        second = {name: [2 * blob for blob in blobs] for name, blobs in first.items()}
        caffe_wire.write_caffemodel(self.path("a.caffemodel"), first)
        write_v1_caffemodel(self.path("b.caffemodel"), {"ip2": second["ip2"], "other": first["ip1"]})
        both = self.path("a.caffemodel") + "," + self.path("b.caffemodel")
        # At such a rate nothing is learnt.
        text, model = self.train("--weights=" + both, iterations=1, snapshot=1, solver="base_lr: 1e-30\n")
        self.assertRegex(text, r"a\.caffemodel: weights of \d layer\(s\) loaded")
        self.assertRegex(text, r"b\.caffemodel: weights of 1 layer\(s\) loaded")
        for name, blobs in {**first, "ip2": second["ip2"]}.items():
            for blob, found in zip(blobs, model[name]):
                self.assertEqual(blob.tolist(), found.tolist(), name)


if __name__ == "__main__":
    cluster.main()
