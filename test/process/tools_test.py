"""The small tools as processes: how they end."""

import os
import signal
import subprocess

import cluster

UNSHARE = ["unshare", "--pid", "--fork", "--kill-child"]


class SignalsTest(cluster.JobTest):
    """convert_imageset reads its list from a pipe, so that it runs for as long as the test wants."""

    def start_tool(self, prefix=(), **options):
        """Returns the process and the end of its pipe, when the tool reads from the other end."""
        os.mkfifo(self.path("list"))
        tool = subprocess.Popen([*prefix, cluster.program("convert_imageset"), self.folder + "/", self.path("list"),
                                 self.path("db")], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, **options)
        self.addCleanup(self.end, tool)
        pipe = os.open(self.path("list"), os.O_WRONLY)
        os.remove(self.path("list"))
        return tool, pipe

    @staticmethod
    def end(tool):
        if tool.poll() is None:
            tool.kill()
        tool.communicate()

    def test_end_it(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            tool, pipe = self.start_tool()
            tool.send_signal(number)
            self.assertEqual(tool.wait(cluster.PATIENCE_S), -number)
            os.close(pipe)

    def test_end_a_containers_first_process(self):
        """The kernel spares it the signals that it has not asked for."""
        if subprocess.run([*UNSHARE, "true"], check=False, stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("SKIPPED: no process namespaces here")
        for number in (signal.SIGTERM, signal.SIGINT):
            unshare, pipe = self.start_tool(prefix=UNSHARE)
            with open("/proc/%d/task/%d/children" % (unshare.pid, unshare.pid), encoding="ascii") as children:
                os.kill(int(children.read().split()[0]), number)
            self.assertEqual(unshare.wait(cluster.PATIENCE_S), 128 + number)
            os.close(pipe)

    def test_stay_ignored(self):
        tool, pipe = self.start_tool(preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        tool.send_signal(signal.SIGINT)
        os.close(pipe)
        self.assertIn(b"has no lines", tool.communicate(timeout=cluster.PATIENCE_S)[1])
        self.assertEqual(tool.returncode, 2)


if __name__ == "__main__":
    cluster.main()
