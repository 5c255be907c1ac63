"""examples/glyphs with few characters: hybrid and one process learn them alike, and OpenCV gets features that tell new
ones apart."""

import os
import re
import subprocess

import cluster

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLE = os.path.join(HERE, "../../examples/glyphs")
CHARACTERS, BATCH, ITERATIONS = 60, 60, 120
PYTHON = "/usr/bin/python3"  # the one that Debian's packages are for


class GlyphsTest(cluster.JobTest):

    def setUp(self):
        super().setUp()
        self.run_script("make_glyphs.py", self.folder, "--characters=%d" % CHARACTERS)

    def run_script(self, name, *arguments):
        """Returns what it said. Skips the test where a package that it needs is missing."""
        done = subprocess.run([PYTHON, os.path.join(EXAMPLE, name), *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, encoding="utf-8", timeout=cluster.PATIENCE_S, check=False)
        if done.returncode != 0 and re.search("No module named|no font|'fc-list'", done.stdout):
            self.skipTest("SKIPPED: needs tools/dev/setup.sh --glyphs: " + done.stdout.splitlines()[-1])
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def of_example(self, name, *changes):
        """The file in the test's folder, with the changes. Each must change something. Returns its path."""
        with open(os.path.join(EXAMPLE, name), encoding="utf-8") as file:
            text = file.read().replace("examples/glyphs/work", self.folder)
        for pattern, new in changes:
            text, count = re.subn(pattern, new, text)
            self.assertGreater(count, 0, pattern)
        return self.write(name, text)

    def train(self, conv, fc):
        """Returns the model."""
        net = self.of_example("glyphs_train_test.prototxt", ("num_output: 18366", "num_output: %d" % CHARACTERS),
                              (r"batch_size: \d+", "batch_size: %d" % BATCH))
        solver = self.of_example("glyphs_solver.prototxt", ("net: .*", 'net: "%s"' % net),
                                 ("max_iter: .*", "max_iter: %d" % ITERATIONS),
                                 ("snapshot_prefix: .*", 'snapshot_prefix: "%s"' % self.path("model%d" % conv)))
        names = ["conv%d" % i for i in range(conv)] + ["fc%d" % i for i in range(fc)]
        status, said = cluster.run_tool("hproute", "--solver=" + solver, "--conv=%d" % conv, "--fc=%d" % fc,
                                        "--hosts=127.0.0.1", "--out=" + self.path("table.prototxt"))
        self.assertEqual(status, 0, said)
        ports = iter(cluster.free_ports(len(names)))
        with open(self.path("table.prototxt"), encoding="utf-8") as file:
            self.write("table.prototxt", re.sub(r"port: \d+", lambda _: "port: %d" % next(ports), file.read()))
        nodes = [self.start(name=node, table="table.prototxt", log="%d-%s" % (conv, node)) for node in names]
        self.expect_all(nodes, 0, "Optimization Done")
        return self.path("model%d_iter_%d.caffemodel" % (conv, ITERATIONS))

    def test_unseen_font(self):
        for conv, fc in ((1, 0), (2, 2)):
            model = self.train(conv, fc)
            status, said = cluster.run_tool("model_test", "--model=" + self.path("glyphs_train_test.prototxt"),
                                            "--weights=" + model, "--iterations=1")
            self.assertEqual(status, 0, said)
            accuracy = float(re.findall(r"accuracy = (\S+)", said)[-1])
            scores = self.run_script("retrieval.py", os.path.join(EXAMPLE, "glyphs_features.prototxt"), model, self.folder)
            trained, new = map(float, re.findall(r"recall@1 (\S+)%", scores))
            print("%d + %d nodes: accuracy %.3f, recall@1 %.1f%%, of new characters %.1f%%" %
                  (conv, fc, accuracy, trained, new))
            self.assertGreaterEqual(accuracy, 0.9)
            self.assertGreaterEqual(trained, 95)  # of the pixels themselves 85
            self.assertGreaterEqual(new, 95)  # of the pixels themselves 88


if __name__ == "__main__":
    cluster.main()
