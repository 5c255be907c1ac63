#include "tools/cluster/job_output.h"

#include "base/format.h"

#include "glog/logging.h"
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string_view>
#include <utility>

namespace hp {
namespace {

constexpr char kAfterPath = '\0';  // of a log, in front of a line for it

void WriteToTerminal(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // nobody reads
    text.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace

JobOutput::JobOutput() {
  terminal_ = std::make_unique<LogWriter>(
      "terminal", kMostWaitingLines, [](const LogWriter::Line& line) { WriteToTerminal(line.text); },
      [](int64_t lines) {
        WriteToTerminal(Format("(%lld lines are left out: they are in the logs)\n", static_cast<long long>(lines)));
      });
  files_ = std::make_unique<LogWriter>(
      "node logs", kMostWaitingLines, [this](const LogWriter::Line& line) { WriteToLog(line); },
      [this](int64_t lines) {
        LOG(WARNING) << lines << " lines are missing in the logs in " << log_folder_ << ": the disk was too slow";
      });
}

JobOutput::~JobOutput() {
  // A thread that writes to a terminal that is stopped can't be waited for.
  if (!terminal_->Flush(std::chrono::seconds(2))) terminal_.release();
}

void JobOutput::WriteToLog(const LogWriter::Line& line) {
  const size_t end = line.text.find(kAfterPath);
  const std::string path = line.text.substr(0, end);
  Log& log = logs_[static_cast<int>(line.time)];
  if (log.path != path) {
    log = {path, std::make_unique<RotatingLog>(path)};
    log_folder_ = std::filesystem::path(path).parent_path().string();
  }
  const Status added = log.file->Add(line.text.substr(end + 1));
  if (!added.ok() && !std::exchange(log.failed, true)) LOG(WARNING) << "a log lacks lines: " << added.message();
}

void JobOutput::Begin(std::vector<Node> nodes) {
  nodes_ = std::move(nodes);
  last_.assign(nodes_.size(), {});
}

void JobOutput::Add(int node, const std::string& line) {
  const Node& its = nodes_.at(node);
  const std::string shown = "[" + its.host + " " + its.name + "] " + line;
  last_[node].push_back(shown);
  if (last_[node].size() > kLastLines) last_[node].pop_front();
  terminal_->Add({'I', 0, shown + "\n"});
  files_->Add({'I', node, its.log_path + kAfterPath + line});
}

std::vector<std::string> JobOutput::LastLines(int node) const { return {last_[node].begin(), last_[node].end()}; }

}  // namespace hp
