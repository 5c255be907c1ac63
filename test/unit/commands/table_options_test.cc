#include "commands/table_options.h"

#include <gflags/gflags.h>
#include <gtest/gtest.h>

namespace hp {
namespace {

TEST(TableOptionsTest, FlagsOfAProgramAreItsOwnAndSetTheOptions) {
  static TableOptions options;  // gflags keeps it
  options.conv = "0";           // the program's own default
  RegisterTableFlags("some/program.cc", &options, {{"conv", "Own words."}}, {"conv", "beside", "ps"});
  gflags::CommandLineFlagInfo conv, beside;
  ASSERT_TRUE(gflags::GetCommandLineFlagInfo("conv", &conv));
  EXPECT_EQ(conv.filename, "some/program.cc");
  EXPECT_EQ(conv.default_value, "0");
  EXPECT_EQ(conv.description, "Own words.");
  ASSERT_TRUE(gflags::GetCommandLineFlagInfo("beside", &beside));
  EXPECT_NE(beside.description.find("FC shard i"), std::string::npos) << beside.description;
  gflags::CommandLineFlagInfo other;
  EXPECT_FALSE(gflags::GetCommandLineFlagInfo("scattered", &other)) << "the program has no such flag";
  for (const auto& [name, value] : {std::pair("conv", "2,1"), std::pair("beside", "true"), std::pair("ps", "3")}) {
    EXPECT_FALSE(gflags::SetCommandLineOption(name, value).empty()) << name;
  }
  EXPECT_EQ(options.conv, "2,1");
  EXPECT_TRUE(options.beside);
  EXPECT_EQ(options.ps, 3);
  EXPECT_EQ(options.text(), " --conv=2,1 --fc=1 --ps=3 --beside");
}

TEST(TableOptionsTest, ListsBecomeARequest) {
  TableOptions options;
  options.conv = "2,1";
  options.fc = "3,2";
  options.cut = "conv2,ip1,ip2";
  options.batch_per_replica = true;
  const auto request = RequestOfOptions(options);
  ASSERT_TRUE(request.ok()) << request.status().message();
  EXPECT_EQ(request->conv, std::vector({2, 1}));
  EXPECT_EQ(request->fc, std::vector({3, 2}));
  EXPECT_EQ(request->cut, std::vector<std::string>({"conv2", "ip1", "ip2"}));
  EXPECT_TRUE(request->per_replica);
  options.fc = "0";
  EXPECT_TRUE(RequestOfOptions(options)->fc.empty());
  for (const char* wrong : {"", "x", "-1", "2x", "9999999"}) {
    options.fc = wrong;
    EXPECT_EQ(RequestOfOptions(options).status().code(), StatusCode::kInvalidArgument) << wrong;
  }
}

TEST(TableOptionsTest, WhatAPlanChoosesIsNotAskedOfIt) {
  TableOptions options;
  options.sample = "1,8,8";
  EXPECT_NE(CheckTableOptions(options).message().find("--sample goes with --plan=auto"), std::string::npos);
  options.plan = "auto";
  EXPECT_TRUE(CheckTableOptions(options).ok()) << CheckTableOptions(options).message();
  options.exclude = "slow";
  options.tls = options.batch_per_replica = true;
  EXPECT_TRUE(CheckTableOptions(options).ok()) << CheckTableOptions(options).message();
  TableOptions wrong = options;
  wrong.shares = "2,1";
  EXPECT_NE(CheckTableOptions(wrong).message().find("--shares does not go with --plan=auto"), std::string::npos);
  wrong = options;
  wrong.staleness = 1;
  EXPECT_NE(CheckTableOptions(wrong).message().find("--staleness does not go with"), std::string::npos);
  wrong = options;
  wrong.convolution_engines = "TIMED";
  EXPECT_NE(CheckTableOptions(wrong).message().find("--convolution_engines does not go with --plan=auto"),
            std::string::npos);
  EXPECT_EQ(RequestOfOptions(wrong)->convolution_engines, RoutingTableConfig::TIMED);
  EXPECT_EQ(RequestOfOptions(options)->convolution_engines, RoutingTableConfig::HEURISTIC);
  EXPECT_EQ(ConvolutionEnginesOf("FASTEST").status().message(),
            "--convolution_engines is \"FASTEST\"; expected HEURISTIC or TIMED");
  wrong = options;
  wrong.jpeg_decoder = "GPU";
  EXPECT_NE(CheckTableOptions(wrong).message().find("--jpeg_decoder does not go with --plan=auto"), std::string::npos);
  EXPECT_EQ(RequestOfOptions(wrong)->jpeg_decoder, RoutingTableConfig::GPU);
  EXPECT_EQ(RequestOfOptions(options)->jpeg_decoder, RoutingTableConfig::HOST);
  EXPECT_EQ(JpegDecoderOf("CPU").status().message(), "--jpeg_decoder is \"CPU\"; expected HOST or GPU");
  options.wire_precision = "BF16";
  EXPECT_TRUE(CheckTableOptions(options).ok()) << CheckTableOptions(options).message();
  EXPECT_EQ(*WirePrecisionOf(options), RoutingTableConfig::BF16);
  options.precision = "TF32";
  EXPECT_EQ(RequestOfOptions(options)->precision, RoutingTableConfig::TF32);
  EXPECT_EQ(PrecisionOf("FP8").status().message(), "--precision is \"FP8\"; expected FP32, TF32, BF16, FP16 or AUTO");
  options.wire_precision = "TF32";
  EXPECT_EQ(WirePrecisionOf(options).status().message(), "--wire_precision is \"TF32\"; expected FP32 or BF16");
  options.plan = "best";
  EXPECT_EQ(CheckTableOptions(options).message(), "--plan is \"best\"; expected auto");
}

}  // namespace
}  // namespace hp
