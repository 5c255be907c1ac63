// What is asked of NCCL and made of its answers, with an NCCL of this file's own.
#include "base/mutex.h"
#include "base/thread.h"
#include "solvers/exchange/nccl_collectives.h"
#include "tensor/several_devices.h"
#include "test/support/fake_cuda.h"
#include "test/support/shared_rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace hp::test {
namespace {

/// One communicator of a replica.
struct Comm {
  std::string id;
  int rank = 0, size = 0;
};

/// Sums are there when the last replica of this process has called.
struct FakeNccl {
  Mutex mutex;
  std::set<Comm*> comms HP_GUARDED_BY(mutex);
  // By id and the number of the sum in its group.
  std::map<std::pair<std::string, int>, std::vector<std::span<float>>> waiting HP_GUARDED_BY(mutex);
  std::map<std::string, int> meeting HP_GUARDED_BY(mutex);  // by id: how many replicas are still missing
  std::vector<void*> streams HP_GUARDED_BY(mutex);
  int groups HP_GUARDED_BY(mutex) = 0;
  /// How often what a call has begun is still under way when it is asked after; negative: for ever.
  int under_way = 0;
  bool pending HP_GUARDED_BY(mutex) = false;
  int left HP_GUARDED_BY(mutex) = 0;
  ncclResult_t init = ncclSuccess, reduce = ncclSuccess, ask = ncclSuccess, asynchronous = ncclSuccess;
  int elsewhere = 0;  ///< replicas in other processes
  int ids = 0, aborts = 0;
};
FakeNccl* nccl = nullptr;
/// The group of the calling thread: how many sums of each communicator are in it. Null: there is none.
thread_local std::unique_ptr<std::map<const Comm*, int>> group;

Status Sum(Collectives* collectives, std::vector<float>* values) {
  return collectives->AllReduce({.values = {*values}, .before = [] {}, .after = [] {}});
}

int CurrentDevice() {
  int device = -1;
  cudaGetDevice(&device);
  return device;
}

class NcclTest : public testing::Test {
 protected:
  NcclTest() {
    fake_cuda::Reset(2);
    nccl = &nccl_;
  }
  StatusOr<std::unique_ptr<Collectives>> Connect(int rank, int size) {
    NcclOptions options;
    options.rank = options.gpu = rank;
    options.size = size;
    options.key_prefix = "conv";
    options.stream = &streams_[rank];
    return ConnectNccl(options, &rendezvous_);
  }
  std::unique_ptr<Collectives> Alone() { return *Connect(0, 1); }
  /// Two replicas of this process.
  std::vector<std::unique_ptr<Collectives>> Together() {
    std::vector<std::unique_ptr<Collectives>> made(2);
    std::vector<Thread> threads;
    for (const int rank : {1, 0}) {
      threads.emplace_back("replica", [this, rank, &made] {
        auto collectives = Connect(rank, 2);
        EXPECT_TRUE(collectives.ok()) << collectives.status();
        if (collectives.ok()) made[rank] = *std::move(collectives);
      });
    }
    for (Thread& thread : threads) thread.Join();
    return made;
  }
  /// On a thread that uses this replica's GPU.
  void Ask(int rank, Collectives* collectives, std::vector<std::span<float>> values) {
    cudaSetDevice(rank);
    const auto event = [this](const char* name, int gpu) {
      EXPECT_EQ(CurrentDevice(), gpu);
      events_.push_back(name + std::to_string(gpu));
    };
    const Status asked = collectives->AllReduce({.values = std::move(values),
                                                 .before = [event, rank] { event("before ", rank); },
                                                 .after = [event, rank] { event("after ", rank); }});
    EXPECT_TRUE(asked.ok()) << asked;
  }
  int Groups() {
    MutexLock lock(&nccl_.mutex);
    return nccl_.groups;
  }

  FakeNccl nccl_;
  SharedRendezvous rendezvous_;
  int streams_[2] = {};
  std::vector<std::string> events_;  // of Ask
};

TEST_F(NcclTest, ReplicasMeetAndAddUp) {
  std::vector<float> values[2] = {{1, 2, 3, 4, 5}, {10, 20, 30, 40, 50}};
  auto collectives = Together();
  for (const int rank : {1, 0}) {
    const std::span<float> all(values[rank]);
    Ask(rank, collectives[rank].get(), {all.first(2), all.last(3)});
  }
  EXPECT_EQ(values[0], (std::vector<float>{11, 22, 33, 44, 55}));
  EXPECT_EQ(values[1], values[0]);
  EXPECT_EQ(nccl_.ids, 1);
  for (auto& replica : collectives) {
    EXPECT_TRUE(replica->AsyncError().ok());
    replica.reset();
  }
  MutexLock lock(&nccl_.mutex);
  EXPECT_THAT(nccl_.streams, testing::UnorderedElementsAre(&streams_[0], &streams_[0], &streams_[1], &streams_[1]));
  EXPECT_TRUE(nccl_.comms.empty());
}

/// Nothing waits on a GPU for what another thread of this process may be kept from enqueueing.
TEST_F(NcclTest, WhatIsAskedForInOneProcessIsEnqueuedTogether) {
  std::vector<float> values[2] = {{1}, {2}};
  auto collectives = Together();
  const auto ask = [&](int rank) { Ask(rank, collectives[rank].get(), {values[rank]}); };
  ask(0);
  ask(0);  // is ahead
  EXPECT_TRUE(events_.empty());
  EXPECT_EQ(Groups(), 0);
  ask(1);
  EXPECT_EQ(events_, (std::vector<std::string>{"before 0", "before 1", "after 0", "after 1"}));
  EXPECT_EQ(values[0], std::vector<float>{3});
  EXPECT_EQ(Groups(), 1);
  EXPECT_EQ(CurrentDevice(), 1) << "the caller's";
  events_.clear();
  ask(1);
  EXPECT_EQ(events_, (std::vector<std::string>{"before 0", "before 1", "after 0", "after 1"}));
  EXPECT_EQ(values[1], std::vector<float>{6});
  EXPECT_EQ(Groups(), 2);
}

/// While the last one's thread has them enqueued the other one asks for its next sum, and does not begin anything.
TEST_F(NcclTest, WhatIsUnderWayIsBegunOnce) {
  std::vector<float> values[2] = {{1}, {2}};
  auto collectives = Together();
  nccl_.under_way = -1;
  Ask(0, collectives[0].get(), {values[0]});
  {
    Thread last("last", [&] { Ask(1, collectives[1].get(), {values[1]}); });
    while (Groups() == 0) std::this_thread::yield();
    EXPECT_TRUE(Sum(collectives[0].get(), &values[0]).ok());
    EXPECT_EQ(Groups(), 1);
    collectives[0]->Abort();
  }
  EXPECT_EQ(events_, (std::vector<std::string>{"before 0", "before 1"})) << "what was aborted is not done";
}

/// While sums are put into the streams of several GPUs, CUDA is asked for nothing that might wait for these.
TEST_F(NcclTest, NobodyAllocatesDuringALaunchOnSeveralGpus) {
  std::vector<float> values[2] = {{1}, {2}};
  auto collectives = Together();
  nccl_.under_way = -1;
  Ask(0, collectives[0].get(), {values[0]});
  std::atomic<bool> allocated = false;
  {
    Thread last("last", [&] { Ask(1, collectives[1].get(), {values[1]}); });
    while (Groups() == 0) std::this_thread::yield();
    Thread other("other", [&] {
      const CallThatMayWaitForDevices call;
      allocated = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(allocated);
    MutexLock lock(&nccl_.mutex);
    nccl_.pending = false;
  }
  EXPECT_TRUE(allocated);
  EXPECT_EQ(events_.size(), 4u);
}

TEST_F(NcclTest, NobodyWaitsForReplicasOfOtherProcesses) {
  nccl_.elsewhere = 1;
  std::vector<float> values = {1};
  const auto collectives = Connect(0, 2);
  ASSERT_TRUE(collectives.ok()) << collectives.status();
  Ask(0, collectives->get(), {values});
  EXPECT_EQ(events_, (std::vector<std::string>{"before 0", "after 0"}));
}

/// What it asked for is forgotten, as its exchange may be gone; the other one gets no sum and no error, as if the
/// replica had been lost elsewhere.
TEST_F(NcclTest, WithOneThatIsAbortedNothingIsEnqueued) {
  std::vector<float> values[2] = {{1}, {2}};
  auto collectives = Together();
  Ask(0, collectives[0].get(), {values[0]});
  collectives[0]->Abort();
  Ask(1, collectives[1].get(), {values[1]});
  EXPECT_EQ(Sum(collectives[0].get(), &values[0]).message(), "the exchange was aborted");
  EXPECT_TRUE(collectives[1]->AsyncError().ok());
  EXPECT_TRUE(events_.empty());
  EXPECT_EQ(Groups(), 0);
}

/// The replica that enqueues for both fails, and the other one hears of it.
TEST_F(NcclTest, AnErrorIsEverybodysInTheProcess) {
  std::vector<float> values[2] = {{1}, {2}};
  auto collectives = Together();
  nccl_.reduce = ncclInternalError;
  EXPECT_TRUE(Sum(collectives[0].get(), &values[0]).ok());
  EXPECT_EQ(Sum(collectives[1].get(), &values[1]).message(), "ncclAllReduce: error 3 (what NCCL remembers)");
  EXPECT_EQ(Sum(collectives[0].get(), &values[0]).message(), "ncclAllReduce: error 3 (what NCCL remembers)");
  EXPECT_EQ(collectives[0]->AsyncError().message(), "ncclAllReduce: error 3 (what NCCL remembers)");
}

TEST_F(NcclTest, WhatKeepsReplicasApartIsSaid) {
  nccl_.init = ncclSystemError;
  const Status refused = Connect(0, 1).status();
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
  EXPECT_EQ(refused.message(), "ncclCommInitRankConfig: error 2 (what NCCL remembers)");
  SharedRendezvous rubbish;
  ASSERT_TRUE(rubbish.Set("conv/nccl", "too short").ok());
  NcclOptions second;
  second.rank = 1, second.size = 2, second.key_prefix = "conv";
  EXPECT_EQ(ConnectNccl(second, &rubbish).status().message(), "the first replica's NCCL id has 9 bytes; expected 128");
  SharedRendezvous parted;
  parted.Fail(Unavailable("a node is lost"));
  EXPECT_EQ(ConnectNccl(second, &parted).status().message(), "a node is lost");
}

TEST_F(NcclTest, ErrorsAreStatuses) {
  auto collectives = Alone();
  std::vector<float> values(3);
  nccl_.reduce = ncclInternalError;
  EXPECT_EQ(Sum(collectives.get(), &values).message(), "ncclAllReduce: error 3 (what NCCL remembers)");
  EXPECT_EQ(Sum(collectives.get(), &values).code(), StatusCode::kUnavailable);
  nccl_.reduce = ncclInvalidUsage;
  collectives = Alone();
  EXPECT_EQ(Sum(collectives.get(), &values).code(), StatusCode::kFailedPrecondition) << "no restart mends it";
  nccl_.reduce = ncclSuccess;
  collectives = Alone();
  EXPECT_TRUE(collectives->AsyncError().ok());
  nccl_.asynchronous = ncclInProgress;
  EXPECT_TRUE(collectives->AsyncError().ok());
  nccl_.asynchronous = ncclRemoteError;
  EXPECT_EQ(collectives->AsyncError().code(), StatusCode::kUnavailable);
  nccl_.ask = ncclInvalidArgument;
  EXPECT_THAT(collectives->AsyncError().message(), testing::HasSubstr("ncclCommGetAsyncError"));
}

TEST_F(NcclTest, WhatIsUnderWayIsAskedAfter) {
  nccl_.under_way = 3;
  const auto collectives = Alone();
  std::vector<float> values = {1, 2};
  EXPECT_TRUE(Sum(collectives.get(), &values).ok());
  MutexLock lock(&nccl_.mutex);
  EXPECT_FALSE(nccl_.pending);
}

/// The others wait in NCCL for a replica that never joins them.
TEST_F(NcclTest, AJobThatEndsEndsTheMeeting) {
  nccl_.under_way = -1;
  std::promise<void> joining;
  Status status;
  {
    Thread replica("replica", [&] {
      joining.set_value();
      status = Connect(0, 2).status();
    });
    joining.get_future().wait();
    rendezvous_.Fail(Unavailable("node \"conv1\" is lost"));
  }
  EXPECT_EQ(status.message(), "node \"conv1\" is lost");
  MutexLock lock(&nccl_.mutex);
  EXPECT_TRUE(nccl_.comms.empty()) << "the communicator is aborted";
}

TEST_F(NcclTest, AnAbortEndsASumThatIsNotInTheStreamYet) {
  const auto collectives = Alone();
  std::vector<float> values(3);
  nccl_.under_way = -1;
  std::promise<void> summing;
  Status status;
  {
    Thread replica("replica", [&] {
      summing.set_value();
      status = Sum(collectives.get(), &values);
    });
    summing.get_future().wait();
    collectives->Abort();
  }
  EXPECT_EQ(status.message(), "the exchange was aborted");
}

/// A communicator that is gone is not touched.
TEST_F(NcclTest, EndsOnce) {
  std::vector<float> values(3);
  {
    const auto collectives = Alone();
    collectives->Abort();
    collectives->Abort();
    EXPECT_EQ(Sum(collectives.get(), &values).code(), StatusCode::kUnavailable);
    EXPECT_TRUE(collectives->AsyncError().ok());
  }
  EXPECT_EQ(nccl_.aborts, 1);
  Alone();
  EXPECT_EQ(nccl_.aborts, 2);
}

/// Else the first sum would wait for all replicas.
TEST_F(NcclTest, ConnectsAtOnce) {
  for (const char* before : {"", "1"}) {
    setenv("NCCL_RUNTIME_CONNECT", before, 1);
    PrepareNccl();
    EXPECT_STREQ(getenv("NCCL_RUNTIME_CONNECT"), "0");
  }
}

Comm* Known(ncclComm_t handle) {
  auto* const comm = reinterpret_cast<Comm*>(handle);
  EXPECT_TRUE(nccl->comms.contains(comm)) << "a communicator that is gone";
  return comm;
}

/// Of a call that is done, or will be.
ncclResult_t Begun() HP_REQUIRES(nccl->mutex) {
  nccl->pending = nccl->under_way != 0;
  nccl->left = nccl->under_way;
  return nccl->pending ? ncclInProgress : ncclSuccess;
}

}  // namespace
}  // namespace hp::test

using hp::test::Comm;
using hp::test::nccl;

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::memset(id, 0, sizeof(*id));
  id->internal[0] = static_cast<char>('a' + nccl->ids++);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* made, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  hp::MutexLock lock(&nccl->mutex);
  EXPECT_EQ(config->blocking, 0);
  EXPECT_EQ(hp::test::CurrentDevice(), rank);
  if (nccl->init != ncclSuccess) return nccl->init;
  auto* const comm = new Comm{id.internal, rank, size};
  nccl->comms.insert(comm);
  --nccl->meeting.try_emplace(comm->id, size - nccl->elsewhere).first->second;
  *made = reinterpret_cast<ncclComm_t>(comm);
  (void)hp::test::Begun();
  return ncclInProgress;
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t handle, cudaStream_t stream) {
  hp::MutexLock lock(&nccl->mutex);
  const Comm* const comm = hp::test::Known(handle);
  EXPECT_EQ(hp::test::CurrentDevice(), comm->rank);
  EXPECT_TRUE(from == to && type == ncclFloat && op == ncclSum);
  if (nccl->reduce != ncclSuccess) return nccl->reduce;
  if (hp::test::group == nullptr) {
    ADD_FAILURE() << "a sum of no group";
    return ncclInvalidUsage;
  }
  nccl->streams.push_back(stream);
  auto& waiting = nccl->waiting[{comm->id, (*hp::test::group)[comm]++}];
  waiting.emplace_back(static_cast<float*>(to), count);
  if (static_cast<int>(waiting.size()) < comm->size - nccl->elsewhere) return ncclInProgress;
  for (size_t i = 0; i < count; ++i) {
    float sum = 0;
    for (const auto& values : waiting) sum += values[i];
    for (const auto& values : waiting) values[i] = sum;
  }
  waiting.clear();
  return ncclInProgress;
}

ncclResult_t ncclGroupStart() {
  EXPECT_EQ(hp::test::group, nullptr) << "a group in a group";
  hp::test::group = std::make_unique<std::map<const Comm*, int>>();
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  hp::MutexLock lock(&nccl->mutex);
  EXPECT_NE(hp::test::group, nullptr) << "the end of no group";
  hp::test::group.reset();
  ++nccl->groups;
  return nccl->reduce == ncclSuccess ? hp::test::Begun() : nccl->reduce;
}

// A replica is connected when all are.
ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  hp::MutexLock lock(&nccl->mutex);
  const Comm* const comm = hp::test::Known(handle);
  *error = nccl->asynchronous;
  if (nccl->meeting[comm->id] > 0) *error = ncclInProgress;
  if (nccl->pending) {
    *error = ncclInProgress;
    nccl->pending = nccl->under_way < 0 || --nccl->left > 0;
  }
  return nccl->ask;
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  hp::MutexLock lock(&nccl->mutex);
  Comm* const comm = hp::test::Known(handle);
  ++nccl->aborts;
  nccl->comms.erase(comm);
  delete comm;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t error) {
  static std::string text;
  text = "error " + std::to_string(error);
  return text.c_str();
}

const char* ncclGetLastError(ncclComm_t) { return "what NCCL remembers"; }

}  // extern "C"
