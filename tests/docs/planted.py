"""Pages with planted faults, each of which walkthrough.py finds, and one without, which it follows."""

import os
import sys
import tempfile
import unittest

import walkthrough

FIRST = """# A page

File: `before.c`

```c
int before;
```

Run:

```sh
false
```
"""
GOOD = """# Another page

This page continues [the first](first.md).

File: `new/a.c`

```c
int a = 1;
```

Add to `old.c`, before `int last`:

```c
int b = 2;
```

Add to `old.c`:

```c
int end;
```

- In `old.c`, `int first` becomes `long first`.
- In `old.c`, each `int` becomes
  `short`.

Run:

```sh
test -f before.c && grep -q a new/a.c && grep -c short \\
  old.c > counted
test "$(cat counted)" = 3
```
"""
# What is put in the place of what, and what the report must hold.
PLANTED = [
    ("continues [the first](first.md)", "follows the first", "exit status 1"),
    ("File: `new/a.c`\n", "In the file:\n", "belong to no step"),
    ("before `int last`", "before `int lost`", "there 0 times"),
    ("`int first` becomes", "`t` becomes", "times, once is expected"),
    ("In `old.c`, `int first` becomes", "In old.c, `int first` becomes", "belong to no step"),
    ("= 3", "= 4", "exit status 1"),
    ("- In", "```\nint c;\n```\n\n- In", "belong to no step"),
]


class Pages(unittest.TestCase):
    def follow(self, page):
        with tempfile.TemporaryDirectory() as tree:
            walkthrough.write(os.path.join(tree, "first.md"), FIRST)
            walkthrough.write(os.path.join(tree, "page.md"), page)
            walkthrough.write(os.path.join(tree, "old.c"), "int first;\nint last;\n")
            return walkthrough.follow("page.md", tree)

    def test_good_page(self):
        self.assertEqual(self.follow(GOOD), ({"new/a.c", "old.c"}, True))

    def test_each_fault_is_found(self):
        for old, new, report in PLANTED:
            with self.subTest(new=new), self.assertRaisesRegex(walkthrough.Wrong, report):
                self.assertIn(old, GOOD)
                self.follow(GOOD.replace(old, new))

    def test_tests_that_were_skipped(self):
        self.assertFalse(self.follow(GOOD.replace("test \"", "echo '1/1 Test #1: a ...***Skipped'; test \""))[1])

    def test_copy(self):
        with tempfile.TemporaryDirectory() as room:
            root, tree = os.path.join(room, "root"), os.path.join(room, "tree")
            for name in ("a.c", "build-x/b.o", "src/build/c.c"):
                walkthrough.write(os.path.join(root, name), "")
            walkthrough.copy_tree(root, tree)
            self.assertEqual(sorted(os.listdir(tree)) + os.listdir(os.path.join(tree, "src")), ["a.c", "src", "build"])


if __name__ == "__main__":
    sys.exit(unittest.main())
