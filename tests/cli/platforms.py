"""Several OpenCL platforms in one process: the list, the reasons for empty ones, and the same model on each."""

import os
import unittest

import clade
from clade import document, run


def devices():
    return document(run("devices", "--json"))["devices"]


@unittest.skipUnless(os.path.exists("/etc/OpenCL/vendors/rusticl.icd"), "needs Mesa's rusticl")
class Platforms(unittest.TestCase):
    def test_rusticl_that_is_not_enabled(self):
        done = run("doctor", "--json", unset=["RUSTICL_ENABLE"])
        self.assertEqual(done.returncode, 0, done)
        checks = {check["id"]: check for check in document(done)["checks"]}
        self.assertTrue(checks["platform:rusticl"]["note"])
        self.assertIn("RUSTICL_ENABLE", checks["platform:rusticl"]["remedy"])

    def test_every_device_answers(self):
        done = run("doctor", "--json")
        report = document(done)
        self.assertEqual([device["ok"] for device in report["devices"]], [True] * len(report["devices"]))
        self.assertGreaterEqual(len(report["devices"]), 2)

    def test_one_of_several_is_probed(self):
        report = document(run("doctor", "--json", "--device", "rusticl"))
        asked = {device["platform"]: device["ok"] for device in report["devices"]}
        self.assertTrue(asked.pop("rusticl"))
        self.assertEqual(set(asked.values()), {None})

    def test_specs(self):
        names = {device["id"]: device["name"] for device in devices()}
        done = run("devices", "--device", "cpu")
        self.assertEqual(done.returncode, 1)
        for name in names.values():
            self.assertIn(name, done.stderr)
        for number in range(len(names)):
            chosen = document(run("devices", "--json", "--device", f"cpu:{number}"))["devices"]
            self.assertEqual([device["id"] for device in chosen], [str(number)])
        self.assertEqual(run("devices", "--device", f"cpu:{len(names)}").returncode, 1)

    def test_the_model_on_each(self):
        for device in devices():
            done = run("infer", "--demo", "mlp", "--json", "--batch", "64", "--device", device["id"])
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(document(done)["device"]["platform"], device["platform"])

    def test_nothing_is_taken_silently(self):
        """The default is PoCL; CLADE_DEVICE overrides it, and --device overrides both."""
        def taken(*args, env=None):
            return document(run("infer", "--demo", "mlp", "--json", *args, env=env))["device"]["platform"]
        self.assertEqual(taken(), "Portable Computing Language")
        self.assertEqual(taken(env={"CLADE_DEVICE": "rusticl"}), "rusticl")
        self.assertEqual(taken("--device", "pocl", env={"CLADE_DEVICE": "rusticl"}), "Portable Computing Language")


if __name__ == "__main__":
    clade.main()
