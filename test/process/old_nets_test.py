"""Nets of Caffe's older forms train to the bits of the same net written today, and nodes with files of different ages
agree. A net may stand in the solver's file."""

import os
import re
import sys

import cluster

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import caffe_wire  # pylint: disable=wrong-import-position

# cluster.NET in the forms of 2014 and 2013.
V1 = """name: "tiny"
layers { name: "data" type: DATA top: "data" top: "label"
  data_param { source: "%(source)s" batch_size: 16 scale: 0.00390625 } }
layers { name: "conv1" type: CONVOLUTION bottom: "data" top: "conv1"
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layers { name: "pool1" type: POOLING bottom: "conv1" top: "pool1"
  pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layers { name: "ip1" type: INNER_PRODUCT bottom: "pool1" top: "ip1" blobs_lr: 1 blobs_lr: 2
  inner_product_param { num_output: %(hidden)d weight_filler { type: "xavier" } } }
layers { name: "relu1" type: RELU bottom: "ip1" top: "ip1" }
layers { name: "ip2" type: INNER_PRODUCT bottom: "ip1" top: "ip2"
  inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layers { name: "loss" type: SOFTMAX_LOSS bottom: "ip2" bottom: "label" top: "loss" }
"""
V0 = """name: "tiny"
layers { layer { name: "data" type: "data" source: "%(source)s" batchsize: 16 scale: 0.00390625 }
  top: "data" top: "label" }
layers { layer { name: "pad1" type: "padding" pad: 1 } bottom: "data" top: "pad1" }
layers { layer { name: "conv1" type: "conv" num_output: 4 kernelsize: 3 weight_filler { type: "xavier" } }
  bottom: "pad1" top: "conv1" }
layers { layer { name: "pool1" type: "pool" pool: MAX kernelsize: 2 stride: 2 } bottom: "conv1" top: "pool1" }
layers { layer { name: "ip1" type: "innerproduct" num_output: %(hidden)d weight_filler { type: "xavier" }
    blobs_lr: 1 blobs_lr: 2 } bottom: "pool1" top: "ip1" }
layers { layer { name: "relu1" type: "relu" } bottom: "ip1" top: "ip1" }
layers { layer { name: "ip2" type: "innerproduct" num_output: 4 weight_filler { type: "xavier" } }
  bottom: "ip1" top: "ip2" }
layers { layer { name: "loss" type: "softmax_loss" } bottom: "ip2" bottom: "label" top: "loss" }
"""
TODAY = """name: "tiny"
layer { name: "data" type: "Data" top: "data" top: "label" transform_param { scale: 0.00390625 }
  data_param { source: "%(source)s" batch_size: 16 } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1"
  pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: "ip1" type: "InnerProduct" bottom: "pool1" top: "ip1" param { lr_mult: 1 } param { lr_mult: 2 }
  inner_product_param { num_output: %(hidden)d weight_filler { type: "xavier" } } }
layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }
layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
  inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }
"""


class OldNetsTest(cluster.JobTest):

    def trained(self, net, test=False, solver="", flags=()):
        self.make_job(iterations=12, snapshot=100, net=net, test=test, solver=solver)
        self.nodes = self.run_job(self.make_table(conv=2, fc=2), *flags)
        return self.read("out_iter_12.caffemodel"), self.read("out_iter_12.solverstate"), self.nodes["conv0"].text()

    def test_all_forms_train_to_the_same_bits(self):
        model, state, log = self.trained(TODAY)
        self.assertNotIn("is read in the form", log)
        for net, form in ((V0, "2013"), (V1, "2014")):
            old_model, old_state, log = self.trained(net)
            self.assertRegex(log, r'net\.prototxt is read in the form of today.* it has "layers" of the form of ' + form)
            self.assertEqual(old_model, model, "the caffemodel of the form of " + form)
            self.assertEqual(old_state, state, "the solverstate of the form of " + form)

    def test_fields_that_moved_count_in_old_forms_alone(self):
        """As in Caffe, whose upgrade moves them to transform_param in "layers", and which ignores them in a "layer"."""
        state = self.trained(TODAY)[1]  # the histories, which hold all gradients; models also hold what the layers say
        vain = TODAY.replace("batch_size: 16", "batch_size: 16 scale: 9 crop_size: 5 mirror: true")
        _, vain_state, log = self.trained(vain)
        self.assertEqual(vain_state, state)
        for field in ("scale", "crop_size", "mirror"):
            self.assertEqual(len(re.findall(r'layer "data": data_param { %s } is ignored, as in Caffe' % field, log)), 1)
        self.assertNotEqual(self.trained(V1.replace("scale: 0.00390625", "scale: 0.0078125"))[1], state)

    def test_a_net_of_nvidias(self):
        """Its BatchNorm has the Scale behind it inside, its solver other names for a warm-up, its weights five blobs."""
        norm = 'layer { name: "bn" type: "BatchNorm" bottom: "conv1" top: "conv1" %s}\n'
        scale = ('layer { name: "bn_scale" type: "Scale" bottom: "conv1" top: "conv1" scale_param { bias_term: true '
                 'filler { value: 2 } bias_filler { value: 0.5 } } }\n')
        inside = "batch_norm_param { engine: CUDNN scale_filler { value: 2 } bias_filler { value: 0.5 } } "
        ours, theirs = (TODAY.replace('layer { name: "pool1"', layers + 'layer { name: "pool1"')
                        for layers in (norm % "" + scale, norm % inside))
        model, state, _ = self.trained(ours, solver="warmup_iter: 6\nwarmup_start_lr: 0.001\n")
        nvidias = "rampup_interval: 6\nrampup_lr: 0.001\n"
        _, their_state, log = self.trained(theirs, solver=nvidias)
        self.assertRegex(log, "it has engines of a fork of Caffe, .*; a BatchNorm with scale_bias")
        self.assertEqual(their_state, state)
        blobs = caffe_wire.read_caffemodel(self.path("out_iter_12.caffemodel"))
        self.assertEqual([len(blobs["bn"]), len(blobs["bn_scale"])], [3, 2])

        blobs["bn"] += blobs.pop("bn_scale")
        with open(self.path("nvidias.caffemodel"), "wb") as file:
            for name, arrays in blobs.items():
                layer = caffe_wire.message(1, name.encode()) + caffe_wire.message(2, b"BatchNorm" if name == "bn" else b"X")
                layer += b"".join(caffe_wire.message(7, caffe_wire.blob_bytes(array)) for array in arrays)
                file.write(caffe_wire.message(100, layer))
        with open(self.path("ours.caffemodel"), "wb") as file:
            file.write(model)
        weights = ["--weights=" + self.path(name + ".caffemodel") for name in ("ours", "nvidias")]
        from_ours = self.trained(ours, flags=weights[:1])[1]
        _, from_theirs, log = self.trained(theirs, flags=weights[1:])
        self.assertEqual(from_theirs, from_ours)
        self.assertRegex(log, r"nvidias\.caffemodel: weights of 5 layer\(s\) loaded\n")

    def test_nodes_with_files_of_different_ages_agree(self):
        names = self.make_table(conv=2, fc=1)
        self.make_job(iterations=12, net=TODAY)
        self.write("old.prototxt", V0 % {"source": self.path("db"), "hidden": 16})
        with open(self.path("solver.prototxt"), encoding="utf-8") as file:
            self.write("old_solver.prototxt", file.read().replace('"net.prototxt"', '"old.prototxt"'))
        self.make_table(conv=2, fc=1, name="old_table.prototxt", solver="old_solver.prototxt",
                        ports=[self.ports[name] for name in names])
        nodes = [self.start(name=name, table="old_table.prototxt" if name == "conv1" else "table.prototxt")
                 for name in names]
        self.expect_all(nodes, 0, "Optimization Done")

    def test_a_net_inside_the_solver(self):
        model, state, _ = self.trained(TODAY)
        self.make_job(iterations=12, snapshot=100)
        with open(self.path("solver.prototxt"), encoding="utf-8") as file:
            text = file.read()
        inside = "net_param {\n%s}\n" % (V1 % {"source": self.path("db"), "hidden": 16})
        self.write("solver.prototxt", text.replace('net: "net.prototxt"\n', inside))
        os.remove(self.path("net.prototxt"))
        self.run_job(self.make_table(conv=2, fc=2))
        self.assertEqual(self.read("out_iter_12.caffemodel"), model)
        self.assertEqual(self.read("out_iter_12.solverstate"), state)

    def test_a_net_for_each_phase(self):
        """train_net and test_net: what one net with phases computes, in training and in tests."""
        accuracy = 'layer { name: "accuracy" type: "Accuracy" bottom: "ip2" bottom: "label" top: "accuracy"%s }\n'
        model, state, _ = self.trained(TODAY + accuracy % " include { phase: TEST }", test=True)
        tests = re.findall(r"Test net output.*", self.nodes["fc0"].text())
        self.assertTrue(any("accuracy" in line for line in tests), tests)
        self.make_job(iterations=12, snapshot=100, net=TODAY, test=True)
        with open(self.path("net.prototxt"), encoding="utf-8") as file:
            train = file.read()
        # How parameters begin and learn is of the training's net.
        test = re.sub(r" (weight_filler|param) { [^}]* }", "", train) + accuracy % ""
        self.write("train.prototxt", train)
        self.write("test.prototxt", test)
        os.remove(self.path("net.prototxt"))
        with open(self.path("solver.prototxt"), encoding="utf-8") as file:
            text = file.read()
        apart = 'train_net: "train.prototxt"\ntest_net: "test.prototxt"\n'
        self.write("solver.prototxt", text.replace('net: "net.prototxt"\n', apart))
        nodes = self.run_job(self.make_table(conv=2, fc=2))
        self.assertEqual(self.read("out_iter_12.caffemodel"), model)
        self.assertEqual(self.read("out_iter_12.solverstate"), state)
        self.assertEqual(re.findall(r"Test net output.*", nodes["fc0"].text()), tests)

    def test_hpconvert_writes_them_in_todays_form(self):
        written = []
        for net in (TODAY, V1, V0):
            self.make_job(net=net)
            status, text = cluster.run_tool("hpconvert", "upgrade", self.path("net.prototxt"), self.path("new.prototxt"))
            self.assertEqual(status, 0, text)
            written.append(self.read("new.prototxt"))
            self.assertRegex(text, "new.prototxt: a net, which " + ("was" if net is TODAY else "had \"layers\" of the form"))
        self.assertEqual(written[1:], written[:1] * 2)
        for words, said in ((("upgrade", self.path("none"), self.path("x")), "none: no such file"),
                            (("downgrade", "a", "b"), 'hpconvert: "downgrade" is unknown; expected upgrade')):
            status, text = cluster.run_tool("hpconvert", *words)
            self.assertEqual((status, said in text), (2, True), text)

    def test_a_field_of_another_type(self):
        self.make_job(iterations=12, net=V0.replace('type: "relu"', 'type: "relu" kernelsize: 3'))
        node = self.start(name=self.make_table(conv=1, fc=0)[0])
        self.expect_exit(node, 2, r'net\.prototxt:10: layer "relu1": field "kernelsize" does not belong to a layer '
                                  r'of type relu')


if __name__ == "__main__":
    cluster.main()
