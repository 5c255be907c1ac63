#pragma once

#include "proto/control.pb.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hp {

/// The latest values of a number, for a line with its curve.
class WatchedCurve {
 public:
  /// @param value NaN: not known now.
  void Add(double value);
  /// "images/s   211.5        ▂▁▅▂▂▄▆▆", as wide as `columns`. @param format of the latest value. @param utf8
  /// Sparkline's.
  std::string Line(const char* name, const char* format, size_t columns, bool utf8) const;

 private:
  std::vector<double> values_;  // oldest first
};

struct WatchLine {
  enum Look { kPlain, kBold, kReverse, kDim };
  std::string text;
  Look look = kPlain;
};

/// The screen of `hpctl watch`, from the first line down; lines may be wider than `columns`, which only curves heed.
/// @param now_s since 1970.
std::vector<WatchLine> WatchLines(const JobStatus& status, int64_t now_s, const WatchedCurve& loss,
                                  const WatchedCurve& speed, size_t columns, bool utf8);

}  // namespace hp
