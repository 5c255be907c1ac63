#include "test/support/fake_gpu.h"

#include "glog/logging.h"
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>

namespace hp::test {
namespace {

constexpr size_t kPage = 4096, kBlock = 256;

size_t Pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }
size_t Blocks(size_t bytes) { return (bytes + kBlock - 1) / kBlock * kBlock; }

}  // namespace

class FakeGpu::Stream : public HostStream {
 public:
  Stream(FakeGpu* gpu, Queue queue) : gpu_(gpu), queue_(queue) {}
  void Enqueue(std::function<void()> work) override {
    ++gpu_->launches_;
    gpu_->Push(queue_, {.work = std::move(work)});
  }

 private:
  FakeGpu* const gpu_;
  const Queue queue_;
};

FakeGpu::FakeGpu(const Options& options) : options_(options), random_(options.seed) {
  info_.index = options.index;
  info_.name = "fake GPU";
  info_.major = 9;
  info_.memory_bytes = info_.free_bytes = options.memory_bytes;
  info_.multiprocessors = 1;
  info_.pci_address = "0000:00:0" + std::to_string(options.index) + ".0";
  info_.dma_buf = options.dma_buf;
  for (int queue = 0; queue < kQueues; ++queue) {
    streams_.push_back(std::make_unique<Stream>(this, static_cast<Queue>(queue)));
  }
  void* memory = mmap(nullptr, Pages(options.memory_bytes), options.protect ? PROT_NONE : PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  PCHECK(memory != MAP_FAILED);
  memory_ = static_cast<std::byte*>(memory);
  if (options_.host != nullptr) options_.host->Add(this);
}

FakeGpu::~FakeGpu() {
  if (options_.on_close) options_.on_close(*this);
  if (options_.host != nullptr) options_.host->Remove(this);
  CHECK(used_.empty()) << "memory of " << name() << " outlives it";
  munmap(memory_, Pages(options_.memory_bytes));
}

void FakeGpu::SetAccess(bool allowed) {
  if (!options_.protect) return;
  MutexLock lock(&access_mutex_);
  access_ += allowed ? 1 : -1;
  if (access_ > 1 || (allowed ? 1 : 0) != access_) return;
  PCHECK(mprotect(memory_, Pages(options_.memory_bytes), allowed ? PROT_READ | PROT_WRITE : PROT_NONE) == 0);
}

size_t FakeGpu::UsedBytes() const {
  size_t used = 0;
  for (const auto& [offset, bytes] : used_) used += bytes;
  return used;
}

size_t FakeGpu::free_bytes() const {
  MutexLock lock(&mutex_);
  return options_.memory_bytes - UsedBytes();
}

size_t FakeGpu::peak_bytes() const {
  MutexLock lock(&mutex_);
  return peak_bytes_;
}

StatusOr<Buffer> FakeGpu::Allocate(size_t bytes) {
  if (bytes == 0) return Buffer();
  MutexLock lock(&mutex_);
  CHECK(recording_ == nullptr) << "memory allocated in work that is repeated";
  size_t at = 0;
  for (const auto& [offset, size] : used_) {
    if (at + Blocks(bytes) <= offset) break;
    at = offset + size;
  }
  if (at + Blocks(bytes) > options_.memory_bytes) {
    return ResourceExhausted("%s: %zu bytes are not free", name().c_str(), bytes);
  }
  used_[at] = Blocks(bytes);
  peak_bytes_ = std::max(peak_bytes_, UsedBytes());
  SetAccess(true);
  std::memset(memory_ + at, 0, bytes);
  SetAccess(false);
  return Buffer(memory_ + at, bytes, [this, at](std::byte*, size_t) {
    MutexLock lock(&mutex_);
    used_.erase(at);
  });
}

GpuStream FakeGpu::stream(Queue queue) { return {.cuda = nullptr, .host = streams_[queue].get()}; }

void FakeGpu::Push(Queue queue, Item item) {
  MutexLock lock(&mutex_);
  if (queue == kCompute && recording_ != nullptr) {
    CHECK(item.work) << "only work can be recorded";
    recording_->push_back(std::move(item.work));
    return;
  }
  queues_[queue].push_back(std::move(item));
}

StatusOr<Buffer> FakeGpu::AllocateHost(size_t bytes) {
  if (bytes == 0) return Buffer();
  HP_ASSIGN_OR_RETURN(Buffer allocated, Buffer::Allocate(bytes));
  const auto memory = std::make_shared<Buffer>(std::move(allocated));
  std::byte* const begin = memory->data();
  MutexLock lock(&mutex_);
  pinned_.emplace(begin, bytes);
  return Buffer(begin, bytes, [this, memory](std::byte* data, size_t) {
    MutexLock pinned_lock(&mutex_);
    pinned_.erase(data);
  });
}

bool FakeGpu::IsPinned(const void* memory, size_t bytes) const {
  MutexLock lock(&mutex_);
  const auto* const begin = static_cast<const std::byte*>(memory);
  const auto behind = pinned_.upper_bound(begin);
  if (behind == pinned_.begin()) return false;
  const auto& [first, size] = *std::prev(behind);
  return bytes <= size - std::min(size, static_cast<size_t>(begin - first));
}

void FakeGpu::Upload(Queue queue, void* to, const void* from, size_t bytes) {
  uploaded_ += bytes;
  ++uploads_;
  if (!IsPinned(from, bytes)) ++unpinned_uploads_;
  Push(queue, {.work = [=] { std::memcpy(to, from, bytes); }});
}

void FakeGpu::Download(Queue queue, void* to, const void* from, size_t bytes) {
  downloaded_ += bytes;
  Push(queue, {.work = [=] { std::memcpy(to, from, bytes); }});
}

void FakeGpu::Copy(Queue queue, void* to, const void* from, size_t bytes) {
  ++copies_;
  Push(queue, {.work = [=] { std::memcpy(to, from, bytes); }});
}

void FakeGpu::Order(Queue first, Queue then) { Follow(Record(first), then); }

Device::Mark FakeGpu::Record(Queue queue) {
  Mark mark;
  {
    MutexLock lock(&mutex_);
    mark = ++last_mark_;
  }
  Push(queue, {.work = nullptr, .reached = mark});
  return mark;
}

bool FakeGpu::Step() {
  const size_t first = random_() % kQueues;
  for (size_t i = 0; i < kQueues; ++i) {
    std::deque<Item>& queue = queues_[(first + i) % kQueues];
    if (queue.empty() || (queue.front().needed != 0 && !reached_.contains(queue.front().needed))) continue;
    const Item item = std::move(queue.front());
    queue.pop_front();
    if (item.reached != 0) reached_.insert(item.reached);
    if (item.work && failure_.ok()) item.work();
    return true;
  }
  return false;
}

Status FakeGpu::Wait(Mark mark) {
  MutexLock lock(&mutex_);
  while (held_behind_ && mark > *held_behind_ && failure_.ok()) changed_.Wait(&mutex_);
  SetAccess(true);
  while (!reached_.contains(mark)) CHECK(Step()) << "a queue waits for a mark that nobody reaches";
  SetAccess(false);
  told_ |= !failure_.ok();
  changed_.SignalAll();
  return failure_;
}

Status FakeGpu::Synchronize() {
  MutexLock lock(&mutex_);
  SetAccess(true);
  while (Step()) {
  }
  SetAccess(false);
  for (const auto& queue : queues_) CHECK(queue.empty()) << "a queue waits for a mark that nobody reaches";
  return failure_;
}

void FakeGpu::RunCaptured(const CaptureKey& key, const std::function<void()>& work) {
  if (!options_.repeats) return work();
  bool known, first;
  {
    MutexLock lock(&mutex_);
    CHECK(recording_ == nullptr) << "a recording within a recording";
    known = recordings_.contains(key);
    first = seen_.insert(key).second;
    if (!known && !first) recording_ = &recordings_[key];
  }
  if (!known) work();
  MutexLock lock(&mutex_);
  recording_ = nullptr;
  if (first) return;
  ++(known ? repeated_ : recorded_);
  for (const Work& step : recordings_[key]) queues_[kCompute].push_back({.work = step});
}

int FakeGpu::recorded() const {
  MutexLock lock(&mutex_);
  return recorded_;
}

int FakeGpu::repeated() const {
  MutexLock lock(&mutex_);
  return repeated_;
}

void FakeGpu::Fail(const Status& status) {
  MutexLock lock(&mutex_);
  failure_ = status;
  changed_.SignalAll();
}

void FakeGpu::Hold() {
  MutexLock lock(&mutex_);
  held_behind_ = last_mark_;
}

void FakeGpu::Release() {
  MutexLock lock(&mutex_);
  held_behind_.reset();
  changed_.SignalAll();
}

void FakeGpu::AwaitTold() {
  MutexLock lock(&mutex_);
  while (!told_) changed_.Wait(&mutex_);
}

Status FakeGpu::ExportDmaBuf(const void* memory, size_t bytes, bool, int* fd, uint64_t* offset) {
  if (!options_.dma_buf) return FailedPrecondition("%s exports no memory", name().c_str());
  const std::byte* begin = static_cast<const std::byte*>(memory);
  CHECK(begin >= memory_ && begin + bytes <= memory_ + options_.memory_bytes);
  *fd = memfd_create("fake-dma-buf", MFD_CLOEXEC);
  *offset = 0;
  return *fd < 0 ? InternalError("memfd_create failed") : OkStatus();
}

Status FakeGpu::CopyNow(void* to, const void* from, size_t bytes) {
  MutexLock lock(&mutex_);
  SetAccess(true);
  std::memcpy(to, from, bytes);
  SetAccess(false);
  return failure_;
}

// --- Other GPUs

bool FakeGpu::Owns(const void* memory, size_t bytes) const {
  const std::byte* const begin = static_cast<const std::byte*>(memory);
  return begin >= memory_ && begin < memory_ + options_.memory_bytes &&
         bytes <= static_cast<size_t>(memory_ + options_.memory_bytes - begin);
}

Status FakeGpu::CanReach(const std::string& pci_address) {
  if (options_.host == nullptr) return FailedPrecondition("%s reaches no other GPU", name().c_str());
  return pci_address == info_.pci_address ? OkStatus() : options_.host->CanReach(pci_address);
}

StatusOr<GpuIpcMemory> FakeGpu::ExportIpc(const void* memory) {
  if (options_.host == nullptr) return FailedPrecondition("%s exports no memory", name().c_str());
  const auto at = static_cast<size_t>(static_cast<const std::byte*>(memory) - memory_);
  size_t begin = 0;  // of the allocation
  {
    MutexLock lock(&mutex_);
    begin = std::prev(used_.upper_bound(at))->first;
  }
  return GpuIpcMemory{options_.host->Export(memory_ + begin), at - begin};
}

StatusOr<void*> FakeGpu::OpenIpc(const GpuIpcMemory& memory, size_t bytes) {
  if (options_.host == nullptr) return FailedPrecondition("%s opens no memory", name().c_str());
  HP_ASSIGN_OR_RETURN(void* const begin, options_.host->Open(memory.handle));
  std::byte* const opened = static_cast<std::byte*>(begin) + memory.offset;
  if (const Status there = options_.host->CheckMemory(opened, bytes); !there.ok()) {
    options_.host->Close(begin);
    return there;
  }
  MutexLock lock(&mutex_);
  reach_.insert({opened, {bytes, begin}});
  return opened;
}

void FakeGpu::CloseIpc(void* opened) {
  void* begin = nullptr;
  {
    MutexLock lock(&mutex_);
    const auto [first, last] = reach_.equal_range(static_cast<std::byte*>(opened));
    const auto it = std::find_if(first, last, [](const auto& entry) { return entry.second.allocation != nullptr; });
    CHECK(it != last) << "memory is closed that is not open";
    begin = it->second.allocation;
    reach_.erase(it);
  }
  options_.host->Close(begin);
}

bool FakeGpu::Reaches(const std::byte* memory, size_t bytes) const {
  return std::any_of(reach_.begin(), reach_.end(), [&](const auto& entry) {
    return memory >= entry.first && memory + bytes <= entry.first + entry.second.bytes;
  });
}

Status FakeGpu::OpenHere(void* memory, size_t bytes) {
  if (options_.host == nullptr) return FailedPrecondition("%s reaches no other GPU", name().c_str());
  HP_RETURN_IF_ERROR(options_.host->CheckMemory(memory, bytes));
  MutexLock lock(&mutex_);
  reach_.insert({static_cast<std::byte*>(memory), {bytes, nullptr}});
  return OkStatus();
}

void FakeGpu::CopyAcross(Queue queue, void* to, const void* from, size_t bytes) {
  // Runs under mutex_, as all work does.
  Push(queue, {.work = [=, this]() HP_NO_THREAD_SAFETY_ANALYSIS {
         CHECK(Reaches(static_cast<const std::byte*>(to), bytes)) << "a copy into memory that is not open";
         const Status status = options_.host->Copy(to, from, bytes);
         if (!status.ok() && failure_.ok()) failure_ = status.Prepend(name());
       }});
}

}  // namespace hp::test
