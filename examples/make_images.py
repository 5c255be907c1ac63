#!/usr/bin/env python3
"""Draws stand-in images with labels, for nets whose data has to be asked for: make_images.py FOLDER COUNT SIDE CHANNELS
CLASSES. Writes FOLDER/0000.png, ... and FOLDER/list.txt, as convert_imageset reads them; of one channel also as MNIST's
files, FOLDER/images and FOLDER/labels. The same images each time.

An image is a mosaic, with a tint of its label's own, so that a net can learn something of it."""

import os
import random
import struct
import sys
import zlib

CELLS = 16  # of a mosaic, in a row


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(side, channels, pixels):
    stride = side * channels
    rows = b"".join(b"\0" + pixels[i:i + stride] for i in range(0, len(pixels), stride))
    header = struct.pack(">IIBBBBB", side, side, 8, 2 if channels == 3 else 0, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))


def main():
    if len(sys.argv) != 6:
        sys.exit("usage: make_images.py FOLDER COUNT SIDE CHANNELS CLASSES")
    folder, count, side, channels, classes = sys.argv[1], *map(int, sys.argv[2:])
    os.makedirs(folder, exist_ok=True)
    draw = random.Random(1)
    cell = max(1, side // CELLS)
    drawn, labels = [], []
    with open(os.path.join(folder, "list.txt"), "w", encoding="ascii") as names:
        for i in range(count):
            label = draw.randrange(classes)
            tint = random.Random(label).choices(range(64), k=channels)
            pixels = b""
            for _ in range(0, side, cell):
                row = b"".join(bytes(shade + draw.randrange(192) for shade in tint) * cell for _ in range(0, side, cell))
                pixels += row[:side * channels] * cell
            drawn.append(pixels[:side * side * channels])
            labels.append(label)
            with open(os.path.join(folder, "%04d.png" % i), "wb") as file:
                file.write(png(side, channels, drawn[-1]))
            names.write("%04d.png %d\n" % (i, label))
    if channels == 1 and classes <= 256:
        with open(os.path.join(folder, "images"), "wb") as file:
            file.write(struct.pack(">IIII", 0x803, count, side, side) + b"".join(drawn))
        with open(os.path.join(folder, "labels"), "wb") as file:
            file.write(struct.pack(">II", 0x801, count) + bytes(labels))


if __name__ == "__main__":
    main()
