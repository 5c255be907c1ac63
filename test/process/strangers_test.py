"""What strangers send to a node's port costs them their connection, and the job nothing."""

import os
import random
import re
import signal
import socket
import struct

import cluster
import peer


class StrangersTest(cluster.JobTest):

    def strangers(self, port):
        """Connects in every rude way. Returns the sockets that stay open."""
        draw = random.Random(3)
        kept = []
        rubbish = bytes(draw.randrange(256) for _ in range(5000))
        messages = [rubbish, b"", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\xff" * 4096, b"\x00" * 4096,
                    struct.pack("<IIQ", 0x7fffffff, 0x7fffffff, 2 ** 63), b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
                    self.hello[:6] + b"\xff" * 64]  # a node's first words, and then lengths that nobody can mean
        for message in messages:
            for keep in (False, True):
                stranger = socket.create_connection(("127.0.0.1", port), timeout=cluster.PATIENCE_S)
                try:
                    stranger.sendall(message)
                except OSError:
                    pass  # it was dropped already
                if keep:
                    kept.append(stranger)
                else:
                    stranger.close()
        return kept

    def record_hello(self):
        """What a node says first to one of a lower rank, which it dials."""
        self.make_table(conv=2, fc=0, name="recorded.prototxt", micro_batches=1)
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", self.ports["conv0"]))
            listener.listen()
            listener.settimeout(cluster.PATIENCE_S)
            node = self.start(name="conv1", table="recorded.prototxt")
            peer, _ = listener.accept()
            with peer:
                peer.settimeout(cluster.PATIENCE_S)
                hello = peer.recv(4096)
            node.popen.kill()
        self.assertGreater(len(hello), 16)
        return hello

    def test_a_node_of_another_version(self):
        self.make_job()
        hello = bytearray(self.record_hello())
        at = hello.index(bytes([1 << 3, peer.PROTOCOL]), 16)
        hello[at + 1] -= 1
        node = self.start(name="conv0", table="recorded.prototxt")
        self.await_text(node, "waiting for|listening|node conv0")
        with socket.create_connection(("127.0.0.1", self.ports["conv0"]), timeout=cluster.PATIENCE_S) as other:
            other.sendall(hello)
            self.expect_exit(node, 2, r'node "conv1" speaks version %d of the nodes\' protocol, node "conv0" version %d; '
                             "install the same hpnode everywhere" % (peer.PROTOCOL - 1, peer.PROTOCOL))

    def test_strangers_and_a_second_job(self):
        self.make_job(snapshot=1000000)
        self.hello = self.record_hello()
        names = self.make_table(conv=2, fc=2)
        nodes = self.start_all(names)
        self.await_training(nodes.values(), 5)
        kept = [stranger for name in names for stranger in self.strangers(self.ports[name])]
        second = self.second_job(names)
        self.expect_exit(second, 2, r"refused us: .*has a different routing table")
        self.await_training(nodes.values())
        nodes["conv0"].send(signal.SIGINT)
        self.expect_all(nodes.values(), 5, "Optimization stopped early")
        for stranger in kept:
            stranger.close()
        for node in nodes.values():
            self.assertEqual(node.errors(), [])
            self.assertRegex(node.text(), r"(?m)^W.*(dropped|refused) a connection", node.name)
        last = int(re.search(r"Snapshotting solver state .*_iter_(\d+)\.solverstate", nodes["conv0"].text()).group(1))
        disturbed = self.read("out_iter_%d.caffemodel" % last)

        os.remove(self.path("out_iter_%d.caffemodel" % last))
        self.make_job(iterations=last, snapshot=1000000)
        self.run_job(names)
        self.assertEqual(self.read("out_iter_%d.caffemodel" % last), disturbed)

    def clients_that_lie(self, port, first):
        """Sends, as a client, everything that a client may not send. Returns how many were dropped for it."""
        lies = [peer.frame(peer.MESSAGE, b"x" * 10, index=kind) for kind in
                (1, 2, 3, peer.REPORT, peer.VERDICT, peer.LABELS, peer.STATISTICS, peer.RENDEZVOUS, peer.PULL_CHUNK, 99)]
        lies += [peer.frame(peer.MESSAGE, b"x" * 10, index=peer.PULL_REQUEST),
                 peer.frame(peer.GRANT, msg_id=7, size=64, channel=1)]
        # Places for the slices of a later snapshot, which the nodes would write to.
        lies.append(b"".join(peer.frame(peer.GRANT, index=i, msg_id=clock, size=4 * 500, channel=peer.SLICE | i)
                             for clock in range(1, 200) for i in range(16)))
        lies.append(peer.frame(peer.MESSAGE, index=peer.PULL_REQUEST) * (1 if first else 2))
        for lie in lies[:-1]:
            liar = peer.Peer(port, peer.client_hello())
            liar.send(lie)
            self.assertTrue(liar.is_dropped(), lie[:48])
            liar.close()
        if not first:  # only the first node has weights to give
            asker = peer.Peer(port, peer.client_hello())
            asker.send(lies[-1])
            self.assertTrue(asker.is_dropped())
            asker.close()
        return len(lies) - (1 if first else 0)

    def test_clients_that_lie(self):
        self.make_job(snapshot=1000000)
        names = self.make_table(conv=2, fc=2)
        nodes = self.start_all(names)
        self.await_training(nodes.values(), 5)
        for name in names:
            dropped = self.clients_that_lie(self.ports[name], first=name == names[0])
            said = r"(?m)^W.* closing the connection of client"
            self.await_text(nodes[name], said, count=dropped)  # a thread of its own writes the log
            self.assertEqual(len(re.findall(said, nodes[name].text())), dropped, "one line for each")

        idle, refused = [], 0
        for _ in range(100):
            try:
                idle.append(peer.Peer(self.ports[names[0]], peer.client_hello()))
            except peer.Refused as reason:
                refused += 1
                self.assertIn("try again later", str(reason))
        self.assertGreater(refused, 50)

        nodes["conv0"].send(signal.SIGHUP)
        self.await_text(nodes["conv0"], r"Snapshotting solver state")
        nodes["conv0"].send(signal.SIGINT)
        self.expect_all(nodes.values(), 5, "Optimization stopped early")
        for node in nodes.values():
            self.assertEqual(node.errors(), [])
        for client in idle:
            client.close()
        last = int(re.findall(r"Snapshotting solver state .*_iter_(\d+)\.solverstate", nodes["conv0"].text())[-1])
        disturbed = self.read("out_iter_%d.caffemodel" % last)
        os.remove(self.path("out_iter_%d.caffemodel" % last))
        self.make_job(iterations=last, snapshot=1000000)
        self.run_job(names)
        self.assertEqual(self.read("out_iter_%d.caffemodel" % last), disturbed)

    def second_job(self, names):
        """The last node of another table, whose other nodes have the addresses of ours: it dials them."""
        ours = dict(self.ports)
        others = self.make_table(conv=2, fc=2, name="second.prototxt", cut="ip2", before="drop",
                                 ports=[ours[name] for name in names[:3]] + cluster.free_ports(1))
        self.ports = ours
        return self.start(name=others[-1], table="second.prototxt", log="second")


if __name__ == "__main__":
    cluster.main()
