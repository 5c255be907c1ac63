#include "scheduler/control/shutdown.h"

#include "hp/status.h"

#include "gtest/gtest.h"

namespace hp {
namespace {

// Clock t + 1 begins ahead of the verdict of t, so a verdict on what follows from a NaN may come before anybody looks.
TEST(Shutdown, TheFirstVerdictThatStopsTheJobIsItsReason) {
  Shutdown shutdown(Shutdown::Options{});
  shutdown.OnStopped(InternalError("iteration 1"));
  shutdown.OnStopped(InternalError("iteration 2"));
  EXPECT_EQ(shutdown.WaitForWork().message(), "iteration 1");
}

}  // namespace
}  // namespace hp
