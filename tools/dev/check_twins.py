#!/usr/bin/env python3
"""Finds twins, two definitions of one name in one namespace; prints each with its places and exits 1 if there is one.

usage: tools/dev/check_twins.py [--root ROOT] [BUILD_DIR]      e.g. tools/dev/check_twins.py build/release

C++ leaves twins undefined and tools silent: of two functions that differ in their return type alone a linker takes the
one of the archive that comes first, and of two inline functions either. So this looks in two places:

- The sources: types, aliases, concepts and constants of a namespace that more than one file defines; the sources of two
  tests never meet. What lies in an anonymous namespace is its file's own, but sources of one library or program are
  compiled in groups: so there, too, their names differ, functions included.
- With BUILD_DIR, a finished build by Ninja with line numbers (-g1): the symbols of all objects that one program could
  take in, and of all libraries that are not a test's. A strong symbol has one object; a weak one (inline, template) has
  one place in the sources, as its line number tells.
"""
import argparse
import collections
import concurrent.futures
import os
import re
import subprocess
import sys

SOURCE_ROOTS = ["include", "src", "transport", "scheduler", "solvers", "tools", "test"]
SUFFIXES = (".h", ".cc", ".cu", ".cuh")

# --- Names in the sources

LITERAL_OR_COMMENT = re.compile(
    r'R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|//[^\n]*|/\*.*?\*/'
    r"|^[ \t]*#(?:\\\n|[^\n])*", re.S | re.M)
DIGIT_SEPARATOR = re.compile(r"(?<=[0-9a-fA-F])'(?=[0-9a-fA-F])")
TOKEN = re.compile(r"[A-Za-z_]\w*|::|\[\[|\]\]|\S")
NUMBERS = {"char", "short", "int", "long", "float", "double"}
TYPE_WORDS = {"class", "struct", "union", "enum"}


def tokens_of(text):
    """The tokens of C++ text, without comments, literals and lines of the preprocessor."""
    text = DIGIT_SEPARATOR.sub("", text)
    return TOKEN.findall(LITERAL_OR_COMMENT.sub(lambda match: '""' if match.group()[0] in "R\"'" else " ", text))


def skip_balanced(tokens, i, opening, closing):
    """The index behind the bracket that closes the one at `i`; what is in parentheses closes none."""
    depth = 0
    while i < len(tokens):
        if tokens[i] == "(" and opening == "<":
            i = skip_balanced(tokens, i, "(", ")")
            continue
        depth += (tokens[i] == opening) - (tokens[i] == closing)
        i += 1
        if depth == 0:
            break
    return i


def statement_end(tokens, i):
    """The index of the `;` or `{` that ends what begins at `i`, outside of parentheses."""
    while i < len(tokens) and tokens[i] not in (";", "{", "}"):
        i = skip_balanced(tokens, i, "(", ")") if tokens[i] == "(" else i + 1
    return i


def defined_type(words):
    """The name in `class HP_MACRO("x") Name final : Base`; None: a function, a forward declaration, a specialisation."""
    i = 1 + (words[0] == "enum" and len(words) > 1 and words[1] in ("class", "struct"))
    name = None
    while i < len(words):
        if words[i] == "[[":
            i = skip_balanced(words, i, "[[", "]]")
        elif words[i] == "(":
            i, name = skip_balanced(words, i, "(", ")"), None
        elif words[i] == "final" or words[i] == ":":
            return name
        elif not re.match(r"\w", words[i]):
            return None
        else:
            i, name = i + 1, words[i]
    return name


def defined_name(words, end):
    """The type, alias, concept or constant that a declaration of a namespace defines; None: none of them."""
    if words and words[0] == "template":
        behind = skip_balanced(words, 1, "<", ">")
        return None if behind == 3 else defined_name(words[behind:], end)
    if not words:
        return None
    if words[0] in TYPE_WORDS and end == "{":
        return defined_type(words)
    if words[0] in ("using", "concept") and len(words) > 2 and words[2] == "=":
        return words[1]
    if words[0] == "typedef":
        return words[-1]
    for name, behind in zip(words, words[1:] + [end]):
        if re.match(r"k[A-Z]", name) and behind in ("=", "[", "{", "(") and "extern" not in words:
            return name
        if name in ("(", "="):
            return None
    return None


def parameter_types(words):
    """The types in `const T* a, int b = 3`, as one text."""
    types, depth = [[]], 0
    for word in words:
        depth += (word in "(<[") - (word in ")>]")
        if word == "," and depth == 0:
            types.append([])
        else:
            types[-1].append(word)
    types = [one[:one.index("=")] if "=" in one else one for one in types]
    is_name = lambda one: (len(one) > 1 and re.match(r"[a-z]\w*$", one[-1]) and one[-1] not in NUMBERS and
                           one[-2] not in ("::", "const"))
    return ", ".join(" ".join(one[:-1] if is_name(one) else one) for one in types)


def defined_function(words, end):
    """`F(int, const T*)` of the function that a declaration defines, also a template's; None: none, or an operator."""
    if words[:1] == ["template"]:
        name = defined_function(words[skip_balanced(words, 1, "<", ">"):], end)
        return name and "template " + name  # a function of the same name and parameters is another one
    while "__attribute__" in words:
        at = words.index("__attribute__")
        words = words[:at] + words[skip_balanced(words, at + 1, "(", ")"):]
    if end != "{" or "(" not in words or "operator" in words:
        return None
    opening = words.index("(")
    if opening < 2 or not re.match(r"[A-Za-z_]", words[opening - 1]) or words[opening - 2] == "::":
        return None
    closing = skip_balanced(words, opening, "(", ")")
    return f"{words[opening - 1]}({parameter_types(words[opening + 1:closing - 1])})"


def names_of(text):
    """Qualified names that a file defines: (in named namespaces, in anonymous ones)."""
    tokens, i, scopes, names, private = tokens_of(text), 0, [], set(), set()
    while i < len(tokens):
        if tokens[i] == "}":
            if scopes:
                scopes.pop()
            i += 1
            continue
        end = statement_end(tokens, i)
        words = tokens[i:end]
        closing = tokens[end] if end < len(tokens) else ";"
        i = end + (closing != "}")
        if closing == "{" and words[:1] == ["inline"] and words[1:2] == ["namespace"]:
            words = words[1:]
        if closing == "{" and (words[:1] == ["namespace"] or words == ["extern", '"', '"']):
            scopes.append("".join(words[1:]) if words[0] == "namespace" else None)
            continue
        name = defined_name(words, closing)
        if "" in scopes:
            name = name or defined_function(words, closing)
        if name and not ("" in scopes and words[0] == "using"):  # an alias may be said again
            (private if "" in scopes else names).add("::".join([scope for scope in scopes if scope] + [name]))
        if closing == "{":
            i = skip_balanced(tokens, end, "{", "}")
    return names, private


def source_files(root):
    for top in SOURCE_ROOTS:
        for folder, _, files in os.walk(os.path.join(root, top)):
            for name in sorted(files):
                if name.endswith(SUFFIXES):
                    yield os.path.relpath(os.path.join(folder, name), root)


def sources_together(root):
    """Sets of sources that one command of a CMakeLists.txt names and one compiler takes: of a library or a program."""
    for top in SOURCE_ROOTS:
        for folder, _, files in os.walk(os.path.join(root, top)):
            if "CMakeLists.txt" not in files:
                continue
            with open(os.path.join(folder, "CMakeLists.txt"), encoding="utf-8") as file:
                text = re.sub(r"#.*", "", file.read())
            for arguments in re.findall(r"\(([^()]*)\)", text):
                for suffix in (".cc", ".cu"):
                    yield {os.path.relpath(os.path.join(folder, word), root) for word in arguments.split()
                           if word.endswith(suffix)}


def twins_of_sources(root):
    """({name: [files]} of the names that several files define, how many files there are)"""
    places, private, count = collections.defaultdict(list), collections.defaultdict(set), 0
    for path in source_files(root):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            count += 1
            names, own = names_of(file.read())
            for name in names:
                places[name].append(path)
            for name in own:
                private[name].add(path)
    # What two test programs call alike never meets.
    of_a_test = lambda path: path.startswith("test/") and not path.endswith((".h", ".cuh"))
    twins = {name: files for name, files in places.items() if len(files) > 1 and not all(map(of_a_test, files))}
    for together in sources_together(root):
        for name, files in private.items():
            if len(files & together) > 1:
                twins[f"{name}, in anonymous namespaces,"] = sorted(files & together)
    return twins, count


# --- Symbols in the objects


# Where g++ says that an inline function of ours lies when it begins with one of theirs that it inlined.
SYSTEM_HEADERS = "/usr/include/"


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def symbols_of(build, path):
    """[(name, whether it is weak, its place or None)] that an object defines for others to see."""
    symbols = []
    for line in output_of("nm", "-lC", "--defined-only", "--extern-only", os.path.join(build, path)).splitlines():
        match = re.match(r"[0-9a-f]* ([TDBRGSWVu]) (.*?)(?:\t(.*))?$", line)
        if match:
            # g++ marks what returns a std::string, so that a linker sees two functions; in C++ they are one.
            name = match.group(2).replace("[abi:cxx11]", "")
            symbols.append((name, match.group(1) in "WVu", match.group(3)))
    return symbols


def groups_of(build, symbols):
    """The objects that may meet: those of each program, and those of all programs that no test is made of."""
    groups = []
    for program in sorted(os.listdir(os.path.join(build, "bin"))):
        inputs = output_of("ninja", "-C", build, "-t", "inputs", os.path.join("bin", program)).splitlines()
        # A test may need programs that it starts; their own objects are not linked into it.
        started = [f"/{os.path.basename(path)}.dir/" for path in inputs if path.startswith("bin/")]
        groups.append([path for path in inputs if path.endswith(".o") and not any(one in path for one in started)])
    objects = sorted(set().union(*groups))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        symbols.update(zip(objects, pool.map(lambda path: symbols_of(build, path), objects)))
    libraries = [path for path in objects
                 if not path.startswith("test/") and all(name != "main" for name, _, _ in symbols[path])]
    return groups + [libraries]


def places_apart(places):
    """How many places {(file, line)} stand for. One destructor may have the first or the second line of its own, and
    g++ has the line of an implicit one right and its file sometimes not: so what shares a file or a line is one."""
    apart = []
    for file, line in places:
        same = [one for one in apart if any(file == other or line == number for other, number in one)]
        apart = [one for one in apart if one not in same] + [set().union({(file, line)}, *same)]
    return len(apart)


def is_ours(name):
    """Whether a function belongs to the project: hp::F(), void hp::F<int>(). Others' inline ones are theirs."""
    return re.split(r"[(<]", name)[0].split(" ")[-1].startswith("hp::")


def twins_of_objects(symbols, objects):
    """Yields (name, [places]) of the twins among objects."""
    strong, weak = collections.defaultdict(dict), collections.defaultdict(dict)
    for path in objects:
        for name, is_weak, place in symbols[path]:
            if not is_weak:
                strong[name][path] = f"{path}, from {os.path.relpath(place)}" if place else path
            elif place and is_ours(name) and not place.startswith(SYSTEM_HEADERS):
                weak[name].setdefault(tuple(place.rsplit(":", 1)), path)
    for name, paths in strong.items():
        if len(paths) > 1:
            yield name, sorted(paths.values())
    for name, places in weak.items():
        if places_apart(places) > 1:
            yield name, sorted(f"{os.path.relpath(file)}:{line}, in {path}" for (file, line), path in places.items())


def twins_of_build(build):
    """({name: [places]}, how many objects there are)"""
    symbols, twins = {}, {}
    for objects in groups_of(build, symbols):
        twins.update(twins_of_objects(symbols, set(objects)))
    return twins, len(symbols)


def main():
    parser = argparse.ArgumentParser(description="finds two definitions of one name in one namespace")
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(here)))
    parser.add_argument("build", nargs="?", help="folder of a finished build")
    args = parser.parse_args()
    twins, files = twins_of_sources(args.root)
    objects = 0
    if args.build:
        more, objects = twins_of_build(args.build)
        twins.update(more)
    if files == 0 or args.build and objects == 0:
        sys.exit("check_twins: no files to check")
    for name, places in sorted(twins.items()):
        print(f"{name} is defined {len(places)} times:", *places, sep="\n  ")
    if twins:
        sys.exit(1)
    print(f"check_twins: {files} files and {objects} objects, no twins")


if __name__ == "__main__":
    main()
