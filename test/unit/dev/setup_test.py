#!/usr/bin/env python3
"""setup.sh against a make-believe Debian: it installs what is missing, only that, and says why when it cannot."""
import os
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
DEV = os.path.join(ROOT, "tools", "dev")
TOOLS = ["bash", "cat", "comm", "dirname", "env", "grep", "sed", "sort", "wc", "xargs"]

# dpkg-query answers for the packages in the file `installed`; apt-get adds to that file and writes down its calls.
DPKG_QUERY = """for p in "$@"; do
  if grep -qx -- "$p" "$STATE/installed"; then echo "installed $p"; fi
done
exit 1
"""
APT_GET = """echo "$*" >>"$STATE/calls"
for word in "$@"; do
  if [[ $word == install ]]; then found=1; elif [[ -n ${found:-} ]]; then echo "$word" >>"$STATE/installed"; fi
done
"""


def listed(*names):
    packages = set()
    for name in names:
        with open(os.path.join(DEV, name), encoding="utf-8") as file:
            packages |= {line.split("#")[0].strip() for line in file}
    return packages - {""}


class SetupTest(unittest.TestCase):
    def setUp(self):
        self.state = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.state)
        self.bin = os.path.join(self.state, "bin")
        os.mkdir(self.bin)
        for tool in TOOLS:
            os.symlink(shutil.which(tool), os.path.join(self.bin, tool))
        self.program("dpkg-query", DPKG_QUERY)
        self.program("apt-get", APT_GET)
        self.program("id", "echo 0\n")

    def program(self, name, text):
        path = os.path.join(self.bin, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!{shutil.which('bash')}\n{text}")
        os.chmod(path, 0o755)

    def setup(self, installed, *options):
        """(exit status, output, apt-get's calls)"""
        with open(os.path.join(self.state, "installed"), "w", encoding="utf-8") as file:
            file.write("".join(f"{name}\n" for name in installed))
        run = subprocess.run(["bash", os.path.join(DEV, "setup.sh"), *options], stdin=subprocess.DEVNULL, check=False,
                             env={"PATH": self.bin, "STATE": self.state}, capture_output=True, text=True)
        return run.returncode, run.stdout + run.stderr, self.calls()

    def calls(self):
        path = os.path.join(self.state, "calls")
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as file:
            return file.read().splitlines()

    def test_nothing_to_do(self):
        status, output, calls = self.setup(listed("packages.txt"))
        self.assertEqual((status, calls), (0, []), output)
        self.assertIn("are installed", output)

    def test_installs_what_is_missing_and_only_that(self):
        status, output, calls = self.setup(listed("packages.txt") - {"cmake", "libdnnl-dev"})
        self.assertEqual(status, 0, output)
        self.assertIn("installing 2 Debian packages: cmake libdnnl-dev", output)
        self.assertEqual(len(calls), 2)
        self.assertTrue(calls[0].endswith("update"))
        self.assertTrue(calls[1].endswith("install cmake libdnnl-dev"))

    def test_options_add_their_lists(self):
        have = listed("packages.txt", "packages-dev.txt", "packages-bench.txt")
        status, output, calls = self.setup(have - {"iperf3", "shellcheck"}, "--dev")
        self.assertEqual(status, 0, output)
        self.assertTrue(calls[1].endswith("install shellcheck"))
        self.assertEqual(self.setup(have - {"iperf3"}, "--dev", "--bench")[2][-1].split()[-1], "iperf3")

    def test_what_apt_did_not_install_is_named(self):
        self.program("apt-get", "true\n")
        status, output, _ = self.setup(listed("packages.txt") - {"cmake"})
        self.assertEqual(status, 1)
        self.assertIn("still missing after the installation: cmake", output)

    def test_neither_root_nor_sudo(self):
        self.program("id", "echo 1000\n")
        status, output, calls = self.setup(listed("packages.txt") - {"cmake"})
        self.assertEqual((status, calls), (1, []))
        self.assertIn("needs root to install packages, and there is no sudo", output)
        self.assertIn("apt-get install cmake", output)

    def test_sudo_never_waits_for_a_password_without_a_terminal(self):
        self.program("id", "echo 1000\n")
        self.program("sudo", '[[ $1 == -n ]] && shift && exec "$@"\n')
        status, output, calls = self.setup(listed("packages.txt") - {"cmake"})
        self.assertEqual(status, 0, output)
        self.assertTrue(calls[1].endswith("install cmake"))

    def test_another_system(self):
        os.remove(os.path.join(self.bin, "apt-get"))
        status, output, _ = self.setup([])
        self.assertEqual(status, 1)
        self.assertIn("needs a Debian system", output)


if __name__ == "__main__":
    unittest.main()
