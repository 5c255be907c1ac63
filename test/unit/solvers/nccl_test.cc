// What is asked of NCCL and made of its answers, with an NCCL of this file's own.
#include "base/mutex.h"
#include "base/thread.h"
#include "solvers/exchange/nccl_collectives.h"
#include "test/support/fake_cuda.h"
#include "test/support/shared_rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <cstdlib>
#include <cstring>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hp::test {
namespace {

/// One communicator of a replica.
struct Comm {
  std::string id;
  int rank = 0, size = 0;
};

/// Sums are there when the last replica has called.
struct FakeNccl {
  Mutex mutex;
  std::set<Comm*> comms HP_GUARDED_BY(mutex);
  // By id and the number of the sum in its group.
  std::map<std::pair<std::string, int>, std::vector<std::span<float>>> waiting HP_GUARDED_BY(mutex);
  std::vector<void*> streams HP_GUARDED_BY(mutex);
  /// How often what a call has begun is still under way when it is asked after; negative: for ever.
  int under_way = 0;
  bool pending HP_GUARDED_BY(mutex) = false;
  int left HP_GUARDED_BY(mutex) = 0;
  ncclResult_t init = ncclSuccess, reduce = ncclSuccess, ask = ncclSuccess, asynchronous = ncclSuccess;
  int ids = 0, aborts = 0;
};
FakeNccl* nccl = nullptr;
thread_local int sums_of_group = -1;  // of the calling thread; -1: it is in no group

Status Sum(Collectives* collectives, std::vector<float>* values) {
  const std::span<float> all(*values);
  return collectives->AllReduce(std::span(&all, 1));
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

  FakeNccl nccl_;
  SharedRendezvous rendezvous_;
  int streams_[2] = {};
};

TEST_F(NcclTest, ReplicasMeetAndAddUp) {
  std::vector<float> values[2] = {{1, 2, 3, 4, 5}, {10, 20, 30, 40, 50}};
  {
    std::vector<Thread> threads;
    for (int rank : {1, 0}) {
      threads.emplace_back("replica", [&, rank] {
        const auto collectives = Connect(rank, 2);
        ASSERT_TRUE(collectives.ok()) << collectives.status();
        const std::span<float> all(values[rank]);
        const std::span<float> sums[2] = {all.first(2), all.last(3)};
        EXPECT_TRUE((*collectives)->AllReduce(sums).ok());
        EXPECT_TRUE((*collectives)->AsyncError().ok());
      });
    }
  }
  EXPECT_EQ(values[0], (std::vector<float>{11, 22, 33, 44, 55}));
  EXPECT_EQ(values[1], values[0]);
  EXPECT_EQ(nccl_.ids, 1);
  MutexLock lock(&nccl_.mutex);
  EXPECT_THAT(nccl_.streams, testing::UnorderedElementsAre(&streams_[0], &streams_[0], &streams_[1], &streams_[1]));
  EXPECT_TRUE(nccl_.comms.empty());
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
  const auto collectives = Alone();
  std::vector<float> values(3);
  nccl_.reduce = ncclInternalError;
  EXPECT_EQ(Sum(collectives.get(), &values).message(), "ncclAllReduce: error 3 (what NCCL remembers)");
  EXPECT_EQ(Sum(collectives.get(), &values).code(), StatusCode::kUnavailable);
  nccl_.reduce = ncclInvalidUsage;
  EXPECT_EQ(Sum(collectives.get(), &values).code(), StatusCode::kFailedPrecondition) << "no restart mends it";
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

int CurrentDevice() {
  int device = -1;
  cudaGetDevice(&device);
  return device;
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
  *made = reinterpret_cast<ncclComm_t>(comm);
  return hp::test::Begun();
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t handle, cudaStream_t stream) {
  hp::MutexLock lock(&nccl->mutex);
  const Comm* const comm = hp::test::Known(handle);
  EXPECT_EQ(hp::test::CurrentDevice(), comm->rank);
  EXPECT_TRUE(from == to && type == ncclFloat && op == ncclSum);
  if (nccl->reduce != ncclSuccess) return nccl->reduce;
  EXPECT_GE(hp::test::sums_of_group, 0) << "a sum of no group";
  nccl->streams.push_back(stream);
  auto& waiting = nccl->waiting[{comm->id, hp::test::sums_of_group++}];
  waiting.emplace_back(static_cast<float*>(to), count);
  if (static_cast<int>(waiting.size()) < comm->size) return ncclInProgress;
  for (size_t i = 0; i < count; ++i) {
    float sum = 0;
    for (const auto& values : waiting) sum += values[i];
    for (const auto& values : waiting) values[i] = sum;
  }
  waiting.clear();
  return ncclInProgress;
}

ncclResult_t ncclGroupStart() {
  EXPECT_EQ(hp::test::sums_of_group, -1) << "a group in a group";
  hp::test::sums_of_group = 0;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  hp::MutexLock lock(&nccl->mutex);
  EXPECT_GE(hp::test::sums_of_group, 0) << "the end of no group";
  hp::test::sums_of_group = -1;
  return nccl->reduce == ncclSuccess ? hp::test::Begun() : nccl->reduce;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  hp::MutexLock lock(&nccl->mutex);
  hp::test::Known(comm);
  *error = nccl->asynchronous;
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
