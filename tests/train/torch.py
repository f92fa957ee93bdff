"""The same training in PyTorch: LeNet-5 on Fashion-MNIST from the same weights with the same batches. The first losses
agree, as does the final accuracy over three seeds; the time per step is printed for both. Skipped without
python3-torch, since nothing is compared then.

    torch.py LENET_TOLD EPOCHS
"""
import gzip
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.pop(0)  # import the library instead of this file
try:
    import numpy
    import torch
    from torch.nn.functional import conv2d, cross_entropy, linear, max_pool2d, relu
except ImportError as missing:
    print(f"NOT RUN: {missing}")
    sys.exit(77)
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "io"))
from formats import safetensors

DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")


def idx(name):
    raw = gzip.decompress((DATA / f"{name}.gz").read_bytes())
    sizes = [int.from_bytes(raw[4 + 4 * i:8 + 4 * i], "big") for i in range(raw[3])]
    return numpy.frombuffer(raw, numpy.uint8, offset=4 + 4 * len(sizes)).reshape(sizes)


def part(name):
    images = torch.from_numpy(idx(f"{name}-images-idx3-ubyte").astype(numpy.float32) / 255).unsqueeze(1)
    return images, torch.from_numpy(idx(f"{name}-labels-idx1-ubyte").astype(numpy.int64))


def weights(path):
    tensors, _ = safetensors(path.read_bytes())
    return {name: torch.tensor(numpy.frombuffer(data, "<f4").reshape(shape)).requires_grad_()
            for name, (_, shape, data) in tensors.items()}


def lenet5(w, x):
    h = max_pool2d(relu(conv2d(x, w["conv1.weight"], w["conv1.bias"], padding=2)), 2)
    h = max_pool2d(relu(conv2d(h, w["conv2.weight"], w["conv2.bias"])), 2)
    h = relu(linear(h.flatten(1), w["fc1.weight"], w["fc1.bias"]))
    h = relu(linear(h, w["fc2.weight"], w["fc2.bias"]))
    return linear(h, w["fc3.weight"], w["fc3.bias"])


def train(room, told, images, labels):
    """Losses of the first steps, the final weights, and the seconds per step."""
    w = weights(room / "initial.safetensors")
    order = torch.from_numpy(numpy.fromfile(room / "order.i64", numpy.int64).reshape(told["steps"], told["batch"]))
    optimizer = torch.optim.SGD(w.values(), lr=told["rate"])
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, told["steps"])
    losses, begin = [], time.perf_counter()
    for samples in order:
        optimizer.zero_grad()
        loss = cross_entropy(lenet5(w, images[samples]), labels[samples])
        loss.backward()
        optimizer.step()
        schedule.step()
        if len(losses) < len(told["losses"]):
            losses.append(loss.item())
    return losses, w, (time.perf_counter() - begin) / told["steps"]


def main(program, epochs):
    images, labels = part("train")
    test_images, test_labels = part("t10k")
    torch.set_num_threads(os.cpu_count())
    print(f"PyTorch {torch.__version__} with {torch.get_num_threads()} threads")
    ours, theirs, worst, speed = [], [], 0, []
    for seed in (1, 2, 3):
        with tempfile.TemporaryDirectory(prefix="clade-test-") as folder:
            done = subprocess.run([program, folder, str(seed), epochs], stdout=subprocess.PIPE, text=True, timeout=1000,
                                  check=True)
            told = json.loads(done.stdout)
            losses, w, seconds = train(pathlib.Path(folder), told, images, labels)
        with torch.no_grad():
            right = sum(int((lenet5(w, x).argmax(1) == y).sum())
                        for x, y in zip(test_images.split(1000), test_labels.split(1000)))
        ours.append(told["test_accuracy"])
        theirs.append(right / len(test_labels))
        worst = max(worst, *(abs(a - b) / b for a, b in zip(told["losses"], losses)))
        speed.append(seconds / told["seconds_per_step"])
        print(f"seed {seed}: accuracy {ours[-1]:.4f}, PyTorch {theirs[-1]:.4f}; "
              f"a step {1e3 * told['seconds_per_step']:.2f} ms, PyTorch {1e3 * seconds:.2f} ms")
    apart = abs(statistics.mean(ours) - statistics.mean(theirs))
    print(f"losses of {len(losses)} steps: {worst:.1e} apart at most; accuracies: {100 * apart:.2f} points apart; "
          f"Clade's step is {statistics.median(speed):.2f} times as fast")
    return 0 if len(losses) == 20 and worst <= 1e-5 and apart <= 0.007 else 1


sys.exit(main(*sys.argv[1:]))
