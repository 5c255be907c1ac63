#pragma once

#include "hp/status.h"

#include <cstddef>
#include <string>

namespace hp {

// What run folders of hplaunch and of hpnode have alike: how incarnations count in record.txt, and what logs are
// called.

/// Bytes of the time in front of each line of record.txt, with the space behind it.
constexpr size_t kTimeOfRecord = 20;
/// Adds a line to record.txt: the time, the text, and a newline. Where the file ends within a line, as a full disk or a
/// killed process leaves it, that line ends first. Blocks for the disk.
/// @param record the file, open for reading and appending. @return 0, or an errno: ENOSPC too where a part was written.
int AddToRecord(int record, const std::string& text);
/// Takes the lock of record.txt by which hplaunch, which has it alone (LOCK_EX), and nodes (LOCK_SH) keep each other
/// out. @return false: another process has it; kFailedPrecondition: the disk has no locks.
StatusOr<bool> LockRecord(int record, int operation, const std::string& folder);
/// kFailedPrecondition: a file of the folder cannot be locked. @param error an errno.
Status NoLocks(const std::string& path, int error);
/// The text of the line that begins an incarnation. @param of what it is one of; may be empty.
std::string IncarnationText(int number, const std::string& of = "");
/// How solvers and nets begin that runs write for themselves (WriteRunFiles).
constexpr char kWrittenBy[] = "# Written by ";
/// Whether a run may write its files there. @return kFailedPrecondition: the folder has a table, a solver or a net that
/// no run wrote, and no record: they are somebody's own.
Status CheckIsForRuns(const std::string& folder);
/// The number behind the highest incarnation that FOLDER/record.txt has; 1: it has none. Blocks for the disk.
int NextIncarnation(const std::string& folder);
/// FOLDER/logs/NODE.INCARNATION.log
std::string LogPathOf(const std::string& folder, const std::string& node, int incarnation);
/// Removes the logs of those that are 8 incarnations or more behind this one.
void RemoveOldLogs(const std::string& folder, int incarnation);

}  // namespace hp
