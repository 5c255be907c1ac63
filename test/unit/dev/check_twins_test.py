#!/usr/bin/env python3
"""check_twins.py on small trees and builds: a twin of each kind is found where it stands, look-alikes are not."""
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
CHECK = os.path.join(ROOT, "tools", "dev", "check_twins.py")

# Programs of archives, as CMake's generator writes them for Ninja.
RULES = """rule compile
  command = c++ -std=c++20 -O1 -g1 -I. -c $in -o $out
rule archive
  command = ar rcs $out $in
rule link
  command = c++ $in -o $out
"""


def write(root, files):
    for path, text in files.items():
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)


def build(root, archives, programs):
    """Builds {archive: [sources]} and {program: [sources, archives]} in ROOT/build."""
    text, sources = RULES, {path for paths in [*archives.values(), *programs.values()] for path in paths} - {*archives}
    name = lambda path: f"{path}.o" if path in sources else path
    for path in sources:
        text += f"build {path}.o: compile ../{path}\n"
    for archive, paths in archives.items():
        text += f"build {archive}: archive {' '.join(map(name, paths))}\n"
    for program, paths in programs.items():
        text += f"build bin/{program}: link {' '.join(map(name, paths))}\n"
    write(root, {"build/build.ninja": text.replace("-I.", "-I..")})
    subprocess.run(["ninja", "-C", os.path.join(root, "build")], check=True, capture_output=True)


class TwinsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = os.path.realpath(folder.name)

    def check(self, *build_dir):
        run = subprocess.run([sys.executable, CHECK, "--root", self.root, *build_dir], capture_output=True, text=True,
                             check=False)
        return run.returncode, run.stdout + run.stderr

    def expect_clean(self, *build_dir):
        status, output = self.check(*build_dir)
        self.assertEqual(status, 0, output)

    def expect_twin(self, name, *places, build_dir=()):
        status, output = self.check(*build_dir)
        self.assertEqual(status, 1, output)
        self.assertIn(f"{name} is defined {len(places)} times:", output)
        for place in places:
            self.assertRegex(output, f"(?m)^  {place}")


class SourcesTest(TwinsTest):
    def expect_twins(self, one, other, name="hp::Name"):
        write(self.root, {"src/a.h": one, "solvers/b.h": other})
        self.expect_twin(name, "src/a.h$", "solvers/b.h$")

    def test_types_of_one_name(self):
        write(self.root, {"src/a.h": "namespace hp {\nclass Name {};\n}\n", "src/b.h": ""})
        self.expect_clean()
        self.expect_twins("namespace hp {\nclass Name {};\n}\n", "namespace hp {\nstruct Name : Base { int x; };\n}\n")

    def test_every_form(self):
        for form in ("class HP_LOCKED(\"mutex\") Name final : public A<int> {};", "enum class Name : int { kA };",
                     "template <class T, int n = (3 > 2)>\nstruct Name {};", "using Name = std::vector<int>;",
                     "class [[nodiscard]] Name {};", "typedef int Name;", "template <class T>\nconcept Name = true;",
                     "int F() { return '{' + R\"x({)x\"[0]; }\nunion Name { int a = 1'000; };"):
            with self.subTest(form):
                self.expect_twins("namespace hp {\n%s\n}" % form, "namespace hp { struct Name {}; }")

    def test_constants(self):
        self.expect_twins("namespace hp { inline constexpr int kOne = 1; }", "namespace hp {\nconst Type kOne[] = {1};\n}",
                          "hp::kOne")

    def test_the_namespace_counts(self):
        write(self.root, {"src/a.h": "namespace hp { struct Name {}; }\nnamespace hp::test { struct Name {}; }",
                          "src/b.h": "namespace hp::cuda { struct Name {}; }\nstruct Name { struct Name2 {}; };",
                          "src/c.cc": "namespace hp {\nnamespace {\nstruct Name {};\n}\nvoid F() { struct Name {}; }\n}",
                          "src/d.cc": "namespace hp { class Outer { struct Name {}; using Name = int; }; }"})
        self.expect_clean()
        write(self.root, {"src/b.h": ""})
        self.expect_twins("namespace hp {\nnamespace cuda { struct Name {}; } }",
                          "namespace hp::cuda { struct Name {}; }", "hp::cuda::Name")

    def sources_of_a_library(self, one, other):
        write(self.root, {"src/CMakeLists.txt": "add_library(a  # a.cc c.cc\n  a.cc\n  b.cc\n)\nadd_library(c c.cc d.cu)\n",
                          "src/a.cc": "namespace hp { namespace { %s } }" % one,
                          "src/b.cc": "namespace hp {\nnamespace {\n%s\n}\n}" % other,
                          "src/c.cc": "namespace hp { namespace { %s } }" % one,
                          "src/d.cu": "namespace hp { namespace { %s } }" % one})

    def test_sources_that_may_be_compiled_in_one_group(self):
        for one, other, name in (("constexpr int kOne = 1;", "constexpr int kOne = 2;", "kOne"),
                                 ("struct Name {};", "class Name { int x; };", "Name"),
                                 ("int F(const int* a, long b) { return 1; }", "int* F(const int* c, long) { return 0; }",
                                  r"F\(const int \*, long\)"),
                                 ("void F() {}", "int F() { return 1; }", r"F\(\)"),
                                 ("template <int n>\nvoid F(int a) {}",
                                  "template <int n> __attribute__((noinline)) void F(int b) {}", r"template F\(int\)")):
            with self.subTest(name):
                self.sources_of_a_library(one, other)
                status, output = self.check()
                self.assertEqual(status, 1, output)
                self.assertRegex(output, f"hp::{name}, in anonymous namespaces, is defined 2 times:\n  src/a.cc\n  src/b.cc\n$")

    def test_what_may_stand_in_one_group(self):
        for one, other in (("int F(int a) { return a; }", "int F(long a) { return a; }"),
                           ("int F(unsigned int) { return 1; }", "int F(unsigned long a) { return 1; }"),
                           ("using Name = int;", "using Name = int;"),
                           ("int F(int a);", "int F(int a);"),
                           ("int kOne(int a) { return a; }", "int F(int b) { return b; }")):
            with self.subTest(other):
                self.sources_of_a_library(one, other)
                self.expect_clean()

    def test_what_defines_nothing(self):
        write(self.root, {"src/a.h": "namespace hp { template <class T> struct Name {}; }",
                          "src/b.h": "namespace hp { template <class T> struct Name; class Name* Make() { return 0; }\n"
                                     "template <> struct Name<int> {}; extern const int kOne[3]; // struct Name {};\n"
                                     "const char* kText = \"struct Name {};\"; int F(int x = kOne) { return x; }\n"
                                     "/* struct Name {}; */\n#define M struct Name {}; \\\n struct Name {};\n}"})
        self.expect_clean()

    def test_sources_of_two_tests_never_meet(self):
        one = "namespace hp { struct Name {}; }"
        write(self.root, {"test/unit/a_test.cc": one, "test/unit/b_test.cc": one})
        self.expect_clean()
        write(self.root, {"src/a.cc": one})
        self.expect_twin("hp::Name", "src/a.cc", "test/unit/a_test.cc", "test/unit/b_test.cc")

    def test_an_empty_tree_is_a_mistake(self):
        self.assertEqual(self.check()[0], 1)


class BuildTest(TwinsTest):
    MAIN = "#include <string>\nnamespace hp { %s }\nint main() { %s }\n"

    def build(self, files, archives, programs):
        write(self.root, files)
        build(self.root, archives, programs)
        return [os.path.join(self.root, "build")]

    def two_archives(self, one, other, uses):
        """A program of two archives with one source each."""
        return self.build({"src/a.cc": "#include <string>\nnamespace hp { %s }\n" % one,
                           "src/b.cc": "#include <string>\n\nnamespace hp { %s }\n" % other,
                           "tools/main.cc": self.MAIN % uses},
                          {"a.a": ["src/a.cc"], "b.a": ["src/b.cc"]}, {"prog": ["tools/main.cc", "a.a", "b.a"]})

    def test_strong_symbols_that_archives_hide(self):
        folder = self.two_archives("int F(int) { return 1; } int A() { return 1; }", "int F(int) { return 2; }",
                                   ("int F(int); int A();", "hp::A(); return hp::F(1);"))
        self.expect_twin(r"hp::F(int)", r"src/a\.cc\.o", r"src/b\.cc\.o", build_dir=folder)

    def test_functions_that_differ_in_their_return_type(self):
        for other in ("long F(int) { return 2; }", "std::string F(int) { return {}; }"):
            folder = self.two_archives("int F(int) { return 1; }", other, ("int F(int);", "return hp::F(1);"))
            self.expect_twin(r"hp::F(int)", r"src/a\.cc\.o", r"src/b\.cc\.o", build_dir=folder)

    def test_inline_functions_of_one_name(self):
        folder = self.two_archives("__attribute__((noinline)) inline int I() { return 1; } int A() { return I(); }",
                                   "__attribute__((noinline)) inline int I() { return 2; } int B() { return I(); }",
                                   ("int A(); int B();", "return hp::A() + hp::B();"))
        self.expect_twin("hp::I()", r"\S*src/a\.cc:2, in src/a\.cc\.o", r"\S*src/b\.cc:3, in src/b\.cc\.o", build_dir=folder)

    def test_overloads_inline_functions_and_templates_of_one_header(self):
        write(self.root, {"src/i.h": "namespace hp {\n__attribute__((noinline)) inline int I() { return 1; }\n"
                                     "template <class T>\n__attribute__((noinline)) T Twice(T x) { return x + x; }\n"
                                     "struct V {\n  virtual ~V() = default;\n  std::string s;\n};\n}\n"})
        one = "}\n#include \"src/i.h\"\nnamespace hp { int A() { V v; return I() + Twice(1); } int F(int) { return 1; }"
        two = "}\n#include \"src/i.h\"\nnamespace hp { int B() { V v; return I() + Twice(2); } int F(long) { return 1; }"
        self.expect_clean(*self.two_archives(one, two, ("int A(); int B();", "return hp::A() + hp::B();")))

    def test_a_test_that_stands_in_for_a_library_is_found_and_one_beside_another_is_not(self):
        files = {"src/a.cc": "namespace hp { int F() { return 1; } int A() { return 1; } }",
                 "test/unit/one.cc": self.MAIN % ("int A(); int Alike() { return 1; }", "return hp::A();"),
                 "test/unit/other.cc": self.MAIN % ("int F(); int Alike() { return 1; }", "return hp::F();")}
        programs = {"one": ["test/unit/one.cc", "a.a"], "other": ["test/unit/other.cc", "a.a"]}
        folder = self.build(files, {"a.a": ["src/a.cc"]}, programs)
        self.expect_clean(*folder)
        files["test/unit/one.cc"] = self.MAIN % ("int A(); int F() { return 3; }", "return hp::F();")
        self.build(files, {"a.a": ["src/a.cc"]}, programs)
        self.expect_twin("hp::F()", r"src/a\.cc\.o", r"test/unit/one\.cc\.o", build_dir=folder)

    def test_libraries_that_no_program_takes_together(self):
        files = {"src/a.cc": "namespace hp { int F() { return 1; } }", "src/b.cc": "namespace hp { int F() { return 2; } }",
                 "tools/one.cc": self.MAIN % ("int F();", "return hp::F();")}
        programs = {"one": ["tools/one.cc", "a.a"], "other": ["tools/one.cc", "b.a"]}
        folder = self.build(files, {"a.a": ["src/a.cc"], "b.a": ["src/b.cc"]}, programs)
        self.expect_twin("hp::F()", r"src/a\.cc\.o", r"src/b\.cc\.o", build_dir=folder)

    def test_a_build_without_programs_is_a_mistake(self):
        write(self.root, {"src/a.cc": "", "build/bin/nothing/here": ""})
        os.remove(os.path.join(self.root, "build/bin/nothing/here"))
        os.rmdir(os.path.join(self.root, "build/bin/nothing"))
        self.assertEqual(self.check(os.path.join(self.root, "build"))[0], 1)


if __name__ == "__main__":
    unittest.main()
