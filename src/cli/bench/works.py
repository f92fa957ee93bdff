"""PyTorch as a contestant of `clade bench gemm|conv|op`: the same work with the same operands.

    works.py pytorch DEVICE THREADS gemm|conv|op NAME TYPE CHAIN PASS KEY=VALUE ...

PASS is the pass of a convolution, with the suffix _nhwc for channels_last tensors, else `-`. The operands in ROOM are f32
numbers that TYPE represents exactly.
"""
import contextlib
import sys

from contestant import Torch, read, serve, without

GROUP, NAME, TYPE = sys.argv[4:7]
CHAIN, PASS = int(sys.argv[7]), sys.argv[8]
KEYS = {key: int(value or 1) for key, _, value in (word.partition("=") for word in sys.argv[9:])}
peer = Torch()
torch = peer.torch
f = torch.nn.functional
aten = torch.ops.aten
DTYPE = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i8": torch.int8}.get(TYPE)
if DTYPE is None:
    without(f"it multiplies no {TYPE}")


class Operand:
    """A tensor for each call, and the values to restore before a call."""

    def __init__(self, name, count, shape, layout=torch.contiguous_format):
        self.first = peer.tensor(read(name, (count, *shape)), DTYPE)
        self.parts = [part.contiguous(memory_format=layout) for part in self.first]
        self.now = [part.clone(memory_format=torch.preserve_format) for part in self.parts]

    def refresh(self):
        for now, part in zip(self.now, self.parts):
            now.copy_(part)

    def __getitem__(self, call):
        return self.now[call % len(self.now)]


def gemm():
    m, n, k, batch = (KEYS.get(key, 1) for key in ("m", "n", "k", "batch"))
    trans_a, trans_b, frozen_a, frozen_b = (KEYS.get(key, 0) for key in ("trans_a", "trans_b", "frozen_a", "frozen_b"))
    linked = KEYS["linked"]
    front = [batch] if batch > 1 else []
    a = Operand("a", 1 if linked or frozen_a else CHAIN, [*front, *((k, m) if trans_a else (m, k))])
    b = Operand("b", 1 if frozen_b else CHAIN, [*front, *((n, k) if trans_b else (k, n))])
    multiply = torch.matmul
    if TYPE == "i8":
        if front or not hasattr(torch, "_int_mm"):
            without("it has no such product of bytes")
        multiply = torch._int_mm

    def step():
        results, x = [], a[0]
        for call in range(CHAIN):
            x = x if linked else a[call]
            y = multiply(x.mT if trans_a else x, b[call].mT if trans_b else b[call])
            results.append(y)
            x = y
        return results[-1:] if linked else results

    def refresh():
        for operand, frozen in (a, frozen_a), (b, frozen_b):
            if not frozen:
                operand.refresh()

    return step, refresh


def conv():
    way, last = PASS.replace("_nhwc", ""), PASS.endswith("_nhwc")
    axes = [axis for axis in "dhw" if KEYS.get(axis, 0)]
    layout = torch.contiguous_format
    if last:
        layout = {2: torch.channels_last, 3: torch.channels_last_3d}.get(len(axes)) or without("it has no such layout")
    n, c, out, groups = KEYS["n"], KEYS["c"], KEYS["out"], KEYS.get("groups", 1)
    kernel, stride, pad, dilation = (KEYS.get(key, unset) for key, unset in
                                     (("kernel", 1), ("stride", 1), ("pad", 0), ("dilation", 1)))
    ins = [KEYS[axis] for axis in axes]
    outs = [(size + 2 * pad - (kernel - 1) * dilation - 1) // stride + 1 for size in ins]
    shapes = {"x": [n, c, *ins], "w": [out, c // groups, *[kernel] * len(axes)], "y": [n, out, *outs]}
    result = {"fwd": "y", "bwd-data": "x", "bwd-weights": "w"}[way]
    have = {name: Operand(name, 1 if name == "w" else CHAIN, shape, layout) for name, shape in shapes.items() if name != result}
    each = [[value] * len(axes) for value in (stride, pad, dilation)]
    # A derivative reads only the shape of the tensor that it computes.
    blank = torch.empty(shapes[result], dtype=DTYPE, device=peer.name).contiguous(memory_format=layout)
    forward = {1: f.conv1d, 2: f.conv2d, 3: f.conv3d}[len(axes)]

    def one(call):
        x, w, y = (have[name][call] if name in have else blank for name in "xwy")
        if way == "fwd":
            return forward(x, w, None, *each, groups)
        wanted = [way == "bwd-data", way == "bwd-weights", False]
        dx, dw, _ = aten.convolution_backward(y, x, w, None, *each, False, [0] * len(axes), groups, wanted)
        return dx if way == "bwd-data" else dw

    def refresh():
        for name, operand in have.items():
            if name != "w":
                operand.refresh()

    return lambda: [one(call) for call in range(CHAIN)], refresh


def with_gradient(function, x, dy):
    """A forward and a backward pass; the result is the gradient."""
    x = x.clone().requires_grad_()

    def step():
        return torch.autograd.grad(function(x), x, dy)[0]

    return step


def op():
    n, c, h, w = (KEYS.get(key, 1) for key in "nchw")
    rows = n * c * h
    flat_a, flat_b = (peer.tensor(read(name, -1), DTYPE) for name in "ab")
    ids = peer.tensor(read("ids", -1, "<i4").astype("int64"))
    a, b, matrix = flat_a.view(n, c, h, w), flat_b.view(n, c, h, w), flat_a.view(rows, w)
    half, half_row = max(c // 2, 1), max(w // 2, 1)

    def numbers(value, size):
        return torch.full((size,), value, dtype=DTYPE, device=peer.name)

    def some(flat, *shape):
        count = 1
        for size in shape:
            count *= size
        return flat[:count].view(shape)

    def like(y):  # the beginning of b, in the shape of y
        return some(flat_b, *y.shape)

    def pool_grad(kernel, stride, pad):
        y, places = f.max_pool2d(a, kernel, stride, pad, return_indices=True)
        dy = like(y)
        return lambda: aten.max_pool2d_with_indices_backward(dy, a, [kernel] * 2, [stride] * 2, [pad] * 2, [1, 1], False, places)

    def average_grad():
        dy = like(f.avg_pool2d(a, 2))
        return lambda: aten.avg_pool2d_backward(dy, a, [2, 2], [2, 2], [0, 0], False, True, None)

    def batch_norm(train):
        mean, shift, variance, scale = numbers(0, c), numbers(0, c), numbers(1, c), numbers(1, c)
        return lambda x: f.batch_norm(x, mean, variance, scale, shift, train, 0.1, 1e-5)

    def layer_norm():
        scale, shift = numbers(1, w), numbers(0, w)
        return lambda x: f.layer_norm(x, (w,), scale, shift)

    def rms_norm():
        scale = numbers(1, w)
        if hasattr(f, "rms_norm"):
            return lambda x: f.rms_norm(x, (w,), scale, 1e-5)
        return lambda x: x * torch.rsqrt((x * x).mean(1, keepdim=True) + 1e-5) * scale

    def group_norm():
        scale, shift, groups = numbers(1, c), numbers(0, c), 8 if c % 8 == 0 else 1
        return lambda x: f.group_norm(x, groups, scale, shift)

    def instance_norm():
        scale, shift = numbers(1, c), numbers(0, c)
        return lambda x: f.instance_norm(x, None, None, scale, shift)

    def update(make):
        p, gradient = torch.nn.Parameter(matrix.clone()), flat_b.view(rows, w)
        p.grad = gradient
        try:
            optimizer = make([p], fused=True)
            optimizer.step()  # some optimizers refuse `fused` only here
            p.data.copy_(matrix)
            optimizer.state.clear()
        except (TypeError, RuntimeError):
            optimizer = make([p])

        def step():
            optimizer.step()
            return p

        return step

    def any_of_equal(axis):
        if TYPE != "f32":
            without("of equal numbers it takes any, and there are many")
        return lambda: (matrix if axis < 0 else a).argmax(axis)

    columns = ids[:min(w, rows)] % w if NAME == "gather_columns" else ids
    dy = flat_b.view(rows, w)
    # Each entry prepares its operands and returns a function that takes a step.
    made = {
        "relu": lambda: lambda: f.relu(a),
        "gelu": lambda: lambda: f.gelu(a),
        "relu_grad": lambda: lambda: aten.threshold_backward(b, a, 0),
        "gelu_grad": lambda: lambda: aten.gelu_backward(b, a),
        "add": lambda: lambda: a + b,
        "add_relu": lambda: lambda: (a + b).relu_(),
        "bias": lambda: lambda: a + some(flat_b, c, 1, 1),
        "bias_last": lambda: lambda: matrix + some(flat_b, w),
        "max_pool": lambda: lambda: f.max_pool2d(a, 2),
        "max_pool_3x3s2": lambda: lambda: f.max_pool2d(a, 3, 2, 1),
        "max_pool_grad": lambda: pool_grad(2, 2, 0),
        "max_pool_3x3s2_grad": lambda: pool_grad(3, 2, 1),
        "avg_pool": lambda: lambda: f.avg_pool2d(a, 2),
        "avg_pool_grad": average_grad,
        "global_avg_pool": lambda: lambda: a.mean((2, 3)),
        "softmax": lambda: lambda: torch.softmax(matrix, -1),
        "log_softmax": lambda: lambda: torch.log_softmax(matrix, -1),
        "softmax_channels": lambda: lambda: torch.softmax(a, 1),
        "log_softmax_channels": lambda: lambda: torch.log_softmax(a, 1),
        "softmax_grad": lambda: with_gradient(lambda x: torch.softmax(x, -1), matrix, dy),
        "log_softmax_grad": lambda: with_gradient(lambda x: torch.log_softmax(x, -1), matrix, dy),
        "batch_norm": lambda: bound(batch_norm(False), a),
        "batch_norm_train": lambda: bound(batch_norm(True), a),
        "batch_norm_grad": lambda: with_gradient(batch_norm(True), a, b),
        "layer_norm": lambda: bound(layer_norm(), matrix),
        "rms_norm": lambda: bound(rms_norm(), matrix),
        "group_norm": lambda: bound(group_norm(), a),
        "instance_norm": lambda: bound(instance_norm(), a),
        "layer_norm_grad": lambda: with_gradient(layer_norm(), matrix, dy),
        "rms_norm_grad": lambda: with_gradient(rms_norm(), matrix, dy),
        "group_norm_grad": lambda: with_gradient(group_norm(), a, b),
        "instance_norm_grad": lambda: with_gradient(instance_norm(), a, b),
        "sum": lambda: a.sum,
        "sum_rows": lambda: lambda: matrix.sum(1),
        "sum_columns": lambda: lambda: matrix.sum(0),
        "bias_grad": lambda: lambda: a.sum((0, 2, 3)),
        "sum_channels": lambda: lambda: a.sum(1),
        "arg_max": lambda: any_of_equal(-1),
        "arg_max_channels": lambda: any_of_equal(1),
        "transpose": lambda: lambda: matrix.t().contiguous(),
        "nchw_to_nhwc": lambda: lambda: a.permute(0, 2, 3, 1).contiguous(),
        "heads": lambda: lambda: a.permute(0, 2, 1, 3).contiguous(),
        "concat": lambda: lambda: torch.cat((some(flat_a, n, half, h, w), some(flat_b, n, half, h, w)), 1),
        "concat_last": lambda: lambda: torch.cat((some(flat_a, rows, half_row), some(flat_b, rows, half_row)), 1),
        "slice": lambda: lambda: a[:, c - half:].contiguous(),
        "slice_last": lambda: lambda: matrix[:, w - half_row:].contiguous(),
        "pad": lambda: lambda: f.pad(a, (1, 1, 1, 1)),
        "gather": lambda: lambda: matrix.index_select(0, ids),
        "gather_grad": lambda: lambda: torch.zeros_like(matrix).index_add_(0, ids, dy),
        "gather_columns": lambda: lambda: matrix.index_select(1, columns),
        "embedding": lambda: lambda: f.embedding(ids, matrix),
        "embedding_grad": lambda: lambda: aten.embedding_dense_backward(dy, ids, rows, -1, False),
        "sgd": lambda: update(lambda p, **how: torch.optim.SGD(p, 0.1, **how)),
        "momentum": lambda: update(lambda p, **how: torch.optim.SGD(p, 0.1, 0.9, **how)),
        "adam": lambda: update(lambda p, **how: torch.optim.Adam(p, 0.1, **how)),
        "adamw": lambda: update(lambda p, **how: torch.optim.AdamW(p, 0.1, **how)),
    }
    if NAME not in made:
        without(f"{NAME} is not known of it")
    step = made[NAME]()
    return lambda: [step()], lambda: None


def bound(function, x):
    return lambda: function(x)


try:
    learns = GROUP == "op" and NAME.endswith("_grad")
    with contextlib.nullcontext() if learns else torch.no_grad():
        begin, again = {"gemm": gemm, "conv": conv, "op": op}[GROUP]()
        if NAME not in ("sgd", "momentum", "adam", "adamw"):  # the check needs their first step
            begin()
            peer.wait()
        serve(peer.version, peer.threads, begin, peer.floats, again, peer.wait)
except (RuntimeError, NotImplementedError) as error:
    without(error)
