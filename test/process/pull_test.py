"""model_test pulls the weights of a running job; whatever becomes of the puller, training goes on as if nobody asked."""

import re
import signal
import socket
import threading

import cluster

HIDDEN = 5000  # 2 MB of weights: several chunks
MOST_OF_A_CHUNK = 500000


class Relay:
    """Stands between a puller and a node: passes `limit` bytes of the node on, and then nothing more, or hangs up."""

    def __init__(self, test, port, limit, hang_up):
        self.limit, self.hang_up = limit, hang_up
        self.at_limit = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.node = socket.create_connection(("127.0.0.1", port))
        self.client = None
        threading.Thread(target=self.forth, daemon=True).start()
        test.addCleanup(self.close)

    def forth(self):
        self.client, _ = self.listener.accept()
        threading.Thread(target=self.back, daemon=True).start()
        self.copy(self.client, self.node, 1 << 60)

    def back(self):
        self.copy(self.node, self.client, self.limit)
        self.at_limit.set()
        if self.hang_up:
            self.close()

    @staticmethod
    def copy(source, sink, limit):
        try:
            while limit > 0:
                data = source.recv(min(65536, limit))
                if not data:
                    return
                sink.sendall(data)
                limit -= len(data)
        except OSError:
            pass  # one side has gone

    def close(self):
        for end in (self.listener, self.node, self.client):
            if end is None:
                continue
            try:
                end.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads it
            except OSError:
                pass
            end.close()


class PullTest(cluster.JobTest):

    def start_job(self, iterations=1000000):
        self.make_job(iterations=iterations, snapshot=1000000, hidden=HIDDEN)
        return self.start_all(self.names)

    def train(self, iterations):
        """Trains undisturbed. Returns the model's name."""
        nodes = self.start_job(iterations)
        self.expect_all(nodes.values(), 0, "Optimization Done")
        return "out_iter_%d.caffemodel" % iterations

    def stop(self, nodes):
        """Ends training at any iteration, which it returns."""
        nodes["conv1"].send(signal.SIGINT)
        self.expect_all(nodes.values(), 5, "Optimization stopped early")
        for node in nodes.values():
            self.assertEqual(node.errors(), [])
        return int(re.search(r"Snapshotting solver state .*_iter_(\d+)\.solverstate", nodes["conv0"].text()).group(1))

    def evaluator(self, weights, timeout_s=300):
        return [cluster.program("model_test"), "--model=" + self.path("net.prototxt"), "--cache_dir=none",
                "--threads=1", "--iterations=4", "--timeout_s=%d" % timeout_s, weights]

    def evaluate(self, weights, status=0):
        """Runs model_test. Returns all that it said."""
        found, text = cluster.run_tool(*self.evaluator(weights))
        self.assertEqual(found, status, text)
        return text

    @staticmethod
    def outputs(text):
        return re.findall(r"\] ((?:Batch|accuracy|loss) .*)", text)

    def start_puller(self, relay):
        """A model_test that finds the first node behind `relay`."""
        table = self.read("table.prototxt").decode().replace("port: %d " % self.ports["conv0"], "port: %d " % relay.port)
        routing = "--routing=" + self.write("relay%d.prototxt" % relay.port, table)
        puller = cluster.Process("puller", self.evaluator(routing), self.path("puller%d.log" % relay.port), None)
        self.processes.append(puller)
        self.assertTrue(relay.at_limit.wait(cluster.PATIENCE_S), "the puller got no weights")
        return puller

    def test_weights_of_a_running_job(self):
        self.names = self.make_table(conv=2, fc=2)
        nodes = self.start_job()
        self.await_training(nodes.values(), 5)
        said = [self.evaluate("--routing=" + self.path("table.prototxt")) for _ in range(2)]
        last = self.stop(nodes)
        pulled = [int(re.search(r"Weights of iteration (\d+) pulled from 127\.0\.0\.1", text).group(1)) for text in said]
        self.assertLess(pulled[0], pulled[1])
        trained = self.read("out_iter_%d.caffemodel" % last)

        self.assertEqual(self.read(self.train(last)), trained, "the pulls changed the result")
        for iteration, text in zip(pulled, said):
            expected = self.outputs(self.evaluate("--weights=" + self.path(self.train(iteration))))
            self.assertRegex("\n".join(expected), r"accuracy = [\d.]+\nloss = [\d.]+ ")
            self.assertEqual(self.outputs(text), expected)

        status, text = cluster.run_tool(*self.evaluator("--weights=" + self.path("out_iter_%d.caffemodel" % last)),
                                        "--device=gpu0")
        self.assertEqual(status, 2, text)
        self.assertRegex(text, r'model_test: device "?gpu0"?[:;] .*(expected "cpu", "cuda" or "cuda:N"|built without CUDA)')

        gone = self.evaluator("--routing=" + self.path("table.prototxt"), timeout_s=1)
        status, text = cluster.run_tool(*gone)
        self.assertEqual(status, 4, text)
        self.assertRegex(text, r"conv0 \(127\.0\.0\.1:\d+\) did not appear within 1 s")

    def test_pullers_that_stall_or_die(self):
        self.names = self.make_table(conv=2, fc=2)
        nodes = self.start_job()
        self.await_training(nodes.values(), 5)
        port = self.ports["conv0"]
        stalled = self.start_puller(Relay(self, port, MOST_OF_A_CHUNK, hang_up=False))
        cut_off = self.start_puller(Relay(self, port, MOST_OF_A_CHUNK, hang_up=True))
        self.expect_exit(cut_off, 4, "the job ended before it sent its weights")
        killed = self.start_puller(Relay(self, port, 3 * MOST_OF_A_CHUNK, hang_up=False))
        killed.send(signal.SIGKILL)
        killed.wait()
        stopped = self.start_puller(Relay(self, port, 3 * MOST_OF_A_CHUNK, hang_up=False))
        stopped.send(signal.SIGSTOP)
        self.await_training(nodes.values(), 20)
        self.assertRegex(self.evaluate("--routing=" + self.path("table.prototxt")), "accuracy = ")
        self.assertIsNone(stalled.popen.poll(), stalled.text())

        last = self.stop(nodes)
        trained = self.read("out_iter_%d.caffemodel" % last)
        self.assertEqual(self.read(self.train(last)), trained, "the pullers changed the result")


if __name__ == "__main__":
    cluster.main()
