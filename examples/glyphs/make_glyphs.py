#!/usr/bin/python3
"""Renders Chinese characters from fonts of Debian as LMDB databases of grey images, which hpnode reads.

OUT_DIR gets train_lmdb, distorted glyphs of all fonts but one; test_lmdb, one distorted glyph of each character in the
font left out; gallery_lmdb, the characters of one training font as they are; new_test_lmdb and new_gallery_lmdb, the
same of characters that are not in train_lmdb. A label is the place of the character in OUT_DIR/characters.txt, or
new_characters.txt. The same seed, fonts and libraries give the same images.

Packages: python3-pil, python3-lmdb, fontconfig, and the fonts that --help names.
"""
import argparse
import multiprocessing
import os
import random
import subprocess
import sys

import lmdb
from PIL import Image, ImageDraw, ImageFilter, ImageFont

# Patterns of fontconfig; the first of the training fonts is also the gallery's.
TRAIN_FONTS = ("Noto Sans CJK SC:regular", "Noto Sans CJK SC:bold", "Noto Serif CJK SC:regular",
               "Noto Serif CJK SC:bold", "WenQuanYi Zen Hei", "AR PL UMing CN", "AR PL UKai CN")
TEST_FONT = "WenQuanYi Micro Hei"
PACKAGES = "fonts-noto-cjk fonts-wqy-zenhei fonts-wqy-microhei fonts-arphic-uming fonts-arphic-ukai"

IDEOGRAPHS = range(0x4E00, 0xA000)  # CJK Unified Ideographs
SIDE = 36  # pixels of an image: 32 that a net sees, and random crops shift a character by up to 2
EM = 28  # pixels of a character's square in it
FINE = 2  # characters are drawn and distorted at so many times the size
TASK = 512  # characters that a process renders at a time


class Font:
    """A font file, and the characters that it has."""

    def __init__(self, pattern):
        said = subprocess.run(["fc-list", "--format", "%{file}\t%{index}\t%{charset}\n", pattern], check=True,
                              stdout=subprocess.PIPE, encoding="utf-8").stdout.splitlines()
        if not said:
            sys.exit(f"make_glyphs: no font {pattern!r}; install: {PACKAGES}")
        self.path, index, ranges = sorted(said)[0].split("\t")
        self.pattern, self.index = pattern, int(index)
        self.characters = set()
        for part in ranges.split():
            first, _, last = part.partition("-")
            self.characters.update(range(int(first, 16), int(last or first, 16) + 1))


class Pen:
    """Draws the characters of a font, so that on the average they are in the middle."""

    def __init__(self, font, codes):
        self.font = ImageFont.truetype(font.path, EM * FINE, index=font.index, layout_engine=ImageFont.Layout.BASIC)
        boxes = [self.font.getbbox(chr(code), anchor="ls") for code in codes[::max(1, len(codes) // 64)]]
        middles = [sum((box[axis] + box[axis + 2]) / 2 for box in boxes) / len(boxes) for axis in (0, 1)]
        self.start = tuple(round(SIDE * FINE / 2 - middle) for middle in middles)

    def draw(self, code):
        image = Image.new("L", (SIDE * FINE, SIDE * FINE))
        ImageDraw.Draw(image).text(self.start, chr(code), 255, self.font, anchor="ls")
        return image


def distorted(image, draw):
    """Turned, sheared, stretched and shifted a little, blurred, and of another contrast."""
    half = SIDE * FINE / 2
    a, e = 1 + draw.uniform(-0.1, 0.1), 1 + draw.uniform(-0.1, 0.1)
    b, d = draw.uniform(-0.1, 0.1), draw.uniform(-0.1, 0.1)
    c, f = half - (a + b) * half + draw.uniform(-FINE, FINE), half - (d + e) * half + draw.uniform(-FINE, FINE)
    image = image.transform(image.size, Image.Transform.AFFINE, (a, b, c, d, e, f), Image.Resampling.BILINEAR)
    image = image.filter(ImageFilter.GaussianBlur(draw.uniform(0, 0.6) * FINE))
    ink = draw.uniform(0.7, 1.3)
    return image.point([min(255, round(level * ink)) for level in range(256)])


def pixels_of(task):
    """The pixels of TASK images, or of fewer, one after the other."""
    font, codes, some, seed = task
    pen = Pen(font, codes)
    images = []
    for code in some:
        image = pen.draw(code)
        if seed is not None:
            image = distorted(image, random.Random(f"{seed} {font.pattern} {code}"))
        images.append(image.reduce(FINE).tobytes())
    return images


def varint(value):
    groups = []
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    return bytes(groups + [value])


def datum(pixels, label):
    """Caffe's Datum, a protobuf message: channels, height, width, data, label."""
    return b"\x08\x01\x10%c\x18%c\x22%s%s\x28%s" % (SIDE, SIDE, varint(len(pixels)), pixels, varint(label))


def write_database(pool, path, codes, parts):
    """Images of all characters for each of `parts`, which are fonts with a seed of the distortions or None."""
    tasks = [(font, codes, codes[first:first + TASK], seed) for font, seed in parts
             for first in range(0, len(codes), TASK)]
    record = 0
    # A map larger than it can get: the file only grows as it is written.
    with lmdb.open(path, map_size=1 << 36) as database:
        for images in pool.imap(pixels_of, tasks):
            with database.begin(write=True) as transaction:
                for pixels in images:
                    transaction.put(b"%08d" % record, datum(pixels, record % len(codes)), append=True)
                    record += 1
    print(f"make_glyphs: {record} images of {SIDE}x{SIDE} in {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog=f"The fonts are in the packages {PACKAGES}.")
    parser.add_argument("folder", metavar="OUT_DIR", help="made; must not have databases yet")
    parser.add_argument("--characters", type=int, default=0,
                        help="that many, drawn of those that all fonts have; 0, the default: all of them")
    parser.add_argument("--samples", type=int, default=2, help="of a character in each training font; default 2")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    test, fonts = Font(TEST_FONT), [Font(pattern) for pattern in TRAIN_FONTS]
    codes = sorted(set(IDEOGRAPHS).intersection(test.characters, *(font.characters for font in fonts)))
    shared = len(codes)
    if not 0 <= options.characters <= shared:
        sys.exit(f"make_glyphs: --characters {options.characters}: expected 1 to {shared}, or 0 for all")
    if options.characters:
        codes = sorted(random.Random(options.seed).sample(codes, options.characters))
    print(f"make_glyphs: seed {options.seed}, {len(codes)} of {shared} characters that {len(fonts) + 1} fonts share")

    new = sorted(set(IDEOGRAPHS).intersection(test.characters, fonts[0].characters).difference(codes))
    new = sorted(random.Random(options.seed).sample(new, min(len(new), len(codes))))

    os.makedirs(options.folder, exist_ok=True)
    with multiprocessing.Pool() as pool:
        for prefix, chosen in (("", codes), ("new_", new)):
            path = os.path.join(options.folder, prefix)
            with open(path + "characters.txt", "w", encoding="utf-8") as listed:
                listed.writelines(chr(code) + "\n" for code in chosen)
            write_database(pool, path + "test_lmdb", chosen, [(test, f"{options.seed} test")])
            write_database(pool, path + "gallery_lmdb", chosen, [(fonts[0], None)])
        parts = [(font, f"{options.seed} {sample}") for sample in range(options.samples) for font in fonts]
        write_database(pool, os.path.join(options.folder, "train_lmdb"), codes, parts)


if __name__ == "__main__":
    main()
