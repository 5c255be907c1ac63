#!/usr/bin/env python3
"""Finds names of files in the Markdown files that no longer exist; prints each as FILE:LINE and exits 1 if there is one.

usage: tools/dev/check_docs.py [ROOT]      ROOT: the source tree, by default the one this file lies in

Looked at are names in `backticks` outside fenced blocks, and the targets of links. A word is taken for a file if it ends
as a source or script does (SUFFIXES), for a file or folder if it stands first in its backticks and has a slash in it. It
may be written from the root, from the Markdown file's own folder, or as in an #include; a plain name may also stand for
a file one folder below.
"""
import os
import re
import sys

SUFFIXES = (".h", ".cc", ".cu", ".py", ".sh", ".md", ".proto", ".cmake")
SPAN = re.compile(r"`((?:[^`\n]|\n(?!\s*\n))+)`")
LINK = re.compile(r"\]\(([^)\s#]+)[^)]*\)")
FENCE = re.compile(r"^ *```.*?^ *```", re.S | re.M)
PATH = re.compile(r"(\./)?[\w.-]+(/[\w.-]+)*/?")
# Not of this repository: placeholders (foo.cc, NAME.cc, a/b), what a build or a run makes, files of others.
IGNORED = re.compile(r"(.*/)?(foo|[A-Z][A-Z_]*)(_test)?(\.\w+|/)|build(/.*)?|.*/work(/.*)?|parse_log\.py|\.\w+")


def markdown_files(root):
    for folder, names, files in os.walk(root):
        names[:] = sorted(name for name in names if name == ".github" or not name.startswith((".", "build")))
        for name in sorted(files):
            if name.endswith(".md"):
                yield os.path.relpath(os.path.join(folder, name), root)


def expand(word):
    """`filler.{h,cc}` as filler.h and filler.cc."""
    match = re.fullmatch(r"([^{}]*)\{([^{}]+)\}([^{}]*)", word)
    return [match[1] + middle + match[3] for middle in match[2].split(",")] if match else [word]


def names_in(text):
    """Yields (offset, name) of what is taken for a file or folder."""
    text = FENCE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
    for span in SPAN.finditer(text):
        for at, word in enumerate(re.finditer(r"\S+", span[1])):
            for name in expand(word.group().rstrip(",:;")):
                if PATH.fullmatch(name) and (name.endswith(SUFFIXES) or at == 0 and "/" in name):
                    yield span.start(1) + word.start(), name
    for link in LINK.finditer(text):
        if "://" not in link[1]:
            yield link.start(1), link[1]


def exists(root, folder, name):
    bases = ["", folder, "src", "include"]
    if "/" not in name:
        bases += [entry.path for entry in os.scandir(os.path.join(root, folder)) if entry.is_dir()]
    return any(os.path.exists(os.path.join(root, base, name)) for base in bases)


def check_tree(root):
    """(Markdown files, faults): how many were read, and what is wrong as lines to print."""
    files, faults = 0, []
    for path in markdown_files(root):
        files += 1
        with open(os.path.join(root, path), encoding="utf-8") as file:
            text = file.read()
        for offset, name in names_in(text):
            if not IGNORED.fullmatch(name) and not exists(root, os.path.dirname(path), name):
                line = text.count("\n", 0, offset) + 1
                faults.append(f"{path}:{line}: `{name}` does not exist, neither from the root nor from {path}")
    return files, faults


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(here))
    files, faults = check_tree(root)
    if files == 0:
        sys.exit(f"check_docs: no Markdown files under {root}")
    if faults:
        print("\n".join(faults))
        sys.exit(1)
    print(f"check_docs: {files} Markdown files, all file names exist")


if __name__ == "__main__":
    main()
