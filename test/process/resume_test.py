"""A killed job goes on from its last snapshot, and ends with the bytes of one that was never killed."""

import glob
import os
import re
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

    def test_parameter_servers_and_staleness(self):
        self.check(self.make_table(conv=2, fc=1, servers=2, staleness=2))

    def test_a_parameter_server_asks_for_the_stop(self):
        names = self.make_table(conv=2, fc=1, servers=1, staleness=3)
        self.make_job(iterations=1000000)
        nodes = self.start_all(names)
        self.await_training(nodes.values(), 10)
        nodes["ps0"].send(signal.SIGTERM)
        self.expect_all(list(nodes.values()), 5, "Optimization stopped early")
        states = glob.glob(self.path("out_iter_*.solverstate"))
        self.assertEqual(len(states), 1, states)
        self.make_job(iterations=int(states[0].split("_")[-1].split(".")[0]) + 10)
        resumed = [self.start("--resume=" + states[0], name=name) for name in names]
        self.expect_all(resumed, 0, "Optimization Done", "resuming at iteration")

    def test_another_run_with_the_same_prefix_is_refused(self):
        self.make_job(snapshot=10)
        self.make_table(conv=1, fc=1)
        first = self.start("--all")
        self.await_text(first, "Snapshotting solver state")
        names = self.make_table(conv=1, fc=1, name="second.prototxt")
        who = r"host .*, process %d\)" % first.popen.pid
        self.expect_all([self.start(name=name, table="second.prototxt") for name in names], 2,
                        r"another live run writes the snapshots %s \(start 1, %s: end it, or give this run a "
                        r"snapshot_prefix of its own" % (self.path("out"), who))
        self.make_job(iterations=20)  # writes no snapshot
        third = self.start("--all", table="second.prototxt")
        self.expect_exit(third, 0, "snapshots cannot be written: another live run")
        self.make_job(iterations=1000000)
        fourth = self.start("--all", table="second.prototxt")
        self.await_text(fourth, "Iteration 1")
        fourth.send(signal.SIGHUP)
        self.await_text(fourth, "is given up, training does not wait for it: .*another live run")
        fourth.send(signal.SIGTERM)
        self.expect_exit(fourth, 1, "the last snapshot was not written: .*another live run")
        first.send(signal.SIGTERM)
        self.expect_exit(first, 5, "Optimization stopped early")
        self.make_job(snapshot=10, iterations=20)
        self.expect_exit(self.start("--all", table="second.prototxt"), 0, "Optimization Done")

    def test_each_job_of_a_scheduler_has_snapshots_of_its_own(self):
        """With one prefix: a job that is queued again does not take another one's, nor does a second one end the first."""
        def start(job, restarts, *flags):
            return self.start(*flags, SLURM_JOB_ID=job, SLURM_RESTART_COUNT=restarts, SLURM_PROCID="0",
                              SLURM_STEP_NUM_TASKS="1", SLURM_LOCALID="0")
        self.make_job(snapshot=10)
        self.make_table(conv=1, fc=0)
        lost = start("11", "0")
        self.await_text(lost, "Snapshotting solver state")
        lost.send(signal.SIGKILL)
        lost.wait()
        self.make_table(conv=1, fc=0)
        again = start("11", "1", "--resume=latest")
        self.await_text(again, "resuming at iteration")
        again.send(signal.SIGKILL)
        again.wait()
        other = start("12", "0")
        self.await_text(other, "Snapshotting solver state")
        self.make_table(conv=1, fc=0)
        self.expect_exit(start("12", "0"), 2, r"another live run writes the snapshots \S+ \(start \d, Slurm job 12, ")
        for job, restarts in (("11", "2"), ("13", "0")):
            self.expect_exit(start(job, restarts, "--resume=latest"), 2, r"the snapshots \S+ are of Slurm job 12 \(host .*\), "
                             r"which is alive, and this is Slurm job %s: give each run a snapshot_prefix" % job)
        other.send(signal.SIGTERM)
        self.expect_exit(other, 5)
        self.expect_exit(start("11", "2", "--resume=latest"), 2, r"Slurm job 12 \(.*\), which began later, and this is Slurm job 11")
        after = start("13", "0", "--resume=latest")
        self.await_text(after, "are of Slurm job 12, whose training goes on as Slurm job 13")
        self.await_text(after, "resuming at iteration")
        after.send(signal.SIGTERM)
        self.expect_exit(after, 5)

    def test_a_second_start_ends_the_first(self):
        self.make_job(snapshot=10)
        names = self.make_table(conv=1, fc=0)
        first = self.start(name=names[0])
        self.await_text(first, "Snapshotting solver state")
        first.send(signal.SIGSTOP)
        self.make_table(conv=1, fc=0, name="second.prototxt")
        second = self.start("--resume=latest", name=names[0], table="second.prototxt")
        self.await_text(second, "Snapshotting solver state")
        first.send(signal.SIGCONT)
        self.expect_exit(first, 2, r"this is start 1 of the job; start 2 has begun since \(host .*, process \d+\)")
        self.await_text(second, "Snapshotting solver state", count=5)
        second.send(signal.SIGTERM)
        self.expect_exit(second, 5, "Optimization stopped early")

    def test_one_process(self):
        self.make_table(conv=1, fc=0, micro_batches=1)
        self.check([None], "--all")


class ThreadsTest(cluster.JobTest):
    """The number of a node's threads decides the order of its sums: a resumed job has those of the snapshot."""

    MANY = os.cpu_count() + 1  # that no table without `threads` would give to a node of one process

    def start_to(self, iterations, *flags, names=(None,), **variables):
        self.make_job(iterations=iterations, snapshot=10)
        return [self.start(*flags, name=name, **variables) for name in names]

    def resume(self, *flags, names=(None,), **variables):
        return self.start_to(20, "--resume=" + self.path("out_iter_10.solverstate"), *flags, names=names, **variables)

    def train(self, iterations, **table):
        self.make_table(conv=1, fc=0, micro_batches=1, **table)
        self.expect_all(self.start_to(iterations, "--all"), 0, "Optimization Done")

    def test_saved_ones_are_taken_where_the_table_says_nothing(self):
        self.train(20, threads=self.MANY)
        whole = self.read("out_iter_20.caffemodel"), self.read("out_iter_20.solverstate")
        self.make_table(conv=1, fc=0, micro_batches=1, threads=None)
        self.expect_all(self.resume("--all"), 0, "Optimization Done", r"node conv0: seed 7, %d thread" % self.MANY)
        self.assertEqual((self.read("out_iter_20.caffemodel"), self.read("out_iter_20.solverstate")), whole)

    def test_others_in_the_table_are_taken_and_logged(self):
        self.train(10, threads=self.MANY)
        self.make_table(conv=1, fc=0, micro_batches=1, threads=1)
        resumed, = self.resume("--all")
        self.expect_exit(resumed, 0, r'\S*out_iter_10\.solverstate was written with %d thread\(s\) of node "conv0", which '
                                     r"the table gives 1: results match up to rounding, not bit for bit" % self.MANY,
                         r"node conv0: seed 7, 1 thread")

    def rewrite_manifest(self, pattern, replacement):
        with open(self.path("out_iter_10.hpnode"), encoding="utf-8") as manifest:
            text, count = re.subn(pattern, replacement, manifest.read())
        self.assertGreater(count, 0, pattern)
        self.write("out_iter_10.hpnode", text)

    def test_another_program_or_instruction_set_is_logged(self):
        self.train(10)
        same, = self.resume("--all")
        self.expect_exit(same, 0)
        self.assertNotIn("not bit for bit", same.text())
        self.rewrite_manifest(r"program: \d+", "program: 5")
        self.rewrite_manifest(r'instruction_set: "oneDNN [^"]+"', 'instruction_set: "oneDNN 1.0.0 mmx"')
        other, = self.resume("--all")
        self.expect_exit(other, 0, r'was written with another program on node "conv0"; node "conv0" computing with oneDNN '
                                   r"1\.0\.0 mmx, now with oneDNN \S+ \S+: results match up to rounding")

    def test_another_division_may_have_others(self):
        self.train(10, threads=self.MANY)
        self.make_table(conv=1, fc=1, micro_batches=1, threads=1)
        self.expect_all(self.resume("--all"), 0, "Optimization Done", "was written with a different division of the work")

    def test_node_that_cannot_have_them(self):
        names = self.make_table(conv=1, fc=1, micro_batches=1, threads=2)
        self.expect_all(self.start_to(10, names=names), 0, "Optimization Done")
        self.make_table(conv=1, fc=1, micro_batches=1, threads=None)
        conv, = self.resume(names=["conv0"])
        fc, = self.resume(names=["fc0"], OMP_THREAD_LIMIT="1")
        cannot = r'node "fc0" needs 2 threads, as before the snapshot; OMP_THREAD_LIMIT allows 1'
        self.expect_exit(fc, 2, cannot)
        self.expect_exit(conv, 2, r'lost node "fc0": ' + cannot)


if __name__ == "__main__":
    cluster.main()
