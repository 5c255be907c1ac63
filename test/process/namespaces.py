"""Runs a test file in namespaces of its own: network, processes, mounts and host name, so that daemons take no port of
this host and none outlives the test."""

import os
import shutil
import socket
import subprocess
import sys

UNSHARE = ["unshare", "--mount", "--net", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
ENTERED = "HPNODE_TEST_NAMESPACES"


def enter():
    """Runs this program again inside, where namespaces can be had. Call it first in main."""
    if os.environ.get(ENTERED) or os.geteuid() != 0 or not shutil.which("unshare"):
        return
    if subprocess.run([*UNSHARE, "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0:
        # The first process has to wait for orphans: a shell does. More than one command, lest it becomes the program.
        command = ["bash", "-c", '"$@"; exit $?', "test", sys.executable, *sys.argv]
        os.execvpe(UNSHARE[0], [*UNSHARE, *command], dict(os.environ, **{ENTERED: "1"}))


def inside():
    return bool(os.environ.get(ENTERED))


def make_hosts(folder, names, host_name="ctl"):
    """Two hosts of these names, which an /etc/hosts of its own knows: this network, and a second one that a link joins.
    Returns what a command line begins with, to run on each. Raises CalledProcessError where there are no such networks."""
    first, second = names
    addresses = ["10.213.9.1", "10.213.9.2"]
    os.makedirs("/run/netns", exist_ok=True)
    for command in (["mount", "-t", "tmpfs", "none", "/run/netns"], ["ip", "netns", "add", second],
                    ["ip", "link", "set", "lo", "up"], ["ip", "-n", second, "link", "set", "lo", "up"],
                    ["ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", second],
                    ["ip", "link", "set", "eth0", "up"], ["ip", "-n", second, "link", "set", "eth0", "up"],
                    ["ip", "address", "add", addresses[0] + "/24", "dev", "eth0"],
                    ["ip", "-n", second, "address", "add", addresses[1] + "/24", "dev", "eth0"]):
        subprocess.run(command, check=True, stderr=subprocess.PIPE)
    socket.sethostname(host_name)
    path = os.path.join(folder, "hosts")
    with open(path, "w", encoding="ascii") as out:
        out.write("127.0.0.1 localhost\n%s %s %s\n%s %s\n" % (addresses[0], host_name, first, addresses[1], second))
    subprocess.run(["mount", "--bind", path, "/etc/hosts"], check=True, stderr=subprocess.PIPE)
    return {first: [], second: ["nsenter", "--net=/run/netns/" + second]}  # ip netns exec hides /sys/fs/cgroup
