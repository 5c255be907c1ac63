#include "snapshot/part_writer.h"

#include "base/pending_file.h"
#include "checkpoint/snapshot_parts.h"

#include "glog/logging.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#define XXH_INLINE_ALL
#include "xxhash.h"

namespace hp {
namespace {

constexpr size_t kSumBytes = 256 << 10;  // summed and then written while it is in the cache
constexpr size_t kMaxToldFault = 400;    // bytes that are said of why a write failed

}  // namespace

PartWriter::PartWriter(const std::vector<WholeParam>& params, ParamStore* store, Options options)
    : params_(params), store_(store), options_(std::move(options)), layout_(PartLayout(params, options_.rank)) {
  thread_ = Thread("slices", [this] { Run(); });
}

PartWriter::~PartWriter() {
  {
    MutexLock lock(&mutex_);
    stop_ = true;
    changed_.SignalAll();
  }
  thread_.Join();
}

bool PartWriter::HasRoom() const {
  MutexLock lock(&mutex_);
  return parts_.size() < kMaxCopies;
}

Status PartWriter::Begin(int64_t clock, int64_t version, int64_t start) {
  CHECK(HasRoom()) << "no room for a copy of iteration " << clock;
  if (layout_.empty()) return OkStatus();
  Part part{clock, start, {}};
  {
    MutexLock lock(&mutex_);
    std::swap(part.slices, spare_);
  }
  if (part.slices.bytes() == 0) {
    HP_ASSIGN_OR_RETURN(part.slices, Buffer::Allocate(static_cast<size_t>(PartBytes(layout_))));
  }
  float* to = part.slices.floats();
  for (const PartSlice& slice : layout_) {
    const StoredParam& whole = params_[slice.param].whole;
    const int i = store_->Find(whole.layer, whole.blob);
    const std::span<float> place{to, static_cast<size_t>(slice.block.count())};
    HP_RETURN_IF_ERROR(store_->ReadArray(i, version, slice.array, place));
    to += place.size();
  }
  MutexLock lock(&mutex_);
  parts_.push_back(std::move(part));
  changed_.SignalAll();
  return OkStatus();
}

void PartWriter::SetLastAttempt() {
  MutexLock lock(&mutex_);
  last_attempt_ = true;
  changed_.SignalAll();
}

void PartWriter::WaitUntilDone() {
  MutexLock lock(&mutex_);
  while (!parts_.empty()) changed_.Wait(&mutex_);
}

void PartWriter::Run() {
  for (;;) {
    const Part* part = nullptr;
    {
      MutexLock lock(&mutex_);
      while (parts_.empty() && !stop_) changed_.Wait(&mutex_);
      if (stop_) return;
      part = &parts_.front();  // a deque: it stays where it is
    }
    options_.on_written(WriteUntilDone(*part));
    {
      MutexLock lock(&mutex_);
      std::swap(spare_, parts_.front().slices);
      parts_.pop_front();
      changed_.SignalAll();
    }
    options_.on_room();
  }
}

SnapshotPartWritten PartWriter::WriteUntilDone(const Part& part) {
  for (;;) {
    SnapshotPartWritten written;
    written.set_iteration(part.clock);
    const Status status = TryOnce(part, &written);
    if (status.ok()) return written;
    LOG(WARNING) << "snapshot of iteration " << part.clock
                 << " failed, training does not wait for it: " << status.message();
    if (WaitToTryAgain()) continue;
    written.set_fault(status.message().substr(0, kMaxToldFault));
    return written;
  }
}

Status PartWriter::TryOnce(const Part& part, SnapshotPartWritten* written) const {
  const std::string path = SnapshotPartPath(options_.prefix, part.clock, part.start, options_.rank);
  const std::string name = std::filesystem::path(path).filename().string();
  const auto step = [&](const char* verb) {
    if (options_.before_step) options_.before_step(std::string(verb) + " " + name);
  };
  step("write");
  HP_ASSIGN_OR_RETURN(const auto file, PendingFile::Create(path, "." + std::to_string(part.start) + ".tmp"));
  std::string_view left(reinterpret_cast<const char*>(part.slices.data()), part.slices.bytes());
  XXH64_state_t sum;
  XXH64_reset(&sum, 0);
  while (!left.empty()) {
    const std::string_view piece = left.substr(0, kSumBytes);
    XXH64_update(&sum, piece.data(), piece.size());
    HP_RETURN_IF_ERROR(file->Write(piece));
    left.remove_prefix(piece.size());
  }
  step("sync");
  HP_RETURN_IF_ERROR(file->Sync());
  HP_RETURN_IF_ERROR(file->Commit());
  written->set_bytes(static_cast<int64_t>(part.slices.bytes()));
  written->set_xxh64(XXH64_digest(&sum));
  return OkStatus();
}

// A newer snapshot makes this one worthless.
bool PartWriter::WaitToTryAgain() {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(options_.retry_ms);
  MutexLock lock(&mutex_);
  while (!stop_ && parts_.size() < kMaxCopies && !last_attempt_) {
    const auto left = until - std::chrono::steady_clock::now();
    if (left.count() <= 0) return true;
    changed_.WaitFor(&mutex_, left);
  }
  return false;
}

}  // namespace hp
