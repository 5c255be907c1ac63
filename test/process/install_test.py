"""cmake --install into a folder of its own: its programs run, its manual is there, and another program uses its library."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = os.path.dirname(os.path.abspath(sys.argv[1]))
PROJECT_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PACKAGE = os.path.join(PROJECT_ROOT, "tools", "package")
with open(os.path.join(BUILD, "tools", "package", "programs.txt"), encoding="utf-8") as listed:
    COMPILED = listed.read().split()
with open(os.path.join(BUILD, "tools", "package", "scripts.txt"), encoding="utf-8") as listed:
    PROGRAMS = COMPILED + listed.read().split()
with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as cache:
    COMPILER = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache.read(), re.M).group(1)
PROJECT = """cmake_minimum_required(VERSION 3.21)
project(user LANGUAGES CXX)
find_package(hpnode 0.1 REQUIRED)
add_executable(user user.cc)
target_link_libraries(user PRIVATE hpnode::hpnode)
"""
# bash as a user has it who types PROGRAM -- and the tab key; it finds the completion by itself.
TYPED = """. %s
_completion_loader "$1"
COMP_WORDS=("$1" --) COMP_CWORD=1 COMP_LINE="$1 --" COMP_POINT=${#COMP_LINE}
how=$(complete -p "$1")
compopt() { :; }  # it works within a completion that the user asks for only
[[ $how =~ -F\\ ([^ ]+) ]] || exit 1
"${BASH_REMATCH[1]}" "$1" -- "$1"
printf '%%s\\n' "${COMPREPLY[@]}"
"""
BASH_COMPLETION = "/usr/share/bash-completion/bash_completion"
# By which a program starts another one.
STARTS = {"clone", "clone3", "daemon", "execl", "execle", "execlp", "execv", "execve", "execvp", "execvpe", "fexecve", "fork",
          "popen", "posix_spawn", "posix_spawnp", "system", "vfork", "wordexp"}
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
        self.assertEqual(sorted(os.listdir(self.path("usr", "bin"))), sorted(PROGRAMS))
        self.assertLess({"hpnode", "hpplot"}, set(PROGRAMS))
        for program in PROGRAMS:
            text = self.run_in(self.path("usr", "bin", program), "--help")
            self.assertTrue(os.path.exists(self.path("usr", "share", "bash-completion", "completions", program)))
            with open(self.path("usr", "share", "man", "man1", program + ".1"), encoding="utf-8") as file:
                page = file.read()
            self.assertIn(".SH NAME\n" + program.replace("-", "\\-"), page)
            self.assertEqual(page.count(".TP\n"), text.count("\n  --"), "its flags")
            if program != "hpplot":  # a script
                self.assertRegex(self.run_in(self.path("usr", "bin", program), "--version"), r"^\w+ version \d+\.\d+\n")
        self.assertTrue(os.path.exists(self.path("usr", "share", "doc", "hpnode", "README.md")))
        libraries = [name for _, _, names in os.walk(self.path("usr")) for name in names
                     if name.startswith("lib") and not name.endswith(".cmake")]
        self.assertEqual(sorted(libraries), ["libhpnode.so", "libhpnode.so.0.1"], "one library")
        # As another program has it.
        self.write("user/CMakeLists.txt", PROJECT)
        self.write("user/user.cc", PROGRAM)
        self.run_in("cmake", "-S", "user", "-B", "built", "-DCMAKE_PREFIX_PATH=" + self.path("usr"))
        self.run_in("cmake", "--build", "built")
        self.assertIn("images", self.run_in(self.path("built", "user")))
        self.check_headers(self.path("usr", "include"))

    def check_headers(self, include):
        """Each installed header compiles alone, in C++20, beside the standard library's."""
        headers = [os.path.relpath(os.path.join(folder, name), include) for folder, _, names in os.walk(include)
                   for name in names]
        self.assertIn(os.path.join("hp", "convert.h"), headers)
        for header in headers:
            # Twice: a header without #pragma once defines everything twice.
            self.write("header.cc", '#include "%s"\n#include "%s"\n' % (header, header))
            said = self.run_in(COMPILER, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-I" + include,
                               "header.cc")
            self.assertEqual(said, "", header)

    @unittest.skipUnless(os.path.exists(BASH_COMPLETION), "SKIPPED: no bash-completion")
    def test_completion(self):
        self.run_in("cmake", "--install", BUILD, "--prefix", self.path("usr"))
        here = {"PATH": self.path("usr", "bin") + ":" + os.environ["PATH"], "XDG_DATA_DIRS": self.path("usr", "share")}
        for program in PROGRAMS:
            text = self.run_in(self.path("usr", "bin", program), "--help")
            said = self.run_in("bash", "--norc", "-c", TYPED % BASH_COMPLETION, "bash", program, **here)
            flags = set(re.findall(r"\n  (--\w+)  ", text))
            self.assertEqual(bool(flags), "Flags:" in text, text)
            self.assertEqual(flags - {word.rstrip("=") for word in said.split()}, set(), program)

    @unittest.skipUnless(shutil.which("nm"), "SKIPPED: no nm (binutils)")
    def test_what_starts_no_other_program(self):
        """Whoever starts the nodes restarts them: of all programs, only hplaunch can."""
        for program in COMPILED:
            said = self.run_in("nm", "--dynamic", "--undefined-only", os.path.join(BUILD, "bin", program))
            calls = {line.split()[-1].split("@")[0] for line in said.splitlines() if line.strip()}
            self.assertIn("__libc_start_main", calls)
            if program == "hptrain":  # which becomes hpnode
                self.assertEqual(calls & STARTS, {"execv"})
                continue
            self.assertEqual(bool(calls & STARTS), program == "hplaunch", "%s: %s" % (program, calls & STARTS))

    def test_what_bundle_sh_refuses(self):
        bundle = os.path.join(PROJECT_ROOT, "tools", "dev", "bundle.sh")
        self.assertIn("%s is no build folder" % self.folder, self.run_in(bundle, self.folder, status=2))
        if shutil.which("patchelf"):
            self.assertIn("no program nothing in ", self.run_in(bundle, BUILD, "--add=nothing", self.folder, status=2))
        self.assertIn("usage:", self.run_in(bundle, status=2))
        self.assertIn("usage:", self.run_in(bundle, "--no_cudas", BUILD, status=2))
        self.assertEqual(os.listdir(self.folder), [])

    def test_the_recipe_of_an_image(self):
        """Built by chroot_test.py, where buildah is: what it copies exists, and its commands are the README's."""
        with open(os.path.join(PACKAGE, "Containerfile"), encoding="utf-8") as file:
            recipe = [line.split() for line in file if line.strip() and not line.startswith("#")]
        with open(os.path.join(PACKAGE, "README.md"), encoding="utf-8") as file:
            readme = file.read()
        copied = [words[1:-1] for words in recipe if words[0] == "COPY" and not words[1].startswith("--from=")]
        self.assertTrue(copied)
        for path in [path for paths in copied for path in paths]:
            self.assertTrue(os.path.exists(os.path.join(PROJECT_ROOT, path)), path)
        # Every folder that the project's CMakeLists.txt adds is there.
        with open(os.path.join(PROJECT_ROOT, "CMakeLists.txt"), encoding="utf-8") as file:
            for folder in re.findall(r"^add_subdirectory\(([^)/]+)", file.read(), re.M):
                self.assertIn([folder], copied)
        commands = [words[1:] for words in recipe if words[0] == "RUN"]
        build = next(words for words in commands if words[0] == "tools/dev/build.sh")
        self.assertIn(" ".join(build), readme)
        cpack = next(words for words in commands if words[0] == "cpack")
        self.assertIn(" ".join(cpack[:-1]), readme)
        installed = next(words for words in recipe if words[:2] == ["COPY", "--from=build"])
        self.assertEqual(installed[2], cpack[-1] + "/*.deb")
        for words in commands:
            if "/" in words[0]:
                self.assertTrue(os.access(os.path.join(PROJECT_ROOT, words[0]), os.X_OK), words[0])
        self.assertEqual(recipe[-1], ["ENTRYPOINT", '["hpnode"]'])
        releases = {re.match(r"debian:([a-z]+)", words[1]).group(1) for words in recipe if words[0] == "FROM"}
        self.assertEqual(len(releases), 1, "a package depends on the libraries of its release")

    def test_the_pod(self):
        """The flags that the documented pod gives are hpnode's, and its volumes are mounted."""
        with open(os.path.join(PACKAGE, "README.md"), encoding="utf-8") as file:
            pod, = re.findall(r"```yaml\n(.*?)```", file.read(), re.S)
        flags = re.findall(r"--(\w+)=", pod)
        said = self.run_in(os.path.join(BUILD, "bin", "hpnode"), "--help")
        for flag in flags:
            self.assertIn("\n  --%s  " % flag, said)
        mounted = re.findall(r"- \{name: (\w+), mountPath: (\S+?)[,}]", pod)
        self.assertEqual([name for name, _ in mounted], re.findall(r"- \{name: (\w+), (?:configMap|secret|hostPath|emptyDir)", pod))
        self.assertLess({"/dev/shm", "/dev/infiniband"}, {path for _, path in mounted})
        self.assertRegex(pod, r"capabilities: \{add: \[IPC_LOCK\]\}")
        self.assertRegex(pod, r"- \{name: shm, emptyDir: \{medium: Memory,")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
