#!/usr/bin/env python3
"""cluster.py of the process tests: a promised time that is missed is tried again only where others used the processors."""
import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "test", "process"))

import cluster  # pylint: disable=wrong-import-position


def run(others, *took_s):
    """Runs a test whose node takes took_s[i] at its i-th try. Returns (whether it passes, the folders of its tries)."""
    folders = []

    class OneTest(cluster.JobTest):
        def test_promise(self):
            folders.append(self.folder)
            self.assert_promised(took_s[len(folders) - 1], "it was lost")

    usage = cluster.MachineUsage.others
    cluster.MachineUsage.others = lambda self: others
    try:
        return OneTest("test_promise").run().wasSuccessful(), folders
    finally:
        cluster.MachineUsage.others = usage


class SecondTryTest(unittest.TestCase):
    def test_in_time(self):
        passed, folders = run(2.0, 2.9)
        self.assertEqual((passed, len(folders)), (True, 1))

    def test_late_on_a_quiet_machine_fails_at_once(self):
        passed, folders = run(0.1, 3.1)
        self.assertEqual((passed, len(folders)), (False, 1))

    def test_late_on_a_busy_machine_is_tried_again_from_the_start(self):
        passed, folders = run(2.0, 3.1, 2.9)
        self.assertEqual((passed, len(set(folders))), (True, 2))
        self.assertFalse(any(map(os.path.exists, folders)))

    def test_late_twice_fails(self):
        passed, folders = run(2.0, 3.1, 3.1)
        self.assertEqual((passed, len(folders)), (False, 2))

    def test_own_work_is_not_that_of_others(self):
        usage = cluster.MachineUsage()
        usage.begin, usage.now = (100, 50, 10), lambda: (110, 68, 15)
        self.assertEqual(usage.others(), 1.3)

    def test_own_work_counts_on_both_sides(self):
        begin = cluster.MachineUsage.now()
        while cluster.MachineUsage.now()[2] < begin[2] + 0.3:
            pass
        self.assertGreater(cluster.MachineUsage.now()[1] - begin[1], 0.2)  # the kernel rounds this one to its ticks


if __name__ == "__main__":
    unittest.main()
