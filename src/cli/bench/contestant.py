"""The other side of python.c: a contestant of `clade bench` that is a process of Python. It answers each line:

    refresh     operands are again what they were: done
    step        one call: the seconds that it took
    result N    ROOM/result.f32 is the N-th result of the last step: how many floats it has

Its first line is "ready THREADS VERSION", or "without REASON" where it cannot take part.
"""
import os
import sys
import time

import numpy

ROOM = os.path.dirname(os.path.abspath(__file__))
PEER, DEVICE, THREADS = sys.argv[1], sys.argv[2], int(sys.argv[3])  # DEVICE: the class of Clade's


def without(reason):
    print("without", " ".join(str(reason).split())[:160], flush=True)
    sys.exit()


def read(name, shape, kind="<f4"):
    return numpy.fromfile(os.path.join(ROOM, name), kind).reshape(shape)


class Torch:
    """PyTorch on the kind of device that Clade is measured on: a GPU is CUDA's or ROCm's first."""

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
    """step() gives a list of results, and floats(result) is one as numpy's."""
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
