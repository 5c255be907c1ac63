#!/usr/bin/env python3
"""test_targets.py on a small build folder: what tests with a label mention of bin/ is printed, built or not."""
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

TESTS = """
add_test([=[one]=] "{bin}/one")
set_tests_properties([=[one]=] PROPERTIES  LABELS "unit;threads")
add_test([=[two]=] "/usr/bin/python3" "two.py" "{bin}/hp-tool.x" "{bin}/hproute")
set_tests_properties([=[two]=] PROPERTIES  ENVIRONMENT "TOOL={bin}/helper" LABELS "contract")
add_test([=[three]=] "{bin}/three")
set_tests_properties([=[three]=] PROPERTIES  LABELS "process")
"""


class TestTargetsTest(unittest.TestCase):
    def test_targets(self):
        with tempfile.TemporaryDirectory() as build:
            build = os.path.realpath(build)
            os.mkdir(os.path.join(build, "room"))
            with open(os.path.join(build, "CTestTestfile.cmake"), "w", encoding="utf-8") as file:
                file.write('subdirs("room")\n')
            with open(os.path.join(build, "room", "CTestTestfile.cmake"), "w", encoding="utf-8") as file:
                file.write(TESTS.format(bin=os.path.join(build, "bin")))
            for labels, want in (("threads", ["one"]), ("unit|contract", ["helper", "hp-tool.x", "hproute", "one"]),
                                 ("nothing", [])):
                run = subprocess.run([sys.executable, os.path.join(ROOT, "tools/dev/test_targets.py"), build, labels],
                                     capture_output=True, text=True, check=True)
                self.assertEqual(run.stdout.split(), want)


if __name__ == "__main__":
    unittest.main()
