#!/usr/bin/python3
"""Images/s of one net in PyTorch, in one variant: forward + backward + update of a batch that lies on the device.

usage: test/bench/torch_speed.py NET --variant FORMAT/UPDATE/MODE --batch N --crop N --classes N --iterations N
                                 [--channels 3] [--device cpu|cuda:N] [--precision fp32|tf32|bf16|fp16] [--threads N]

FORMAT: contiguous, channels_last. UPDATE: plain, foreach, fused. MODE: eager, or torch.compile's default,
reduce-overhead (CUDA graphs), max-autotune. Prints one line for train_speed.py, or that this PyTorch lacks the variant.
"""
import argparse, contextlib, resource, statistics, sys, time

import torch
from torch_nets import NETS

BLOCKS, BLOCK_SECONDS = 7, 1.0  # on a GPU: the host waits only between blocks


def set_precision(precision):
    tf32 = precision != "fp32"
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = True


class Training:
    def __init__(self, args):
        memory_format, update, mode = args.variant.split("/")
        self.device = torch.device(args.device)
        self.autocast = contextlib.nullcontext
        self.scaler = None
        if args.precision in ("bf16", "fp16"):
            dtype = torch.bfloat16 if args.precision == "bf16" else torch.float16
            self.autocast = lambda: torch.autocast(self.device.type, dtype)
            if args.precision == "fp16":
                self.scaler = torch.cuda.amp.GradScaler()
        memory_format = torch.channels_last if memory_format == "channels_last" else torch.contiguous_format
        self.net = NETS[args.net]().to(self.device, memory_format=memory_format)
        options = {"plain": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}[update]
        self.solver = torch.optim.SGD(self.net.parameters(), 1e-4, momentum=0.9, weight_decay=5e-4, **options)
        self.run = self.net
        if mode != "eager":
            self.run = torch.compile(self.net, mode=None if mode == "default" else mode)
        self.marks_steps = mode in ("reduce-overhead", "max-autotune") and hasattr(torch, "compiler")
        images = torch.randn(args.batch, args.channels, args.crop, args.crop, device=self.device)
        self.images = images.to(memory_format=memory_format)
        self.labels = torch.randint(args.classes, (args.batch,), device=self.device)

    def step(self):
        if self.marks_steps:
            torch.compiler.cudagraph_mark_step_begin()
        self.solver.zero_grad(set_to_none=True)
        with self.autocast():
            loss = self.run(self.images, self.labels)
        if self.scaler is None:
            loss.backward()
            self.solver.step()
        else:
            self.scaler.scale(loss).backward()
            self.scaler.step(self.solver)
            self.scaler.update()

    def wait(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def seconds(self, iterations):
        """Of one iteration, over so many."""
        self.wait()
        begin = time.perf_counter()
        for _ in range(iterations):
            self.step()
        self.wait()
        return (time.perf_counter() - begin) / iterations


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("net", choices=NETS)
    parser.add_argument("--variant", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="fp32", choices=("fp32", "tf32", "bf16", "fp16"))
    for name in "batch", "crop", "classes", "iterations":
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--channels", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    _, update, mode = args.variant.split("/")
    if mode != "eager" and not hasattr(torch, "compile"):
        return print("not in this version")
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    set_precision(args.precision)
    on_gpu = args.device != "cpu"
    if on_gpu:
        torch.cuda.set_device(args.device)
        free_at_start = torch.cuda.mem_get_info()[0]
    try:
        training = Training(args)
    except (TypeError, RuntimeError) as error:
        if update == "plain" or isinstance(error, torch.cuda.OutOfMemoryError):
            raise
        print(error, file=sys.stderr)
        return print("not in this version")
    if on_gpu:
        training.seconds(12)  # compiles, chooses algorithms, records graphs
        block = max(1, round(BLOCK_SECONDS / training.seconds(5)))
        seconds = statistics.median(training.seconds(block) for _ in range(BLOCKS))
        peak_mb = (free_at_start - torch.cuda.mem_get_info()[0]) / 2**20
    else:
        training.seconds(3)
        seconds = statistics.median(training.seconds(1) for _ in range(args.iterations))
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    parameters = sum(p.numel() for p in training.net.parameters())
    print(f"images_per_s {args.batch / seconds:.2f} peak_mb {peak_mb:.0f} parameters {parameters}")


main()
