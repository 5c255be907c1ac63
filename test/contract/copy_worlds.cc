#include "test/contract/copy_worlds.h"

#include "transport/copy/copy_transport.h"

#include <glog/logging.h>

#include <cstring>
#include <utility>

namespace hp {
namespace {

struct HostHandle {
  std::byte* begin = nullptr;
  size_t bytes = 0;
};

/// Everything that a pointer can point to.
std::span<std::byte> AllMemory() { return {reinterpret_cast<std::byte*>(4096), (size_t{1} << 47) - 8192}; }

struct CopyParts {
  std::unique_ptr<Transport> beneath;
  FakeCopier copier;
};

class WholeMemoryTransport : private CopyParts, public CopyTransport {
 public:
  WholeMemoryTransport(std::unique_ptr<Transport> transport, CopyOptions options)
      : CopyParts{std::move(transport), FakeCopier()}, CopyTransport(CopyParts::beneath.get(), WithCopier(options)) {
    auto region = RegisterDevice(FakeCopier::Describe(AllMemory()));
    CHECK(region.ok()) << region.status();
    region_ = *std::move(region);
  }
  ~WholeMemoryTransport() override { CopyTransport::Stop(); }

 private:
  CopyOptions WithCopier(CopyOptions options) {
    options.copier = &copier;
    return options;
  }
  std::unique_ptr<MemoryRegion> region_;
};

class CopyWorld : public TransportWorld {
 public:
  CopyWorld(const WorldOptions& options, std::unique_ptr<TransportWorld> beneath)
      : nodes_(options.size), beneath_(std::move(beneath)) {}

  std::unique_ptr<Transport> Create(Rank rank) override {
    CopyOptions options;
    for (Rank peer = 0; peer < nodes_; ++peer) {
      if (peer != rank) options.peers.insert(peer);
    }
    options.on_settled = [this](Rank, const CopyRoad& road) {
      CHECK(road.why_not.ok()) << road.why_not;
      MutexLock lock(&mutex_);
      ++settled_;
      changed_.SignalAll();
    };
    return std::make_unique<WholeMemoryTransport>(beneath_->Create(rank), options);
  }
  std::unique_ptr<Transport> CreateClient(Rank server) override { return beneath_->CreateClient(server); }
  void AwaitQuiet() override {
    MutexLock lock(&mutex_);
    while (settled_ < nodes_ * (nodes_ - 1)) changed_.Wait(&mutex_);
  }

 private:
  const int nodes_;
  const std::unique_ptr<TransportWorld> beneath_;
  Mutex mutex_;
  CondVar changed_;
  int settled_ HP_GUARDED_BY(mutex_) = 0;
};

}  // namespace

FakeCopier::FakeCopier(std::string name)
    : name_(std::move(name)), probe_bytes_(kCopyProbeBytes), probe_(Describe(probe_bytes_)) {}

DeviceMemory FakeCopier::Describe(std::span<std::byte> bytes) {
  DeviceMemory memory;
  memory.bytes = bytes;
  memory.export_handle = [bytes] {
    const HostHandle handle{bytes.data(), bytes.size()};
    return std::string(reinterpret_cast<const char*>(&handle), sizeof(handle));
  };
  return memory;
}

StatusOr<std::byte*> FakeCopier::Open(std::string_view handle, size_t bytes) {
  HostHandle memory;
  if (handle.size() != sizeof(memory)) return InvalidArgument("a handle of %zu bytes", handle.size());
  std::memcpy(&memory, handle.data(), handle.size());
  if (bytes > memory.bytes) return InvalidArgument("a handle of %zu bytes of memory, not %zu", memory.bytes, bytes);
  MutexLock lock(&mutex_);
  ++open_;
  ++opened_;
  return memory.begin;
}

void FakeCopier::Close(std::byte*) {
  MutexLock lock(&mutex_);
  --open_;
}

void FakeCopier::Copy(std::byte* to, const std::byte* from, size_t bytes) {
  MutexLock lock(&mutex_);
  pending_.push_back({to, from, bytes});
  ++begun_;
}

DeviceCopier::Mark FakeCopier::Record() {
  MutexLock lock(&mutex_);
  return begun_;
}

Status FakeCopier::Wait(Mark mark) {
  for (;;) {
    Pending copy;
    {
      MutexLock lock(&mutex_);
      if (done_ >= mark) return failure_;
      held_ = hold_;
      changed_.SignalAll();
      if (hold_) {
        changed_.Wait(&mutex_);
        continue;
      }
      copy = pending_.front();
    }
    if (copy.bytes > 0) {
      static Mutex bus;  // two peers may copy into one probe
      MutexLock lock(&bus);
      std::memcpy(copy.to, copy.from, copy.bytes);
    }
    MutexLock lock(&mutex_);
    pending_.pop_front();
    copied_ += copy.bytes;
    ++done_;
  }
}

void FakeCopier::Hold() {
  MutexLock lock(&mutex_);
  hold_ = true;
}

void FakeCopier::Release() {
  MutexLock lock(&mutex_);
  hold_ = held_ = false;
  changed_.SignalAll();
}

void FakeCopier::AwaitHeld() {
  MutexLock lock(&mutex_);
  while (!held_) changed_.Wait(&mutex_);
}

void FakeCopier::Fail(const Status& status) {
  MutexLock lock(&mutex_);
  failure_ = status;
}

int FakeCopier::open() {
  MutexLock lock(&mutex_);
  return open_;
}

int FakeCopier::opened() {
  MutexLock lock(&mutex_);
  return opened_;
}

size_t FakeCopier::copied() {
  MutexLock lock(&mutex_);
  return copied_;
}

TransportKind CopyKind(const std::string& name,
                       std::function<std::unique_ptr<TransportWorld>(const WorldOptions&)> beneath) {
  return {.name = name,
          .make = [beneath](const WorldOptions& options) -> std::unique_ptr<TransportWorld> {
            return std::make_unique<CopyWorld>(options, beneath(options));
          },
          .peers_write_on = true};
}

}  // namespace hp
