#pragma once

#include "hp/status.h"

#include <map>
#include <optional>
#include <string>

namespace hp {

/// Where the entries of one run lie that has no server of ours: a folder, or a Redis server. What is kept is sealed by
/// whoever puts it there (entry.h); a store does not look inside. Each entry has one writer, but for tables, of which
/// the first one counts. One thread at a time; calls block for the disk or the network, at most some seconds.
/// All return kUnavailable when the store can't be reached now, and may be tried again; kInvalidArgument: it can't be
/// used at all.
class RendezvousStore {
 public:
  virtual ~RendezvousStore() = default;

  /// Puts a table there unless one of that incarnation is there already.
  /// @return whether this one is the one that is there, also if a reply was lost on the way.
  virtual StatusOr<bool> CreateTable(int incarnation, const std::string& entry) = 0;
  /// @return the table of that incarnation; nothing: there is none.
  virtual StatusOr<std::optional<std::string>> ReadTable(int incarnation) = 0;

  /// Puts a process's record in the place of its last one. @param nonce 32 hexadecimal digits.
  virtual Status PutNode(const std::string& nonce, const std::string& entry) = 0;
  /// All records by nonce, those of earlier runs of this id too.
  virtual StatusOr<std::map<std::string, std::string>> ReadNodes() = 0;
  /// Removes a record, and what its process left half done; that it is not there is no error.
  virtual Status RemoveNode(const std::string& nonce) = 0;

  /// Takes the lease by which one process at a time plans that incarnation, or renews it; call it at least every
  /// second. It is lost when it was not renewed for 10 s. It saves work and decides nothing: CreateTable does.
  /// @param holder a nonce. @return whether `holder` has it now.
  virtual StatusOr<bool> HoldLease(int incarnation, const std::string& holder) = 0;

  /// For messages: "dir:///shared/runs/7".
  virtual std::string name() const = 0;
};

}  // namespace hp
