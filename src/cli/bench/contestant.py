"""The Python side of python.c: a contestant of `clade bench`. It reads commands from standard input, answers each by a
line, and begins with "ready THREADS VERSION", or "without REASON" if it cannot take part.

    command     action                                             answer
    refresh     restores the operands                              done
    step        makes one call                                     its seconds
    result N    writes result N of the last step to result.f32     the number of floats
"""
import os
import sys
import time

import numpy

ROOM = os.path.dirname(os.path.abspath(__file__))
PEER, DEVICE, THREADS = sys.argv[1], sys.argv[2], int(sys.argv[3])  # DEVICE: cpu, gpu or accel


def without(reason):
    print("without", " ".join(str(reason).split())[:160], flush=True)
    sys.exit()


def read(name, shape, kind="<f4"):
    return numpy.fromfile(os.path.join(ROOM, name), kind).reshape(shape)


class Torch:
    """PyTorch on the same class of device as Clade. A GPU is the first of CUDA or ROCm."""

    def __init__(self):
        import torch
        self.torch = torch
        if DEVICE not in ("cpu", "gpu"):
            without("it runs on CPUs and GPUs")
        if DEVICE == "gpu" and not torch.cuda.is_available():
            without("PyTorch finds no GPU (torch.cuda.is_available())")
        self.name = "cuda" if DEVICE == "gpu" else "cpu"
        torch.set_num_threads(THREADS)
        torch.backends.cudnn.benchmark = True
        self.threads = torch.get_num_threads()
        self.version = "PyTorch " + torch.__version__
        if DEVICE == "gpu":
            self.version += " on " + torch.cuda.get_device_name()

    def wait(self):
        if self.name == "cuda":
            self.torch.cuda.synchronize()

    def tensor(self, array, dtype=None):
        return self.torch.from_numpy(array).to(self.name, dtype)

    def floats(self, tensor):
        return tensor.detach().to("cpu", self.torch.float32).contiguous().numpy()


def serve(version, threads, step, floats, refresh=lambda: None, wait=lambda: None):
    """step() returns a list of results; floats(result) converts one to a numpy array."""
    results = None
    print("ready", threads, version, flush=True)
    for line in sys.stdin:
        word, *number = line.split()
        if word == "result":
            found = numpy.asarray(floats(results[int(number[0])]), "<f4")
            found.tofile(os.path.join(ROOM, "result.f32"))
            print(found.size, flush=True)
        elif word == "refresh":
            refresh()
            wait()
            print("done", flush=True)
        else:
            start = time.perf_counter()
            results = step()
            wait()
            print(time.perf_counter() - start, flush=True)
