#include "proto/log_lines.h"

#include <algorithm>
#include <map>
#include <string>

namespace hp {

void KeepLine(const LoggedLine& line, google::protobuf::RepeatedPtrField<LoggedLine>* lines) {
  *lines->Add() = line;
  const bool progress = line.severity() == LoggedLine::PROGRESS;
  std::map<std::string, int> of_node;
  int all = 0;
  for (const LoggedLine& kept : *lines) {
    if ((kept.severity() == LoggedLine::PROGRESS) != progress) continue;
    ++of_node[kept.node()];
    ++all;
  }
  if (all <= kMostLinesOfAKind) return;
  const auto fewer = [](const auto& a, const auto& b) { return a.second < b.second; };
  const std::string& most = std::max_element(of_node.begin(), of_node.end(), fewer)->first;
  lines->erase(std::find_if(lines->begin(), lines->end(), [&](const LoggedLine& kept) {
    return kept.node() == most && (kept.severity() == LoggedLine::PROGRESS) == progress;
  }));
}

}  // namespace hp
