"""PyTorch as a contestant of `clade bench model`: the same model from the same weights, a step for each line that comes.

    bench_model.py ROOM MODEL train|infer THREADS BATCH CHANNELS SIDE CLASSES

ROOM holds weights.safetensors, x.f32 and labels.i32. Answers "ready VERSION", to "step" the seconds that it took, to
"result" how many floats it wrote to ROOM/result.f32: the logits, or the loss before the step.
"""
import json
import os
import sys
import time

import numpy
import torch
from torch.nn.functional import batch_norm, conv2d, cross_entropy, linear, max_pool2d, relu, relu6

ROOM, MODEL, PASS = sys.argv[1:4]
THREADS, BATCH, CHANNELS, SIDE, CLASSES = map(int, sys.argv[4:9])
TRAIN = PASS == "train"


def weights(path):
    with open(path, "rb") as file:
        head = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    found = {}
    for name, entry in head.items():
        if name != "__metadata__" and entry["dtype"] == "F32" and not name.startswith(("bench.", "optimizer.")):
            begin, end = entry["data_offsets"]
            array = numpy.frombuffer(data[begin:end], "<f4").reshape(entry["shape"]).copy()
            found[name] = torch.from_numpy(array)
    return found


class Net(torch.nn.Module):
    """Weights by their names in Clade; what is no running statistic learns."""

    def __init__(self, tensors):
        super().__init__()
        self.w = {}
        self.sizes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}  # numbers, also while it is traced
        for number, (name, tensor) in enumerate(sorted(tensors.items())):
            if "running" not in name:
                tensor = torch.nn.Parameter(tensor, requires_grad=TRAIN)
                self.register_parameter(f"p{number}", tensor)
            else:
                self.register_buffer(f"p{number}", tensor)
            self.w[name] = tensor

    def conv(self, name, x, stride=1, groups=1):
        pad = self.sizes[name + ".weight"][2] // 2
        return conv2d(x, self.w[name + ".weight"], self.w.get(name + ".bias"), stride, pad, 1, groups)

    def norm(self, name, x):
        return batch_norm(x, self.w[name + ".running_mean"], self.w[name + ".running_var"], self.w[name + ".weight"],
                          self.w[name + ".bias"], TRAIN, 0.1, 1e-5)

    def linear(self, name, x):
        return linear(x, self.w[name + ".weight"], self.w[name + ".bias"])

    def forward(self, x):
        return getattr(self, MODEL)(x)

    def lenet5(self, x):
        pad = (32 - SIDE) // 2 if SIDE < 32 else 0
        h = max_pool2d(relu(conv2d(x, self.w["conv1.weight"], self.w["conv1.bias"], padding=pad)), 2)
        h = max_pool2d(relu(conv2d(h, self.w["conv2.weight"], self.w["conv2.bias"])), 2)
        h = relu(self.linear("fc1", h.flatten(1)))
        return self.linear("fc3", relu(self.linear("fc2", h)))

    def part(self, block, number, x, stride=1):
        return self.norm(f"{block}.bn{number}", self.conv(f"{block}.conv{number}", x, stride))

    def resnet(self, x, blocks, parts):
        small = SIDE <= 64
        h = relu(self.part("stem", 1, x, 1 if small else 2))
        if not small:
            h = max_pool2d(h, 3, 2, 1)
        for stage in range(4):
            for block in range(blocks[stage]):
                name, stride = f"layer{stage + 1}.{block}", 2 if stage and not block else 1
                past, y = h, h
                for i in range(1, parts):
                    y = relu(self.part(name, i, y, stride if i == parts - 1 else 1))
                y = self.part(name, parts, y)
                if f"{name}.conv{parts + 1}.weight" in self.w:
                    past = self.part(name, parts + 1, h, stride)
                h = relu(y + past)
        return self.linear("fc", h.mean((2, 3)))

    def resnet18(self, x):
        return self.resnet(x, (2, 2, 2, 2), 2)

    def resnet50(self, x):
        return self.resnet(x, (3, 4, 6, 3), 3)

    def mobilenetv2(self, x):
        small = SIDE <= 64
        h = relu6(self.norm("stem.conv_bn", self.conv("stem.conv", x, 1 if small else 2)))
        stages = [(1, 1, 1), (6, 2, 2), (6, 3, 2), (6, 4, 2), (6, 3, 1), (6, 3, 2), (6, 1, 1)]
        for number, (factor, blocks, stage_stride) in enumerate(stages):
            for block in range(blocks):
                name = f"stage{number + 1}.{block}"
                stride = 1 if block or (small and number == 1) else stage_stride
                y = h
                if factor > 1:
                    y = relu6(self.norm(name + ".expand_bn", self.conv(name + ".expand", y)))
                y = relu6(self.norm(name + ".depthwise_bn", self.conv(name + ".depthwise", y, stride,
                                                                   self.sizes[name + ".depthwise.weight"][0])))
                y = self.norm(name + ".project_bn", self.conv(name + ".project", y))
                h = h + y if block else y
        h = relu6(self.norm("head.conv_bn", self.conv("head.conv", h)))
        return self.linear("fc", h.mean((2, 3)))


def main():
    torch.set_num_threads(THREADS)
    net = Net(weights(os.path.join(ROOM, "weights.safetensors")))
    x = torch.from_numpy(numpy.fromfile(os.path.join(ROOM, "x.f32"), "<f4").reshape(BATCH, CHANNELS, SIDE, SIDE))
    labels = torch.from_numpy(numpy.fromfile(os.path.join(ROOM, "labels.i32"), "<i4").astype(numpy.int64))
    if TRAIN:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)

        def step():
            optimizer.zero_grad(set_to_none=True)
            loss = cross_entropy(net(x), labels)
            loss.backward()
            optimizer.step()
            return loss.detach()
    else:
        torch.set_grad_enabled(False)
        call = torch.jit.optimize_for_inference(torch.jit.trace(net.eval(), x))

        def step():
            return call(x)
    result = None
    print("ready", torch.__version__, torch.get_num_threads(), flush=True)
    for line in sys.stdin:
        if line.strip() == "result":
            found = result.numpy().astype("<f4")
            found.tofile(os.path.join(ROOM, "result.f32"))
            print(found.size, flush=True)
            continue
        begin = time.perf_counter()
        result = step()
        print(time.perf_counter() - begin, flush=True)


main()
