#!/usr/bin/env python3
"""Writes synthetic features as grey images of 16 x 32 pixels, and a list of them with labels, for convert_imageset.

A class is a point of 512 normal numbers, drawn from its own number; an image is that point and a little noise around
it. Without packages beside Python's own."""

import argparse
import os
import random
import struct
import zlib

WIDTH, HEIGHT = 32, 16


def png(pixels):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + pixels[y * WIDTH:(y + 1) * WIDTH] for y in range(HEIGHT))
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b"")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="made; gets the images and list.txt")
    parser.add_argument("--images", type=int, default=1280)
    parser.add_argument("--classes", type=int, default=1000000)
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    draw = random.Random(1)
    with open(os.path.join(options.folder, "list.txt"), "w", encoding="utf-8") as listed:
        for i in range(options.images):
            label = draw.randrange(options.classes)
            centre = random.Random(label)
            values = (128 + 40 * centre.gauss(0, 1) + 10 * draw.gauss(0, 1) for _ in range(WIDTH * HEIGHT))
            with open(os.path.join(options.folder, "%d.png" % i), "wb") as image:
                image.write(png(bytes(min(255, max(0, round(value))) for value in values)))
            listed.write("%d.png %d\n" % (i, label))


if __name__ == "__main__":
    main()
