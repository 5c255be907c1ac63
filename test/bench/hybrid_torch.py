"""One process of a distributed training of AlexNet in PyTorch (gloo): what test/bench/hybrid_speed.py compares with.

ddp: every process has the whole net, DistributedDataParallel sums the gradients.
hybrid: what one writes by hand in an afternoon. Conv replicas and FC shards, plain send and recv, no pipeline: conv
    nodes send their activations, the FC shards train on the whole batch and send the gradients back, the conv nodes
    sum their gradients. With two shards or more each holds a slice of the outputs of fc6, fc7 and fc8, as in hpnode.
The batch is in memory. Process 0 of ddp and the first shard of hybrid print an iteration's end as glog would.
"""
import argparse
import datetime
import os
import warnings

warnings.filterwarnings("ignore")
import torch
import torch.distributed as dist
from torch import nn

FEATURES = 9216
SGD = dict(lr=1e-4, momentum=0.9, weight_decay=5e-4)


def relu():
    return nn.ReLU(inplace=True)


def lrn():
    return nn.LocalResponseNorm(5, 1e-4, 0.75, 1.0)


def pool():
    return nn.MaxPool2d(3, 2, ceil_mode=True)


def conv_layers():
    return nn.Sequential(
        nn.Conv2d(3, 96, 11, 4), relu(), lrn(), pool(),
        nn.Conv2d(96, 256, 5, padding=2, groups=2), relu(), lrn(), pool(),
        nn.Conv2d(256, 384, 3, padding=1), relu(), nn.Conv2d(384, 384, 3, padding=1, groups=2), relu(),
        nn.Conv2d(384, 256, 3, padding=1, groups=2), relu(), pool(), nn.Flatten())


class Gather(torch.autograd.Function):
    """Slices of all shards side by side. Every shard then uses the whole, so the gradients are partial sums."""

    @staticmethod
    def forward(context, x, group, partial):
        context.group, context.partial, context.columns = group, partial, x.shape[1]
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, x.contiguous(), group=group)
        return torch.cat(parts, 1)

    @staticmethod
    def backward(context, gradient):
        if context.partial:
            gradient = gradient.contiguous()
            dist.all_reduce(gradient, group=context.group)
        first = dist.get_rank(context.group) * context.columns
        return gradient[:, first:first + context.columns], None, None


class FcLayers(nn.Module):
    """fc6 to fc8, or the outputs of one shard of `shards`."""

    def __init__(self, shards, group=None):
        super().__init__()
        self.fc6 = nn.Sequential(nn.Linear(FEATURES, 4096 // shards), relu(), nn.Dropout())
        self.fc7 = nn.Sequential(nn.Linear(4096, 4096 // shards), relu(), nn.Dropout())
        self.fc8 = nn.Linear(4096, 1000 // shards)
        self.whole = (lambda x, partial: Gather.apply(x, group, partial)) if shards > 1 else (lambda x, _: x)

    def forward(self, x):
        return self.whole(self.fc8(self.whole(self.fc7(self.whole(self.fc6(x), True)), True)), False)


def sgd(module):
    try:
        return torch.optim.SGD(module.parameters(), fused=True, **SGD)
    except (TypeError, RuntimeError):  # older than the fused one on CPUs
        return torch.optim.SGD(module.parameters(), foreach=False, **SGD)


def report(iteration, loss):
    now = datetime.datetime.now().strftime("%m%d %H:%M:%S.%f")
    print("I%s 0 torch] Iteration %d, loss = %g" % (now, iteration, loss.item()), flush=True)


def images(args):
    generator = torch.Generator().manual_seed(dist.get_rank())
    x = torch.randn(args.batch, 3, 227, 227, generator=generator).to(memory_format=args.memory_format)
    return x, torch.randint(1000, (args.batch,), generator=generator)


def train_ddp(args):
    net = nn.Sequential(conv_layers().to(memory_format=args.memory_format), FcLayers(1))
    net = nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=True)
    solver = sgd(net)
    x, labels = images(args)
    for iteration in range(args.iterations):
        solver.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(net(x), labels)
        loss.backward()
        solver.step()
        if dist.get_rank() == 0:
            report(iteration, loss)


def train_conv(args, group):
    net = conv_layers().to(memory_format=args.memory_format)
    solver = sgd(net)
    x, _ = images(args)
    shards = range(args.conv, args.conv + args.fc)
    partial = [torch.empty(args.batch, FEATURES) for _ in shards]
    for _ in range(args.iterations):
        solver.zero_grad(set_to_none=True)
        y = net(x)
        sends = [dist.isend(y.detach(), shard) for shard in shards]
        for shard, gradient in zip(shards, partial):
            dist.recv(gradient, shard)
        y.backward(sum(partial))
        flat = torch.cat([p.grad.reshape(-1) for p in net.parameters()])
        dist.all_reduce(flat, group=group)
        at = 0
        for p in net.parameters():
            p.grad.copy_(flat[at:at + p.numel()].view_as(p.grad))
            at += p.numel()
        solver.step()
        for send in sends:
            send.wait()


def train_fc(args, group):
    net = FcLayers(args.fc, group)
    solver = sgd(net)
    labels = torch.randint(1000, (args.conv * args.batch,), generator=torch.Generator().manual_seed(1))
    x = torch.empty(args.conv * args.batch, FEATURES, requires_grad=True)
    for iteration in range(args.iterations):
        solver.zero_grad(set_to_none=True)
        x.grad = None
        with torch.no_grad():
            receives = [dist.irecv(part, i) for i, part in enumerate(x.split(args.batch))]
            for receive in receives:
                receive.wait()
        loss = nn.functional.cross_entropy(net(x), labels)
        loss.backward()
        sends = [dist.isend(part, i) for i, part in enumerate(x.grad.split(args.batch))]
        solver.step()  # while the conv nodes work on
        for send in sends:
            send.wait()
        if dist.get_rank() == args.conv:
            report(iteration, loss)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--how", choices=("ddp", "hybrid"), required=True)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--conv", type=int, required=True)
    parser.add_argument("--fc", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True, help="images of a conv worker")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--channels_last", type=int, required=True)
    parser.add_argument("--iterations", type=int, default=1000000)
    args = parser.parse_args()
    args.memory_format = torch.channels_last if args.channels_last else torch.contiguous_format
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)  # the same parameters everywhere
    os.environ["GLOO_SOCKET_IFNAME"] = "eth0"
    world = args.conv + (args.fc if args.how == "hybrid" else 0)
    dist.init_process_group("gloo", rank=args.rank, world_size=world)
    if args.how == "ddp":
        return train_ddp(args)
    conv_group = dist.new_group(range(args.conv))
    fc_group = dist.new_group(range(args.conv, world))
    return train_conv(args, conv_group) if args.rank < args.conv else train_fc(args, fc_group)


if __name__ == "__main__":
    main()
