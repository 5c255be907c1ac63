"""A job with a token: who has it takes part, and nobody else gets in or learns anything."""

import os
import re
import signal
import socket
import struct

import cluster
import peer


class TokenTest(cluster.JobTest):

    def setUp(self):
        super().setUp()
        self.token = self.new_token("token")

    def new_token(self, name):
        status, text = cluster.run_tool("hproute", "--new_token=" + self.path(name))
        self.assertEqual(status, 0, text)
        return "--token_file=" + self.path(name)

    def read_key(self):
        """The flag of a reader."""
        status, text = cluster.run_tool("hproute", self.token, "--read_key=" + self.path("key"))
        self.assertEqual(status, 0, text)
        return "--token_file=" + self.path("key")

    def expect_readers(self, *readers):
        """Each is a flag of model_test or "", its exit status, and what it says."""
        for flag, expected, said in readers:
            status, text = cluster.run_tool("model_test", "--model=" + self.path("net.prototxt"), "--cache_dir=none",
                                            "--routing=" + self.path("table.prototxt"), "--iterations=1",
                                            "--timeout_s=%d" % (300 if expected == 0 else 4), *([flag] if flag else []))
            self.assertEqual(status, expected, text)
            self.assertIn(said, text)

    def test_nodes_with_the_token_train_and_a_reader_reads(self):
        self.make_job(snapshot=1000000)
        names = self.make_table(conv=2, fc=2)
        nodes = self.start_all(names, self.token)
        self.await_training(nodes.values())
        self.expect_readers((self.read_key(), 0, "accuracy = "), (self.token, 0, "accuracy = "), ("", 4, ""),
                            (self.new_token("other"), 4, "it have the same --token_file"))
        self.strangers(nodes)
        nodes["fc0"].send(signal.SIGINT)
        self.expect_all(nodes.values(), 5, "Optimization stopped early")
        for node in nodes.values():
            self.assertEqual(node.errors(), [])

    def strangers(self, nodes):
        """Each is dropped with one line and has heard nothing but a nonce."""
        for name, node in nodes.items():
            nonce = peer.record(peer.NONCE, bytes(32))
            sealed = struct.pack("<Bi", 2, -1) + bytes(32) + peer.client_hello()
            for said, heard in ((peer.record(peer.HELLO, peer.client_hello()), 0), (nonce + nonce, 48),
                                (nonce + peer.record(peer.HELLO, peer.client_hello()), 48),
                                (nonce + peer.record(peer.HELLO, sealed), 48), (nonce + peer.record(peer.REFUSAL, sealed), 48)):
                with socket.create_connection(("127.0.0.1", self.ports[name]), timeout=cluster.PATIENCE_S) as stranger:
                    stranger.sendall(said)
                    answer = b""
                    try:
                        while more := stranger.recv(1 << 16):
                            answer += more
                    except ConnectionResetError:
                        pass  # what it had not read
                    self.assertIn(len(answer), (0, heard), said)
            self.await_text(node, r"(?m)^W.* dropped a connection from 127\.0\.0\.1:\d+: it (has|sent)")

    def test_over_tls_the_same_comes_out(self):
        self.make_job(iterations=30, snapshot=30)
        models = []
        for name, extra in (("clear", ""), ("tls", "transport { tls: true }")):
            names = self.make_table(conv=2, fc=2, extra=extra)
            nodes = self.start_all(names, self.token)
            self.expect_all(nodes.values(), 0, "Optimization Done")
            models.append(self.read("out_iter_30.caffemodel"))
            for node in nodes.values():
                self.assertEqual("connections are encrypted (TLS 1.3)" in node.text(), name == "tls")
        self.assertEqual(models[0], models[1])

    def test_over_tls_strangers_hear_nothing(self):
        self.make_job(snapshot=1000000)
        names = self.make_table(conv=1, fc=2, extra="transport { tls: true }")
        nodes = self.start_all(names, self.token)
        self.await_training(nodes.values())
        for name, node in nodes.items():
            nonce = peer.record(peer.NONCE, bytes(32))
            heard, said = b"", nonce + peer.record(peer.HELLO, peer.client_hello())
            with socket.create_connection(("127.0.0.1", self.ports[name]), timeout=cluster.PATIENCE_S) as stranger:
                stranger.sendall(said)
                try:
                    while more := stranger.recv(1 << 16):
                        heard += more
                except ConnectionResetError:
                    pass  # what it had not read
            self.assertNotIn(b"HPNODE", heard)
            self.await_text(node, r"(?m)^W.* dropped a connection from 127\.0\.0\.1:\d+: it does not speak TLS")
        self.expect_readers((self.read_key(), 0, "accuracy = "), ("", 2, "needs the job's token"),
                            (self.new_token("other"), 4, "it have the same --token_file"))
        nodes["conv0"].send(signal.SIGTERM)
        self.expect_all(nodes.values(), 5, "Optimization stopped early")

    def test_tls_needs_a_token(self):
        self.make_job()
        self.make_table(conv=1, fc=1, extra="transport { tls: true }")
        self.expect_exit(self.start(name="conv0"), 2, r"tls: true \} needs the job's token: --token_file")
        self.make_table(conv=1, fc=1, extra="transport { tls: true kind: VERBS }")
        self.expect_exit(self.start(self.token, name="conv0"), 2, "RDMA encrypts nothing")

    def test_a_node_without_it_does_not_get_in(self):
        self.make_job()
        names = self.make_table(conv=2, fc=1)
        nodes = [self.start(self.token, name=names[0]), self.start(self.token, name=names[1])]
        self.expect_exit(self.start("--wait=3", name=names[2]), 4, "did not appear within 3 s")
        self.expect_exit(self.start("--wait=3", self.new_token("other"), name=names[2]), 4, "same --token_file")
        good = self.start(self.token, name=names[2])
        self.await_training([good])
        for node in nodes + [good]:
            node.send(signal.SIGTERM)
        self.expect_all(nodes + [good], 5, "Optimization stopped early")

    def test_who_writes_a_token_or_a_key_hears_what_to_do_with_it(self):
        path, key = self.path("job.token"), self.path("read.key")
        for flags, said in ((["--new_token=" + path], "%s: a new token, readable by you alone; copy it to all hosts of the job "
                             "and start each node with --token_file=%s\n" % (path, path)),
                            (["--token_file=" + path, "--read_key=" + key], "%s: the read key of %s, readable by you alone; "
                             "give it to who may read the weights of the job: model_test --token_file=%s\n" % (key, path, key))):
            self.assertEqual(cluster.run_tool("hproute", *flags), (0, said))
        for name in ("job.token", "read.key"):
            self.assertEqual(os.stat(self.path(name)).st_mode & 0o777, 0o600)

    def test_a_token_that_others_can_read_is_refused(self):
        self.make_job()
        self.make_table(conv=1, fc=1)
        os.chmod(self.path("token"), 0o644)
        self.expect_exit(self.start(self.token, name="conv0"), 2, r"others can read or write it \(mode 644\)")
        os.chmod(self.path("token"), 0o600)
        status, text = cluster.run_tool("hproute", self.token, "--read_key=" + self.path("key"))
        self.assertEqual(status, 0, text)
        self.expect_exit(self.start("--token_file=" + self.path("key"), name="conv0"), 2, "a node needs the job's token")
        self.expect_exit(self.start("--token_file=" + self.path("absent"), name="conv0"), 2, "absent: No such file")
        status, text = cluster.run_tool("hproute", "--new_token=" + self.path("token"))
        self.assertEqual(status, 2, text)
        self.assertIn("exists already", text)
        secret = self.read("token").split()[-1].decode()
        for process in self.processes:
            self.assertNotIn(secret, process.text())
        self.assertFalse(re.search(secret, text))


if __name__ == "__main__":
    cluster.main()
