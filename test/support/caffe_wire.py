"""Reads and writes .caffemodel files by the protobuf wire format alone: no protobuf library, no schema file.

Source: protobuf.dev/programming-guides/encoding and the field numbers of Caffe's caffe.proto.
"""
import numpy as np

NET_LAYERS_V1, NET_LAYER = 2, 100
LAYER_NAME, LAYER_BLOBS = 1, 7
V1_NAME, V1_BLOBS = 4, 6
BLOB_NUM, BLOB_CHANNELS, BLOB_HEIGHT, BLOB_WIDTH, BLOB_DATA, BLOB_SHAPE = 1, 2, 3, 4, 5, 7
STATE_ITER, STATE_MODEL, STATE_HISTORY = 1, 2, 3


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    """Yields (field number, value): an int for varints, a memoryview for everything else."""
    at, data = 0, memoryview(data)
    while at < len(data):
        tag, at = read_varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = read_varint(data, at)
        else:
            if kind == 2:
                size, at = read_varint(data, at)
            elif kind in (1, 5):
                size = 8 if kind == 1 else 4
            else:
                raise ValueError(f"wire type {kind} at byte {at}")
            if at + size > len(data):
                raise ValueError(f"truncated at byte {at}")
            value, at = data[at:at + size], at + size
        yield tag >> 3, value


def read_dims(data):
    dims = []
    for field, value in fields(data):
        if field != 1:
            continue
        if isinstance(value, int):
            dims.append(value)
            continue
        at = 0
        while at < len(value):
            dim, at = read_varint(value, at)
            dims.append(dim)
    return dims


def read_blob(data):
    legacy, shape, parts = [0, 0, 0, 0], None, []
    for field, value in fields(data):
        if field in (BLOB_NUM, BLOB_CHANNELS, BLOB_HEIGHT, BLOB_WIDTH):
            legacy[field - 1] = value
        elif field == BLOB_SHAPE:
            shape = read_dims(value)
        elif field == BLOB_DATA:
            parts.append(bytes(value))
    return np.frombuffer(b"".join(parts), "<f4").reshape(legacy if shape is None else shape)


def read_caffemodel(path):
    """{layer name: [array, ...]} of the layers that have blobs."""
    with open(path, "rb") as file:
        data = file.read()
    model = {}
    for field, value in fields(data):
        if field not in (NET_LAYER, NET_LAYERS_V1):
            continue
        name_field, blobs_field = (LAYER_NAME, LAYER_BLOBS) if field == NET_LAYER else (V1_NAME, V1_BLOBS)
        name, blobs = "", []
        for inner, content in fields(value):
            if inner == name_field:
                name = bytes(content).decode()
            elif inner == blobs_field:
                blobs.append(read_blob(content))
        if blobs:
            model[name] = blobs
    return model


def read_solverstate(path):
    """(iteration, name of the model, [history, ...])."""
    with open(path, "rb") as file:
        data = file.read()
    iteration, model, history = 0, "", []
    for field, value in fields(data):
        if field == STATE_ITER:
            iteration = value
        elif field == STATE_MODEL:
            model = bytes(value).decode()
        elif field == STATE_HISTORY:
            history.append(read_blob(value))
    return iteration, model, history


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def message(field, content):
    return varint(field << 3 | 2) + varint(len(content)) + content


def blob_bytes(array):
    dims = b"".join(varint(dim) for dim in array.shape)
    return message(BLOB_DATA, np.ascontiguousarray(array, "<f4").tobytes()) + message(BLOB_SHAPE, message(1, dims))


def write_solverstate(path, iteration, model, history):
    """As Caffe writes it: @param model path of the .caffemodel. @param history [array, ...]."""
    with open(path, "wb") as file:
        file.write(varint(STATE_ITER << 3) + varint(iteration) + message(STATE_MODEL, model.encode()))
        file.write(b"".join(message(STATE_HISTORY, blob_bytes(array)) for array in history))


def write_caffemodel(path, model):
    """Writes {layer name: [array, ...]}: all that a reader of weights looks at."""
    with open(path, "wb") as file:
        for name, blobs in model.items():
            layer = message(LAYER_NAME, name.encode())
            layer += b"".join(message(LAYER_BLOBS, blob_bytes(blob)) for blob in blobs)
            file.write(message(NET_LAYER, layer))
