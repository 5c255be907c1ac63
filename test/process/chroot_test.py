"""The Debian package in a fresh Debian, the image of it, and the bundle in a root that has nothing but libc: each trains
examples/digits.

A root is a folder that processes see as / (chroot), with the network of this host. What is missing here (root's rights,
mmdebstrap, buildah, patchelf, a mirror that answers) makes a test SKIPPED.
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import cluster

HERE = os.path.dirname(os.path.abspath(__file__))
PROJECT = os.path.dirname(os.path.dirname(HERE))
EXAMPLE = "examples/digits"
PROMISED = 0.97
LIMIT_S = 800  # for a root of Debian, which is downloaded
CUDA = r"/lib(cu\w+|nccl|nvrtc|nvJitLink)\.so"
LIBC = r"/(ld-linux\S*|libc|libm|libmvec|libdl|libpthread|librt|libresolv)\.so"


def debian_release():
    with open("/etc/os-release", encoding="utf-8") as file:
        found = re.search(r"^VERSION_CODENAME=(\S+)", file.read(), re.M)
    return found.group(1) if found else ""


def debian_sources(release):
    """This host's apt sources of its release and its updates, without those of others: (lines of .list, paragraphs of .sources)."""
    suites = {release + suffix for suffix in ("", "-updates", "-security")}
    lines, paragraphs = [], []
    for path in ["/etc/apt/sources.list", *sorted(glob.glob("/etc/apt/sources.list.d/*.list"))]:
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                lines += [line for line in file if line.startswith("deb ") and suites & set(line.split())]
    for path in sorted(glob.glob("/etc/apt/sources.list.d/*.sources")):
        with open(path, encoding="utf-8") as file:
            for paragraph in re.split(r"\n\s*\n", file.read()):
                named = re.search(r"^Suites:(.*)$", paragraph, re.M)
                if named and suites & set(named.group(1).split()) and "Enabled: no" not in paragraph:
                    paragraphs.append(paragraph.strip() + "\n")
    return "".join(lines), "\n".join(paragraphs)


class ChrootTest(cluster.JobTest):

    @classmethod
    def setUpClass(cls):
        # What is made once: debian, and the package in deb.
        cls.made = tempfile.mkdtemp(prefix="hpnode-chroot-")
        cls.addClassCleanup(shutil.rmtree, cls.made, ignore_errors=True)

    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("needs root, for chroot")
        super().setUp()
        self.root = self.path("root")
        self.run = []  # the command line in front of what runs in a container; none: in `root`

    def run_here(self, *command, limit_s=LIMIT_S):
        done = subprocess.run(command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit_s,
                              check=False, text=True, errors="replace")
        self.assertEqual(done.returncode, 0, " ".join(command) + "\n" + done.stdout)
        return done.stdout

    def inside(self, *command):
        """The command line that runs a command in the root, with a /proc."""
        if self.run:
            return [*self.run, *command]
        return ["unshare", "--mount", "sh", "-c", 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"', self.root,
                *command]

    def run_inside(self, *command, status=0):
        done = subprocess.run(self.inside(*command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT_S,
                              check=False, text=True, errors="replace")
        self.assertEqual(done.returncode, status, " ".join(command) + "\n" + done.stdout)
        return done.stdout

    def train_digits(self, programs):
        """Trains with a conv node and an FC node of the root's folder `programs`, and tests the model."""
        work = os.path.join(self.root, EXAMPLE, "work")
        shutil.copytree(os.path.join(PROJECT, EXAMPLE), os.path.join(self.root, EXAMPLE),
                        ignore=shutil.ignore_patterns("work"))
        os.makedirs(work)
        self.run_here(sys.executable, os.path.join(EXAMPLE, "make_idx.py"), os.path.join(EXAMPLE, "digits.csv.gz"), work)
        for part in ("train", "test"):
            files = ["/%s/work/%s" % (EXAMPLE, part + name) for name in ("-images", "-labels", "_leveldb")]
            self.run_inside(programs + "/convert_mnist_data", *files, "--backend=leveldb")
        table = "/%s/work/table.prototxt" % EXAMPLE
        self.run_inside(programs + "/hproute", "--solver=/%s/digits_solver.prototxt" % EXAMPLE, "--conv=1", "--fc=1",
                        "--hosts=127.0.0.1", "--out=" + table)
        ports = iter(cluster.free_ports(2))
        with open(self.root + table, encoding="utf-8") as file:
            text = re.sub(r"port: \d+", lambda _: "port: %d" % next(ports), file.read())
        with open(self.root + table, "w", encoding="utf-8") as file:
            file.write(text)
        nodes = [cluster.Process(role, self.inside(programs + "/hpnode", "--role=" + role, "--routing=" + table),
                                 self.path(role + ".log"), {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/root"})
                 for role in ("conv", "fc")]
        self.processes += nodes
        self.expect_all(nodes, 0, "Optimization Done", seconds=LIMIT_S)
        said = self.run_inside(programs + "/model_test", "--model=/%s/digits_train_test.prototxt" % EXAMPLE,
                               "--weights=/%s/work/digits_iter_1000.caffemodel" % EXAMPLE, "--iterations=3")
        self.assertGreaterEqual(float(re.findall(r"accuracy = (\S+)", said)[-1]), PROMISED, said)

    def bring_cuda(self, folder):
        """Puts NVIDIA's libraries, as this host has them, into a folder: no package of Debian's has them."""
        loaded = self.run_here("ldd", cluster.program("hpnode"))
        for library in {path for path in re.findall(r"=> (\S+)", loaded) if re.search(CUDA, path)}:
            source, target = os.path.realpath(library), os.path.join(folder, os.path.basename(library))
            try:
                os.link(source, target)  # they take 2 GB
            except OSError:
                shutil.copy(source, target)

    def make_package(self):
        """Returns the path of the Debian package."""
        folder = os.path.join(self.made, "deb")
        if not os.path.exists(folder):
            build = os.path.dirname(os.path.dirname(cluster.program("hpnode")))
            self.run_here("cpack", "-G", "DEB", "--config", os.path.join(build, "CPackConfig.cmake"), "-B", folder)
        package, = glob.glob(folder + "/*.deb")
        return package

    def make_debian(self):
        """A root with Debian's essential packages and apt, of the release and the mirrors of this host."""
        debian = os.path.join(self.made, "debian")
        if not os.path.exists(debian):
            self.load_debian(debian + ".part")
            os.rename(debian + ".part", debian)
        self.run_here("cp", "-a", "--reflink=auto", debian, self.root)

    def load_debian(self, root):
        release = debian_release()
        if shutil.which("mmdebstrap") is None:
            self.skipTest("no mmdebstrap here (tools/dev/setup.sh --dev)")
        lines, paragraphs = debian_sources(release)
        sources = [self.write(name, text) for name, text in (("apt.list", lines), ("apt.sources", paragraphs)) if text]
        # As apt sees it, with its proxies; nothing of this host's apt changes.
        os.makedirs(self.path("parts"))
        os.makedirs(self.path("state/lists/partial"))
        for source in sources:
            shutil.copy(source, self.path("parts"))
        probe = subprocess.run(
            ["apt-get", "update", "-q", "-o", "Dir::Etc::sourcelist=/dev/null",
             "-o", "Dir::Etc::sourceparts=" + self.path("parts"), "-o", "Dir::State::lists=" + self.path("state/lists"),
             "-o", "Dir::Cache=" + self.path("state"), "-o", "APT::Update::Error-Mode=any", "-o", "APT::Sandbox::User=root",
             "-o", "Acquire::Retries=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, text=True)
        if not sources or probe.returncode != 0:
            self.skipTest("no Debian mirror answers: " + probe.stdout.strip().splitlines()[-1])
        self.run_here("mmdebstrap", "--mode=root", "--variant=apt", "--quiet", "--skip=cleanup/apt/lists", release, root, *sources)
        shutil.copy("/etc/resolv.conf", os.path.join(root, "etc/resolv.conf"))

    def test_the_debian_package_in_a_fresh_debian(self):
        self.make_debian()
        shutil.copy(self.make_package(), os.path.join(self.root, "hpnode.deb"))
        self.run_inside("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-qy", "--no-install-recommends",
                        "/hpnode.deb")
        self.assertNotIn("libibverbs1", self.run_inside("dpkg-query", "-W", "-f", "${Package}\n"), "only recommended")
        self.assertTrue(os.path.exists(os.path.join(self.root, "usr/share/man/man1/hpnode.1")))
        self.check_files(self.run_inside("dpkg", "-L", "hpnode").split())
        self.bring_cuda(os.path.join(self.root, "usr/local/lib"))
        self.run_inside("ldconfig")
        self.train_digits("/usr/bin")

    def check_files(self, files):
        """What tools/package/README.md says that the package has."""
        headers = {os.path.basename(path) for path in glob.glob(PROJECT + "/include/hp/*.h")}
        self.assertEqual({path.removeprefix("/usr/include/hp/") for path in files if path.endswith(".h")}, headers)
        library, = [path for path in files if re.fullmatch(r"/usr/lib(/[^/]+)?/libhpnode\.so\.\d+\.\d+", path)]
        for name in ("libhpnode.so", "cmake/hpnode/hpnodeConfig.cmake", "cmake/hpnode/hpnodeConfigVersion.cmake"):
            self.assertIn(os.path.join(os.path.dirname(library), name), files)
        programs = [path.removeprefix("/usr/bin/") for path in files if path.startswith("/usr/bin/")]
        self.assertLess({"hpnode", "hproute", "hplaunch", "hpctl", "hpserver", "hpplot"}, set(programs))
        for program in programs:
            for path in ("bash-completion/completions/" + program, "man/man1/%s.1" % program):
                self.assertIn("/usr/share/" + path, files)

    def write_recipe(self):
        """Containerfile, whose first stage takes the package that this build makes and does not compile it anew. Returns the
        names of the images that its stages begin with."""
        with open(os.path.join(PROJECT, "tools/package/Containerfile"), encoding="utf-8") as file:
            first, last = re.search(r"(?ms)^(FROM \S+ AS build)\n.*^(FROM .*)", file.read()).groups()
        os.mkdir(self.path("context"))
        shutil.copy(self.make_package(), self.path("context"))
        self.write("context/Containerfile", "%s\nCOPY *.deb /package/\n%s" % (first, last))
        return [stage.split()[1] for stage in (first, last)]

    def test_the_image_of_it(self):
        if os.environ.get("HPNODE_IMAGE") != "1":
            self.skipTest("SKIPPED: takes minutes; HPNODE_IMAGE=1 has it done")
        if shutil.which("buildah") is None:
            self.skipTest("SKIPPED: no buildah here (tools/dev/setup.sh --dev)")
        self.make_debian()
        buildah = ["buildah", "--root", self.path("store"), "--runroot", self.path("state.run")]
        self.addCleanup(self.run_here, *buildah, "rm", "--all")
        # This Debian in the place of those that a registry has.
        base = self.run_here(*buildah, "from", "scratch").strip()
        self.run_here(*buildah, "add", "--quiet", base, self.root, "/")
        shutil.rmtree(self.root)
        for name in self.write_recipe():
            self.run_here(*buildah, "commit", "--quiet", base, "docker.io/library/" + name)
        self.run_here(*buildah, "build", "--isolation", "chroot", "--pull-never", "--tag", "hpnode", self.path("context"))
        said = self.run_here(*buildah, "inspect", "--type", "image", "--format", "{{.OCIv1.Config.Entrypoint}}", "hpnode")
        self.assertEqual(said.strip(), "[hpnode]")

        container = self.run_here(*buildah, "from", "--pull-never", "hpnode").strip()
        self.root = self.run_here(*buildah, "mount", container).strip()
        self.assertEqual(glob.glob(self.root + "/tmp/*"), [])
        os.mkdir(self.path("cuda"))
        self.bring_cuda(self.path("cuda"))
        self.run = [*buildah, "run", "--isolation", "chroot", "--volume", self.path("cuda") + ":/cuda:ro", "--env",
                    "LD_LIBRARY_PATH=/cuda", container, "--"]
        self.assertIn("libibverbs1\n", self.run_inside("dpkg-query", "-W", "-f", "${Package}\n"), "recommended")
        self.train_digits("/usr/bin")

    def test_the_bundle_in_a_root_with_nothing_but_libc(self):
        if shutil.which("patchelf") is None:
            self.skipTest("no patchelf here (tools/dev/setup.sh)")
        build = os.path.dirname(os.path.dirname(cluster.program("hpnode")))
        bundle = self.run_here("tools/dev/bundle.sh", build, self.path("out")).splitlines()[-1]
        os.makedirs(os.path.join(self.root, "proc"))
        self.run_here("tar", "-xzf", bundle, "-C", self.root)
        name = os.path.basename(bundle).removesuffix(".tar.gz")
        os.rename(os.path.join(self.root, name), os.path.join(self.root, "moved"))
        loader = self.run_here("patchelf", "--print-interpreter", cluster.program("hpnode")).strip()
        loaded = self.run_here("ldd", cluster.program("hpnode"))
        for path in {loader, *(path for path in re.findall(r"=> (\S+)", loaded) if re.search(LIBC, path))}:
            os.makedirs(os.path.dirname(self.root + path), exist_ok=True)
            shutil.copy(path, self.root + path)
        self.train_digits("/moved/bin")
        # RDMA is the host's.
        self.assertEqual(glob.glob(self.root + "/**/libibverbs*", recursive=True), [])
        said = self.run_inside("/moved/bin/hpnode", "--doctor", status=2)
        self.assertRegex(said, "no RDMA on this host: libibverbs.so.1: cannot open .*install libibverbs1")
        # Another program's libraries in LD_LIBRARY_PATH change nothing.
        os.makedirs(os.path.join(self.root, "other"))
        for library in os.listdir(os.path.join(self.root, "moved/lib")):
            with open(os.path.join(self.root, "other", library), "w", encoding="utf-8"):
                pass
        done = subprocess.run(self.inside("/moved/bin/hpnode", "--help"), env={**os.environ, "LD_LIBRARY_PATH": "/other"},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        # What goes with the programs.
        documents = os.path.join(self.root, "moved/share")
        for document in ("doc/hpnode/README.md", "doc/hpnode/licences/libprotobuf32", "man/man1/hpnode.1",
                         "bash-completion/completions/hpnode"):
            self.assertTrue(os.path.exists(os.path.join(documents, document)), document)
        with open(os.path.join(documents, "doc/hpnode/VERSION"), encoding="utf-8") as file:
            self.assertRegex(file.read(), r"hpnode \d+\.\d+.*\n.*\nneeds: .*glibc 2\.\d+ or later")


if __name__ == "__main__":
    cluster.main()
