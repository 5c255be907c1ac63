"""A job whose nodes get their table from a folder on NFS, in the machine of test/rdma-vm/run: its kernel serves the folder
and mounts it twice, as two clients, which two hosts would be.

usage: nfs_test.py FOLDER_OF_THE_BINARIES [unittest's arguments]
"""

import os
import shutil
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../process")]

import cluster  # pylint: disable=wrong-import-position

cluster.PATIENCE_S = 400.0  # the processor is emulated
EXPORT, MOUNTS = "/run/nfs/export", ("/run/nfs/a", "/run/nfs/b")
SERVE = """
modprobe -a nfsd nfsv4
mkdir -p %(export)s %(mounts)s /var/lib/nfs
mount -t tmpfs none %(export)s
mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
touch /var/lib/nfs/etab /var/lib/nfs/rmtab
exportfs -o rw,no_root_squash,insecure,fsid=0,no_subtree_check '*:%(export)s'
rpc.mountd -N 3
echo 10 >/proc/fs/nfsd/nfsv4leasetime
echo 10 >/proc/fs/nfsd/nfsv4gracetime
rpc.nfsd -N 3 2
echo Y >/proc/fs/nfsd/v4_end_grace
# Each mount is of a client of its own, since a server recalls no delegation, under which locks are a client's own affair,
# from the client that asks: another network namespace, and another name by which the server knows it.
number=1
for mount in %(mounts)s; do
  ip netns add nfs$number
  ip link add nfs$number type veth peer name eth0 netns nfs$number
  ip addr add 10.214.$number.1/24 dev nfs$number
  ip link set nfs$number up
  ip -n nfs$number addr add 10.214.$number.2/24 dev eth0
  ip -n nfs$number link set eth0 up
  nsenter --net=/run/netns/nfs$number unshare --uts bash -e -c "
    hostname nfs$number
    mount -t nfs -o vers=4.2,acdirmin=60,acdirmax=60 10.214.$number.1:/ $mount"
  number=$((number + 1))
done
"""


def missing():
    """What this machine lacks; empty: nothing."""
    if os.uname().nodename != "rdma-vm":
        return "no machine of test/rdma-vm/run, which may serve and mount NFS"
    lacking = [tool for tool in ("rpc.nfsd", "rpc.mountd", "exportfs", "mount.nfs") if not shutil.which(tool)]
    return "%s missing (nfs-kernel-server)" % ", ".join(lacking) if lacking else ""


class NfsTest(cluster.JobTest):

    @classmethod
    def setUpClass(cls):
        if not missing():
            script = SERVE % {"export": EXPORT, "mounts": " ".join(MOUNTS)}
            subprocess.run(["bash", "-e", "-c", script], check=True, timeout=cluster.PATIENCE_S)

    @classmethod
    def tearDownClass(cls):
        if not missing():
            subprocess.run(["umount", *MOUNTS], check=True)
            for number in range(len(MOUNTS)):
                subprocess.run(["ip", "netns", "delete", "nfs%d" % (number + 1)], check=True)
            subprocess.run(["rpc.nfsd", "0"], check=True)

    def setUp(self):
        super().setUp()
        if missing():
            self.skipTest("SKIPPED: " + missing())

    def start_nodes(self, run):
        plan = ("--solver=" + self.path("solver.prototxt"), "--conv=2", "--fc=2", "--run_id=" + run)
        return [self.start("--role=" + role, *plan, log=role, routing="dir://%s/runs" % MOUNTS[i % 2])
                for i, role in enumerate(("conv", "conv", "fc", "fc"))]

    def test_a_miss_is_remembered_here(self):
        """What the rendezvous has to get around does happen on these mounts."""
        one, other = (os.path.join(mount, "late") for mount in MOUNTS)
        self.assertFalse(os.path.exists(other))
        with open(one, "w", encoding="ascii") as file:
            file.write("here")
        self.assertFalse(os.path.exists(other), "the miss is not remembered")
        with open(other + ".poll", "w", encoding="ascii"):
            pass
        self.assertTrue(os.path.exists(other))

    def test_nodes_on_two_hosts_race_train_and_come_again(self):
        self.make_job()
        nodes = self.start_nodes("race")
        self.await_training(nodes, iterations=5)
        self.assertEqual(sum("incarnation 1 has 4 nodes" in node.text() for node in nodes), 1, "who has planned")
        nodes[-1].popen.kill()
        nodes[-1].popen.wait()
        self.expect_all(nodes[:-1], 4, seconds=cluster.PATIENCE_S)
        nodes = self.start_nodes("race")
        for node in nodes:
            self.await_text(node, "incarnation 2; this is ", cluster.PATIENCE_S)
        self.await_training(nodes, iterations=5)
        nodes[0].send(signal.SIGINT)
        self.expect_all(nodes, 5, "Optimization stopped early", seconds=cluster.PATIENCE_S)
        left = [name for name in os.listdir(MOUNTS[0] + "/runs/race") if name.startswith("tmp.")]
        self.assertEqual(left, [], "temporary files are left")

    def start_with_snapshots_at(self, mount, name, *flags):
        """A job of one process that writes snapshots into the folder by one of its mounts."""
        text = self.read("solver.prototxt").decode()
        self.write(name + "_solver.prototxt", text.replace(self.path("out"), mount + "/snapshots/tiny"))
        self.make_table(conv=1, fc=1, name=name + ".prototxt", solver=name + "_solver.prototxt")
        return self.start("--all", *flags, table=name + ".prototxt", log=name)

    def test_runs_of_two_hosts_do_not_meet(self):
        """Locks of the file system: by the mount of one host, the other one finds snapshots and run folder taken."""
        self.make_job(snapshot=10)
        os.makedirs(MOUNTS[0] + "/snapshots")
        runs = ["--run_folder=%s/run" % mount for mount in MOUNTS]
        first = self.start_with_snapshots_at(MOUNTS[0], "first", runs[0])
        self.await_text(first, "Snapshotting solver state", cluster.PATIENCE_S)
        who = r"host \S+, process %d\b" % first.popen.pid
        self.expect_exit(self.start_with_snapshots_at(MOUNTS[1], "second", runs[1]), 2,
                         "--run_folder: %s/run: incarnation 1 of .* runs there .*%s" % (MOUNTS[1], who),
                         seconds=cluster.PATIENCE_S)
        self.expect_exit(self.start_with_snapshots_at(MOUNTS[1], "third"), 2,
                         "another live run writes the snapshots %s/snapshots/tiny .*%s" % (MOUNTS[1], who),
                         seconds=cluster.PATIENCE_S)
        first.send(signal.SIGKILL)
        first.wait()
        # A run folder is known by its path, which hosts have in common.
        again = self.start_with_snapshots_at(MOUNTS[1], "again", runs[0], "--resume=latest")
        self.await_text(again, "resuming at iteration", cluster.PATIENCE_S)
        again.send(signal.SIGTERM)
        self.expect_exit(again, 5, seconds=cluster.PATIENCE_S)


if __name__ == "__main__":
    cluster.main()
