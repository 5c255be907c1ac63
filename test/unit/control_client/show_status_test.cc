#include "control_client/show_status.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>

#include <cmath>

namespace hp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

JobStatus StatusOf(const std::string& text) {
  JobStatus status;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &status));
  return status;
}

TEST(ShowStatusTest, ALineForTheJobAndEachNode) {
  const JobStatus status = StatusOf(R"(
      job: "j" run_id: "j.2" state: STOPPING stop_at: 90 iteration: 88 max_iter: 100 images_per_s: 12.34 precision: "FP32"
      uptime_s: 3725 learning { iteration: 87 loss: 0.5 rate: 0.25 test_iteration: 80 test_output { blob: "acc" value: 0.75 } }
      node { name: "conv0" role: "conv" host: "a" state: TRAINING iteration: 88 images_per_s: 6 solvers_free: 1
             solvers_bound: 3 tasks_ready: 2 tensors_waiting: 5 memory_bytes: 123456789 sent_bytes_per_s: 1500 slow: true
             time { cause: "computing" share: 0.3 } time { cause: "gradients" share: 0.6 } time { cause: "input" share: 0.001 }
             last_warning: "the disk is full" last_warning_s: 940 }
      node { name: "fc0" role: "fc" host: "b" state: SILENT report_age_s: 75 iteration: 80 }
      last_order { text: "order stop from a:1" time_s: 996 })");
  const StatusLines lines = LinesOf(status, 1000);
  EXPECT_EQ(lines.job,
            "job j, run j.2: stopping at iteration 90, iteration 88 of 100, 12.3 images/s, FP32, up 1 h 02 min");
  EXPECT_EQ(lines.learning, "iteration 87: loss 0.5, lr 0.25; test at 80: acc 0.75");
  ASSERT_EQ(lines.nodes.size(), 2u);
  EXPECT_THAT(lines.nodes[0],
              testing::MatchesRegex("conv0  conv   a     slow +88 +6.0  1[+]3 +2/5 +1.5 kB +0 B +123 MB  "
                                    "gradients 60%, computing 30%"));
  EXPECT_THAT(lines.nodes[1], HasSubstr("silent 1 min 15 s"));
  EXPECT_THAT(lines.warnings, ElementsAre(HasSubstr("conv0 is slow: the others wait for it (hproute --exclude=a"),
                                          "conv0, 1 min 00 s ago: the disk is full", "4 s ago: order stop from a:1"));
  EXPECT_EQ(lines.head.find("state"), lines.nodes[0].find("slow"));
  EXPECT_THAT(StatusText(status, 1000), HasSubstr(lines.nodes[1] + "\n\nconv0 is slow"));
  EXPECT_THAT(MessageJson(status), HasSubstr("\"solvers_bound\": 3"));
}

TEST(ShowStatusTest, BeforeTrainingThereIsLittleToSay) {
  const StatusLines lines = LinesOf(StatusOf("job: 'j' precision: 'BF16' uptime_s: 5 node { name: 'conv0' }"), 0);
  EXPECT_EQ(lines.job, "job j: starting, BF16, up 5 s");
  EXPECT_EQ(lines.learning, "");
  EXPECT_THAT(lines.nodes[0], HasSubstr("starting"));
}

TEST(ShowStatusTest, NamesOfOthersDoNoHarmOnATerminal) {
  EXPECT_THAT(StatusText(StatusOf(R"(job: "\033[2J" node { name: "a\nb" last_warning: "\007" })"), 0),
              testing::Not(testing::ContainsRegex("[\x07\x1b]")));
}

TEST(ShowStatusTest, LinesAreCutByCharacters) {
  EXPECT_EQ(CutColumns("abc", 2), "ab");
  EXPECT_EQ(CutColumns("▁█▅", 2), "▁█");
  EXPECT_EQ(CutColumns("▁█▅", 3), "▁█▅");
  EXPECT_EQ(CutColumns("", 3), "");
}

TEST(ShowStatusTest, CurvesShowTheLatestValues) {
  EXPECT_EQ(Sparkline({100, 0, 7, 4}, 3, true), "▁█▅");
  EXPECT_EQ(Sparkline({0, 7, NAN, 4}, 9, false), "_# =");
  EXPECT_EQ(Sparkline({3, 3}, 9, false), "__");
  EXPECT_EQ(Sparkline({}, 9, true), "");
}

}  // namespace
}  // namespace hp
