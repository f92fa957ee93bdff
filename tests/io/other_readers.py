"""Reads Clade's files with TensorBoard and the package safetensors. Skipped unless both are installed, since nothing is
checked then. other_readers.py TELL"""

import os
import subprocess
import sys
import tempfile

SKIPPED = 77
try:
    from safetensors import safe_open
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError as missing:
    print(f"NOT RUN: {missing}")
    sys.exit(SKIPPED)


def main(tell):
    with tempfile.TemporaryDirectory() as room:
        subprocess.run([tell, room], check=True, stdout=subprocess.DEVNULL)
        for name in ("all.safetensors", "checkpoints/best.safetensors"):
            with safe_open(os.path.join(room, name), framework="np") as f:
                assert len(f.keys()) == 11 and list(f.get_slice("z.weight").get_shape()) == [3, 4]
                assert [float(v) for v in f.get_tensor("a.weight")] == [0.5, 1, 1.5, 2, 2.5]
        log = EventAccumulator(os.path.join(room, "logs"), size_guidance={"scalars": 0, "histograms": 0})
        log.Reload()
        loss = log.Scalars("loss")
        assert [e.step for e in loss] == list(range(300)), "what was told twice counts once"
        assert all(abs(e.value - (1 if e.step < 10 else 2) / (e.step + 1)) < 1e-6 for e in loss)
        assert log.Histograms("weights/z")[0].histogram_value.num == 998


if __name__ == "__main__":
    main(*sys.argv[1:])
