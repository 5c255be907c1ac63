"""A peer of a node that may say whatever it likes: speaks the bytes of transport/README.md from Python."""

import os
import re
import socket
import struct

MAGIC = b"HPNODE\r\n"
HELLO, READY, REFUSAL, NONCE = 1, 2, 3, 7    # records
_HEADER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src", "proto", "node_protocol.h")
with open(_HEADER, encoding="utf-8") as header:
    PROTOCOL = int(re.search(r"kNodeProtocol = (\d+);", header.read())[1])
MESSAGE, GRANT, DATA, CANCEL, END = range(1, 6)  # frames
# Messages (scheduler/control/messages.h); 1 to 3 are the membership's.
REPORT, VERDICT, LABELS, STATISTICS, RENDEZVOUS, PULL_REQUEST, PULL_CHUNK = 10, 11, 12, 13, 14, 20, 21
SLICE = 0x80000000  # channel of a snapshot's slice


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def number_field(field, number):
    return varint(field << 3) + varint(number)


def bytes_field(field, data):
    return varint(field << 3 | 2) + varint(len(data)) + data


def client_hello(job="hpnode"):
    """What a tool that wants weights says of itself (Hello of src/proto/wire.proto)."""
    return number_field(1, PROTOCOL) + bytes_field(2, job.encode()) + bytes_field(4, b"a client") + number_field(14, 1)


def record(kind, body=b""):
    return MAGIC + struct.pack("<HHI", 2, kind, len(body)) + body


def frame(kind, payload=b"", index=0, generation=0, msg_id=0, size=0, channel=0):
    return struct.pack("<BBHIIIQQQII", kind, 0, 0, len(payload), index, generation, msg_id, size, 0, channel,
                       0) + payload


class Refused(Exception):
    pass


class Peer:
    """A connection that has been admitted."""

    def __init__(self, port, hello, timeout_s=60):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self.socket.sendall(record(HELLO, hello))
        kind, body = self.read_record()
        if kind != HELLO:
            self.socket.close()
            raise Refused(body.decode(errors="replace"))
        self.socket.sendall(record(READY))

    def read(self, size):
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def read_record(self):
        preamble = self.read(16)
        _, kind, length = struct.unpack("<HHI", preamble[8:])
        return kind, self.read(length)

    def send(self, data):
        """Sends as far as the node takes it."""
        try:
            self.socket.sendall(data)
        except OSError:
            pass  # it has closed the connection already

    def is_dropped(self):
        """Reads until the node closes the connection."""
        try:
            while self.socket.recv(1 << 16):
                pass
            return True
        except socket.timeout:
            return False
        except OSError:
            return True

    def close(self):
        self.socket.close()
