#include "base/trace_events.h"

#include <gtest/gtest.h>

namespace hp {
namespace {

TEST(TraceEventsTest, NamesAreJsonAndTimesMicroseconds) {
  EXPECT_EQ(TraceProcess(3, "a \"b\" \\ \n"),
            R"({"ph":"M","pid":3,"tid":0,"name":"process_name","args":{"name":"a \"b\" \\ \u000a"}})");
  EXPECT_EQ(TraceTrack(0, 2, "link out"),
            R"({"ph":"M","pid":0,"tid":2,"name":"thread_name","args":{"name":"link out"}})");
  EXPECT_EQ(TraceSpan(1, 2, "x", 1'234'567, 1'000'089),
            R"({"ph":"X","pid":1,"tid":2,"ts":1234.567,"dur":1000.089,"name":"x"})");
  EXPECT_EQ(TraceMoment(1, 3, "y", 5), R"({"ph":"i","s":"t","pid":1,"tid":3,"ts":0.005,"name":"y"})");
}

}  // namespace
}  // namespace hp
