"""The log of a job as Caffe's scripts read it, and what nodes say of where their time goes."""

import datetime
import os
import re

import cluster

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
