"""clade plan: enumerated layouts, proposals and refusals."""

import unittest

import clade
from clade import document, run

SMALL = "gpt:layers=4,width=128,heads=4,vocab=500,length=64"
DEVICE = ("--flops", "1", "--bandwidth", "100")
PARAMETERS = 1313626112  # of 24 layers of 2048


def plan(model, ranks, *more, memory="80", batch="8"):
    return run("plan", "--model", model, "--ranks", str(ranks), "--memory", memory, "--batch", batch, *DEVICE, *more)


def layouts(model, ranks, *more, **options):
    return document(plan(model, ranks, "--json", "--list", "10000", *more, **options))["layouts"]


class Plan(unittest.TestCase):
    def wrong(self, words, *args):
        done = run("plan", *args)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done)
        self.assertIn(words, done.stderr)

    def test_wrong_usage(self):
        good = ("--model", "mlp", "--ranks", "2")
        self.wrong("--model says", "--ranks", "2")
        self.wrong("--ranks says", "--model", "mlp")
        self.wrong("--ranks 0: expected a whole number from 1", "--model", "mlp", "--ranks", "0")
        self.wrong("--model zork: expected mlp, lenet5", "--model", "zork", "--ranks", "2")
        self.wrong("'depth=3'", "--model", "gpt:depth=3", "--ranks", "2")
        self.wrong("no multiple of 5 heads", "--model", "gpt:heads=5", "--ranks", "2")
        self.wrong("--side", "--model", "gpt", "--side", "32", "--ranks", "2")
        self.wrong("28 x 28", *good, "--side", "32")
        self.wrong("--memory -1: expected a positive number", *good, "--memory", "-1")
        self.wrong("--link 3: expected microseconds", *good, "--link", "3")
        self.wrong("--node-link 3,0: expected microseconds", *good, "--node-link", "3,0")
        self.wrong("--optimizer zork: expected adam", *good, "--optimizer", "zork")
        self.wrong("that --flops describes", *good, "--bandwidth", "100")
        self.wrong("--memory says what a device with --flops has", *good, "--flops", "1")
        self.wrong("--device names one that is here", *good, "--flops", "1", "--memory", "1", "--device", "0")
        self.wrong("unexpected argument 'more'", *good, "more")

    def test_nothing_fits(self):
        done = plan(SMALL, 2, memory="0.0001")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"no layout of gpt:\S* on 2 ranks fits 0\.00 GB: the least is 0\.\d+ GB a rank, with data=")

    def test_layouts(self):
        """All divisors of the ranks and the batch; the fastest that fits is first. Layers are split only if that is
        worthwhile."""
        slow = run("plan", "--model", SMALL, "--ranks", "4", "--batch", "8", "--memory", "1", "--flops", "0.01", "--list", "1000",
                   "--json")
        found = document(slow)["layouts"]
        for one in found:
            self.assertEqual(one["data"] * one["tensor"] * one["pipeline"], 4)
            self.assertEqual(one["rows"] * one["micro_batches"] * one["data"], 8)
            self.assertEqual(len(one["pieces"]), one["pipeline"] * one["interleave"])
            self.assertTrue(one["fits"] and 0 <= one["idle"] < 1)
        grids = {(one["data"], one["tensor"], one["pipeline"]) for one in found}
        self.assertEqual(grids, {(4, 1, 1), (2, 2, 1), (2, 1, 2), (1, 4, 1), (1, 2, 2), (1, 1, 4)})
        seconds = [one["seconds"] for one in found]
        self.assertEqual(seconds, sorted(seconds))
        self.assertEqual({one["shard"] for one in found if one["data"] == 1}, {"none"})

    def test_alone(self):
        """With a slow link, one rank is proposed with an explanation; its batch is the whole batch."""
        done = plan("lenet5", 4, "--link", "1000,0.001", batch="64")
        self.assertIn("times as fast, and not worth it", done.stdout)
        found = document(plan(SMALL, 1, "--json"))
        self.assertEqual(found["alone_seconds"], found["layouts"][0]["seconds"])

    def test_memory(self):
        """Sharding reduces memory, and layouts that do not fit are not proposed."""
        found = {(one["data"], one["tensor"], one["pipeline"], one["micro_batches"], one["interleave"], one["shard"]): one
                 for one in layouts(SMALL, 4)}
        whole, owned = found[4, 1, 1, 1, 1, "none"], found[4, 1, 1, 1, 1, "optimizer"]
        self.assertGreaterEqual(4 * owned["optimizer_bytes"], whole["optimizer_bytes"])
        self.assertLess(owned["optimizer_bytes"], whole["optimizer_bytes"] / 3)
        self.assertEqual(whole["optimizer_bytes"], 2 * whole["variable_bytes"])
        self.assertLess(found[1, 1, 4, 8, 1, "none"]["variable_bytes"], whole["variable_bytes"])
        for (_, _, stages, micro_batches, _, shard), one in found.items():  # pairwise sums of 1, 2 and 4 micro-batches
            if stages == 1 and shard == "none":
                self.assertEqual(one["gradient_bytes"], {1: 1, 2: 1, 4: 2, 8: 3}[micro_batches] * one["variable_bytes"])
        least = min(one["memory_bytes"] for one in found.values())
        best = document(plan(SMALL, 4, "--json", memory=repr(least * 1.2e-9)))
        self.assertLess(best["fitting"], best["looked_at"])
        self.assertLessEqual(best["layouts"][0]["memory_bytes"], least * 1.2)
        sgd = layouts(SMALL, 4, "--optimizer", "sgd")[0]
        self.assertEqual(sgd["optimizer_bytes"], 0)

    def test_owners(self):
        """A parameter has one owner: most of the MLP is its first weight."""
        for one in layouts("mlp", 4):
            if (one["data"], one["shard"]) == (4, "optimizer"):
                self.assertEqual(one["optimizer_bytes"], 2 * 4 * 784 * 256)

    def test_measured(self):
        """A step here scales all estimates."""
        told = document(run("plan", "--model", "mlp", "--ranks", "1", "--batch", "64", "--measure", "--json"))
        plain = document(run("plan", "--model", "mlp", "--ranks", "1", "--batch", "64", "--json"))
        self.assertEqual(plain["device"]["scale"], 1)
        self.assertGreater(told["device"]["scale"], 0)
        self.assertNotEqual(told["alone_seconds"], plain["alone_seconds"])
        self.assertIn("a step of 64 samples on it: ", run("plan", "--model", "mlp", "--ranks", "1", "--batch", "64", "--measure").stdout)
        self.wrong("--measure: the device of --flops is not here", "--model", "mlp", "--ranks", "2", "--flops", "1", "--memory", "1",
                   "--measure")

    def test_tensor(self):
        """On a slow device, splitting layers is worthwhile: sliced variables, with sums between."""
        done = run("plan", "--model", SMALL, "--ranks", "4", "--memory", "1", "--batch", "8", "--flops", "0.001", "--json",
                   "--list", "1000")
        cut, whole = (next(one for one in document(done)["layouts"] if one["tensor"] == n and one["pipeline"] == 1)
                      for n in (4, 1))
        self.assertLess(cut["variable_bytes"], whole["variable_bytes"])
        self.assertEqual({move["backward"] for move in cut["moves"]}, {False, True})
        self.assertEqual(whole["moves"], [])
        self.assertGreater(cut["moves_seconds"], 0)

    def test_links(self):
        """A faster link is never slower; nodes have their own link."""
        slow, fast = layouts(SMALL, 4, "--link", "50,1")[0], layouts(SMALL, 4, "--link", "5,100")[0]
        nodes = layouts(SMALL, 4, "--link", "50,1", "--node", "4", "--node-link", "5,100")[0]
        self.assertLess(fast["seconds"], slow["seconds"])
        self.assertEqual(nodes["seconds"], fast["seconds"])

    def test_pipeline(self):
        """Communication between stages includes the embedding shared with the last layer."""
        found = [one for one in layouts(SMALL, 2) if one["pipeline"] == 2 and one["interleave"] == 1]
        for one in found:
            sent = {(message["from"], message["to"], message["when"]): message["bytes"] for message in one["messages"]}
            self.assertEqual(sent[0, 1, "begin"], 500 * 128 * 4)
            self.assertEqual(sent[1, 0, "end"], 500 * 128 * 4)
            self.assertGreaterEqual(sent[0, 1, "forward"], one["rows"] * 64 * 128 * 4)
            self.assertGreaterEqual(sent[1, 0, "backward"], one["rows"] * 64 * 128 * 4)
        few, many = (next(one for one in found if one["micro_batches"] == n) for n in (2, 8))
        self.assertGreater(few["idle"], many["idle"])

    def test_large(self):
        """Planning 1.3 G parameters needs no memory for them; each is in one piece."""
        done = layouts("gpt:layers=24,width=2048,heads=16", 2, batch="2")
        for one in done:
            total = sum(piece["parameter_bytes"] for piece in one["pieces"])
            if one["tensor"] == 1:
                self.assertEqual(total, 4 * PARAMETERS)
            else:
                self.assertTrue(2 * PARAMETERS <= total <= 4 * PARAMETERS)

    def test_text(self):
        done = plan("lenet5", 4, batch="64")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"lenet5 on 4 ranks, 64 samples a step; 80\.00 GB for each\ndevice: as --flops says")
        self.assertRegex(done.stdout, r"\n  one rank alone would take \S+ ms: 4 ranks are \S+ times as fast")
        self.assertRegex(done.stdout, r"\nwhy data=\d+, tensor=\d+, pipeline=\d+")
        self.assertRegex(done.stdout, r"\nmpirun -np 4 clade train --model lenet5 --batch 64")

    def test_device(self):
        """An existing device: its estimates and its memory."""
        done = run("plan", "--model", "mlp", "--ranks", "2", "--json")
        found = document(done)
        self.assertEqual((found["ranks"], found["batch"]), (2, 16))
        self.assertGreater(found["memory_bytes"], 0)
        self.assertGreater(found["layouts"][0]["seconds"], 0)


if __name__ == "__main__":
    clade.main()
