// The order makes two promises. Files are written under temporary names and renamed only when all their bytes are on
// the disk, so a crash leaves no snapshot that passes for complete and is not; and not before the verdict of the last
// update, so a snapshot never has numbers that stopped the job. Only renaming waits for that verdict, writing does
// not.
#include "snapshot/snapshot_writer.h"

#include "base/out_of_memory.h"
#include "checkpoint/snapshot.h"
#include "checkpoint/snapshot_folder.h"
#include "checkpoint/snapshot_lines.h"
#include "snapshot/part_layout.h"
#include "solvers/lr_policy.h"

#include "glog/logging.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace hp {
namespace {

/// @param room gets the memory for blobs that do not lie in one piece.
Status AddParams(const GatheredModel& model, std::vector<Buffer>* room, SnapshotContents* contents) {
  for (size_t p = 0; p < model.params().size(); ++p) {
    const StoredParam& whole = model.params()[p].whole;
    SnapshotParam& param =
        contents->params.emplace_back(SnapshotParam{whole.layer, whole.blob, whole.whole, {}, model.params()[p].users});
    for (int array = 0; array < model.arrays(p); ++array) {
      HP_ASSIGN_OR_RETURN(param.arrays[array].data, model.Whole(p, array, &room->emplace_back()));
    }
  }
  return OkStatus();
}

}  // namespace

SnapshotWriter::SnapshotWriter(Options options) : options_(std::move(options)), incarnation_(options_.incarnation) {
  thread_ = Thread("snapshot", [this] { Run(); });
}

SnapshotWriter::~SnapshotWriter() { Stop(); }

void SnapshotWriter::Stop() {
  {
    MutexLock lock(&mutex_);
    stop_ = true;
    changed_.SignalAll();
  }
  thread_.Join();
}

void SnapshotWriter::Write(std::shared_ptr<const GatheredModel> model) {
  MutexLock lock(&mutex_);
  CHECK(!to_write_) << "another snapshot is still waiting to be written";
  to_write_ = std::move(model);
  changed_.SignalAll();
}

void SnapshotWriter::SetNewerWaits(bool waits) {
  MutexLock lock(&mutex_);
  newer_waits_ = waits;
  changed_.SignalAll();
}

void SnapshotWriter::SetLastAttempt() {
  MutexLock lock(&mutex_);
  last_attempt_ = true;
  changed_.SignalAll();
}

void SnapshotWriter::OnVerdict(int64_t clock) {
  MutexLock lock(&mutex_);
  verdict_ = std::max(verdict_, clock);
  changed_.SignalAll();
}

Status SnapshotWriter::last() const {
  MutexLock lock(&mutex_);
  return last_;
}

void SnapshotWriter::Run() {
  for (;;) {
    std::shared_ptr<const GatheredModel> model;
    {
      MutexLock lock(&mutex_);
      while (!to_write_ && !stop_) changed_.Wait(&mutex_);
      if (!to_write_) return;
      model = std::exchange(to_write_, nullptr);
    }
    const Status status = WriteFiles(*model);
    if (options_.on_result && status.code() != StatusCode::kCancelled) options_.on_result(model->iteration(), status);
    const int64_t iteration = model->iteration();
    model.reset();
    {
      MutexLock lock(&mutex_);
      last_ = status;
      if (stop_) return;
    }
    options_.on_written(iteration);
  }
}

// A disk that is full now may not be full later: the model is kept and tried again until a newer snapshot is due, which
// makes this one worthless. Training does not wait for any of it.
Status SnapshotWriter::WriteFiles(const GatheredModel& model) {
  if (options_.in_first_folder) return OkStatus();
  SnapshotContents contents;
  contents.prefix = options_.prefix;
  contents.iteration = model.iteration();
  contents.current_step = LearningRateStep(options_.solver, static_cast<int>(model.iteration()));
  contents.net = &options_.train_net;
  contents.manifest = options_.manifest;
  contents.before_step = options_.before_step;
  contents.most_message_bytes = options_.most_message_bytes;
  if (model.loss_scaling) *contents.manifest.mutable_loss_scaling() = *model.loss_scaling;
  if (options_.add_orders) options_.add_orders(model.iteration(), &contents.manifest);
  std::vector<Buffer> room;
  if (const Status status = AddParams(model, &room, &contents); !status.ok()) {
    LOG(WARNING) << "snapshot of iteration " << model.iteration()
                 << " is given up, training does not wait for it: " << status.message();
    return status;
  }
  const std::string end = SnapshotEnding(ParameterBytes(model.params()), options_.most_message_bytes);
  LOG(INFO) << ModelLine(SnapshotModelPath(options_.prefix, model.iteration()) + end);
  for (;;) {
    const Status status = OrOutOfMemory("writing a snapshot", [&] { return TryOnce(&contents); });
    if (status.ok()) {
      LOG(INFO) << StateLine(SnapshotStatePath(options_.prefix, model.iteration()) + end);
      if (options_.keep > 0) {
        PruneSnapshots(options_.prefix, options_.manifest.run(), options_.keep, options_.in_use, contents.incarnation);
      }
    }
    if (status.ok() || status.code() == StatusCode::kCancelled) return status;
    if (status.code() == StatusCode::kInternal) {  // of the copy or the claim: no other attempt changes that
      LOG(WARNING) << "snapshot of iteration " << model.iteration()
                   << " is given up, training does not wait for it: " << status.message();
      return status;
    }
    if (status.code() == StatusCode::kFailedPrecondition) {
      options_.on_superseded(status);
      return status;
    }
    LOG(WARNING) << "snapshot of iteration " << model.iteration()
                 << " failed, training does not wait for it: " << status.message();
    if (!WaitToTryAgain()) return status;
  }
}

Status SnapshotWriter::TryOnce(SnapshotContents* contents) {
  HP_RETURN_IF_ERROR(Claim());
  contents->incarnation = incarnation_.get();
  HP_ASSIGN_OR_RETURN(const auto pending, PrepareSnapshot(*contents));
  if (contents->iteration > 0 && !WaitForVerdict(contents->iteration - 1)) return Cancelled("no verdict");
  if (options_.copied) HP_RETURN_IF_ERROR(WaitForCopy(contents->iteration));
  return pending->Commit();
}

Status SnapshotWriter::Claim() {
  if (incarnation_ || !options_.claim) return OkStatus();
  HP_ASSIGN_OR_RETURN(incarnation_, options_.claim());
  return OkStatus();
}

void SnapshotWriter::OnCopied(int64_t iteration, const Status& status) {
  MutexLock lock(&mutex_);
  copies_[iteration] = status;
  changed_.SignalAll();
}

Status SnapshotWriter::WaitForCopy(int64_t iteration) {
  MutexLock lock(&mutex_);
  copies_.erase(copies_.begin(), copies_.lower_bound(iteration));
  while (!copies_.contains(iteration) && !stop_) changed_.Wait(&mutex_);
  return copies_.contains(iteration) ? copies_.at(iteration) : Cancelled("no copy");
}

bool SnapshotWriter::WaitForVerdict(int64_t clock) {
  MutexLock lock(&mutex_);
  while (verdict_ < clock && !stop_) changed_.Wait(&mutex_);
  return verdict_ >= clock;
}

bool SnapshotWriter::WaitToTryAgain() {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(options_.retry_ms);
  MutexLock lock(&mutex_);
  while (!stop_ && !newer_waits_ && !last_attempt_) {
    const auto left = until - std::chrono::steady_clock::now();
    if (left.count() <= 0) return true;
    changed_.WaitFor(&mutex_, left);  // every verdict ends it
  }
  return false;
}

}  // namespace hp
