"""The page of clade bench compare in a real browser: widths, colors, printing, charts, and the document's figures."""

import copy
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest

import browser
import clade

FIELDS = ("batch", "dtype", "p50", "p99", "p50_least", "p50_most", "low", "high", "items_per_s", "gflops", "fraction_of_peak", "transfer_seconds",
          "compute_seconds", "other_seconds", "programming_seconds", "first_seconds", "flops", "bytes", "moved_bytes",
          "max_error", "accuracy", "joules", "cycles", "bound", "fallback", "bundle_evidence", "calls")
CHARTS = ("roofline", "latency", "throughput", "time")
TAGS = ("measured", "functional-only", "modeled(report)", "rtl-simulated", "modeled(routed)")


def device(spec, tag, **more):
    return {"spec": spec, "id": None, "name": f"Device {spec}", "platform": "Platform", "class": "cpu", "evidence": tag,
            "why": None, "bundle_evidence": None if tag == "measured" else "simulated", "peak_gflops": 118.25, "copy_gbs": 21.4, "energy_by": None, **more}


def row(of, work, group, model, batch, flops, moved, seconds):
    modeled = of["evidence"].startswith("modeled")
    return {"device": of["spec"], "work": work, "group": group, "model": model, "batch": batch, "dtype": "f32",
            "evidence": of["evidence"], "refused": None, "calls": 0 if modeled else 40, "p50": seconds,
            "p99": None if modeled else seconds * 1.7,
            "p50_least": None if modeled else seconds * 0.99, "p50_most": None if modeled else seconds * 1.01, "low": seconds / 1.3, "high": seconds * 1.4,
            "items_per_s": batch / seconds, "gflops": flops / seconds * 1e-9, "fraction_of_peak": flops / seconds / 118.25e9,
            "flops": flops, "bytes": moved, "moved_bytes": moved // 3, "transfer_seconds": None if modeled else seconds * 0.2,
            "compute_seconds": seconds * 0.7, "other_seconds": None if modeled else seconds * 0.1, "programming_seconds": 1 / 3,
            "first_seconds": seconds * 3, "max_error": None if modeled else 1.2345678912e-7, "accuracy": None if modeled else 0.97, "joules": None,
            "fallback": "A processor" if of["evidence"] == "functional-only" else None, "bundle_evidence": of["bundle_evidence"],
            "cycles": None if of["evidence"] == "measured" else 12345678, "bound": "memory" if modeled else None}


def document(tags):
    devices = [device(f"d{i}", tag) for i, tag in enumerate(tags)]
    works = [("gemm 256", "gemm", None, 1, 2 * 256**3, 12 * 256**2), ("conv 64x56", "conv", None, 1, 231e6, 1.8e6)]
    works += [(f"lenet5 @{b}", "infer", "lenet5", b, 8.4e5 * b, 250000 + 20000 * b) for b in (1, 8, 64)]
    works += [("lenet5 train @32", "train", "lenet5", 32, 8e7, 8e6)]
    rows = [row(d, *work, work[4] / 1e10 * (1 + i * 0.7) + 1e-5)
            for j, work in enumerate(works) for i, d in enumerate(devices)]
    winner, second = devices[0], devices[-1]
    return {"schema": 1, "machine": {"cpu": "A processor", "processors": 2, "system": "Linux", "architecture": "x86_64",
                                     "busy": 0.02},
            "quick": True, "devices": devices, "rows": rows,
            "answers": [{"question": "throughput", "work": "lenet5 @64", "winner": winner["spec"],
                         "second": second["spec"], "ratio": 1.7, "least": 1.2, "most": 2.5, "sure": "sure",
                         "evidence": [winner["evidence"], second["evidence"]], "text": "d0 is faster."},
                        {"question": "energy per image", "work": "lenet5 @1", "winner": None, "second": None,
                         "ratio": None, "least": None, "most": None, "sure": "open", "evidence": [],
                         "text": "energy: no device has a figure that counts"}]}


def refused(of):
    return {**{key: None for key in row(of, "", "", "", 1, 1, 1, 1)}, "device": of["spec"], "work": "refused @1",
            "group": "infer", "model": "refused", "batch": 1, "evidence": of["evidence"], "calls": 0,
            "refused": "the bundle has no <kernel> for it"}


def hostile():
    """Untrusted contents: names with markup, impossible figures, and missing fields or fields of the wrong type."""
    found = document(TAGS[:2])
    names = ["<script>alert(1)</script>", "\"><img src=x onerror=\"alert(2)\">"]
    for old, new in zip(("d0", "d1"), names):
        for one in found["devices"]:
            if one["spec"] == old:
                one.update(spec=new, name=new * 40, why="&lt;b&gt; ' \" &amp; \u202e\x01\x7f")
        for one in found["rows"]:
            one["device"] = new if one["device"] == old else one["device"]
    found["answers"][0].update(text=names[1], winner=names[0], second=None, work="W" * 4000, ratio=1e300, least=-1, most=1e308)
    rows = found["rows"]
    for one, values in zip(rows, ((1e-300, 1e300), (1e300, 1e-300), (0, 0), (-1, -1), (5e-324, 1.7e308))):
        one["p50"], one["gflops"] = values
    rows[6]["work"] = rows[7]["work"] = "</title></svg>" + "很长" * 2000
    rows[6].update(batch=10**17, p50="soon", evidence="guessed", bound=["?"], flops=True)
    rows.append({"device": "nobody", "work": "of nobody"})
    found["rows"] += [refused(found["devices"][0]), None, 7, {}]
    found["devices"] += [None, {"spec": 3}]
    found["answers"] += [{}, {"evidence": [1, None, "measured"], "sure": "<i>"}]
    found["machine"] = {"cpu": None, "processors": "many", "busy": 4e99}
    return found


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        room = tempfile.TemporaryDirectory()
        self.addCleanup(room.cleanup)
        self.html = os.path.join(room.name, "page.html")
        self.json = os.path.join(room.name, "page.json")

    def make(self, value):
        with open(self.json, "w", encoding="utf-8") as file:
            json.dump(value, file)
        done = subprocess.run([os.environ["CLADE_PAGE_OF"], self.json, self.html], capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def open(self, width, **more):
        self.browser.look(width, **more)
        self.assertEqual(self.browser.open(self.html), [])
        self.assertEqual(self.browser.run("document.compatMode"), "CSS1Compat")
        self.fits(width)

    def fits(self, width):
        """Nothing is wider than the window, except within scrolling containers."""
        self.assertLessEqual(self.browser.run("document.documentElement.scrollWidth"), width)
        outside = self.browser.run(
            "[...document.body.querySelectorAll('*')].filter(e => !e.closest('svg *') && !e.closest('.scroll *') &&"
            " (e.getBoundingClientRect().right > innerWidth + 1 || e.getBoundingClientRect().left < -1))"
            ".map(e => e.outerHTML.slice(0, 200))")
        self.assertEqual(outside, [])

    def rows(self):
        return self.browser.run(
            "[...document.querySelectorAll('#rows tbody tr')].map(r => ({device: r.dataset.device, work: r.dataset.work,"
            " cells: Object.fromEntries([...r.querySelectorAll('td[data-field]')].map(c => [c.dataset.field,"
            " [c.dataset.value, c.textContent]])), text: r.textContent}))")

    def figures(self, value):
        """Every row is in the table with the document's digits and its tag."""
        found = self.rows()
        self.assertEqual(len(found), len(value["rows"]))
        for shown, one in zip(found, value["rows"]):
            self.assertEqual((shown["device"], shown["work"]), (one["device"], one["work"]))
            self.assertIn(one["evidence"], shown["text"])
            if one["refused"]:
                self.assertIn(one["refused"], shown["text"])
                self.assertEqual(shown["cells"], {})
                continue
            self.assertEqual(set(shown["cells"]), set(FIELDS))
            for field, (digits, text) in shown["cells"].items():
                with self.subTest(row=shown["work"], field=field):
                    if one[field] is None or isinstance(one[field], str):
                        self.assertEqual(digits, one[field] or "null")
                        self.assertEqual(text, one[field] or "–")
                    else:
                        self.assertEqual(float(digits), float(f"{one[field]:.9g}"))
                        self.assertRegex(text, r"^[0-9.e+-]+( [pnµmkMGTPE]?[sBJ%]?)?$")

    def charts(self):
        """By figure: labels, descriptions and widths of its charts, and all marks."""
        return self.browser.run(
            "Object.fromEntries([...document.querySelectorAll('figure')].map(f => [f.id, {charts: [..."
            "f.querySelectorAll('svg[role=img]')].map(s => [s.getAttribute('aria-label'), s.querySelector('title')."
            "textContent, !!s.querySelector('desc'), s.getBoundingClientRect().width]), marks: [..."
            "f.querySelectorAll('svg[role=img] use')].map(m => [m.textContent, m.getAttribute('href'), +m.getAttribute('x'),"
            " +m.getAttribute('y'), m.getBoundingClientRect().width])}]))")

    def test_page(self):
        value = document(TAGS)
        value["rows"].append(refused(value["devices"][2]))
        self.make(value)
        for width in (390, 1400):
            with self.subTest(width=width):
                self.open(width)
                self.figures(value)
                found = self.charts()
                self.assertEqual(tuple(found), CHARTS)
                self.assertEqual([len(found[name]["charts"]) for name in CHARTS], [5, 2, 2, 6])
                self.assertEqual([len(found[name]["marks"]) for name in CHARTS], [30, 20, 20, 30])
                for name in CHARTS:
                    for label, title, description, wide in found[name]["charts"]:
                        self.assertTrue(label and title == label and description)
                        self.assertGreater(wide, 280)
                    self.assertEqual(len({mark[1] for mark in found[name]["marks"]}), len(TAGS))
                    self.assertGreater(min(mark[4] for mark in found[name]["marks"]), 5)
        said = self.browser.run("document.querySelector('#answers').textContent")
        for answer in value["answers"]:
            self.assertIn(answer["text"], said)
        self.assertEqual(self.browser.run("document.querySelectorAll('script, link[rel=stylesheet], img').length"), 0)
        wide = self.browser.run("[...document.querySelectorAll('#latency .panel')].map(e => e.getBoundingClientRect().top)")
        self.assertEqual(len(set(wide)), 1, "the panels of a wide page stand beside each other")

    def test_command(self):
        """The page written by the command, for modeled devices, which take no time."""
        models = [os.path.join(clade.ROOT, "fpga", "model", "devices", name) for name in ("pipecnn-arria10.json", "rtl-ecp5.json")]
        devices = [word for path in models for word in ("--device", f"model:{path}")]
        done = clade.run("bench", "compare", "--json", "--html", self.html, *devices)
        self.assertEqual(done.returncode, 0, done.stderr)
        for width in (390, 1400):
            self.open(width)
            self.figures(clade.document(done))
            self.assertEqual(tuple(self.charts()), CHARTS)
        done = clade.run("bench", "compare", "--html", "/none/page.html", "--device", f"model:{models[0]}")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/none/page.html cannot be written: No such file", done.stderr)

    def test_marks_stand_where_the_figures_are(self):
        value = document(TAGS[:3])
        self.make(value)
        self.open(1400)
        found = self.charts()
        for name, field in (("roofline", "gflops"), ("latency", "p50"), ("throughput", "items_per_s")):
            rows = {f"{one['work']} on {one['device']}": one for one in value["rows"]
                    if name == "roofline" or one["group"] == "infer"}
            points = [(math.log10(rows[text.split(":")[0]][field]), y) for text, _, _, y, _ in found[name]["marks"]
                      if text.split(":")[0] in rows]
            self.assertEqual(len(points), len(rows))
            (a, top), (b, bottom) = max(points), min(points)
            for logarithm, y in points:
                self.assertAlmostEqual(y, bottom + (logarithm - b) / (a - b) * (top - bottom), delta=0.2)
            self.assertLess(top, bottom)
        bars = self.browser.run("[...document.querySelectorAll('#time svg[role=img]')].flatMap(s => [...s.querySelectorAll("
                                "'.edge')].map(e => ['transfer', 'compute', 'other'].map(c => [...s.querySelectorAll('.' + c)]"
                                ".find(r => r.y.baseVal.value == e.y.baseVal.value).width.baseVal.value"
                                " / e.width.baseVal.value)))")
        self.assertEqual(len(bars), len(value["rows"]))
        for shown, one in zip(bars, value["rows"]):
            for share, want in zip(shown, (0.2, 0.7, 0.1)):
                told = want == 0.7 or not one["evidence"].startswith("modeled")
                self.assertAlmostEqual(share, want if told else 0, delta=1e-3)

    def test_dark_and_print(self):
        self.make(document(TAGS[:2]))
        light = {}
        for dark in (False, True):
            self.open(390, dark=dark)
            for what in ("body", ".panel", ".panel h3", ".says", "#rows td"):
                for style in ("color", "backgroundColor"):
                    told = self.browser.run(f"getComputedStyle(document.querySelector('{what}')).{style}")
                    light.setdefault((what, style), []).append(told)
        self.assertNotEqual(*light[".panel", "backgroundColor"])
        self.assertNotEqual(*light["body", "backgroundColor"])
        for what in (".panel h3", ".says", "#rows td"):
            self.assertNotEqual(*light[what, "color"])
        self.open(1032, media="print")  # A4 landscape without its margins
        self.assertLessEqual(self.browser.run("document.querySelector('table').getBoundingClientRect().right"), 1032)

    def test_few_and_many(self):
        for tags, widths in (((), (390,)), (TAGS[:1], (1400,)), (TAGS[2:3], (390,)), (TAGS * 3, (390, 1400))):
            value = document(tags) if tags else {**document(TAGS[:1]), "devices": [], "rows": [], "answers": []}
            self.make(value)
            for width in widths:
                with self.subTest(devices=len(tags), width=width):
                    self.open(width)
                    self.figures(value)
                    self.assertEqual([len(f["charts"]) > 0 for f in self.charts().values()], [len(tags) > 0] * 4)

    def test_all_refused(self):
        value = document(TAGS[:2])
        value["rows"] = [refused(one) for one in value["devices"]]
        self.make(value)
        self.open(390)
        self.figures(value)
        self.assertEqual([len(f["charts"]) for f in self.charts().values()], [0] * 4)

    def test_hostile_documents(self):
        value = hostile()
        self.make(value)
        for width in (390, 1400):
            self.open(width)
        found = self.rows()
        self.assertEqual(len(found), len(value["rows"]))
        self.assertEqual(found[0]["device"], value["devices"][0]["spec"])
        self.assertEqual(found[7]["work"], value["rows"][7]["work"])
        self.assertEqual(self.browser.run("document.querySelectorAll('script, img, i').length"), 0)
        bad = self.browser.run("document.documentElement.outerHTML.match(/\\b(nan|-?inf)\\b/gi)")
        self.assertIsNone(bad)
        for odd in ([], {}, None, 3, {"devices": 3, "rows": {}, "answers": "?", "machine": []}, copy.deepcopy([value])):
            self.make(odd)
            self.open(390)


if __name__ == "__main__":
    if not browser.PROGRAM:
        print(f"skipped: the package {browser.PACKAGE} is not installed")
        sys.exit(clade.SKIPPED)
    clade.main()
