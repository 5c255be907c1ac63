#!/usr/bin/env python3
"""A page of the manual for a program, made of what its --help prints.

usage: tools/package/manual.py PROGRAM VERSION OUT       e.g. tools/package/manual.py build/release/bin/hproute 0.1 hproute.1

The first paragraph of --help says what the program does; its text up to "Flags:" stays as it is laid out; flags are the lines
"  --NAME  what it does".
"""
import os
import re
import subprocess
import sys


def escaped(text):
    """Text that roff prints as it is."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.M)


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    program, version, out = sys.argv[1:]
    name = os.path.basename(program)
    text = subprocess.run([program, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
    text, _, flags = text.partition("\nFlags:\n")
    what = " ".join(re.split(r"\n\s*\n|\nusage:", text)[0].split()).rstrip(".")
    page = [".TH %s 1 \"\" \"hpnode %s\" \"User Commands\"" % (name.upper(), version), ".SH NAME",
            "%s \\- %s" % (escaped(name), escaped(what[0].lower() + what[1:])), ".SH DESCRIPTION", ".nf",
            escaped(text.strip()), ".fi"]
    if flags:
        page.append(".SH OPTIONS")
    for flag, meaning in re.findall(r"^  (--\S+)  (.*)$", flags, flags=re.M):
        page += [".TP", ".B " + escaped(flag), escaped(meaning)]
    with open(out, "w", encoding="utf-8") as file:
        file.write("\n".join(page) + "\n")


if __name__ == "__main__":
    main()
