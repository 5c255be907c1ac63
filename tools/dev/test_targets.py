#!/usr/bin/env python3
"""Prints what the tests of some labels need built, so that a sanitizer build need not build everything.

usage: tools/dev/test_targets.py BUILD_DIR LABEL_REGEX      e.g. tools/dev/test_targets.py build/tsan threads

A target is named like the file it yields in BUILD_DIR/bin; it counts wherever a test's command or properties name that
file. ctest itself keeps a test's command to itself until the program is there, so CMake's CTestTestfile.cmake files are
read for it.
"""
import json
import os
import re
import subprocess
import sys


def test_names(build_dir, labels):
    command = ["ctest", "--test-dir", build_dir, "-L", labels, "--show-only=json-v1"]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {test["name"] for test in json.loads(listing)["tests"]}


def test_lines(build_dir):
    """(test name, the rest) of each line about a test in CMake's test files."""
    for folder, folders, files in os.walk(build_dir):
        folders[:] = [name for name in folders if name != "CMakeFiles"]
        if "CTestTestfile.cmake" in files:
            with open(os.path.join(folder, "CTestTestfile.cmake"), encoding="utf-8") as file:
                for match in re.finditer(r"^(?:add_test|set_tests_properties)\(\[=\[(.*?)\]=\](.*)", file.read(), re.M):
                    yield match.groups()


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    build_dir = os.path.abspath(sys.argv[1])
    names = test_names(build_dir, sys.argv[2])
    programs = re.compile(re.escape(os.path.join(build_dir, "bin")) + r"/([\w.+-]+)")
    targets = {target for name, rest in test_lines(build_dir) if name in names for target in programs.findall(rest)}
    for target in sorted(targets):
        print(target)


if __name__ == "__main__":
    main()
