"""A killed job goes on from its last snapshot, and ends with the bytes of one that was never killed."""

import glob
import os
import signal

import cluster


class ResumeTest(cluster.JobTest):
    """50 iterations, a snapshot after 20."""

    def result(self):
        return self.read("out_iter_50.caffemodel"), self.read("out_iter_50.solverstate")

    def run_uninterrupted(self, names, *flags):
        self.make_job(iterations=50, snapshot=20, test=True)
        processes = [self.start(*flags, name=name) for name in names]
        self.expect_all(processes, 0, "Optimization Done")
        result = self.result()
        self.remove_snapshots()
        return result

    def remove_snapshots(self):
        for path in glob.glob(self.path("out_iter_*")):
            os.remove(path)

    def check(self, names, *flags):
        whole = self.run_uninterrupted(names, *flags)

        self.make_job(iterations=1000000, snapshot=20, test=True)
        processes = [self.start(*flags, name=name) for name in names]
        self.await_text(processes[0], r"Snapshotting solver state to binary proto file \S*_iter_20\.solverstate")
        for process in processes:
            process.send(signal.SIGKILL)
        for process in processes:
            process.wait()

        self.make_job(iterations=50, snapshot=20, test=True)
        resumed = [self.start("--resume=" + self.path("out_iter_20.solverstate"), *flags, name=name)
                   for name in names]
        self.expect_all(resumed, 0, "Optimization Done", "resuming at iteration 20")
        model, state = self.result()
        self.assertEqual(model, whole[0], "the caffemodel differs")
        self.assertEqual(state, whole[1], "the solverstate differs")

    def test_two_conv_and_two_fc_nodes(self):
        self.check(self.make_table(conv=2, fc=2))

    def test_one_process(self):
        self.make_table(conv=1, fc=0, micro_batches=1)
        self.check([None], "--all")


if __name__ == "__main__":
    cluster.main()
