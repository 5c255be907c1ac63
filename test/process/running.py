"""Which processes run on this machine, and which of them a test has started."""

import glob
import os

MARK = "HPNODE_TEST_FOLDER"  # of the environment: what a process of a test starts has it, whoever its parent is


def children_of(pid):
    """Process numbers of all that descend from a process, in no order."""
    found, parents = [], {pid}
    stats = []
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path, encoding="ascii", errors="replace") as stat:
                text = stat.read()
        except OSError:
            continue
        stats.append((int(text.split()[0]), int(text.rsplit(")", 1)[1].split()[1])))
    while parents:
        parents = {child for child, parent in stats if parent in parents}
        found += parents
    return found


def command_of(pid):
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as line:
            return line.read().decode(errors="replace").split("\0")
    except OSError:
        return []


def marked(folder):
    """Process numbers of all that have this folder as their mark."""
    mark = ("%s=%s" % (MARK, folder)).encode()
    found = set()
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(path, "rb") as environment:
                if mark in environment.read().split(b"\0"):
                    found.add(int(path.split("/")[2]))
        except OSError:
            continue
    return found
