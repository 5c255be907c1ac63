#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace hp {

/// The newest complete snapshot of a prefix on this host: its manifest is there, and its state and model are what the
/// manifest says, to the byte. Reads the files of the newest one; of older ones only if newer ones are not complete.
/// @param most_age_s snapshots that were written longer ago, in seconds, are other runs'.
/// @return the path of its .solverstate, and its iteration; nothing: there is none.
struct SnapshotPlace {
  std::string state_path;
  int64_t iteration = 0;
};
std::optional<SnapshotPlace> NewestSnapshot(const std::string& prefix, int64_t most_age_s);

/// As a line, for whoever runs `hplaunch --newest_snapshot=PREFIX`, and back. @return nothing: it is another line.
std::string SnapshotLine(const SnapshotPlace& place);
std::optional<SnapshotPlace> ParseSnapshotLine(const std::string& line);

}  // namespace hp
