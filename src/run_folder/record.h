#pragma once

#include "hp/status.h"

#include <cstddef>
#include <string>

namespace hp {

// What run folders of hplaunch and of hpnode have alike: how incarnations count in record.txt, and what logs are
// called.

/// Bytes of the time in front of each line of record.txt, with the space behind it.
constexpr size_t kTimeOfRecord = 20;
/// A line of record.txt: the time, the text, and a newline.
std::string RecordLine(const std::string& text);
/// The text of the line that begins an incarnation. @param of what it is one of; may be empty.
std::string IncarnationText(int number, const std::string& of = "");
/// Whether a run may write its files there. @return kInvalidArgument: the folder has a table, a solver or a net, and no
/// record: they are somebody's own.
Status CheckIsForRuns(const std::string& folder);
/// The number behind the highest incarnation that FOLDER/record.txt has; 1: it has none. Blocks for the disk.
int NextIncarnation(const std::string& folder);
/// FOLDER/logs/NODE.INCARNATION.log
std::string LogPathOf(const std::string& folder, const std::string& node, int incarnation);
/// Removes the logs of those that are 8 incarnations or more behind this one.
void RemoveOldLogs(const std::string& folder, int incarnation);

}  // namespace hp
