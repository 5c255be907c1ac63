"""hpnode finds its own entry of the table: by role and host, the first whose port is free."""

import os
import re
import socket
import subprocess

import cluster


class OwnEntryTest(cluster.JobTest):

    def test_roles_take_the_first_free_entry_and_train(self):
        self.make_job(iterations=20)
        self.make_table(conv=2, fc=2)
        nodes = []
        for role in ("conv", "fc", "conv", "fc"):
            nodes.append(self.start("--role=" + role, log=role))
            self.await_listening(len(nodes))
        self.expect_all(nodes, 0, "Optimization Done")
        names = [re.search(r"node (\w+): seed", node.text()).group(1) for node in nodes]
        self.assertEqual(names, ["conv0", "fc0", "conv1", "fc1"])

    def test_a_parameter_server_by_its_role(self):
        self.make_job(iterations=20)
        self.make_table(conv=2, fc=0, servers=1)
        nodes = [self.start("--role=" + role, log=role) for role in ("ps", "conv", "conv")]
        self.expect_all(nodes, 0, "Optimization Done")

    def test_nodes_started_at_once(self):
        self.make_job(iterations=20)
        self.make_table(conv=2, fc=2)
        nodes = [self.start("--role=" + role, log=role) for role in ("conv", "fc", "fc", "conv")]
        self.expect_all(nodes, 0, "Optimization Done")
        names = sorted(re.search(r"node (\w+): seed", node.text()).group(1) for node in nodes)
        self.assertEqual(names, ["conv0", "conv1", "fc0", "fc1"])

    def test_entry_held_by_another_program(self):
        self.make_job()
        self.make_table(conv=2, fc=0)
        with socket.socket() as other:
            other.bind(("127.0.0.1", self.ports["conv0"]))
            other.listen()
            self.expect_exit(self.start("--role=conv"), 2,
                             r'port %d of node "conv0" is held by python3[\d.]* \(process \d+\)' % self.ports["conv0"])

    def test_none_left(self):
        self.make_job()
        self.make_table(conv=2, fc=1)
        first, second = self.start("--role=conv", log="first"), self.start("--role=conv", log="second")
        self.await_listening(2, role="conv")
        third = self.start("--role=conv", log="third")
        holders = "hpnode \\(process (%d|%d)\\)" % (first.popen.pid, second.popen.pid)
        self.expect_exit(third, 2, r"all nodes of this host are already running or their ports are taken:",
                         r'node "conv0", port %d: held by %s' % (self.ports["conv0"], holders),
                         r'node "conv1", port %d: held by %s' % (self.ports["conv1"], holders))

    def start_tasks(self, task, tasks, count, *flags):
        """A node for each task, which knows its index by the variable `task` and their number by `tasks`."""
        return [self.start(*flags, log="task%d" % i, **{task: str(i), tasks: str(count)}) for i in range(count)]

    def test_a_task_takes_the_entry_of_its_index(self):
        self.make_job(iterations=20)
        for task, tasks, said in (("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "Slurm"),
                                  ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "Open MPI"),
                                  ("RANK", "WORLD_SIZE", "RANK and WORLD_SIZE"),
                                  ("JOB_COMPLETION_INDEX", "WORLD_SIZE", "Kubernetes job")):
            names = self.make_table(conv=2, fc=1)
            nodes = self.start_tasks(task, tasks, 3)
            for i, (node, name) in enumerate(zip(nodes, names)):
                self.expect_exit(node, 0, "Optimization Done", "node %s: seed" % name,
                                 r"task %d of 3 \(%s\): node %s of \S*table\.prototxt" % (i, said, name))

    def test_jobs_whose_tables_have_the_same_ports_on_free_ones(self):
        self.make_job()
        names = self.make_table(conv=2, fc=1)
        folders = [self.path(name) for name in ("a", "b", "ipv6")]
        jobs = [self.start_tasks("RANK", "WORLD_SIZE", 3, "--port_folder=" + folders[0])]
        self.write("other_solver.prototxt", self.read("solver.prototxt").decode().replace(self.path("out"), self.path("else")))
        self.make_table(conv=2, fc=1, name="other.prototxt", solver="other_solver.prototxt", ports=list(self.ports.values()))
        jobs.append([self.start("--port_folder=" + folders[1], name=name, table="other.prototxt") for name in names])
        if cluster.has_ipv6():
            solver = self.read("solver.prototxt").decode().replace(self.path("out"), self.path("third"))
            self.write("third_solver.prototxt", solver)
            self.make_table(conv=2, fc=1, name="third.prototxt", solver="third_solver.prototxt", hosts=["::1"] * 3,
                            ports=list(self.ports.values()))
            jobs.append([self.start("--port_folder=" + folders[2], name=name, table="third.prototxt") for name in names])
        else:
            print("    SKIPPED: no IPv6 loopback: the job over ::1")
        for nodes, folder in zip(jobs, folders):
            self.await_training(nodes)
            status, text = cluster.run_tool("hpctl", "--routing=" + folder + "/table.prototxt", "--timeout_s=60", "stop")
            self.assertEqual(status, 0, text)
            self.expect_all(nodes, 5, "Optimization stopped early")
        # Its ports lead nowhere now.
        for node in self.start_tasks("RANK", "WORLD_SIZE", 3, "--port_folder=" + folders[0]):
            self.expect_exit(node, 2, "a has a port of node (conv0|conv1|fc0) already: give each start of the job a folder")
        self.expect_exit(self.start("--port_folder=" + self.path("c"), "--wait=1", name="fc0"), 4,
                         "node conv0 on 127.0.0.1 has not said its port within 1 s")
        for flags, said in ((("--role=conv",), "expected --node=NAME or a task of a scheduler"),
                            (("--all",), "with --all, nodes have no ports")):
            self.expect_exit(self.start("--port_folder=" + self.path("c"), *flags), 2, said)
        nodes = [self.start("--role=" + role, "--node=%s0" % role, "--port_folder=" + self.path("c"), "--conv=1", "--fc=1",
                            "--run_id=1", "--solver=" + self.path("solver.prototxt"), routing="dir://" + self.path("d"))
                 for role in ("conv", "fc")]
        self.expect_all(nodes, 2, "nodes have free ports already where the table is made of what they say")

    def test_jobs_of_tables_that_hproute_puts_somewhere(self):
        """Both have the same ports."""
        self.make_job(iterations=20)
        port = cluster.free_ports(1)[0]
        jobs = []
        for run in ("a", "b"):
            flags = ("--run_id=" + run, "--port_folder=" + self.path(run))
            status, text = cluster.run_tool(
                "hproute", "--solver=" + self.path("solver.prototxt"), "--conv=1", "--fc=1", "--hosts=127.0.0.1",
                "--port=%d" % port, "--out=dir://" + self.path("d"), "--run_id=" + run)
            self.assertEqual(status, 0, text)
            jobs += [self.start(*flags, name=name, routing="dir://" + self.path("d"), log=run) for name in ("conv0", "fc0")]
        self.expect_all(jobs, 0, "Optimization Done")
        ports = [re.search(r"listens on port (\d+)", node.text())[1] for node in jobs]
        self.assertEqual(len(set(ports)), 4, ports)

    def test_another_number_of_tasks_than_nodes(self):
        self.make_job()
        self.make_table(conv=2, fc=2)
        for node in self.start_tasks("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", 3):
            self.expect_exit(node, 2, r"the table has 4 node\(s\), and the job 3 task\(s\) \(SLURM_STEP_NUM_TASKS\)")
        self.expect_exit(self.start(JOB_COMPLETION_INDEX="4"), 2,
                         r"the table has 4 node\(s\), and this is task 4, counted from 0 \(JOB_COMPLETION_INDEX\)")
        self.expect_exit(self.start(PMIX_RANK="all"), 2, 'the environment variable PMIX_RANK is "all"; expected a number')

    def test_flags_win_over_the_task(self):
        self.make_job(iterations=20)
        self.make_table(conv=1, fc=1)
        nodes = [self.start(name="fc0", RANK="0", WORLD_SIZE="9"), self.start("--role=conv", RANK="1", WORLD_SIZE="9")]
        self.expect_all(nodes, 0, "Optimization Done")
        self.assertIn("node fc0: seed", nodes[0].text())

    def test_beside_the_tasks(self):
        self.make_job()
        self.make_table(conv=1, fc=1)
        script = self.start(SLURM_JOB_ID="12", SLURM_PROCID="0", SLURM_NTASKS="2")
        self.expect_exit(script, 2, r"this is no task of .*, but runs beside the tasks of Slurm job 12 \(srun hpnode\)")

    def write_table(self, hosts, **variables):
        """hproute in an environment of a scheduler. Returns its exit status, what it says, and the table's text."""
        done = subprocess.run(
            [cluster.program("hproute"), "--solver=" + self.path("solver.prototxt"), "--conv=2", "--fc=1",
             "--hosts=" + hosts, "--out=" + self.path("made.prototxt")], stdout=subprocess.PIPE, check=False,
            stderr=subprocess.STDOUT, env=dict(os.environ, **variables), timeout=cluster.PATIENCE_S)
        return done.returncode, done.stdout.decode(), self.read("made.prototxt").decode() if not done.returncode else ""

    def test_a_table_for_the_tasks(self):
        self.make_job()
        slurm = {"SLURM_JOB_NODELIST": "n[0-1]", "SLURM_TASKS_PER_NODE": "2,1"}
        status, said, table = self.write_table("slurm/cuda", **slurm)
        self.assertEqual(status, 0, said)
        self.assertEqual(re.findall(r'host: "(\w+)"', table), ["n0", "n0", "n1"])
        self.assertEqual(re.findall(r'device: "(\w+)"', table), ["cuda"] * 3)
        status, said, _ = self.write_table("slurm", **dict(slurm, SLURM_TASKS_PER_NODE="1(x2)"))
        self.assertEqual(status, 2, said)
        self.assertIn("the allocation on n0, n1 has 2 task(s), and the table 3 node(s); expected a task for each node: ask for 3", said)
        status, said, table = self.write_table("kubernetes:digits.digits-nodes")
        self.assertEqual((status, table.count('.digits-nodes"')), (0, 3), said)

    def plan_table(self, hosts, **variables):
        return subprocess.run(
            [cluster.program("hproute"), "--solver=" + self.path("solver.prototxt"), "--plan=auto", "--hosts=" + hosts,
             "--out=" + self.path("planned.prototxt")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
            env=dict(os.environ, **variables), timeout=cluster.PATIENCE_S)

    def test_a_plan_for_an_allocation(self):
        # Too much work for one host, and little to send.
        net = cluster.NET.replace("batch_size: 12", "batch_size: 4096", 1).replace("num_output: 4 ", "num_output: 256 ", 1)
        self.make_job(net=net)
        slurm = {"SLURM_JOB_NODELIST": "n[0-1],m", "SLURM_TASKS_PER_NODE": "4(x2),2"}
        done = self.plan_table("slurm", **slurm)
        said = done.stdout.decode()
        self.assertEqual(done.returncode, 0, said)
        table = self.read("planned.prototxt").decode()
        hosts = re.findall(r'host: "(\w+)"', table)
        self.assertGreater(len(hosts), 1, said)
        self.assertEqual(hosts, ["n0", "n1", "m"][:len(hosts)])
        start = "start: srun --nodes=%d --ntasks=%d --ntasks-per-node=1 --nodelist=%s --distribution=block hpnode " \
                "--routing=%s" % (len(hosts), len(hosts), ",".join(hosts), self.path("planned.prototxt"))
        self.assertIn(start, said.splitlines())
        self.assertIn("# " + start, table.splitlines(), "for scripts")
        done = self.plan_table("kubernetes:digits.digits-nodes")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn(b"a Job has as many pods as its table has nodes", done.stdout)
        done = self.plan_table("slurm", SLURM_JOB_NODELIST="")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn(b"--hosts=slurm: SLURM_JOB_NODELIST is not set", done.stdout)

    def test_a_table_for_ranks(self):
        self.make_job(iterations=20)
        port, = cluster.free_ports(1)
        ranks = {"WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        status, said, table = self.write_table("ranks", LOCAL_WORLD_SIZE="3", **ranks)
        self.assertEqual(status, 0, said)
        self.assertEqual(re.findall(r'host: "(\S+)"', table), ["127.0.0.1"] * 3)
        self.assertEqual(re.findall(r"port: (\d+)", table), [str(port + i) for i in range(3)])
        tasks = [self.start(RANK=str(i), LOCAL_RANK=str(i), LOCAL_WORLD_SIZE="3", table="made.prototxt", **ranks)
                 for i in range(3)]
        self.expect_all(tasks, 0, "Optimization Done")
        status, said, _ = self.write_table("ranks", LOCAL_WORLD_SIZE="1", **ranks)
        self.assertEqual(status, 2, said)
        self.assertIn("no variable says where the others do; expected --hosts=HOST,... in the order of RANK", said)

    def test_the_gpu_of_a_task(self):
        self.make_job()
        self.make_table(conv=1, fc=0)
        with open(self.path("table.prototxt"), encoding="utf-8") as file:
            self.write("table.prototxt", file.read().replace("threads: 1", 'device: "cuda"'))
        self.expect_exit(self.start("--all"), 2, r'node "conv0" has device: "cuda", the GPU of a scheduler.s task')
        self.expect_exit(self.start(RANK="0", WORLD_SIZE="1", LOCAL_RANK="1023"), 2, "device cuda: ")

    def test_a_task_on_another_host_than_its_entry(self):
        self.make_job()
        self.make_table(conv=2, fc=0, hosts=["127.0.0.1", "192.0.2.1"])  # reserved for documentation
        self.expect_exit(self.start(RANK="1", WORLD_SIZE="2"), 2, r"task 1 of 2 \(RANK and WORLD_SIZE\): ",
                         r'node "conv1", port \d+: .*192\.0\.2\.1')

    def test_node_of_the_table_by_name(self):
        self.make_job()
        self.make_table(conv=1, fc=1)
        self.expect_exit(self.start(name="conv7"), 2, r"conv7.*conv0")
        self.expect_exit(self.start("--role=fc", name="conv0"), 2, r'"conv0" has the role conv; --role says fc')
        self.expect_exit(self.start("--role=gpu"), 2, r'--role is "gpu"; expected conv, fc or ps')
        self.expect_exit(self.start(), 2, r"--role=conv\|fc\|ps or --node=NAME is missing, and this is no task")

    def test_command_line(self):
        for arguments, status, said in ((["--help"], 0, r"example(.|\n)*--routing  the job's routing table"),
                                        (["--rolle=conv"], 2, "unknown command line flag 'rolle'"),
                                        (["--reader_threads=many"], 2, "illegal value 'many'"),
                                        ([], 2, "--routing=table.prototxt is missing")):
            found, text = cluster.run_tool("hpnode", *arguments)
            self.assertEqual(found, status, text)
            self.assertRegex(text, said)

    def test_no_entry_on_this_host(self):
        self.make_job()
        self.make_table(conv=1, fc=1, hosts=["192.0.2.1", "192.0.2.2"])  # reserved for documentation
        self.expect_exit(self.start("--role=conv"), 2, r"no conv node is on this host, .*conv0 on 192\.0\.2\.1:\d+")

    def await_listening(self, count, role=None):
        """Waits until `count` of the table's ports are taken."""
        deadline = cluster.time.monotonic() + cluster.PATIENCE_S
        while cluster.time.monotonic() < deadline:
            taken = sum(self.is_taken(port) for name, port in self.ports.items() if not role or name.startswith(role))
            if taken >= count:
                return
            cluster.time.sleep(0.01)
        self.fail("%d nodes do not listen" % count)

    @staticmethod
    def is_taken(port):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
                return False
            except OSError:
                return True


if __name__ == "__main__":
    cluster.main()
