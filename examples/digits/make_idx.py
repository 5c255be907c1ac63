#!/usr/bin/env python3
"""Writes digits.csv.gz as IDX files, the format of MNIST, which convert_mnist_data reads.

usage: make_idx.py DIGITS_CSV_GZ OUT_DIR

OUT_DIR gets train-images, train-labels (the first 1,437 digits) and test-images, test-labels (the other 360).
A line of the input has the 64 pixels of an 8x8 image, rows from top to bottom, in grey levels 0 to 16, then the digit.
The images become 10x10 by a border of zeros, so that random 8x8 crops shift a digit by up to one pixel.

IDX: two zero bytes, the type of the elements (8: unsigned byte), the number of dimensions, each dimension as a
big-endian 32-bit number, then the elements (Y. LeCun et al., the MNIST database).
"""
import gzip
import os
import struct
import sys

SIDE, BORDER, LEVELS, CLASSES = 8, 1, 16, 10
TRAIN, TEST = 1437, 360


def parse_line(text, where):
    """The pixels and the digit of one line; exits naming `where` if it is not one."""
    try:
        values = [int(word) for word in text.split(",")]
    except ValueError:
        sys.exit(f"{where}: {text!r} is not a list of whole numbers")
    if len(values) != SIDE * SIDE + 1:
        sys.exit(f"{where}: {len(values)} values, expected {SIDE * SIDE} pixels and the digit")
    pixels, digit = values[:-1], values[-1]
    if not all(0 <= pixel <= LEVELS for pixel in pixels):
        sys.exit(f"{where}: a pixel is not in 0..{LEVELS}")
    if not 0 <= digit < CLASSES:
        sys.exit(f"{where}: digit {digit}, expected 0..{CLASSES - 1}")
    return pixels, digit


def with_border(pixels):
    """8x8 pixels as the bytes of a 10x10 image."""
    side = bytes(BORDER)
    rows = [side + bytes(pixels[y * SIDE:(y + 1) * SIDE]) + side for y in range(SIDE)]
    empty = bytes((SIDE + 2 * BORDER) * BORDER)
    return empty + b"".join(rows) + empty


def read_digits(path):
    try:
        with gzip.open(path, "rt", encoding="ascii") as file:
            digits = [parse_line(line.strip(), f"{path}:{number}") for number, line in enumerate(file, 1)]
    except (OSError, EOFError, UnicodeDecodeError) as error:
        sys.exit(f"{path}: {error}")
    if len(digits) != TRAIN + TEST:
        sys.exit(f"{path}: {len(digits)} digits, expected {TRAIN + TEST}")
    return digits


def write_idx(path, dims, data):
    with open(path, "wb") as file:
        file.write(struct.pack(f">BBBB{len(dims)}I", 0, 0, 8, len(dims), *dims) + data)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    source, out = sys.argv[1:]
    digits = read_digits(source)
    os.makedirs(out, exist_ok=True)
    for name, part in (("train", digits[:TRAIN]), ("test", digits[TRAIN:])):
        side = SIDE + 2 * BORDER
        images = b"".join(with_border(pixels) for pixels, _ in part)
        write_idx(os.path.join(out, f"{name}-images"), (len(part), side, side), images)
        write_idx(os.path.join(out, f"{name}-labels"), (len(part),), bytes(digit for _, digit in part))
        print(f"make_idx: {len(part)} {name} images of {side}x{side}")


if __name__ == "__main__":
    main()
