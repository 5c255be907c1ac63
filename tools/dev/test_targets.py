#!/usr/bin/env python3
"""Prints what ctest's tests of some labels need built, so that a sanitizer build need not build everything.

usage: tools/dev/test_targets.py BUILD_DIR LABEL_REGEX      e.g. tools/dev/test_targets.py build/tsan threads

A target is named like the file it yields in BUILD_DIR/bin; it counts wherever a test's command or environment names
that file.
"""
import json
import os
import re
import subprocess
import sys


def needed(listing, bin_dir):
    """Names of the files in bin_dir that the tests of ctest's json listing mention."""
    names = set()
    for test in listing["tests"]:
        words = list(test.get("command", []))
        for prop in test.get("properties", []):
            if prop["name"] == "ENVIRONMENT":
                words += prop["value"]
        for word in words:
            names.update(re.findall(re.escape(bin_dir) + r"/([\w.+-]+)", word))
    return sorted(names)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    build_dir, labels = os.path.abspath(sys.argv[1]), sys.argv[2]
    command = ["ctest", "--test-dir", build_dir, "-L", labels, "--show-only=json-v1"]
    listing = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    for name in needed(listing, os.path.join(build_dir, "bin")):
        print(name)


if __name__ == "__main__":
    main()
