"""hplaunch --resume=FILE takes what hpnode takes: Caffe's files, HDF5 ones, and a snapshot that is still in parts."""

import os
import re

import cluster
import launched
import parts_test
from cluster import run_tool


class LaunchResumeTest(launched.Launched, parts_test.Parts):
    """50 iterations, of which the first ones were trained before."""

    def resume(self, name):
        self.make_job(iterations=50, snapshot=10, test=True)
        return self.launch(self.table(), "--resume=" + self.path(name))

    def expect_resumed(self, name, iteration, whole):
        pattern = r"\] .*resuming at iteration %d from %s\n" % (iteration, re.escape(self.path(name)))
        job = self.resume(name)
        self.expect_exit(job, 0, pattern, "all 4 nodes have ended")
        self.assertEqual(len(re.findall(pattern, job.text())), 4)
        self.assertEqual([self.read("out_iter_50." + kind) for kind in ("caffemodel", "solverstate")], whole)

    def make_hdf5(self, *flags):
        """Of iteration 30, without the other form."""
        self.make_job(iterations=30, snapshot=10, test=True)
        self.run_job(self.names)
        status, text = run_tool("snapshot_as_hdf5", self.path("out_iter_30.solverstate"), *flags)
        if "HDF5" in text:
            self.skipTest("SKIPPED: " + text)
        self.assertEqual(status, 0, text)

    def test_parts_that_were_not_merged(self):
        whole = self.train_undisturbed(50)
        self.cut_off_merge(30)
        self.expect_resumed("out_iter_30.solverstate", 30, whole)

    def test_hdf5(self):
        whole = self.train_undisturbed(50)
        self.make_hdf5()
        self.assertEqual(self.files(30), ["out_iter_30." + end for end in ("caffemodel.h5", "hpnode", "solverstate.h5")])
        for name in ("out_iter_30.solverstate", "out_iter_30.solverstate.h5"):
            self.expect_resumed(name, 30, whole)

    def test_hdf5_that_caffe_wrote(self):
        whole = self.train_undisturbed(50)
        self.make_hdf5("--caffe")
        self.assertEqual(self.files(30), ["out_iter_30." + end for end in ("caffemodel.h5", "solverstate.h5")])
        for name in ("out_iter_30.solverstate", "out_iter_30.solverstate.h5"):
            self.expect_resumed(name, 30, whole)

    def test_what_is_missing_is_named(self):
        self.expect_exit(self.resume("out_iter_30.solverstate"), 2,
                         r"hplaunch: --resume: \S*/out_iter_30\.solverstate: no such file, nor "
                         r"\S*/out_iter_30\.solverstate\.h5, nor a manifest \S*/out_iter_30\.hpnode that names parts")
        self.expect_exit(self.resume("out_iter_30.solverstate.h5"), 2,
                         r"hplaunch: --resume: \S*/out_iter_30\.solverstate\.h5: no such file, nor a manifest "
                         r"\S*/out_iter_30\.hpnode that names parts")
        self.cut_off_merge(30)
        os.remove(self.part(30, 2))
        self.expect_exit(self.resume("out_iter_30.solverstate"), 2,
                         r"hplaunch: --resume: \S*/out_iter_30\.1\.2\.slices: no such file, and "
                         r"\S*/out_iter_30\.solverstate needs it")
        self.make_job(iterations=10, snapshot=10, test=True)
        self.run_job(self.names)
        os.remove(self.path("out_iter_10.hpnode"))
        self.expect_exit(self.resume("out_iter_10.solverstate"), 2,
                         r"hplaunch: --resume: \S*/out_iter_10\.solverstate: the snapshot is not complete: its manifest "
                         r"\S*/out_iter_10\.hpnode is missing")
        self.assertFalse(os.path.exists(self.path("run")))


if __name__ == "__main__":
    cluster.main()
