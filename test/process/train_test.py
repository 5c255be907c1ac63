"""hptrain: one machine, with caffe train's flags."""

import os
import re
import shutil
import signal

import cluster

# A second net of the same file, for a stage of the state.
WIDE = """layer { name: "wide" type: "InnerProduct" bottom: "pool1" top: "ip1" include { phase: TRAIN stage: "second" }
        inner_product_param { num_output: 24 weight_filler { type: "xavier" } } }
"""
NO_FOLDER = r"no_folder/out_hptrain_table_\w+\.prototxt: the folder \S*no_folder does not exist"


class TrainTest(cluster.JobTest):

    def hptrain(self, *flags, log="hptrain", threads="1"):
        """Starts it in its folder, as a user does."""
        path = self.path("%s.%d.log" % (log, len(self.processes)))
        command = ["env", "--chdir=" + self.folder, cluster.program("hptrain"), *flags]
        process = cluster.Process(log, command, path, dict(os.environ, OMP_NUM_THREADS=threads))
        self.processes.append(process)
        return process

    def own_file(self, process, kind="table"):
        """The name of one of hptrain's own files, by its log."""
        said = {"table": "the table of this machine", "solver": "the solver as it is run"}[kind]
        pattern = said + r": (\S*hptrain_%s_[0-9a-f]{8}\.prototxt)" % kind
        self.assertRegex(process.text(), pattern)
        return re.search(pattern, process.text())[1]

    def test_trains_as_a_table_of_one_node(self):
        self.make_job(iterations=12, snapshot=6, test=True)
        self.make_table(conv=1, fc=0, micro_batches=1, threads=1)
        self.expect_exit(self.start("--all"), 0, "Optimization Done")
        files = ("out_iter_12.caffemodel", "out_iter_12.solverstate", "out_iter_6.caffemodel")
        by_table = [self.read(name) for name in files]
        for name in files:
            os.remove(self.path(name))
        trained = self.hptrain("--solver=solver.prototxt", "--csv=curves.csv", "--tensorboard=curves")
        self.expect_exit(trained, 0, "Optimization Done")
        self.assertIn("/out_hptrain_table_", self.own_file(trained))
        self.assertEqual([self.read(name) for name in files], by_table)
        self.assertEqual(self.read("curves.csv").count(b"\n"), 1 + 2 + 3, "a row for each display and test")
        self.assertEqual(len(os.listdir(self.path("curves"))), 1)
        self.expect_exit(self.start("--all", table=self.own_file(trained)), 0, "Optimization Done")

    def test_jobs_that_start_at_once_with_one_prefix(self):
        """Each trains with its own solver and flags, whichever writes its files last."""
        self.make_job(iterations=2)
        solver = self.read("solver.prototxt").decode()
        jobs = []
        for rate in ("0.01", "0.02", "0.03"):
            self.write("solver_%s.prototxt" % rate, solver.replace("base_lr: 0.01", "base_lr: " + rate))
            jobs.append((self.hptrain("--solver=solver_%s.prototxt" % rate), r"lr = %s\n" % rate))
        for iterations in (1, 3):
            jobs.append((self.hptrain("train", "--solver=solver.prototxt", "--iterations=%d" % iterations),
                         "in %d iterations" % iterations))
        for job, said in jobs:
            self.expect_exit(job, 0, "Optimization Done", said)

    def test_without_standard_streams(self):
        """No file of the job gets their numbers, into which the log would be written."""
        self.make_job(iterations=4, snapshot=2)
        command = ["env", "--chdir=" + self.folder, "bash", "-c", '"$@" >&- 2>&-', "closed", cluster.program("hptrain"),
                   "--solver=solver.prototxt", "--cache_dir=none"]
        trained = cluster.Process("hptrain", command, self.path("closed.log"), dict(os.environ, OMP_NUM_THREADS="1"))
        self.processes.append(trained)
        self.expect_exit(trained, 0)
        self.assertTrue(os.path.exists(self.path("out_iter_4.caffemodel")))

    def test_resumes_fine_tunes_and_stops_after_iterations(self):
        self.make_job(iterations=12, snapshot=6)
        self.expect_exit(self.hptrain("--solver=solver.prototxt"), 0, "Optimization Done")
        whole = self.read("out_iter_12.caffemodel")
        os.remove(self.path("out_iter_12.caffemodel"))
        self.expect_exit(self.hptrain("--solver=solver.prototxt", "--snapshot=out_iter_6.solverstate"), 0)
        self.assertEqual(self.read("out_iter_12.caffemodel"), whole)
        tuned = self.hptrain("--solver=solver.prototxt", "--weights=out_iter_12.caffemodel", "--iterations=3")
        self.expect_exit(tuned, 0)
        self.assertIn("/out_hptrain_solver_", self.own_file(tuned, "solver"))
        self.assertNotEqual(self.read("out_iter_3.caffemodel"), whole)
        for snapshot in ("out_iter_6.solverstate", "latest"):
            late = self.hptrain("--solver=solver.prototxt", "--snapshot=" + snapshot, "--iterations=2")
            self.expect_exit(late, 2, r"is of iteration \d+, behind max_iter \(2\): raise max_iter")

    def test_goes_on_with_a_net_that_was_changed(self):
        """Caffe compares shapes alone. A layer of the tests changes nothing of training; a batch does."""
        self.make_job(iterations=12, snapshot=6)
        self.expect_exit(self.hptrain("--solver=solver.prototxt"), 0)
        whole = self.read("out_iter_12.caffemodel")
        resume = ("--solver=solver.prototxt", "--snapshot=out_iter_6.solverstate")
        warned = r'out_iter_6\.solverstate is of another net than "\w*" as it is now'
        resumed = self.hptrain(*resume)
        self.expect_exit(resumed, 0)
        self.assertNotRegex(resumed.text(), warned)
        net = self.read("net.prototxt").decode()
        self.write("net.prototxt", net + 'layer { name: "spare" type: "Silence" bottom: "ip2" include { phase: TEST } }\n')
        self.expect_exit(self.hptrain(*resume), 0, warned)
        self.assertEqual(self.read("out_iter_12.caffemodel"), whole)
        self.write("net.prototxt", net.replace("batch_size: 12", "batch_size: 6"))
        self.expect_exit(self.hptrain(*resume), 0, warned)
        self.assertNotEqual(self.read("out_iter_12.caffemodel"), whole)

    def test_from_a_folder_that_can_not_be_written(self):
        self.make_job(iterations=4)
        os.mkdir(self.path("sealed"))
        solver = self.read("solver.prototxt").decode().replace('snapshot_prefix: "%s"' % self.path("out"), "")
        self.write("sealed/solver.prototxt", solver)
        os.rename(self.path("net.prototxt"), self.path("sealed/net.prototxt"))
        os.chmod(self.path("sealed"), 0o555)
        # Root writes anywhere, unless it goes without its capabilities.
        prefix = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
        for flags in ([], ["--iterations=2"]):
            command = prefix + ["env", "--chdir=" + self.path("sealed"), cluster.program("hptrain"), "--solver=solver.prototxt"]
            trained = cluster.Process("hptrain", command + flags, self.path("sealed%d.log" % len(flags)), dict(os.environ, OMP_NUM_THREADS="1"))
            self.processes.append(trained)
            self.expect_exit(trained, 0, "Optimization Done")
            folder = os.path.dirname(self.own_file(trained))
            self.addCleanup(shutil.rmtree, folder)
            self.assertEqual(len(os.listdir(folder)), 1 + len(flags))
        self.assertEqual(sorted(os.listdir(self.path("sealed"))), ["net.prototxt", "solver.prototxt"])

    def test_without_a_folder_for_snapshots_that_nobody_asks_for(self):
        none = "snapshot_after_train: false\n"
        self.make_job(iterations=2)
        solver = self.read("solver.prototxt").decode().replace(self.path("out"), self.path("no_folder/out"))
        self.write("solver.prototxt", solver)
        trained = self.hptrain("--solver=solver.prototxt")
        self.expect_exit(trained, 0, "Optimization Done")
        shutil.rmtree(os.path.dirname(self.own_file(trained)))
        self.write("solver.prototxt", solver.replace(none, ""))
        self.expect_exit(self.hptrain("--solver=solver.prototxt"), 2, NO_FOLDER)

    def test_a_net_without_parameters(self):
        """Nothing is learned, and what is saved can be gone on with."""
        data = cluster.NET[:cluster.NET.index('layer { name: "conv1"')]
        net = (data + 'layer { name: "flat" type: "Flatten" bottom: "data" top: "flat" }\n'
               'layer { name: "loss" type: "SoftmaxWithLoss" bottom: "flat" bottom: "label" top: "loss" }\n')
        for kind in "", "snapshot_format: HDF5\n":
            self.make_job(iterations=4, snapshot=2, net=net, solver=kind)
            self.expect_exit(self.hptrain("--solver=solver.prototxt"), 0, "Optimization Done")
            saved = "out_iter_2.solverstate" + (".h5" if kind else "")
            self.expect_exit(self.hptrain("--solver=solver.prototxt", "--snapshot=" + saved), 0, "Optimization Done")
            weights = "--weights=" + saved.replace(".solverstate", ".caffemodel")
            self.expect_exit(self.hptrain("--solver=solver.prototxt", weights), 0, "Optimization Done")
            status, text = cluster.run_tool("hptest", "--model=" + self.path("net.prototxt"), "--iterations=1",
                                            "--weights=" + self.path(weights.split("=")[1]))
            self.assertEqual(status, 0, text)
            self.assertIn("loss = ", text)

    def test_flags_of_caffes_other_commands(self):
        """Caffe's program has all of them for each of its commands, and people write more than one needs."""
        self.make_job(iterations=2, test=True, snapshot=100)
        trained = self.hptrain("train", "-model", "net.prototxt", "-solver", "solver.prototxt")
        self.expect_exit(trained, 0, "--model has no effect in hptrain, as in caffe train(.|\n)*Optimization Done")
        net, weights = "--model=" + self.path("net.prototxt"), "--weights=" + self.path("out_iter_2.caffemodel")
        for tool, flags in (("hptime", ["time", net, weights, "-snapshot", "none", "--iterations=1"]),
                            ("hptest", ["test", "--solver=none", net, weights, "-iterations", "1", "--phase=TEST"])):
            status, text = cluster.run_tool(tool, *flags)
            self.assertEqual(status, 0, text)
            self.assertEqual(len(re.findall("has no effect in %s, as in caffe %s" % (tool, flags[0]), text)), 2)
        self.expect_exit(self.hptrain("--solver=solver.prototxt", "--modl=net.prototxt"), 2, "modl")
        self.expect_exit(self.hptrain("--solver=solver.prototxt", "--", "--model=net.prototxt"), 2, "1 arguments, expected 0")

    def test_a_solver_by_a_pipe(self):
        self.make_job(iterations=3, snapshot=100)
        for flags in ((), ("--iterations=2",)):
            pipe = self.path("pipe%d" % len(flags))
            os.mkfifo(pipe)
            trained = self.hptrain("--solver=" + pipe, *flags)
            with open(pipe, "wb") as file:
                file.write(self.read("solver.prototxt"))
            self.expect_exit(trained, 0, "Optimization Done")
            self.addCleanup(shutil.rmtree, re.search(r"kept as (\S+)/solver.prototxt", trained.text())[1])
            self.read("out_iter_%d.caffemodel" % (2 if flags else 3))

    def test_threads_of_the_environment(self):
        self.make_job(iterations=2)
        self.expect_exit(self.hptrain("--solver=solver.prototxt", threads="3"), 0, r"3 thread\(s\)")
        self.expect_exit(self.hptrain("--solver=solver.prototxt", threads="1,2"), 0, r"1 thread\(s\)")
        for none in "0", "", "many", "2x", "-1", "4294967297":
            everything = r"%d thread\(s\)" % len(os.sched_getaffinity(0))
            self.expect_exit(self.hptrain("--solver=solver.prototxt", threads=none), 0, everything)

    def test_any_negative_seed_is_none(self):
        self.make_job(iterations=1)
        solver = self.read("solver.prototxt").decode()
        for seed in (-5, -2**63):
            self.write("solver.prototxt", solver.replace("random_seed: 7", "random_seed: %d" % seed))
            self.expect_exit(self.hptrain("--solver=solver.prototxt"), 0, "Optimization Done")

    def test_a_test_may_have_its_layers_in_another_order(self):
        """Caffe takes its parameters by the names of layers alone. Under every table, and a test of equal value."""
        train = cluster.NET.split("layer {")
        parts = [part for part in train if "phase: TEST" not in part]
        both = "layer {".join(parts) + """layer { name: "side" type: "InnerProduct" bottom: "pool1" top: "side"
            inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
            layer { name: "side_loss" type: "SoftmaxWithLoss" bottom: "side" bottom: "label" top: "side_loss" }"""
        pieces = re.split(r"(?=layer \{)", both)
        kept = {re.search(r'name: "(\w+)"', piece)[1]: piece for piece in pieces[1:]}
        order = ["data", "conv1", "relu1", "pool1", "side", "side_loss", "ip1", "relu2", "drop", "ip2", "loss"]
        self.make_job(iterations=4, test=True, snapshot=100)
        source = {"source": self.path("db"), "hidden": 16}
        self.write("train.prototxt", both % source)
        self.write("other.prototxt", (pieces[0] + "\n".join(kept[name] for name in order)).replace("phase: TRAIN", "phase: TEST") % source)
        self.write("same.prototxt", both.replace("phase: TRAIN", "phase: TEST") % source)
        said = []
        for test in ("same", "other"):
            solver = self.read("solver.prototxt").decode().replace('net: "net.prototxt"', 'train_net: "train.prototxt" test_net: "%s.prototxt"' % test)
            self.write("split.prototxt", re.sub("test_interval: \\d+", "test_interval: 2", solver))
            for conv, fc in ((1, 0), (2, 2)):
                self.make_table(conv=conv, fc=fc, micro_batches=1, solver="split.prototxt")
                process = self.start("--all")
                self.expect_exit(process, 0, "Optimization Done")
                said.append(sorted(re.findall(r"Test net output #\d: (\w+) = (\S+)", process.text())))
        self.assertEqual(len(said[0]), 6, said)
        for other in said[1:]:
            self.assertEqual(len(other), 6, said)
            for (name, value), (expected_name, expected) in zip(other, said[0]):
                self.assertEqual(name, expected_name)
                self.assertAlmostEqual(float(value), float(expected), 4)

    def test_an_accuracy_left_beside_targets(self):
        """Of a net that regresses. Caffe reads beyond its scores; here such labels count as wrong."""
        net = cluster.NET.replace("num_output: 4 weight", "num_output: 1 weight").replace("SoftmaxWithLoss", "EuclideanLoss")
        self.make_job(iterations=2, test=True, net=net)
        trained = self.hptrain("--solver=solver.prototxt")
        self.expect_exit(trained, 0, r'layer "accuracy", batch 0, rows from 0: label \d of row \d is not in 0\.\.0: such '
                                     "labels count as wrong", r"Test net output #0: accuracy = 0\.\d")
        self.assertEqual(trained.text().count("count as wrong"), 1)

    def test_steps_that_a_snapshot_had_taken(self):
        self.make_job(iterations=8, snapshot=6)
        solver = self.read("solver.prototxt").decode().replace('"fixed"', '"multistep" gamma: 0.5 stepvalue: 2 stepvalue: 4')
        self.write("solver.prototxt", solver)
        self.expect_exit(self.hptrain("--solver=solver.prototxt"), 0)
        resume = ("--solver=solver.prototxt", "--snapshot=out_iter_6.solverstate")
        resumed = self.hptrain(*resume)
        self.expect_exit(resumed, 0)
        self.assertNotIn("had taken", resumed.text())
        self.write("solver.prototxt", solver.replace("stepvalue: 4", "stepvalue: 7"))
        self.expect_exit(self.hptrain(*resume), 0, "had taken 2 steps of its rate; by this solver's stepvalue it is 1")

    def test_precision(self):
        self.make_job(iterations=3, snapshot=3)
        weights = []
        for precision in ("FP32", "AUTO"):
            trained = self.hptrain("--solver=solver.prototxt", "--precision=" + precision)
            self.expect_exit(trained, 0, "Optimization Done")
            weights.append(self.read("out_iter_3.caffemodel"))
        if cluster.multiplies_bfloat16():
            self.assertNotEqual(*weights)
        else:
            self.assertEqual(*weights)
        self.assertIn("precision: AUTO", self.read(self.own_file(trained)).decode())
        self.expect_exit(self.hptrain("--solver=solver.prototxt", "--precision=TF32"), 0,
                         "--precision=TF32 is for GPUs, of which the table has none: CPUs compute in float32")
        self.expect_exit(self.hptrain("--solver=solver.prototxt", "--precision=BF8"), 2,
                         '--precision is "BF8"; expected FP32, TF32, BF16, FP16 or AUTO')

    def test_what_gpus_do_is_refused_on_processors(self):
        self.make_job(iterations=2)
        for flag, default, of_gpus, said in (
                ("convolution_engines", "HEURISTIC", "TIMED", "no node computes on a GPU; expected HEURISTIC"),
                ("jpeg_decoder", "HOST", "GPU", "reads records and computes on processors; expected HOST")):
            for value, status, pattern in ((of_gpus, 2, "%s is %s, but .*%s" % (flag, of_gpus, said)),
                                           ("FAST", 2, '--%s is "FAST"; expected %s or %s' % (flag, default, of_gpus)),
                                           (default, 0, "Optimization Done")):
                self.expect_exit(self.hptrain("--solver=solver.prototxt", "--%s=%s" % (flag, value)), status, pattern)

    def test_flags_of_the_log_go_along(self):
        self.make_job(iterations=2)
        os.mkdir(self.path("logs"))
        for flag in ("--logtostderr=false", "--max_log_size=10"):
            trained = self.hptrain("--solver=solver.prototxt", flag, "--log_dir=" + self.path("logs"))
            self.expect_exit(trained, 0)
            with open(self.path("logs/hpnode.INFO"), encoding="utf-8") as file:
                self.assertIn("Optimization Done", file.read())
            os.remove(self.path("logs/hpnode.INFO"))
            # As Caffe's programs, which log to stderr as well.
            self.assertEqual("Optimization Done" in trained.text(), flag != "--logtostderr=false")

    def test_the_state_chooses_layers(self):
        net = cluster.NET.replace('layer { name: "ip1"', 'layer { name: "ip1" exclude { stage: "second" }')
        self.make_job(iterations=2, snapshot=100, net=net.replace('layer { name: "relu2"', WIDE + 'layer { name: "relu2"'))
        self.expect_exit(self.hptrain("--solver=solver.prototxt"), 0)
        self.assertTrue(b"ip1" in self.read("out_iter_2.caffemodel"))
        self.assertFalse(b"wide" in self.read("out_iter_2.caffemodel"))
        self.expect_exit(self.hptrain("--solver=solver.prototxt", "--stage=second", "--level=1"), 0)
        self.assertTrue(b"wide" in self.read("out_iter_2.caffemodel"))

    def test_effects_of_signals(self):
        self.make_job(snapshot=100000000)
        job = self.hptrain("--solver=solver.prototxt", "--sigint_effect=snapshot", "--sighup_effect=none")
        self.await_training([job])
        job.send(signal.SIGHUP)
        job.send(signal.SIGINT)
        self.await_text(job, "Snapshotting solver state")
        job.send(signal.SIGHUP)
        self.await_training([job], 1 + int(re.findall(r"Iteration (\d+) \(", job.text())[-1]))
        self.assertEqual(len(re.findall("Snapshotting solver state", job.text())), 1)
        job.send(signal.SIGTERM)
        self.expect_exit(job, 5, "Optimization stopped early")
        job = self.hptrain("--solver=solver.prototxt", "--sighup_effect=stop")
        self.await_training([job])
        job.send(signal.SIGHUP)
        self.expect_exit(job, 5, "stopping, as asked by HUP")

    def test_faults(self):
        self.make_job(iterations=2)
        self.write("lost.prototxt", "net: \"net.prototxt\"\nbase_lr: 0.1\nlr_policy: \"fixed\"\nmax_iter: 2\n"
                                    "snapshot_prefix: \"no_folder/out\"\n")
        for flags, said in (((), "--solver=SOLVER.prototxt is missing"),
                            (("--solver=none.prototxt",), "none.prototxt: no such file"),
                            (("--solver=lost.prototxt",), NO_FOLDER),
                            (("--solver=solver.prototxt", "--snapshot=a", "--weights=b"), "expected one of them"),
                            (("--solver=solver.prototxt", "--phase=TEST"), "hptest tests"),
                            (("--solver=solver.prototxt", "--gpu=0,x"), r'"x" is no GPU'),
                            (("--solver=solver.prototxt", "--gpu=,"), "--gpu=, names no GPU"),
                            (("--solver=solver.prototxt", "--iterations=-1"), "--iterations is -1; expected 0 to"),
                            (("--solver=solver.prototxt", "--sigint_effect=die"),
                             '--sigint_effect is "die"; expected stop, snapshot or none')):
            self.expect_exit(self.hptrain(*flags), 2, said)

    def test_faults_name_the_users_own_lines(self):
        """With a flag that has hptrain write the solver anew, too; a fault that the flag brings is told of that one."""
        self.make_job(iterations=2)
        solver = self.read("solver.prototxt").decode()
        self.write("bad.prototxt", solver + "type: \"Adam\"\nmomentum2: 1\n")
        for flags in (), ("--iterations=1",), ("--level=2",):
            self.expect_exit(self.hptrain("--solver=bad.prototxt", *flags), 2,
                             r"hptrain: bad.prototxt:%d: momentum2: 1" % (solver.count("\n") + 2))
        net = cluster.NET.replace('layer { name: "pool1"', 'layer { name: "pool1" exclude { stage: "flat" }')
        self.make_job(iterations=2, net=net)
        self.expect_exit(self.hptrain("--solver=solver.prototxt", "--stage=flat"), 2, 'hptrain: .*"pool1"')

    def test_gpus_that_are_not_here(self):
        if "cuda:" in cluster.run_tool("hpnode", "--list_devices")[1]:
            self.skipTest("SKIPPED: this host has a GPU, and could train on it")
        self.make_job(iterations=2)
        for flag, said in (("--gpu=0", r"device cuda:0: |no driver|without CUDA"), ("--gpu=all", r"no GPU|driver|nvidia-smi")):
            self.expect_exit(self.hptrain("--solver=solver.prototxt", flag), 2, said)

    def test_several_gpus_have_a_batch_each(self):
        """The table is written before anybody looks for the GPUs."""
        self.make_job(iterations=2)
        trained = self.hptrain("--solver=solver.prototxt", "--gpu=0,2")
        self.expect_exit(trained, 2, "the batch is 2 times as large")
        table = self.read(self.own_file(trained)).decode()
        self.assertIn("batch: PER_REPLICA", table)
        self.assertEqual(re.findall(r'device: "(\S+)"', table), ["cuda:0", "cuda:2"])


if __name__ == "__main__":
    cluster.main()
