// A node's steps that concern snapshots: which one it begins with and who has it, who writes those to come, and where a
// second host writes them too.
#include "base/format.h"
#include "checkpoint/incarnation.h"
#include "checkpoint/snapshot.h"
#include "node/node.h"
#include "proto/hash.h"
#include "proto/net_filter.h"
#include "proto/solver_type.h"
#include "scheduler/control/messages.h"

#include "glog/logging.h"

#include <algorithm>

namespace hp {
namespace {

constexpr size_t kMaxCopyFault = 400;  // bytes that are said of why a copy failed

}  // namespace

Status Node::ChooseSnapshot() {
  if (files_.resume_latest) {
    latest_ = bootstrap_->handshake()->latest_snapshot();
    if (latest_) HP_RETURN_IF_ERROR(files_.Adopt(table_, *latest_, options_.rank));
    if (!latest_)
      LOG(INFO) << "--resume=latest: no node has a complete snapshot of this training: starting from the beginning";
  }
  if (!latest_) files_.run = bootstrap_->handshake()->run();
  files_.run.clear_name();  // it was perhaps another run's until now
  if (!options_.run_name.name.empty()) files_.run.set_name(options_.run_name.name);
  return OkStatus();
}

Status Node::ShareSnapshot() {
  if (!latest_->Has(options_.rank)) {
    return transfer_->Take(model_->job(), latest_->GiverOf(options_.rank), params_.get());
  }
  std::set<Rank> takers;
  for (Rank rank = 0; rank < table_.size(); ++rank) {
    if (!latest_->Has(rank) && latest_->GiverOf(rank) == options_.rank) takers.insert(rank);
  }
  if (takers.empty()) return OkStatus();
  inbox_->StartGiving(model_->job(), takers);
  return transfer_->Give(model_->job(), takers, *files_.snapshot);
}

Status Node::MakeSnapshotter() {
  Snapshotter::Options options;
  options.rank = options_.rank;
  options.on_room = [this] { pipeline_->OnBoundaryReady(); };
  options.writers = table_.snapshot_writers();
  options.files.prefix = files_.solver.snapshot_prefix();
  options.send_part = [this](const SnapshotPartWritten& part) { Send(0, kSnapshotPartMessage, part); };
  shares_folder_ = SharesFolder();
  if (options_.rank == 0) {
    HP_ASSIGN_OR_RETURN(options.files, SnapshotFiles());
    if (shares_folder_ && start_number_ > 0) requests_.SetOwnerFiles(start_number_);
    options.files.copied = table_.snapshot_copier() >= 0;
    options.on_written = [this](int64_t took_ns) { stop_budget_.OnSnapshot(took_ns); };
    options.on_pulled = [this](std::shared_ptr<const GatheredModel> model) { pulls_->OnGathered(std::move(model)); };
  } else if (options_.rank == table_.snapshot_copier()) {
    HP_ASSIGN_OR_RETURN(options.files, SnapshotFiles());
    options.files.on_result = [this](int64_t iteration, const Status& status) {
      SnapshotCopied copied;
      copied.set_iteration(iteration);
      if (!status.ok()) copied.set_fault(status.message().substr(0, kMaxCopyFault));
      Send(0, kSnapshotCopiedMessage, copied);
    };
  }
  snapshotter_ = std::make_unique<Snapshotter>(model_->whole_params(), params_.get(), transport_, std::move(options));
  return OkStatus();
}

// A disk that is full costs snapshots, not the job. Another run's costs the job, unless it writes none.
Status Node::ClaimSnapshots(SnapshotWriter::Options* options) {
  const bool writes = files_.solver.snapshot() > 0 || files_.solver.snapshot_after_train();
  auto claimed = Incarnation::Claim(options->prefix, files_.run, options_.run_name.restarted,
                                    writes ? Incarnation::kPatience : std::chrono::milliseconds(0));
  if (claimed.ok()) {
    options->incarnation = *std::move(claimed);
    start_number_ = options->incarnation->number();
    return OkStatus();
  }
  if (writes && claimed.status().code() == StatusCode::kFailedPrecondition) return claimed.status();
  LOG(WARNING) << "snapshots cannot be written: " << claimed.status().message();
  options->claim = [prefix = options->prefix, run = files_.run, restarted = options_.run_name.restarted,
                    seen = LatestStart(options->prefix)]() -> StatusOr<std::shared_ptr<const Incarnation>> {
    const std::optional<RunMark> latest = RunOfLatestStart(prefix);
    if (latest && latest->id() == run.id() && LatestStart(prefix) > seen) {
      return FailedPrecondition("another start of this run has begun since, and writes its snapshots");
    }
    auto later = Incarnation::Claim(prefix, run, restarted, std::chrono::milliseconds(0));
    if (later.ok()) return std::shared_ptr<const Incarnation>(*std::move(later));
    const Status& status = later.status();
    return status.code() == StatusCode::kFailedPrecondition ? InternalError("%s", status.message().c_str()) : status;
  };
  return OkStatus();
}

StatusOr<SnapshotWriter::Options> Node::SnapshotFiles() {
  SnapshotWriter::Options options;
  options.prefix = files_.solver.snapshot_prefix();
  options.in_first_folder = options_.rank != 0 && shares_folder_;
  options.on_superseded = [this](const Status& status) { shutdown_.Fail(status); };
  if (options.in_first_folder) {
    LOG(WARNING) << "snapshot_copies: node " << info_.name << " has the folder of node " << table_.node(0).name
                 << ": snapshots are written once";
  } else {
    HP_RETURN_IF_ERROR(ClaimSnapshots(&options));
  }
  options.add_orders = [this](int64_t iteration, SnapshotManifest* manifest) {
    for (const auto& [from, base_lr] : files_.rates->ChangesUntil(iteration)) {
      RateChange* const change = manifest->add_rate_change();
      change->set_iteration(from);
      change->set_base_lr(base_lr);
    }
  };
  options.solver = files_.solver;
  options.most_message_bytes = MostMessageBytes(files_.solver);
  options.train_net = FilterNet(*files_.net, caffe::TRAIN);
  options.manifest.set_random_seed(static_cast<int64_t>(seed_));
  options.manifest.set_net_hash(NetHash(*files_.net));
  options.manifest.set_solver_hash(SolverHash(files_.solver));
  options.manifest.set_division_hash(table_.division_hash());
  options.manifest.set_precision(RoutingTableConfig::Precision_Name(precision_));
  options.manifest.set_histories(HistoriesOf(files_.solver));
  *options.manifest.mutable_run() = files_.run;
  options.keep = options_.keep_snapshots;
  if (files_.start_clock > 0) options.in_use.insert(files_.start_clock);
  for (const NodeInfo& node : table_.nodes()) {
    SnapshotNode* entry = options.manifest.add_node();
    *entry = bootstrap_->handshake()->DescribeNode(node.rank);
    entry->set_threads(ThreadsOf(node.rank));
  }
  return options;
}

bool Node::SharesFolder() const {
  if (options_.rank == 0) return files_.nonce != nullptr;
  const uint64_t nonce = bootstrap_->handshake()->folder_nonce();
  return nonce != 0 && FolderNonce::IsIn(files_.solver.snapshot_prefix(), nonce);
}

void Node::OnCopied(const SnapshotCopied& copied) {
  Status status;
  if (!copied.fault().empty()) {
    status = InternalError("its copy on node \"%s\" failed: %s", table_.node(table_.snapshot_copier()).name.c_str(),
                           Printable(copied.fault(), kMaxCopyFault).c_str());
  }
  snapshotter_->OnCopied(copied.iteration(), status);
}

}  // namespace hp
