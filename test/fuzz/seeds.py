#!/usr/bin/env python3
"""Writes the inputs that a fuzz target begins with.

usage: seeds.py TARGET FOLDER

Lawful ones, so that a fuzzer need not guess magic numbers and lengths before it gets anywhere. For targets that read
text also FOLDER.dict, the names of its schema.
"""
import base64
import os
import random
import re
import struct
import sys
import zlib

PAGE = 512
NO_PAGE = (1 << 64) - 1


# --- protobuf's wire format

def varint(value):
    out = b""
    value &= (1 << 64) - 1
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def fixed64(field, value):
    return varint(field << 3 | 1) + struct.pack("<Q", value)


def double(field, value):
    return varint(field << 3 | 1) + struct.pack("<d", value)


def part(field, content):
    content = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(content)) + content


def floats(field, values):
    return part(field, struct.pack("<%df" % len(values), *values))


def blob(dims, values):
    return floats(5, values) + part(7, part(1, b"".join(map(varint, dims))))


# --- databases

def lmdb_meta(page, transaction, root, depth, records, last_page):
    tree = struct.pack("<IHHQQQQQ", 0, 0, depth, 0, 1, 0, records, root)
    free = struct.pack("<IHHQQQQQ", PAGE, 8, 0, 0, 0, 0, 0, NO_PAGE)
    return lmdb_page(struct.pack("<QHHHH", page, 0, 8, 0, 0) + struct.pack("<IIQQ", 0xBEEFC0DE, 1, 0, 1 << 20) + free +
                     tree + struct.pack("<QQ", last_page, transaction))


def lmdb_page(content):
    return content + bytes(PAGE - len(content))


def lmdb_nodes(page, flags, nodes):
    body, offsets = b"", []
    for node in nodes:
        body = node + bytes(len(node) % 2) + body
        offsets.append(PAGE - len(body))
    head = struct.pack("<QHHHH", page, 0, flags, 16 + 2 * len(nodes), PAGE - len(body))
    head += struct.pack("<%dH" % len(offsets), *offsets)
    return head + bytes(PAGE - len(head) - len(body)) + body


def lmdb_leaf(key, value):
    return struct.pack("<HHHH", len(value), 0, 0, len(key)) + key + value


def lmdb_overflow(key, size, page):
    return struct.pack("<HHHH", size, 0, 1, len(key)) + key + struct.pack("<Q", page)


def lmdb_branch(key, page):
    return struct.pack("<HHHH", page, 0, 0, len(key)) + key


def lmdb_pages():
    empty = lmdb_meta(0, 0, NO_PAGE, 0, 0, 1)
    one = [lmdb_leaf(b"a", b"1"), lmdb_leaf(b"b", b"22"), lmdb_overflow(b"c", 600, 3)]
    run = struct.pack("<QHHI", 3, 0, 4, 2) + bytes(2 * PAGE - 16)
    yield empty + lmdb_meta(1, 0, NO_PAGE, 0, 0, 1)
    yield empty + lmdb_meta(1, 1, 2, 1, 3, 4) + lmdb_nodes(2, 2, one) + run
    yield (empty + lmdb_meta(1, 1, 4, 2, 3, 4) + lmdb_nodes(2, 2, [lmdb_leaf(b"a", b"1")]) +
           lmdb_nodes(3, 2, [lmdb_leaf(b"b", b"2"), lmdb_leaf(b"c", b"3")]) +
           lmdb_nodes(4, 1, [lmdb_branch(b"", 2), lmdb_branch(b"b", 3)]))


def index_cache():
    head = b"hpnode index 2\n" + struct.pack("<Q", 8) + b"identity"
    yield head + struct.pack("<QQQ", 0, 0, 0)
    yield head + struct.pack("<QQQ", 2, 0, 3) + b"abc" + struct.pack("<QQ", 1, 3)
    yield head + struct.pack("<QQQ", 2, 2, 3) + b"abc" + struct.pack("<QQQQQQ", 1, 3, 40, 5, 50, 6)


# --- images

def png(width, height, color, channels, extra=(), interlaced=0):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + bytes(range(width * channels)) for _ in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, color, 0, 0, interlaced)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) +
            b"".join(chunk(kind, data) for kind, data in extra) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


# What a camera notes: turned by 90 degrees.
EXIF = b"II*\0" + struct.pack("<IHHHIHHI", 8, 1, 0x112, 3, 1, 6, 0, 0)
# One gray pixel.
JPEG = base64.b64decode(
    "/9j/2wBDAAMCAgICAgMCAgIDAwMDBAYEBAQEBAgGBgUGCQgKCgkICQkKDA8MCgsOCwkJDRENDg8QEBEQCgwSExIQEw8QEBD/yQALCAABAAEB"
    "AREA/8wABgAQEAX/2gAIAQEAAD8A0s8g/9k=")


def image():
    yield png(3, 2, 2, 3)
    yield png(3, 2, 0, 1)
    yield png(3, 2, 6, 4)
    yield png(3, 2, 3, 1, [(b"PLTE", bytes(range(12))), (b"tRNS", bytes(range(4)))])
    yield png(1, 1, 2, 3, [(b"eXIf", EXIF)], interlaced=1)
    yield JPEG
    yield JPEG[:2] + b"\xff\xe1" + struct.pack(">H", len(EXIF) + 8) + b"Exif\0\0" + EXIF + JPEG[2:]


def datum():
    raw = number(1, 3) + number(2, 4) + number(3, 4) + part(4, bytes(48)) + number(5, 1)
    for choice in (0, 1, 2, 35, 16):
        yield bytes([choice]) + raw
    yield b"\0" + number(1, 1) + number(2, 1) + number(3, 2) + b"".join(
        varint(6 << 3 | 5) + struct.pack("<f", value) for value in (1, 2))


def mean_file():
    yield blob([1, 3, 1, 2], range(6))
    yield number(1, 1) + number(2, 1) + number(3, 2) + number(4, 2) + floats(5, range(4))


# --- snapshots

def caffemodel():
    yield part(1, "net") + part(100, part(1, "ip") + part(2, "InnerProduct") + part(7, blob([2, 3], range(6))) +
                                part(7, blob([2], range(2))))
    legacy = number(1, 1) + number(2, 1) + number(3, 2) + number(4, 3) + floats(5, range(6))
    yield part(2, part(4, "ip") + number(5, 14) + part(6, legacy))
    yield part(100, part(1, "ip") + part(7, part(8, struct.pack("<2d", 1, 2)) + part(7, part(1, varint(2)))))


def safetensors():
    def file(header, values):
        return struct.pack("<Q", len(header)) + header.encode() + values

    entry = '"%s":{"dtype":"%s","shape":%s,"data_offsets":[%d,%d]}'
    yield file("{" + entry % ("w", "F32", "[1,2]", 0, 8) + "}", struct.pack("<2f", 1, -2))
    yield file('{"__metadata__":{"format":"pt"},%s,%s,%s}' % (
        entry % ("a.b", "BF16", "[2]", 0, 4), entry % ("h", "F16", "[]", 4, 6), entry % ("n", "I64", "[]", 6, 14)), b"v" * 14)
    # What is not parsed: nested deep, behind a name that has brackets and quotes.
    yield file(r"""{"a\"[{":1,'"':""" + "[" * 200 + "]" * 200 + "}", b"")
    yield file('{"w":[' + "{}," * 2000 + "{}]}", b"")


def snapshot():
    # FuzzedDataProvider takes numbers from the end; a string ends at a backslash and another byte.
    state = number(1, 7) + part(2, "a.caffemodel") + part(3, blob([1, 2], [1, 2])) + number(4, 1)
    manifest = ('iteration: 7 random_seed: 5 net_hash: 1 solver_hash: 2 division_hash: 3 '
                'node { name: "conv0" threads: 2 } loss_scaling { scale: 1024 finite_updates: 3 }').encode()
    for extra in (b"", number(1001, 1)):
        for last in (b"\1", b"\0"):
            yield state + extra + b"\\x" + manifest + last


# --- text

NET = """
layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: "x" batch_size: 8 } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1" convolution_param { num_output: 4 kernel_size: 3
        weight_filler { type: "xavier" } } }
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
layer { name: "norm1" type: "LRN" bottom: "conv1" top: "norm1" lrn_param { local_size: 3 } }
layer { name: "pool1" type: "Pooling" bottom: "norm1" top: "pool1" pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "ip1" type: "InnerProduct" bottom: "pool1" top: "ip1" inner_product_param { num_output: 5 }
        param { lr_mult: 1 } param { lr_mult: 2 } }
layer { name: "drop1" type: "Dropout" bottom: "ip1" top: "ip1" include { phase: TRAIN } }
layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2" inner_product_param { num_output: 3 } }
layer { name: "accuracy" type: "Accuracy" bottom: "ip2" bottom: "label" top: "accuracy" include { phase: TEST } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }
"""
BRANCHES = """
layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: "x" batch_size: 8 } }
layer { name: "a" type: "Convolution" bottom: "data" top: "a" convolution_param { num_output: 4 kernel_size: 1 } }
layer { name: "b" type: "Convolution" bottom: "data" top: "b" convolution_param { num_output: 4 pad: 1 kernel_size: 3 } }
layer { name: "sum" type: "Eltwise" bottom: "a" bottom: "b" top: "sum" eltwise_param { operation: SUM coeff: 1 coeff: 2 } }
layer { name: "cat" type: "Concat" bottom: "a" bottom: "sum" top: "cat" concat_param { axis: 1 } }
layer { name: "pool1" type: "Pooling" bottom: "cat" top: "pool1" pooling_param { pool: AVE kernel_size: 2 } }
layer { name: "flat" type: "Flatten" bottom: "pool1" top: "flat" }
layer { name: "ip1" type: "InnerProduct" bottom: "flat" top: "ip1" inner_product_param { num_output: 5 bias_term: false } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip1" bottom: "label" top: "loss" loss_weight: 2 }
"""
WINDOWS = """
layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: "x" batch_size: 8 } }
layer { name: "columns" type: "Im2col" bottom: "data" top: "columns" convolution_param { kernel_size: 2 stride: 2 pad: 1 } }
layer { name: "up" type: "Deconvolution" bottom: "columns" top: "up" convolution_param { num_output: 4 group: 2 stride: 2
        kernel_size: 4 dilation: 2 weight_filler { type: "bilinear" } } }
layer { name: "crop" type: "Crop" bottom: "up" bottom: "data" top: "crop" crop_param { offset: 1 } }
layer { name: "ip1" type: "InnerProduct" bottom: "crop" top: "ip1" inner_product_param { num_output: 5
        weight_filler { type: "positive_unitball" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip1" bottom: "label" top: "loss" }
"""
PIXELS = """
layer { name: "data" type: "HDF5Data" top: "data" top: "label" hdf5_data_param { source: "x" batch_size: 8 } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1" convolution_param { num_output: 3 kernel_size: 1 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "conv1" bottom: "label" top: "loss" loss_param { ignore_label: 255 } }
layer { name: "accuracy" type: "Accuracy" bottom: "conv1" bottom: "label" top: "accuracy" include { phase: TEST }
        accuracy_param { ignore_label: 255 top_k: 2 } }
layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1" pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "ip1" type: "InnerProduct" bottom: "pool1" top: "ip1" inner_product_param { num_output: 64 } }
layer { name: "image" type: "Reshape" bottom: "ip1" top: "image" reshape_param { shape { dim: 0 dim: 1 dim: 8 dim: 8 } } }
layer { name: "distance" type: "EuclideanLoss" bottom: "image" bottom: "data" top: "distance" }
"""
# Forms of 2014 and 2013, inputs of a deploy net, and BatchNorms as older files and NVIDIA's write them.
OF_2014 = """
layers { name: "data" type: DATA top: "data" top: "label" data_param { source: "x" batch_size: 8 scale: 0.5 } }
layers { name: "conv1" type: CONVOLUTION bottom: "data" top: "conv1" blobs_lr: 1 blobs_lr: 2
         weight_decay: 1 weight_decay: 0 convolution_param { num_output: 4 kernel_size: 3 } }
layers { name: "relu1" type: RELU bottom: "conv1" top: "conv1" }
layers { name: "ip1" type: INNER_PRODUCT bottom: "conv1" top: "ip1" param: "w" inner_product_param { num_output: 3 } }
layers { name: "loss" type: SOFTMAX_LOSS bottom: "ip1" bottom: "label" top: "loss" include { phase: TRAIN } }
"""
OF_2013 = """
layers { layer { name: "data" type: "data" source: "x" batchsize: 8 scale: 0.5 cropsize: 6 mirror: true }
         top: "data" top: "label" }
layers { layer { name: "pad1" type: "padding" pad: 1 } bottom: "data" top: "pad1" }
layers { layer { name: "conv1" type: "conv" num_output: 4 kernelsize: 3 group: 2 stride: 1 blobs_lr: 1 weight_decay: 1 }
         bottom: "pad1" top: "conv1" }
layers { layer { name: "pool1" type: "pool" pool: AVE kernelsize: 2 stride: 2 } bottom: "conv1" top: "pool1" }
layers { layer { name: "norm1" type: "lrn" local_size: 3 alpha: 0.1 beta: 0.75 } bottom: "pool1" top: "norm1" }
layers { layer { name: "ip1" type: "innerproduct" num_output: 3 biasterm: false } bottom: "norm1" top: "ip1" }
layers { layer { name: "drop1" type: "dropout" dropout_ratio: 0.3 } bottom: "ip1" top: "ip1" }
layers { layer { name: "loss" type: "softmax_loss" } bottom: "ip1" bottom: "label" top: "loss" }
"""
OLD_INPUTS = """
input: "data" input_dim: 2 input_dim: 3 input_dim: 6 input_dim: 6
layer { name: "ip1" type: "InnerProduct" bottom: "data" top: "ip1" inner_product_param { num_output: 3 } }
"""
OLD_NORMS = """
layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: "x" batch_size: 8 } }
layer { name: "norm1" type: "BatchNorm" bottom: "data" top: "norm1" param { lr_mult: 0 } param { lr_mult: 0 }
        param { lr_mult: 0 } batch_norm_param { use_global_stats: false } }
layer { name: "norm2" type: "BatchNorm" bottom: "norm1" top: "norm2" param { lr_mult: 1 decay_mult: 0 }
        param { lr_mult: 1 } batch_norm_param { scale_bias: true moving_average_fraction: 0.9 } }
layer { name: "ip1" type: "InnerProduct" bottom: "norm2" top: "ip1" inner_product_param { num_output: 3 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip1" bottom: "label" top: "loss" }
"""
OLD_SOLVER = """
net: "net.prototxt" base_lr: 0.1 lr_policy: "fixed" solver_type: ADAGRAD delta: 0.1 max_iter: 10 rampup_interval: 5
rampup_lr: 0.01
"""
TABLES = """
layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: "x" batch_size: 8 } }
layer { name: "words" type: "ArgMax" bottom: "data" top: "words" argmax_param { top_k: 2 axis: 1 } }
layer { name: "table" type: "Embed" bottom: "words" top: "table" param { name: "t" } embed_param { input_dim: 9 num_output: 3
        bias_term: true weight_filler { type: "uniform" max: 1 } } }
layer { name: "ip1" type: "InnerProduct" bottom: "table" top: "ip1" inner_product_param { num_output: 2 } }
layer { name: "loss" type: "InfogainLoss" bottom: "ip1" bottom: "label" top: "loss" loss_param { ignore_label: 1 }
        infogain_loss_param { axis: 1 matrix { data: 1 data: 0.5 data: 0 data: 1 shape { dim: 2 dim: 2 } } } }
layer { name: "other" type: "InfogainLoss" bottom: "ip1" bottom: "label" infogain_loss_param { source: "h" } }
"""
SOLVER = """
base_lr: 0.1 lr_policy: "step" gamma: 0.1 stepsize: 5 momentum: 0.9 weight_decay: 0.0005 max_iter: 10 test_iter: 2
test_interval: 5 iter_size: 2 display: 1 snapshot: 5 snapshot_prefix: "x" clip_gradients: 3 net: "net.prototxt"
"""


def prototxt():
    yield b"\0" + NET.encode()
    yield b"\0" + BRANCHES.encode()
    yield b"\0" + WINDOWS.encode()
    for old in (OF_2014, OF_2013, OLD_INPUTS, OLD_NORMS):
        yield b"\0" + old.encode()
    yield b"\0" + TABLES.encode()
    yield b"\2" + PIXELS.encode()
    yield b"\1" + SOLVER.encode()
    yield b"\1" + OLD_SOLVER.encode()


def routing_table():
    yield b"""
solver: "solver.prototxt" job: "digits"
stage { name: "conv" kind: CONV to_layer: "pool1" }
stage { name: "fc" kind: FC from_layer: "ip1" }
node { name: "conv0" stage: 0 index: 0 host: "a" port: 29500 pool_size: 3 }
node { name: "conv1" stage: 0 index: 1 host: "b" port: 29500 device: "cuda:1" }
node { name: "fc1" stage: 1 index: 1 host: "a" port: 29501 memory_mb: 100 }
node { name: "fc0" stage: 1 index: 0 host: "b" port: 29501 threads: 3 }
micro_batches: 2 precision: FP16 transport { kind: TCP }
"""
    yield b"""
solver: "solver.prototxt"
stage { kind: CONV }
node { stage: 0 index: 0 host: "localhost" port: 29500 device: "cuda:0" }
node { stage: 0 index: 1 host: "localhost" port: 29501 device: "cuda:1" }
batch: PER_REPLICA jpeg_decoder: GPU
"""


# --- the network

def record(kind, body=b"", version=1):
    return b"HPNODE\r\n" + struct.pack("<HHI", version, kind, len(body)) + body


def pieces(*parts):
    """Parts that are received one after the other. FuzzedDataProvider takes the lengths from the end, two bytes each,
    counted from 1."""
    return b"".join(parts) + b"".join(struct.pack("<H", len(part) - 1) for part in reversed(parts))


def handshake():
    hello = number(1, 6) + part(2, "hpnode") + number(3, 3) + part(4, "fc0") + fixed64(5, 0x11) + fixed64(7, 1)  # an old protocol
    for speaker in range(5):  # whose real hello comes first: nobody's, a node's, a client's
        for accepted in (b"\1", b"\0"):
            # The choices, last first: no lie in the hello, its speaker, given up, another node came before, a client's
            # policy, accepted.
            choices = b"\0" + bytes([speaker]) + b"\0\0\0" + accepted
            yield pieces(record(2)) + choices
            yield pieces(record(3, b"another net")) + choices
            yield pieces(record(1, hello), record(2)) + choices
    yield pieces(record(2)) + b"\0\1\0\0\1\0"
    yield pieces(record(1, hello, version=2)) + b"\0\0\1\1\0\1"


def frame(kind, flags=0, length=0, index=0, generation=0, msg_id=0, size=0, at=0, channel=0, payload=b""):
    return struct.pack("<BBHIIIQQQII", kind, flags, 0, length or len(payload), index, generation, msg_id, size, at,
                       channel, 0) + payload


def tcp_frames():
    message = frame(1, index=3, payload=b"hello")
    fragments = frame(1, flags=1, index=3, payload=b"he") + frame(1, index=3, payload=b"llo")
    # The first grant of each slot has generation 1.
    data = b"".join(frame(3, index=i, generation=1, size=size, payload=bytes(size)) for i, size in enumerate((0, 16)))
    halves = (frame(3, index=2, generation=1, size=200, payload=bytes(150)) +
              frame(3, index=2, generation=1, size=200, at=150, payload=bytes(50)))
    grant, end = frame(2, index=1, generation=1, msg_id=9, size=100, channel=2), frame(5)
    for rank in (b"\0\0", b"\1\1"):
        yield pieces(message + fragments, grant + data, halves + frame(4, index=3, generation=1) + end) + rank
    yield pieces(data[:60], data[60:], halves[:100], halves[100:230], halves[230:]) + b"\0\1"


def verbs_setup():
    setup = (struct.pack("<IIHBBI", 7, 4096, 0x1234, 3, 1, 2) + bytes(16) + struct.pack("<QHB", 1, 2, 1) + bytes(5) +
             struct.pack("<IIII", 0x11, 5, 0x12, 6))
    fault = bytes(48) + b"no device here"
    yield setup + b"\0"
    yield b"HPNODE\r\n" + struct.pack("<HHIQ", 1, 1, 7, 5) + bytes(32) + b"\0"
    yield frame(1, index=9, payload=b"abc") + frame(2, index=5, msg_id=7, size=8, channel=9) + frame(5) + b"\0"
    for body in (setup, fault):
        for choices in (b"\0\0\0", b"\1\0\0", b"\0\1\0", b"\0\0\1"):
            yield pieces(record(4, body), record(5)) + choices + b"\1"
    yield pieces(record(4, setup), record(5, b"no port")) + b"\0\0\0\1"


def pulled_blobs():
    def chunk(dims, offset, values, layer="ip", index=0, last=0):
        message = (number(1, 7) + part(2, layer) + number(3, index) + b"".join(number(4, dim) for dim in dims) +
                   number(5, offset) + floats(6, values) + number(7, last))
        return struct.pack("<H", len(message)) + message

    yield chunk([2, 3], 0, range(4)) + chunk([2, 3], 4, range(2)) + chunk([2], 0, range(2), index=1, last=1)
    yield chunk([1 << 31, 1 << 31], 0, [1]) + chunk([-1], 0, [1])


def copy_messages():
    yield struct.pack("<I", 6) + b"cuda:0" + b"\1" + b"handle"
    yield struct.pack("<I", 6) + b"cuda:0" + b"\0" + b"no peer access"
    yield struct.pack("<IQ", 1, 4096) + b"handle"
    yield struct.pack("<IIQIIQQ", 1, 2, 3, 4, 5, 6, 7)
    yield struct.pack("<II", 1, 2)


def server_messages():
    # A string that ends at its backslash, then what the target draws from the end: type, sealed, no closing, peer.
    nonce = "0123456789abcdef" * 2
    node = part(1, nonce) + part(3, "host") + part(4, "10.0.0.1") + number(5, 5000) + part(6, "conv") + number(11, 3)
    config = part(3, part(1, "conv0") + number(2, 0) + part(4, "10.0.0.1") + number(5, 5000))
    table = part(1, "run") + number(2, 1) + part(3, config) + part(4, part(1, nonce) + part(2, "conv0")) + part(7, nonce)
    answer = number(1, 1) + part(3, table) + number(4, 3)
    for body in (node, table, answer):
        for sealed in (0, 1):
            yield body.replace(b"\\", b"\\\\") + b"\\ " + bytes([1, sealed, 1, 0])


def lying_node():
    # All its input is choices: what to do next, and whether it is a lie.
    draw = random.Random(1)
    for job, nodes in enumerate((4, 4, 4, 5, 5)):
        for self in range(nodes):
            for length in (200, 1000, 4000):
                yield bytes(draw.randrange(256) for _ in range(length)) + bytes([1, self, job])


# --- the command line

SCHEMAS = {"prototxt": ["caffe"], "routing_table": ["routing"], "snapshot": ["snapshot"]}


def words(schema):
    """The names of fields and enum values in a file of src/proto."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with open(os.path.join(root, "src", "proto", schema + ".proto")) as file:
        return set(re.findall(r"(\w+) = \d+", file.read()))


def main():
    target, folder = sys.argv[1:]
    os.makedirs(folder)
    if target in SCHEMAS:
        with open(folder + ".dict", "w") as file:
            for word in sorted(set().union(*map(words, SCHEMAS[target]))):
                file.write('"%s"\n' % word)
    for i, seed in enumerate(globals()[target]()):
        with open(os.path.join(folder, "%02d" % i), "wb") as file:
            file.write(seed)


if __name__ == "__main__":
    main()
