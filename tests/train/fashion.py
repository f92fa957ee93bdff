"""LeNet-5 on Fashion-MNIST, as packaged by Debian.

    fashion.py CLADE EPOCHS ACCURACY
"""
import sys

from common import result, train

epochs, least = int(sys.argv[2]), float(sys.argv[3])
done = train("--data", "fashion-mnist", "--epochs", epochs, "--lr", 0.003, "--schedule", "one-cycle", timeout=3000)
end = result(done)
print(f"test accuracy {end['test_accuracy']:.4f} (at least {least}) after {epochs} epochs, {end['seconds']:.1f} s, "
      f"{end['images_per_s']:.0f} images/s, {end['waited_seconds']:.2f} s of them spent waiting for data")
sys.exit(0 if end["test_accuracy"] >= least else 1)
