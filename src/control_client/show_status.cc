#include "control_client/show_status.h"

#include "base/format.h"

#include <glog/logging.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>

namespace hp {
namespace {

long long Long(int64_t number) { return number; }

std::string Bytes(double bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  int unit = 0;
  for (; bytes >= 999.5 && unit < 4; ++unit) bytes /= 1000;
  return Format(unit == 0 ? "%.0f %s" : "%.3g %s", bytes, kUnits[unit]);
}

std::string Duration(double seconds) {
  const auto s = static_cast<long long>(seconds);
  if (s >= 3600) return Format("%lld h %02lld min", s / 3600, s / 60 % 60);
  return s >= 60 ? Format("%lld min %02lld s", s / 60, s % 60) : Format("%lld s", s);
}

const char* NameOf(JobStatus::State state) {
  return state == JobStatus::STARTING ? "starting" : state == JobStatus::STOPPING ? "stopping" : "training";
}

std::string StateOf(const NodeState& node) {
  if (node.state() == NodeState::STARTING) return "starting";
  if (node.state() == NodeState::SILENT) return "silent " + Duration(node.report_age_s());
  return node.slow() ? "slow" : "training";
}

/// The causes that take most of the time, the greatest first.
std::string TimeOf(const NodeState& node) {
  std::vector<TimeShare> shares(node.time().begin(), node.time().end());
  std::stable_sort(shares.begin(), shares.end(),
                   [](const TimeShare& a, const TimeShare& b) { return a.share() > b.share(); });
  std::string text;
  for (const TimeShare& share : shares) {
    if (share.share() < 0.005) break;
    text += Format("%s%s %.0f%%", text.empty() ? "" : ", ", Printable(share.cause(), 32).c_str(), 100 * share.share());
  }
  return text;
}

std::string JobLine(const JobStatus& status) {
  std::string line = "job " + Printable(status.job(), 64);
  if (!status.run_id().empty()) line += ", run " + Printable(status.run_id(), 64);
  line += Format(": %s", NameOf(status.state()));
  if (status.state() == JobStatus::STOPPING) line += Format(" at iteration %lld", Long(status.stop_at()));
  if (status.has_max_iter()) {
    line += Format(", iteration %lld of %lld, %.1f images/s", Long(status.iteration()), Long(status.max_iter()),
                   status.images_per_s());
  }
  return line + ", " + Printable(status.precision(), 32) + ", up " + Duration(status.uptime_s());
}

std::string LearningLine(const LearningStatus& learning) {
  if (!learning.has_loss()) return "";
  std::string line = Format("iteration %lld: loss %g, lr %g", Long(learning.iteration()), learning.loss(),
                            static_cast<double>(learning.rate()));
  if (learning.test_output_size() > 0) line += Format("; test at %lld:", Long(learning.test_iteration()));
  for (const TestOutput& output : learning.test_output()) {
    line += Format(" %s %g", Printable(output.blob(), 32).c_str(), output.value());
  }
  return line;
}

}  // namespace

StatusLines LinesOf(const JobStatus& status, int64_t now_s) {
  StatusLines lines;
  lines.job = JobLine(status);
  lines.learning = LearningLine(status.learning());
  size_t width = 4, host = 4;
  for (const NodeState& node : status.node()) {
    width = std::max(width, node.name().size());
    host = std::max(host, node.host().size());
  }
  const auto columns = [&](const char* name, const char* role, const char* where, const std::string& rest) {
    return Format("%-*s  %-5s  %-*s  ", static_cast<int>(width), name, role, static_cast<int>(host), where) + rest;
  };
  lines.head = columns("node", "role", "host",
                       Format("%-10s %9s %9s  %-7s %-7s %10s %10s %8s  %s", "state", "iteration", "images/s", "solvers",
                              "queues", "sends/s", "gets/s", "memory", "time"));
  for (const NodeState& node : status.node()) {
    const std::string solvers = Format("%d+%d", node.solvers_free(), node.solvers_bound());
    const std::string queues = Format("%d/%d", node.tasks_ready(), node.tensors_waiting());
    lines.nodes.push_back(
        columns(Printable(node.name()).c_str(), Printable(node.role()).c_str(), Printable(node.host()).c_str(),
                Format("%-10s %9lld %9.1f  %-7s %-7s %10s %10s %8s  %s", StateOf(node).c_str(), Long(node.iteration()),
                       node.images_per_s(), solvers.c_str(), queues.c_str(), Bytes(node.sent_bytes_per_s()).c_str(),
                       Bytes(node.received_bytes_per_s()).c_str(),
                       Bytes(static_cast<double>(node.memory_bytes())).c_str(), TimeOf(node).c_str())));
    const std::string name = Printable(node.name());
    if (node.slow()) {
      lines.warnings.push_back(name + " is slow: the others wait for it (hproute --exclude=" + Printable(node.host()) +
                               " leaves its host out at the next start)");
    }
    if (node.last_warning().empty()) continue;
    lines.warnings.push_back(name + ", " +
                             Duration(static_cast<double>(std::max<int64_t>(0, now_s - node.last_warning_s()))) +
                             " ago: " + Printable(node.last_warning()));
  }
  if (status.has_last_order()) {
    lines.warnings.push_back(Duration(static_cast<double>(std::max<int64_t>(0, now_s - status.last_order().time_s()))) +
                             " ago: " + Printable(status.last_order().text()));
  }
  return lines;
}

std::string StatusText(const JobStatus& status, int64_t now_s) {
  const StatusLines lines = LinesOf(status, now_s);
  std::string text = lines.job + "\n";
  if (!lines.learning.empty()) text += lines.learning + "\n";
  text += "\n" + lines.head + "\n";
  for (const std::string& node : lines.nodes) text += node + "\n";
  if (!lines.warnings.empty()) text += "\n";
  for (const std::string& warning : lines.warnings) text += warning + "\n";
  return text;
}

std::string MessageJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  CHECK(google::protobuf::util::MessageToJsonString(message, &text, options).ok());
  return text;
}

std::string Sparkline(const std::vector<double>& values, size_t width, bool utf8) {
  constexpr const char* kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr const char* kLetters[] = {"_", ".", ",", "-", "=", "+", "*", "#"};
  const size_t begin = values.size() > width ? values.size() - width : 0;
  double least = INFINITY, most = -INFINITY;
  for (size_t i = begin; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) continue;
    least = std::min(least, values[i]);
    most = std::max(most, values[i]);
  }
  std::string text;
  for (size_t i = begin; i < values.size(); ++i) {
    const double height = most > least ? (values[i] - least) / (most - least) : 0;
    const int block = std::isfinite(values[i]) ? std::clamp(static_cast<int>(8 * height), 0, 7) : -1;
    text += block < 0 ? " " : utf8 ? kBlocks[block] : kLetters[block];
  }
  return text;
}

std::string CutColumns(const std::string& text, size_t columns) {
  size_t end = 0;
  for (size_t seen = 0; end < text.size(); ++end) {
    const bool begins = (static_cast<unsigned char>(text[end]) & 0xC0) != 0x80;
    if (begins && ++seen > columns) break;
  }
  return text.substr(0, end);
}

}  // namespace hp
