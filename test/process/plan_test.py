"""hproute without --conv and --fc: it chooses a table, says why, and what it writes passes --check and trains."""

import os
import re

import cluster

# Slow processors on fast links: every host helps. Addresses of documentation: nobody answers there.
HOST = 'host { name: "192.0.2.%d" cores: 1 memory_mb: %d gflops: %g memory_gb_per_s: %g link_gbit_per_s: %g latency_us: 1 }\n'


def hosts(speeds, memory_mb=4096, link=100.0):
    return "".join(HOST % (i + 1, memory_mb, speed, speed, link) for i, speed in enumerate(speeds))


# Nothing that could be split over shards.
CONVOLUTIONS = cluster.NET.replace("batch_size: 12", "batch_size: 4", 1).replace(
    'type: "InnerProduct"', 'type: "Convolution"').replace(
    "inner_product_param { num_output: %(hidden)d", "convolution_param { num_output: %(hidden)d kernel_size: 5").replace(
    "inner_product_param { num_output: 4", "convolution_param { num_output: 4 kernel_size: 1")
# A second loss, in front of another convolution.
SIDE = cluster.NET.replace('bottom: "pool1" top: "ip1"', 'bottom: "conv2" top: "ip1"').replace('layer { name: "ip1"', """
layer { name: "side/ip1" type: "InnerProduct" bottom: "pool1" top: "side/ip1"
        inner_product_param { num_output: 300 weight_filler { type: "xavier" } } }
layer { name: "side/ip2" type: "InnerProduct" bottom: "side/ip1" top: "side/ip2"
        inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "side/loss" type: "SoftmaxWithLoss" bottom: "side/ip2" bottom: "label" top: "side/loss" loss_weight: 0.3 }
layer { name: "conv2" type: "Convolution" bottom: "pool1" top: "conv2"
        convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "ip1\"""")

# Convolutions of more weights than outputs, one behind the other.
DEEP = cluster.NET.replace("batch_size: 12", "batch_size: 16", 1).replace('bottom: "pool1" top: "ip1"', 'bottom: "conv8" top: "ip1"').replace(
    'layer { name: "ip1"', "".join("""
layer { name: "conv%d" type: "Convolution" bottom: "%s" top: "conv%d"
        convolution_param { num_output: 32 kernel_size: 3 pad: 1 stride: %d weight_filler { type: "xavier" } } }"""
                                   % (i, "conv%d" % (i - 1) if i > 2 else "pool1", i, 2 if i == 2 else 1) for i in range(2, 9)) + '\nlayer { name: "ip1"', 1)


class PlanTest(cluster.JobTest):

    def plan(self, status, *flags):
        found, text = cluster.run_tool("hproute", "--solver=" + self.path("solver.prototxt"), "--cache_dir=none", *flags)
        self.assertEqual(found, status, text)
        return text

    def plan_table(self, *flags):
        """Returns the reasons, and the table that was written, which passes --check."""
        text = self.plan(0, "--out=" + self.path("table.prototxt"), *flags)
        status, checked = cluster.run_tool("hproute", "--check", self.path("table.prototxt"), "--cache_dir=none")
        self.assertEqual(status, 0, checked)
        return text, self.read("table.prototxt").decode()

    def train(self):
        """All nodes of the table in one process."""
        self.expect_exit(self.start("--all", "--cache_dir=none"), 0, "Optimization Done")

    def test_one_machine(self):
        self.make_job(iterations=5)
        text, table = self.plan_table()
        self.assertIn("plan: one machine\n", text)
        self.assertIn("One machine is best: there is no other.", text)
        self.assertRegex(text, r"hosts: taken to be like this one \(\d+ cores, \d+\.\d MB\) with links of 1 Gbit/s")
        self.assertEqual(table.count("node {"), 1)
        self.train()

    def test_without_out_nothing_is_written(self):
        self.make_job()
        self.assertIn("plan: ", self.plan(0, "--plan=auto"))
        self.assertFalse(any(name.startswith("table") for name in os.listdir(self.folder)))

    def test_tied_weights(self):
        """Of products one of which is transposed: shards that divide both by their outputs have other parts of each."""
        product = 'layer { name: "%s" type: "InnerProduct" bottom: "%s" top: "%s" %s inner_product_param { num_output: %d %s } }\n'
        net = 'layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: "x" batch_size: 128 } }\n'
        for name, bottom, outputs, more in (("cv1", "data", 64, "kernel_size: 7 stride: 2"), ("cv2", "p1", 128, "kernel_size: 3")):
            net += 'layer { name: "%s" type: "Convolution" bottom: "%s" top: "%s" convolution_param { num_output: %d %s } }\n' % (
                name, bottom, name, outputs, more)
            if name == "cv1":
                net += 'layer { name: "p1" type: "Pooling" bottom: "cv1" top: "p1" pooling_param { kernel_size: 3 stride: 2 } }\n'
        shared = 'param { name: "w" }'
        net += product % ("a", "cv2", "a", "", 4096, "") + product % ("b", "a", "b", shared, 4096, "")
        net += product % ("d", "b", "d", shared, 4096, "transpose: true") + product % ("c", "d", "c", "", 5, "")
        self.write("net.prototxt", net + 'layer { name: "loss" type: "SoftmaxWithLoss" bottom: "c" bottom: "label" top: "loss" }\n')
        self.write("solver.prototxt", 'net: "net.prototxt" max_iter: 10 base_lr: 0.01 lr_policy: "fixed"\n')
        status, said = cluster.run_tool(
            "hproute", "--solver=" + self.path("solver.prototxt"), "--hosts=10.0.0.1,10.0.0.2,10.0.0.3,10.0.0.4", "--plan=auto",
            "--sample=3,64,64", "--out=" + self.path("tied.prototxt"))
        self.assertEqual(status, 0, said)

    def test_slow_links_leave_it_on_one_machine(self):
        self.make_job()
        self.write("hosts.prototxt", hosts([10, 10, 10], link=0.001))
        text, _ = self.plan_table("--hosts=" + self.path("hosts.prototxt"))
        self.assertRegex(text, r"One machine is best: the best table for more hosts, .*, sends [\d.]+ .B over a link")

    def test_large_products_get_shards(self):
        self.make_job(iterations=5, hidden=20000)
        self.write("hosts.prototxt", hosts([0.05, 0.05, 0.05], link=0.1))
        text, table = self.plan_table("--hosts=" + self.path("hosts.prototxt"))
        self.assertRegex(text, r"plan: \d conv nodes? \+ \d shards?")
        self.assertRegex(text, r"bottleneck: host 192\.0\.2\.\d (computes|sends|receives)")
        self.assertRegex(text, r"limit max\(compute, bytes / bandwidth\): .*; simulated .* is [\d.]+ times that")
        self.assertRegex(text, r"pools, in solvers: \d+ on conv0")
        self.assertRegex(text, r"next best:\n  1\. [\d.]+ images/s: ")
        self.assertIn("kind: FC", table)
        self.assertRegex(table, r"pool_size: \d+\n  threads: 1\n  memory_mb: 4096\n(  .*\n)*  link_gbit_per_s: 0\.1")
        self.train()

    def test_unequal_hosts_get_unequal_shares(self):
        self.make_job(iterations=5, net=CONVOLUTIONS.replace("batch_size: 4", "batch_size: 24", 1))
        self.write("hosts.prototxt", hosts([0.01, 0.03]))
        _, table = self.plan_table("--hosts=" + self.path("hosts.prototxt"))
        shares = [int(share) for share in re.findall(r"share: (\d+)", table)]
        self.assertEqual(len(shares), 2, table)
        self.assertTrue(2.4 <= shares[1] / shares[0] <= 3.6, shares)
        self.train()

    def test_servers_on_hosts_that_are_left(self):
        self.make_job(iterations=5, net=CONVOLUTIONS)
        self.write("hosts.prototxt", hosts([0.004] * 8, link=0.01))
        text, table = self.plan_table("--hosts=" + self.path("hosts.prototxt"))
        self.assertRegex(text, r"plan: data parallelism over 4 nodes with \d parameter servers")
        self.assertRegex(text, r"192\.0\.2\.\d +(\d )?server")
        self.assertIn("exchange: PARAMETER_SERVER", table)
        self.train()

    def test_side_classifiers_on_the_shards(self):
        self.make_job(iterations=5, net=SIDE)
        self.write("hosts.prototxt", hosts([0.1] * 3, link=0.02))
        text, table = self.plan_table("--hosts=" + self.path("hosts.prototxt"))
        self.assertIn(" from ip1 and of side classifiers", text)
        self.assertRegex(table, r'layer: "side/ip1"\n  layer: "side/ip2"\n  layer: "side/loss"')
        self.train()

    def test_conv_layers_in_two_stages(self):
        # One replica has no gradients to exchange, and little crosses where half of the work is done.
        self.make_job(iterations=5, net=DEEP)
        self.write("hosts.prototxt", hosts([0.003] * 2, link=0.0003))
        text, table = self.plan_table("--hosts=" + self.path("hosts.prototxt"))
        self.assertRegex(text, r"plan: stages from data on 1 conv node, conv\d on 1 conv node, \d+ micro-batches\n")
        self.assertRegex(text, r"192\.0\.2\.1 +conv +16 ")
        self.assertEqual(table.count("kind: CONV"), 2, table)
        self.train()

    def test_a_table_that_is_not_the_best(self):
        self.make_job(hidden=20000)
        self.write("hosts.prototxt", hosts([0.05, 0.05, 0.05], link=0.1))
        where = "--hosts=" + self.path("hosts.prototxt")
        best = self.plan(0, where)
        second = re.search(r"next best:\n  1\. [\d.]+ images/s: (.*)", best)[1]
        self.assertIn("plan: " + second, self.plan(0, where, "--take=2"))
        self.assertRegex(self.plan(2, where, "--take=1000"), r"--take is 1000, and there are \d+ tables that are worth a look")
        self.assertIn("--take is 0; expected 1 or more", self.plan(2, where, "--take=0"))
        self.assertIn("--take goes with --plan", self.plan(2, "--conv=1", "--fc=0", "--take=2", "--out=x"))

    def test_excluded_hosts_get_no_node(self):
        self.make_job(hidden=20000)
        self.write("hosts.prototxt", hosts([0.05, 0.05, 0.05], link=0.1))
        where = "--hosts=" + self.path("hosts.prototxt")
        _, table = self.plan_table(where, "--exclude=192.0.2.2")
        self.assertIn("--exclude=192.0.2.2", table)
        self.assertEqual({"192.0.2.1", "192.0.2.3"}, set(re.findall(r'host: "(.*?)"', table)))
        _, table = self.plan_table("--conv=2", "--fc=1", "--hosts=192.0.2.1/cuda:0-2,192.0.2.2", "--exclude=192.0.2.2")
        self.assertEqual({"192.0.2.1"}, set(re.findall(r'host: "(.*?)"', table)))
        for flags in ((where,), ("--conv=1", "--fc=0", "--hosts=192.0.2.1", "--out=x")):
            self.assertIn("--exclude=nobody: --hosts has no such host", self.plan(2, *flags, "--exclude=nobody"))
        self.assertIn("--exclude leaves no host",
                      self.plan(2, "--conv=1", "--fc=0", "--hosts=192.0.2.1", "--out=x", "--exclude=192.0.2.1"))

    def test_profile(self):
        self.make_job(iterations=5)
        profile = "--profile=" + self.path("profile.prototxt")
        self.assertRegex(self.plan(0, profile, "--hosts=192.0.2.1"), r"\d+ layers with \d+ thread\(s\)")
        text = self.read("profile.prototxt").decode()
        self.assertIn('host: "192.0.2.1"', text)
        for layer in ("conv1", "pool1", "ip1", "ip2", "loss"):
            self.assertIn('layer: "%s"' % layer, text)
        self.assertTrue(all(int(ns) > 0 for ns in re.findall(r"forward_ns: (\d+)", text)), text)
        counted = self.plan(0, "--plan=auto")
        self.assertNotEqual(self.plan(0, "--plan=auto", profile), counted, "its times count")
        # Half the speed takes twice as long.
        taken = []
        for factor in (1, 2):
            self.write("slow.prototxt", re.sub(r"_ns: (\d+)", lambda m: "_ns: %d" % (int(m[1]) * factor * 50), text))
            said = self.plan(0, "--plan=auto", "--profile=" + self.path("slow.prototxt"))
            taken.append(float(re.search(r"simulated: ([\d.]+) images/s", said)[1]))
        self.assertAlmostEqual(taken[0] / taken[1], 2, delta=0.1)
        self.make_job(hidden=17)
        self.assertRegex(self.plan(2, "--plan=auto", profile), r"profile\.prototxt is a profile of another net")

    def test_precision(self):
        self.make_job(iterations=5)
        # Addresses that this host cannot have, so that what its processors can does not count.
        self.write("hosts.prototxt", hosts([0.05, 0.05], link=1).replace("192.0.2.", "240.0.0."))
        for flags in (("--hosts=" + self.path("hosts.prototxt"),), ("--conv=1", "--fc=1", "--hosts=240.0.0.1")):
            self.assertIn("\nprecision: BF16", self.plan_table(*flags, "--precision=BF16")[1])
            self.assertNotIn("precision", self.plan_table(*flags, "--precision=FP32")[1])
            self.assertIn('--precision is "bf16"; expected FP32, TF32, BF16, FP16 or AUTO',
                          self.plan(2, *flags, "--out=x", "--precision=bf16"))
        self.assertIn("warning: --precision=TF32 is for GPUs, of which the table has none: CPUs compute in float32",
                      self.plan_table("--conv=1", "--fc=1", "--hosts=127.0.0.1", "--precision=TF32")[0])
        profile, elsewhere = "--profile=" + self.path("profile.prototxt"), "--hosts=240.0.0.1"
        self.plan(0, profile, "--precision=AUTO")
        timed, other = ("BF16", "FP32") if cluster.multiplies_bfloat16() else ("FP32", "BF16")
        self.assertIn('precision: "%s"' % timed, self.read("profile.prototxt").decode())
        said = "is of precision %s, and the table of %s, whose convolutions take other times" % (timed, other)
        self.assertIn(said, self.plan(0, "--plan=auto", profile, elsewhere, "--precision=" + other))
        self.assertNotIn("note: ", self.plan(0, "--plan=auto", profile, elsewhere, "--precision=" + timed))
        self.assertIn("note: times without a profile are of precision FP32, and the table of BF16",
                      self.plan(0, "--plan=auto", elsewhere, "--precision=BF16"))

    def test_bfloat16_on_the_wire(self):
        self.make_job(iterations=5, hidden=20000)
        self.write("hosts.prototxt", hosts([0.05, 0.05, 0.05], link=0.1))
        where = "--hosts=" + self.path("hosts.prototxt")
        speeds = []
        for flags in ((), ("--wire_precision=BF16",)):
            text, table = self.plan_table(where, *flags)
            speeds.append(float(re.search(r"([\d.]+) images/s", text)[1]))
            self.assertEqual("\nwire_precision: BF16" in table, bool(flags))
            self.assertIn("--hosts=%s%s --out=" % (self.path("hosts.prototxt"), "".join(
                " " + flag for flag in ("--plan=auto", *flags))), table)
        self.assertGreater(speeds[1], speeds[0])
        _, table = self.plan_table("--conv=1", "--fc=1", "--hosts=127.0.0.1", "--wire_precision=BF16")
        self.assertIn("\nwire_precision: BF16", table)
        self.train()
        self.assertIn("warning: --wire_precision changes nothing: the table has one node",
                      self.plan_table("--conv=1", "--fc=0", "--hosts=127.0.0.1", "--wire_precision=BF16")[0])
        for flags in ((where,), ("--conv=1", "--fc=1", "--hosts=127.0.0.1", "--out=x")):
            self.assertIn('--wire_precision is "FP16"; expected FP32 or BF16', self.plan(2, *flags, "--wire_precision=FP16"))
        for mode in ("check", "simulate"):
            status, text = cluster.run_tool("hproute", "--" + mode, self.path("table.prototxt"), "--wire_precision=BF16")
            self.assertEqual(status, 2, text)
            self.assertIn("--wire_precision makes a new table, and --%s takes one as it is" % mode, text)

    def test_faults(self):
        self.make_job(hidden=20000)
        for text, expected in (
                ('host {\n  name: "a"\n  gflop: 3\n}\n', r"hosts\.prototxt:3:\d+: .*gflop.*gflops"),
                ('host { name: "a" gflops: 0 }', r'host "a": gflops is 0; expected more than 0'),
                ("", r"hosts\.prototxt has no host"),
                (hosts([10, 10], memory_mb=1), r"the hosts can't hold the net: .* takes about [\d.]+ MB on host "
                                               r'"192\.0\.2\.\d", which has 1\.0 MB: [\d.]+ MB too little'),
                ('host { name: "a" profile: "none.prototxt" }', r"none\.prototxt")):
            self.write("hosts.prototxt", text)
            self.assertRegex(self.plan(2, "--hosts=" + self.path("hosts.prototxt")), expected)
        self.assertIn("--hosts=hots.prototxt: no such file", self.plan(2, "--hosts=hots.prototxt"))
        self.assertIn('--plan is "best"; expected auto', self.plan(2, "--plan=best"))
        self.assertIn("--split does not go with --plan", self.plan(2, "--plan=auto", "--split=ip1:INPUTS"))
        self.assertIn("--conv does not go with --plan", self.plan(2, "--plan=auto", "--conv=2"))
        self.assertIn('--sample is "3,,4"; expected CHANNELS,HEIGHT,WIDTH', self.plan(2, "--sample=3,,4"))
        self.make_job()
        self.plan_table()
        for net, expected in ((cluster.NET.replace('"Pooling"', '"Polling"'), 'layer "pool1": unknown type "Polling"'),
                              (cluster.NET.replace('bottom: "conv1"', 'bottom: "conv"', 1), 'layer "relu1": bottom "conv" is not')):
            self.make_job(net=net)
            for mode in ([], ["--simulate", self.path("table.prototxt")]):
                solver = [] if mode else ["--solver=" + self.path("solver.prototxt")]
                status, text = cluster.run_tool("hproute", *mode, *solver, "--cache_dir=none")
                self.assertEqual(status, 2, text)
                self.assertRegex(text, r"net\.prototxt:\d+: " + expected)
        self.make_job(net=cluster.NET.replace("%(source)s", "/nowhere"))
        self.assertIn("say the shape of a sample: --sample=", self.plan(2))
        self.assertIn("plan: ", self.plan(0, "--sample=1,12,12"))


if __name__ == "__main__":
    cluster.main()
