"""The data and the solver of examples/digits, for tests of how it is started."""

import os
import re
import subprocess
import sys

import cluster

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/digits")
PROMISED = 0.97  # accuracy


class DigitsJob(cluster.JobTest):
    """A test case with the databases of digits, and its net.prototxt, in its folder."""

    def setUp(self):
        super().setUp()
        subprocess.run([sys.executable, EXAMPLE + "/make_idx.py", EXAMPLE + "/digits.csv.gz", self.folder], check=True,
                       stdout=subprocess.DEVNULL)
        for part in ("train", "test"):
            files = [self.path(part + name) for name in ("-images", "-labels", "_leveldb")]
            status, text = cluster.run_tool("convert_mnist_data", *files, "--backend=leveldb")
            self.assertEqual(status, 0, text)
        self.write("net.prototxt", self.of_example("digits_train_test.prototxt")
                   .replace("examples/digits/work", self.folder))

    @staticmethod
    def of_example(name):
        with open(os.path.join(EXAMPLE, name), encoding="utf-8") as file:
            return file.read()

    def write_solver(self, name, iterations, more=""):
        """NAME_solver.prototxt, with a test at the end and the steps of its rate at 70% and 90%. Returns its path."""
        text = self.of_example("digits_solver.prototxt")
        text = text.replace("examples/digits/digits_train_test.prototxt", self.path("net.prototxt"))
        text = text.replace("examples/digits/work/digits", self.path(name))
        for field, value in (("max_iter: 1000", iterations), ("test_interval: 250", iterations),
                             ("stepvalue: 700", iterations * 7 // 10), ("stepvalue: 900", iterations * 9 // 10)):
            text, count = re.subn(field, "%s %d" % (field.split()[0], value), text)
            self.assertEqual(count, 1, field)
        return self.write(name + "_solver.prototxt", text + more)

    @staticmethod
    def accuracy(text):
        """The last one that a log has."""
        return float(re.findall(r"Test net output #0: accuracy = (\S+)", text)[-1])
