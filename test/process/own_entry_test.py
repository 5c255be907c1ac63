"""hpnode finds its own entry of the table: by role and host, the first whose port is free."""

import re
import socket

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

    def test_node_of_the_table_by_name(self):
        self.make_job()
        self.make_table(conv=1, fc=1)
        self.expect_exit(self.start(name="conv7"), 2, r"conv7.*conv0")
        self.expect_exit(self.start("--role=fc", name="conv0"), 2, r'"conv0" has the role conv; --role says fc')
        self.expect_exit(self.start("--role=gpu"), 2, r'--role is "gpu"; expected conv, fc or ps')
        self.expect_exit(self.start(), 2, r"--role=conv\|fc\|ps or --node=NAME is missing")

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
