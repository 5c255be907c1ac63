// How nodes on the processors of one host copy into each other's memory, alone and under a CopyTransport.
#include "devices/host_copier.h"

#include "proto/wire.pb.h"
#include "test/contract/fixtures.h"
#include "transport/copy/copy_transport.h"
#include "transport/inproc/inproc_network.h"

#include "devices/devices.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>

namespace hp {
namespace {

using testing::HasSubstr;

constexpr size_t kMemoryBytes = 1 << 20;

std::string HandleOf(const HostCopier& copier, const Buffer& memory) {
  return *copier.FindShared(memory.span())->export_handle();
}

TEST(HostCopier, CopiesIntoWhatAnotherOneAllocated) {
  HostCopier ours(ThisPlace()), theirs(ThisPlace());
  const StatusOr<Buffer> memory = theirs.Allocate(kMemoryBytes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  const std::vector<std::byte> source = Pattern(1000, 5);
  const StatusOr<std::byte*> opened = ours.Open(HandleOf(theirs, *memory), kMemoryBytes);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_NE(*opened, memory->data()) << "a mapping of its own";
  ours.Copy(*opened + 100, source.data(), source.size());
  ASSERT_TRUE(ours.Wait(ours.Record()).ok());
  EXPECT_TRUE(Same(memory->span().subspan(100, 1000), source));
  EXPECT_EQ((*memory).data()[99], std::byte{0});
  ours.Close(*opened);
}

TEST(HostCopier, FindsWholeAllocations) {
  HostCopier copier(ThisPlace());
  StatusOr<Buffer> memory = copier.Allocate(kMemoryBytes);
  const std::span<std::byte> all = memory->span();
  for (const std::span<std::byte> part : {all, all.subspan(10, 100), all.last(1)}) {
    const auto found = copier.FindShared(part);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->bytes.data(), all.data());
    EXPECT_EQ(found->bytes.size(), kMemoryBytes);
  }
  const std::vector<std::byte> other(100);
  EXPECT_FALSE(copier.FindShared(other));
  EXPECT_FALSE(copier.FindShared({all.data() + kMemoryBytes - 10, 11}));
  *memory = Buffer();
  EXPECT_FALSE(copier.FindShared(all));
}

TEST(HostCopier, MemoryOutlivesIt) {
  auto copier = std::make_unique<HostCopier>(ThisPlace());
  const StatusOr<Buffer> memory = copier->Allocate(kMemoryBytes);
  copier.reset();
  std::memset(memory->data(), 1, kMemoryBytes);
}

TEST(HostCopier, SaysWhyItCannotOpen) {
  const ProcessPlace here = ThisPlace();
  HostCopier theirs(here);
  const StatusOr<Buffer> memory = theirs.Allocate(kMemoryBytes);
  const std::string handle = HandleOf(theirs, *memory);
  const auto error_from = [&](const ProcessPlace& place, const std::string& of, size_t bytes = kMemoryBytes) {
    return HostCopier(place).Open(of, bytes).status();
  };
  EXPECT_EQ(error_from({here.host_id + 1, here.pid_namespace, here.pid}, handle).message(),
            "they are on different hosts");
  HostCopier nowhere({0, here.pid_namespace, here.pid});
  EXPECT_EQ(error_from({0, here.pid_namespace, here.pid}, HandleOf(nowhere, *nowhere.Allocate(10)), 10).message(),
            "they are on different hosts")
      << "no host id is nobody's";
  EXPECT_EQ(error_from({here.host_id, "pid:[1]", here.pid}, handle).message(), "they are in different containers");
  EXPECT_THAT(error_from(here, handle, kMemoryBytes + 1).message(),
              HasSubstr("covers 1048576 bytes; expected at least 1048577"));
  EXPECT_EQ(error_from(here, "rubbish").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(error_from(here, "").code(), StatusCode::kInvalidArgument);
  HostMemoryHandle changed;
  ASSERT_TRUE(changed.ParseFromString(handle));
  changed.set_file(0);
  EXPECT_FALSE(error_from(here, changed.SerializeAsString()).ok());
}

TEST(ThisPlace, IsThisProcessOnThisHost) {
  EXPECT_NE(ThisPlace().host_id, 0u);
  EXPECT_THAT(ThisPlace().process(), testing::MatchesRegex("pid:\\[[0-9]+\\] " + std::to_string(getpid())));
}

/// The device of a node that shares its memory; where the system does not let it, the node works all the same.
TEST(ShareHostMemory, WithoutSuchMemoryItIsOtherMemory) {
  const auto shares = [] {
    NodeDevice cpu = OpenCpu(RoutingTableConfig::FP32);
    ShareHostMemory(&cpu);
    const StatusOr<Buffer> memory = cpu.device->AllocateShared(kMemoryBytes);
    if (!memory.ok()) return -1;
    const bool probe = cpu.copier->probe().export_handle().ok();
    return cpu.copier->FindShared(memory->span()) ? 2 + probe : 0 + probe;
  };
  EXPECT_EQ(shares(), 3);
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{1, 1};
    setrlimit(RLIMIT_FSIZE, &limit);
    _exit(shares());
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  NodeDevice cpu = OpenCpu(RoutingTableConfig::FP32);
  ShareHostMemory(&cpu);
  EXPECT_EQ(cpu.device->AllocateShared(0)->bytes(), 0u);
  EXPECT_FALSE(cpu.copier->FindShared(cpu.device->Allocate(100)->span())) << "only what is for others";
}

/// A copy is done when it has begun: its end is reported before the next one, not behind all that wait.
TEST(HostCopierUnderQueue, EachCopyIsReportedBeforeTheNext) {
  HostCopier copier(ThisPlace());
  CopyQueue queue(&copier);
  std::vector<std::string> order;
  std::promise<void> ended;
  for (const char* job : {"a", "b", "c"}) {
    const std::string name = job;
    queue.Push(
        [&order, name] {
          order.push_back("begin " + name);
          return OkStatus();
        },
        [&, name](const Status& status) {
          EXPECT_TRUE(status.ok());
          order.push_back("end " + name);
          if (name == "c") ended.set_value();
        });
  }
  queue.Start("copies");
  ended.get_future().wait();
  queue.Stop();
  EXPECT_THAT(order, testing::ElementsAre("begin a", "end a", "begin b", "end b", "begin c", "end c"));
}

/// A short job is done by who pushes it, one at a time with those of the thread and in their order.
TEST(HostCopierUnderQueue, AShortJobIsRunWhereItIsPushed) {
  HostCopier copier(ThisPlace());
  CopyQueue queue(&copier);
  std::thread::id ran;
  const auto note = [&ran] {
    ran = std::this_thread::get_id();
    return OkStatus();
  };
  std::promise<void> go, begun, ended;
  queue.Start("copies");
  // As long as it has not gone to sleep for the first time, the queue's thread may find a job by itself.
  for (int i = 0; i < 1000 && ran != std::this_thread::get_id(); ++i) {
    std::promise<void> noted;
    queue.PushToRunHere(note, [&noted](const Status&) { noted.set_value(); });
    queue.RunHere();
    noted.get_future().wait();
  }
  EXPECT_EQ(ran, std::this_thread::get_id());

  const auto wait = [&begun, &go] {
    begun.set_value();
    go.get_future().wait();
    return OkStatus();
  };
  queue.Push(wait, [](const Status&) {});
  begun.get_future().wait();
  ran = {};
  queue.PushToRunHere(note, [&ended](const Status&) { ended.set_value(); });
  queue.RunHere();
  EXPECT_EQ(ran, std::thread::id()) << "another job is under way";
  go.set_value();
  ended.get_future().wait();
  EXPECT_NE(ran, std::thread::id());
  EXPECT_NE(ran, std::this_thread::get_id()) << "it was left to the queue's thread";
}

/// Short jobs from two threads beside long ones: each once, one at a time; a thread that leaves a job wakes the queue.
TEST(HostCopierUnderQueue, JobsOfSeveralThreadsRunOneAtATime) {
  constexpr int kJobs = 2000;
  HostCopier copier(ThisPlace());
  CopyQueue queue(&copier);
  std::atomic<int> running = 0, together = 0, done = 0;
  const auto begin = [&] {
    together += ++running > 1;
    return OkStatus();
  };
  std::promise<void> all;
  const auto end = [&](const Status&) {
    --running;
    if (++done == 3 * kJobs) all.set_value();
  };
  queue.Start("copies");
  const auto push_short = [&] {
    for (int job = 0; job < kJobs; ++job) {
      queue.PushToRunHere(begin, end);
      queue.RunHere();
    }
  };
  std::thread first(push_short), second(push_short);
  for (int job = 0; job < kJobs; ++job) queue.Push(begin, end);
  all.get_future().wait();
  EXPECT_EQ(together, 0);
  first.join();
  second.join();
}

/// A node whose transport copies, with memory that others may open.
struct SharingNode {
  SharingNode(InprocNetwork* world, Rank rank) : beneath(world->Create(rank)) {
    CopyOptions options;
    options.peers = {1 - rank};
    options.copier = &copier;
    options.min_bytes = 1000;
    options.on_settled = [this](Rank, const CopyRoad& road) { settled.set_value(road.why_not); };
    auto made = std::make_unique<CopyTransport>(beneath.get(), std::move(options));
    first = *made->Register(memory.span().first(5000));
    second = *made->Register(memory.span().subspan(5000, 5000));
    node = std::make_unique<TestNode>(std::move(made), "job", rank);
    node->Start();
  }

  HostCopier copier{ThisPlace()};
  Buffer memory = *copier.Allocate(kMemoryBytes);
  std::promise<Status> settled;
  std::unique_ptr<Transport> beneath;
  std::unique_ptr<TestNode> node;
  std::unique_ptr<MemoryRegion> first, second;  // end ahead of the transport that they are of
};

/// @return whether it was a copy.
bool Moves(SharingNode* from, Rank from_rank, SharingNode* to, const PlaceTag& tag, std::span<const std::byte> source,
           std::span<std::byte> place) {
  EXPECT_TRUE((*to->node)->Grant(from_rank, tag, place).ok());
  const RemoteGrant grant = from->node->Get(Event::kGranted, tag).grant;
  EXPECT_TRUE((*from->node)->Write(1 - from_rank, tag, grant, source).ok());
  EXPECT_TRUE(to->node->Get(Event::kGrantEnded, tag).status.ok());
  EXPECT_TRUE(from->node->Get(Event::kWriteEnded, tag).status.ok());
  EXPECT_TRUE(Same(place, source));
  return (grant.index & kCopyGrantBit) != 0;
}

TEST(HostCopierUnderTransport, LargePlacesOfSharedMemoryAreCopied) {
  InprocNetwork world({.world_size = 2});
  SharingNode zero(&world, 0), one(&world, 1);
  for (SharingNode* node : {&zero, &one}) {
    const Status settled = node->settled.get_future().get();
    ASSERT_TRUE(settled.ok()) << settled;
  }
  const std::vector<std::byte> any = Pattern(4000, 9);
  const std::span<std::byte> theirs = one.memory.span();
  EXPECT_TRUE(Moves(&zero, 0, &one, {.msg_id = 1}, any, theirs.subspan(1000, 4000))) << "from any memory";
  EXPECT_TRUE(Moves(&zero, 0, &one, {.msg_id = 2}, std::span(any).first(1000), theirs.subspan(5000, 1000)));
  EXPECT_FALSE(Moves(&zero, 0, &one, {.msg_id = 3}, std::span(any).first(999), theirs.subspan(0, 999))) << "small";
  std::vector<std::byte> other(2000);
  EXPECT_FALSE(Moves(&zero, 0, &one, {.msg_id = 4}, std::span(any).first(2000), other)) << "not shared";
  EXPECT_TRUE(Moves(&one, 1, &zero, {.msg_id = 5}, any, zero.memory.span().subspan(0, 4000)));
  // As long as one part of it is registered, the memory is.
  one.first.reset();
  EXPECT_TRUE(Moves(&zero, 0, &one, {.msg_id = 6}, any, theirs.subspan(5000, 4000)));
  one.second.reset();
  EXPECT_FALSE(Moves(&zero, 0, &one, {.msg_id = 7}, any, theirs.subspan(5000, 4000)));
  (*zero.node)->Shutdown(1);
  (*one.node)->Shutdown(0);
  one.node->Await(Event::kClosed);
  zero.node->Await(Event::kClosed);
}

}  // namespace
}  // namespace hp
