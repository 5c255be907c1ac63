"""Layers that read no database train as a database of the same records does, and under every table alike. Faults of what
they read, and bad records of databases, are named with file and line or record."""

import os
import random
import re
import shutil
import struct
import subprocess
import sys
import zlib

import cluster

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import caffe_wire  # pylint: disable=wrong-import-position

IMAGES = 30
DATA = re.compile(r'layer { name: "data" .*?BACKEND } }\n'.replace("BACKEND", "backend: LEVELDB"), re.S)


def png(rows):
    """The bytes of an 8-bit gray PNG. `rows`: of pixels."""
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + bytes(row) for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def net_with(sources):
    """The tiny net with other layers "data": `sources` in order, one for each phase."""
    rest = iter(sources)
    return DATA.sub(lambda match: next(rest) + "\n", cluster.NET).replace('"none"', '"%(source)s"')


class SourceTest(cluster.JobTest):

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("db"))  # no database: nothing here reads one by itself

    def train(self, conv, fc, micro_batches=2, flags=()):
        """@return {layer: [array, ...]}, and the losses that were reported."""
        names = self.make_table(conv=conv, fc=fc, micro_batches=micro_batches)
        nodes = self.run_job(names, *flags)
        text = nodes["fc0" if fc else "conv0"].text()
        losses = [float(loss) for loss in re.findall(r"Iteration \d+.* loss = (\S+)", text)]
        tests = [float(value) for value in re.findall(r"Test net output #\d+: \S+ = (\S+)", text)]
        self.assertTrue(losses and tests)
        return caffe_wire.read_caffemodel(self.path("out_iter_20.caffemodel")), losses + tests

    def expect_equal_tables(self, net, flags=(), fc=1):
        """2 conv nodes and an FC node train to the parameters of one process."""
        self.make_job(iterations=20, snapshot=20, test=True, net=net)
        model, numbers = self.train(conv=1, fc=0, micro_batches=1, flags=flags)
        divided, others = self.train(conv=2, fc=fc, flags=flags)
        self.assertEqual(model.keys(), divided.keys())
        for name, blobs in model.items():
            for blob, other in zip(blobs, divided[name]):
                self.assertLess(abs(blob - other).max(), 1e-5, name)
        self.assertEqual(len(numbers), len(others))
        for number, other in zip(numbers, others):
            self.assertAlmostEqual(number, other, delta=1e-4)
        return divided

    def expect_bits_of_database(self, net, divided, fc=1):
        """`net`: the same, over a database of the same samples."""
        self.make_job(iterations=20, snapshot=20, test=True, net=net)
        model, _ = self.train(conv=2, fc=fc)
        for name, blobs in divided.items():
            for blob, other in zip(blobs, model[name]):
                self.assertTrue((blob == other).all(), "%s: not the bits of a database" % name)

    def expect_programs_read(self, net):
        """hproute --check and model_test."""
        self.make_job(iterations=20, snapshot=20, test=True, net=net)
        self.train(conv=1, fc=1)
        status, text = cluster.run_tool("hproute", "--check", self.path("table.prototxt"), "--cache_dir=none")
        self.assertEqual(status, 0, text)
        status, text = cluster.run_tool("model_test", "--model=" + self.path("net.prototxt"), "--iterations=2",
                                        "--weights=" + self.path("out_iter_20.caffemodel"), "--cache_dir=none")
        self.assertEqual(status, 0, text)
        self.assertRegex(text, r"accuracy = ")

    def write_hdf5(self, name, sets):
        """@param sets (name, type, dims in a row with commas, values)."""
        arguments = [argument for data in sets for argument in data[:3]]
        content = b"".join(struct.pack("%dd" % len(data[3]), *data[3]) for data in sets)
        done = subprocess.run([cluster.program("write_hdf5"), self.path(name), *arguments], input=content, check=False,
                              stderr=subprocess.PIPE)
        if done.returncode == 2:
            self.skipTest("SKIPPED: " + done.stderr.decode())
        self.assertEqual(done.returncode, 0)

    def write_lmdb(self, name, images, side, labels):
        """Of gray images: @param images a list of pixels each."""
        with open(self.path("images"), "wb") as out:
            out.write(struct.pack(">IIII", 2051, len(images), side, side) + b"".join(map(bytes, images)))
        with open(self.path("labels"), "wb") as out:
            out.write(struct.pack(">II", 2049, len(labels)) + bytes(labels))
        status, text = cluster.run_tool("convert_mnist_data", "--backend=lmdb", self.path("images"), self.path("labels"),
                                        self.path(name))
        self.assertEqual(status, 0, text)

    def refused(self, *patterns, status=2, flags=()):
        process = self.start("--all", *flags)
        self.expect_exit(process, status, *patterns)
        self.assertEqual(len(process.errors()), 1, "one clear error")


class ImageDataTest(SourceTest):
    LAYER = """layer { name: "data" type: "ImageData" top: "data" top: "label" include { phase: %s }
        transform_param { scale: 0.004 mean_value: 100 crop_size: 12 %s }
        image_data_param { source: "none/list.txt" root_folder: "none/" batch_size: 12 shuffle: true is_color: false %s } }"""

    def net(self, more="new_height: 14 new_width: 15"):
        layers = [self.LAYER % ("TRAIN", "mirror: true", more), self.LAYER % ("TEST", "", more)]
        return net_with(layers).replace('"none/', '"%(source)s/')

    def setUp(self):
        super().setUp()
        draw = random.Random(3)
        lines = []
        for i in range(IMAGES):
            height, width = draw.randrange(12, 20), draw.randrange(12, 20)
            label = draw.randrange(cluster.CLASSES)
            name = "some images/%d.png" % i
            os.makedirs(self.path("db/some images"), exist_ok=True)
            with open(self.path("db/" + name), "wb") as out:
                out.write(png([[60 * label + draw.randrange(60) for _ in range(width)] for _ in range(height)]))
            lines.append("%s %d\n" % (name, label))
        self.lines = lines
        self.write("db/list.txt", "".join(lines))

    def test_trains_alike_under_every_table_and_as_a_database(self):
        divided = self.expect_equal_tables(self.net())
        status, text = cluster.run_tool("convert_imageset", "--gray", "--resize_height=14", "--resize_width=15",
                                        self.path("db/"), self.path("db/list.txt"), self.path("db/as_lmdb"))
        self.assertEqual(status, 0, text)
        as_data = self.net().replace('"ImageData"', '"Data"').replace("image_data_param", "data_param")
        as_data = re.sub(r'root_folder: \S+|is_color: false|new_\w+: \d+', "", as_data)
        as_data = as_data.replace("list.txt\"", "as_lmdb\" backend: LMDB")
        # What belongs to another type says nothing.
        as_data = as_data.replace(" data_param", ' image_data_param { source: "%(source)s/list.txt" is_color: true } data_param')
        self.expect_bits_of_database(as_data, divided)

    def test_programs_that_read_nets(self):
        self.expect_programs_read(self.net())
        planned = self.path("planned.prototxt")
        status, text = cluster.run_tool("hproute", "--solver=" + self.path("solver.prototxt"), "--conv=2", "--fc=1",
                                        "--hosts=127.0.0.1", "--out=" + planned, "--cache_dir=none")
        self.assertEqual(status, 0, text)
        launched = subprocess.run([cluster.program("hplaunch"), "--routing=" + self.path("table.prototxt"),
                                   "--run_dir=" + self.path("run"), "--stage_data", "--dry_run"], check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=cluster.PATIENCE_S)
        self.assertEqual(launched.returncode, 2)
        self.assertIn(b"not the files that a list names: have " + self.path("db/list.txt").encode(), launched.stdout)

    def make_one(self, **job):
        self.make_job(iterations=20, **job)
        self.make_table(conv=1, fc=0, micro_batches=1)

    def test_faults_of_the_list(self):
        self.make_one(net=self.net())
        path = self.path("db/list.txt")
        for line, said in (("some images/3.png\n", r'"some images/3\.png": expected the name of an image and a label'),
                           ("some images/3.png cat\n", r'"some images/3\.png cat": expected the name'),
                           ("absent.png 1\n", r"%s: no such file" % self.path("db/absent.png"))):
            self.write("db/list.txt", "".join(self.lines[:6] + [line] + self.lines[7:]))
            self.refused(r'layer "data": %s:7: %s' % (path, said))
        self.write("db/list.txt", "".join(self.lines[:6] + ["some images/3.png 9\n"] + self.lines[7:]))
        self.refused(r'%s:7: %s: layer "loss", batch \d+, rows from 0: label 9 of row \d+ is not in 0\.\.' % (path, self.path("db/some images/3.png")))
        self.write("db/list.txt", "\n")
        self.refused(r'layer "data": list of images %s has no lines' % path)
        os.remove(path)
        self.refused(r'layer "data": list of images: %s: no such file' % path)

    def test_faults_of_images(self):
        self.make_one(net=self.net())
        path = self.path("db/list.txt")
        with open(self.path("db/some images/6.png"), "wb") as out:
            out.write(b"no image")
        self.refused(r"%s:7: \S+/some images/6\.png: cannot decode the image: not a JPEG or PNG" % path)
        with open(self.path("db/some images/6.png"), "wb") as out:
            out.write(png([[0] * 14] * 13))
        self.make_one(net=self.net(more="").replace("crop_size: 12", ""))
        self.refused(r'list\.txt:\d+: \S+/some images/\d+\.png: has the shape 1 \d+ \d+, expected 1 \d+ \d+; images of '
                     r"different sizes need new_height and new_width, or a crop_size")
        self.make_one(net=self.net())
        self.write("db/list.txt", "".join(line[:-2] + "9\n" for line in self.lines))
        self.refused(r'layer "loss", batch 0, .*label 9 of row \d+ is not in 0\.\.3')

    def test_bad_records_are_skipped_up_to_a_number(self):
        """One that is not there, one that is no image, and the first, which decides the shape."""
        os.remove(self.path("db/some images/6.png"))
        with open(self.path("db/some images/7.png"), "wb") as out:
            out.write(b"no image")
        with open(self.path("db/some images/0.png"), "wb") as out:
            out.write(b"")
        self.expect_equal_tables(self.net(), flags=["--max_bad_records=3"])
        self.make_table(conv=1, fc=0, micro_batches=1)
        process = self.start("--all", "--max_bad_records=3")
        self.expect_exit(process, 0, r"skipped bad record 3 of at most 3: %s:[178]: \S+" % self.path("db/list.txt"))
        self.refused(r"%s:[178]: .*; 2 other bad record\(s\) were skipped, no more may be" % self.path("db/list.txt"),
                     flags=["--max_bad_records=2"])
        self.refused(r'layer "data": %s:7: %s: no such file' % (self.path("db/list.txt"), self.path("db/some images/6.png")))
        self.refused(r"--max_bad_records is -1; expected at least 0", flags=["--max_bad_records=-1"])
        for most, expected, said in (("3", 0, "skipped bad record 3 of at most 3"), ("2", 2, "2 other bad record(s) were skipped"),
                                     ("-1", 2, "--max_bad_records is -1; expected at least 0")):
            status, text = cluster.run_tool("hptrain", "--solver=" + self.path("solver.prototxt"), "--cache_dir=none",
                                            "--max_bad_records=" + most)
            self.assertEqual(status, expected, text)
            self.assertIn(said, text)
        for command in (["--check", self.path("table.prototxt")], ["--simulate", self.path("table.prototxt")],
                        ["--plan=auto", "--solver=" + self.path("solver.prototxt")]):
            self.assertIn(self.path("db/some images/6.png") + ": no such file",
                          cluster.run_tool("hproute", "--cache_dir=none", *command)[1])
            status, text = cluster.run_tool("hproute", "--cache_dir=none", "--max_bad_records=3", *command)
            self.assertEqual(status, 0, text)
            self.assertNotIn("no such file", text)
        launch = ["hplaunch", "--solver=" + self.path("solver.prototxt"), "--hosts=localhost", "--run_dir=" + self.path("run")]
        for flags, expected, said in ((["--max_bad_records=3"], 0, "skipped bad record 3 of at most 3"),
                                      ([], 2, "no such file"), (["--max_bad_records=-1"], 2, "expected at least 0"),
                                      (["--", "--max_bad_records=3"], 2, "hplaunch sets --max_bad_records of hpnode itself")):
            status, text = cluster.run_tool(*launch, *flags)
            self.assertEqual(status, expected, text)
            self.assertIn(said, text)
        for program, arguments in (("hproute", ["--check", "table.prototxt"]), ("hpserver", [])):
            self.assertEqual(cluster.run_tool(program, "--max_bad_records=-1", *arguments),
                             (2, "%s: --max_bad_records is -1; expected at least 0\n" % program))
        status, text = cluster.run_tool("model_test", "--model=" + self.path("net.prototxt"), "--iterations=3",
                                        "--weights=" + self.path("out_iter_20.caffemodel"), "--cache_dir=none",
                                        "--max_bad_records=3")
        self.assertEqual(status, 0, text)

    def test_lists_that_differ_between_nodes(self):
        self.make_job(iterations=20, net=self.net())
        names = self.make_table(conv=2, fc=1)
        shutil.copytree(self.path("db"), self.path("other"))
        self.write("other/list.txt", "".join(self.lines[:-1] + [self.lines[-1][:-2] + "0\n"] + self.lines[:1]))
        self.write("other_net.prototxt", self.read("net.prototxt").decode().replace(self.path("db"), self.path("other")))
        self.write("other_solver.prototxt",
                   self.read("solver.prototxt").decode().replace("net.prototxt", "other_net.prototxt"))
        self.make_table(conv=2, fc=1, name="other.prototxt", solver="other_solver.prototxt",
                        ports=[self.ports[name] for name in names])
        nodes = [self.start(name=name, table="other.prototxt" if name == "conv1" else "table.prototxt")
                 for name in names]
        self.expect_all(nodes, 2)
        self.assertTrue(any("data" in "".join(node.errors()) for node in nodes))


class DatabaseTest(SourceTest):

    def test_bad_records_are_skipped_up_to_a_number(self):
        """Images of another size than the first one's."""
        sizes = {4: 13, 11: 9, 29: 20}
        lines = []
        for i in range(IMAGES):
            side = sizes.get(i, cluster.SIDE)
            with open(self.path("db/%02d.png" % i), "wb") as out:
                out.write(png([[(60 * (i % cluster.CLASSES) + 7 * x + 3 * y) % 256 for x in range(side)] for y in range(side)]))
            lines.append("%02d.png %d\n" % (i, i % cluster.CLASSES))
        self.write("images.txt", "".join(lines))
        os.rename(self.path("db"), self.path("images"))
        for backend in ("leveldb", "lmdb"):
            for encoded in ([], ["--encoded"]):
                with self.subTest(backend, encoded=encoded):
                    status, text = cluster.run_tool("convert_imageset", "--gray", "--backend=" + backend, *encoded,
                                                    self.path("images/"), self.path("images.txt"), self.path("db"))
                    self.assertEqual(status, 0, text)
                    self.expect_equal_tables(cluster.NET.replace("LEVELDB", backend.upper()), flags=["--max_bad_records=3"])
                    self.make_table(conv=1, fc=0, micro_batches=1)
                    self.expect_exit(self.start("--all", "--max_bad_records=3"), 0,
                                     r"skipped bad record 3 of at most 3: .*%s.* has the shape" % self.path("db"))
                    self.refused(r"%s.* has the shape .*; 2 other bad record\(s\) were skipped, no more may be" % self.path("db"),
                                 flags=["--max_bad_records=2"])
                    shutil.rmtree(self.path("db"))


class Hdf5DataTest(SourceTest):
    LAYER = """layer { name: "data" type: "HDF5Data" top: "data" top: "label" include { phase: %s }
        hdf5_data_param { source: "none/list.txt" batch_size: 12 shuffle: true } }"""

    def net(self):
        return net_with([self.LAYER % "TRAIN", self.LAYER % "TEST"]).replace('"none/', '"%(source)s/')

    def write_rows(self, name, values, labels, shape=(1, cluster.SIDE, cluster.SIDE), label_type="int", label_dims=None):
        """An HDF5 file of rows."""
        dims = ",".join(str(dim) for dim in (len(values), *shape))
        self.write_hdf5(name, [("data", "float", dims, [value for row in values for value in row]),
                               ("label", label_type, label_dims or str(len(labels)), labels)])

    def setUp(self):
        super().setUp()
        draw = random.Random(4)
        self.labels = [draw.randrange(cluster.CLASSES) for _ in range(IMAGES)]
        self.pixels = [[60 * label + draw.randrange(60) for _ in range(cluster.SIDE ** 2)] for label in self.labels]
        rows = [[pixel * 0.0078125 for pixel in image] for image in self.pixels]  # exact in float32
        self.write_rows("db/a.h5", rows[:13], self.labels[:13])
        self.write_rows("db/b.h5", rows[13:], self.labels[13:], label_type="float")
        self.write("db/list.txt", "%s\n%s\n" % (self.path("db/a.h5"), self.path("db/b.h5")))

    def test_trains_alike_under_every_table_and_as_a_database(self):
        divided = self.expect_equal_tables(self.net())
        self.write_lmdb("db/lmdb", self.pixels, cluster.SIDE, self.labels)
        as_data = self.net().replace('"HDF5Data"', '"Data" transform_param { scale: 0.0078125 }')
        as_data = as_data.replace("hdf5_data_param", "data_param").replace('list.txt"', 'lmdb" backend: LMDB')
        self.expect_bits_of_database(as_data, divided)

    def test_programs_that_read_nets(self):
        self.expect_programs_read(self.net())

    def test_several_labels_cut_into_tasks(self):
        """Two labels a row, each of which a loss of its own learns, in another stage than the one that reads."""
        rows = [[pixel * 0.0078125 for pixel in image] for image in self.pixels]
        pairs = [number for label in self.labels for number in (label, label % 2)]
        self.write_rows("db/a.h5", rows[:13], pairs[:26], label_dims="13,2")
        self.write_rows("db/b.h5", rows[13:], pairs[26:], label_dims="%d,2" % (IMAGES - 13))
        cut = """layer { name: "cut" type: "Slice" bottom: "label" top: "kind" top: "odd" slice_param { axis: 1 slice_point: 1 } }
layer { name: "ip3" type: "InnerProduct" bottom: "ip1" top: "ip3"
        inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
layer { name: "odd_loss" type: "SoftmaxWithLoss" bottom: "ip3" bottom: "odd" top: "odd_loss" loss_weight: 0.5 }
layer { name: "accuracy" """
        net = self.net().replace('layer { name: "accuracy" ', cut).replace('bottom: "ip2" bottom: "label"',
                                                                            'bottom: "ip2" bottom: "kind"')
        self.expect_equal_tables(net)

    def test_several_labels_of_which_some_are_missing(self):
        """Attributes of which a row may lack some: each loss counts those that it has. Cut from one dataset, or from
        datasets of their own, and evaluated alike."""
        missing = [[row % 2 if (row + task) % (3 + task) else -1 for task in range(3)] for row in range(IMAGES)]
        heads = ""
        for task in range(3):
            heads += """layer { name: "score%d" type: "InnerProduct" bottom: "ip1" top: "score%d"
        inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
layer { name: "loss%d" type: "SoftmaxWithLoss" bottom: "score%d" bottom: "task%d" top: "loss%d" loss_param { ignore_label: -1 } }
layer { name: "right%d" type: "Accuracy" bottom: "score%d" bottom: "task%d" top: "right%d" accuracy_param { ignore_label: -1 }
        include { phase: TEST } }
""" % ((task,) * 10)
        cut = 'layer { name: "cut" type: "Slice" bottom: "label" top: "task0" top: "task1" top: "task2" }\n'
        net = re.sub(r'layer { name: "(ip2|accuracy|loss)"(?:.|\n)*?\n(?=layer|$)', "", self.net())
        self.write_hdf5("db/a.h5", [
            ("data", "float", "%d,1,%d,%d" % (IMAGES, cluster.SIDE, cluster.SIDE),
             [pixel * 0.0078125 for image in self.pixels for pixel in image]),
            ("label", "int", "%d,3" % IMAGES, [label for row in missing for label in row])] +
            [("task%d" % task, "int", str(IMAGES), [row[task] for row in missing]) for task in range(3)])
        self.write("db/list.txt", self.path("db/a.h5") + "\n")
        divided = self.expect_equal_tables(net + cut + heads)
        self.expect_bits_of_database(net.replace('top: "label"', 'top: "task1" top: "task0" top: "task2"') + heads, divided)

    def test_one_number_a_row_to_learn(self):
        rows = [[pixel * 0.0078125 for pixel in image] for image in self.pixels]
        numbers = [label / 8 - 0.3 for label in self.labels]
        self.write_rows("db/a.h5", rows[:13], numbers[:13], label_type="float")
        self.write_rows("db/b.h5", rows[13:], numbers[13:], label_type="double")
        net = self.net().replace('"ip2"\n        inner_product_param { num_output: 4', '"ip2"\n        inner_product_param { num_output: 1')
        net = re.sub(r'layer { name: "accuracy".*\n', "", net).replace('"SoftmaxWithLoss"', '"EuclideanLoss"')
        self.assertIn("num_output: 1 ", net)
        self.expect_equal_tables(net)

    def test_faults(self):
        self.make_job(iterations=20, net=self.net())
        self.make_table(conv=1, fc=0, micro_batches=1)
        where = r'layer "data": %s:2: %s: ' % (self.path("db/list.txt"), self.path("db/b.h5"))
        self.write_rows("db/b.h5", [[0.5] * cluster.SIDE ** 2] * 2, [1, 0.5], label_type="double")
        self.refused(r'layer "loss", batch \d+, rows from \d+: label 0\.5 of row \d+ is not a whole number in 0\.\.\d')
        self.write_rows("db/b.h5", [[0.5] * cluster.SIDE ** 2] * 2, [1, 2, 3, 4], label_dims="2,1,2")
        self.refused(where + r'dataset "label" has rows of \[1 2\]; expected one number, as in .*/a\.h5')
        self.write_rows("db/b.h5", [[1, 2, 3]] * 2, [1, 2], shape=(3,))
        self.refused(where + r'dataset "data" has rows of \[3\]; expected \[1 12 12\], as in .*/a\.h5')
        os.truncate(self.path("db/b.h5"), 700)
        self.refused(where + r"no HDF5 file, or a truncated one")
        os.remove(self.path("db/b.h5"))
        self.refused(where + r"no such file")
        self.write_rows("db/b.h5", [[0.5] * cluster.SIDE ** 2] * 2, [1, 2])
        self.write("net.prototxt", self.read("net.prototxt").decode().replace('top: "label"', 'top: "label" top: "other"'))
        self.refused(r'layer "data": %s:1: %s: dataset "other" is not there; it is named as the layer\'s top 2' %
                     (self.path("db/list.txt"), self.path("db/a.h5")))

    def test_labels_of_pixels_that_do_not_fit_name_layer_file_and_line(self):
        self.write_rows("db/a.h5", [[0.5] * cluster.SIDE ** 2] * 12, [1] * 72, label_dims="12,3,2")
        self.write("db/list.txt", self.path("db/a.h5") + "\n")
        self.make_job(iterations=20, net=self.net())
        self.make_table(conv=1, fc=0, micro_batches=1)
        self.refused(r'net\.prototxt:\d+: layer "loss": labels have shape \[1 3 2\]; expected one for each of the 1 rows of '
                     r'\[1 4\]')


class SeveralSourcesTest(SourceTest):
    """Two tasks and a regression beside them, from four datasets of HDF5 files: however these are spread over layers, and
    in whatever order a layer names them, the training is the same to the bit."""
    LAYER = """layer { name: "%s" type: "HDF5Data" %s include { phase: %s }
        hdf5_data_param { source: "none/list.txt" batch_size: 12 shuffle: true } }"""
    HEADS = """layer { name: "ip3" type: "InnerProduct" bottom: "ip1" top: "ip3"
        inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
layer { name: "odd_loss" type: "SoftmaxWithLoss" bottom: "ip3" bottom: "odd" top: "odd_loss" loss_weight: 0.5 }
layer { name: "ip4" type: "InnerProduct" bottom: "ip1" top: "ip4"
        inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "far" type: "EuclideanLoss" bottom: "ip4" bottom: "place" top: "far" loss_weight: 0.1 }
layer { name: "accuracy" """

    def net(self, *layers):
        """@param layers the tops of each layer that reads."""
        def sources(phase):
            return "\n".join(self.LAYER % (name, " ".join('top: "%s"' % top for top in tops.split()), phase)
                             for name, tops in zip(("data", "more"), layers))
        net = net_with([sources("TRAIN"), sources("TEST")]).replace('"none/', '"%(source)s/')
        return net.replace('layer { name: "accuracy" ', self.HEADS)

    def setUp(self):
        super().setUp()
        draw = random.Random(5)
        labels = [draw.randrange(cluster.CLASSES) for _ in range(IMAGES)]
        pixels = [(60 * label + draw.randrange(60)) / 128 for label in labels for _ in range(cluster.SIDE ** 2)]
        self.write_hdf5("db/rows.h5", [
            ("data", "float", "%d,1,%d,%d" % (IMAGES, cluster.SIDE, cluster.SIDE), pixels),
            ("label", "int", str(IMAGES), labels), ("odd", "float", "%d,1" % IMAGES, [label % 2 for label in labels]),
            ("place", "double", "%d,3" % IMAGES, [draw.random() for _ in range(3 * IMAGES)])])
        self.write("db/list.txt", self.path("db/rows.h5") + "\n")

    def test_trains_alike_under_every_table_and_however_it_is_spread(self):
        divided = self.expect_equal_tables(self.net("data label odd place"))
        for layers in (("odd place label data",), ("data label", "place odd"), ("place label", "odd data")):
            self.expect_bits_of_database(self.net(*layers), divided)

    def test_programs_that_read_nets(self):
        self.expect_programs_read(self.net("data label", "odd place"))
        solver = "--solver=" + self.path("solver.prototxt")
        planned = ["--hosts=127.0.0.1", "--cache_dir=none", "--out=" + self.path("planned.prototxt")]
        status, text = cluster.run_tool("hproute", solver, "--conv=2", "--fc=1", *planned)
        self.assertEqual(status, 0, text)
        status, text = cluster.run_tool("hptime", "--model=" + self.path("net.prototxt"), "--iterations=2", "--cache_dir=none")
        self.assertEqual(status, 0, text)
        shutil.rmtree(self.path("db"))
        check = ["--check", self.path("planned.prototxt"), "--cache_dir=none"]
        for sample, expected, said in (("1,12,12+1+3", 0, "valid"), ("1,12,12++3", 0, "valid"), ("1,12,12", 2, 'expected 2 shape(s) beside those of its data and labels: of "odd", "place"'),
                                       ("1,12,12+1+4", 2, "bottoms have shapes"), ("1,12,12/", 2, "behind a plus each further top"),
                                       ("1,12,12+1,2,3,4+3", 2, "behind a plus each further top")):
            status, text = cluster.run_tool("hproute", *check, "--sample=" + sample)
            self.assertEqual(status, expected, text)
            self.assertIn(said, text)

    def test_a_net_that_a_program_fills(self):
        given = 'layer { name: "in" type: "Input" top: "data" top: "label" input_param { shape { dim: 12 dim: 1 dim: 12 dim: 12 } shape { dim: 12 } } }'
        self.make_job(iterations=20, net=net_with([given, ""]))
        self.make_table(conv=1, fc=0, micro_batches=1)
        self.refused(r'net\.prototxt:\d+: layer "in": an Input layer, whose blobs a program fills, in phase TRAIN; expected')
        for flags in (["--check", self.path("table.prototxt")], ["--solver=" + self.path("solver.prototxt")],
                      ["--solver=" + self.path("solver.prototxt"), "--conv=1", "--fc=0", "--hosts=127.0.0.1", "--out=" + self.path("no.prototxt")]):
            status, text = cluster.run_tool("hproute", *flags, "--sample=1,12,12", "--cache_dir=none")
            self.assertEqual(status, 2, text)
            self.assertRegex(text, r'net\.prototxt:\d+: layer "in": an Input layer, whose blobs a program fills, in phase TRAIN')
        memory = 'layer { name: "more" type: "MemoryData" top: "x" top: "y" memory_data_param { batch_size: 12 channels: 1 height: 2 width: 2 } }'
        for layers in (memory, memory.replace('"x" top: "y"', '"data" top: "label"')):
            sources = [DummyDataTest.LAYER % ("TRAIN", 3.9) + layers if '"x"' in layers else layers, ""]
            self.make_job(iterations=20, net=net_with(sources))
            self.refused(r'net\.prototxt:\d+: layer "more": type MemoryData is a Caffe layer that hpnode does not support')

    def test_batches_that_differ(self):
        net = self.net("data label", "odd place")
        at = net.rindex("batch_size: 12")
        self.make_job(iterations=20, test=True, net=net[:at] + "batch_size: 11" + net[at + len("batch_size: 12"):])
        self.make_table(conv=1, fc=0, micro_batches=1)
        self.refused(r'layer "more" has a batch of 11 samples, and layer "data" of 12; expected the same')


def pixel_scores(columns):
    """Layers that give each of 3 x `columns` pixels 4 scores."""
    return """
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1" convolution_param { num_output: 4 kernel_size: 3
        weight_filler { type: "xavier" } } }
layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1" pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "ip1" type: "InnerProduct" bottom: "pool1" top: "ip1" inner_product_param { num_output: %d
        weight_filler { type: "xavier" } } }
layer { name: "score" type: "Reshape" bottom: "ip1" top: "score"
        reshape_param { shape { dim: 0 dim: 4 dim: 3 dim: %d } } }
""" % (12 * columns, columns)


class PairedImagesTest(SourceTest):
    """Images of one database, and of another images whose pixels are labels: as rows of an HDF5 file that has both."""
    NET = "%s" + pixel_scores(3) + """
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "score" bottom: "label" top: "loss" loss_param { ignore_label: 0 } }
layer { name: "accuracy" type: "Accuracy" bottom: "score" bottom: "label" top: "accuracy" include { phase: TEST } }
"""
    DATA = 'layer { name: "%s" type: "Data" top: "%s" data_param { source: "%s" batch_size: 12 backend: LMDB } %s }'

    def test_trains_as_rows_do(self):
        draw = random.Random(6)
        images = [[draw.randrange(256) for _ in range(cluster.SIDE ** 2)] for _ in range(IMAGES)]
        labels = [[image[13 * i] // 64 for i in range(9)] for image in images]
        self.write_lmdb("db/images", images, cluster.SIDE, [0] * IMAGES)
        self.write_lmdb("db/labels", labels, 3, [0] * IMAGES)
        pair = self.NET % "\n".join(
            (self.DATA % ("data", "data", "%(source)s/images", "transform_param { scale: 0.0078125 }"),
             self.DATA % ("names", "label", "%(source)s/labels", "")))
        divided = self.expect_equal_tables(pair, fc=0)
        self.write_hdf5("db/rows.h5", [
            ("data", "float", "%d,1,%d,%d" % (IMAGES, cluster.SIDE, cluster.SIDE), [p / 128 for image in images for p in image]),
            ("label", "int", "%d,1,3,3" % IMAGES, [label for row in labels for label in row])])
        self.write("db/list.txt", self.path("db/rows.h5") + "\n")
        rows = self.NET % ('layer { name: "data" type: "HDF5Data" top: "data" top: "label" hdf5_data_param { '
                           'source: "%(source)s/list.txt" batch_size: 12 } }')
        self.expect_bits_of_database(rows, divided, fc=0)


class LabelsOfPixelsTest(SourceTest):
    LOSS = 'type: "SoftmaxWithLoss" bottom: "score" bottom: "label" top: "loss" loss_param { ignore_label: 0 }'
    NET = """layer { name: "data" type: "DummyData" top: "data" top: "label" dummy_data_param {
        shape { dim: 12 dim: 1 dim: 12 dim: 12 } shape { dim: 12 dim: 3 dim: 2 }
        data_filler { type: "gaussian" std: 1 } data_filler { type: "uniform" min: 0 max: 3.99 } } }
""" + pixel_scores(2) + """layer { name: "loss" %s }
layer { name: "accuracy" type: "Accuracy" bottom: "score" bottom: "label" top: "accuracy" include { phase: TEST }
        accuracy_param { ignore_label: 0 } }
""" % LOSS

    def make(self, before="", after="", conv=1, fc=0):
        self.make_job(iterations=20, test=True, net=self.NET.replace(before, after, 1))
        self.make_table(conv=conv, fc=fc, micro_batches=1)

    def test_a_loss_on_shards_is_refused(self):
        self.make(fc=2)
        said = (r'layer "loss": reads 6 labels of each row, which stay on the nodes that read the samples; expected it in '
                "the first stage")
        self.expect_exit(self.start("--all"), 2, r"net\.prototxt:\d+: " + said)
        status, text = cluster.run_tool("hproute", "--check", self.path("table.prototxt"), "--cache_dir=none")
        self.assertEqual(status, 2, text)
        self.assertRegex(text, said)

    def test_what_does_not_fit_is_named(self):
        for before, after, said in (
                ("dim: 12 dim: 3 dim: 2 }", "dim: 12 dim: 3 dim: 3 }",
                 r'labels have shape \[1 3 3\]; expected one for each of the 1 rows and 6 pixels of \[1 4 3 2\]'),
                ("dim: 12 dim: 3 dim: 2 }", "dim: 12 }",
                 r"labels have shape \[1\]; expected one for each of the 1 rows and 6 pixels"),
                ('bottom: "score" bottom: "label" top: "loss"', 'bottom: "ip1" bottom: "label" top: "loss"',
                 r"labels have shape \[1 3 2\]; expected one for each of the 1 rows of \[1 24\]"),
                (self.LOSS, self.LOSS.split(" loss_param")[0].replace("SoftmaxWith", "Hinge"),
                 r"labels have shape \[1 3 2\]; expected one for each of the 1 rows of \[1 4 3 2\]"),
                ("max: 3.99", "max: 9",
                 r"batch 0, rows from 0: label [4-8] \(number [0-5]\) of row \d+ is not in 0\.\.3")):
            self.make(before, after)
            self.refused(r'layer "(?:loss|accuracy)"[:,] ' + said)


class DummyDataTest(SourceTest):
    LAYER = """layer { name: "data" type: "DummyData" top: "data" top: "label" include { phase: %s }
        dummy_data_param { shape { dim: 12 dim: 1 dim: 12 dim: 12 } shape { dim: 12 }
        data_filler { type: "gaussian" std: 0.5 } data_filler { type: "uniform" max: %s } } }"""

    def test_trains_alike_under_every_table(self):
        self.expect_equal_tables(net_with([self.LAYER % ("TRAIN", 3.999), self.LAYER % ("TEST", 3.999)]))
        status, text = cluster.run_tool("hproute", "--check", self.path("table.prototxt"), "--cache_dir=none")
        self.assertEqual(status, 0, text)
        status, text = cluster.run_tool("model_test", "--model=" + self.path("net.prototxt"), "--iterations=2",
                                        "--weights=" + self.path("out_iter_20.caffemodel"), "--cache_dir=none")
        self.assertEqual(status, 0, text)
        head, _, tail = self.read("net.prototxt").decode().rpartition("max: 3.999")  # that of the test
        self.write("other.prototxt", head + "max: 9" + tail)
        status, text = cluster.run_tool("model_test", "--model=" + self.path("other.prototxt"), "--iterations=2",
                                        "--weights=" + self.path("out_iter_20.caffemodel"), "--cache_dir=none")
        self.assertEqual(status, 2, text)
        self.assertRegex(text, r'layer "\w+", batch \d+, .*label [4-8] of row \d+ is not in 0\.\.3')
        status, text = cluster.run_tool("hpextract", "--model=" + self.path("other.prototxt"), "--blobs=ip1", "--iterations=2",
                                        "--weights=" + self.path("out_iter_20.caffemodel"), "--out=" + self.path("features"))
        self.assertEqual(status, 0, text)

    def test_faults(self):
        net = net_with([self.LAYER % ("TRAIN", 9), self.LAYER % ("TEST", 9)])
        self.make_job(iterations=20, net=net)
        self.make_table(conv=1, fc=0, micro_batches=1)
        self.refused(r'layer "loss", batch 0, .*label [4-8] of row \d+ is not in 0\.\.3')
        self.make_job(iterations=20, net=net.replace("shape { dim: 12 }", "shape { dim: 11 }"))
        self.refused(r'layer "data": top "label" has the shape \[11\]; expected \[12\] or \[12, \.\.\.\], as many rows as top "data"')


if __name__ == "__main__":
    cluster.main()
