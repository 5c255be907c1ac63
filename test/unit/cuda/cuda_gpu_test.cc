// The Gpu that calls CUDA, linked with a CUDA that is not there: what it calls, on which device, and what it makes of
// the answers.
#include "backend/cuda/engine_timer.h"
#include "backend/cuda/gpu.h"
#include "base/bfloat16.h"
#include "base/float16.h"
#include "base/thread.h"
#include "tensor/several_devices.h"
#include "test/support/fake_cuda.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace hp::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr size_t kArena = size_t{3} << 20;  // large enough for memory of its own
constexpr size_t kPage = size_t{2} << 20;
constexpr Device::CaptureKey kWork = {1, 2, 3};

class CudaGpuTest : public testing::Test {
 protected:
  CudaGpuTest() { fake_cuda::Reset(2); }
  ~CudaGpuTest() override {
    EXPECT_THAT(fake_cuda::Misuses(), IsEmpty());
    EXPECT_EQ(fake_cuda::Leaks(), 0u);
  }
  static std::unique_ptr<Gpu> Open(int index) {
    auto gpu = OpenGpu(index);
    EXPECT_TRUE(gpu.ok()) << gpu.status();
    return *std::move(gpu);
  }
  static Buffer Allocate(Gpu* gpu, size_t bytes) {
    auto buffer = gpu->Allocate(bytes);
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    return *std::move(buffer);
  }
  static void OnAnotherThread(const std::function<void()>& work) { const Thread thread("another", work); }
};

std::vector<int> Numbers(size_t count, int first) {
  std::vector<int> numbers(count);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

TEST_F(CudaGpuTest, OpensTheOneThatIsAskedFor) {
  EXPECT_EQ(Open(1)->name(), "cuda:1");
  EXPECT_EQ(Open(1)->info().multiprocessors, 101);
  EXPECT_EQ(OpenGpu(2).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(ListGpus()->size(), 2u);
  fake_cuda::FailNext("cudaGetDeviceCount", cudaErrorInsufficientDriver);
  EXPECT_EQ(OpenGpu(0).status().code(), StatusCode::kFailedPrecondition);
}

TEST_F(CudaGpuTest, AGpuThatCantBeUsedDoesNotHideTheOthers) {
  fake_cuda::FailNext("cudaMemGetInfo", cudaErrorDevicesUnavailable);
  const auto gpus = ListGpus();
  ASSERT_TRUE(gpus.ok()) << gpus.status();
  ASSERT_EQ(gpus->size(), 2u);
  EXPECT_THAT((*gpus)[0].fault, HasSubstr("cudaMemGetInfo"));
  EXPECT_EQ((*gpus)[1].fault, "");
  EXPECT_EQ((*gpus)[1].name, "fake");
  fake_cuda::FailNext("cudaMemGetInfo", cudaErrorDevicesUnavailable);
  EXPECT_FALSE(OpenGpu(0).ok());
}

/// A new thread's current device is the first.
TEST_F(CudaGpuTest, EveryThreadCallsItsOwnDevice) {
  std::unique_ptr<Gpu> gpu;
  Buffer pinned, pooled, arena;
  OnAnotherThread([&] { gpu = Open(1); });
  OnAnotherThread([&] {
    pinned = *gpu->AllocateHost(1000);
    pooled = Allocate(gpu.get(), 1000);
    arena = Allocate(gpu.get(), kArena);
  });
  OnAnotherThread([&] { gpu->Upload(Device::kCopyIn, arena.data(), pinned.data(), 1000); });
  Device::Mark mark = 0;
  OnAnotherThread([&] {
    gpu->Order(Device::kCopyIn, Device::kCompute);
    mark = gpu->Record(Device::kCompute);
  });
  OnAnotherThread([&] { gpu->Follow(mark, Device::kCopyOut); });
  OnAnotherThread([&] { mark = gpu->Record(Device::kCopyOut); });
  OnAnotherThread([&] { EXPECT_TRUE(gpu->Wait(mark).ok()); });
  OnAnotherThread([&] { EXPECT_TRUE(gpu->CopyNow(pinned.data(), arena.data(), 1000).ok()); });
  for (int i = 0; i < 3; ++i) {
    OnAnotherThread(
        [&] { gpu->RunCaptured(kWork, [&] { gpu->Copy(Device::kCompute, arena.data(), pooled.data(), 8); }); });
  }
  OnAnotherThread([&] { EXPECT_TRUE(gpu->Synchronize().ok()); });
  OnAnotherThread([&] { EXPECT_GT(gpu->free_bytes(), 0u); });
  for (Buffer* buffer : {&pinned, &pooled, &arena}) OnAnotherThread([&] { *buffer = Buffer(); });
  OnAnotherThread([&] { gpu.reset(); });
}

TEST_F(CudaGpuTest, CopiesThere) {
  const auto gpu = Open(0);
  const Buffer there = Allocate(gpu.get(), kArena), here = *gpu->AllocateHost(4000);
  const std::vector<int> sent = Numbers(1000, 5);
  std::vector<int> got(1000);
  gpu->Upload(Device::kCompute, there.data(), sent.data(), 4000);
  gpu->Copy(Device::kCompute, there.data() + 8000, there.data(), 4000);
  gpu->Download(Device::kCompute, here.data(), there.data() + 8000, 4000);
  EXPECT_TRUE(gpu->Wait(gpu->Record(Device::kCompute)).ok());
  EXPECT_TRUE(gpu->CopyNow(got.data(), here.data(), 4000).ok());
  EXPECT_EQ(got, sent);
}

/// Blocks that share a page would be given away with each other.
TEST_F(CudaGpuTest, WhatOthersMayGetHasPagesOfItsOwn) {
  const auto gpu = Open(0);
  const Buffer shared = *gpu->AllocateShared(100), arena = Allocate(gpu.get(), kArena),
               small = Allocate(gpu.get(), 100);
  for (const Buffer* buffer : {&shared, &arena}) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % kPage, 0u);
    EXPECT_EQ(fake_cuda::BlockAt(buffer->data()).bytes % kPage, 0u);
    int fd = -1;
    uint64_t offset = 1;
    EXPECT_TRUE(gpu->ExportDmaBuf(buffer->data(), buffer->bytes(), false, &fd, &offset).ok());
    EXPECT_EQ(offset, 0u);
    EXPECT_TRUE(gpu->ExportIpc(buffer->data()).ok());
  }
  EXPECT_TRUE(fake_cuda::BlockAt(small.data()).pooled);
  EXPECT_EQ(gpu->ExportIpc(small.data()).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(small.bytes(), 100u);
}

TEST_F(CudaGpuTest, SaysHowMuchWasWantedOfWhat) {
  const auto gpu = Open(0);
  fake_cuda::FailNext("cudaMalloc", cudaErrorMemoryAllocation);
  const Status status = gpu->Allocate(kArena).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("cuda:0: cannot allocate 3.1 MB"));
  EXPECT_TRUE(gpu->Synchronize().ok()) << "no failure of the GPU";
}

TEST_F(CudaGpuTest, AFewEventsServeForAllOrder) {
  const auto gpu = Open(0);
  for (int i = 0; i < 100; ++i) {
    gpu->Order(Device::kCopyIn, Device::kCompute);
    const auto first = gpu->Record(Device::kCompute), second = gpu->Record(Device::kCopyOut);
    EXPECT_TRUE(gpu->Wait(second).ok());
    EXPECT_TRUE(gpu->Wait(first).ok());
  }
  EXPECT_LE(fake_cuda::Calls("cudaEventCreateWithFlags"), 3);
}

// --- Failures

TEST_F(CudaGpuTest, TheFirstFailureStays) {
  const auto gpu = Open(1);
  const Buffer memory = Allocate(gpu.get(), kArena);
  fake_cuda::FailNext("cudaMemcpyAsync", cudaErrorIllegalAddress);
  gpu->Upload(Device::kCompute, memory.data(), memory.data(), 8);
  const Status status = gpu->Wait(gpu->Record(Device::kCompute));
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("cuda:1: cudaMemcpyAsync"));
  fake_cuda::FailNext("cudaStreamSynchronize", cudaErrorLaunchFailure);
  EXPECT_EQ(gpu->Synchronize().message(), status.message());
}

/// A launch returns nothing; its error is the thread's last one.
TEST_F(CudaGpuTest, AKernelThatIsNotLaunchedIsNoticed) {
  for (const bool synchronize : {false, true}) {
    const auto gpu = Open(0);
    fake_cuda::FailLaunch(cudaErrorNoKernelImageForDevice);
    const Status status = synchronize ? gpu->Synchronize() : gpu->Wait(gpu->Record(Device::kCompute));
    EXPECT_THAT(status.message(), HasSubstr("launch"));
  }
}

/// What is asked and refused in passing is not taken for a launch's error.
TEST_F(CudaGpuTest, AnswersThatAreNoFailureLeaveNoTrace) {
  const auto gpu = Open(0), other = Open(1);
  Buffer shared = *other->AllocateShared(100);
  EXPECT_TRUE(gpu->CanReach("0000:99:00.0").ok()) << "of another process, perhaps";
  EXPECT_TRUE(gpu->OpenHere(shared.data(), 100).ok());
  EXPECT_TRUE(gpu->OpenHere(shared.data(), 100).ok()) << "access is open already";
  EXPECT_FALSE(gpu->OpenHere(&shared, 1).ok());
  const auto memory = gpu->ExportIpc(shared.data());
  EXPECT_FALSE(memory.ok()) << "it is the other's";
  fake_cuda::FailNext("cudaHostAlloc", cudaErrorMemoryAllocation);
  EXPECT_FALSE(gpu->AllocateHost(100).ok());
  fake_cuda::FailNext("cudaMemGetInfo", cudaErrorMemoryAllocation);
  EXPECT_EQ(gpu->free_bytes(), 1u);
  EXPECT_TRUE(gpu->Wait(gpu->Record(Device::kCompute)).ok());
  EXPECT_TRUE(gpu->Synchronize().ok());
}

// --- Repetition

class Counter {
 public:
  explicit Counter(Gpu* gpu) : gpu_(gpu), memory_(*gpu->Allocate(kArena)) {}
  /// Moves the first number one place on; `times` counts the calls.
  void Work() {
    ++times;
    gpu_->Copy(Device::kCompute, memory_.data() + 4, memory_.data(), 4);
  }
  void Set(int number) { gpu_->Upload(Device::kCompute, memory_.data(), &number, 4); }
  int Get() {
    int number = 0;
    EXPECT_TRUE(gpu_->CopyNow(&number, memory_.data() + 4, 4).ok());
    return number;
  }
  int times = 0;

 private:
  Gpu* const gpu_;
  const Buffer memory_;
};

TEST_F(CudaGpuTest, WorkIsDoneThenRecordedThenReplayed) {
  const auto gpu = Open(0);
  Counter counter(gpu.get());
  for (int i = 1; i <= 5; ++i) {
    counter.Set(i);
    gpu->RunCaptured(kWork, [&] { counter.Work(); });
    EXPECT_EQ(counter.Get(), i);
    EXPECT_EQ(counter.times, std::min(i, 2));
  }
  EXPECT_EQ(fake_cuda::Calls("cudaGraphLaunch"), 4);
  EXPECT_TRUE(gpu->Synchronize().ok());
}

/// Which would wait for GPUs that wait for the rest of the launch.
TEST_F(CudaGpuTest, NothingIsAllocatedOrRecordedDuringALaunchOnSeveralGpus) {
  const auto gpu = Open(0);
  Buffer arena = Allocate(gpu.get(), kArena), pinned = *gpu->AllocateHost(1000);
  Counter counter(gpu.get());
  gpu->RunCaptured(kWork, [&] { counter.Work(); });
  const std::function<void()> calls[] = {
      [&] { EXPECT_TRUE(gpu->AllocateHost(1000).ok()); },
      [&] { EXPECT_TRUE(gpu->Allocate(1000).ok()); },
      [&] { arena = Buffer(); },
      [&] { pinned = Buffer(); },
      [&] { gpu->RunCaptured(kWork, [&] { counter.Work(); }); },
  };
  std::atomic<int> done = 0;
  {
    std::optional<LaunchOnSeveralDevices> launch;
    launch.emplace();
    std::vector<Thread> threads;
    for (const auto& call : calls) {
      threads.emplace_back("call", [&] {
        call();
        ++done;
      });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(done, 0);
    launch.reset();
  }
  EXPECT_EQ(done, 5);
}

/// Then it is put into the queue by calls, and nothing has failed; the next time it is recorded.
TEST_F(CudaGpuTest, WorkThatCantBeRecordedIsDoneAllTheSame) {
  const std::function<void(Gpu*)> hindrances[] = {
      [](Gpu*) { fake_cuda::FailNext("cudaStreamBeginCapture", cudaErrorUnknown); },
      [](Gpu*) { fake_cuda::FailNext("cudaGraphInstantiate", cudaErrorMemoryAllocation); },
      [](Gpu*) { fake_cuda::FailNext("cudaGraphUpload", cudaErrorMemoryAllocation); },
      [](Gpu*) { fake_cuda::FailNext("cudaMemcpyAsync", cudaErrorStreamCaptureUnsupported); },
  };
  for (const auto& hinder : hindrances) {
    const auto gpu = Open(0);
    Counter counter(gpu.get());
    const int before = fake_cuda::Calls("cudaGraphLaunch");
    for (int i = 1; i <= 4; ++i) {
      counter.Set(i);
      if (i == 2) hinder(gpu.get());
      gpu->RunCaptured(kWork, [&] { counter.Work(); });
      EXPECT_EQ(counter.Get(), i);
    }
    EXPECT_EQ(fake_cuda::Calls("cudaGraphLaunch") - before, 2) << "of the third and the fourth";
    EXPECT_TRUE(gpu->Wait(gpu->Record(Device::kCompute)).ok());
  }
  EXPECT_EQ(fake_cuda::Calls("cudaStreamBeginCapture"), 8);
}

TEST_F(CudaGpuTest, WorkThatIsAlwaysRefusedIsNotTriedForEver) {
  const auto gpu = Open(0);
  Counter counter(gpu.get());
  for (int i = 1; i <= 9; ++i) {
    counter.Set(i);
    if (i > 1) fake_cuda::FailNext("cudaGraphInstantiate", cudaErrorMemoryAllocation);
    gpu->RunCaptured(kWork, [&] { counter.Work(); });
    EXPECT_EQ(counter.Get(), i);
  }
  EXPECT_EQ(fake_cuda::Calls("cudaStreamBeginCapture"), 3);
  EXPECT_TRUE(gpu->Synchronize().ok());
}

/// Another replica's, on the same GPU.
TEST_F(CudaGpuTest, AnEndDoesNotSpoilWhatAnotherRecords) {
  const auto gpu = Open(0);
  auto other = Open(0);
  Counter counter(gpu.get());
  for (int i = 1; i <= 3; ++i) {
    counter.Set(i);
    gpu->RunCaptured(kWork, [&] {
      counter.Work();
      if (i == 2 && other) OnAnotherThread([&] { other.reset(); });
    });
    EXPECT_EQ(counter.Get(), i);
  }
  EXPECT_EQ(fake_cuda::Calls("cudaGraphLaunch"), 2);
  EXPECT_EQ(fake_cuda::Calls("cudaDeviceSynchronize"), 0);
}

/// As cuDNN's and cuBLAS's calls do it.
TEST_F(CudaGpuTest, ALibraryThatFailsWhileItIsRecordedMayDoBetterDirectly) {
  const auto gpu = Open(0);
  Counter counter(gpu.get());
  for (int i = 1; i <= 3; ++i) {
    counter.Set(i);
    gpu->RunCaptured(kWork, [&] {
      if (i == 2 && counter.times == 1) {
        ++counter.times;
        return gpu->Fail(InternalError("not while it is recorded"));
      }
      counter.Work();
    });
    EXPECT_EQ(counter.Get(), i);
  }
  EXPECT_TRUE(gpu->Synchronize().ok());
  gpu->Fail(InternalError("but now"));
  EXPECT_THAT(gpu->Synchronize().message(), HasSubstr("but now"));
}

// --- Other GPUs

TEST_F(CudaGpuTest, MemoryOfAnotherGpuOfThisProcess) {
  const auto ours = Open(0), theirs = Open(1);
  const Buffer from = Allocate(ours.get(), kArena), to = Allocate(theirs.get(), kArena);
  OnAnotherThread([&] {
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(ours->OpenHere(to.data(), kArena).ok());
    EXPECT_EQ(ours->OpenHere(to.data(), 2 * kPage + 1).code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(ours->OpenHere(to.data() + kPage, kPage + 1).code(), StatusCode::kInvalidArgument);
    EXPECT_TRUE(ours->OpenHere(from.data(), kArena).ok()) << "our own";
    const std::vector<int> sent = Numbers(1000, 9);
    std::vector<int> got(1000);
    EXPECT_TRUE(ours->CopyNow(from.data(), sent.data(), 4000).ok());
    ours->CopyAcross(Device::kCopyAcross, to.data(), from.data(), 4000);
    EXPECT_TRUE(ours->Wait(ours->Record(Device::kCopyAcross)).ok());
    EXPECT_TRUE(theirs->CopyNow(got.data(), to.data(), 4000).ok());
    EXPECT_EQ(got, sent);
  });
}

TEST_F(CudaGpuTest, GpusThatDoNotReachEachOther) {
  const auto ours = Open(0), theirs = Open(1);
  const Buffer memory = Allocate(theirs.get(), kArena);
  fake_cuda::Separate();
  EXPECT_EQ(ours->CanReach(theirs->info().pci_address).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(ours->OpenHere(memory.data(), kArena).code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(ours->CanReach(ours->info().pci_address).ok());
}

TEST_F(CudaGpuTest, MemoryOfAnotherProcessIsOpenedByItsAllocation) {
  const auto ours = Open(0), theirs = Open(1);
  const Buffer memory = Allocate(theirs.get(), kArena);
  const auto exported = theirs->ExportIpc(memory.data() + 4096);
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_EQ(exported->offset, 4096u);
  const auto opened = ours->OpenIpc(*exported, kArena - 4096);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(*opened, memory.data() + 4096);
  EXPECT_EQ(ours->OpenIpc(*exported, 2 * kPage - 4095).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(fake_cuda::BlockAt(memory.data()).imported, 1);
  ours->CloseIpc(*opened);
  EXPECT_EQ(fake_cuda::BlockAt(memory.data()).imported, 0);
  EXPECT_EQ(ours->OpenIpc({"short", 0}, 1).status().code(), StatusCode::kInvalidArgument);
}

/// What runs on no other GPU, and what the first run loads is not part of the time.
TEST_F(CudaGpuTest, TimesWorkByTheLeastOfAFewRounds) {
  const auto gpu = Open(1);
  const std::vector<double> times = {50, 2, 3, 2, 5, 1, 2, 2, 1, 4, 4, 4, 4};
  size_t runs = 0;
  OnAnotherThread([&] {
    const auto least = LeastMilliseconds(gpu.get(), [&] {
      fake_cuda::Spend(times.at(runs++));
      return OkStatus();
    });
    ASSERT_TRUE(least.ok()) << least.status();
    EXPECT_EQ(*least, 1.5);
  });
  EXPECT_EQ(runs, times.size());
}

TEST_F(CudaGpuTest, WorkThatFailsHasNoTime) {
  const auto gpu = Open(0);
  int runs = 0;
  const auto refused = [&runs] { return ++runs < 3 ? OkStatus() : FailedPrecondition("cuDNN refused"); };
  EXPECT_EQ(LeastMilliseconds(gpu.get(), refused).status().code(), StatusCode::kFailedPrecondition);
  fake_cuda::FailNext("cudaEventSynchronize", cudaErrorIllegalAddress);
  EXPECT_EQ(LeastMilliseconds(gpu.get(), &OkStatus).status().code(), StatusCode::kInternal);
}

/// Of each of the three element types, in all of the memory.
TEST_F(CudaGpuTest, NumbersToTimeWithAreFinite) {
  const auto gpu = Open(0);
  for (const size_t bytes : {size_t{2}, size_t{1000}, (size_t{5} << 20) + 12}) {
    const auto memory = AllocateNumbers(gpu.get(), bytes);
    ASSERT_TRUE(memory.ok()) << memory.status();
    const auto* const halves = reinterpret_cast<const uint16_t*>(memory->data());
    const auto in_range = [](float number) { return std::abs(number) >= 1 && std::abs(number) < 2; };
    const auto halves_in_range = [&](uint16_t half) {
      return in_range(FromBFloat16(half)) && in_range(FromFloat16(half));
    };
    EXPECT_TRUE(std::all_of(halves, halves + bytes / 2, halves_in_range)) << bytes;
    const auto* const floats = reinterpret_cast<const float*>(halves);
    EXPECT_TRUE(std::all_of(floats, floats + bytes / 4, in_range)) << bytes;
    const std::set<uint16_t> different(halves, halves + std::min<size_t>(bytes / 2, 5000));
    EXPECT_GE(different.size(), std::min<size_t>(bytes / 4, 200));
  }
  EXPECT_EQ(AllocateNumbers(gpu.get(), 0).status().code(), StatusCode::kOk);
}

/// Its process may be gone, which is not our GPU's failure.
TEST_F(CudaGpuTest, MemoryThatCantBeClosedIsLoggedOnly) {
  const auto ours = Open(0), theirs = Open(1);
  const Buffer memory = Allocate(theirs.get(), kArena);
  const auto opened = ours->OpenIpc(*theirs->ExportIpc(memory.data()), 100);
  ASSERT_TRUE(opened.ok()) << opened.status();
  fake_cuda::FailNext("cudaIpcCloseMemHandle", cudaErrorUnknown);
  ours->CloseIpc(*opened);
  EXPECT_TRUE(ours->Synchronize().ok());
  EXPECT_EQ(cudaIpcCloseMemHandle(*opened), cudaSuccess);  // for the fake
}

}  // namespace
}  // namespace hp::test
