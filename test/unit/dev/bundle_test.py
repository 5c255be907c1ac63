#!/usr/bin/env python3
"""tools/dev/bundle.sh on a build of one small program, with libraries that have the names of NVIDIA's."""
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import unittest

BUNDLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../tools/dev/bundle.sh")
MISSING = [tool for tool in ("cc", "cmake", "patchelf", "objdump") if shutil.which(tool) is None]


@unittest.skipIf(MISSING, "SKIPPED: not here: " + " ".join(MISSING))
class BundleTest(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="hpnode-bundle-")
        self.addCleanup(shutil.rmtree, self.folder)
        for name in ("build/bin", "cuda", "cudnn"):
            os.makedirs(self.path(name))
        self.write("build/CMakeCache.txt", "CMAKE_PROJECT_VERSION:STATIC=1.2\nHP_MARCH:STRING=x86-64-v3\n")
        self.write("build/cmake_install.cmake", """
file(INSTALL DESTINATION "${CMAKE_INSTALL_PREFIX}/bin" TYPE PROGRAM FILES "%s")
file(MAKE_DIRECTORY "${CMAKE_INSTALL_PREFIX}/share")
""" % self.path("build/bin/program"))

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as out:
            out.write(text)
        return self.path(name)

    def cc(self, *arguments):
        subprocess.run(["cc", *arguments], check=True)

    def make_library(self, path):
        folder, name = os.path.split(path)
        function = re.sub(r"\W", "_", name.split(".so")[0])
        source = self.write("source.c", "int %s(void) { return 0; }\n" % function)
        self.cc("-shared", "-fPIC", "-Wl,-soname," + name, "-o", self.path(path), source)
        return folder, name, function

    def bundle(self, *libraries):
        """Links the program with these and bundles it. Returns the names in the bundle's lib, but for the compiler's."""
        made = [self.make_library(library) for library in libraries]
        calls = " + ".join(function + "()" for _, _, function in made) or "0"
        source = self.write("main.c", "".join("int %s(void);\n" % function for _, _, function in made) +
                            "int main(void) { return %s; }\n" % calls)
        flags = [flag for folder, name, _ in made
                 for flag in (self.path(os.path.join(folder, name)), "-Wl,-rpath," + self.path(folder))]
        self.cc("-o", self.path("build/bin/program"), source, *flags)
        done = subprocess.run([BUNDLE, self.path("build"), self.path("out")], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        with tarfile.open(done.stdout.splitlines()[-1]) as tar:
            tar.extractall(self.path("unpacked"))
            names = tar.getnames()
        return {os.path.basename(name) for name in names if "/lib/" in name}

    def test_cudnn_brings_what_it_loads_later_though_the_runtime_is_linked_statically(self):
        for library in ("cudnn/libcudnn_ops.so.9", "cudnn/libcudnn_graph.so.9", "cudnn/libcudnn_old.so.8",
                        "cuda/libnvrtc.so.13", "cuda/libnvrtc-builtins.so.13.0", "cuda/libnvrtc.alt.so.13"):
            self.make_library(library)
        # cuBLASLt is named by the build's cache alone.
        self.make_library("cuda/libcublasLt.so.13")
        os.symlink("libcublasLt.so.13", self.path("cuda/libcublasLt.so"))
        with open(self.path("build/CMakeCache.txt"), "a", encoding="utf-8") as cache:
            cache.write("CUDA_cublasLt_LIBRARY:FILEPATH=%s\n" % self.path("cuda/libcublasLt.so"))
        found = self.bundle("cudnn/libcudnn.so.9")
        self.assertEqual(found, {"libcublasLt.so.13", "libcudnn.so.9", "libcudnn_ops.so.9", "libcudnn_graph.so.9",
                                 "libnvrtc.so.13", "libnvrtc-builtins.so.13.0"})
        # And runs where there is no CUDA.
        for name in ("cuda", "cudnn"):
            shutil.rmtree(self.path(name))
        program, = [os.path.join(folder, "program") for folder, _, names in os.walk(self.path("unpacked"))
                    if "program" in names]
        self.assertEqual(subprocess.run([program], check=False).returncode, 0)

    def test_a_program_that_uses_cuda_without_cudnn(self):
        for library in ("cuda/libcudnn_ops.so.9", "cuda/libnvrtc.so.13"):
            self.make_library(library)
        self.assertEqual(self.bundle("cuda/libcublasLt.so.13"), {"libcublasLt.so.13"})


if __name__ == "__main__":
    unittest.main()
