#pragma once

#include "proto/control.pb.h"

#include <google/protobuf/message.h>

#include <string>
#include <vector>

namespace hp {

/// The status of a job as lines of text, for `hpctl status` and `hpctl watch`.
struct StatusLines {
  std::string job;                    ///< what the job is and how far
  std::string learning;               ///< loss, rate and the latest test; empty: not known yet
  std::string head;                   ///< the columns of `nodes`
  std::vector<std::string> nodes;     ///< one for each node, in the order of the table
  std::vector<std::string> warnings;  ///< the last warning of each node that has one, who is slow, and the last order
};
/// @param now_s since 1970, for the age of warnings.
StatusLines LinesOf(const JobStatus& status, int64_t now_s);

/// All of LinesOf, as `hpctl status` prints it.
std::string StatusText(const JobStatus& status, int64_t now_s);
/// A status, or what a page shows, as JSON, with all its fields by the names of src/proto/control.proto.
std::string MessageJson(const google::protobuf::Message& message);

/// A curve of the latest `width` values, oldest first, in eight heights: the least of them is the lowest. Values that
/// are not finite are gaps.
/// @param utf8 whether block characters are understood; else letters of ASCII stand for them.
std::string Sparkline(const std::vector<double>& values, size_t width, bool utf8);

/// The beginning of a text of UTF-8, as far as `columns` characters go.
std::string CutColumns(const std::string& text, size_t columns);

}  // namespace hp
