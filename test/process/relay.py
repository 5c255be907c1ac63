"""A port that leads to another one."""

import queue
import socket
import threading
import time


class Relay:
    """Carries connections to a port of its own to another one, and keeps all bytes that pass."""

    def __init__(self, test, to=0, host="127.0.0.1", port=0, target="127.0.0.1", there_s=0.0, back_s=0.0):
        """Listens on host:port until the test ends. `to`: a port of `target`.
        `there_s`, `back_s`: how long what a caller sends is held, and what it gets."""
        self.to, self.target, self.delays_s, self.seen = to, target, (there_s, back_s), bytearray()
        self.socket = socket.create_server((host, port))
        self.port = self.socket.getsockname()[1]
        test.addCleanup(self.socket.close)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                one = self.socket.accept()[0]
            except OSError:  # closed
                return
            try:
                other = socket.create_connection((self.target, self.to))
            except OSError:
                one.close()
                continue
            threading.Thread(target=self.join, args=(one, other), daemon=True).start()

    def join(self, one, other):
        with one, other:
            for end in (one, other):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            ways = [threading.Thread(target=self.carry, args=way, daemon=True)
                    for way in ((one, other, self.delays_s[0]), (other, one, self.delays_s[1]))]
            for way in ways:
                way.start()
            for way in ways:
                way.join()

    def carry(self, source, target, delay_s):
        held = queue.Queue()
        threading.Thread(target=self.receive, args=(source, held, delay_s), daemon=True).start()
        try:
            while True:
                due_s, part = held.get()
                time.sleep(max(0.0, due_s - time.monotonic()))
                if not part:
                    target.shutdown(socket.SHUT_WR)
                    return
                target.sendall(part)
        except OSError:
            pass

    def receive(self, source, held, delay_s):
        part = b"more"
        while part:
            try:
                part = source.recv(65536)
            except OSError:
                part = b""
            self.seen += part
            held.put((time.monotonic() + delay_s, part))
