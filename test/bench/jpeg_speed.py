#!/usr/bin/python3
"""Images/s of encoded 256 x 256 JPEGs, by so many threads: read, decoded, a random 227 x 227 of them, mirrored or not,
as floats less a mean. hpnode from a LevelDB; torchvision (decode_jpeg and transforms in a DataLoader's worker
processes) and, where it is installed, NVIDIA DALI on the CPU from files. All in the page cache.

usage: test/bench/jpeg_speed.py [--bin build/release/bin] [--threads 1,2] [--rounds 5] [--images 1024] [--quality 90]

Runs the sides in turn, round by round, and prints medians. Python packages: numpy, pillow, torch, torchvision; and
nvidia-dali-cuda120, which needs no GPU for this.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SIDE, CROP, BATCH, BATCHES, WARM_UP = 256, 227, 256, 20, 4
MEAN = [104, 117, 123]
NAMES = ("hpnode", "torchvision", "DALI")


def draw(folder, count, quality):
    """Images of noise whose amplitudes fall with the frequency, as those of photographs do. @return their mean size."""
    from PIL import Image
    draws = np.random.default_rng(1)
    frequency = np.hypot(np.fft.fftfreq(SIDE)[:, None], np.fft.rfftfreq(SIDE)[None])
    frequency[0, 0] = 1
    os.makedirs(folder + "/files/0")
    with open(folder + "/list.txt", "w", encoding="utf-8") as lines:
        for i in range(count):
            planes = []
            for _ in range(4):  # what the colours share, and a third as much of their own
                phase = np.exp(2j * np.pi * draws.random(frequency.shape))
                plane = np.fft.irfft2(phase / frequency, (SIDE, SIDE))
                planes.append(plane / plane.std())
            pixels = np.stack([128 + 45 * (planes[0] + plane / 3) for plane in planes[1:]], -1)
            Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(f"{folder}/files/0/{i:04}.jpg", quality=quality)
            lines.write(f"{i:04}.jpg 0\n")
    return sum(file.stat().st_size for file in os.scandir(folder + "/files/0")) / count


def timed(batches):
    """Images/s of an endless iterator of batches."""
    for _ in range(WARM_UP):
        next(batches)
    begin = time.monotonic()
    for _ in range(BATCHES):
        next(batches)
    return BATCH * BATCHES / (time.monotonic() - begin)


def endless(batches):
    while True:
        yield from batches


def time_torchvision(folder, threads):
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg, read_file
    from torchvision.transforms import v2
    paths = sorted(file.path for file in os.scandir(folder + "/files/0"))

    class Files(torch.utils.data.Dataset):
        change = v2.Compose([v2.RandomCrop(CROP), v2.RandomHorizontalFlip(), v2.ToDtype(torch.float32),
                             v2.Normalize(MEAN, [1, 1, 1])])

        def __len__(self):
            return len(paths)

        def __getitem__(self, i):
            return self.change(decode_jpeg(read_file(paths[i]), ImageReadMode.RGB)), 0

    loader = torch.utils.data.DataLoader(Files(), BATCH, num_workers=threads, persistent_workers=True, drop_last=True)
    return timed(endless(loader))


def time_dali(folder, threads):
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=BATCH, num_threads=threads, device_id=None)
    def pipeline():
        files, labels = fn.readers.file(file_root=folder + "/files")
        at = [fn.random.uniform(range=(0, 1)) for _ in range(2)]
        images = fn.decoders.image_crop(files, device="cpu", crop=(CROP, CROP), crop_pos_x=at[0], crop_pos_y=at[1])
        return fn.crop_mirror_normalize(images, mean=MEAN, std=[1, 1, 1], dtype=types.FLOAT, output_layout="CHW",
                                        mirror=fn.random.coin_flip()), labels

    made = pipeline()
    made.build()
    return timed(iter(made.run, None))


def images_per_s(args, side, folder, threads):
    if side == "hpnode":
        command = [os.path.join(args.bin, "read_speed"), f"--images={folder}/db", f"--batch={BATCH}", f"--size={SIDE}",
                   f"--crop={CROP}", f"--batches={BATCHES}", f"--reader_threads={threads}"]
    else:
        command = [sys.executable, __file__, "--side", side, "--folder", folder, "--threads", str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or "images_per_s " not in done.stdout:
        sys.exit(f"{side}: {done.stderr[-2000:]}")
    return float(done.stdout.split("images_per_s ")[1].split()[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin"))
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--images", type=int, default=1024)
    parser.add_argument("--quality", type=int, default=90)
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        of_side = {"torchvision": time_torchvision, "DALI": time_dali}[args.side]
        return print(f"images_per_s {of_side(args.folder, int(args.threads)):.0f}")
    sides = list(NAMES)
    if subprocess.run([sys.executable, "-c", "import nvidia.dali"], capture_output=True, check=False).returncode:
        sides.remove("DALI")
    with tempfile.TemporaryDirectory() as folder:
        size = draw(folder, args.images, args.quality)
        subprocess.run([os.path.join(args.bin, "convert_imageset"), "--encoded", "--backend=leveldb", folder + "/files/0/",
                        folder + "/list.txt", folder + "/db"], check=True, capture_output=True)
        print(f"load of the machine (1 min): {os.getloadavg()[0]:.1f}; {size / 1024:.0f} KiB an image")
        print(f"| threads | {' | '.join(sides)} |\n|{'---|' * (len(sides) + 1)}")
        for threads in map(int, args.threads.split(",")):
            rounds = [[images_per_s(args, side, folder, threads) for side in sides] for _ in range(args.rounds)]
            print(f"| {threads} | {' | '.join(f'{statistics.median(side):,.0f}' for side in zip(*rounds))} |", flush=True)


if __name__ == "__main__":
    main()
