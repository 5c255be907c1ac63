"""Snapshots of a run are found, kept, removed and copied: --keep_snapshots, --resume=latest and snapshot_copies."""

import glob
import os
import re
import shutil
import signal
import time

import cluster

LATEST = "--resume=latest"


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


class SnapshotsTest(cluster.JobTest):
    """What the tests below share: trainings of 50 iterations, with a snapshot every 10."""

    def result(self, iteration=50):
        return tuple(self.read("out_iter_%d.%s" % (iteration, kind)) for kind in ("caffemodel", "solverstate"))

    def remove(self, pattern):
        for path in glob.glob(self.path(pattern)):
            os.remove(path)

    def run_uninterrupted(self, names):
        self.make_job(iterations=50, snapshot=10, test=True)
        self.run_job(names)
        whole = self.result()
        self.remove("out_*")
        return whole

    def kill_after(self, names, iteration, snapshot=10):
        """Starts a training from the beginning and kills all of it some time after the snapshot of `iteration`."""
        self.make_job(iterations=1000000, snapshot=snapshot, test=True)
        nodes = list(self.start_all(names).values())
        self.await_text(nodes[0], r"Snapshotting solver state to binary proto file \S*_iter_%d\." % iteration)
        for node in nodes:
            node.send(signal.SIGKILL)
        for node in nodes:
            node.wait()

    def keep_only(self, *iterations):
        """Removes what was written of other iterations between the last line that was read and the kill."""
        for path in glob.glob(self.path("out_iter_*")):
            if int(re.search(r"_iter_(\d+)\.", path).group(1)) not in iterations:
                os.remove(path)

    def resume(self, names):
        self.make_job(iterations=50, snapshot=10, test=True)
        return self.start_all(names, LATEST)

    def check_equal(self, whole):
        model, state = self.result()
        self.assertEqual(model, whole[0], "the caffemodel differs")
        self.assertEqual(state, whole[1], "the solverstate differs")

    def own_folders(self, **table):
        """A table whose first node writes to out_*, the others to else/out_*. Returns (first, others)."""
        names = self.make_table(conv=2, fc=2, **table)
        with open(self.path("table.prototxt"), encoding="utf-8") as table:
            self.write("others.prototxt", table.read().replace("solver.prototxt", "others_solver.prototxt"))
        os.makedirs(self.path("else"), exist_ok=True)
        return names[0], names[1:]

    def start_in_own_folders(self, first, others, *flags, iterations=50):
        self.make_job(iterations=iterations, snapshot=10, test=True)
        with open(self.path("solver.prototxt"), encoding="utf-8") as solver:
            self.write("others_solver.prototxt", solver.read().replace(self.path("out"), self.path("else/out")))
        return [self.start(*flags, name=first),
                *self.start_all(others, *flags, table="others.prototxt").values()]


class LatestTest(SnapshotsTest):
    """--resume=latest: the newest complete snapshot that any node has; nodes that lack it get their part."""

    def test_one_folder(self):
        names = self.make_table(conv=2, fc=2)
        whole = self.run_uninterrupted(names)
        self.kill_after(names, 30)
        self.keep_only(10, 20, 30)
        self.expect_all(self.resume(names).values(), 0, "Optimization Done",
                        r"resuming at iteration 30 from \S*/out_iter_30\.solverstate")
        self.check_equal(whole)

    def test_what_is_damaged_is_passed_over_by_name(self):
        names = self.make_table(conv=1, fc=1)
        whole = self.run_uninterrupted(names)
        self.kill_after(names, 40)
        self.keep_only(10, 20, 30, 40)
        os.truncate(self.path("out_iter_40.caffemodel"), 100)
        with open(self.path("out_iter_30.solverstate"), "r+b") as state:
            state.seek(100)
            state.write(b"\0\1\2\3")
        self.expect_all(self.resume(names).values(), 0, r"resuming at iteration 20 from",
                        r"the snapshot \S*out_iter_40\.solverstate is passed over: .*caffemodel: 100 bytes",
                        r"the snapshot \S*out_iter_30\.solverstate is passed over: .*checksum")
        self.check_equal(whole)

    def test_a_run_that_went_back_stays_there(self):
        """It is resumed from a snapshot that its user names, and killed before it has written one."""
        names = self.make_table(conv=1, fc=1)
        whole = self.run_uninterrupted(names)
        self.kill_after(names, 40)
        self.keep_only(10, 20, 30, 40)
        self.make_job(iterations=1000000, snapshot=1000000, test=True)
        nodes = self.start_all(names, "--resume=" + self.path("out_iter_10.solverstate"))
        self.await_training(nodes.values())
        for node in nodes.values():
            node.send(signal.SIGKILL)
            node.wait()
        self.expect_all(self.resume(names).values(), 0, r"resuming at iteration 10 from", "Optimization Done",
                        r"out_iter_40\.solverstate is passed over: the run went back to iteration 10")
        self.check_equal(whole)

    def test_one_node_has_it_and_gives_the_others_their_parts(self):
        for servers in (0, 1):
            first, others = self.own_folders(servers=servers)
            whole = self.run_uninterrupted([first, *others])
            self.kill_after([first, *others], 30)
            self.keep_only(30)
            nodes = self.start_in_own_folders(first, others, LATEST)
            self.expect_all(nodes, 0, "Optimization Done")
            self.expect_exit(nodes[0], 0, r"resuming at iteration 30 from \S*/out_iter_30\.solverstate")
            self.expect_all(nodes[1:], 0, r'resuming at iteration 30 from the snapshot of node "conv0"')
            self.check_equal(whole)
            self.remove("out_*")

    def test_the_first_node_has_none(self):
        first, others = self.own_folders()
        whole = self.run_uninterrupted([first, *others])
        self.kill_after([first, *others], 30)
        self.keep_only(30)
        for path in glob.glob(self.path("out_*")):
            shutil.move(path, self.path("else"))
        nodes = self.start_in_own_folders(first, others, LATEST)
        self.expect_all(nodes, 0, "Optimization Done")
        self.expect_exit(nodes[0], 0, r'resuming at iteration 30 from the snapshot of node "conv1"')
        self.assertEqual(self.read("out_iter_50.caffemodel"), whole[0])
        self.assertEqual(self.read("out_iter_50.solverstate"), whole[1])

    def test_none_anywhere(self):
        names = self.make_table(conv=1, fc=1)
        whole = self.run_uninterrupted(names)
        nodes = self.resume(names).values()
        self.expect_all(nodes, 0, "no node has a complete snapshot of this training: starting from the beginning")
        self.check_equal(whole)

    def test_snapshots_of_an_earlier_training_are_not_those_of_one_that_has_none_yet(self):
        names = self.make_table(conv=1, fc=1)
        whole = self.run_uninterrupted(names)
        self.kill_after(names, 30)
        self.make_job(iterations=1000000, snapshot=1000000)
        second = self.start_all(names)
        self.await_training(second.values())
        for node in second.values():
            node.send(signal.SIGKILL)
            node.wait()
        self.expect_all(self.resume(names).values(), 0, "starting from the beginning")
        self.check_equal(whole)

    def test_on_one_node_only(self):
        names = self.make_table(conv=1, fc=1)
        self.make_job(iterations=50)
        nodes = [self.start(LATEST, name=names[0]), self.start(name=names[1])]
        self.expect_all(nodes, 2, r'node "conv0" resumes from the latest snapshot \(--resume=latest\), '
                                  r'node "fc0" does not')


class CopiesTest(SnapshotsTest):
    """snapshot_copies: 2. A second host writes each snapshot too, and the first one's counts when that is complete."""

    HOSTS = ["127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.2"]  # fc0 is the first node on another host
    COPIES = "snapshot_copies: 2"

    def iterations(self, folder):
        found = [re.search(r"_iter_(\d+)\.hpnode$", path) for path in glob.glob(self.path(folder + "out_iter_*"))]
        return sorted(int(match.group(1)) for match in found if match)

    def test_the_copy_is_taken_when_the_first_host_has_lost_its_own(self):
        first, others = self.own_folders(hosts=self.HOSTS, extra=self.COPIES)
        nodes = self.start_in_own_folders(first, others, iterations=1000000)
        self.await_text(nodes[0], r"Snapshotting solver state to binary proto file \S*_iter_30\.")
        for node in nodes:
            node.send(signal.SIGKILL)
        for node in nodes:
            node.wait()
        ours, copies = self.iterations(""), self.iterations("else/")
        self.assertIn(30, ours)
        self.assertEqual(set(ours) - set(copies), set(), "a snapshot counts without its copy")
        for iteration in ours:
            name = "out_iter_%d.caffemodel" % iteration
            self.assertEqual(self.read(name), self.read("else/" + name))
        self.remove("out_*")
        last = copies[-1] + 10
        nodes = self.start_in_own_folders(first, others, LATEST, iterations=last)
        self.expect_all(nodes, 0, "Optimization Done", "resuming at iteration %d from" % copies[-1])
        self.expect_exit(nodes[0], 0, 'from the snapshot of node "conv1"')
        self.assertEqual(self.iterations("else/")[-1], last)
        resumed = self.result(last)
        self.remove("out_*")
        self.expect_all(self.start_in_own_folders(first, others, iterations=last), 0)
        self.assertEqual(resumed, self.result(last), "the files differ")

    def test_the_copy_has_the_loss_scale(self):
        first, others = self.own_folders(hosts=self.HOSTS, extra=self.COPIES +
                                         " precision: FP16 loss_scaling { initial: 4 growth_interval: 7 }")
        self.expect_all(self.start_in_own_folders(first, others), 0, "Optimization Done")
        states = [re.findall(r"loss_scaling \{\s*scale: (\S+)\s*finite_updates: (\d+)", self.read(path).decode())
                  for path in ("out_iter_30.hpnode", "else/out_iter_30.hpnode")]
        self.assertEqual(states[0], [("64", "2")], "doubled after 7, 14, 21 and 28 updates")
        self.assertEqual(states[1], states[0])
        whole = self.result(50)
        self.remove("out_*")
        for path in glob.glob(self.path("else/out_iter_[45]0.*")):
            os.remove(path)
        nodes = self.start_in_own_folders(first, others, LATEST)
        self.expect_all(nodes, 0, "Optimization Done", "resuming at iteration 30 from")
        self.assertEqual(self.result(50), whole, "the files differ")

    def test_the_copier_keeps_as_many(self):
        first, others = self.own_folders(hosts=self.HOSTS, extra=self.COPIES)
        self.expect_all(self.start_in_own_folders(first, others, "--keep_snapshots=2"), 0, "Optimization Done")
        self.assertEqual(self.iterations(""), [40, 50])
        self.assertEqual(self.iterations("else/"), [40, 50])
        self.assertEqual(glob.glob(self.path(".hpnode_nonce_*")), [])

    def test_one_folder_is_written_once(self):
        names = self.make_table(conv=2, fc=2, hosts=self.HOSTS, extra=self.COPIES)
        self.make_job(iterations=50, snapshot=10)
        nodes = self.run_job(names)
        self.assertIn("snapshot_copies: node fc0 has the folder of node conv0", nodes["fc0"].text())
        self.assertEqual(self.iterations(""), [10, 20, 30, 40, 50])

    def test_no_snapshot_counts_whose_copy_failed(self):
        first, others = self.own_folders(hosts=self.HOSTS, extra=self.COPIES)
        os.rmdir(self.path("else"))
        nodes = self.start_in_own_folders(first, others)
        self.expect_exit(nodes[0], 1, r'the last snapshot was not written: its copy on node "fc0" failed: \S*/else')
        self.expect_exit(nodes[2], 1, r"the last snapshot was not written: ")
        self.expect_all([nodes[1], nodes[3]], 0)
        self.assertEqual(self.iterations(""), [])

    def nonces(self):
        return set(glob.glob(self.path(".hpnode_nonce_*")))

    def await_nonce(self, others):
        """The one that is there beside `others`, whole: one whose process dies before it has written it stays a day."""
        deadline = time.monotonic() + cluster.PATIENCE_S
        while not any(b"\nhost " in self.read(os.path.basename(nonce)) for nonce in self.nonces() - others):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        nonce, = self.nonces() - others
        return nonce

    def test_what_a_killed_first_node_leaves_goes_at_the_next_start(self):
        self.make_job(iterations=20, snapshot=10)
        self.make_table(conv=1, fc=1, name="other.prototxt")
        other = self.start(name="conv0", table="other.prototxt")  # waits for its fc0
        living = self.await_nonce(set())
        names = self.make_table(conv=1, fc=1)
        first = self.start(name="conv0")
        left = self.await_nonce({living})
        first.send(signal.SIGKILL)
        first.wait()
        self.assertEqual(self.nonces(), {living, left})
        self.run_job(names)
        self.assertEqual(self.nonces(), {living})
        other.send(signal.SIGKILL)
        other.wait()
        self.run_job(names)
        self.assertEqual(self.nonces(), set())

    def test_without_a_second_host_it_is_refused(self):
        names = self.make_table(conv=1, fc=1, extra=self.COPIES)
        self.make_job(iterations=50, snapshot=10)
        self.expect_exit(self.start(name=names[0]), 2,
                         'snapshot_copies is 2, but all nodes are on host "127.0.0.1"; expected a node on another one')


if __name__ == "__main__":
    cluster.main()
