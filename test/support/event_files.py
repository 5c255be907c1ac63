"""Reads TensorBoard's event files by their format alone: no TensorFlow, no protobuf library.

Source: TensorFlow, tensorflow/core/lib/io/record_writer.cc, tensorflow/core/util/event.proto and
tensorflow/core/framework/summary.proto.
"""
import os
import struct

from caffe_wire import fields

WALL_TIME, STEP, FILE_VERSION, SUMMARY, SESSION_LOG = 1, 2, 3, 5, 7
VALUE, TAG, SIMPLE_VALUE, STATUS, START = 1, 1, 2, 1, 1


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(path):
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at < len(data):
        length, crc = struct.unpack_from("<QI", data, at)
        content = data[at + 12:at + 12 + length]
        assert crc == masked(data[at:at + 8]), "the checksum of a length"
        assert len(content) == length and struct.unpack_from("<I", data, at + 12 + length) == (masked(content),), \
            "the checksum of a record"
        yield content
        at += 16 + length


def event_files(folder):
    """In TensorBoard's order."""
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if "tfevents" in name]


def read_file(path):
    """(first step of the start, [(wall time, step, {tag: value}), ...])."""
    start, points = None, []
    for number, record in enumerate(records(path)):
        event = dict(fields(record))
        time, = struct.unpack("<d", event[WALL_TIME])
        if number == 0:
            assert bytes(event[FILE_VERSION]) == b"brain.Event:2", event
        elif SESSION_LOG in event:
            assert dict(fields(event[SESSION_LOG])) == {STATUS: START}
            start = event.get(STEP, 0)
        else:
            values = {}
            for field, value in fields(event[SUMMARY]):
                content = dict(fields(value))
                assert field == VALUE and set(content) == {TAG, SIMPLE_VALUE}, content
                values[bytes(content[TAG]).decode()], = struct.unpack("<f", content[SIMPLE_VALUE])
            points.append((time, event.get(STEP, 0), values))
    return start, points


def curves(folder):
    """{tag: [(step, value), ...]} as TensorBoard shows them: a start voids what earlier files have from its step on."""
    found = {}
    for path in event_files(folder):
        start, points = read_file(path)
        for curve in found.values():
            curve[:] = [point for point in curve if point[0] < start]
        for _, step, values in points:
            for tag, value in values.items():
                found.setdefault(tag, []).append((step, value))
    return found
