// The contract of a routing table: it changes how fast training runs, never what it computes. One net with everything
// that depends on where a sample or a channel is (dropout, crops, mirrors, LRN, ignored labels, iter_size, uneven
// divisions) is trained by one process, then under many tables; all parameters and all losses must agree.
#include "test/cluster/contract_fixture.h"

namespace hp::test {
namespace {

TEST_F(ContractTest, TablesOverInproc) {
  Check(Solver(""), {Table(1, {1}, 1, 0, false), Table(1, {2}, 3, 1, false), Table(2, {1}, 1, 1, false),
                     Table(2, {2}, 3, 0, false), Table(2, {4}, 5, 1, false), Table(3, {1}, 3, 20, false),
                     Table(3, {2}, 1, 0, false), Table(3, {4}, 3, 1, false), Table(1, {4}, 8, 2, false),
                     Table(2, {2, 1}, 3, 1, false), Table(2, {2, 3}, 2, 0, false), Table(1, {1, 2}, 8, 0, false),
                     Table(2, {}, 1, 0, false), Table(3, {}, 2, 1, false), Table(1, {}, 3, 0, false)});
}

TEST_F(ContractTest, TablesOverTcp) {
  Check(Solver(""),
        {Table(1, {1}, 1, 1, true), Table(2, {1}, 3, 0, true), Table(2, {2}, 1, 1, true), Table(2, {4}, 3, 20, true),
         Table(3, {2}, 2, 1, true), Table(2, {3, 2}, 3, 0, true), Table(2, {}, 3, 0, true)});
}

TEST_F(ContractTest, ClippedGradients) {
  Check(Solver("clip_gradients: 0.8"), {Table(2, {2}, 3, 1, false), Table(2, {2, 2}, 2, 0, true),
                                        Table(3, {}, 1, 0, false), Table(1, {3}, 4, 2, true)});
}

// No gradient crosses back to the conv nodes, and no exchange holds a fast replica back.
TEST_F(ContractTest, FrozenConvLayers) {
  Check(Solver("", true), {Table(2, {2}, 3, 1, false), Table(3, {1, 2}, 2, 1, false), Table(2, {4}, 1, 0, true),
                           Table(2, {}, 3, 0, false)});
}

ClusterSpec WithThreads(int threads, ClusterSpec spec) {
  spec.threads = threads;
  return spec;
}

TEST_F(ContractTest, TwoThreadsANode) {
  Check(Solver(""), {WithThreads(2, Table(1, {}, 1, 0, false)), WithThreads(2, Table(2, {2}, 3, 0, false)),
                     WithThreads(2, Table(1, {2, 1}, 2, 1, false)), WithThreads(2, Table(2, {3}, 2, 0, true))});
}

TEST_F(ContractTest, SameTableTwiceGivesTheSameBits) {
  const std::string solver = Solver("", false, 12);
  for (const ClusterSpec& table :
       {Table(2, {2}, 3, 2, false), Table(3, {2, 2}, 2, 1, false), Table(2, {3}, 3, 0, true)}) {
    SCOPED_TRACE(Describe(table));
    CheckSameBits(table, solver, {11, 12});
  }
}

TEST_F(ContractTest, SameBitsWithTwoThreadsANode) {
  const std::string solver = Solver("", false, 5);
  for (const ClusterSpec& table : {Table(1, {}, 2, 0, false), Table(2, {2}, 2, 0, true)}) {
    SCOPED_TRACE(Describe(table));
    CheckSameBits(WithThreads(2, table), solver, {11});
  }
}

}  // namespace
}  // namespace hp::test
