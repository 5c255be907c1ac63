// How an incarnation of a job comes up: agents, ports, files, data, nodes, in this order.
#include "base/format.h"
#include "base/host.h"
#include "base/words.h"
#include "checkpoint/snapshot.h"
#include "tools/cluster/launcher.h"

#include "glog/logging.h"

#include <algorithm>
#include <cinttypes>
#include <filesystem>
#include <set>
#include <utility>

namespace hp {
namespace {

namespace fs = std::filesystem;

constexpr char kDataWord[] = "data fingerprint ";  // what hpnode --data_fingerprint says
constexpr char kFlagFault[] = "ERROR: ";           // what gflags begins a complaint with

/// What a host said of its data; empty: it has none that can be read.
std::string FingerprintIn(const Answered& answered) {
  for (const std::string& line : answered.lines) {
    if (answered.status == 0 && line.starts_with(kDataWord)) return line.substr(sizeof(kDataWord) - 1);
  }
  return "";
}

/// Why it has none: hpnode's last line, without what glog puts in front.
std::string LastLine(const Answered& answered) {
  if (answered.lines.empty()) return Format("exit status %d", answered.status);
  const std::string& line = answered.lines.back();
  const size_t head = line.find("] ");
  return Printable(head == std::string::npos ? line : line.substr(head + 2), 1000);
}

/// Whether hpnode did not get as far as the data: it does not know one of its flags.
bool RefusesFlags(const Answered& answered) {
  return answered.status != 0 && !answered.lines.empty() && answered.lines.back().starts_with(kFlagFault);
}

/// An error of the run's folder, with what helps against it.
Status OfRunFolder(const Status& status) {
  if (status.ok() || ExitStatus(status) != 2) return status;  // of a host that is lost, or a stop
  const char* const room = status.code() == StatusCode::kResourceExhausted ? "; make room on that disk" : "";
  return Status(status.code(), status.message() + room + "; --run_dir names another folder for all hosts");
}

// Of one version, so they understand each other.
void WarnOfOtherBuilds(const std::vector<std::string>& hosts, const std::map<std::string, uint64_t>& programs) {
  for (const std::string& host : hosts) {
    if (programs.at(host) == programs.at(hosts.front())) continue;
    LOG(WARNING) << "hpnode of " << host << " is another build than that of " << hosts.front()
                 << ": the same table may give other bits; install the same one, or copy it with --bundle";
  }
}

}  // namespace

std::vector<std::string> HostsOfTable(const RoutingTableConfig& table) {
  std::vector<std::string> hosts;
  for (const NodeConfig& node : table.node()) {
    if (std::find(hosts.begin(), hosts.end(), node.host()) == hosts.end()) hosts.push_back(node.host());
  }
  return hosts;
}

std::vector<std::string> NodeArguments(const LaunchOptions& options, const std::string& node) {
  std::vector<std::string> arguments = {"--routing=" + options.folder + "/table.prototxt", "--node=" + node};
  if (!options.resume.empty()) arguments.push_back("--resume=" + options.resume);
  if (!options.weights.empty()) arguments.push_back("--weights=" + Join(options.weights, ","));
  arguments.insert(arguments.end(), options.node_flags.begin(), options.node_flags.end());
  return arguments;
}

Status Launcher::Prepare() {
  hosts_ = HostsOfTable(options_.files.table);
  HP_RETURN_IF_ERROR(agents_->Connect(hosts_));
  for (const auto& [host, program] : agents_->programs()) {
    folder_->Record(Format("host %s: hpnode %016" PRIx64, host.c_str(), program));
  }
  WarnOfOtherBuilds(hosts_, agents_->programs());
  LOG(INFO) << hosts_.size() << " host(s) answer: " << Join(hosts_);
  if (options_.choose_ports) HP_RETURN_IF_ERROR(ChoosePorts());
  HP_RETURN_IF_ERROR(CheckCopies());
  HP_RETURN_IF_ERROR(WriteFiles());
  return CheckData();
}

Status Launcher::ChoosePorts() {
  for (const std::string& host : hosts_) {
    std::vector<NodeConfig*> nodes;
    for (NodeConfig& node : *options_.files.table.mutable_node()) {
      if (node.host() == host) nodes.push_back(&node);
    }
    HP_ASSIGN_OR_RETURN(const std::vector<int> ports, agents_->TakePorts(host, static_cast<int>(nodes.size())));
    for (size_t i = 0; i < nodes.size(); ++i) nodes[i]->set_port(ports[i]);
  }
  return OkStatus();
}

Status Launcher::WriteFiles() {
  const StatusOr<std::vector<std::string>> paths = WriteRunFiles(options_.files, options_.folder, "hplaunch");
  HP_RETURN_IF_ERROR(OfRunFolder(paths.status()));
  // What was wrong with the table as given has been said; ports and hosts may have changed since.
  HP_RETURN_IF_ERROR(RoutingTable::Load(paths->front()).status());
  const int64_t before = agents_->sent_files();
  HP_RETURN_IF_ERROR(OfRunFolder(agents_->PutFiles(hosts_, *paths)));
  HP_RETURN_IF_ERROR(agents_->PutFiles(hosts_, options_.weights));
  HP_RETURN_IF_ERROR(PutResumed());
  LOG(INFO) << "run folder " << options_.folder << ": " << agents_->sent_files() - before << " file(s) copied";
  return OkStatus();
}

// Each node reads the snapshot. The latest one they find and give each other themselves.
Status Launcher::PutResumed() {
  if (options_.resume.empty() || options_.resume == kFromLatest) return OkStatus();
  HP_ASSIGN_OR_RETURN(std::vector<std::string> paths, FilesOfSnapshot(options_.resume));
  for (std::string& path : paths) path = fs::absolute(path).lexically_normal().string();  // a state may name its model
  return agents_->PutFiles(hosts_, paths);
}

StatusOr<std::map<std::string, Answered>> Launcher::AskForData() {
  std::map<std::string, std::vector<std::string>> questions;
  const auto reads = [](const NodeConfig& node) {
    const auto first = [](const PartConfig& part) { return part.stage() == 0; };
    return node.stage() == 0 || std::any_of(node.part().begin(), node.part().end(), first);
  };
  for (const NodeConfig& node : options_.files.table.node()) {
    if (!reads(node) || questions.count(node.host()) > 0) continue;
    questions[node.host()] = {"--data_fingerprint", "--routing=" + options_.folder + "/table.prototxt",
                              "--node=" + node.name()};
    auto& words = questions[node.host()];
    words.insert(words.end(), options_.node_flags.begin(), options_.node_flags.end());
  }
  return agents_->Ask("hpnode", questions);
}

Status Launcher::CheckData() {
  HP_ASSIGN_OR_RETURN(auto answers, AskForData());
  std::vector<std::string> without;
  for (const auto& [host, answered] : answers) {
    if (RefusesFlags(answered)) {
      return InvalidArgument("host %s: hpnode: %s (of what stands behind --)", host.c_str(),
                             Printable(answered.lines.back().substr(sizeof(kFlagFault) - 1), 1000).c_str());
    }
    if (FingerprintIn(answered).empty()) without.push_back(host);
  }
  if (!without.empty() && options_.stage_data) {
    HP_RETURN_IF_ERROR(Stage(without));
    HP_ASSIGN_OR_RETURN(answers, AskForData());
  }
  const std::string first = FingerprintIn(answers.begin()->second);
  for (const auto& [host, answered] : answers) {
    if (answered.status != 0 || FingerprintIn(answered).empty()) {
      return FailedPrecondition("host %s: its data: %s%s", host.c_str(), LastLine(answered).c_str(),
                                options_.stage_data ? "" : " (--stage_data copies what a host has not)");
    }
    if (FingerprintIn(answered) == first) continue;
    return FailedPrecondition(
        "host %s: its data differs from that of host %s: %s and %s; all hosts that read samples need the same "
        "database: remove the one that is wrong, and --stage_data copies this host's",
        host.c_str(), answers.begin()->first.c_str(), FingerprintIn(answered).c_str(), first.c_str());
  }
  LOG(INFO) << "data of " << answers.size() << " host(s): " << first;
  return OkStatus();
}

// A database appears on its host whole, under its name, or not at all; one that is there is never touched.
Status Launcher::Stage(const std::vector<std::string>& hosts) {
  const std::string run = fs::path(options_.folder).filename().string();
  for (const std::string& source : options_.files.data) {
    for (const std::string& host : hosts) {
      HP_ASSIGN_OR_RETURN(const bool there, agents_->Has(host, source));
      if (there) continue;
      HP_ASSIGN_OR_RETURN(const std::vector<std::string> files, FilesBelow(source));
      LOG(INFO) << "copying " << source << " (" << files.size() << " file(s)) to host " << host;
      const std::string staging = source + ".staging-" + run;
      HP_RETURN_IF_ERROR(agents_->PutFiles({host}, files, source, staging));
      HP_RETURN_IF_ERROR(agents_->MoveFolder(host, staging, source));
    }
  }
  return OkStatus();
}

void Launcher::StartNodes() {
  nodes_.clear();
  node_of_id_.clear();
  std::vector<JobOutput::Node> shown;
  for (const NodeConfig& config : options_.files.table.node()) {
    Node node;
    node.name = config.name();
    node.host = config.host();
    nodes_.push_back(node);
    shown.push_back({node.host, node.name, folder_->LogPath(node.name, incarnation_)});
  }
  output_.Begin(std::move(shown));
  started_ = true;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    std::vector<std::string> arguments = NodeArguments(options_, nodes_[i].name);
    if (!options_.token.empty()) arguments.emplace_back("--token_file=/proc/self/fd/3");
    nodes_[i].id = agents_->Start(nodes_[i].host, "hpnode", arguments, options_.token);
    nodes_[i].running = true;
    node_of_id_[nodes_[i].id] = static_cast<int>(i);
  }
  LOG(INFO) << "started " << nodes_.size() << " nodes, incarnation " << incarnation_;
}

}  // namespace hp
