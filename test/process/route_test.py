"""hproute --check: who runs, holds and sends what, or every fault of a table and of the files that it leads to."""

import glob
import os
import re
import shutil
import subprocess

import cluster

FLOAT = 4
BATCH = 12
POOLED = 4 * 5 * 5  # 4 channels; 12 pixels, 10 behind conv1, 5 behind pool1
HIDDEN = 16
CONV_PARAMETERS = 4 * 3 * 3 + 4


class RouteTest(cluster.JobTest):

    def check(self, status=0, *flags):
        found, text = cluster.run_tool("hproute", "--check", self.path("table.prototxt"), "--cache_dir=none", *flags)
        self.assertEqual(found, status, text)
        return text

    def nodes(self):
        """{node: (layers, parameters, solvers, sent bytes, received bytes)} of a valid table."""
        pattern = (r'node "(\w+)": (\d+) layer\(s\), (\d+) parameters \(\d+ bytes with histories and gradients\)\n'
                   r"  (.*)\n  memory \d+ bytes, including a pool of (\d+) solver\(s\) of (\d+) bytes each\n"
                   r"  sends (\d+) bytes and receives (\d+) bytes in each iteration\n")
        text = self.check()
        found = {}
        for name, layers, parameters, listed, solvers, solver_bytes, sent, received in re.findall(pattern, text):
            self.assertEqual(len(listed.split()), int(layers))
            self.assertGreater(int(solver_bytes), BATCH * POOLED)
            found[name] = listed.split(), int(parameters), int(solvers), int(sent), int(received)
        self.assertEqual(list(found), list(self.ports), text)
        return found

    def test_hybrid(self):
        self.make_job()
        self.make_table(conv=2, fc=2)
        nodes = self.nodes()
        self.assertEqual(sum(node[3] for node in nodes.values()), sum(node[4] for node in nodes.values()))
        exchanged = CONV_PARAMETERS * FLOAT  # once to sum up and once with the sum, half of it each time
        for name in ("conv0", "conv1"):
            layers, parameters, solvers, sent, received = nodes[name]
            self.assertEqual((layers, parameters, solvers), (["conv1", "relu1", "pool1"], CONV_PARAMETERS, 2))
            crossing = BATCH // 2 * POOLED * FLOAT * 2  # to two shards, and partial sums of the gradient from each
            self.assertEqual((sent, received), (crossing + exchanged, crossing + exchanged), name)
        parameters = POOLED * HIDDEN + HIDDEN + HIDDEN * 4 + 4
        self.assertEqual(nodes["fc0"][1] + nodes["fc1"][1], parameters)
        for name in ("fc0", "fc1"):
            self.assertEqual(nodes[name][0], ["ip1", "relu2", "drop", "ip2", "loss.classes", "loss"])

    def test_one_node_sends_nothing(self):
        self.make_job()
        self.make_table(conv=1, fc=0, micro_batches=1)
        self.assertEqual(self.nodes()["conv0"][1:], (CONV_PARAMETERS + POOLED * HIDDEN + HIDDEN + HIDDEN * 4 + 4, 1, 0, 0))

    def test_layers_of_the_state_that_the_net_is_in(self):
        rule = 'stage: "wide" min_level: 1'
        wide = """layer { name: "wide" type: "InnerProduct" bottom: "pool1" top: "ip1" include { %s }
                  inner_product_param { num_output: 40 weight_filler { type: "xavier" } } }""" % rule
        net = cluster.NET.replace('layer { name: "ip1"', wide + '\nlayer { name: "ip1" exclude { %s }' % rule)
        for state, taken in (('state { stage: "wide" level: 2 }', "wide"), ('state { stage: "wide" }', "ip1"),
                             ("state { level: 2 }", "ip1"), ("", "ip1")):
            self.make_job(net=state + net)
            self.make_table(conv=1, fc=1, cut="wide", micro_batches=1)
            layers, parameters = self.nodes()["fc0"][:2]
            self.assertEqual(layers, [taken, "relu2", "drop", "ip2", "loss"], state)
            outputs = 40 if taken == "wide" else HIDDEN
            self.assertEqual(parameters, POOLED * outputs + outputs + outputs * 4 + 4)

    def test_no_database_on_this_host(self):
        self.make_job()
        self.make_table(conv=1, fc=1)
        with_data = self.check()
        shutil.rmtree(self.path("db"))
        said = self.check(2)
        self.assertNotIn(": valid", said)
        self.assertRegex(said, r"table\.prototxt: the table has no fault, but whether layers fit is not known: .* does not exist; "
                         r"without its data, say the shape of a sample: --sample=CHANNELS,HEIGHT,WIDTH")
        self.assertEqual(self.check(0, "--sample=1,12,12"), with_data)

    def test_what_nodes_would_refuse_is_neither_valid_nor_written(self):
        reduced = 'layer { name: "r" type: "Reduction" bottom: "ip2" top: "r" reduction_param { axis: 5 } }\n'
        scale = 'layer { name: "s" type: "Scale" bottom: "ip2" top: "s" include { phase: TEST } }\n'
        make = ["--solver=" + self.path("solver.prototxt"), "--hosts=127.0.0.1", "--cache_dir=none",
                "--out=" + self.path("new.prototxt")]
        for layer, test, fault in ((reduced, False, r"reduction_param { axis: 5 } does not fit bottom shape"),
                                   (scale, True, r'layer "s": has parameters in phase TEST alone')):
            self.make_job(net=cluster.NET + layer, test=test)
            self.make_table(conv=1, fc=1)
            refusal = r"net\.prototxt:\d+: .*" + fault
            self.assertRegex(self.check(2), refusal)
            for nodes in (["--conv=1", "--fc=1"], ["--conv=1", "--fc=0"], ["--plan=auto"]):
                status, said = cluster.run_tool("hproute", *make, *nodes)
                self.assertEqual(status, 2, said)
                self.assertRegex(said, fault)
            shutil.rmtree(self.path("db"))
            self.assertRegex(self.check(2, "--sample=1,12,12"), refusal)
            status, said = cluster.run_tool("hproute", *make, "--conv=1", "--fc=1", "--sample=1,12,12")
            self.assertEqual(status, 2, said)
            self.assertRegex(said, refusal)
            self.assertFalse(os.path.exists(self.path("new.prototxt")))
            status, said = cluster.run_tool("hproute", *make, "--conv=1", "--fc=1")
            if layer == scale:  # shows without the data
                self.assertEqual(status, 2, said)
                self.assertRegex(said, refusal)
                continue
            self.assertEqual(status, 0, said)
            self.assertRegex(said, r"warning: whether layers fit is not checked: .*--sample=CHANNELS,HEIGHT,WIDTH")
            os.remove(self.path("new.prototxt"))

    def test_node_over_its_memory(self):
        self.make_job(hidden=10000)
        self.make_table(conv=1, fc=1)
        text = self.read("table.prototxt").decode()
        self.write("table.prototxt", re.sub(r"(stage: 1 index: 0 )", r"\1memory_mb: 1 ", text))
        self.assertRegex(self.check(2), r"node fc0 needs \d+\.\d MB, its memory_mb allows 1\.0 MB")

    def test_memory_of_the_hosts(self):
        self.make_job(hidden=100000)
        self.make_table(conv=1, fc=2)
        self.assertRegex(self.check(2, "--memory_mb=20"), r"node fc0 needs \d+\.\d MB, --memory_mb allows 21\.0 MB; parameters")
        self.check(0, "--memory_mb=4096")
        self.assertIn("expected 0 to 134217728", self.check(2, "--memory_mb=17592186044416"))

    def test_nodes_of_one_host_are_added_up(self):
        self.make_job(hidden=100000)
        self.make_table(conv=1, fc=2, hosts=["127.0.0.1", "127.0.0.1", "localhost"])
        each = [float(mb) for mb in re.findall(r"  memory (\d+\.\d) MB", self.check())]
        self.assertEqual(len(each), 2, "the shards")
        room = int(max(each)) + 10  # MB, and some for images; of the sum it is half
        found = re.search(r'the 3 nodes of host "127\.0\.0\.1" need (\d+\.\d) MB together, --memory_mb allows (\d+\.\d) MB: '
                          r"(\d+\.\d) MB too little; conv0 \d+\.\d MB, fc0 \d+\.\d MB, fc1 \d+\.\d MB; put some on other hosts",
                          self.check(2, "--memory_mb=%d" % room))
        self.assertIsNotNone(found)
        needed, allowed, missing = map(float, found.groups())
        self.assertGreaterEqual(needed, sum(each))
        self.assertAlmostEqual(needed - allowed, missing, delta=0.11)
        self.check(0, "--memory_mb=%d" % (needed / 1.048576 + 1))
        self.make_table(conv=1, fc=2, hosts=["192.0.2.1", "192.0.2.2", "192.0.2.3"])
        self.check(0, "--memory_mb=%d" % room)

    def test_many_samples_are_not_listed(self):
        self.make_job(solver="iter_size: 524288\n", net=cluster.NET.replace("batch_size: 12", "batch_size: 100000", 1))
        self.make_table(conv=1, fc=1, micro_batches=1)
        crossing = r"%.1f MB" % (524288 * 100000 * POOLED * FLOAT / 1e6)
        self.assertEqual(self.check().count("sends %s and receives %s" % (crossing, crossing)), 2)

    def test_snapshots_larger_than_their_format(self):
        """They are HDF5 files then: refused ahead where its library is missing, and there are snapshots."""
        hidden = 6000000
        parameters = CONV_PARAMETERS + (POOLED + 1) * hidden + (hidden + 1) * 4
        said = "%.2f GB of parameters: above 2.15 GB the snapshots of solver type SGD are HDF5 files, and " % (
            parameters * FLOAT / 1e9)
        libraries = glob.glob("/usr/lib/*/libhdf5_serial.so.*")
        hidden_library = ["unshare", "--mount", "sh", "-c", 'for library in %s; do mount --bind /dev/null "$library"; done; '
                          'exec "$0" "$@"' % " ".join(libraries)]
        for missing in (False, True):
            if missing and libraries and os.geteuid() != 0:
                continue  # only root can hide them
            for snapshot in (5, 0):
                self.make_job(hidden=hidden, snapshot=snapshot)
                self.make_table(conv=1, fc=2)
                command = [cluster.program("hproute"), "--check", self.path("table.prototxt"), "--cache_dir=none"]
                done = subprocess.run((hidden_library if missing and libraries else []) + command, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, timeout=600, check=False, text=True)
                refused = snapshot != 0 and (missing or not libraries)
                self.assertEqual((done.returncode, said in done.stdout), (2, True) if refused else (0, False), done.stdout)

    def test_faulty_net_without_its_database(self):
        self.make_job(net=cluster.NET.replace("num_output: 4 kernel_size", "num_output: 4294967295 kernel_size"))
        self.make_table(conv=1, fc=1)
        shutil.rmtree(self.path("db"))
        self.assertIn("num_output: 4294967295 }: expected 1 to 2147483647", self.check(2))

    def test_more_micro_batches_than_ids_can_count(self):
        self.make_job(solver="iter_size: 262145\n")
        self.make_table(conv=1, fc=1, micro_batches=2)
        said = r"micro_batches: 2 times iter_size: 262145 are 524290 micro-batches of a replica in an update; .* 524288"
        self.assertRegex(self.check(2), said)
        self.expect_exit(self.start("--all"), 2, said)
        self.make_job(solver="iter_size: 262144\n")
        self.check()

    def test_all_faults_at_once(self):
        self.make_job(solver="iter_size: 400000\n")
        self.make_table(micro_batches=7, ports=[20000, 20000, 20001],
                        stages=[("conv", "kind: CONV", 2), ("fc", 'kind: FC layer: "nowhere"', 1)])
        text = self.check(2)
        for said in ("times iter_size: 400000", "7 micro-batches are more than the 12 samples", "not a layer of the net",
                     "both on 127.0.0.1:20000", "has 4 fault(s)"):
            self.assertIn(said, text)
        os.remove(self.path("net.prototxt"))
        text = self.check(2)
        for said in ("no such file", "both on 127.0.0.1:20000", "has 2 fault(s)"):
            self.assertIn(said, text)


if __name__ == "__main__":
    cluster.main()
