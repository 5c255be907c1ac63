#!/usr/bin/env python3
"""check_docs.py on small trees: a name that no longer exists is found at its line, what is there or no file is not."""
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
CHECK = os.path.join(ROOT, "tools", "dev", "check_docs.py")


def check(files):
    """(exit status, output) of the check on a tree of {path: text}."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            full = os.path.join(root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as file:
                file.write(text)
        run = subprocess.run([sys.executable, CHECK, root], capture_output=True, text=True, check=False)
        return run.returncode, run.stdout + run.stderr


class CheckDocsTest(unittest.TestCase):
    SOURCES = {"src/net/graph.h": "", "src/net/plan/node_plan.cc": "", "include/hp/status.h": "", "tools/dev/a.sh": ""}

    def expect_fault(self, text, name, line=1, path="src/net/README.md"):
        status, output = check({**self.SOURCES, path: text})
        self.assertEqual((status, output), (1, f"{path}:{line}: `{name}` does not exist, neither from the root nor from {path}\n"))

    def expect_clean(self, text, path="src/net/README.md"):
        status, output = check({**self.SOURCES, path: text})
        self.assertEqual(status, 0, output)

    def test_a_stale_name_is_found_at_its_line(self):
        self.expect_fault("# net\n\nThe `graph.h` and\nthe `old_graph.h` of it.\n", "old_graph.h", line=4)
        self.expect_fault("`src/graph.h`", "src/graph.h")
        self.expect_fault("In the room `src/nets`.", "src/nets")
        self.expect_fault("Beside `src/net/plans/`.", "src/net/plans/")
        self.expect_fault("a `b\nc`\n`d.h`", "d.h", line=3)

    def test_one_for_each_fault(self):
        status, output = check({"README.md": "`a.h`", ".github/CONTRIBUTING.md": "`b.h`, `c.h`"})
        self.assertEqual((status, output.count("\n")), (1, 3), output)

    def test_words_of_a_command(self):
        self.expect_fault("`tools/dev/b.sh release`", "tools/dev/b.sh")
        self.expect_fault("`graph.h, old.h; x`", "old.h")
        self.expect_fault("`python3 tools/dev/b.py --all`", "tools/dev/b.py")
        self.expect_clean("`tools/dev/a.sh release -DHP_UNITY=OFF`, `./tools/dev/a.sh`")

    def test_braces(self):
        self.expect_clean("`graph.{h}`")
        self.expect_fault("`graph.{h,cc}`", "graph.cc")

    def test_links(self):
        self.expect_clean("[plan](plan/), [status](../../include/hp/status.h#top), [far](https://example.org/a.h)")
        self.expect_fault("\n[plan](plans/)", "plans/", line=2)

    def test_from_where_a_name_may_be_written(self):
        for name in ("src/net/graph.h", "graph.h", "net/graph.h", "hp/status.h", "plan/node_plan.cc", "node_plan.cc"):
            with self.subTest(name):
                self.expect_clean(f"`{name}`")
        self.expect_fault("`node_plan.cc`", "node_plan.cc", path="src/README.md")

    def test_what_is_no_file_of_the_tree(self):
        self.expect_clean("`foo.cc`, `src/foo_test.cc`, `transport/foo/`, `NAME.cc`, `*_test.py`, `.cc`, `build/release/bin/x`, `~/.cache/hpnode`, "
                          "`table.prototxt`, `PREFIX_iter_N.caffemodel`, `x * (alpha/n)`, `$HOME/a.h`, `parse_log.py`\n"
                          "```\ncat old.h  # `older.h`\n```\n")

    def test_names_behind_a_fenced_block(self):
        self.expect_fault("```\na `b\n```\n`old.h`", "old.h", line=4)

    def test_builds_are_not_looked_at(self):
        status, output = check({"README.md": "", "build/deps/README.md": "`old.h`", ".git/README.md": "`old.h`"})
        self.assertEqual(status, 0, output)

    def test_an_empty_tree_is_a_mistake(self):
        self.assertEqual(check({})[0], 1)


if __name__ == "__main__":
    unittest.main()
