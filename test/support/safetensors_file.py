"""Reads and writes safetensors files with NumPy alone.

Source: github.com/huggingface/safetensors, README.md, "Format".
"""
import json
import struct

import numpy as np

DTYPES = {"F32": "<f4", "F16": "<f2", "I64": "<i8"}


def write(path, tensors):
    """`tensors`: {name: array of float32, float16, int64, or uint16: the upper halves of float32, BF16}."""
    header, parts, begin = {"__metadata__": {"format": "pt"}}, [], 0
    for name, array in tensors.items():
        dtype = {"f4": "F32", "f2": "F16", "u2": "BF16", "i8": "I64"}[array.dtype.str[1:]]
        parts.append(np.ascontiguousarray(array).tobytes())
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [begin, begin + len(parts[-1])]}
        begin += len(parts[-1])
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))


def read(path):
    """{name: array}."""
    with open(path, "rb") as file:
        data = file.read()
    size, = struct.unpack_from("<Q", data)
    tensors = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            tensors[name] = np.frombuffer(data[8 + size + begin:8 + size + end],
                                          DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors
