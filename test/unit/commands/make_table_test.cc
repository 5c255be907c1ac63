#include "commands/make_table.h"

#include <gtest/gtest.h>

namespace hp {
namespace {

TEST(SolverFromTableTest, IsSeenFromTheTable) {
  EXPECT_EQ(SolverFromTable("/no/a/solver.prototxt", "/no/b/table.prototxt"), "/no/a/solver.prototxt");
  EXPECT_EQ(SolverFromTable("solver.prototxt", "table.prototxt"), "solver.prototxt");
  EXPECT_EQ(SolverFromTable("solver.prototxt", "b/table.prototxt"), "../solver.prototxt");
  EXPECT_EQ(SolverFromTable("a/solver.prototxt", "b/c/table.prototxt"), "../../a/solver.prototxt");
}

TEST(SolverFromTableTest, IsAbsoluteWhereOnlyTheRootIsShared) {
  const std::string solver = SolverFromTable("solver.prototxt", "/no/b/table.prototxt");
  EXPECT_TRUE(solver.starts_with("/") && solver.ends_with("/solver.prototxt")) << solver;
}

}  // namespace
}  // namespace hp
