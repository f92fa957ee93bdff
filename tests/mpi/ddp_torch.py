"""A rank of PyTorch's DistributedDataParallel over gloo, for ddp.py: trains Clade's ResNet-18 for 32 x 32 images.

    ddp_torch.py ROOM RANK RANKS PORT BATCH

ROOM holds x_train.npy and y_train.npy; each step uses BATCH images per rank. Rank 0 prints a line of JSON: the version,
the number of parameters, and the seconds of each step.
"""
import datetime
import json
import os
import sys
import time

import numpy
import torch
from torch import nn

ROOM = sys.argv[1]
RANK, RANKS, PORT, BATCH = map(int, sys.argv[2:])
CLASSES = 10


def convolve(source, width, kernel, stride=1):
    return nn.Sequential(nn.Conv2d(source, width, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(width))


class Block(nn.Module):
    def __init__(self, source, width, stride):
        super().__init__()
        self.first, self.second = convolve(source, width, 3, stride), convolve(width, width, 3)
        self.past = nn.Identity() if source == width and stride == 1 else convolve(source, width, 1, stride)

    def forward(self, x):
        return torch.relu(self.second(torch.relu(self.first(x))) + self.past(x))


def resnet18():
    """As in examples/models/resnet.c for small images."""
    blocks = [Block(max(64, width // 2) if not i else width, width, 2 if width > 64 and not i else 1)
              for width in (64, 128, 256, 512) for i in range(2)]
    return nn.Sequential(convolve(3, 64, 3), nn.ReLU(), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(512, CLASSES))


def data():
    x, y = (numpy.load(os.path.join(ROOM, f"{name}_train.npy")) for name in "xy")
    return torch.from_numpy(x.astype(numpy.float32) / 255), torch.from_numpy(y.astype(numpy.int64))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(42)
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{PORT}", rank=RANK, world_size=RANKS,
                                         timeout=datetime.timedelta(minutes=2))
    x, y = data()
    # Its fastest settings: gradients are views of buckets, and running statistics are local, as in Clade.
    net = nn.parallel.DistributedDataParallel(resnet18(), gradient_as_bucket_view=True, broadcast_buffers=False)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.001, momentum=0.9)
    order, seconds = torch.randperm(len(x)), []
    for batch in order.split(RANKS * BATCH):
        start = time.perf_counter()
        own = batch[RANK * BATCH:(RANK + 1) * BATCH]
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(net(x[own]), y[own])
        loss.backward()
        optimizer.step()
        loss.item()
        seconds.append(time.perf_counter() - start)
    if not RANK:
        print(json.dumps({"version": torch.__version__, "parameters": sum(p.numel() for p in net.parameters()),
                          "seconds": seconds}))


main()
