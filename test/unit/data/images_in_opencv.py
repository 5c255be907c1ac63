#!/usr/bin/python3
"""JPEGs and PNGs of every kind, decoded by hpnode and by OpenCV: the same pixels, to the bit, and the same bytes when they
are encoded anew.   images_in_opencv.py PATH/TO/write_test_jpegs PATH/TO/decode_images
"""
import os
import struct
import subprocess
import sys
import tempfile
import zlib

try:
    import cv2
    import numpy as np
except ImportError as missing:
    print("SKIPPED:", missing)
    sys.exit(77)

FLAGS = {"stored": cv2.IMREAD_UNCHANGED, "gray": cv2.IMREAD_GRAYSCALE, "color": cv2.IMREAD_COLOR}
# Color types of PNG and their channels; the depths that each may have.
GRAY, RGB, PALETTE, GRAY_ALPHA, RGBA = 0, 2, 3, 4, 6
CHANNELS = {GRAY: 1, RGB: 3, PALETTE: 1, GRAY_ALPHA: 2, RGBA: 4}
DEPTHS = {GRAY: (1, 2, 4, 8, 16), RGB: (8, 16), PALETTE: (1, 2, 4, 8), GRAY_ALPHA: (8, 16), RGBA: (8, 16)}
# Of the passes of an interlaced PNG: first column and row, and steps.
ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
random = np.random.default_rng(7)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_rows(samples, depth):
    """Rows without a filter, of samples [H, W, C]."""
    rows = b""
    for row in samples.reshape(len(samples), -1):
        if depth == 16:
            packed = row.astype(">u2").tobytes()
        else:
            bits = (row[:, None] >> np.arange(depth - 1, -1, -1)) & 1
            packed = np.packbits(bits.astype(np.uint8)).tobytes()
        rows += b"\0" + packed
    return rows


def png(kind, depth, interlaced=False, extra=b"", tail=b"", size=(19, 23), samples=None):
    """@param extra chunks in front of the pixels, tail: behind them."""
    height, width = size
    if samples is None:
        samples = random.integers(0, 1 << depth, (height, width, CHANNELS[kind]))
    parts = [samples[y::dy, x::dx] for x, y, dx, dy in ADAM7] if interlaced else [samples]
    data = b"".join(png_rows(part, depth) for part in parts if part.size)
    palette = chunk(b"PLTE", random.bytes(3 << depth)) if kind == PALETTE else b""
    header = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, interlaced)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + palette + extra + chunk(b"IDAT", zlib.compress(data)) + tail +
            chunk(b"IEND", b""))


def exif(orientation, order="<", front=()):
    """A TIFF that notes an orientation, behind entries (tag, type, count, value)."""
    entries = [struct.pack(order + "HHII", *entry) for entry in front]
    entries.append(struct.pack(order + "HHIHH", 0x112, 3, 1, orientation, 0))
    mark = b"II" if order == "<" else b"MM"
    return (mark + struct.pack(order + "HIH", 42, 8, len(entries)) + b"".join(entries) + struct.pack(order + "I", 0) +
            b"text behind the entries\0")


def with_segment(jpeg, data):
    """`jpeg` with a segment APP1."""
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(data) + 2) + data + jpeg[2:]


def pngs():
    for kind, depths in DEPTHS.items():
        for depth in depths:
            for interlaced in (False, True):
                name = f"png_{kind}_{depth}" + "_interlaced" * interlaced
                yield name, png(kind, depth, interlaced)
                if kind == PALETTE:
                    yield name + "_trns", png(kind, depth, interlaced, chunk(b"tRNS", random.bytes(1 << depth)))
                elif kind in (GRAY, RGB):
                    trns = chunk(b"tRNS", struct.pack(">H", 1) * CHANNELS[kind])
                    yield name + "_trns", png(kind, depth, interlaced, trns)
    for size in ((1, 1), (1, 9), (7, 1)):
        yield f"png_interlaced_{size}".replace(" ", ""), png(RGB, 8, True, size=size)
    gamma = chunk(b"gAMA", struct.pack(">I", 45455)) + chunk(b"bKGD", struct.pack(">HHH", 9, 99, 199))
    yield "png_gamma_background", png(RGBA, 8, extra=gamma)
    yield "png_significant_bits", png(RGB, 8, extra=chunk(b"sBIT", b"\5\6\5"))
    for orientation in range(10):
        yield f"png_exif_{orientation}", png(RGB, 8, extra=chunk(b"eXIf", exif(orientation)))
    yield "png_exif_behind", png(GRAY_ALPHA, 8, tail=chunk(b"eXIf", exif(6, ">")))
    whole = png(RGB, 8)
    yield "png_unknown_chunk_first", whole[:8] + chunk(b"prVt", b"x") + whole[8:]
    absurd = png(RGB, 8, size=(1 << 15, 1 << 15), samples=random.integers(0, 256, (1, 1, 3)))
    yield "png_absurd_size", absurd
    yield "png_absurd_size_behind_unknown_chunk", absurd[:8] + chunk(b"prVt", b"x") + absurd[8:]
    yield "png_unknown_chunk", png(RGB, 8, extra=chunk(b"prVt", b"x"))


def jpegs():
    noise = cv2.GaussianBlur(random.integers(0, 256, (37, 53, 3), dtype=np.uint8), (0, 0), 1)
    for name, parameters in {"plain": [], "progressive": [cv2.IMWRITE_JPEG_PROGRESSIVE, 1],
                             "optimized": [cv2.IMWRITE_JPEG_OPTIMIZE, 1], "coarse": [cv2.IMWRITE_JPEG_QUALITY, 3],
                             "restart": [cv2.IMWRITE_JPEG_RST_INTERVAL, 2]}.items():
        yield f"jpeg_{name}", cv2.imencode(".jpg", noise, parameters)[1].tobytes()
        yield f"jpeg_gray_{name}", cv2.imencode(".jpg", noise[:, :, 1], parameters)[1].tobytes()
    plain = cv2.imencode(".jpg", noise)[1].tobytes()
    for orientation in range(10):
        for order, name in (("<", "little"), (">", "big")):
            segment = b"Exif\0\0" + exif(orientation, order)
            yield f"jpeg_exif_{orientation}_{name}", with_segment(plain, segment)
            if order == ">":
                yield f"jpeg_gray_exif_{orientation}", with_segment(
                    cv2.imencode(".jpg", noise[:, :, 0])[1].tobytes(), segment)
    tiff = exif(6)
    for size in range(len(tiff)):
        yield f"jpeg_exif_cut_{size}", with_segment(plain, b"Exif\0\0" + tiff[:size])
    for tag in (0x10D, 0x10E, 0x10F, 0x110):
        for count, value in ((4, 7 << 28), (8, 40), (8, 4000), (4000, 40), ((1 << 32) - 16, 32)):
            segment = b"Exif\0\0" + exif(6, front=[(tag, 2, count, value)])
            yield f"jpeg_exif_text_{tag}_{count}_{value}", with_segment(plain, segment)
    first, second, other = b"Exif\0\0" + exif(6), b"Exif\0\0" + exif(8), b"http://ns.adobe.com/xap/1.0/\0"
    for name, segments in {"other_first": [other, first], "other_second": [first, other], "two": [first, second],
                           "short_first": [b"Exif", first], "other_prefix": [other[:6] + exif(6)],
                           "other_order": [b"Exif\0\0XX" + exif(6, ">")[2:]]}.items():
        jpeg = plain
        for segment in reversed(segments):
            jpeg = with_segment(jpeg, segment)
        yield f"jpeg_exif_{name}", jpeg


def damaged(name, whole):
    """Cut and changed copies: what OpenCV still reads of them is the same here."""
    for size in sorted(set(random.integers(4, len(whole), 40)) | {len(whole) - 1, len(whole) - 2}):
        yield f"{name}_cut_{size}", whole[:size]
    for i in range(80):
        changed = bytearray(whole)
        for at in random.integers(4, len(whole), 1 + i % 3):
            changed[at] = random.integers(0, 256)
        yield f"{name}_changed_{i}", bytes(changed)


def expected_image(path, color):
    """@return OpenCV's image, or how hpnode's message for what it refuses begins."""
    try:
        image = cv2.imread(path, FLAGS[color])
    except cv2.error:
        image = None
    if image is None:
        return None, "error data loss"
    return (image, "") if image.dtype == np.uint8 else (None, "error invalid argument")


def compare(lines):
    """@return (what differs, how many comparisons were of errors)."""
    different, errors = [], 0
    for line in lines:
        path, color, rest = line.split(" ", 2)
        expected, error = expected_image(path, color)
        if rest.startswith("error") or expected is None:
            errors += 1
            if not error or not rest.startswith(error):
                different.append(f"{line}; OpenCV: {error or expected.shape}")
            continue
        expected = expected.reshape(expected.shape[0], expected.shape[1], -1)
        shape = tuple(map(int, rest.split()))
        found = np.fromfile(f"{path}.{color}", np.uint8).reshape(shape)
        if shape != expected.shape or not np.array_equal(found, expected):
            different.append(f"{line}; OpenCV: {expected.shape}, other values")
        elif color == "stored":
            for extension in ("png", "jpg"):
                with open(f"{path}.stored.{extension}", "rb") as file:
                    if file.read() != cv2.imencode("." + extension, expected)[1].tobytes():
                        different.append(f"{path}: encoded anew as {extension}")
    return different, errors


def check(decode, paths, most_errors):
    """@return whether all decodes are alike, and no larger part of them than `most_errors` are errors."""
    run = subprocess.run([decode, *paths], check=True, stdout=subprocess.PIPE, text=True)
    lines = run.stdout.splitlines()
    different, errors = compare(lines)
    print(f"{len(paths)} files, {len(lines)} images: {errors} errors of both, {len(different)} differences", *different,
          sep="\n  ")
    return not different and len(lines) == 3 * len(paths) and errors <= most_errors * len(lines)


def main():
    write, decode = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([write, folder], check=True)
        whole = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
        assert len(whole) > 15
        for name, content in [*pngs(), *jpegs()]:
            whole.append(os.path.join(folder, name))
            with open(whole[-1], "wb") as file:
                file.write(content)
        broken = []
        for name in ("420.jpg", "420_progressive_restart.jpg", "ycck.jpg", "png_2_8", "png_3_4_interlaced_trns"):
            with open(os.path.join(folder, name), "rb") as file:
                content = file.read()
            for copy, changed in damaged(name, content):
                broken.append(os.path.join(folder, copy))
                with open(broken[-1], "wb") as file:
                    file.write(changed)
        results = [check(decode, whole, 0.1), check(decode, broken, 0.8)]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
