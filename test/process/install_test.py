"""cmake --install into a folder of its own: its programs run, its manual is there, and another program uses its library."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = os.path.dirname(os.path.abspath(sys.argv[1]))
PROGRAMS = ("hpnode", "hplaunch", "hproute", "model_test", "convert_cifar_data", "convert_mnist_data",
            "convert_imageset", "compute_image_mean")
PROJECT = """cmake_minimum_required(VERSION 3.21)
project(user LANGUAGES CXX)
find_package(hpnode 0.1 REQUIRED)
add_executable(user user.cc)
target_link_libraries(user PRIVATE hpnode::hpnode)
"""
PROGRAM = """#include "hp/convert.h"
#include <iostream>
int main() {
  const hp::Status status = hp::ConvertMnist("images", "labels", "database", "lmdb");
  std::cout << status.message() << "\\n";
  return status.ok() ? 1 : 0;
}
"""


class InstallTest(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="hpnode-install-")
        self.addCleanup(shutil.rmtree, self.folder)

    def run_in(self, *command, status=0, **environment):
        done = subprocess.run(command, cwd=self.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=dict(os.environ, **environment))
        self.assertEqual(done.returncode, status, done.stdout)
        return done.stdout

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def test_what_is_installed_works(self):
        self.run_in("cmake", "--install", BUILD, "--prefix", self.path("usr"))
        for program in PROGRAMS:
            text = self.run_in(self.path("usr", "bin", program), "--help")
            self.assertTrue(os.path.exists(self.path("usr", "share", "bash-completion", "completions", program)))
            with open(self.path("usr", "share", "man", "man1", program + ".1"), encoding="utf-8") as file:
                page = file.read()
            self.assertIn(".SH NAME\n" + program.replace("-", "\\-"), page)
            self.assertEqual(page.count(".TP\n"), text.count("\n  --"), "its flags")
        self.assertTrue(os.path.exists(self.path("usr", "share", "doc", "hpnode", "README.md")))
        # As another program has it.
        self.write("user/CMakeLists.txt", PROJECT)
        self.write("user/user.cc", PROGRAM)
        self.run_in("cmake", "-S", "user", "-B", "built", "-DCMAKE_PREFIX_PATH=" + self.path("usr"))
        self.run_in("cmake", "--build", "built")
        self.assertIn("images", self.run_in(self.path("built", "user")))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
