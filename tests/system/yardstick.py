"""A constant compiler workload: limits on compilation time are scaled by its duration."""
import shutil
import subprocess
import time

SECONDS = 0.75  # on the machine that limits are stated for: two cores of an AMD EPYC (Zen 3)
TEXT = "".join(f"void f{i}(float *a, const float *b, int n) {{ for (int i = 0; i < n; i++) for (int k = 0; k < {i + 3}; k++) "
               f"a[i] = a[i] * b[i + k] + b[i * {i + 2} + k]; }}\n" for i in range(120))


def slower():
    """The current slowdown relative to that machine: at least 1, and 1 if clang is not installed."""
    if not shutil.which("clang"):
        return 1.0
    start = time.monotonic()
    subprocess.run(["clang", "-O2", "-xc", "-c", "-o", "/dev/null", "-"], input=TEXT, text=True, check=True)
    return max(1.0, (time.monotonic() - start) / SECONDS)


def limits(seconds, tries):
    """The limit for each try, measured just before it: `seconds`, scaled by the current slowdown."""
    for _ in range(tries):
        yield seconds * slower()
