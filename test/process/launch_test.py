"""hplaunch on this host alone: plain processes, one folder for each run, restarts."""

import glob
import os
import re
import signal
import time

import cluster
import launched
from cluster import program, run_tool

UP_S, DOWN_S, RESTART_LIMIT_S = 10, 2, 10  # as promised of 64 nodes, and of a restart


class LaunchTest(launched.Launched):

    def setUp(self):
        super().setUp()
        self.addCleanup(lambda: self.await_none(self.nodes_of_run().values(), "nodes"))

    def test_a_job_to_its_end(self):
        self.make_job(iterations=30, snapshot=10)
        self.write("solver.prototxt", self.read("solver.prototxt").decode().replace(self.path("out"), "made/tiny"))
        self.make_table(conv=2, fc=2)
        job = self.launch(self.table())
        self.expect_exit(job, 0, r"(?m)^\[127\.0\.0\.1 fc0\] .*Iteration 20",
                         r"(?m)^\[127\.0\.0\.1 fc1\] .*Optimization Done", "all 4 nodes have ended")
        # The folder has all that there is to know of the run.
        self.assertEqual(sorted(os.listdir(self.path("run/logs"))),
                         ["conv0.1.log", "conv1.1.log", "fc0.1.log", "fc1.1.log"])
        self.assertIn("Optimization Done", self.read("run/logs/fc0.1.log").decode())
        self.assertNotIn("[127.0.0.1", self.read("run/logs/fc0.1.log").decode())
        self.assertTrue(os.path.exists(self.path("run/snapshots/tiny_iter_30.solverstate")))
        for word in ("launch protocol", "host 127.0.0.1: hpnode ", "incarnation 1", "done"):
            self.assertIn(word, self.record())
        status, text = run_tool("hproute", "--check", self.path("run/table.prototxt"))
        self.assertEqual(status, 0, text)

    def test_a_node_that_is_killed_ends_all(self):
        self.make_job()
        self.make_table(conv=2, fc=2)
        job = self.launch(self.table())
        nodes = self.await_launched(job)
        self.assertEqual(sorted(nodes), ["conv0", "conv1", "fc0", "fc1"])
        os.kill(nodes["fc0"], signal.SIGKILL)
        self.expect_exit(job, 4, r'first failure: node "fc0" on host 127\.0\.0\.1: killed by signal 9, SIGKILL; '
                                      r"its last lines:\n  \[127\.0\.0\.1 fc0\] ",
                         r'(?m)^hplaunch: node "fc0" on host 127\.0\.0\.1: killed by signal 9', r'lost node "fc0"')
        self.await_none(nodes.values(), "nodes")

    def test_input_that_a_node_refuses(self):
        self.make_job(solver='type: "AdaMax"\n')
        self.make_table(conv=2, fc=1)
        job = self.launch(self.table())
        self.expect_exit(job, 2, "hplaunch: host 127.0.0.1: its data: .*solver.prototxt.*AdaMax")

    def test_one_node_that_fails_at_its_start_ends_those_that_wait_for_it(self):
        self.make_job()
        self.make_table(conv=1, fc=1)
        with cluster.socket.socket() as taken:
            taken.bind(("127.0.0.1", self.ports["fc0"]))
            taken.listen()
            job = self.launch(self.table())
            self.expect_exit(job, 2, r'first failure: node "fc0" .*exit status 2', "held by")

    def test_a_stop_while_a_host_does_not_answer(self):
        self.make_job()
        self.make_table(conv=1, fc=1, hosts=["127.0.0.1", "192.0.2.1"])
        with open(self.write("ssh", "#!/bin/sh\necho started >&2\nexec sleep 1000\n"), encoding="utf-8") as script:
            os.fchmod(script.fileno(), 0o755)
        job = self.launch(self.table(), "--ssh=" + self.path("ssh"))
        self.await_text(job, r"\[192\.0\.2\.1 agent\] started")
        children = launched.children_of(job.popen.pid)
        job.send(signal.SIGTERM)
        self.expect_exit(job, 5, "hplaunch: stopped by SIGTERM before training began")
        self.await_none(children, "agents")

    def test_sixty_four_nodes(self):
        self.make_job(net=cluster.NET.replace("batch_size: 12", "batch_size: 64"))
        self.make_table(conv=60, fc=4, micro_batches=1)
        begin = time.time()
        job = self.launch(self.table())
        self.await_text(job, r"Iteration 0[ ,].*loss = ")
        up = time.time()
        nodes = self.nodes_of_run()
        self.assertEqual(len(nodes), 64)
        sent = job.send(signal.SIGTERM)
        self.expect_exit(job, 5, "Optimization stopped early")
        down = time.time()
        print("    64 nodes: up after %.1f s, down after %.1f s" % (up - begin, down - sent))
        self.await_none(nodes.values(), "nodes")
        self.assert_promised_of_many(up - begin, "training began", UP_S)
        self.assert_promised_of_many(down - sent, "the last node ended", DOWN_S)

    def test_the_end_of_hplaunch_ends_all(self):
        self.make_job()
        self.make_table(conv=2, fc=1)
        job = self.launch(self.table())
        nodes = self.await_launched(job)
        agents = self.agents_of(job)
        self.assertEqual(len(agents), 1, agents)
        job.send(signal.SIGKILL)
        self.await_none([*nodes.values(), *agents], "nodes and agent")

    def test_signals_are_passed_on(self):
        self.make_job()
        self.make_table(conv=2, fc=1)
        for number, name in ((signal.SIGTERM, "TERM"), (signal.SIGINT, "INT"), (signal.SIGUSR1, "USR1")):
            job = self.launch(self.table(), "--max_restarts=3")
            self.await_launched(job)
            job.send(signal.SIGHUP)
            self.await_text(job, "Snapshotting solver state")
            job.send(number)
            self.expect_exit(job, 5, "stopping, as asked by " + name, "Optimization stopped early")
            self.assertNotIn("restart 1", job.text())

    def test_restart_from_the_last_complete_snapshot(self):
        self.make_job(iterations=600, snapshot=50)
        self.run_job(self.make_table(conv=2, fc=1))
        whole = self.read("out_iter_600.caffemodel"), self.read("out_iter_600.solverstate")
        for path in glob.glob(self.path("out_*")):
            os.remove(path)
        job = self.launch(self.table(), "--max_restarts=1")
        self.await_text(job, "Snapshotting solver state")
        nodes = self.nodes_of_run()
        with open(self.path("out_iter_999.hpnode"), "w", encoding="utf-8") as rubbish:
            rubbish.write("iteration: 999\n")
        os.kill(nodes["conv1"], signal.SIGKILL)
        killed = time.time()
        self.expect_exit(job, 0, "restart 1 of 1, since node \"conv1\"", "started 3 nodes, incarnation 2",
                         r"\] .*resuming at iteration (50|[1-5][05]0) from \S*/out_iter_", "all 3 nodes have ended")
        self.assertEqual((self.read("out_iter_600.caffemodel"), self.read("out_iter_600.solverstate")), whole)
        self.assertEqual(len(os.listdir(self.path("run/logs"))), 6)
        self.assertIn("incarnation 2", self.record())
        after = self.read("run/logs/fc0.2.log").decode()
        trains = cluster.times_of(r"Iteration \d+ \(.* loss = ", after)[0]
        self.assert_promised(trains - killed, "training went on", RESTART_LIMIT_S)

    def test_no_more_restarts_than_allowed(self):
        self.make_job()
        self.make_table(conv=1, fc=1)
        job = self.launch(self.table(), "--max_restarts=1")
        first = self.await_launched(job)
        os.kill(first["fc0"], signal.SIGKILL)
        self.await_text(job, "the job has written no snapshot: it begins as it did before")
        self.await_text(job, "started 2 nodes, incarnation 2")
        second = self.await_launched(job)
        self.assertEqual(set(first.values()) & set(second.values()), set())
        os.kill(second["fc0"], signal.SIGKILL)
        self.expect_exit(job, 4, "restart 1 of 1")
        self.assertNotIn("incarnation 3", job.text())

    def test_a_restart_does_not_go_on_from_an_earlier_training(self):
        self.make_job(iterations=20, snapshot=10)
        self.run_job(self.make_table(conv=1, fc=1))
        self.make_job(snapshot=1000000)
        job = self.launch(self.table(), "--max_restarts=1")
        os.kill(self.await_launched(job)["fc0"], signal.SIGKILL)
        self.await_text(job, "the job has written no snapshot: it begins as it did before")
        self.await_text(job, "started 2 nodes, incarnation 2")
        self.await_launched(job)
        self.assertNotIn("resuming at", job.text())
        job.send(signal.SIGTERM)
        self.expect_exit(job, 5, "Optimization stopped early")

    def await_stopped(self, pid):
        deadline = time.monotonic() + cluster.PATIENCE_S
        while True:
            states = set()
            for path in glob.glob("/proc/%d/task/*/stat" % pid):
                with open(path, encoding="ascii") as stat:
                    states.add(stat.read().rsplit(")", 1)[1].split()[0])
            if states == {"T"}:
                return
            self.assertLess(time.monotonic(), deadline, "it still runs")
            time.sleep(0.01)

    def test_no_node_outlives_its_agent(self):
        self.make_job()
        self.make_table(conv=2, fc=1)
        job = self.launch(self.table())
        nodes = self.await_launched(job)
        os.kill(nodes["conv1"], signal.SIGSTOP)  # it can't end by itself
        self.await_stopped(nodes["conv1"])
        agent, = self.agents_of(job)
        os.kill(agent, signal.SIGKILL)
        self.expect_exit(job, 4, r"(?m)^hplaunch: host 127\.0\.0\.1: its agent is gone: exit status 137$")
        self.await_none([*nodes.values(), agent], "nodes and agent")

    def test_a_restart_waits_until_the_old_nodes_are_dead(self):
        self.make_job()
        self.make_table(conv=2, fc=1)
        job = self.launch(self.table(), "--max_restarts=1")
        old = self.await_launched(job)
        os.kill(old["conv1"], signal.SIGSTOP)  # it can't end by itself
        self.await_stopped(old["conv1"])
        os.kill(old["fc0"], signal.SIGKILL)
        failed = time.monotonic()
        self.await_text(job, "restart 1 of 1|started 3 nodes, incarnation 2")
        self.assertFalse([name for name, pid in old.items() if os.path.exists("/proc/%d" % pid)])
        self.assertGreater(time.monotonic() - failed, 4, "the others have 5 s, counted in ticks")
        self.await_launched(job)
        job.send(signal.SIGTERM)
        self.expect_exit(job, 5)

    def test_a_restart_goes_on_as_the_user_said_where_its_snapshots_are_gone(self):
        self.make_job(iterations=20, snapshot=20)
        self.run_job(self.make_table(conv=1, fc=1))
        self.make_job(snapshot=10)
        job = self.launch(self.table(), "--max_restarts=1", "--resume=" + self.path("out_iter_20.solverstate"))
        self.await_text(job, "Snapshotting solver state")
        fc0 = self.nodes_of_run()["fc0"]
        conv0 = self.nodes_of_run()["conv0"]
        for pid in (conv0, fc0):
            os.kill(pid, signal.SIGSTOP)  # both write files where they share a folder
        for pid in (conv0, fc0):
            self.await_stopped(pid)
        for path in glob.glob(self.path("out_*")):
            if "iter_20." not in path:
                os.remove(path)
        os.kill(fc0, signal.SIGKILL)
        os.kill(conv0, signal.SIGKILL)
        self.await_text(job, r"no host has a complete snapshot of the job's: it begins as it did")
        self.await_text(job, r"\] .*resuming at iteration 20 from \S*/out_iter_20.solverstate", count=4)
        job.send(signal.SIGTERM)
        self.expect_exit(job, 5)

    def test_weights_that_the_solver_names_go_along(self):
        self.make_job(iterations=5, snapshot=5)
        self.run_job(self.make_table(conv=1, fc=1))
        os.rename(self.path("out_iter_5.caffemodel"), self.path("a.caffemodel"))
        self.make_job(iterations=5, solver='weights: "a.caffemodel"\n')
        job = self.launch(self.table())
        self.expect_exit(job, 0, r"\] .*%s: weights of 3 layer\(s\) loaded" % re.escape(self.path("a.caffemodel")))
        os.remove(self.path("a.caffemodel"))
        self.expect_exit(self.launch(self.table()), 2, r"a\.caffemodel: no such file")

    def test_resume_latest(self):
        self.make_job(snapshot=10)
        self.write("solver.prototxt", re.sub('snapshot_prefix: ".*"', 'snapshot_prefix: "s"',
                                             self.read("solver.prototxt").decode()))
        self.make_table(conv=2, fc=1)
        job = self.launch(self.table(), "--resume=latest")
        self.await_text(job, r"\] .*--resume=latest: no node has a complete snapshot", count=3)
        self.await_launched(job, 20)
        job.send(signal.SIGTERM)
        self.expect_exit(job, 5, "Optimization stopped early")
        newest = max(int(re.search(r"iter_(\d+)", path).group(1)) for path in glob.glob(self.path("run/snapshots/*.hpnode")))
        job = self.launch(self.table(), "--resume=latest")
        self.await_text(job, r"\] .*resuming at iteration %d from \S*run/snapshots/s_iter_%d" % (newest, newest), count=3)
        job.send(signal.SIGTERM)
        self.expect_exit(job, 5)
        self.expect_exit(self.launch(self.table(), "--resume=latest", "--run_dir="), 2,
                         r"the snapshots of a run lie in its folder.*--run_dir=FOLDER")

    def hosts_of_nodes(self):
        text = self.read("run/table.prototxt").decode()
        return dict(re.findall(r'name: "(\w+)"\n(?:.*\n)*?  host: "([\d.]+)"', text[text.index("node {"):]))

    def test_a_host_whose_nodes_failed_twice_is_replaced(self):
        self.make_job()
        self.make_table(conv=2, fc=2, hosts=["127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.2"])
        job = self.launch(self.table(), "--max_restarts=3", "--spares=127.0.0.3")
        for incarnation, victim in enumerate(("conv0", "fc0", "fc1"), 1):
            # Nodes of the other host end too each time, and that is no failure of theirs.
            self.assertNotIn("takes the place", job.text())
            self.await_text(job, "started 4 nodes, incarnation %d" % incarnation)
            os.kill(self.await_launched(job)[victim], signal.SIGKILL)
        self.await_text(job, "host 127.0.0.3 takes the place of 127.0.0.2")
        self.await_text(job, r"(?m)^\[127\.0\.0\.3 fc0\] ")
        self.await_text(job, r"(?m)^\[127\.0\.0\.3 fc1\] ")
        self.await_training([job])
        self.assertEqual(self.hosts_of_nodes(), {"conv0": "127.0.0.1", "conv1": "127.0.0.1", "fc0": "127.0.0.3",
                                                 "fc1": "127.0.0.3"})
        job.send(signal.SIGTERM)
        self.expect_exit(job, 5)

    def test_excluded_hosts(self):
        self.make_job(iterations=10)
        self.make_table(conv=1, fc=1, hosts=["127.0.0.1", "127.0.0.2"])
        job = self.launch(self.table(), "--exclude=127.0.0.2", "--spares=127.0.0.2,127.0.0.3")
        self.expect_exit(job, 0, "host 127.0.0.3 takes the place of 127.0.0.2", r"\[127\.0\.0\.3 fc0\] .*Optimization Done")
        self.expect_exit(self.launch(self.table(), "--exclude=127.0.0.2", "--spares=127.0.0.2"), 2,
                         r"--exclude leaves out 1 host\(s\) of the table, and --spares has 0 .*hproute --exclude")
        self.expect_exit(self.launch(self.table(), "--exclude=a"), 2, 'the table has no node on host "a"; its hosts: ')
        planned = ["--solver=" + self.path("solver.prototxt"), "--hosts=localhost,127.0.0.1"]
        job = self.launch(*planned, "--exclude=127.0.0.1", "--precision=AUTO", "--run_dir=" + self.path("planned"))
        self.expect_exit(job, 0, r"(?m)^\[localhost .*Optimization Done")
        self.assertIn("\nprecision: AUTO", self.read("planned/table.prototxt").decode())
        self.assertNotRegex(job.text(), r"(?m)^\[127\.0\.0\.1 ")
        self.expect_exit(self.launch(*planned, "--exclude=b"), 2, "--exclude=b: --hosts has no such host")

    def test_suspended(self):
        self.make_job()
        self.make_table(conv=1, fc=1)
        job = self.launch(self.table())
        nodes = self.await_launched(job)
        job.send(signal.SIGTSTP)
        self.await_text(job, "goes on in spite of Ctrl-Z: .*nohup")
        self.await_training([job])
        job.send(signal.SIGSTOP)  # nothing can be done about that one
        self.await_none(nodes.values(), "nodes")
        job.send(signal.SIGCONT)
        self.expect_exit(job, 4, "nothing heard from hplaunch for 8 s: it is suspended, or the network is cut")

    def test_numbers_that_are_not_finite(self):
        self.make_job(solver="base_lr: 1e30\n")
        self.make_table(conv=1, fc=1)
        job = self.launch(self.table(), "--max_restarts=5")
        self.expect_exit(job, 3, "first failure: node .*exit status 3", r"\] .*produced a NaN or infinity")
        self.assertNotIn("restart 1", job.text())

    def test_not_inside_an_allocation(self):
        self.make_job()
        self.make_table(conv=1, fc=1)
        for variable, name in (("SLURM_JOB_ID", "Slurm"), ("OMPI_COMM_WORLD_SIZE", "Open MPI"), ("PMIX_RANK", "PMIx"),
                               ("KUBERNETES_SERVICE_HOST", "Kubernetes")):
            job = self.launch(self.table(), "--max_restarts=1", **{variable: "7"})
            self.expect_exit(job, 2, r"--max_restarts=1 inside an allocation of %s \(%s is set\)" % (name, variable))
        self.assertFalse(os.path.exists(self.path("run")))

    def test_two_runs_of_one_folder(self):
        self.make_job()
        self.make_table(conv=1, fc=1)
        first = self.launch(self.table())
        nodes = self.await_launched(first)
        second = self.launch(self.table())
        self.expect_exit(second, 2, r"(?m)^hplaunch: \S*/run: another hplaunch or hpnode runs in this folder \(process %d on %s, hpnode "
                                    r".*, started at [-\d]+ [:\d]+\); wait for its end or stop it, or give this run another "
                                    r"folder with --run_dir$" % (first.popen.pid, re.escape(os.uname().nodename)))
        self.expect_only(first)
        self.assertEqual(self.nodes_of_run(), nodes, "nodes of the first alone")
        self.await_training([first], 5)
        first.send(signal.SIGTERM)
        self.expect_exit(first, 5)
        self.expect_only()

    def test_two_planned_jobs_at_once(self):
        self.make_job(iterations=200, snapshot=100)
        self.write("solver.prototxt", re.sub('snapshot_prefix: ".*"', 'snapshot_prefix: "s"',
                                             self.read("solver.prototxt").decode()))
        # Slow enough for one not to be better than both.
        self.write("hosts.prototxt", "".join(
            'host { name: "%s" cores: 1 gflops: 0.01 link_gbit_per_s: 100 latency_us: 1 }' % name
            for name in ("localhost", "127.0.0.1")))
        flags = ["--solver=" + self.path("solver.prototxt"), "--hosts=" + self.path("hosts.prototxt")]
        jobs = [self.launch(*flags, "--run_dir=" + self.path("run%d" % i)) for i in range(3)]
        self.expect_all(jobs, 0, r"(?m)^\[localhost ", r"(?m)^\[127\.0\.0\.1 ", "all 2 nodes have ended")
        for i in range(3):
            self.assertTrue(os.path.exists(self.path("run%d/snapshots/s_iter_200.caffemodel" % i)))

    def test_two_jobs_of_one_table_at_once(self):
        self.make_job(iterations=200, snapshot=100)
        self.write("solver.prototxt", re.sub('snapshot_prefix: ".*"', 'snapshot_prefix: "s"',
                                             self.read("solver.prototxt").decode()))
        self.make_table(conv=1, fc=1)
        flags = ["--routing=" + self.path("table.prototxt"), "--free_ports"]
        jobs = [self.launch(*flags, "--run_dir=" + self.path("run%d" % i)) for i in range(2)]
        self.expect_all(jobs, 0, "all 2 nodes have ended")
        ports = [set(re.findall(r"port: (\d+)", self.read("run%d/table.prototxt" % i).decode())) for i in range(2)]
        self.assertEqual(len(ports[0] | ports[1]), 4)
        for i in range(2):
            self.assertTrue(os.path.exists(self.path("run%d/snapshots/s_iter_200.caffemodel" % i)))

    def test_the_second_job_of_a_table_is_told_what_to_do(self):
        self.make_job()
        self.make_table(conv=1, fc=1)
        flags = ["--routing=" + self.path("table.prototxt")]
        first = self.launch(*flags, "--run_dir=" + self.path("run1"))
        self.await_training([first], 5)
        second = self.launch(*flags, "--run_dir=" + self.path("run2"))
        self.expect_exit(second, 2, r"held by hpnode \(process \d+\)\n.*end these processes, or use other ports")
        first.send(signal.SIGTERM)
        self.expect_exit(first, 5)

    def test_a_run_folder_of_its_own(self):
        self.make_job(iterations=10)
        process = cluster.Process("hplaunch", [program("hplaunch"), "--solver=" + self.path("solver.prototxt"),
                                               "--hosts=localhost", "--", "--cache_dir=none"],
                                  self.path("own.log"), dict(os.environ, OMP_WAIT_POLICY="passive"))
        self.processes.append(process)
        self.expect_exit(process, 0, "Optimization Done")
        runs = os.listdir(self.path("runs"))
        self.assertEqual(len(runs), 1)
        self.assertRegex(runs[0], r"^\d{8}-\d{6}-[0-9a-f]{4}$")

    def test_a_token(self):
        self.make_job(iterations=10)
        self.make_table(conv=1, fc=1, extra="transport { tls: true }")
        self.assertEqual(run_tool("hproute", "--new_token=" + self.path("token"))[0], 0)
        job = self.launch(self.table(), "--token_file=" + self.path("token"))
        self.expect_exit(job, 0, "Optimization Done")
        secret = self.read("token").split()[2]
        for folder, _, names in os.walk(self.path("run")):
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    self.assertNotIn(secret, file.read(), name)

    def test_dry_run(self):
        self.make_job()
        self.make_table(conv=1, fc=1, hosts=["127.0.0.1", "192.0.2.1"])
        job = self.launch(self.table(), "--dry_run", "--ssh=ssh -F x")
        self.expect_exit(job, 0, r"host 127\.0\.0\.1:\n  agent: \S*/hplaunch --agent\n",
                         r"host 192\.0\.2\.1:\n  agent: ssh -F x .*192\.0\.2\.1 exec '\S*/hplaunch' --agent\n",
                         r"  fc0: hpnode --routing=\S*/run/table\.prototxt --node=fc0 --cache_dir=none, port \d+\n")
        self.assertFalse(os.path.exists(self.path("run")))

    def test_wrong_command_lines(self):
        self.make_job()
        self.make_table(conv=1, fc=1)
        for flags, text in (([], "expected either --routing=TABLE or --solver=FILE"),
                            (["--solver=x"], "--solver=FILE and --hosts=HOST,... go together"),
                            (["--routing=/no/table"], "/no/table: no such file"),
                            ([self.table(), "--precision=BF16"], "--precision goes with --solver: it is for a table"),
                            ([self.path("x"), "--routing=x"], "is no flag; expected those of hpnode"),
                            ([self.table(), "--", "--foo=1"], "hpnode: unknown command line flag 'foo' (of what"),
                            ([self.table(), "--resume=" + self.path("none")], "none: no such file"),
                            ([self.table(), "--spares=-oProxyCommand=x"], 'host "-oProxyCommand=x": expected a name'),
                            (["--routing=x", "--max_restarts=-1"], "--max_restarts is -1; expected 0 or more")):
            job = self.launch(*flags)
            self.expect_exit(job, 2, re.escape(text))


if __name__ == "__main__":
    cluster.main()
