#!/usr/bin/env python3
"""examples/common.sh with make-believe programs: nodes are started, waited for, reported and ended."""
import os
import shutil
import signal
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

TABLE = """solver: "s.prototxt"
stage {
  name: "conv"
  kind: CONV
}
stage {
  name: "fc"
  kind: FC
}
node {
  name: "conv0"
  stage: 0
  host: "127.0.0.1"
}
node {
  name: "fc0"
  stage: 1
}
"""

# Does what the file NODE_NAME.sh beside the table says, with its role in $role.
HPNODE = """for arg in "$@"; do case $arg in
  --role=*) role=${arg#*=} ;; --node=*) node=${arg#*=} ;; --routing=*) table=${arg#*=} ;;
esac; done
. "$(dirname "$table")/$node.sh"
"""


class RunNodesTest(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)
        self.write("work/table.prototxt", TABLE)
        self.write("build/release/bin/hpnode", f"#!{shutil.which('bash')}\n{HPNODE}", 0o755)
        os.mkdir(os.path.join(self.root, "examples"))
        shutil.copy(os.path.join(ROOT, "examples", "common.sh"), os.path.join(self.root, "examples"))

    def write(self, path, text, mode=0o644):
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(full, mode)

    def pipe(self, name):
        """A pipe in the nodes' folder. Who opens it waits for somebody at its other end: an order of events."""
        path = os.path.join(self.root, "work", name)
        os.mkfifo(path)
        return path

    def start(self, conv0, fc0, before="", then="train work/table.prototxt work"):
        """Trains with these nodes; `before` is shell that changes the script under test."""
        self.write("work/conv0.sh", conv0)
        self.write("work/fc0.sh", fc0)
        script = f"set -euo pipefail; example=ex; source '{self.root}/examples/common.sh'; {before}\n{then}"
        return subprocess.Popen(["bash", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                start_new_session=True)

    def run_train(self, conv0, fc0, **options):
        process = self.start(conv0, fc0, **options)
        output = process.communicate()[0]
        return process.returncode, output

    def test_all_nodes_run_with_their_role_and_progress_is_shown(self):
        log = "I1120 10:00:00.000000 1 a.cc:1] "
        status, output = self.run_train(
            "[[ $role == conv ]]",
            f"[[ $role == fc ]]; echo '{log}Iteration 10 (5 iter/s, 2s/10 iters), loss = 0.25'; echo '{log}secret'; "
            f"echo '{log}    Test net output #0: accuracy = 0.5'")
        self.assertEqual(status, 0, output)
        self.assertIn("ex: training with the nodes conv0 fc0", output)
        self.assertIn("\n  Iteration 10 (5 iter/s, 2s/10 iters), loss = 0.25\n", output)
        self.assertIn("Test net output #0: accuracy = 0.5", output)
        self.assertNotIn("secret", output)

    def test_the_first_failure_is_the_exit_status_and_all_logs_are_shown(self):
        self.pipe("noticed")
        status, output = self.run_train(
            "echo bad table; exit 2", "read -r <work/noticed; echo lost conv0; exit 4",
            # Nobody loses patience, and fc0 goes on when the script has seen the first failure.
            before=self.patience(1000) + " wait() { builtin wait \"$@\" || "
                   "{ local status=$?; [[ -n ${told-} ]] || { told=1; echo >work/noticed; }; return $status; }; }")
        self.assertEqual(status, 2, output)
        self.assertIn("--- conv0: exit status 2; the end of work/conv0.log:\nbad table\n", output)
        self.assertIn("--- fc0: exit status 4; the end of work/fc0.log:\nlost conv0\n", output)

    @staticmethod
    def patience(seconds):
        """Shell that changes how long the script waits for the others after a failure, and then for SIGTERM: 0.3 s."""
        return (f"eval \"$(declare -f wait_for_nodes | sed 's/ + 15/ + {seconds}/')\"; "
                "eval \"$(declare -f stop_nodes | sed 's/< 50/< 3/')\";")

    def test_a_node_that_never_ends_is_ended_after_a_failure(self):
        self.pipe("ready")
        status, output = self.run_train(
            "read -r <work/ready; exit 3",
            "trap '' TERM; echo $$ >work/pid; echo >work/ready; while :; do sleep 0.1; done", before=self.patience(0))
        self.assertEqual(status, 3, output)
        self.assertIn("--- fc0: exit status unknown, it had to be killed", output)
        with open(os.path.join(self.root, "work", "pid"), encoding="utf-8") as file:
            self.assertFalse(os.path.exists(f"/proc/{file.read().strip()}"))

    def test_an_interrupt_ends_the_nodes(self):
        # fc0 has to be killed, and that waits for the second signal.
        pids, second = [self.pipe(f"{name}.pid") for name in ("conv0", "fc0")], self.pipe("second")
        node = "[[ $role == conv ]] || trap '' TERM; echo $$ >work/$node.pid; while :; do sleep 0.1; done"
        process = self.start(node, node, before=self.patience(15) +
                             " kill() { [[ $1 != -9 ]] || read -r <work/second; builtin kill \"$@\"; }")
        for i, path in enumerate(pids):
            with open(path, encoding="utf-8") as pipe:
                pids[i] = pipe.read().strip()
        process.send_signal(signal.SIGTERM)
        self.assertIn("ex: training", process.stdout.readline())
        self.assertTrue(any("interrupted" in line for line in iter(process.stdout.readline, "")))
        process.send_signal(signal.SIGTERM)
        with open(second, "w", encoding="utf-8") as pipe:
            pipe.write("it is sent\n")
        output = process.communicate()[0]
        self.assertEqual(process.returncode, 130, output)
        for pid in pids:
            self.assertFalse(os.path.exists(f"/proc/{pid}"), output)

    def test_an_interrupt_while_nodes_are_started_leaves_nothing_behind(self):
        # The script says that it has forked `sleep`, and waits before it notes the id: the signal comes between.
        forked, go_on = self.pipe("forked"), self.pipe("go_on")
        node = "echo $$ >work/$node.pid; while :; do sleep 0.1; done"
        process = self.start(node, node, before="eval \"$(declare -f follow_logs | sed '"
                             "s:sentinel=:echo \\$! >work/forked; read -r <work/go_on; sentinel=:')\";")
        with open(forked, encoding="utf-8") as pipe:
            sleep = pipe.read().strip()
        process.send_signal(signal.SIGTERM)
        with open(go_on, "w", encoding="utf-8") as pipe:
            pipe.write("it is sent\n")
        try:
            output = process.communicate(timeout=60)[0]
        finally:
            if os.path.exists(f"/proc/{sleep}"):
                os.kill(int(sleep), signal.SIGKILL)
        self.assertEqual(process.returncode, 130, output)
        self.assertIn("interrupted, stopping the nodes", output)

    def test_a_table_without_nodes_is_refused(self):
        self.write("work/table.prototxt", "")
        status, output = self.run_train("", "")
        self.assertEqual(status, 1)
        self.assertIn("work/table.prototxt names no nodes", output)

    def test_evaluate_prints_the_accuracy(self):
        self.write("build/release/bin/model_test",
                   f"#!{shutil.which('bash')}\necho \"$@\" >work/args\necho 'x] accuracy = 0.9875'\n", 0o755)
        status, output = self.run_train("", "", then="evaluate net.prototxt work/w.caffemodel 4 work")
        self.assertEqual(status, 0, output)
        self.assertIn("test accuracy 98.75%", output)
        with open(os.path.join(self.root, "work", "args"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "--model=net.prototxt --weights=work/w.caffemodel --iterations=4\n")
        self.write("build/release/bin/model_test", f"#!{shutil.which('bash')}\necho no such file\nexit 2\n", 0o755)
        status, output = self.run_train("", "", then="evaluate net.prototxt work/w.caffemodel 4 work")
        self.assertEqual(status, 1)
        self.assertIn("no such file", output)


if __name__ == "__main__":
    unittest.main()
