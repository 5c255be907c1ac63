#pragma once

#include "backend/engine_choices.h"
#include "base/rank.h"
#include "hp/status.h"
#include "proto/engines.pb.h"

#include <map>
#include <memory>
#include <string>

namespace hp {

/// The engines of a node's GPU, kept in a text file beside the snapshots (proto/engines.proto). A start that finds its
/// choices there times nothing, so that its bits are those of the start that timed. Entries of other GPUs and other
/// versions of the library stay in the file and are not used. One thread at a time.
class EngineFile final : public EngineChoices {
 public:
  /// The file of a node: each has its own, so that nodes that share a folder never write the same one. By rank rather
  /// than by name: what decides the bits of a resumed job has ranks (RoutingTable::division_hash), and names may
  /// change.
  static std::string PathOf(const std::string& snapshot_prefix, Rank rank);

  /// Reads the file; where there is none, there are no choices yet. Blocks for the disk.
  /// @return kInvalidArgument: it is no such text; kDataLoss: it is not as it was written; both with "FILE:LINE: ...".
  static StatusOr<std::unique_ptr<EngineFile>> Open(const std::string& path);

  std::optional<EngineChoice> Find(const EngineKey& key) override;
  void Keep(const EngineKey& key, const EngineChoice& choice, const EngineTimes& times) override;

  const std::string& path() const { return path_; }
  /// Choices that were made since the file was read.
  int made() const { return made_; }
  /// Writes the file, whole or not at all, if there are new choices. Blocks for the disk.
  /// @return as WriteWholeFile: kInvalidArgument: the folder is missing or can't be written; kResourceExhausted.
  Status Save() const;

 private:
  EngineFile(std::string path, std::map<EngineKey, EngineEntry> entries)
      : path_(std::move(path)), entries_(std::move(entries)) {}
  /// Says once that the file has this operation for others only.
  void WarnOfOthers(const EngineKey& key);

  const std::string path_;
  std::map<EngineKey, EngineEntry> entries_;
  int made_ = 0;
  bool warned_ = false;
};

}  // namespace hp
