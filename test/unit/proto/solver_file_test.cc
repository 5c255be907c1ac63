#include "proto/net_filter.h"
#include "proto/place.h"
#include "proto/text.h"
#include "test/unit/proto/file_test.h"

#include <gmock/gmock.h>

#include <filesystem>

namespace hp {
namespace {

using ::testing::StartsWith;

constexpr char kNet[] = "name: 'n'\nlayer { name: 'a' type: 'ReLU' bottom: 'x' top: 'x' }\n";

class SolverFileTest : public test::FileTest {};

TEST_F(SolverFileTest, NetIsFoundBesideTheSolver) {
  Write("nets/net.prototxt", kNet);
  const std::string path = Write("solver.prototxt", "net: \"nets/net.prototxt\" base_lr: 0.5");
  const auto solver = ReadSolver(path);
  ASSERT_TRUE(solver.ok()) << solver.status();
  EXPECT_EQ(solver->net(), folder_ + "/nets/net.prototxt");
  const auto net = NetOfSolver(*solver);
  ASSERT_TRUE(net.ok()) << net.status();
  EXPECT_EQ(net->name(), "n");
}

TEST_F(SolverFileTest, WeightsAreListsOfFilesFoundBesideTheSolver) {
  Write("net.prototxt", kNet);
  const std::string beside = Write("a.caffemodel", "");
  const auto solver =
      ReadSolver(Write("s.prototxt", "net: 'net.prototxt' weights: 'a.caffemodel,b.caffemodel' weights: '/c'"));
  ASSERT_TRUE(solver.ok()) << solver.status();
  EXPECT_EQ(WeightsOf(*solver), (std::vector<std::string>{beside, "b.caffemodel", "/c"}));
}

TEST_F(SolverFileTest, SnapshotsAreNamedAfterTheSolverUnlessItSaysOtherwise) {
  Write("net.prototxt", kNet);
  const auto prefix = [this](const std::string& field) {
    const auto solver = ReadSolver(Write("my.solver.prototxt", "net: \"net.prototxt\" " + field));
    EXPECT_TRUE(solver.ok()) << solver.status();
    return solver.ok() ? solver->snapshot_prefix() : "";
  };
  EXPECT_EQ(prefix(""), folder_ + "/my.solver");
  EXPECT_EQ(prefix("snapshot_prefix: 'snap/lenet'"), "snap/lenet");
  EXPECT_EQ(prefix("snapshot_prefix: '" + folder_ + "'"), folder_ + "/my.solver") << "a folder";
}

TEST_F(SolverFileTest, ErrorsOfALayerNameItsLine) {
  const std::string two =
      "layer { name: 'a' type: 'ReLU' bottom: 'x' top: 'x' }\n# a comment\n\n  layer {\n name: 'b' "
      "type: 'ReLU' bottom: 'x' top: 'x' }\n";
  const std::string path = Write("net.prototxt", "name: 'n'\n" + two);
  const auto net = ReadNet(path);
  ASSERT_TRUE(net.ok()) << net.status();
  const Status wrong = InvalidArgument("layer \"b\": is wrong");
  EXPECT_EQ(AtLayer(wrong, *net).message(), path + ":5: layer \"b\": is wrong");
  EXPECT_EQ(AtLayer(AtLayer(wrong, *net), *net).message(), path + ":5: layer \"b\": is wrong") << "once";
  EXPECT_EQ(AtLayer(wrong, *net).code(), wrong.code());
  for (const char* const other : {"layer \"c\": is wrong", "is wrong", "layer \"b", ""}) {
    EXPECT_EQ(AtLayer(InvalidArgument("%s", other), *net).message(), other);
  }
  EXPECT_TRUE(AtLayer(OkStatus(), *net).ok());
  EXPECT_EQ(AtLayer(wrong, caffe::NetParameter()).message(), wrong.message());

  const std::string inlined = Write("inlined.prototxt", "base_lr: 1\nnet_param {\n" + two + "}\n");
  const auto with_net = ReadSolver(inlined);
  ASSERT_TRUE(with_net.ok()) << with_net.status();
  EXPECT_EQ(AtLayer(wrong, with_net->net_param()).message(), inlined + ":6: layer \"b\": is wrong");
}

/// Which editors of Windows put in front of a text.
TEST_F(SolverFileTest, AByteOrderMarkIsPassedOver) {
  const std::string mark = "\xEF\xBB\xBF";
  const auto net = ReadNet(Write("net.prototxt", mark + kNet));
  ASSERT_TRUE(net.ok()) << net.status();
  EXPECT_EQ(net->name(), "n");
  const std::string wrong = Write("net.prototxt", mark + "nmae: 'n'");
  EXPECT_THAT(ReadNet(wrong).status().message(), StartsWith(wrong + ":1:1: unknown field \"nmae\""));
}

/// Caffe's nets have a layer "data" for each phase.
TEST_F(SolverFileTest, ErrorsOfALayerNameTheLineOfItsPhase) {
  const Status wrong = InvalidArgument("layer \"data\": is wrong");
  const std::string of_phases =
      "layer { name: 'data' type: 'T' include { phase: TRAIN } }\n"
      "layer { name: 'data' type: 'T' include { phase: TEST } }\n";
  const std::string path = Write("net.prototxt", of_phases);
  const auto net = ReadNet(path);
  ASSERT_TRUE(net.ok()) << net.status();
  EXPECT_EQ(AtLayer(wrong, *net, caffe::TRAIN).message(), path + ":1: layer \"data\": is wrong");
  EXPECT_EQ(AtLayer(wrong, *net, caffe::TEST).message(), path + ":2: layer \"data\": is wrong");

  const std::string apart = "\n\nlayer { name: 'data' type: '";
  const std::string train = Write("tr.prototxt", "layer { name: 'data' type: 'A' }");
  const std::string test = Write("te.prototxt", apart + "B' }"), further = Write("te2.prototxt", "\n" + apart + "C' }");
  const auto solver = ReadSolver(Write("s.prototxt",
                                       "train_net: 'tr.prototxt' test_net: 'te.prototxt' test_net: 'te2.prototxt' "
                                       "test_iter: 1 test_iter: 1"));
  ASSERT_TRUE(solver.ok()) << solver.status();
  const caffe::NetParameter& all = solver->net_param();
  EXPECT_EQ(AtLayer(wrong, all, caffe::TRAIN).message(), train + ":1: layer \"data\": is wrong");
  EXPECT_EQ(AtLayer(wrong, all, caffe::TEST).message(), test + ":3: layer \"data\": is wrong");
  EXPECT_EQ(AtLayer(wrong, all, Phase::OfTest(1)).message(), further + ":4: layer \"data\": is wrong");
}

TEST_F(SolverFileTest, ErrorsOfOldLayersNameTheirLines) {
  const auto error = [this](const std::string& text) {
    return ReadNet(Write("net.prototxt", text)).status().message().substr(folder_.size());
  };
  EXPECT_THAT(error("layers { name: 'a' type: RELU }\nlayers { name: 'a' }"),
              StartsWith("/net.prototxt:2: layer \"a\": an entry of \"layers\" without a type"));
  EXPECT_THAT(error("layers { layer { name: 'a' type: 'relu' } }\n\nlayers { layer { name: 'a' type: 'relu' k: 1 } }"),
              StartsWith("/net.prototxt:3: layer \"a\": field \"k\" does not belong to a layer of type relu"));
  EXPECT_THAT(error("layers { layer { name: 'p' type: 'padding' pad: 1 } }\nlayers { name: 'a' type: RELU }"),
              StartsWith("/net.prototxt:2: layer \"a\": of the form of 2014 in a net of the form of 2013"));
  EXPECT_THAT(error("name: 'n'\ninput: 'x'\ninput_dim: 1\nlayer { name: 'a' type: 'ReLU' }"),
              StartsWith("/net.prototxt:2: the net has 1 input, 0 input_shape and 1 input_dim"));
  const std::string path = Write("s.prototxt", "net_param {\n  input: 'x'\n  layer { name: 'a' type: 'ReLU' }\n}");
  EXPECT_THAT(ReadSolver(path).status().message(), StartsWith(path + ":2: the net has 1 input"));
}

/// A layer that reading has made stands where the entry does that it was made of.
TEST_F(SolverFileTest, ErrorsOfLayersThatAnUpgradeMadeNameALine) {
  const std::string path = Write("net.prototxt",
                                 "name: 'n'\ninput: 'x' input_shape { dim: 1 }\n"
                                 "layer { name: 'bn' type: 'BatchNorm' bottom: 'x' top: 'x' batch_norm_param { "
                                 "scale_bias: true } }");
  const auto net = ReadNet(path);
  ASSERT_TRUE(net.ok()) << net.status();
  EXPECT_EQ(AtLayer(InvalidArgument("layer \"input\": is wrong"), *net).message(),
            path + ":2: layer \"input\": is wrong");
  EXPECT_EQ(AtLayer(InvalidArgument("layer \"bn_scale\": is wrong"), *net).message(),
            path + ":3: layer \"bn_scale\": is wrong");
}

TEST_F(SolverFileTest, FaultsOfFieldsNameTheirLines) {
  const std::string solver =
      Write("solver.prototxt", "net: 'net.prototxt'\n# momentum: 1\n\nmomentum: -1\ntest_iter: 0\n");
  const std::string several = Write("several.prototxt", "test_iter: 5\ntest_iter: -1\ntest_iter: -2");
  EXPECT_EQ(AtFields(InvalidArgument("test_iter: -2; expected more"), several).message(),
            several + ":3: test_iter: -2; expected more");
  const Status faults = InvalidArgument("momentum: -1; wrong\ntest_iter, several\nmax_iter: missing\nno field");
  EXPECT_EQ(AtFields(faults, solver).message(), solver + ":4: momentum: -1; wrong\n" + solver +
                                                    ":5: test_iter, several\n" + solver + ": max_iter: missing\n" +
                                                    solver + ": no field");
  EXPECT_EQ(AtFields(faults, solver).code(), faults.code());
  const std::string nvidias =
      Write("nvidias.prototxt", "net: 'net.prototxt'\nrampup_interval: -1\nwarmup_start_lr: -2\n");
  EXPECT_EQ(
      AtFields(InvalidArgument("warmup_iter: -1; wrong\nwarmup_start_lr: -2\ntype: none"), nvidias).message(),
      nvidias + ":2: rampup_interval: -1; wrong\n" + nvidias + ":3: warmup_start_lr: -2\n" + nvidias + ": type: none");
  EXPECT_TRUE(AtFields(OkStatus(), solver).ok());
  EXPECT_EQ(AtFields(InvalidArgument("momentum: -1"), folder_ + "/absent").message(),
            folder_ + "/absent: momentum: -1");
}

TEST_F(SolverFileTest, WorkingDirectoryComesFirst) {
  Write("net.prototxt", "name: 'beside'\nlayer { name: 'a' type: 'ReLU' }");
  Write("cwd/net.prototxt", kNet);
  const std::string path = Write("solver.prototxt", "net: \"net.prototxt\"");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder_ + "/cwd");
  const auto solver = ReadSolver(path);
  const auto net = solver.ok() ? NetOfSolver(*solver) : StatusOr<caffe::NetParameter>(solver.status());
  std::filesystem::current_path(before);
  ASSERT_TRUE(net.ok()) << net.status();
  EXPECT_EQ(net->name(), "n");
}

TEST_F(SolverFileTest, MissingNetNamesBothPlaces) {
  const std::string path = Write("solver.prototxt", "net: \"no_such.prototxt\"");
  const auto solver = ReadSolver(path);
  EXPECT_EQ(solver.status().code(), StatusCode::kNotFound);
  EXPECT_EQ(solver.status().message(),
            path + ":1: net \"no_such.prototxt\": no such file: no_such.prototxt or " + folder_ + "/no_such.prototxt");
}

TEST_F(SolverFileTest, FaultsOfANetInTheSolverNameTheLine) {
  const std::string path =
      Write("s.prototxt", "net_param {\n layer { name: 'a' type: 'ReLU' }\n layer { name: 'b' }\n}");
  EXPECT_EQ(ReadSolver(path).status().message(), path + ":3: layer \"b\" has no type; expected type: \"...\"");
}

TEST_F(SolverFileTest, NetInTheSolverAndNoNetAtAll) {
  const auto inside = ReadSolver(Write("a.prototxt", "net_param { layer { name: 'a' type: 'ReLU' } }"));
  ASSERT_TRUE(inside.ok()) << inside.status();
  EXPECT_EQ(NetOfSolver(*inside)->layer(0).name(), "a");
  const std::string none = Write("b.prototxt", "base_lr: 1");
  EXPECT_EQ(ReadSolver(none).status().message(),
            none +
                ": the solver names no net to train; expected one of net: \"...\", net_param { ... }, train_net and "
                "train_net_param");
}

/// The names of a net's layers, each with its phase: "a data/TRAIN".
std::string Layers(const StatusOr<caffe::SolverParameter>& solver) {
  if (!solver.ok()) return solver.status().message();
  std::string text;
  const auto net = NetOfSolver(*solver);
  for (const caffe::LayerParameter& layer : net->layer()) {
    text += (text.empty() ? "" : " ") + layer.name();
    for (const caffe::NetStateRule& rule : layer.include()) text += "/" + caffe::Phase_Name(rule.phase());
    EXPECT_EQ(layer.exclude_size(), 0);
  }
  return text;
}

constexpr char kTrain[] =
    "layer { name: 'data' type: 'Data' top: 'data' data_param { source: 'a' } }\n"
    "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' param { lr_mult: 2 } "
    "convolution_param { num_output: 3 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'drop' type: 'Dropout' bottom: 'conv' top: 'conv' }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'conv' top: 'loss' }\n";
constexpr char kTest[] =
    "layer { name: 'data' type: 'Data' top: 'data' data_param { source: 'b' } }\n"
    "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' convolution_param { num_output: 3 } }\n"
    "layer { name: 'accuracy' type: 'Accuracy' bottom: 'conv' top: 'accuracy' }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'conv' top: 'loss' }\n";

TEST_F(SolverFileTest, TwoNetsBecomeOne) {
  Write("train.prototxt", kTrain);
  Write("test.prototxt", kTest);
  const std::string both = "data/TRAIN data/TEST conv drop/TRAIN accuracy/TEST loss";
  const auto files =
      ReadSolver(Write("s.prototxt", "train_net: 'train.prototxt' test_net: 'test.prototxt' test_iter: 1"));
  EXPECT_EQ(Layers(files), both);
  const caffe::LayerParameter& conv = files->net_param().layer(2);
  EXPECT_EQ(conv.param(0).lr_mult(), 2) << "how it learns is in the net of training";
  EXPECT_EQ(conv.convolution_param().weight_filler().type(), "xavier");
  EXPECT_EQ(Layers(ReadSolver(Write("s.prototxt", std::string("train_net_param {") + kTrain + "} test_net_param {" +
                                                      kTest + "} test_iter: 1"))),
            both);
  EXPECT_EQ(Layers(ReadSolver(Write("s.prototxt", "net: 'train.prototxt' test_net: 'test.prototxt' test_iter: 1"))),
            both);
  EXPECT_EQ(Layers(ReadSolver(Write("s.prototxt", "train_net: 'train.prototxt'"))), "data conv drop loss") << "no test";
}

/// The layers of one phase, and the sources of those that read: "data=a conv loss".
std::string LayersOfPhase(const caffe::NetParameter& net, Phase phase) {
  std::string text;
  const caffe::NetParameter of_phase = FilterNet(net, phase);
  for (const caffe::LayerParameter& layer : of_phase.layer()) {
    text += (text.empty() ? "" : " ") + layer.name();
    if (layer.has_data_param()) text += "=" + layer.data_param().source();
  }
  return text;
}

TEST_F(SolverFileTest, TheOrderOfTestsIsFree) {
  const std::string begin = "layer { name: 'data' type: 'Data' top: 'data' data_param { source: 'a' } }";
  const std::string loss = "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'data' top: 'loss' }";
  const std::string accuracy = "layer { name: 'accuracy' type: 'Accuracy' bottom: 'data' top: 'accuracy' }";
  const std::string behind = "test_net_param {" + begin + loss + accuracy + "} test_iter: 1 ";
  const std::string before = "test_net_param {" + begin + accuracy + loss + "} test_iter: 1 ";
  const std::string train = "train_net_param {" + begin + loss + "} ";
  for (const bool first : {true, false}) {
    const auto solver = ReadSolver(Write("s.prototxt", train + (first ? behind + before : before + behind)));
    ASSERT_TRUE(solver.ok()) << solver.status();
    EXPECT_EQ(LayersOfPhase(solver->net_param(), Phase::OfTest(first ? 0 : 1)), "data=a loss accuracy");
    EXPECT_EQ(LayersOfPhase(solver->net_param(), Phase::OfTest(first ? 1 : 0)), "data=a accuracy loss");
    EXPECT_EQ(LayersOfPhase(solver->net_param(), caffe::TRAIN), "data=a loss");
  }
}

TEST_F(SolverFileTest, WhatALayerWithoutBottomsGivesIsItsOwn) {
  const auto net = [](const std::string& kind, int value) {
    return kind + "_net_param { layer { name: 'data' type: 'DummyData' top: 'data' dummy_data_param { data_filler { " +
           "type: 'constant' value: " + std::to_string(value) + " } shape { dim: 1 } } } } ";
  };
  const auto solver =
      ReadSolver(Write("s.prototxt", net("train", 1) + net("test", 2) + net("test", 3) + "test_iter: 1 test_iter: 1"));
  ASSERT_TRUE(solver.ok()) << solver.status();
  for (int phase = 0; phase < 3; ++phase) {
    const caffe::NetParameter of_phase = FilterNet(solver->net_param(), Phase::At(phase));
    ASSERT_EQ(of_phase.layer_size(), 1);
    EXPECT_EQ(of_phase.layer(0).dummy_data_param().data_filler(0).value(), static_cast<float>(phase + 1));
  }
}

// Tables place layers by name and range: from "ip" on must mean the test's, too.
TEST_F(SolverFileTest, LayersOfOneNameStandTogether) {
  const std::string layers =
      "layer { name: 'data' type: 'Data' top: 'data' data_param { source: 'a' } }"
      "layer { name: 'pool' type: 'Pooling' bottom: 'data' top: 'p' }"
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'p' top: 'ip' }"
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' top: 'loss' }";
  std::string renamed = layers;
  for (size_t at; (at = renamed.find("'p'")) != renamed.npos;) renamed.replace(at, 3, "'q'");
  EXPECT_EQ(Layers(ReadSolver(
                Write("s.prototxt", "train_net_param {" + layers + "} test_net_param {" + renamed + "} test_iter: 1"))),
            "data pool/TRAIN pool/TEST ip/TRAIN ip/TEST loss");
}

TEST_F(SolverFileTest, EachTestHasLayersOfItsOwn) {
  Write("train.prototxt", kTrain);
  Write("test.prototxt", kTest);
  const std::string other = std::string(kTest).replace(std::string(kTest).find("'b'"), 3, "'c'");
  Write("hinge.prototxt", R"(
      layer { name: 'data' type: 'Data' top: 'data' data_param { source: 'b' batch_size: 9 } }
      layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' convolution_param { num_output: 3 } }
      layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'conv' top: 'loss' }
      layer { name: 'hinge' type: 'HingeLoss' bottom: 'conv' top: 'hinge' }
      layer { name: 'accuracy' type: 'Accuracy' bottom: 'conv' top: 'accuracy' })");
  const auto solver = ReadSolver(Write("s.prototxt",
                                       "train_net: 'train.prototxt' test_net: 'test.prototxt' test_net: "
                                       "'hinge.prototxt' test_net: 'test.prototxt' test_net_param {" +
                                           other + "} test_iter: 1 test_iter: 2 test_iter: 3 test_iter: 4"));
  ASSERT_TRUE(solver.ok()) << solver.status();
  const caffe::NetParameter& net = solver->net_param();
  EXPECT_EQ(LayersOfPhase(net, caffe::TRAIN), "data=a conv drop loss");
  EXPECT_EQ(LayersOfPhase(net, caffe::TEST), "data=c conv accuracy loss") << "test_net_param goes first, as in Caffe";
  EXPECT_EQ(LayersOfPhase(net, Phase::OfTest(1)), "data=b conv accuracy loss");
  EXPECT_EQ(LayersOfPhase(net, Phase::OfTest(2)), "data=b conv loss hinge accuracy") << "in its own order";
  EXPECT_EQ(LayersOfPhase(net, Phase::OfTest(3)), "data=b conv accuracy loss");
  EXPECT_EQ(DistinctPhases(net), PhasesWith(4));
  EXPECT_EQ(net.layer_size(), 10) << "data of training and of three tests, conv, drop, accuracy twice, loss, hinge";
}

TEST_F(SolverFileTest, TestsOfOneNetAreOnePhaseToTellApart) {
  Write("net.prototxt", kTrain);
  const auto solver = ReadSolver(Write("s.prototxt", "net: 'net.prototxt' test_iter: 1 test_iter: 2"));
  ASSERT_TRUE(solver.ok()) << solver.status();
  const auto net = NetOfSolver(*solver);
  ASSERT_TRUE(net.ok()) << net.status();
  EXPECT_EQ(DistinctPhases(*net), PhasesWith(1));
  EXPECT_EQ(LayersOfPhase(*net, Phase::OfTest(1)), "data=a conv drop loss");
}

/// As in Caffe, which runs no batch of it and prints nothing.
TEST_F(SolverFileTest, ATestOfNoBatchesIsNone) {
  Write("net.prototxt",
        "layer { name: 'a' type: 'T' include { phase: TRAIN } }"
        "layer { name: 'b' type: 'T' include { stage: 'x' } }"
        "layer { name: 'c' type: 'T' include { stage: 'y' } }");
  const auto one = ReadSolver(Write("one.prototxt", "net: 'net.prototxt' test_iter: 0 test_interval: 5"));
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->test_iter_size(), 0);
  const auto two = ReadSolver(Write("two.prototxt",
                                    "net: 'net.prototxt' test_iter: 0 test_iter: 7 "
                                    "test_state { stage: 'x' } test_state { stage: 'y' }"));
  ASSERT_TRUE(two.ok()) << two.status();
  ASSERT_EQ(two->test_iter_size(), 1);
  EXPECT_EQ(two->test_iter(0), 7);
  EXPECT_EQ(Layers(two), "a/TRAIN c/TEST");
}

TEST_F(SolverFileTest, StatesChooseLayers) {
  Write("net.prototxt",
        "layer { name: 'a' type: 'ReLU' } layer { name: 'b' type: 'ReLU' include { stage: 'deploy' } }"
        "layer { name: 'c' type: 'ReLU' exclude { min_level: 2 phase: TEST } }");
  EXPECT_EQ(Layers(ReadSolver(Write("s.prototxt",
                                    "net: 'net.prototxt' train_state { stage: 'deploy' } test_iter: 1 "
                                    "test_state { level: 3 }"))),
            "a b/TRAIN c/TRAIN");
}

TEST_F(SolverFileTest, StatesHaveNoOtherPhase) {
  Write("net.prototxt", "layer { name: 'a' type: 'ReLU' }");
  Write("test.prototxt", "state { phase: TEST } layer { name: 'a' type: 'ReLU' }");
  const std::string path = folder_ + "/s.prototxt";
  const auto error = [this](const std::string& text) {
    const auto solver = ReadSolver(Write("s.prototxt", text));
    return solver.ok() ? NetOfSolver(*solver).status().message() : solver.status().message();
  };
  EXPECT_EQ(error("net: 'net.prototxt'\ntrain_state { phase: TEST }"),
            path + ":2: state { phase: TEST } of a net that is trained; expected no phase, or TRAIN");
  EXPECT_EQ(error("net: 'net.prototxt' test_iter: 1\ntest_state { phase: TRAIN }"),
            path + ":2: state { phase: TRAIN } of a net that is tested; expected no phase, or TEST");
  EXPECT_EQ(error("net: 'test.prototxt'"), folder_ +
                                               "/test.prototxt: state { phase: TEST } of a net that is "
                                               "trained; expected no phase, or TRAIN");
  EXPECT_EQ(error("net_param { state { phase: TRAIN } layer { name: 'a' type: 'ReLU' } } test_iter: 1"),
            path + ":1: state { phase: TRAIN } of a net that is tested; expected no phase, or TEST");
  EXPECT_EQ(error("train_net: 'net.prototxt' test_net: 'test.prototxt' test_iter: 1 test_state { phase: TEST }"), "");
  EXPECT_EQ(error("net_param { state { phase: TRAIN } layer { name: 'a' type: 'ReLU' } } train_state { stage: 'x' }"),
            "");
}

TEST_F(SolverFileTest, LayersOfOneNameThatAStateBringsTogetherGetNamesOfTheirOwn) {
  Write("net.prototxt",
        "layer { name: 'a' type: 'ReLU' include { stage: 'big' } } layer { name: 'a' type: 'ReLU' include { stage: "
        "'big' } }");
  EXPECT_EQ(Layers(ReadSolver(Write("s.prototxt", "net: 'net.prototxt' train_state { stage: 'big' }"))),
            "a/TRAIN a#2/TRAIN");
}

TEST_F(SolverFileTest, NetsThatDoNotFitTogether) {
  Write("train.prototxt", kTrain);
  Write("test.prototxt", kTest);
  const auto error = [this](const std::string& text) {
    return ReadSolver(Write("s.prototxt", text)).status().message();
  };
  const std::string path = folder_ + "/s.prototxt";
  EXPECT_EQ(error("net: 'train.prototxt' train_net: 'train.prototxt'").substr(0, path.size() + 44),
            path + ":1: the solver names several nets to train; ");
  EXPECT_EQ(error("train_net: 'train.prototxt' test_net: 'test.prototxt'"),
            path + ":1: 0 test_iter for 1 test_net; expected one for each");
  EXPECT_EQ(error("train_net: 'train.prototxt' test_net: 'a' test_net: 'b' test_iter: 1"),
            path + ":1: 1 test_iter for 2 test_net; expected one for each");
  EXPECT_EQ(error("net: 'train.prototxt' test_iter: 1 test_state { } test_state { }"),
            path + ":1: 2 test_state for 1 tests; expected none, or one for each");
  EXPECT_EQ(error("train_net: 'none.prototxt'"),
            path + ":1: train_net \"none.prototxt\": no such file: none.prototxt or " + folder_ + "/none.prototxt");
  Write("other.prototxt",
        "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'conv' top: 'loss' }\n"
        "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' convolution_param { "
        "num_output: 3 } }");
  // Each net has its own order.
  const auto other =
      ReadSolver(Write("o.prototxt", "train_net: 'train.prototxt' test_net: 'other.prototxt' test_iter: 1"));
  ASSERT_TRUE(other.ok()) << other.status();
  const caffe::NetParameter tested = FilterNet(other->net_param(), caffe::TEST);
  ASSERT_EQ(tested.layer_size(), 2);
  EXPECT_EQ(tested.layer(0).name() + " " + tested.layer(1).name(), "loss conv");
  const auto solver =
      ReadSolver(Write("s.prototxt", "train_net: 'train.prototxt' test_net: 'test.prototxt' test_iter: 1"));
  ASSERT_TRUE(solver.ok()) << solver.status();
  EXPECT_EQ(AtLayer(InvalidArgument("layer \"accuracy\": is wrong"), solver->net_param()).message(),
            folder_ + "/test.prototxt:3: layer \"accuracy\": is wrong");
  // What both have stands in two files.
  for (const auto& [phase, file] : {std::pair(caffe::TRAIN, "/train"), std::pair(caffe::TEST, "/test")}) {
    EXPECT_THAT(AtLayer(InvalidArgument("layer \"conv\": is wrong"), solver->net_param(), phase).message(),
                testing::StartsWith(folder_ + file + ".prototxt:"));
  }
}

TEST_F(SolverFileTest, LayersOfOneNameGetNamesOfTheirOwn) {
  const std::string path = Write("n.prototxt",
                                 "layer { name: 'd' type: 'T' include { phase: TRAIN } }\n"
                                 "layer { name: 'd' type: 'T' include { phase: TEST } }\n"
                                 "layer { name: 'a' type: 'T' }\nlayer { name: 'a' type: 'T' }\n"
                                 "layer { name: 'a' type: 'T' include { phase: TEST } }\n"
                                 "layer { name: 'd' type: 'T' }\nlayer { name: 'a#2' type: 'T' }");
  const auto net = ReadNet(path);
  ASSERT_TRUE(net.ok()) << net.status();
  std::string names;
  for (const caffe::LayerParameter& layer : net->layer()) names += layer.name() + " ";
  EXPECT_EQ(names, "d d a a#2 a#3 d#2 a#2#2 ");
  EXPECT_EQ(AtLayer(InvalidArgument("layer \"a#2\": is wrong"), *net).message(), path + ":4: layer \"a#2\": is wrong");
}

TEST_F(SolverFileTest, LayersWithoutANameAreCalledAfterTheirType) {
  const auto net = ReadNet(Write("n.prototxt",
                                 "layer { type: 'Data' include { phase: TRAIN } }\n"
                                 "layer { type: 'Data' include { phase: TEST } }\n"
                                 "layer { name: 'a' type: 'ReLU' }\nlayer { type: 'ReLU' }\n layer { type: 'ReLU' }"));
  ASSERT_TRUE(net.ok()) << net.status();
  std::string names;
  for (const caffe::LayerParameter& layer : net->layer()) names += layer.name() + " ";
  EXPECT_EQ(names, "Data Data a ReLU ReLU#2 ");
}

TEST_F(SolverFileTest, NetFaultsNameTheLine) {
  const auto error = [this](const std::string& text) { return ReadNet(Write("n.prototxt", text)).status().message(); };
  const std::string path = folder_ + "/n.prototxt";
  EXPECT_EQ(error("name: 'n'"), path + ": the net has no layers; expected \"layer { ... }\"");
  EXPECT_EQ(error("\n\nlayer { bottom: 'x' }"), path + ":3: layer \"\" has no type; expected type: \"...\"");
  EXPECT_EQ(error("layer { name: 'a' }"), path + ":1: layer \"a\" has no type; expected type: \"...\"");
  EXPECT_EQ(error("layer { name: 'a' type: 'T' include { phase: TEST } exclude { phase: TRAIN } }"),
            path + ":1: layer \"a\" has both include and exclude rules; give one kind");
  EXPECT_EQ(error("layer { name: 'a' type: 'T' include { phase: TEST } }\n"
                  "layer { name: 'a' type: 'T' include { phase: TRAIN } }"),
            "");
}

}  // namespace
}  // namespace hp
