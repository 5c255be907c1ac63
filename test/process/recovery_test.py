"""Snapshots of a run are found, kept and removed: --keep_snapshots and --resume=latest."""

import glob
import re

import cluster


class KeepTest(cluster.JobTest):
    """--keep_snapshots removes what is older, of this training alone."""

    def iterations(self, extension):
        found = [re.search(r"_iter_(\d+)\.%s$" % extension, path) for path in glob.glob(self.path("out_iter_*"))]
        return sorted(int(match.group(1)) for match in found if match)

    def expect_kept(self, *iterations):
        for extension in ("hpnode", "solverstate", "caffemodel"):
            self.assertEqual(self.iterations(extension), list(iterations), extension)

    def test_the_newest_stay_and_what_was_resumed_from(self):
        names = self.make_table(conv=1, fc=1)
        self.make_job(iterations=20, snapshot=5)
        self.run_job(names)
        self.expect_kept(5, 10, 15, 20)
        self.make_job(iterations=50, snapshot=5)
        self.run_job(names, "--keep_snapshots=2", "--resume=" + self.path("out_iter_10.solverstate"))
        self.expect_kept(10, 45, 50)

    def test_another_training_loses_nothing(self):
        names = self.make_table(conv=1, fc=0)
        self.make_job(iterations=8, snapshot=4)
        self.run_job(names)
        self.make_job(iterations=50, snapshot=10)
        self.run_job(names, "--keep_snapshots=1")
        self.expect_kept(4, 8, 50)

    def test_a_number_below_zero_is_refused(self):
        self.make_table(conv=1, fc=0)
        self.make_job(iterations=8)
        self.expect_exit(self.start("--all", "--keep_snapshots=-1"), 2,
                         r"--keep_snapshots is -1; expected at least 0")


if __name__ == "__main__":
    cluster.main()
