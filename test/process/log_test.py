"""The log of a job as Caffe's scripts read it, and what nodes say of where their time goes."""

import csv
import datetime
import os
import re
import sys
import time

import cluster

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import event_files  # pylint: disable=wrong-import-position

# What Caffe's tools/extra/parse_log.py and extract_seconds.py look for (BSD-2-Clause; its rules, not its code): the
# time of each line from its prefix, seconds since the line with "Solving", and these.
ITERATION = re.compile(r"Iteration (\d+)")
TRAIN_OUTPUT = re.compile(r"Train net output #(\d+): (\S+) = ([\.\deE+-]+)")
TEST_OUTPUT = re.compile(r"Test net output #(\d+): (\S+) = ([\.\deE+-]+)")
RATE = re.compile(r"lr = ([-+]?[0-9]*\.?[0-9]+([eE]?[-+]?[0-9]+)?)")


def time_of(line):
    """From a prefix of glog without a year: I0131 23:59:59.123456."""
    words = line.split()
    month, day = int(words[0][1:3]), int(words[0][3:])
    hour, minute, second = words[1].split(":")
    second, micro = second.split(".")
    return datetime.datetime(2000, month, day, int(hour), int(minute), int(second), int(micro))


def parse(lines):
    """Rows of training and of tests: [{"NumIters", "Seconds", "LearningRate", name: value}]."""
    start = next(time_of(line) for line in lines if "Solving" in line)
    rows = {"train": [], "test": []}
    iteration, rate = -1, float("nan")
    for line in lines:
        found = ITERATION.search(line)
        if found:
            iteration = float(found.group(1))
        if iteration == -1:
            continue
        if RATE.search(line):
            rate = float(RATE.search(line).group(1))
        for kind, pattern in (("train", TRAIN_OUTPUT), ("test", TEST_OUTPUT)):
            found = pattern.search(line)
            if not found:
                continue
            table = rows[kind]
            if not table or table[-1]["NumIters"] != iteration:
                table.append({"NumIters": iteration, "Seconds": (time_of(line) - start).total_seconds(),
                              "LearningRate": rate})
            table[-1][found.group(2)] = float(found.group(3))
    return rows


class LogTest(cluster.JobTest):

    def run_to(self, iterations, conv, fc):
        self.make_job(iterations=iterations, test=True, solver="display: 5\nbase_lr: 0.02\n")
        nodes = self.run_job(self.make_table(conv=conv, fc=fc))
        return {name: node.text().splitlines() for name, node in nodes.items()}

    def test_a_net_that_learns_nothing_says_so(self):
        net = re.sub(r'layer { name: "(loss|accuracy)".*\n', "", cluster.NET)
        self.make_job(iterations=2, net=net)
        self.make_table(conv=1, fc=0, micro_batches=1)
        self.expect_exit(self.start("--all"), 0, "no layer of phase TRAIN has a loss: nothing will be learnt", "Optimization Done")

    def test_a_training_without_outputs_is_reported(self):
        """As where averages of BatchNorm are taken anew: displays and tests come as Caffe's do."""
        net = re.sub(r'(layer { name: "loss")', r'\1 include { phase: TEST }', cluster.NET)
        self.assertNotEqual(net, cluster.NET)
        self.make_job(iterations=20, test=True, solver="display: 5\nbase_lr: 0.02\n", net=net)
        for conv, fc, micro_batches in ((1, 0, 1), (2, 1, 2)):
            nodes = self.run_job(self.make_table(conv=conv, fc=fc, micro_batches=micro_batches))
            text = nodes["conv0"].text()
            self.assertEqual(re.findall(r"Iteration (\d+) \(.*, loss = 0\n", text), ["0", "5", "10", "15"])
            self.assertEqual(re.findall(r"Iteration (\d+), lr = 0.02\n", text), ["0", "5", "10", "15"])
            self.assertEqual([row["NumIters"] for row in parse(text.splitlines())["test"]], [0, 10, 20])

    def test_caffes_parser_reads_it(self):
        for conv, fc, teller in ((1, 0, "conv0"), (2, 2, "fc0")):
            logs = self.run_to(20, conv, fc)
            rows = parse(logs[teller])
            self.assertEqual([row["NumIters"] for row in rows["train"]], [0, 5, 10, 15], teller)
            self.assertEqual([row["NumIters"] for row in rows["test"]], [0, 10, 20], teller)
            for row in rows["train"]:
                self.assertGreater(row["loss"], 0)
                self.assertGreaterEqual(row["Seconds"], 0)
            for row in rows["test"]:
                self.assertTrue(0 <= row["accuracy"] <= 1 and row["loss"] > 0, row)
            # Caffe prints the rate behind the outputs of its iteration, and so do we.
            self.assertEqual([row["LearningRate"] for row in rows["train"][1:]], [0.02] * 3)
            for name, lines in logs.items():
                if name != teller:
                    self.assertEqual(parse(lines)["train"], [], "%s tells the loss too" % name)
                    self.assertRegex("\n".join(lines), 'losses and accuracies are in the log of node "%s"' % teller)

    def test_steps_and_ignored_layers_as_caffe_says_them(self):
        self.make_job(iterations=10, snapshot=10)
        self.run_job(self.make_table(conv=1, fc=0))
        os.rename(self.path("out_iter_10.caffemodel"), self.path("w.caffemodel"))
        net = cluster.NET.replace('name: "ip2"', 'name: "other"')
        self.make_job(iterations=12, solver="gamma: 0.5\nstepvalue: 5\nstepvalue: 7\n", net=net)
        self.write("solver.prototxt", self.read("solver.prototxt").decode().replace('"fixed"', '"multistep"'))
        nodes = self.run_job(self.make_table(conv=1, fc=1), "--weights=" + self.path("w.caffemodel"))
        said = {name: [line.split("] ", 1)[1] for line in node.text().splitlines() if "] " in line]
                for name, node in nodes.items()}
        steps = ["MultiStep Status: Iteration 5, step = 1", "Iteration 5, lr = 0.005",
                 "MultiStep Status: Iteration 7, step = 2", "Iteration 10, lr = 0.0025"]
        self.assertEqual([line for line in said["fc0"] if "MultiStep" in line or ", lr = " in line],
                         ["Iteration 0, lr = 0.01"] + steps)
        self.assertEqual([line for line in said["conv0"] if "MultiStep" in line], [])
        self.assertEqual([line for line in said["conv0"] if "Ignoring" in line], ["Ignoring source layer ip2"])

    COLUMNS = ("time_spent,cumulative_time_spent,input_count,cumulative_input_count,cumulative_batch_count,"
               "inputs_per_sec,accuracy,epoch,learning_rate,loss,test_accuracy").split(",")

    def rows_of_csv(self):
        with open(self.path("curves.csv"), encoding="ascii", newline="") as file:
            reader = csv.DictReader(file)
            rows = list(reader)
        self.assertEqual(reader.fieldnames, self.COLUMNS)
        return rows

    def test_curves_with_caffe2s_columns(self):
        self.make_job(iterations=20, test=True, snapshot=10)
        flag = "--csv=" + self.path("curves.csv")
        nodes = self.run_job(self.make_table(conv=2, fc=2), flag)
        log = parse(nodes["fc0"].text().splitlines())
        tests, rows = self.rows_by_kind()
        self.assert_tests(tests, log["test"])
        self.assertEqual([int(row["cumulative_batch_count"]) for row in rows], [1, 6, 11, 16])
        self.assertEqual([int(row["input_count"]) for row in rows], [12, 60, 60, 60])
        self.assertEqual([int(row["cumulative_input_count"]) for row in rows], [12, 72, 132, 192])
        self.assertEqual([float(row["epoch"]) for row in rows], [0.25, 1.5, 2.75, 4])
        self.assertEqual([float(row["loss"]) for row in rows], [row["loss"] for row in log["train"]])
        self.assertEqual([float(row["learning_rate"]) for row in rows], [0.01] * 4)
        self.assertEqual([row["accuracy"] for row in rows], [""] * 4, "the training net has none")
        for row, earlier in zip(rows[1:], rows):
            spent = float(row["cumulative_time_spent"]) - float(earlier["cumulative_time_spent"])
            self.assertAlmostEqual(spent, float(row["time_spent"]), delta=1e-4)
            self.assertAlmostEqual(float(row["inputs_per_sec"]) * float(row["time_spent"]), 60, delta=0.1)
        # A run that resumes goes on from its snapshot's row; what was written behind it, and half a row, goes. It
        # tests in front of its first iteration, as Caffe does.
        with open(self.path("curves.csv"), "a", encoding="ascii") as file:
            file.write("0.1,0.2")
        self.run_job(self.make_table(conv=1, fc=0), flag, "--resume=" + self.path("out_iter_10.solverstate"))
        self.assertEqual([row["cumulative_batch_count"] for row in self.rows_of_csv()],
                         ["0", "1", "6", "10", "11", "16", "20"])
        times = [float(row["cumulative_time_spent"]) for row in self.rows_of_csv()]
        self.assertEqual(times, sorted(times))
        self.write("curves.csv", "a,b\n1,2\n")
        self.expect_exit(self.start("--all", flag, "--resume=" + self.path("out_iter_10.solverstate")), 2,
                         "curves.csv: is another table than hpnode writes")
        self.run_job(self.make_table(conv=1, fc=0), flag)
        self.assertEqual(len(self.rows_of_csv()), 7)
        self.expect_exit(self.start("--all", "--csv=/no_folder/x.csv"), 2, r"--csv=/no_folder/x.csv: No such file")
        self.make_job(iterations=20, solver="display: 0\n")
        self.expect_exit(self.start("--all", flag), 2, "has a row for each display and for each accuracy of the first test net; the job has neither")

    def rows_by_kind(self):
        rows = self.rows_of_csv()
        return [row for row in rows if row["test_accuracy"]], [row for row in rows if row["loss"]]

    def assert_tests(self, tests, log):
        """Rows of the table, beside the tests of the log; a batch is 12 of 48 records."""
        self.assertEqual([int(row["cumulative_batch_count"]) for row in tests], [row["NumIters"] for row in log])
        self.assertEqual([float(row["test_accuracy"]) for row in tests], [row["accuracy"] for row in log])
        self.assertEqual([float(row["epoch"]) for row in tests], [row["NumIters"] / 4 for row in log])
        self.assertEqual([int(row["cumulative_input_count"]) for row in tests], [row["NumIters"] * 12 for row in log])
        filled = ["cumulative_time_spent", "cumulative_input_count", "cumulative_batch_count", "epoch", "test_accuracy"]
        for row in tests:
            self.assertEqual([column for column in self.COLUMNS if row[column]], filled)

    def test_each_test_has_a_row_of_the_curves(self):
        flag = "--csv=" + self.path("curves.csv")
        for solver, displays in (("display: 0\n", []), ("display: 15\n", [1, 16]), ("display: 1\n", list(range(1, 21)))):
            self.make_job(iterations=20, test=True, solver=solver)
            log = parse(self.run_job(self.make_table(conv=1, fc=1), flag)["fc0"].text().splitlines())
            tests, rows = self.rows_by_kind()
            self.assertEqual([row["NumIters"] for row in log["test"]], [0, 10, 20])
            self.assert_tests(tests, log["test"])
            self.assertEqual([int(row["cumulative_batch_count"]) for row in rows], displays)
            times = [float(row["cumulative_time_spent"]) for row in self.rows_of_csv()]
            self.assertEqual(times, sorted(times))

    def test_accuracies_of_the_curves_are_those_of_the_last_classifier(self):
        extra = """
layer { name: "aconv" type: "Reduction" bottom: "ip2" top: "aconv" }
layer { name: "a1" type: "Accuracy" bottom: "ip1" bottom: "label" top: "a1" include { phase: TEST } }
layer { name: "top5" type: "Accuracy" bottom: "ip2" bottom: "label" top: "a5" accuracy_param { top_k: 2 }
        include { phase: TEST } }
"""
        flag = "--csv=" + self.path("curves.csv")
        net = cluster.NET.replace('layer { name: "loss"', extra + 'layer { name: "loss"')
        self.make_job(iterations=10, test=True, net=net)
        log = parse(self.run_job(self.make_table(conv=1, fc=2), flag)["fc0"].text().splitlines())
        tests, rows = self.rows_by_kind()
        self.assertEqual(sorted(log["test"][0])[:4], ["LearningRate", "NumIters", "Seconds", "a1"])
        self.assert_tests(tests, log["test"])
        self.assertEqual([row["accuracy"] for row in rows], [""] * 2, "a sum is no accuracy")
        without = re.sub(r'(?s)layer {[^{]*type: "Accuracy".*? } }\n', "", net)
        self.make_job(iterations=10, test=True, net=without)
        self.run_job(self.make_table(conv=1, fc=1), flag)
        self.assertEqual(self.rows_by_kind()[0], [])
        self.make_job(iterations=10, test=True, solver="display: 0\n", net=without)
        self.expect_exit(self.start("--all", flag), 2, "for each accuracy of the first test net; the job has neither")

    def test_event_files_for_tensorboard(self):
        self.make_job(iterations=20, test=True, snapshot=10)
        folder = self.path("runs/one")
        flags = ("--tensorboard=" + folder, "--csv=" + self.path("curves.csv"))
        began = time.time()
        nodes = self.run_job(self.make_table(conv=2, fc=2), *flags)
        log, (_, rows) = parse(nodes["fc0"].text().splitlines()), self.rows_by_kind()
        start, points = event_files.read_file(*event_files.event_files(folder))
        self.assertEqual(start, 0)
        self.assertTrue(all(began <= at <= time.time() for at, _, _ in points))
        self.assertEqual([at for at, _, _ in points], sorted(at for at, _, _ in points))
        first = event_files.curves(folder)
        self.assertEqual(sorted(first), ["learning_rate", "loss", "samples_per_s", "test/accuracy", "test/loss",
                                         "train/loss"])
        self.assertEqual([step for step, _ in first["loss"]], [0, 5, 10, 15])
        self.assert_curve(first["loss"], rows, "loss")
        self.assert_curve(first["learning_rate"], rows, "learning_rate")
        self.assert_curve(first["samples_per_s"], rows, "inputs_per_sec")
        self.assertEqual([step for step, _ in first["test/accuracy"]], [0, 10, 20])
        self.assert_curve(first["test/accuracy"], log["test"], "accuracy")
        self.assert_curve(first["test/loss"], log["test"], "loss")
        # A run that resumes writes a file of its own, and voids what was written from its first iteration on.
        self.run_job(self.make_table(conv=1, fc=0), flags[0], "--resume=" + self.path("out_iter_10.solverstate"))
        files = event_files.event_files(folder)
        self.assertEqual([event_files.read_file(path)[0] for path in files], [0, 10])
        both = event_files.curves(folder)
        self.assertEqual([step for step, _ in both["loss"]], [0, 5, 10, 15])
        self.assertEqual([step for step, _ in both["test/accuracy"]], [0, 10, 20])
        self.assertEqual(both["loss"][:2], first["loss"][:2])
        self.assert_in_tensorboard(folder, both)

    def assert_curve(self, curve, rows, column):
        self.assertEqual(len(curve), len(rows), column)
        for (_, value), row in zip(curve, rows):
            self.assertAlmostEqual(value, float(row[column]), delta=1e-5 * abs(value), msg=column)

    def assert_in_tensorboard(self, folder, curves):
        try:
            # pylint: disable-next=import-outside-toplevel
            from tensorboard.backend.event_processing import event_accumulator
        except ImportError:
            print("SKIPPED: the look by TensorBoard itself: it is not installed")
            return
        events = event_accumulator.EventAccumulator(folder)
        events.Reload()
        for tag, points in curves.items():
            self.assertEqual([(point.step, point.value) for point in events.Scalars(tag)], points, tag)

    def test_tensorboard_refusals(self):
        self.make_job(iterations=20)
        self.make_table(conv=1, fc=0)
        self.expect_exit(self.start("--all", "--tensorboard=" + self.path("solver.prototxt")), 2,
                         r"--tensorboard=\S+: ")
        self.make_job(iterations=20, solver="display: 0\n")
        self.expect_exit(self.start("--all", "--tensorboard=" + self.path("runs")), 2,
                         "has points for each display and test; the solver has neither")

    def test_a_loss_without_a_top_is_part_of_the_loss_alone(self):
        named = cluster.NET
        unnamed = named.replace(' bottom: "label" top: "loss"', ' bottom: "label"')
        self.assertNotEqual(named, unnamed)
        losses = []
        for net in (named, unnamed):
            self.make_job(iterations=10, test=True, snapshot=10, net=net)
            said = []
            for conv, fc in ((1, 0), (1, 2)):
                nodes = self.run_job(self.make_table(conv=conv, fc=fc, micro_batches=1))
                text = nodes["fc0" if fc else "conv0"].text()
                said.append([float(loss) for loss in re.findall(r"Iteration \d+ .*, loss = (\S+)", text)])
                self.assertEqual("loss = " in "".join(re.findall(r"net output #.*", text)), net is named, text)
                self.assertRegex(text, r"Test net output #0: accuracy = ")
            losses.append(said)
        self.assertEqual(len(losses[0][0]), 2)
        self.assertEqual(*losses)
        status, text = cluster.run_tool("hproute", "--check", self.path("table.prototxt"), "--cache_dir=none")
        self.assertEqual(status, 0, text)
        status, text = cluster.run_tool("model_test", "--model=" + self.path("net.prototxt"), "--iterations=2",
                                        "--weights=" + self.path("out_iter_10.caffemodel"), "--cache_dir=none")
        self.assertEqual(status, 0, text)
        self.assertRegex(text, r"\] Loss: \d")
        self.assertNotIn("automatic", text)

    def test_a_test_goes_on_behind_the_records_of_the_last_one(self):
        def losses(solver, conv=1, fc=0):
            # Weights that stay as they are: a test differs from another one by its records alone.
            self.make_job(iterations=40, test=True, solver="base_lr: 1e-30\n" + solver)
            nodes = self.run_job(self.make_table(conv=conv, fc=fc, micro_batches=1))
            text = nodes["fc0" if fc else "conv0"].text()
            return [float(loss) for loss in re.findall(r"Test net output #1: loss = (\S+)", text)]
        first, second, third, fourth, fifth = losses("")  # 24 of 48 records each
        self.assertNotEqual(first, second)
        self.assertEqual([third, fourth, fifth], [first, second, first])
        self.assertEqual(losses("test_initialization: false\n"), [first, second, first, second])
        self.assertEqual(losses("restart_tests: true\n"), [first] * 5)
        for got, want in zip(losses("", conv=2, fc=2), [first, second, first, second, first]):
            self.assertAlmostEqual(got, want, delta=1e-5)

    def test_outputs_stand_in_the_order_of_their_names(self):
        extra = ('layer { name: "a2" type: "Accuracy" bottom: "ip2" bottom: "label" top: "zz" include { phase: TEST } }\n'
                 'layer { name: "a3" type: "Accuracy" bottom: "ip2" bottom: "label" top: "Z" include { phase: TEST } }\n')
        self.make_job(iterations=5, test=True, snapshot=5, net=cluster.NET + extra)
        text = self.run_job(self.make_table(conv=1, fc=1))["fc0"].text()
        order = ["Z", "accuracy", "loss", "zz"]
        self.assertEqual(re.findall(r"Test net output #(\d): (\w+) ", text)[:4],
                         [(str(i), name) for i, name in enumerate(order)])
        status, text = cluster.run_tool("model_test", "--model=" + self.path("net.prototxt"), "--iterations=1",
                                        "--weights=" + self.path("out_iter_5.caffemodel"), "--cache_dir=none")
        self.assertEqual(status, 0, text)
        self.assertEqual(re.findall(r"\] (\w+) = ", text), order)

    def test_a_log_that_nobody_reads_holds_up_nothing(self):
        self.make_job(iterations=3000, solver="display: 1\n")
        names = self.make_table(conv=1, fc=1)
        for blocked in names:
            reader, writer = os.pipe()
            os.set_blocking(writer, False)
            try:
                while True:
                    os.write(writer, b"x" * 4096)
            except BlockingIOError:
                os.set_blocking(writer, True)
            nodes = [self.start(name=name, stderr=writer if name == blocked else None) for name in names]
            os.close(writer)
            for node in nodes:
                self.expect_exit(node, 0)
            os.close(reader)

    def test_every_node_says_where_its_time_went(self):
        for name, lines in self.run_to(20, 2, 1).items():
            told = [line for line in lines if re.search(r"node %s: \d+ iterations in " % name, line)]
            self.assertEqual([int(re.search(r": (\d+) iterations", line).group(1)) for line in told], [5] * 4 + [20], name)
            for line in told:
                parts = list(map(float, re.findall(r"([\d.]+)%", line)))
                self.assertGreater(parts[0], 0, line)
                self.assertLessEqual(sum(parts), 100.5, line)
                self.assertRegex(line, r"; sent [\d.]+ MB, received [\d.]+ MB$")

    def test_the_first_node_compares_with_the_limit(self):
        logs = self.run_to(20, 2, 1)
        for name, lines in logs.items():
            told = [line for line in lines if "gauge: " in line]
            self.assertEqual(len(told), 5 if name == "conv0" else 0, name)
            for line in told:
                took, limit, reached = map(float, re.search(
                    r"took ([\d.]+) ms each, limit ([\d.]+) ms \(node \w+ computes\): (\d+)% reached$", line).groups())
                # Nodes say what they computed up to ends of iterations of their own: of a few, some part of one more.
                self.assertLessEqual(limit, 1.2 * took + 0.1, line)
                self.assertAlmostEqual(reached, 100 * limit / took, delta=2 + 10 / took, msg=line)


if __name__ == "__main__":
    cluster.main()
