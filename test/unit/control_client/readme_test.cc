// The screens in src/control_client/README.md are what the programs print.
#include "control_client/show_status.h"
#include "control_client/watch_lines.h"
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace hp {
namespace {

using testing::HasSubstr;

constexpr int64_t kNowS = 1'000'000;

std::string Readme() {
  std::ifstream file("src/control_client/README.md");
  return {std::istreambuf_iterator<char>(file), {}};
}

/// What stands in the first code block behind a heading.
std::string ScreenOf(const std::string& heading) {
  const std::string readme = Readme(), fence = "```\n";
  const size_t begin = readme.find(fence, readme.find("\n## " + heading + "\n"));
  EXPECT_NE(begin, std::string::npos) << heading;
  return readme.substr(begin + fence.size(), readme.find(fence, begin + fence.size()) - begin - fence.size());
}

void AddNode(JobStatus* status, const std::string& text, const std::string& causes) {
  NodeState* const node = status->add_node();
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      text + " host: '127.0.0.1' state: TRAINING solvers_bound: 0 tasks_ready: 0 tensors_waiting: 0 " + causes, node));
}

std::string Time(const std::string& cause, double share) {
  return "time { cause: '" + cause + "' share: " + std::to_string(share) + " } ";
}

JobStatus Job(const std::string& text) {
  JobStatus status;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "job: 'hpnode' run_id: '5f0c3a9e17d2b846.1' state: TRAINING max_iter: 1000000 precision: 'FP32' " + text,
      &status));
  return status;
}

TEST(ControlClientReadme, Status) {
  JobStatus status = Job(R"(
      iteration: 204 images_per_s: 230 uptime_s: 9 learning { iteration: 203 loss: 0.0705971 rate: 0.01 test_iteration: 200
      test_output { blob: "accuracy" value: 1 } test_output { blob: "loss" value: 0.0239065 } })");
  AddNode(&status,
          "name: 'conv0' role: 'conv' iteration: 204 images_per_s: 115 solvers_free: 2 sent_bytes_per_s: 95100 "
          "received_bytes_per_s: 95100 memory_bytes: 27800000",
          Time("exchange", 0.49) + Time("gradients", 0.42) + Time("computing", 0.03));
  AddNode(&status,
          "name: 'conv1' role: 'conv' iteration: 204 images_per_s: 114.4 solvers_free: 2 sent_bytes_per_s: 94600 "
          "received_bytes_per_s: 94600 memory_bytes: 27800000",
          Time("gradients", 0.51) + Time("exchange", 0.40) + Time("computing", 0.02));
  AddNode(&status,
          "name: 'fc0' role: 'fc' iteration: 205 images_per_s: 180.9 solvers_free: 4 sent_bytes_per_s: 86100 "
          "received_bytes_per_s: 86100 memory_bytes: 30300000",
          Time("activations", 0.47) + Time("sends", 0.06) + Time("computing", 0.03));
  AddNode(&status,
          "name: 'fc1' role: 'fc' iteration: 205 images_per_s: 209 solvers_free: 4 sent_bytes_per_s: 99500 "
          "received_bytes_per_s: 99500 memory_bytes: 30100000",
          Time("activations", 0.61) + Time("gradients", 0.11) + Time("computing", 0.02));
  status.mutable_node(3)->set_last_warning(
      "node fc1 did not run for 1.0 s: the process was stopped, the machine suspended, or other programs took its "
      "processors; ...");
  status.mutable_node(3)->set_last_warning_s(kNowS - 4);
  status.mutable_last_order()->set_text(
      R"(order lr 0.01 from 10.0.0.7:40312, which says it is "anna" on "desk", program "hpctl", process 4711)");
  status.mutable_last_order()->set_time_s(kNowS - 8);
  EXPECT_EQ(ScreenOf("hpctl status"), StatusText(status, kNowS));
  EXPECT_THAT(Readme(), HasSubstr("\n    " + status.last_order().text() + "\n"));
}

/// A curve of the given heights whose latest value is `last`.
WatchedCurve Curve(const std::vector<int>& heights, double last, double step) {
  WatchedCurve curve;
  for (const int height : heights) curve.Add(last + (height - heights.back()) * step);
  return curve;
}

TEST(ControlClientReadme, Watch) {
  JobStatus status = Job(R"(
      iteration: 1323 images_per_s: 211.5 uptime_s: 30 learning { iteration: 1319 loss: 0.00926115 rate: 0.01
      test_iteration: 1310 test_output { blob: "accuracy" value: 1 } test_output { blob: "loss" value: 0.000189011 } })");
  AddNode(&status,
          "name: 'conv0' role: 'conv' iteration: 1323 images_per_s: 105.8 solvers_free: 2 sent_bytes_per_s: 87400 "
          "received_bytes_per_s: 87400 memory_bytes: 27800000",
          Time("gradients", 0.45) + Time("exchange", 0.27) + Time("computing", 0.05));
  AddNode(&status,
          "name: 'conv1' role: 'conv' iteration: 1323 images_per_s: 105.7 solvers_free: 2 sent_bytes_per_s: 87400 "
          "received_bytes_per_s: 87400 memory_bytes: 27800000",
          Time("exchange", 0.35) + Time("gradients", 0.32) + Time("computing", 0.12));
  AddNode(&status,
          "name: 'fc0' role: 'fc' iteration: 1324 images_per_s: 227.3 solvers_free: 4 sent_bytes_per_s: 108000 "
          "received_bytes_per_s: 108000 memory_bytes: 30300000",
          Time("activations", 0.34) + Time("computing", 0.21) + Time("sends", 0.13));
  AddNode(&status,
          "name: 'fc1' role: 'fc' iteration: 1324 images_per_s: 382.1 solvers_free: 4 sent_bytes_per_s: 182000 "
          "received_bytes_per_s: 182000 memory_bytes: 30100000",
          Time("activations", 0.50) + Time("computing", 0.19) + Time("gradients", 0.15));
  const WatchedCurve loss = Curve({4, 1, 4, 0, 2, 5, 0, 0, 1, 0, 1, 0, 2, 0, 0, 0, 1, 7, 5, 0, 0}, 0.009261, 0.001);
  const WatchedCurve speed = Curve({1, 0, 4, 1, 1, 3, 5, 5, 4, 5, 2, 6, 4, 6, 7, 2, 4, 4, 6, 4, 1}, 211.5, 1);
  std::string screen;
  for (const WatchLine& line : WatchLines(status, kNowS, loss, speed, 120, true)) screen += line.text + "\n";
  EXPECT_EQ(ScreenOf("hpctl watch"), screen);
}

}  // namespace
}  // namespace hp
