"""What the READMEs say of our programs' command lines is in their --help. Their screens: unit_control_client and
page_screens_test.py."""

import functools
import os
import re
import subprocess
import unittest

import cluster

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PROGRAMS = ("hplaunch", "hpnode", "hproute", "hpserver", "hpctl", "model_test", "convert_cifar_data", "convert_mnist_data",
            "convert_mnist_siamese_data", "convert_imageset", "compute_image_mean")
LIBRARY_FLAGS = {"help", "logtostderr", "alsologtostderr", "log_dir", "v"}  # glog's, which --help leaves out
CAFFE2_FLAGS = {"run_id", "redis_host", "redis_port", "file_store_path", "num_shards", "shard_id"}  # its resnet50_trainer


@functools.lru_cache(maxsize=None)
def flags_of(program):
    status, text = cluster.run_tool(program, "--help")
    assert status == 0, text
    return set(re.findall(r"(?m)^  --(\w+)  ", text))


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def markdown_files():
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "*.md"], stdout=subprocess.PIPE, check=False)
    if listed.returncode == 0 and listed.stdout:
        return listed.stdout.decode().split()
    return [os.path.relpath(os.path.join(folder, name), ROOT) for folder, _, names in os.walk(ROOT) for name in names
            if name.endswith(".md") and os.sep + "build" not in folder]


def commands(text):
    """(program, flag) of each command line in code: from a program's name to where its command ends."""
    code = re.findall(r"(?ms)^```\w*\n(.*?)^```", text)
    code += re.findall(r"`([^`\n]+)`", re.sub(r"(?ms)^```.*?^```", "", text))
    for piece in code:
        for line in piece.replace("\\\n", " ").splitlines():
            for command in re.split(r"[|;&#()]|\s--\s", line):
                words = command.split()
                places = [i for i, word in enumerate(words) if word.split("/")[-1] in PROGRAMS]
                if not places:
                    continue
                # "srun hpnode --x": the last program's, and what stands in front of it is not ours.
                for word in words[places[-1] + 1:]:
                    flag = re.match(r"\[?--(\w+)", word)
                    if flag:
                        yield words[places[-1]].split("/")[-1], flag.group(1)


class ReadmeTest(cluster.JobTest):

    def test_flags_of_command_lines(self):
        found = 0
        for path in markdown_files():
            for program, flag in commands(read(path)):
                found += 1
                known = flags_of(program) | LIBRARY_FLAGS
                self.assertTrue(flag in known or flag.startswith("no") and flag[2:] in known,
                                "%s: %s has no --%s" % (path, program, flag))
        self.assertGreater(found, 80, "command lines are found")

    def test_equivalents_of_caffe2s_flags(self):
        rows = re.search(r"(?ms)^\| Caffe2 .*?\n\|---\|---\|\n(.*?)\n(?:\n|\Z)", read("src/rendezvous/README.md")).group(1)
        theirs, ours = set(), set()
        for row in rows.splitlines():
            _, left, right, _ = row.split("|")
            theirs |= set(re.findall(r"--(\w+)", left))
            ours |= set(re.findall(r"--(\w+)", right))
            self.assertTrue(re.search(r"--\w+", right), row)
        self.assertEqual(theirs, CAFFE2_FLAGS)
        self.assertEqual(ours - flags_of("hpnode"), set(), "hpnode --help has them")

    def test_a_flag_that_there_is_not_is_found(self):
        text = "```sh\n$bin/hproute --check=x --no_such=1 | hpnode --role=conv\n```\nand `srun hpnode --nope`"
        self.assertEqual(list(commands(text)), [("hproute", "check"), ("hproute", "no_such"), ("hpnode", "role"),
                                                ("hpnode", "nope")])
        self.assertNotIn("no_such", flags_of("hproute"))


if __name__ == "__main__":
    cluster.main()
