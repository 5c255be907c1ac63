#include "engine/snapshotter.h"

#include "proto/net_filter.h"
#include "solvers/lr_policy.h"

#include "glog/logging.h"

#include <chrono>
#include <cstring>

namespace hp {
namespace {

uint32_t PortOf(size_t param, bool history) { return static_cast<uint32_t>(param) * 2 + (history ? 1 : 0); }

}  // namespace

Snapshotter::Snapshotter(const NodeModel& model, ParamStore* params, Transport* transport, Options options)
    : model_(model), params_(params), transport_(transport), options_(std::move(options)) {
  if (!first()) return;
  train_net_ = std::make_shared<caffe::NetParameter>(FilterNet(*model.options().net, caffe::TRAIN));
  thread_ = Thread("snapshot", [this] { Run(); });
}

Snapshotter::~Snapshotter() {
  {
    MutexLock lock(&mutex_);
    stop_ = true;
    changed_.SignalAll();
  }
  thread_.Join();
}

// --- Every node

Status Snapshotter::Begin(int64_t clock, bool files, bool pull, const std::optional<LossScalingState>& loss_scaling) {
  Copy copy;
  {
    MutexLock lock(&mutex_);
    newer_wanted_ = files;  // a pull makes no snapshot worthless, and does not wait for the disk
    changed_.SignalAll();
    while ((copy_.unsent > 0 || missing_ > 0 || (files && writing_)) && !stop_) changed_.Wait(&mutex_);
    newer_wanted_ = false;
  }
  HP_RETURN_IF_ERROR(CopyOwn(clock, &copy));
  std::shared_ptr<GatheredModel> pulled;
  {
    MutexLock lock(&mutex_);
    copy_ = std::move(copy);
    if (first()) {
      want_files_ = files;
      want_pull_ = pull;
      GrantPlaces(clock);
      gathering_->loss_scaling = loss_scaling;
      if (missing_ == 0) pulled = TakeGathered();
    }
    SendGranted();
    changed_.SignalAll();
  }
  if (pulled) options_.on_pulled(std::move(pulled));
  return OkStatus();
}

Status Snapshotter::CopyOwn(int64_t clock, Copy* copy) {
  copy->clock = clock;
  size_t bytes = 0;
  struct Piece {
    int param;
    uint32_t port;
    bool history;
    size_t bytes;
  };
  std::vector<Piece> pieces;
  for (size_t p = 0; p < model_.whole_params().size(); ++p) {
    const WholeParam& param = model_.whole_params()[p];
    for (const WholeParam::Slice& slice : param.slices) {
      if (slice.owner != model_.options().rank || slice.block.empty()) continue;
      const int i = params_->Find(param.whole.layer, param.whole.blob);
      pieces.push_back({i, PortOf(p, false), false, params_->values(i).size_bytes()});
      if (!params_->history(i).empty()) pieces.push_back({i, PortOf(p, true), true, params_->history(i).size_bytes()});
    }
  }
  for (const Piece& piece : pieces) bytes += piece.bytes;
  copy->memory = Buffer(bytes);
  size_t offset = 0;
  for (const Piece& piece : pieces) {
    const std::span<float> to{copy->memory.floats() + offset / sizeof(float), piece.bytes / sizeof(float)};
    HP_RETURN_IF_ERROR(piece.history ? params_->ReadHistory(piece.param, to) : params_->ReadValues(piece.param, to));
    copy->slices[piece.port] = copy->memory.span().subspan(offset, piece.bytes);
    offset += piece.bytes;
  }
  copy->unsent = first() ? 0 : pieces.size();
  return OkStatus();
}

void Snapshotter::SendGranted() {
  for (auto grant = grants_.begin(); grant != grants_.end();) {
    const auto& [clock, port] = grant->first;
    auto slice = copy_.slices.find(port);
    if (clock != copy_.clock || slice == copy_.slices.end()) {
      ++grant;
      continue;
    }
    const PlaceTag tag{static_cast<uint64_t>(clock), port | kPortBit};
    const Status status = transport_->Write(grant->second.first, tag, grant->second.second, slice->second);
    if (!status.ok()) LOG(WARNING) << "snapshot of iteration " << clock << ": " << status;
    grant = grants_.erase(grant);
  }
}

void Snapshotter::OnGranted(Rank peer, const PlaceTag& tag, RemoteGrant grant) {
  MutexLock lock(&mutex_);
  grants_[{static_cast<int64_t>(tag.msg_id), tag.port & ~kPortBit}] = {peer, grant};
  SendGranted();
}

void Snapshotter::OnWriteEnded() {
  MutexLock lock(&mutex_);
  if (copy_.unsent > 0) --copy_.unsent;
  if (copy_.unsent == 0) copy_ = Copy();
  changed_.SignalAll();
}

// --- The first node

void Snapshotter::GrantPlaces(int64_t clock) {
  gathering_ = std::make_shared<GatheredModel>();
  gathering_->iteration = clock;
  const auto& params = model_.whole_params();
  for (size_t p = 0; p < params.size(); ++p) {
    const StoredParam& whole = params[p].whole;
    const size_t bytes = whole.whole.count() * sizeof(float);
    const size_t row_bytes = ColumnsOf(whole.whole) * sizeof(float);
    gathering_->values.emplace_back(bytes);
    gathering_->histories.emplace_back(whole.frozen() ? 0 : bytes);
    for (const WholeParam::Slice& slice : params[p].slices) {
      for (bool history : {false, true}) {
        const Buffer& to = history ? gathering_->histories[p] : gathering_->values[p];
        if (to.bytes() == 0 || slice.block.empty()) continue;
        const std::span<std::byte> place =
            to.span().subspan(slice.block.begin_row * row_bytes, slice.block.rows() * row_bytes);
        if (slice.owner == model_.options().rank) {
          std::memcpy(place.data(), copy_.slices.at(PortOf(p, history)).data(), place.size());
          continue;
        }
        ++missing_;
        const PlaceTag tag{static_cast<uint64_t>(clock), PortOf(p, history) | kPortBit};
        const Status status = transport_->Grant(slice.owner, tag, place);
        if (!status.ok()) LOG(WARNING) << "snapshot of iteration " << clock << ": " << status;
      }
    }
  }
  copy_ = Copy();
}

std::shared_ptr<GatheredModel> Snapshotter::TakeGathered() {
  std::shared_ptr<GatheredModel> model = std::move(gathering_);
  if (want_files_) {
    to_write_ = model;
    writing_ = true;
  }
  return want_pull_ ? model : nullptr;
}

void Snapshotter::OnGrantEnded(const PlaceTag&, const Status& status) {
  std::shared_ptr<GatheredModel> pulled;
  {
    MutexLock lock(&mutex_);
    if (!status.ok()) return;  // its owner is lost, and with it the job
    if (missing_ > 0 && --missing_ == 0) pulled = TakeGathered();
    changed_.SignalAll();
  }
  if (pulled) options_.on_pulled(std::move(pulled));
}

void Snapshotter::OnVerdict(int64_t clock) {
  MutexLock lock(&mutex_);
  verdict_ = std::max(verdict_, clock);
  changed_.SignalAll();
}

void Snapshotter::Run() {
  for (;;) {
    std::shared_ptr<GatheredModel> gathered;
    {
      MutexLock lock(&mutex_);
      while (!to_write_ && !stop_) changed_.Wait(&mutex_);
      if (!to_write_) return;
      gathered = std::move(to_write_);
    }
    const Status status = WriteFiles(*gathered);
    MutexLock lock(&mutex_);
    last_ = status;
    writing_ = false;
    changed_.SignalAll();
  }
}

bool Snapshotter::WaitForVerdict(int64_t clock) {
  MutexLock lock(&mutex_);
  while (verdict_ < clock && !stop_) changed_.Wait(&mutex_);
  return verdict_ >= clock;
}

// A disk that is full now may not be full later: the copy is kept and tried again until a newer snapshot is due, which
// makes this one worthless. Training does not wait for any of it.
Status Snapshotter::WriteFiles(const GatheredModel& gathered) {
  SnapshotContents contents;
  contents.prefix = options_.prefix;
  contents.iteration = gathered.iteration;
  contents.current_step = LearningRateStep(model_.options().solver, static_cast<int>(gathered.iteration));
  contents.net = train_net_.get();
  contents.manifest = options_.manifest;
  if (gathered.loss_scaling) *contents.manifest.mutable_loss_scaling() = *gathered.loss_scaling;
  for (size_t p = 0; p < model_.whole_params().size(); ++p) {
    const StoredParam& whole = model_.whole_params()[p].whole;
    const float* history = gathered.histories[p].bytes() > 0 ? gathered.histories[p].floats() : nullptr;
    contents.params.push_back({whole.layer, whole.blob, whole.whole, gathered.values[p].floats(), history});
  }
  LOG(INFO) << "Snapshotting to binary proto file " << SnapshotModelPath(options_.prefix, gathered.iteration);
  for (;;) {
    Status status;
    auto pending = PrepareSnapshot(contents);
    if (pending.ok()) {
      if (gathered.iteration > 0 && !WaitForVerdict(gathered.iteration - 1)) return Cancelled("no verdict");
      status = (*pending)->Commit();
    } else {
      status = pending.status();
    }
    if (status.ok()) {
      LOG(INFO) << "Snapshotting solver state to binary proto file "
                << SnapshotStatePath(options_.prefix, gathered.iteration);
      return status;
    }
    LOG(WARNING) << "snapshot of iteration " << gathered.iteration << " failed, training goes on: " << status;
    if (!WaitToTryAgain()) return status;
  }
}

bool Snapshotter::WaitToTryAgain() {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(options_.retry_ms);
  MutexLock lock(&mutex_);
  while (!stop_ && !newer_wanted_) {
    const auto left = until - std::chrono::steady_clock::now();
    if (left.count() <= 0) return true;
    changed_.WaitFor(&mutex_, left);  // every verdict ends it
  }
  return false;
}

Status Snapshotter::Finish() {
  MutexLock lock(&mutex_);
  while (copy_.unsent > 0 || missing_ > 0) changed_.Wait(&mutex_);
  newer_wanted_ = true;  // the last attempt is the last one
  changed_.SignalAll();
  while (writing_) changed_.Wait(&mutex_);
  return last_;
}

}  // namespace hp
