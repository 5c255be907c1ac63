"""Fields of a solver's file that Caffe has and tables do not: how snapshots are written, what training begins with, what
a test says, and a job that trains nothing."""

import os
import re
import shutil
import sys

import cluster

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import caffe_wire  # pylint: disable=wrong-import-position


class SolverFieldsTest(cluster.JobTest):

    def train(self, conv, fc, *flags, **job):
        self.make_job(**job)
        return self.run_job(self.make_table(conv=conv, fc=fc, micro_batches=1), *flags)

    def files(self, iteration):
        return sorted(name for name in os.listdir(self.folder) if name.startswith("out_iter_%d." % iteration))

    def read_binary(self, iteration):
        return [self.read("out_iter_%d.%s" % (iteration, kind)) for kind in ("caffemodel", "solverstate")]

    def test_snapshots_are_hdf5_files_where_the_solver_says_so(self):
        adam = 'type: "Adam"\ndelta: 0.01\n'
        self.train(1, 2, iterations=10, snapshot=5, solver=adam)
        whole = self.read_binary(10)
        for iteration in (5, 10):
            for name in self.files(iteration):
                os.remove(self.path(name))
        self.make_job(iterations=10, snapshot=5, solver=adam + "snapshot_format: HDF5\n")
        names = self.make_table(conv=1, fc=2, micro_batches=1)
        nodes = self.start_all(names)
        if any(node.wait(cluster.PATIENCE_S) == 2 and "snapshot_format: HDF5; " in node.text() for node in nodes.values()):
            self.skipTest("SKIPPED: libhdf5 is missing")
        self.expect_all(nodes.values(), 0, "Optimization Done")
        for iteration in (5, 10):
            self.assertEqual(self.files(iteration), ["out_iter_%d.%s" % (iteration, end)
                                                     for end in ("caffemodel.h5", "hpnode", "solverstate.h5")])
        self.assertRegex(nodes["conv0"].text(), r"Snapshotting to HDF5 file \S*out_iter_5\.caffemodel\.h5")
        # They have all that training goes on from, whatever is written then.
        self.train(1, 2, "--resume=" + self.path("out_iter_5.solverstate"), iterations=10, snapshot=10, solver=adam)
        self.assertEqual(self.read_binary(10), whole)
        # Cut files are named.
        self.make_table(conv=1, fc=0, micro_batches=1)
        for flag, end in (("--weights=", "caffemodel.h5"), ("--resume=", "solverstate.h5")):
            path = self.path("out_iter_5." + end)
            os.truncate(path, os.path.getsize(path) // 2)
            self.expect_exit(self.start("--all", flag + path), 2, re.escape(path))

    def test_training_begins_with_weights_that_stand_in_the_net(self):
        """`blobs` of a layer, as in Caffe. Files of weights come after them; a test's net has the training's."""
        weights, bias = [0.25 * i for i in range(64)], [1, -2, 3, -4]
        def net(rows=4, number=2):
            blobs = ["blobs { shape { dim: %d dim: 16 } %s }" % (rows, " ".join("data: %g" % w for w in weights[:16 * rows])),
                     "blobs { num: 1 channels: 1 height: 1 width: 4 %s }" % " ".join("double_data: %g" % b for b in bias)]
            return cluster.NET.replace('name: "ip2"', 'name: "ip2" ' + " ".join(blobs[:number]))
        for conv, fc in ((1, 0), (1, 3)):
            nodes = self.train(conv, fc, iterations=1, snapshot=1, net=net(), solver="base_lr: 0\n")
            self.assertIn('net "tiny": weights of 1 layer(s) loaded', nodes["conv0"].text())
            model = caffe_wire.read_caffemodel(self.path("out_iter_1.caffemodel"))
            self.assertEqual(model["ip2"][0].ravel().tolist(), weights)
            self.assertEqual(model["ip2"][1].ravel().tolist(), bias)
            self.assertNotEqual(abs(model["ip1"][0]).max(), 0, "by its filler")
        os.rename(self.path("out_iter_1.caffemodel"), self.path("inside.caffemodel"))
        # What a file of weights lacks the net has; what it has comes after.
        self.train(1, 0, iterations=1, snapshot=1, solver="base_lr: 0\n")
        self.make_job(iterations=1, snapshot=1, net=net(), solver="base_lr: 0\n")
        self.make_table(conv=1, fc=0, micro_batches=1)
        os.rename(self.path("out_iter_1.caffemodel"), self.path("outside.caffemodel"))
        self.expect_exit(self.start("--all", "--weights=" + self.path("outside.caffemodel")), 0)
        outside, after = (caffe_wire.read_caffemodel(self.path(name)) for name in ("outside.caffemodel", "out_iter_1.caffemodel"))
        self.assertTrue((outside["ip2"][0] == after["ip2"][0]).all())
        shape = r"blob 0 in the net's file has the shape \[%s\] and %d values; expected \[4 16\]"
        for fault, said in ((net(rows=3), shape % ("3 16", 48)),
                            (net(number=1), r"the net's file has 1 of its blobs; expected all 2, or none"),
                            (net().replace("dim: 4 dim: 16 }", "dim: 4 dim: 15 }"), shape % ("4 15", 64))):
            self.make_job(iterations=1, net=fault)
            self.make_table(conv=1, fc=1, micro_batches=1)
            said = r'net\.prototxt:\d+: layer "ip2": ' + said
            self.expect_exit(self.start("--all"), 2, said)
            status, text = cluster.run_tool("hproute", "--check", self.path("table.prototxt"), "--cache_dir=none")
            self.assertEqual(status, 2, text)
            self.assertRegex(text, said)

    def test_weights_of_another_program_become_hdf5(self):
        self.make_job(iterations=2, snapshot=2)
        self.run_job(self.make_table(conv=1, fc=0, micro_batches=1))
        paths = [self.path(name) for name in ("out_iter_2.caffemodel", "w.safetensors", "w.caffemodel.h5", "back.safetensors")]
        for source, target in zip(paths, paths[1:]):
            status, text = cluster.run_tool("hpconvert", "weights", source, target, "--net=" + self.path("net.prototxt"))
            self.assertEqual(status, 0, text)
        self.assertEqual(self.read("back.safetensors"), self.read("w.safetensors"))

    def test_names_with_slashes_are_groups_in_hdf5_files(self):
        net = cluster.NET.replace('name: "conv1"', 'name: "block/conv1"').replace('name: "ip2"', 'name: "block/fc/ip2"')
        self.train(1, 1, iterations=10, snapshot=10, net=net)
        whole = self.read_binary(10)
        self.make_job(iterations=10, snapshot=5, solver="snapshot_format: HDF5\n", net=net)
        nodes = self.start_all(self.make_table(conv=1, fc=1, micro_batches=1))
        if any(node.wait(cluster.PATIENCE_S) == 2 and "snapshot_format: HDF5; " in node.text() for node in nodes.values()):
            self.skipTest("SKIPPED: libhdf5 is missing")
        self.expect_all(nodes.values(), 0, "Optimization Done")
        self.assertRegex(nodes["conv0"].text(), r'out_iter_5\.caffemodel\.h5: Caffe cannot read the layers with a \'/\' in '
                                                r'their names, such as "block/conv1"')
        for end in ("caffemodel", "solverstate", "hpnode"):
            if os.path.exists(self.path("out_iter_10." + end)):
                os.remove(self.path("out_iter_10." + end))
        self.train(1, 1, "--resume=" + self.path("out_iter_5.solverstate"), iterations=10, snapshot=10, net=net)
        self.assertEqual(self.read_binary(10), whole)

    def test_hdf5_files_hold_one_layer_of_a_name(self):
        net = cluster.NET.replace('name: "ip2"', 'name: "ip1"')
        self.make_job(iterations=10, snapshot=5, solver="snapshot_format: HDF5\n", net=net)
        nodes = self.start_all(self.make_table(conv=1, fc=1, micro_batches=1))
        said = [node.text() for node in nodes.values() if node.wait(cluster.PATIENCE_S) == 2]
        if any("snapshot_format: HDF5; " in text for text in said):
            self.skipTest("SKIPPED: libhdf5 is missing")
        line = 1 + net[:net.rindex('name: "ip1"')].count("\n")
        fault = (r'net\.prototxt:%d: layer "ip1#2": it is named "ip1", and so is a layer before it; an HDF5 file holds '
                 'one layer of a name; expected another name, or snapshot_format: BINARYPROTO' % line)
        self.assertEqual(len(said), 2, [node.text() for node in nodes.values()])
        for text in said:
            self.assertRegex(text, fault)
        self.assertEqual(self.files(5) + self.files(10), [])
        status, text = cluster.run_tool("hproute", "--check", self.path("table.prototxt"), "--cache_dir=none")
        self.assertEqual(status, 2, text)
        self.assertRegex(text, fault)
    def test_what_is_missing_counts_as_caffe_counts_it(self):
        self.make_job(iterations=6, test=True, solver='snapshot_diff: true\ndisplay: 1\n')
        text = self.read("solver.prototxt").decode()
        steps = 'lr_policy: "multistep" gamma: 0.5 stepvalue: 3 stepvalue: 1\n'
        for before, after, warning, rates in (
                ("", "", "snapshot_diff: true has no effect", [0.01] * 6),
                ("base_lr: 0.01\n", "", "base_lr: missing, so it is 0", [0] * 6),
                ('lr_policy: "fixed"\n', steps, "stepvalue: not in increasing order",
                 [0.01, 0.01, 0.01, 0.005, 0.0025, 0.0025]),
                ("test_iter: 2\n", "test_iter: 0\n", "test_iter: 0, so there is no test", [0.01] * 6)):
            self.assertIn(before, text)
            self.write("solver.prototxt", text.replace(before, after, 1))
            nodes = self.run_job(self.make_table(conv=1, fc=1, micro_batches=1))
            self.assertIn(warning, nodes["conv0"].text())
            log = "".join(node.text() for node in nodes.values())
            self.assertEqual([float(rate) for rate in re.findall(r"Iteration \d+, lr = (\S+)", log)], rates)
            self.assertEqual("Testing net" in log, after != "test_iter: 0\n")

    def without_updates(self, seed, solver="", conv=1, fc=1, flags=()):
        """A job without max_iter. @return its logs, by node."""
        self.make_job(test=True, solver="test_initialization: false\n" + solver)
        text = self.read("solver.prototxt").decode()
        text = text.replace("max_iter: 1000000\n", "").replace("random_seed: 7", "random_seed: %d" % seed)
        self.write("solver.prototxt", text.replace("snapshot_after_train: false", "snapshot_after_train: true"))
        nodes = self.run_job(self.make_table(conv=conv, fc=fc, micro_batches=1), *flags)
        return {name: node.text() for name, node in nodes.items()}

    def test_without_max_iter_nothing_is_trained(self):
        said = self.without_updates(7, "test_compute_loss: true\ndebug_info: true\n", conv=2, fc=2)
        self.assertEqual(re.findall(r"Iteration (\d+), Testing net", said["fc0"]), ["0"])
        self.assertNotRegex(said["fc0"], r"Iteration \d+ .*, loss = ")
        loss = re.findall(r"Test loss: (\S+)\n.*Test net output #0: accuracy = \S+\n.*Test net output #1: loss = (\S+) ",
                          said["fc0"])
        self.assertEqual(len(loss), 1, said["fc0"])
        self.assertAlmostEqual(float(loss[0][0]), float(loss[0][1]), delta=1e-5)
        self.assertRegex(said["conv0"], r"solver\.prototxt: max_iter: missing, so it is 0, as in Caffe")
        self.assertRegex(said["conv0"], r"W.*solver\.prototxt: debug_info: true has no effect")
        self.assertNotIn("debug_info", said["fc0"])
        self.assertEqual(self.files(0), ["out_iter_0." + end for end in ("caffemodel", "hpnode", "solverstate")])

    def test_training_begins_with_the_weights_of_the_solver(self):
        models = {}
        for name, seed in (("a", 7), ("b", 8)):
            self.without_updates(seed)
            models[name] = self.read("out_iter_0.caffemodel")
            os.rename(self.path("out_iter_0.caffemodel"), self.path(name + ".caffemodel"))
        self.assertNotEqual(models["a"], models["b"])
        for fields, flags, last in (('weights: "a.caffemodel,b.caffemodel"', (), "b"),
                                    ('weights: "b.caffemodel" weights: "a.caffemodel"', (), "a"),
                                    ('weights: "a.caffemodel"', ("--weights=" + self.path("b.caffemodel"),), "b")):
            said = self.without_updates(9, fields + "\n", fc=2, flags=flags)
            self.assertEqual(self.read("out_iter_0.caffemodel"), models[last], fields)
            self.assertRegex(said["conv0"], r"/%s\.caffemodel: weights of 3 " % last)
        names = self.make_table(conv=1, fc=1)
        differ = [self.start("--weights=" + self.path(file + ".caffemodel"), name=name) for file, name in zip("ab", names)]
        self.expect_all(differ, 2, r"node \"\w+0\" begins with different weights \(hash \w+\) ")
        self.make_job(iterations=5, solver='weights: "c.caffemodel"\n')
        self.make_table(conv=1, fc=1)
        self.expect_exit(self.start("--all"), 2, r"c\.caffemodel: ")


class TestedJobTest(cluster.JobTest):
    """A job with two tests, whose parts of a solver are SEEN and NEW."""

    SEEN, NEW = 'test_iter: 5 test_state { stage: "seen" }\n', 'test_iter: 7 test_state { stage: "new" }\n'

    def outputs(self, log):
        """What a log says of each test, in its order: lists of (iteration, test, values)."""
        found = []
        for iteration, test, lines in re.findall(
                r"Iteration (\d+), Testing net \(#(\d+)\)\n((?:.*Test (?:loss|net output).*\n)+)", log):
            found.append((int(iteration), int(test), re.findall(r"(Test loss: \S+|\w+ = \S+)", lines)))
        return found

    def expect_what_each_says_alone(self, log_of, tables, count):
        """`log_of(tests, *table)`: of a job. `count`: values that the two tests of an iteration say."""
        numbers = []
        for table in tables:
            alone = [self.outputs(log_of(tests, *table)) for tests in (self.SEEN, self.NEW)]
            both = self.outputs(log_of(self.SEEN + self.NEW, *table))
            self.assertEqual([(iteration, test) for iteration, test, _ in both],
                             [(iteration, test) for iteration in (0, 4, 8, 12) for test in (0, 1)])
            for number in (0, 1):
                self.assertEqual([values for _, test, values in both if test == number],
                                 [values for _, _, values in alone[number]])
            self.assertNotEqual(alone[0], alone[1])
            numbers.append([float(value.split()[-1]) for _, _, values in both for value in values])
        self.assertEqual(len(numbers[0]), 4 * count)
        for others in numbers[1:]:
            for a, b in zip(numbers[0], others):
                self.assertAlmostEqual(a, b, delta=1e-4)


class SeveralTestsTest(TestedJobTest):
    """A net that is tested in several ways, of other data, layers, batches and sizes of images: each test says what it
    says alone, under every table."""

    NET = """name: "tiny"
layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TRAIN }
        transform_param { scale: 0.004 mirror: true crop_size: 9 }
        data_param { source: "%(source)s" batch_size: 12 backend: LEVELDB } }
layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TEST stage: "seen" }
        transform_param { scale: 0.004 crop_size: 6 } data_param { source: "%(source)s" batch_size: 12 backend: LEVELDB } }
layer { name: "data" type: "Data" top: "data" top: "label" include { phase: TEST stage: "new" }
        transform_param { scale: 0.002 } data_param { source: "%(new)s" batch_size: %(batch)d backend: LEVELDB } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
        convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1" pooling_param { pool: AVE global_pooling: true } }
layer { name: "ip1" type: "InnerProduct" bottom: "pool1" top: "ip1"
        inner_product_param { num_output: %(hidden)d weight_filler { type: "xavier" } } }
layer { name: "relu2" type: "ReLU" bottom: "ip1" top: "ip1" }
layer { name: "drop" type: "Dropout" bottom: "ip1" top: "ip1" dropout_param { dropout_ratio: 0.25 } }
layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
        inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "accuracy" type: "Accuracy" bottom: "ip2" bottom: "label" top: "accuracy"
        include { phase: TEST stage: "seen" } }
layer { name: "norm" type: "Softmax" bottom: "ip2" top: "norm" include { phase: TEST stage: "new" } }
layer { name: "hinge" type: "HingeLoss" bottom: "norm" bottom: "label" top: "hinge"
        include { phase: TEST stage: "new" } loss_weight: 2 }
layer { name: "best" type: "Accuracy" bottom: "ip2" bottom: "label" top: "best" accuracy_param { top_k: 2 }
        include { phase: TEST stage: "new" } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss"
        exclude { phase: TEST stage: "new" } }
"""

    def make_tests(self, tests, batch=3, **job):
        """`batch`: of the test "new", whose images are the largest of all."""
        if not os.path.exists(self.path("new")):
            cluster.write_database(self.path("new"), records=36, seed=9)
        net = self.NET.replace("%(new)s", self.path("new")).replace("%(batch)d", str(batch))
        self.make_job(net=net, iterations=12, solver=tests + "test_interval: 4 test_compute_loss: true\n", **job)

    def test_each_says_what_it_says_alone(self):
        for batch in (3, 30):  # fewer samples than micro-batches, and more than training has
            def log_of(tests, conv, fc, batch=batch):
                self.make_tests(tests, batch)
                nodes = self.run_job(self.make_table(conv=conv, fc=fc))
                return nodes["fc0" if fc else "conv0"].text()

            # Losses say their weighted value, too.
            self.expect_what_each_says_alone(log_of, [(1, 0), (2, 2)], (1 + 2 + 1) + (1 + 2 + 1))

    def test_a_plan_without_the_data(self):
        self.make_tests(self.SEEN + self.NEW)
        for name in ("db", "new"):
            shutil.rmtree(self.path(name))
        plan = ["--solver=" + self.path("solver.prototxt"), "--plan=auto", "--hosts=a,b", "--out=" + self.path("planned.prototxt")]
        for shapes, status, said in (("1,9,9:1,6,6:1,12,12", 0, "planned.prototxt: "), ("1,9,9", 0, "planned.prototxt: "),
                                     ("1,9,9:1,6,6", 2, "--sample=1,9,9:1,6,6 says 2 shapes; expected one, or 3, separated")):
            found, text = cluster.run_tool("hproute", *plan, "--sample=" + shapes)
            self.assertEqual(found, status, text)
            self.assertIn(said, text)

    def test_a_table_is_checked_with_all_of_them(self):
        self.make_tests(self.SEEN + self.NEW)
        self.make_table(conv=2, fc=2)
        status, said = cluster.run_tool("hproute", "--check", self.path("table.prototxt"))
        self.assertEqual(status, 0, said)
        text = self.read("net.prototxt").decode()
        for fault, message in (
                (("num_output: 4 weight", 'num_output: 4 } include { phase: TRAIN } include { stage: "seen" } }\n'
                  'layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2" include { stage: "new" } '
                  "inner_product_param { num_output: 5 weight"),
                 r'layer "ip2": blob 0 has the shape \[5 \d+\] in phase TEST \(#1\); in phase TRAIN it has \[4 \d+\]'),
                (("num_output: 4 weight", 'num_output: 4 } include { phase: TRAIN } include { stage: "seen" } }\n'
                  'layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2" include { stage: "new" } '
                  "inner_product_param { num_output: 4 bias_term: false weight"),
                 r'layer "ip2": has 1 blob\(s\) in phase TEST \(#1\) and 2 in phase TRAIN; expected equal numbers'),
                (('name: "norm" type: "Softmax"', 'name: "norm" type: "Scale"'),
                 r'layer "norm": has parameters in phase TEST \(#1\) alone, where nothing trains them'),
                (('bottom: "norm" bottom: "label" top: "hinge"', 'bottom: "no" bottom: "label" top: "hinge"'),
                 r'layer "hinge": bottom "no" is not produced by any earlier layer')):
            self.assertIn(fault[0], text)
            before, behind = text.rsplit(fault[0], 1)
            self.write("net.prototxt", before + fault[1] + behind)
            status, said = cluster.run_tool("hproute", "--check", self.path("table.prototxt"))
            self.assertEqual(status, 2, said)
            self.assertRegex(said, r"net\.prototxt:\d+: " + message)
            self.expect_exit(self.start("--all"), 2, message)


class TestsOfPixelsTest(TestedJobTest):
    """Labels of pixels, ignored ones among them, in tests of other sizes and batches than training has. One test counts
    another label for ignored, the other has a label for each row."""

    NET = """name: "pixels"
layer { name: "data" type: "DummyData" top: "data" top: "label" include { phase: TRAIN } dummy_data_param {
        shape { dim: 12 dim: 2 dim: 9 dim: 8 } shape { dim: 12 dim: 1 dim: 9 dim: 8 }
        data_filler { type: "gaussian" std: 1 } data_filler { type: "uniform" min: -0.99 max: 3.99 } } }
layer { name: "data" type: "DummyData" top: "data" top: "label" include { stage: "seen" } dummy_data_param {
        shape { dim: 5 dim: 2 dim: 6 dim: 13 } shape { dim: 5 dim: 6 dim: 13 }
        data_filler { type: "gaussian" std: 2 } data_filler { type: "uniform" min: 0 max: 3.99 } } }
layer { name: "data" type: "DummyData" top: "data" top: "label" include { stage: "new" } dummy_data_param {
        shape { dim: 30 dim: 2 dim: 4 dim: 4 } shape { dim: 30 }
        data_filler { type: "gaussian" std: 1 } data_filler { type: "uniform" min: 0 max: 3.99 } } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
        convolution_param { num_output: 6 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1" pooling_param { pool: AVE global_pooling: true } }
layer { name: "gate/ip" type: "InnerProduct" bottom: "pool1" top: "gate/ip"
        inner_product_param { num_output: 6 weight_filler { type: "xavier" } } }
layer { name: "gate" type: "Sigmoid" bottom: "gate/ip" top: "gate" }
layer { name: "gated" type: "Scale" bottom: "conv1" bottom: "gate" top: "gated" scale_param { axis: 0 } }
layer { name: "score" type: "Convolution" bottom: "gated" top: "score"
        convolution_param { num_output: 4 kernel_size: 1 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "score" bottom: "label" top: "loss" include { phase: TRAIN }
        loss_param { ignore_label: 0 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "score" bottom: "label" top: "loss" include { stage: "seen" }
        loss_param { ignore_label: 3 } }
layer { name: "accuracy" type: "Accuracy" bottom: "score" bottom: "label" top: "accuracy" include { stage: "seen" }
        accuracy_param { ignore_label: 3 } }
layer { name: "whole" type: "Pooling" bottom: "score" top: "whole" include { stage: "new" }
        pooling_param { pool: AVE global_pooling: true } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "whole" bottom: "label" top: "loss" include { stage: "new" } }
layer { name: "best" type: "Accuracy" bottom: "whole" bottom: "label" top: "best" accuracy_param { top_k: 2 }
        include { stage: "new" } }
"""
    FC = 'kind: FC layer: "gate/ip" layer: "gate"'

    def make_tests(self, tests, net=NET):
        self.make_job(net=net, iterations=12, solver=tests + "test_interval: 4 test_compute_loss: true base_lr: 0.1\n")

    def log_of(self, tests, *stages):
        self.make_tests(tests)
        return self.run_job(self.make_table(stages=stages))["conv0"].text()

    def test_each_says_what_it_says_alone(self):
        one, two = ("conv", "kind: CONV", 1), ("conv", "kind: CONV", 2)
        self.expect_what_each_says_alone(self.log_of, [(one,), (two,), (two, ("fc", self.FC, 2))],
                                         (1 + 2 + 1) + (1 + 2 + 1))

    def test_tables_are_planned_and_checked_for_all_of_them(self):
        self.make_tests(self.SEEN + self.NEW)
        self.make_table(stages=[("conv", "kind: CONV", 2), ("fc", self.FC, 2)])
        status, said = cluster.run_tool("hproute", "--check", self.path("table.prototxt"))
        self.assertEqual(status, 0, said)
        for shapes, expected, words in (
                ("", 0, "planned.prototxt: "),
                ("2,9,8/1,9,8:2,6,13/6,13:2,4,4", 0, "planned.prototxt: "),
                ("2,9,8", 2, "labels have shape [1]; expected one for each of the 1 rows and 72 pixels of [1 4 9 8]"),
                ("2,9,8/", 2, '--sample is "2,9,8/"; expected CHANNELS,HEIGHT,WIDTH'),
                ("2,9,8/9,8,1,1", 2, "behind a slash the shape of its labels")):
            status, said = cluster.run_tool("hproute", "--solver=" + self.path("solver.prototxt"), "--plan=auto",
                                            "--hosts=a,b", "--out=" + self.path("planned.prototxt"), "--sample=" + shapes)
            self.assertEqual(status, expected, said)
            self.assertIn(words, said)

    def test_a_test_that_does_not_fit_is_named(self):
        for before, after, said in (
                ("dim: 5 dim: 6 dim: 13 }\n", "dim: 5 dim: 6 dim: 12 }\n",
                 r'net\.prototxt:\d+: layer "loss": labels have shape \[1 6 12\]; expected one for each of the 1 rows and '
                 r"78 pixels of \[1 4 6 13\]"),
                ("min: 0 max: 3.99", "min: 4 max: 4.99",
                 r'layer "loss", batch 0, rows from 0: label 4 \(number 0\) of row 0 is not in 0\.\.3')):
            self.make_tests(self.SEEN + self.NEW, self.NET.replace(before, after, 1))
            self.make_table(stages=[("conv", "kind: CONV", 1)])
            self.expect_exit(self.start("--all"), 2, said)


if __name__ == "__main__":
    cluster.main()
