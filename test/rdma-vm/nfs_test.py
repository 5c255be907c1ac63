"""A job whose nodes get their table from a folder on NFS, in the machine of test/rdma-vm/run: its kernel serves the folder
and mounts it twice, with nothing shared between the two mounts, as two hosts would.

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
for mount in %(mounts)s; do mount -t nfs -o vers=4.2,nosharecache,acdirmin=60,acdirmax=60 127.0.0.1:/ $mount; done
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
        again = self.start_with_snapshots_at(MOUNTS[1], "again", runs[1], "--resume=latest")
        self.await_text(again, "resuming at iteration", cluster.PATIENCE_S)
        again.send(signal.SIGTERM)
        self.expect_exit(again, 5, seconds=cluster.PATIENCE_S)


if __name__ == "__main__":
    cluster.main()
