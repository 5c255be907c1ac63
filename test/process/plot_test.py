"""hpplot draws what hpnode's tables and logs say. The pictures: where matplotlib is."""

import contextlib
import csv
import importlib.util
import io
import os
import re
import struct
import subprocess
import sys
import unittest
from xml.etree import ElementTree

import cluster

HAS_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None
TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools")
sys.path.insert(0, TOOLS)
import hpplot  # pylint: disable=wrong-import-position

# Caffe's own words, of a run that was resumed at 100 in the night of a year's end.
CAFFE_LOG = """Log file created at: 2015/12/31 23:00:00
I1231 23:00:00.000000  4711 solver.cpp:48] Initializing solver from parameters:
I1231 23:00:00.500000  4711 solver.cpp:330] Iteration 0, Testing net (#0)
I1231 23:30:00.000000  4711 solver.cpp:397]     Test net output #0: accuracy = 0.125
I1231 23:30:00.000000  4711 solver.cpp:397]     Test net output #1: loss = 2.5 (* 1 = 2.5 loss)
I1231 23:30:00.000000  4711 solver.cpp:397]     Test net output #2: top5 = 0.5
I1231 23:30:00.000000  4711 solver.cpp:330] Iteration 0, Testing net (#1)
I1231 23:30:00.000000  4711 solver.cpp:397]     Test net output #0: accuracy = 0.75
I1231 23:30:00.000000  4711 solver.cpp:397]     Test net output #1: l2_error = 80.5
I1231 23:30:00.000000  4711 solver.cpp:397]     Test net output #2: top5 = 1
I1231 23:30:00.000000  4711 solver.cpp:218] Iteration 0 (0 iter/s, 0s/100 iters), loss = 2.25
I1231 23:30:00.000000  4711 solver.cpp:237]     Train net output #0: loss = 2.25 (* 1 = 2.25 loss)
I1231 23:30:00.000000  4711 sgd_solver.cpp:105] Iteration 0, lr = 0.5
I1231 23:45:00.000000  4711 solver.cpp:218] Iteration 100 (9 iter/s, 9s/100 iters), loss = 9
I1231 23:50:00.000000  4711 solver.cpp:218] Iteration 200 (9 iter/s, 9s/100 iters), loss = 9
I0101 00:30:00.000000  4711 solver.cpp:218] Iteration 100 (9 iter/s, 9s/100 iters), loss = nan
I0101 01:00:00.000000  4711 sgd_solver.cpp:105] Iteration 100, lr = 0.25
"""


class PlotTest(cluster.JobTest):

    def plot(self, *arguments, status=0):
        done = subprocess.run([sys.executable, cluster.program("hpplot"), *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual(done.returncode, status, done.stdout)
        return done.stdout

    def train(self):
        """Paths of the table and of the log of one training."""
        self.make_job(iterations=20, test=True)
        nodes = self.run_job(self.make_table(conv=1, fc=1), "--csv=" + self.path("curves.csv"))
        self.write("fc0.txt", nodes["fc0"].text())
        return self.path("curves.csv"), self.path("fc0.txt")

    def test_tables_and_logs_have_the_same_curves(self):
        table, log = (hpplot.read_run(path) for path in self.train())
        self.assertEqual(sorted(table.curves), ["accuracy", "loss", "rate"])
        self.assertEqual(sorted(log.curves), sorted(table.curves))
        with open(self.path("curves.csv"), encoding="ascii", newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["loss"]]
        for run in (table, log):
            self.assertEqual([point[0] for point in run.curves["loss"]], [0, 5, 10, 15])
            for curve, column in (("loss", "loss"), ("rate", "learning_rate")):
                self.assertEqual([point[2] for point in run.curves[curve]], [float(row[column]) for row in rows])
        self.assertEqual([point[0] for point in log.curves["accuracy"]], [0, 10, 20])
        for of_table, of_log in zip(table.curves["accuracy"], log.curves["accuracy"], strict=True):
            self.assertEqual(of_table[::2], of_log[::2])
        for point, row in zip(table.curves["loss"], rows):
            self.assertAlmostEqual(point[1] * 3600, float(row["cumulative_time_spent"]), delta=1e-9)
        # Beside times of two clocks that begin at different moments.
        took = [run.curves["loss"][-1][1] - run.curves["loss"][0][1] for run in (table, log)]
        self.assertAlmostEqual(took[0], took[1], delta=0.5 / 3600)

    def test_a_log_of_caffes(self):
        self.write("caffe.log", CAFFE_LOG)
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            run = hpplot.read_run("old=" + self.path("caffe.log"))
        self.assertEqual(run.name, "old")
        self.assertEqual(said.getvalue(), "hpplot: %s: accuracy l2_error net #1 is not always between 0 and 1, and is "
                                          "left out\n" % self.path("caffe.log"))
        self.assertEqual(run.curves["accuracy"], [(0, 0.5, 0.125)])
        self.assertEqual(run.curves["accuracy top5"], [(0, 0.5, 0.5)])
        self.assertEqual(run.curves["accuracy net #1"], [(0, 0.5, 0.75)])
        self.assertEqual(run.curves["accuracy top5 net #1"], [(0, 0.5, 1)])
        self.assertEqual(len(run.curves), 6, run.curves.keys())  # none of a distance
        self.assertEqual(run.curves["rate"], [(0, 0.5, 0.5), (100, 2, 0.25)])
        self.assertEqual([point[:2] for point in run.curves["loss"]], [(0, 0.5), (100, 1.5)])
        self.assertNotEqual(run.curves["loss"][1][2], run.curves["loss"][1][2], "not a number")

    def test_what_is_refused(self):
        self.write("caffe.log", CAFFE_LOG)
        self.write("empty", "")
        self.write("other.csv", "a,b\n1,2\n")
        self.write("half.csv", "time_spent,cumulative_time_spent,loss\n1,2,3\n")
        log, out = self.path("caffe.log"), self.path("out.svg")
        for arguments, said in (((), "expected OUT and at least one RUN"), ((out,), "expected OUT and at least one"),
                                ((self.path("out.gif"), log), "out.gif: expected the picture's name, NAME.svg"),
                                ((self.path(".svg"), log), ".svg: expected the picture's name"),
                                ((out, self.path("none")), "none: No such file"),
                                ((out, self.path("empty")), "empty: no curves; expected a table of hpnode --csv"),
                                ((out, self.path("other.csv")), "other.csv: no curves"),
                                ((out, self.path("half.csv")), "half.csv:2: not a row of a table that hpnode"),
                                (("--what=a", out, log), '--what: "a" is unknown; expected loss, accuracy, rate'),
                                (("--over=", out, log), '--over: "" is unknown; expected iterations, time'),
                                (("--grid", out, log), "--grid: unknown flag")):
            self.assertIn("hpplot: ", self.plot(*arguments, status=2))
            self.assertIn(said, self.plot(*arguments, status=2))
        self.assertFalse(os.path.exists(out))
        self.assertIn("hpplot [FLAGS] OUT RUN...", self.plot("--help"))

    def test_rubbish_is_named_with_its_line(self):
        head = "time_spent,cumulative_batch_count,cumulative_time_spent,loss,learning_rate,test_accuracy,accuracy\n"
        line = "I1231 23:00:00.000000  4711 solver.cpp:218] Iteration "
        for text, said in ((head + "1,1,1,%s,,,\n" % ("9" * 200000), ":1: not a row of a table"),
                           (head + "1,1,1,3,,,\n1,2,2,\0,,,\n", ":3: not a row of a table"),
                           (head + "1,%s,1,3,,,\n" % ("9" * 400), ":2: iteration 9{20}... has 400 digits"),
                           (head + "1,1,1,3,,,\n1,2,2,-1e308,,,\n", r":3: loss is -1e\+308; expected at most 1e\+100"),
                           (head + "1,1,1e306,3,,,\n", r":2: time in hours is \S+; expected at most 1e\+100"),
                           (line + "%s, loss = 1\n" % ("9" * 5000), ":1: iteration 9+... has 5000 digits"),
                           (line + "1, loss = 2\n%s2, loss = 1e308\n" % line, r":2: loss is 1e\+308"),
                           (line.replace("23:", "9" * 30 + ":") + "1, loss = 2\n", ": no curves"),
                           (line + "\u0661, loss = 2\n", ": no curves")):
            self.write("rubbish", text)
            self.assertRegex(self.plot(self.path("out.svg"), self.path("rubbish"), status=2),
                             r"^hpplot: \S+/rubbish%s.*\n$" % said)

    @unittest.skipUnless(HAS_MATPLOTLIB, "SKIPPED: no matplotlib (python3-matplotlib)")
    def test_names_stand_as_they_are(self):
        self.write("caffe.log", CAFFE_LOG.replace("top5", "top$5\x01"))
        names = ("$\\frac$", "$a$ \\$", "_b", "<&>")
        self.plot("--title=$\\none$", self.path("out.svg"), *[name + "=" + self.path("caffe.log") for name in names])
        self.assertLessEqual({"$\\none$", *names, *[name + " (top$5?)" for name in names]}, self.texts("out.svg"))

    def texts(self, name):
        """Of a picture."""
        svg = ElementTree.parse(self.path(name)).getroot()
        return {"".join(text.itertext()).strip() for text in svg.iter("{http://www.w3.org/2000/svg}text")}

    @unittest.skipIf(HAS_MATPLOTLIB, "matplotlib is here")
    def test_without_matplotlib(self):
        self.write("caffe.log", CAFFE_LOG)
        self.assertIn("hpplot: needs matplotlib (Debian: python3-matplotlib)",
                      self.plot(self.path("out.svg"), self.path("caffe.log"), status=2))

    @unittest.skipUnless(HAS_MATPLOTLIB, "SKIPPED: no matplotlib (python3-matplotlib)")
    def test_pictures(self):
        table, log = self.train()
        self.plot("--title=Two of one", self.path("out.svg"), "table=" + table, log)
        svg = ElementTree.parse(self.path("out.svg")).getroot()
        self.assertLessEqual({"Two of one", "loss", "accuracy", "learning rate", "iterations", "hours", "table",
                              "fc0.txt"}, self.texts("out.svg"))
        lines = {group.get("id"): group for group in svg.iter("{http://www.w3.org/2000/svg}g")}
        for curve, count, log_count in (("loss", 4, 4), ("rate", 4, 4), ("accuracy", 3, 3)):
            for unit in ("iterations", "time"):
                for run, points in (("table", count), ("fc0.txt", log_count)):
                    path = lines["%s over %s of %s" % (curve, unit, run)].find("{http://www.w3.org/2000/svg}path")
                    read = hpplot.read_run(table if run == "table" else log)
                    self.assert_line(path.get("d"), points, read.curves[curve], unit == "iterations")
        self.plot("--what=loss", "--over=time", "--log_scale", self.path("out.png"), log)
        with open(self.path("out.png"), "rb") as file:
            head = file.read(24)
        self.assertEqual(head[:8], b"\x89PNG\r\n\x1a\n")
        self.assertEqual(struct.unpack(">II", head[16:]), (640, 360))
        self.plot(self.path("out.pdf"), log)
        with open(self.path("out.pdf"), "rb") as file:
            self.assertEqual(file.read(5), b"%PDF-")
        self.plot(self.path("again.svg"), "table=" + table, log, "--title=Two of one")
        self.assertEqual(self.read("again.svg"), self.read("out.svg"), "equal runs make equal files")

    def assert_line(self, path, count, points, evenly):
        """A path through as many points as the curve has, as high as its values are, one with the other."""
        drawn = [tuple(map(float, pair)) for pair in re.findall(r"[ML] (\S+) (\S+)", path)]
        self.assertEqual(len(drawn), count)
        values, heights = [point[2] for point in points], [-y for _, y in drawn]
        low, high = min(values), max(values)
        if high > low:
            scale = (max(heights) - min(heights)) / (high - low)
            for value, height in zip(values, heights):
                self.assertAlmostEqual(height - min(heights), (value - low) * scale, delta=0.5)
        if evenly:
            steps = [b[0] - a[0] for a, b in zip(drawn, drawn[1:])]
            self.assertAlmostEqual(min(steps), max(steps), delta=0.01)


if __name__ == "__main__":
    cluster.main()
