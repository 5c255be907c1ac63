"""Bad input of every kind: one clear error that names what is wrong, the exit status of input faults, no crash."""

import os
import re
import shutil
import struct
import subprocess
import sys

import numpy

import cluster

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import caffe_wire  # pylint: disable=wrong-import-position

FLOAT = 4


class FilesTest(cluster.JobTest):
    """Faults that one node finds before it talks to anybody."""

    def refused(self, *patterns, status=2, table="table.prototxt"):
        """Runs a whole table in one process that must refuse, with one error line and no training."""
        self.refused_with([], *patterns, status=status, table=table)

    def refused_with(self, flags, *patterns, status=2, table="table.prototxt"):
        process = self.start("--all", *flags, table=table)
        self.expect_exit(process, status, *patterns)
        self.assertNotIn("Optimization Done", process.text())
        self.assertEqual(len(process.errors()), 1, "one clear error")

    def plain(self, **job):
        self.make_job(iterations=20, **job)
        self.make_table(conv=1, fc=0, micro_batches=1)

    def test_all_nodes_and_one(self):
        self.plain()
        for flag in ("--role=conv", "--node=conv0"):
            self.refused_with([flag], "--all runs every node of the table; --role and --node name one")

    def test_missing_table(self):
        self.refused(r"absent\.prototxt: no such file", table="absent.prototxt")

    def test_flags_that_the_table_has_itself(self):
        self.plain()
        for flag in ("--conv=2", "--fc=1", "--ps=1", "--plan=auto", "--staleness=1", "--micro_batches=2", "--cut=ip2",
                     "--split=ip2:INPUTS", "--beside", "--side_classifiers", "--scattered", "--shares=a:2",
                     "--batch_per_replica", "--tls", "--job=a", "--sample=1,2,2", "--profile=a", "--exclude=a",
                     "--solver=solver.prototxt", "--run_id=a", "--device=cuda:0", "--port=1", "--address=a"):
            self.refused_with([flag], r"--(conv, --fc, --ps and --plan|%s): the table is a file" % flag[2:].split("=")[0])
        for command in (("--doctor",), ("--data_fingerprint", "--node=conv0")):
            self.expect_exit(self.start(*command, "--micro_batches=2"), 2, "--micro_batches: the table is a file")

    def test_missing_solver(self):
        self.plain()
        os.remove(self.path("solver.prototxt"))
        self.refused(r"solver\.prototxt: no such file")

    def test_missing_net(self):
        self.plain()
        os.remove(self.path("net.prototxt"))
        self.refused(r"no such file: .*net\.prototxt")

    def test_missing_database(self):
        self.plain()
        shutil.rmtree(self.path("db"))
        self.refused(r'database "%s" does not exist' % self.path("db"))

    def test_misspelt_field_of_the_net(self):
        self.plain(net=cluster.NET.replace("num_output: 4 kernel_size", "num_ouput: 4 kernel_size"))
        self.refused(r'net\.prototxt:7:29: unknown field "num_ouput" \(did you mean "num_output"\?\)')

    def test_misspelt_field_of_the_solver(self):
        self.plain(solver="display: 5\nbase_lr: 0.01\nwieght_decay: 1\n")
        self.refused(r'solver\.prototxt:\d+:1: unknown field "wieght_decay" \(did you mean "weight_decay"\?\)')

    def test_misspelt_field_of_the_table(self):
        self.plain()
        text = self.read("table.prototxt").decode()
        self.write("table.prototxt", text.replace("micro_batches", "micro_batchs"))
        self.refused(r'table\.prototxt:2:1: unknown field "micro_batchs" \(did you mean "micro_batches"\?\)')

    def test_unknown_layer(self):
        self.plain(net=cluster.NET.replace('"Pooling"', '"Polling"'))
        self.refused(r'layer "pool1": unknown type "Polling"; did you mean Pooling')

    def test_wrong_shapes(self):
        # The kernel is larger than the 12x12 images.
        self.plain(net=cluster.NET.replace("kernel_size: 3", "kernel_size: 30"))
        self.refused(r'layer "conv1": a kernel of 30 x 30 does not fit into bottom shape \[1 1 12 12\]')

    def test_labels_beyond_the_classes(self):
        net = cluster.NET.replace("inner_product_param { num_output: 4", "inner_product_param { num_output: 2")
        self.plain(net=net)
        self.refused(r'layer "loss", batch 0, .*label [23] of row \d+ is not in 0\.\.1')

    def test_matrix_of_a_loss(self):
        """The file, which is no BlobProto, is there at first, then not; a sound one has other classes than the net."""
        gains = self.path("gains")
        loss = 'InfogainLoss" infogain_loss_param { source: "%s" }' % gains
        self.plain(net=cluster.NET.replace('SoftmaxWithLoss"', loss))
        place = r'net\.prototxt:18: layer "loss": infogain_loss_param { source: "%s" }' % gains
        self.write("gains", "no matrix")
        self.refused(place + " is truncated or not a binary BlobProto")
        os.remove(gains)
        self.refused(place + ": no such file")
        with open(gains, "wb") as out:  # data, packed: 2 x 2 numbers
            out.write(struct.pack("<BB4f", 5 << 3 | 2, 16, 1, 0, 0, 1))
        self.refused(r'net\.prototxt:18: layer "loss": its matrix has 4 numbers; expected 4 x 4, for the classes of bottom 0')

    def truncate(self, suffix, keep):
        names = sorted(name for name in os.listdir(self.path("db")) if name.endswith(suffix))
        path = os.path.join(self.path("db"), names[-1])
        os.truncate(path, int(os.path.getsize(path) * keep))
        return path

    def test_truncated_table_of_the_database(self):
        cluster.write_database(self.path("db"), records=6000)  # more than LevelDB's write buffer, so there are tables
        self.plain()
        self.truncate((".ldb", ".sst"), 0.5)
        self.refused(self.path("db") + r"/\d+\.ldb has \d+ bytes, its MANIFEST says \d+: truncated")

    def test_truncated_manifest_of_the_database(self):
        self.plain()
        path = self.truncate("CURRENT", 0)
        self.refused("database " + self.path("db") + r" is truncated or corrupt: .*CURRENT")
        self.assertEqual(os.path.getsize(path), 0, "the database was changed")

    def test_truncated_lmdb(self):
        cluster.write_database(self.path("db"), records=600, backend="lmdb")
        self.plain(net=cluster.NET.replace("LEVELDB", "LMDB"))
        path = self.path("db/data.mdb")
        for keep in (0.5, 0):
            os.truncate(path, int(os.path.getsize(path) * keep))
            self.refused("database %s.* is truncated" % self.path("db"))

    def test_two_nodes_on_one_port(self):
        self.make_job()
        self.make_table(conv=2, fc=0, ports=[23456, 23456])
        self.refused(r'node "conv0" and node "conv1" are both on 127\.0\.0\.1:23456')

    def test_shard_without_a_node(self):
        self.make_job()
        self.make_table(conv=1, fc=2)
        text = self.read("table.prototxt").decode()
        self.write("table.prototxt", text.replace('stage: 1 index: 1', 'stage: 1 index: 2'))
        self.refused(r'stage "fc": shard 1 has no node')

    def test_stage_of_layers_that_the_net_does_not_have(self):
        self.make_job()
        self.make_table(stages=[("conv", "kind: CONV", 1), ("fc", 'kind: FC layer: "ipp1"', 1)])
        self.refused(r'stage "fc": layer "ipp1" is not a layer of the net \(did you mean "ip1"\?\)')

    def test_more_micro_batches_than_samples(self):
        self.make_job()
        self.make_table(conv=2, fc=1, micro_batches=7)
        self.refused(r"2 replica\(s\) x 7 micro-batches are more than the 12 samples")

    def test_missing_snapshot(self):
        self.plain()
        process = self.start("--all", "--resume=" + self.path("absent.solverstate"))
        self.expect_exit(process, 2, r"absent\.solverstate: no such file")

    def test_weights_of_another_net(self):
        self.plain(snapshot=10)
        self.expect_exit(self.start("--all"), 0)
        weights = shutil.copy(self.path("out_iter_20.caffemodel"), self.path("w.caffemodel"))
        text = self.read("net.prototxt").decode()
        self.write("net.prototxt", text.replace('"conv1"', '"convA"').replace('name: "ip2"', 'name: "other"'))
        loaded = self.start("--all", "--weights=" + weights)
        self.expect_exit(loaded, 0, r"w\.caffemodel: weights of 1 layer\(s\) loaded; not in the file, initialized "
                                    r"by their fillers: convA, other; not in the net, ignored: conv1, ip2")
        self.assertNotIn("no layer of the net", loaded.text())
        self.write("net.prototxt", re.sub(r'name: "(conv1|ip1|ip2)"', r'name: "x\1"', text))
        self.expect_exit(self.start("--all", "--weights=" + weights), 0, "weights of 0 layer", "no layer of the net has all")
        self.write("net.prototxt", text.replace("num_output: 16", "num_output: 17"))
        self.refused_with(["--weights=" + weights],
                          r'w\.caffemodel: layer "ip1" blob 0 has shape "16 100"; expected "17 100"; to learn this layer anew, give it another name')
        for change, counts in (("inner_product_param { bias_term: false ", "2 in the file, 1 in the net"),
                               ("", "2 in the file, 0 in the net")):
            without = (text.replace("inner_product_param { ", change) if change else
                       text.replace('name: "relu2"', 'name: "ip2"').replace('name: "ip2" type: "InnerP', 'name: "x" type: "InnerP'))
            self.write("net.prototxt", without)
            said = r'w\.caffemodel: incompatible number of blobs for layer "ip\d": ' + counts
            self.refused_with(["--weights=" + weights], said)

    def test_a_snapshot_of_caffes_with_more_blobs_than_the_net(self):
        self.make_job(iterations=2, snapshot=2)
        self.make_table(conv=1, fc=0, micro_batches=1)
        self.expect_exit(self.start("--all"), 0)
        _, name, histories = caffe_wire.read_solverstate(self.path("out_iter_2.solverstate"))
        model = caffe_wire.read_caffemodel(self.path(os.path.basename(name)))
        caffe_wire.write_solverstate(self.path("caffe.solverstate"), 2, self.path("caffe.caffemodel"), histories)
        self.make_job(iterations=4)
        for more, status, said in (
                ([], 0, "resuming at iteration 2"),
                ([model["ip2"][1]], 2, r'caffe\.caffemodel: incompatible number of blobs for layer "ip2": 3 in the file, 2 in the net')):
            caffe_wire.write_caffemodel(self.path("caffe.caffemodel"), dict(model, ip2=[*model["ip2"], *more]))
            self.expect_exit(self.start("--all", "--resume=" + self.path("caffe.solverstate")), status, said)

    def test_weights_of_another_program(self):
        self.plain()
        self.write("w.safetensors", "")
        said = r"w\.safetensors: expected a \.caffemodel; .*: hpconvert weights \S+w\.safetensors \S+w\.caffemodel --net="
        self.refused_with(["--weights=" + self.path("w.safetensors")], said)
        status, text = cluster.run_tool("model_test", "--model=" + self.path("net.prototxt"),
                                        "--weights=" + self.path("w.safetensors"))
        self.assertEqual(status, 2, text)
        self.assertRegex(text, said)
        self.write("solver.prototxt", self.read("solver.prototxt").decode() + 'weights: "w.safetensors"\n')
        self.refused_with([], said)

    def test_cut_files_of_another_program(self):
        self.plain(snapshot=20)
        self.expect_exit(self.start("--all"), 0)
        model, whole, cut = self.path("out_iter_20.caffemodel"), self.path("w.safetensors"), self.path("cut.safetensors")
        convert = ("hpconvert", "weights", "--net=" + self.path("net.prototxt"))
        self.assertEqual(cluster.run_tool(*convert, model, whole)[0], 0)
        content = self.read("w.safetensors")
        for size in (0, 7, 100, len(content) // 2, len(content) - 1):
            with open(cut, "wb") as file:
                file.write(content[:size])
            status, text = cluster.run_tool(*convert, cut, self.path("new.caffemodel"))
            self.assertEqual(status, 2, "%d bytes: %s" % (size, text))
            self.assertRegex(text, r"cut\.safetensors: .")
            self.assertFalse(os.path.exists(self.path("new.caffemodel")), size)

    def test_missing_snapshot_folder(self):
        """Found before training, not at its end; a folder names snapshots after the solver's file."""
        self.make_job(iterations=1000000)
        self.make_table(conv=1, fc=0, micro_batches=1)
        solver = self.read("solver.prototxt").decode().replace("snapshot_after_train: false", "snapshot_after_train: true")
        self.write("solver.prototxt", solver.replace(self.path("out"), self.path("absent/out")))
        self.refused(r'solver\.prototxt:\d+: snapshot_prefix: ".*absent/out": no such folder: .*/absent')
        for command in (["--check", self.path("table.prototxt")],
                        ["--solver=" + self.path("solver.prototxt"), "--conv=1", "--fc=0", "--out=" + self.path("t.prototxt")]):
            status, text = cluster.run_tool("hproute", *command, "--cache_dir=none")
            self.assertEqual(status, 0, text)
            self.assertRegex(text, r'warning: .*solver\.prototxt:\d+: snapshot_prefix: ".*absent/out": no such folder')
        self.write("solver.prototxt", solver.replace(self.path("out"), "/proc/out"))
        self.refused(r'solver\.prototxt:\d+: snapshot_prefix: "/proc/out": no snapshot can be written there: '
                     r'/proc/out.*: cannot create: No such file or directory')
        solver = re.sub("snapshot_prefix: .*", "", solver).replace("max_iter: 1000000", "max_iter: 2")
        self.write("solver.prototxt", solver)
        self.expect_exit(self.start("--all"), 0)
        self.assertTrue(os.path.exists(self.path("solver_iter_2.caffemodel")))

    def test_a_stdout_that_can_not_be_written(self):
        """A script would take what is missing for the answer."""
        self.plain()
        with open("/dev/full", "wb") as full:
            done = subprocess.run([cluster.program("hproute"), "--check", self.path("table.prototxt"), "--cache_dir=none"],
                                  stdout=full, stderr=subprocess.PIPE, check=False, timeout=cluster.PATIENCE_S)
        self.assertEqual((done.returncode, done.stderr), (2, b"hproute: stdout can't be written\n"))

    def test_snapshot_folder_that_can_not_be_written(self):
        self.plain(snapshot=10)
        os.mkdir(self.path("sealed"), 0o555)
        solver = self.read("solver.prototxt").decode().replace(self.path("out"), self.path("sealed/out"))
        self.write("solver.prototxt", solver)
        # Root writes anywhere, unless it goes without its capabilities.
        prefix = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.geteuid() == 0 else ()
        process = self.start("--all", prefix=prefix)
        self.expect_exit(process, 2, r'solver\.prototxt:\d+: snapshot_prefix: ".*sealed/out": no snapshot can be written '
                         r'there: .*sealed/out\S*: cannot create: Permission denied')
        self.assertNotIn("Iteration", process.text())
        self.expect_exit(self.start("--all"), 0 if prefix else 2)
        self.assertEqual(sorted(os.listdir(self.path("sealed")))[:1], ["out_iter_10.caffemodel"] if prefix else [])

    def test_weights_of_the_solver_as_hproute_sees_them(self):
        self.plain(snapshot=20)
        self.expect_exit(self.start("--all"), 0)
        other = cluster.NET.replace("inner_product_param { num_output: 4 ", "inner_product_param { num_output: 5 ")
        make = ["--solver=" + self.path("solver.prototxt"), "--conv=1", "--fc=0", "--out=" + self.path("t.prototxt")]
        for net, weights, said in ((cluster.NET, "absent.caffemodel", "absent.caffemodel: "),
                                   (other, "out_iter_20.caffemodel",
                                    r'out_iter_20\.caffemodel: layer "ip2" blob 0 has shape "4 16"; expected "5 16"'),
                                   (cluster.NET, "out_iter_20.caffemodel", None)):
            self.make_job(iterations=30, solver='weights: "%s"\n' % self.path(weights), net=net)
            self.make_table(conv=1, fc=0, micro_batches=1)
            for command in (["--check", self.path("table.prototxt")], make):
                status, text = cluster.run_tool("hproute", *command, "--cache_dir=none")
                self.assertEqual(status, 0, text)
                self.assertEqual("warning" in text, said is not None, text)
                if said:
                    self.assertRegex(text, "warning: .*" + said)
            if said:
                self.refused(said)

    def test_solver_mode(self):
        self.plain(solver="solver_mode: GPU\n")
        self.expect_exit(self.start("--all"), 0, "solver_mode: GPU in .*solver.prototxt has no effect")

    def test_faults_of_a_net_without_its_database(self):
        """hproute says what hpnode would, though the data is on another host; with file and line."""
        self.plain()
        shutil.rmtree(self.path("db"))
        good, solver = self.read("net.prototxt").decode(), self.read("solver.prototxt").decode()
        status, text = cluster.run_tool("hproute", "--check", self.path("table.prototxt"), "--cache_dir=none")
        self.assertEqual(status, 2, text)
        self.assertRegex(text, "whether layers fit is not known: .*db.*; without its data, say the shape of a sample")
        make = ["--solver=" + self.path("solver.prototxt"), "--conv=1", "--fc=0", "--out=" + self.path("new.prototxt")]
        for name, before, after, said in (
                ("net.prototxt", 'type: "ReLU" bottom: "ip1"', 'type: "RELU" bottom: "ip1"',
                 r'net\.prototxt:\d+: layer "relu2": unknown type "RELU"; did you mean ReLU'),
                ("net.prototxt", 'bottom: "ip2" bottom: "label" top: "accuracy"',
                 'bottom: "ip3" bottom: "label" top: "accuracy"',
                 r'net\.prototxt:17: layer "accuracy": bottom "ip3" is not produced'),
                ("net.prototxt", 'type: "Accuracy" bottom: "ip2" bottom: "label" top: "accuracy"',
                 'type: "Filter" bottom: "ip2" bottom: "label" top: "accuracy"',
                 r'net\.prototxt:17: layer "accuracy": type Filter is a Caffe layer that hpnode does not support: it '),
                ("net.prototxt", 'type: "Accuracy" bottom: "ip2" bottom: "label" top: "accuracy"',
                 'type: "Python" bottom: "ip2" bottom: "label" top: "accuracy"',
                 r'net\.prototxt:17: layer "accuracy": type Python is a Caffe layer that hpnode does not support: its code '),
                ("net.prototxt", 'type: "xavier"', 'type: "glorot"',
                 r'net\.prototxt:\d+: layer "\w+": \w+_param: weight_filler: unknown filler type "glorot"'),
                ("net.prototxt", 'inner_product_param { num_output: 16', 'param { lr_mult: nan } inner_product_param { num_output: 16',
                 r'net\.prototxt:\d+: layer "ip1": param { lr_mult: nan }; expected a finite number'),
                ("net.prototxt", "transform_param { scale: 0.004 }", 'transform_param { scale: -inf }',
                 r'net\.prototxt:\d+: layer "data": transform_param { scale: -inf }; expected a finite number'),
                ("net.prototxt", 'layer { name: "accuracy"',
                 'layer { name: "alone" type: "InnerProduct" bottom: "ip1" top: "alone" include { phase: TEST }\n'
                 'inner_product_param { num_output: 2 } }\nlayer { name: "accuracy"',
                 r'net\.prototxt:\d+: layer "alone": has parameters in phase TEST alone'),
                ("net.prototxt", "transform_param { scale: 0.004 }", 'transform_param { mean_value: 1 mean_file: "m" }',
                 r'net\.prototxt:\d+: layer "data": has both mean_file and mean_value'),
                ("solver.prototxt", "momentum: 0.9", "momentum: -1", r"solver\.prototxt:\d+: momentum: -1")):
            text = good if name == "net.prototxt" else solver
            self.assertIn(before, text)
            self.write("solver.prototxt", solver + "test_iter: 1\ntest_interval: 10\n")
            self.write("net.prototxt", good)
            self.write(name, self.read(name).decode().replace(before, after))
            for command in (["--check", self.path("table.prototxt"), "--cache_dir=none"], make):
                status, text = cluster.run_tool("hproute", *command)
                self.assertEqual(status, 2, text)
                self.assertRegex(text, said)
        self.assertFalse(os.path.exists(self.path("new.prototxt")))

    def test_faults_of_the_data_of_a_test_name_its_layer(self):
        """Both phases have a layer "data", in one file or in one for each."""
        self.plain(test=True)
        lines = self.read("net.prototxt").decode().splitlines(keepends=True)
        train, test, rest = lines[1:3], lines[3:5], lines[5:]
        caffe_wire.write_caffemodel(self.path("w.caffemodel"), {"other": [numpy.zeros(1)]})
        apart = self.read("solver.prototxt").decode().replace(
            'net: "net.prototxt"', 'train_net: "tr.prototxt" test_net: "te.prototxt"')
        self.write("apart.prototxt", apart)
        self.write("tr.prototxt", "".join(train + rest))
        commands = {
            "net.prototxt:4": (("hptrain", "--solver=" + self.path("solver.prototxt")),
                               ("hproute", "--check", self.path("table.prototxt"), "--cache_dir=none"),
                               ("model_test", "--model=" + self.path("net.prototxt"), "--cache_dir=none",
                                "--weights=" + self.path("w.caffemodel"))),
            "te.prototxt:3": (("hptrain", "--solver=" + self.path("apart.prototxt")),),
        }
        for before, after, said in (
                ("batch_size: 12", "batch_size: 0", "data_param { batch_size: 0 }"),
                (self.path("db"), self.path("absent"), 'database ".*absent" does not exist'),
                ("scale: 0.004", "crop_size: 99", "crop"),
                ('type: "Data"', 'type: "Dato"', 'unknown type "Dato"'),
                ('type: "Data"', 'type: "WindowData"', "WindowData")):
            wrong = [line.replace(before, after) for line in test]
            self.assertNotEqual(wrong, test)
            self.write("net.prototxt", "".join(lines[:1] + train + wrong + rest))
            self.write("te.prototxt", "".join(["\n\n"] + wrong + rest))
            for place, runs in commands.items():
                for run in runs:
                    status, text = cluster.run_tool(*run)
                    self.assertEqual(status, 2, text)
                    self.assertRegex(text, r'%s: layer "data": .*%s' % (place.replace(".", r"\."), said), run)
            self.refused(r'net\.prototxt:4: layer "data": .*' + said)

    def test_pipes_in_place_of_files(self):
        """Nobody writes to them: who opened one would wait for ever."""
        self.plain(snapshot=10)
        self.expect_exit(self.start("--all"), 0)
        os.mkfifo(self.path("pipe"))
        os.mkfifo(self.path("pipe.solverstate"))
        for flag in ("--resume=" + self.path("pipe.solverstate"), "--weights=" + self.path("pipe")):
            self.expect_exit(self.start("--all", flag), 2, r"/pipe(\.solverstate)?: is a pipe, expected a file")
        for name in ("out_iter_20.hpnode", "out_iter_20.caffemodel", "net.prototxt", "solver.prototxt", "table.prototxt"):
            os.rename(self.path(name), self.path("aside"))
            os.mkfifo(self.path(name))
            flags = ["--resume=" + self.path("out_iter_20.solverstate")] if name.startswith("out") else []
            self.expect_exit(self.start("--all", *flags), 2, re.escape(name) + ": is a pipe, expected a file")
            os.rename(self.path("aside"), self.path(name))
        status, text = cluster.run_tool("model_test", "--model=" + self.path("net.prototxt"), "--cache_dir=none",
                                        "--weights=" + self.path("pipe"))
        self.assertEqual(status, 2, text)
        self.assertIn("pipe: is a pipe, expected a file", text)

    def test_truncated_snapshot(self):
        self.plain(snapshot=10)
        self.expect_exit(self.start("--all"), 0)
        for kind in ("caffemodel", "solverstate"):
            path = self.path("out_iter_20." + kind)
            os.truncate(path, os.path.getsize(path) - 5)
            process = self.start("--all", "--resume=" + self.path("out_iter_20.solverstate"))
            self.expect_exit(process, 2, r"out_iter_20\." + kind)

    def test_snapshot_of_another_net(self):
        self.plain(snapshot=10)
        self.expect_exit(self.start("--all"), 0)
        self.make_job(iterations=20, hidden=17)
        process = self.start("--all", "--resume=" + self.path("out_iter_10.solverstate"))
        self.expect_exit(process, 2, r'out_iter_10\.caffemodel: layer "ip1" blob 0 has shape "\S+ \d+"; expected "17 ')
        self.expect_exit(self.start("--all", "--resume=latest"), 0, "is passed over: it belongs to another net")

    def set_of_the_node(self, field):
        """Gives the only node of the table a field, e.g. "threads: 2"."""
        text = re.sub(r" %s \d+" % field.split()[0], "", self.read("table.prototxt").decode())
        self.write("table.prototxt", text.replace("stage: 0 index: 0", "stage: 0 index: 0 " + field))

    def refused_everywhere(self, *patterns):
        """hproute --check and hpnode both refuse, at once and in our own words."""
        status, text = cluster.run_tool("hproute", "--check", self.path("table.prototxt"), "--cache_dir=none")
        self.assertEqual(status, 2, text)
        for pattern in patterns:
            self.assertRegex(text, pattern)
        self.refused(*patterns)

    def test_numbers_that_no_field_can_mean(self):
        for before, after, said in (
                ("batch_size: 12 backend", "batch_size: 4294967295 backend",
                 r'layer "data": data_param { batch_size: 4294967295 }: expected 1 to 2147483647'),
                ("batch_size: 12 backend", "batch_size: 0 backend",
                 r'net\.prototxt:2: layer "data": data_param { batch_size: 0 }: expected 1 to 2147483647'),
                ("num_output: 4 kernel_size", "num_output: 4294967295 kernel_size",
                 r'layer "conv1": convolution_param { num_output: 4294967295 }: expected 1 to 2147483647'),
                ("inner_product_param { num_output: 4", "inner_product_param { num_output: 4294967295",
                 r'layer "ip2": inner_product_param { num_output: 4294967295 }: expected 1 to 2147483647')):
            self.plain(net=cluster.NET.replace(before, after, 1))
            self.refused_everywhere(said)

    def test_shapes_whose_products_overflow(self):
        net = cluster.NET.replace("num_output: 4 kernel_size: 3", "num_output: 1073741824 kernel_size: 131072 pad: 70000")
        self.plain(net=net)
        self.refused_everywhere(r'layer "conv1": (top|parameter) shape \[[\d ]+\] is too large')

    def test_memory_that_the_host_does_not_have(self):
        for before, after in (("batch_size: 12 backend", "batch_size: 2147483647 backend"),
                              ("inner_product_param { num_output: %(hidden)d", "inner_product_param { num_output: 2147483647")):
            self.plain(net=cluster.NET.replace(before, after, 1))
            status, text = cluster.run_tool("hproute", "--check", self.path("table.prototxt"), "--cache_dir=none")
            self.assertEqual(status, 2, text)
            self.assertRegex(text, r"node conv0 needs \d+\.\d MB, (this host has|control group \S+ of this host allows) \d")
            self.refused(r"node conv0 needs \d+\.\d MB, (the host has free|its control group \S+ leaves) \d+\.\d MB; "
                         r"parameters .*a smaller batch_size")

    def test_memory_that_the_nodes_of_a_host_do_not_have_together(self):
        with open("/proc/meminfo", encoding="ascii") as file:
            kib = sum(int(line.split()[1]) for line in file if re.match("(Mem|Swap)Total:", line))
        shards = 12  # each takes a tenth of what there is, mostly values and histories of [hidden, 100]
        net = cluster.NET.replace("inner_product_param { num_output: 4", "inner_product_param { num_output: %d" % shards)
        self.make_job(hidden=int(kib * 1024 * 1.2 / (2 * FLOAT * 100)), net=net)
        self.make_table(conv=1, fc=shards)
        # The limit ends what is not refused before it takes the host's memory.
        process = self.start("--all", prefix=("prlimit", "--as=%d" % (kib * 1024 * 3 // 4)))
        self.expect_exit(process, 2, r'the 13 nodes of host "127\.0\.0\.1" need \d+\.\d MB together, it has \d+\.\d MB: '
                                     r"\d+\.\d MB too little; conv0 \d")

    def test_numbers_of_the_table_and_the_solver(self):
        for field, said in (("memory_mb: 17592186044416", "has memory_mb 17592186044416; expected 0 to 134217728"),
                            ("pool_size: 2147483647", "has pool_size 2147483647; expected 0 to 65536"),
                            ("threads: 2000", "has threads 2000; expected 0 to 1024")):
            self.plain()
            self.set_of_the_node(field)
            self.refused_everywhere('node "conv0" ' + said)
        self.plain()
        for flag in ("--reader_threads=0", "--reader_threads=2000"):
            self.expect_exit(self.start("--all", flag), 2, r"reader_threads is \d+; expected 1 to 1024")

    def limited(self, kib, *flags):
        """Runs a whole table in an address space of `kib` KiB. Returns (exit status, what it said)."""
        process = self.start(*(flags or ("--all",)), prefix=("prlimit", "--as=%d" % (kib * 1024)))
        return process.wait(), process.text()

    def test_address_space_that_is_too_small(self):
        self.plain(hidden=3000000)  # 1.2 GB of weights alone
        status, text = self.limited(3000000)
        self.assertEqual(status, 2, text)
        self.assertRegex(text, r"node conv0 needs \d+\.\d MB, ulimit -v leaves it \d+\.\d MB; .*raise ulimit -v")
        self.plain()
        self.set_of_the_node("threads: 1000")
        status, text = self.limited(2000000)
        self.assertEqual(status, 2, text)
        self.assertRegex(text, r'node "conv0" needs 1000 threads; the system starts only \d+ of 999 threads; .*ulimit -v')
        self.plain()
        self.set_of_the_node("threads: 2")
        least = 100000  # for the libraries
        while self.limited(least, "--help")[0] != 0:
            least += 10000
        seen = set()
        for kib in range(least, least + 800000, 40000):
            status, text = self.limited(kib)
            self.assertIn(status, (0, 2), "%d KiB: %s" % (kib, text))
            if status != 0:
                self.assertRegex(text, "out of memory|cannot start a thread|the system starts only|ulimit -v leaves it")
            seen.add(status)
        self.assertEqual(seen, {0, 2})

    def test_tests_that_the_host_cannot_hold(self):
        self.plain(snapshot=10)
        self.expect_exit(self.start("--all"), 0)
        self.write("large.prototxt", self.read("net.prototxt").decode().replace("size: 12", "size: 2147483647"))
        for net, flag, said in (("large", "--threads=1", r"the test needs \d+\.\d MB, .* \d+\.\d MB; .*a smaller batch_size"),
                                ("net", "--iterations=524289", "iterations is 524289; expected 1 to 524288"),
                                ("net", "--threads=1025", "threads is 1025; expected 0 to 1024"),
                                ("net", "--reader_threads=0", "reader_threads is 0; expected 1 to 1024")):
            status, text = cluster.run_tool("model_test", "--model=" + self.path(net + ".prototxt"), "--cache_dir=none",
                                            "--weights=" + self.path("out_iter_20.caffemodel"), flag)
            self.assertEqual(status, 2, text)
            self.assertRegex(text, said)

    def test_table_lists_all_faults(self):
        self.make_job()
        self.make_table(micro_batches=7, stages=[("conv", "kind: CONV", 2), ("fc", 'kind: FC layer: "nowhere"', 1)])
        status, text = cluster.run_tool("hproute", "--check", self.path("table.prototxt"))
        self.assertEqual(status, 2, text)
        self.assertIn("7 micro-batches", text)
        self.assertIn('"nowhere" is not a layer', text)


class NodesTest(cluster.JobTest):
    """Faults that show between nodes: every one of them says so and ends."""

    def test_numbers_that_are_not_finite(self):
        self.make_job(solver="base_lr: 1e30\ndisplay: 5\n")
        nodes = self.start_all(self.make_table(conv=2, fc=2))
        self.expect_all(nodes.values(), 3, r'iteration \d+: layer "\w+" produced a NaN or infinity')
        lines = {line.split("] ")[1] for node in nodes.values() for line in node.text().splitlines()
                 if "NaN or infinity" in line}
        self.assertEqual(len(lines), 1, "all nodes say the same: %s" % lines)

    def test_numbers_that_are_not_finite_in_one_process(self):
        self.make_job(solver="base_lr: 1e30\ndisplay: 5\n")
        self.make_table(conv=1, fc=0, micro_batches=1)
        self.expect_exit(self.start("--all"), 3, r'iteration \d+: layer "\w+" produced a NaN or infinity')

    def elsewhere(self, net):
        """The same job with another net, as files of another host. Returns its table's name."""
        os.mkdir(self.path("elsewhere"))
        self.write("elsewhere/net.prototxt", net)
        for name in ("solver.prototxt", "table.prototxt"):
            shutil.copy(self.path(name), self.path("elsewhere"))
        return "elsewhere/table.prototxt"

    def start_differing(self, names, differing, table="table.prototxt", flags=()):
        return {name: self.start(*flags, name=name, table=table) if name == differing else self.start(name=name)
                for name in names}

    def expect_difference(self, nodes, pattern, apart):
        """Every node says what differs, or that the other one left because of it; nobody waits for the deadline."""
        for node in nodes.values():
            self.assertEqual(node.wait(), 2, node.name)
            self.assertEqual(len(node.errors()), 1, "one clear error: %s" % node.errors())
            self.assertRegex(node.errors()[0], pattern, node.name)
        self.expect_exit(nodes[apart], 2, pattern)
        others = [node for node in nodes.values() if node.name != apart]
        self.assertTrue(any(node.popen.returncode == 2 and re.search(pattern, node.text()) for node in others))

    def test_other_data_set_on_one_host(self):
        self.make_job()
        names = self.make_table(conv=2, fc=1)
        cluster.write_database(self.path("db2"), seed=2)
        table = self.elsewhere(self.read("net.prototxt").decode().replace(self.path("db"), self.path("db2")))
        nodes = self.start_differing(names, "conv1", table)
        self.expect_difference(nodes, r'node "conv[01]" reads a different data set', "conv1")

    def test_node_that_comes_when_the_others_differ(self):
        self.make_job()
        names = self.make_table(conv=2, fc=2)  # with the default deadline, 300 s: nobody waits for it, or we lose patience
        table = self.elsewhere(self.read("net.prototxt").decode().replace("kernel_size: 3", "kernel_size: 5"))
        nodes = self.start_differing(names[:2], "conv1", table)
        self.expect_exit(nodes["conv1"], 2, r'node "conv\d" runs a different net')
        self.await_text(nodes["conv0"], r'node "conv\d" runs a different net')
        told = r"conv0 \(\S+\) refused us: the job cannot start: node \"conv\d\" runs a different net"
        self.expect_exit(self.start(name="fc0"), 2, told)
        self.assertIsNone(nodes["conv0"].popen.poll(), "fc1 was not told yet")
        self.expect_exit(self.start(name="fc1"), 2, told)
        self.expect_exit(nodes["conv0"], 2)
        for process in self.processes:
            self.assertEqual(len(process.errors()), 1, process.errors())

    def test_other_net_on_one_host(self):
        self.make_job()
        names = self.make_table(conv=1, fc=2)
        table = self.elsewhere(self.read("net.prototxt").decode().replace("kernel_size: 3", "kernel_size: 5"))
        nodes = self.start_differing(names, "fc1", table)
        self.expect_difference(nodes, r"runs a different net", "fc1")

    def test_resume_on_one_node_only(self):
        self.make_job(iterations=20, snapshot=10)
        names = self.make_table(conv=2, fc=1)
        self.run_job(names)
        nodes = self.start_differing(names, "conv1", flags=["--resume=" + self.path("out_iter_10.solverstate")])
        self.expect_difference(nodes, r"--resume on one node only", "conv1")

    def test_database_replaced_under_way(self):
        self.replace_database("leveldb")

    def test_lmdb_replaced_under_way(self):
        self.replace_database("lmdb")

    def test_lmdb_truncated_under_way(self):
        cluster.write_database(self.path("db"), records=600, backend="lmdb")
        self.make_job(net=cluster.NET.replace("LEVELDB", "LMDB"))
        nodes = self.start_all(self.make_table(conv=2, fc=1))
        self.await_training(nodes.values())
        os.truncate(self.path("db/data.mdb"), 8192)
        for node in nodes.values():
            self.assertEqual(node.wait(), 2, node.name)
            self.assertRegex(node.text(), r"database %s/data\.mdb was .*truncated" % self.path("db"), node.name)

    def replace_database(self, backend):
        cluster.write_database(self.path("db"), backend=backend)
        self.make_job(net=cluster.NET.replace("LEVELDB", backend.upper()))
        nodes = self.start_all(self.make_table(conv=2, fc=1))
        self.await_training(nodes.values())
        cluster.write_database(self.path("db2"), seed=2, backend=backend)
        os.rename(self.path("db"), self.path("old"))
        os.rename(self.path("db2"), self.path("db"))
        said = r"database %s(/data\.mdb)? was (removed or )?replaced.* while it was being read" % self.path("db")
        for node in nodes.values():
            self.assertEqual(node.wait(), 2, node.name)
            self.assertRegex(node.text(), said, node.name)
        self.expect_exit(nodes["fc0"], 2, r'lost node "conv[01]": ' + said)


if __name__ == "__main__":
    cluster.main()
