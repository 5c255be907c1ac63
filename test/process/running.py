"""Which processes run on this machine, which of them a test has started, and their sockets."""

import glob
import os
import re

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


def tcp_sockets(pid):
    """Local ports of a process's TCP sockets: (of the listening ones, of the connected ones)."""
    folder = "/proc/%d/" % pid
    inodes = set()
    for name in os.listdir(folder + "fd"):
        try:
            inodes.update(re.findall(r"^socket:\[(\d+)\]$", os.readlink(folder + "fd/" + name)))
        except OSError:
            pass  # it was closed just now
    listening, connected = [], []
    for family in ("tcp", "tcp6"):
        with open(folder + "net/" + family, encoding="ascii") as table:
            for fields in [line.split() for line in table][1:]:
                port, state, inode = int(fields[1].split(":")[1], 16), fields[3], fields[9]
                if inode in inodes:
                    (listening if state == "0A" else connected).append(port)
    return listening, connected
