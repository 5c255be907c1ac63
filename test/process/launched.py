"""Jobs that hplaunch starts, for tests: what it says, and which processes are its."""

import os
import time

import cluster
from cluster import PATIENCE_S, program
from running import children_of, command_of


class Launched(cluster.JobTest):
    """What both kinds of hosts share."""

    def launch(self, *flags, prefix=(), **variables):
        environment = {name: value for name, value in os.environ.items()
                       if name not in ("SLURM_JOB_ID", "OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "KUBERNETES_SERVICE_HOST")}
        command = [*prefix, program("hplaunch"), "--run_dir=" + self.path("run"), *flags, "--", "--cache_dir=none"]
        process = cluster.Process("hplaunch", command, self.path("hplaunch.%d.log" % len(self.processes)),
                                  dict(environment, OMP_WAIT_POLICY="passive", **variables))
        self.processes.append(process)
        return process

    def table(self):
        return "--routing=" + self.path("table.prototxt")

    def nodes_of_run(self):
        """Processes of hpnode that run this test's job, wherever they hang."""
        run = self.path("run")
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        commands = {pid: command_of(pid) for pid in pids}
        return {next((word[7:] for word in words if word.startswith("--node=")), "?"): pid
                for pid, words in commands.items()
                if words and words[0].endswith("/hpnode") and any(run in word for word in words)}

    def agents_of(self, launched):
        return [pid for pid in children_of(launched.popen.pid) if "--agent" in command_of(pid)]

    def await_none(self, pids, what):
        deadline = time.monotonic() + PATIENCE_S
        while any(os.path.exists("/proc/%d" % pid) for pid in pids):
            self.assertLess(time.monotonic(), deadline, "%s still run: %s" % (what, pids))
            time.sleep(0.01)

    def await_launched(self, launched, iterations=10):
        self.await_training([launched], iterations)
        return self.nodes_of_run()

    def record(self):
        return self.read("run/record.txt").decode()
