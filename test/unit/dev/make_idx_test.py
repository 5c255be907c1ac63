#!/usr/bin/env python3
"""examples/digits/make_idx.py: the IDX files hold the digits of the CSV file, split as documented."""
import gzip
import os
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
DIGITS = os.path.join(ROOT, "examples", "digits", "digits.csv.gz")


def make_idx(csv, out):
    script = os.path.join(ROOT, "examples", "digits", "make_idx.py")
    run = subprocess.run([sys.executable, script, csv, out], capture_output=True, text=True, check=False)
    return run.returncode, run.stderr


def read_idx(path):
    """(dims, elements) by the format's own rules."""
    with open(path, "rb") as file:
        data = file.read()
    zero, kind, count = struct.unpack_from(">HBB", data)
    assert (zero, kind) == (0, 8)
    return struct.unpack_from(f">{count}I", data, 4), data[4 + 4 * count:]


class MakeIdxTest(unittest.TestCase):
    def test_every_digit_arrives(self):
        with gzip.open(DIGITS, "rt") as file:
            rows = [[int(word) for word in line.split(",")] for line in file]
        with tempfile.TemporaryDirectory() as out:
            self.assertEqual(make_idx(DIGITS, out)[0], 0)
            for name, begin, end in (("train", 0, 1437), ("test", 1437, 1797)):
                dims, images = read_idx(os.path.join(out, f"{name}-images"))
                label_dims, labels = read_idx(os.path.join(out, f"{name}-labels"))
                self.assertEqual((dims, label_dims), ((end - begin, 10, 10), (end - begin,)))
                self.assertEqual(len(images), 100 * (end - begin))
                for i, row in enumerate(rows[begin:end]):
                    self.assertEqual(labels[i], row[64])
                    for y in range(10):
                        for x in range(10):
                            inside = 1 <= y <= 8 and 1 <= x <= 8
                            want = row[(y - 1) * 8 + x - 1] if inside else 0
                            self.assertEqual(images[i * 100 + y * 10 + x], want)

    def test_bad_input_is_named(self):
        good = ",".join(["0"] * 64) + ",3\n"
        cases = [
            (good + "1,2,3\n", ":2: 3 values, expected 64 pixels and the digit"),
            (good + good.replace("0,", "17,", 1), ":2: a pixel is not in 0..16"),
            (good[:-2] + "10\n", ":1: digit 10, expected 0..9"),
            (good + "x" + good, ":2: 'x0,"),
            (good, ": 1 digits, expected 1797"),
        ]
        with tempfile.TemporaryDirectory() as out:
            path = os.path.join(out, "digits.csv.gz")
            for text, message in cases:
                with gzip.open(path, "wt") as file:
                    file.write(text)
                status, error = make_idx(path, out)
                self.assertEqual(status, 1)
                self.assertIn(path + message, error)
            self.assertIn("absent", make_idx(os.path.join(out, "absent"), out)[1])
            with open(path, "wb") as file:
                file.write(gzip.compress(good.encode() * 1797)[:200])
            self.assertIn(path, make_idx(path, out)[1])


if __name__ == "__main__":
    unittest.main()
