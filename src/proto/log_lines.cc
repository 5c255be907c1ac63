#include "proto/log_lines.h"

#include <algorithm>
#include <map>
#include <string>

namespace hp {
namespace {

void TrimKind(bool progress, google::protobuf::RepeatedPtrField<LoggedLine>* lines) {
  const auto is_of_kind = [progress](const LoggedLine& line) {
    return (line.severity() == LoggedLine::PROGRESS) == progress;
  };
  const auto all = std::count_if(lines->begin(), lines->end(), is_of_kind);
  if (all <= kMostLinesOfAKind) return;
  std::map<std::string, int> of_node;
  for (const LoggedLine& line : *lines) {
    if (is_of_kind(line)) ++of_node[line.node()];
  }
  for (auto extra = all - kMostLinesOfAKind; extra > 0; --extra) {
    const auto most = std::max_element(of_node.begin(), of_node.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    lines->erase(std::find_if(lines->begin(), lines->end(),
                              [&](const LoggedLine& line) { return is_of_kind(line) && line.node() == most->first; }));
    --most->second;
  }
}

}  // namespace

void TrimLines(google::protobuf::RepeatedPtrField<LoggedLine>* lines) {
  TrimKind(true, lines);
  TrimKind(false, lines);
}

}  // namespace hp
