"""PyTorch and ONNX Runtime as contestants of `clade bench model`: the same model with the same weights.

    model.py PEER DEVICE THREADS MODEL train|infer BATCH CHANNELS SIDE CLASSES TYPE [try]

PEER is pytorch or onnxruntime; the pass has the suffix _nhwc for PyTorch's channels_last tensors. TYPE is f32, by
PyTorch's autocast bf16 or f16, by ONNX Runtime i8: the quantized model. weights.safetensors, x, labels and of a quantized
model `layers`, its inputs' types and scales, are in ROOM. The result is the logits, or the loss before the step.
"""
import json
import os
import struct
import subprocess
import sys

import numpy

from contestant import DEVICE, PEER, ROOM, THREADS, Torch, read, serve, without

MODEL, PASS = sys.argv[4:6]
BATCH, CHANNELS, SIDE, CLASSES = map(int, sys.argv[6:10])
TYPE = sys.argv[10]
TRAIN, NHWC = PASS.startswith("train"), PASS.endswith("_nhwc")
TRY = sys.argv[11:] == ["try"]  # takes one step and exits, to see whether the process survives


def weights(path):
    with open(path, "rb") as file:
        head = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    found = {}
    for name, entry in head.items():
        kind = {"F32": "<f4", "I8": "i1"}.get(entry.get("dtype"))
        if kind and not name.startswith(("bench.", "optimizer.")):
            begin, end = entry["data_offsets"]
            found[name] = numpy.frombuffer(data[begin:end], kind).reshape(entry["shape"]).copy()
    return found


class Model:
    """The models, in terms of operations that subclasses define. self.w maps Clade's names of weights to values."""

    def conv(self, name, x, stride=1, groups=1):
        pad = self.sizes[name + ".weight"][2] // 2
        return self.conv2d(x, self.w[name + ".weight"], self.w.get(name + ".bias"), stride, pad, groups)

    def norm(self, name, x):
        return self.batch_norm(x, *(self.w[f"{name}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")))

    def linear(self, name, x):
        return self.product(x, self.w[name + ".weight"], self.w[name + ".bias"])

    def lenet5(self, x):
        pad = (32 - SIDE) // 2 if SIDE < 32 else 0
        h = self.max_pool2d(self.relu(self.conv2d(x, self.w["conv1.weight"], self.w["conv1.bias"], 1, pad, 1)), 2, 2, 0)
        h = self.max_pool2d(self.relu(self.conv2d(h, self.w["conv2.weight"], self.w["conv2.bias"], 1, 0, 1)), 2, 2, 0)
        h = self.relu(self.linear("fc1", self.flatten(h)))
        return self.linear("fc3", self.relu(self.linear("fc2", h)))

    def part(self, block, number, x, stride=1):
        return self.norm(f"{block}.bn{number}", self.conv(f"{block}.conv{number}", x, stride))

    def resnet(self, x, blocks, parts):
        small = SIDE <= 64
        h = self.relu(self.part("stem", 1, x, 1 if small else 2))
        if not small:
            h = self.max_pool2d(h, 3, 2, 1)
        for stage in range(4):
            for block in range(blocks[stage]):
                name, stride = f"layer{stage + 1}.{block}", 2 if stage and not block else 1
                past, y = h, h
                for i in range(1, parts):
                    y = self.relu(self.part(name, i, y, stride if i == parts - 1 else 1))
                y = self.part(name, parts, y)
                if f"{name}.conv{parts + 1}.weight" in self.w:
                    past = self.part(name, parts + 1, h, stride)
                h = self.relu(self.add(y, past))
        return self.linear("fc", self.mean(h))

    def resnet18(self, x):
        return self.resnet(x, (2, 2, 2, 2), 2)

    def resnet50(self, x):
        return self.resnet(x, (3, 4, 6, 3), 3)

    def mobilenetv2(self, x):
        small = SIDE <= 64
        h = self.relu6(self.norm("stem.conv_bn", self.conv("stem.conv", x, 1 if small else 2)))
        stages = [(1, 1, 1), (6, 2, 2), (6, 3, 2), (6, 4, 2), (6, 3, 1), (6, 3, 2), (6, 1, 1)]
        for number, (factor, blocks, stage_stride) in enumerate(stages):
            for block in range(blocks):
                name = f"stage{number + 1}.{block}"
                stride = 1 if block or (small and number == 1) else stage_stride
                y = h
                if factor > 1:
                    y = self.relu6(self.norm(name + ".expand_bn", self.conv(name + ".expand", y)))
                y = self.relu6(self.norm(name + ".depthwise_bn", self.conv(name + ".depthwise", y, stride,
                                                                   self.sizes[name + ".depthwise.weight"][0])))
                y = self.norm(name + ".project_bn", self.conv(name + ".project", y))
                h = self.add(h, y) if block else y
        h = self.relu6(self.norm("head.conv_bn", self.conv("head.conv", h)))
        return self.linear("fc", self.mean(h))


def survives():
    """Tries a step in a child process with the same arguments: some builds of PyTorch crash."""
    command = [sys.executable, *sys.orig_argv[1:], "try"]
    return not subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              check=False).returncode


def pytorch(arrays, x, labels):
    peer = Torch()
    torch = peer.torch
    f = torch.nn.functional

    def lie(tensor):
        return tensor.contiguous(memory_format=torch.channels_last) if NHWC and tensor.dim() == 4 else tensor

    class Net(torch.nn.Module, Model):
        relu, relu6, product, flatten = map(staticmethod, (f.relu, f.relu6, f.linear, lambda x: x.flatten(1)))
        add, mean = map(staticmethod, (torch.add, lambda x: x.mean((2, 3))))

        def __init__(self):
            super().__init__()
            self.w = {}
            self.sizes = {name: array.shape for name, array in arrays.items()}  # integers, also while the model is traced
            for number, (name, array) in enumerate(sorted(arrays.items())):
                tensor = lie(peer.tensor(array))
                if "running" not in name:  # all but running statistics are trained
                    tensor = torch.nn.Parameter(tensor, requires_grad=TRAIN)
                    self.register_parameter(f"p{number}", tensor)
                else:
                    self.register_buffer(f"p{number}", tensor)
                self.w[name] = tensor

        @staticmethod
        def conv2d(x, w, bias, stride, pad, groups):
            return f.conv2d(x, w, bias, stride, pad, 1, groups)

        @staticmethod
        def batch_norm(x, mean, variance, scale, shift):
            return f.batch_norm(x, mean, variance, scale, shift, TRAIN, 0.1, 1e-5)

        @staticmethod
        def max_pool2d(x, kernel, stride, pad):
            return f.max_pool2d(x, kernel, stride, pad)

        def forward(self, x):
            return getattr(self, MODEL)(x)

    net, x, labels = Net(), lie(peer.tensor(x)), peer.tensor(labels.astype(numpy.int64))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9) if TRAIN else None
    torch.set_grad_enabled(TRAIN)
    call, how = net, ""
    narrow = {"bf16": torch.bfloat16, "f16": torch.float16}.get(TYPE)
    if narrow:

        def call(x):
            with torch.autocast(peer.name, narrow):
                return net(x).float()
    elif not TRAIN and (TRY or survives()):
        call = torch.jit.optimize_for_inference(torch.jit.trace(net.eval(), x))
    elif not TRAIN:  # optimize_for_inference crashes PyTorch 2.6 of Debian 13
        call, how = torch.jit.freeze(torch.jit.trace(net.eval(), x)), ", frozen: optimized, its process ends"

    def step():
        if not TRAIN:
            return [call(x)]
        optimizer.zero_grad(set_to_none=True)
        loss = f.cross_entropy(call(x), labels)
        loss.backward()
        optimizer.step()
        return [loss]

    return peer.version + how, peer.threads, step, peer.floats, peer.wait


def varint(n):
    text = b""
    while n > 127:
        text += bytes([n & 127 | 128])
        n >>= 7
    return text + bytes([n])


def field(number, value):
    """A field of a protocol buffer: an integer, a float, or bytes (a text or a message)."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


class Onnx(Model):
    """Writes the model as an ONNX file; values are names."""

    def __init__(self, arrays):
        self.sizes = {name: array.shape for name, array in arrays.items()}
        self.w = {name: name for name in arrays}
        self.nodes, self.tensors, self.count = b"", b"", 0
        for name, array in arrays.items():
            self.tensor(name, array)

    def tensor(self, name, array):
        kind = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6}[array.dtype.name]
        self.tensors += field(5, b"".join(field(1, size) for size in array.shape) + field(2, kind) + field(8, name) +
                              field(9, array.tobytes()))
        return name

    def node(self, op, inputs, **attributes):
        self.count += 1
        text = b"".join(field(1, name) for name in inputs) + field(2, f"v{self.count}") + field(4, op)
        for name, value in attributes.items():
            number, kind = (2, 1) if isinstance(value, float) else (3, 2) if isinstance(value, int) else (8, 7)
            values = value if kind == 7 else [value]
            text += field(5, field(1, name) + b"".join(field(number, one) for one in values) + field(20, kind))
        self.nodes += field(1, text)
        return f"v{self.count}"

    def conv2d(self, x, w, bias, stride, pad, groups):
        kernel = list(self.sizes[w][2:])
        return self.node("Conv", [x, w] + ([bias] if bias else []), kernel_shape=kernel, strides=[stride] * 2,
                         pads=[pad] * 4, group=groups)

    def batch_norm(self, x, mean, variance, scale, shift):
        return self.node("BatchNormalization", [x, scale, shift, mean, variance], epsilon=1e-5)

    def max_pool2d(self, x, kernel, stride, pad):
        return self.node("MaxPool", [x], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)

    def product(self, x, w, bias):
        return self.node("Gemm", [x, w] + ([bias] if bias else []), transB=1)

    def relu(self, x):
        return self.node("Relu", [x])

    def relu6(self, x):
        for name, value in ("zero", 0), ("six", 6):
            if name not in self.w:
                self.w[name] = self.tensor(name, numpy.array(value, "<f4"))
        return self.node("Clip", [x, "zero", "six"])

    def add(self, x, y):
        return self.node("Add", [x, y])

    def mean(self, x):
        return self.flatten(self.node("GlobalAveragePool", [x]))

    def flatten(self, x):
        return self.node("Flatten", [x], axis=1)

    @staticmethod
    def port(number, name, sizes):
        shape = b"".join(field(1, field(1, size)) for size in sizes)
        return field(number, field(1, name) + field(2, field(1, field(1, 1) + field(2, shape))))

    def write(self, path, more=()):
        """`more` lists the names of further outputs; nodes append to it."""
        y = getattr(self, MODEL)("x")
        graph = self.nodes + field(2, MODEL) + self.tensors + self.port(11, "x", (BATCH, CHANNELS, SIDE, SIDE)) + \
            self.port(12, y, (BATCH, CLASSES)) + b"".join(field(12, field(1, name)) for name in more)
        with open(path, "wb") as file:
            file.write(field(1, 8) + field(8, field(1, "") + field(2, 13)) + field(7, graph))


class Bytes(Onnx):
    """Writes the quantized model: a pair of QuantizeLinear and DequantizeLinear around each value, which ONNX Runtime
    turns into operations on bytes. Layers have Clade's integers and scales; i8 inputs are u8 with the zero point 128, for
    which ONNX Runtime's kernels are faster. Clade keeps other values, such as operands of additions, in f32 where it
    does not compute them in an epilogue. Here they get `scales`, in their order; without, they stay f32 and `asked`
    lists them."""

    def __init__(self, arrays, layers, scales=None):
        super().__init__({})
        self.w = {name: name for name in arrays}
        self.sizes = {name: array.shape for name, array in arrays.items()}
        self.arrays, self.layers, self.scales = arrays, layers, scales
        self.asked, self.made, self.how = [], {}, {}

    def rounded(self, x, scale, zero):
        if x not in self.made:
            part = [self.tensor(x + ".scale", numpy.array(scale, "<f4")), self.tensor(x + ".zero", numpy.array(zero, "u1"))]
            self.made[x] = self.node("DequantizeLinear", [self.node("QuantizeLinear", [x, *part]), *part])
            self.how[x] = scale, zero
        return self.made[x]

    def operand(self, x):
        if x not in self.made and x not in self.asked:
            self.asked.append(x)
            if self.scales:
                self.rounded(x, *self.scales[len(self.asked) - 1])
        return self.made.get(x, x)

    def constant(self, name, array, scale):
        part = [self.tensor(name + ".q", array), self.tensor(name + ".q.scale", scale.astype("<f4")),
                self.tensor(name + ".q.zero", numpy.zeros(scale.shape, array.dtype))]
        made = self.node("DequantizeLinear", part, axis=0)
        self.sizes[made] = array.shape
        return made

    def layer(self, x, w, bias):
        name = w.removesuffix(".weight")
        kind, scale = self.layers[name]
        sums = self.arrays[name + ".scale"]
        x = self.rounded(x, scale, 0 if kind == "u8" else 128)
        if bias:
            bias = self.constant(bias, self.whole(bias).astype("<i4"), sums)
        return x, self.constant(w, self.arrays[w], sums / scale), bias

    def whole(self, bias):
        return numpy.rint(self.arrays[bias] / self.arrays[bias.removesuffix("bias") + "scale"].astype("f8"))

    def norm(self, name, x):  # it is part of the layer
        return x

    def conv2d(self, x, w, bias, *how):
        return super().conv2d(*self.layer(x, w, bias), *how)

    def product(self, x, w, bias):
        if abs(self.whole(bias)).max() < 2**31:
            return super().product(*self.layer(x, w, bias))
        y = super().product(*self.layer(x, w, None))  # a bias beyond i32, as in a model whose weights are random
        return self.node("Add", [y, self.tensor(bias, self.arrays[bias])])

    def max_pool2d(self, x, *how):
        y = super().max_pool2d(self.operand(x), *how)
        if x in self.made:  # its result has the same scale
            self.rounded(y, *self.how[x])
        return y

    def add(self, x, y):
        return super().add(self.operand(x), self.operand(y))

    def mean(self, x):
        return super().mean(self.operand(x))


def quantized(arrays, x, path, begin):
    """Writes the quantized model; a run without the other values' scales finds their ranges."""
    with open(os.path.join(ROOM, "layers"), encoding="utf-8") as file:
        words = [word.split("=") for word in file.read().split(",")]
    layers = {name: (kind, float(scale)) for name, (kind, scale) in ((name, how.split(":")) for name, how in words)}
    first, scales = Bytes(arrays, layers), []
    first.write(path, first.asked)
    for value in begin().run(first.asked, {"x": x}) if first.asked else []:
        low, high = float(value.min()), float(value.max())
        scales.append((max(high, 1e-30) / 255, 0) if low >= 0 else (max(-low, high) / 127, 128))
    Bytes(arrays, layers, scales).write(path)


def onnxruntime(arrays, x, _):
    import onnxruntime as ort
    provider = "CUDAExecutionProvider" if DEVICE == "gpu" else "CPUExecutionProvider"
    if provider not in ort.get_available_providers():
        without(f"ONNX Runtime has no {provider}")
    path = os.path.join(ROOM, "model.onnx")
    options = ort.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL

    def begin():
        return ort.InferenceSession(path, options, providers=[provider])

    if TYPE == "i8":
        quantized(arrays, x, path, begin)
    else:
        Onnx(arrays).write(path)
    session = begin()
    return "ONNX Runtime " + ort.__version__, THREADS, lambda: session.run(None, {"x": x}), numpy.asarray, lambda: None


def main():
    begin = {"pytorch": pytorch, "onnxruntime": onnxruntime}[PEER]
    version, threads, step, floats, wait = begin(weights(os.path.join(ROOM, "weights.safetensors")),
                                                 read("x", (BATCH, CHANNELS, SIDE, SIDE)), read("labels", -1, "<i4"))
    if TRY:
        step()
        return
    serve(version, threads, step, floats, wait=wait)


main()
