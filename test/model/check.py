#!/usr/bin/env python3
"""Checks the rules of the pipeline in all orders of events, with spin; and that each rule is found when it is broken.

usage: check.py [--all]      --all: larger settings, too (minutes, 8 GB)

Exit status: 0 all is as it should be, 77 spin or gcc is not here.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
MODEL = os.path.join(HERE, "pipeline.pml")

# pool, staleness, clocks, abort
SOUND = [(1, 0, 3, 0), (2, 0, 2, 0), (1, 1, 3, 0), (2, 1, 2, 0), (1, 0, 1, 1)]
LARGE = [(1, 1, 4, 0), (2, 0, 3, 0), (1, 0, 2, 1)]
# The number in BREAK, the rule, a setting in which it matters, and what is found.
BROKEN = [
    (1, "version", (1, 0, 2, 0), "assertion"),
    (2, "release", (1, 0, 1, 1), "assertion"),  # grants that are open
    (3, "write-granted", (1, 0, 2, 0), "assertion"),
    (4, "bind-next", (1, 0, 2, 0), "invalid end state"),
    (5, "add-in-order", (2, 0, 2, 0), "assertion"),
    (6, "after-verdict", (1, 0, 3, 0), "assertion"),
    (7, "update-when-complete", (1, 0, 2, 0), "assertion"),
    (8, "release", (1, 0, 2, 0), "assertion"),  # writes that are open
    (9, "cancel", (1, 0, 1, 1), "invalid end state"),
    (10, "one-gradient", (1, 1, 3, 0), "assertion"),
]


def rules_of_the_model():
    with open(MODEL, encoding="utf-8") as file:
        return set(re.findall(r"(?<=\s)\[([a-z]+(?:-[a-z]+)*)\]", file.read()))


def rules_of_the_code():
    rules = set()
    for top in ("scheduler", "src", "transport"):
        for folder, _, names in os.walk(os.path.join(ROOT, top)):
            for name in names:
                if name.endswith((".h", ".cc")):
                    with open(os.path.join(folder, name), encoding="utf-8") as file:
                        rules.update(re.findall(r"Rule\s+(?:///?\s+)?\[([a-z-]+)\]", file.read()))
    return rules


def build(folder):
    subprocess.run(["spin", "-a", MODEL], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    # One process with steps that cannot be interrupted: there is nothing for partial order reduction.
    # States are small: -DCOLLAPSE, which is for large ones, would take twice the time and more memory.
    subprocess.run(["gcc", "-O2", "-w", "-DSAFETY", "-DNOREDUCE", "-DMEMLIM=8000", "-o", "pan", "pan.c"], cwd=folder,
                   check=True)


def search(folder, setting, broken=0):
    """(what was found or "", states)."""
    names = ("POOL", "S", "CLOCKS", "ABORT")
    env = dict(os.environ, BREAK=str(broken), **{name: str(value) for name, value in zip(names, setting)})
    out = subprocess.run(["./pan", "-n", "-m100000"], cwd=folder, env=env, capture_output=True, text=True).stdout
    found = re.search(r"pan:1: (assertion|invalid end state|.*)", out)
    states = re.search(r"(\d+) states, stored", out)
    if found:
        return found[1], 0
    # Anything else that ends a search early, as a lack of memory or depth, is no proof.
    if "errors: 0" not in out or not states or "Search not completed" in out or "max search depth too small" in out:
        sys.exit("the search with %s did not end:\n%s" % (setting, out[-2000:]))
    return "", int(states[1])


def main():
    if sys.argv[1:] not in ([], ["--all"]):
        sys.exit(__doc__.strip())
    model, code = rules_of_the_model(), rules_of_the_code()
    if model != code:
        sys.exit("rules in the model alone: %s; in comments of the code alone (\"Rule [...]\"): %s" %
                 (", ".join(sorted(model - code)) or "none", ", ".join(sorted(code - model)) or "none"))
    for program in ("spin", "gcc"):
        if not shutil.which(program):
            print("SKIPPED: no %s here" % program)
            sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        build(folder)
        for setting in SOUND + (LARGE if sys.argv[1:] else []):
            found, states = search(folder, setting)
            if found:
                sys.exit("pool %d, staleness %d, %d clocks, abort %d: %s" % (*setting, found))
            print("pool %d, staleness %d, %d clocks, abort %d: %d states, no fault" % (*setting, states))
        for number, rule, setting, expected in BROKEN:
            found, _ = search(folder, setting, number)
            if found != expected:
                sys.exit("rule %s, broken, was not found: expected %s, found %s" % (rule, expected, found or "nothing"))
            print("rule %s, broken: %s" % (rule, found))


main()
