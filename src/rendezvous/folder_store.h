#pragma once

#include "base/clock.h"

#include "rendezvous/file_seam.h"
#include "rendezvous/store.h"

#include <memory>
#include <string>

namespace hp {

/// A run's entries as files of a folder that all nodes see, NFS included. Files: table.K, node.NONCE, lease.K.N, and
/// temporary ones with the writer's nonce. README.md says what each may look like after a loss.
class FolderStore : public RendezvousStore {
 public:
  /// @param path the run's own folder, made if it is not there. @param self the nonce of this process.
  /// @param files,clock outlive it. @return kInvalidArgument: there can't be such a folder.
  static StatusOr<std::unique_ptr<FolderStore>> Open(const std::string& path, const std::string& self,
                                                     FileSeam* files = FileSeam::Real(),
                                                     const Clock* clock = Clock::Real());

  StatusOr<bool> CreateTable(int incarnation, const std::string& entry) override;
  StatusOr<std::optional<std::string>> ReadTable(int incarnation) override;
  Status PutNode(const std::string& nonce, const std::string& entry) override;
  StatusOr<std::map<std::string, std::string>> ReadNodes() override;
  Status RemoveNode(const std::string& nonce) override;
  /// The lease is the file lease.INCARNATION.N of the highest N, which its holder writes anew each time. Who sees that
  /// it has not changed for 10 s by the own clock creates the one of N + 1.
  StatusOr<bool> HoldLease(int incarnation, const std::string& holder) override;
  std::string name() const override { return "dir://" + path_; }

 private:
  FolderStore(std::string path, std::string self, FileSeam* files, const Clock* clock)
      : path_(std::move(path)), self_(std::move(self)), files_(files), clock_(clock) {}
  std::string PathOf(const std::string& name) const { return path_ + "/" + name; }
  std::string Temporary() { return PathOf("tmp." + self_ + "." + std::to_string(++temporaries_)); }
  /// Creates the file unless it is there. @return whether this call did, whatever its replies said.
  StatusOr<bool> CreateOnce(const std::string& name, const std::string& bytes);
  /// Puts the file in the place of what is there.
  Status Replace(const std::string& name, const std::string& bytes);
  /// Reads what has become of the lease: its highest number, and whether it changed.
  Status LookAtLease(int incarnation);
  /// Reads a file, also one that this host remembers as missing.
  StatusOr<std::optional<std::string>> ReadFresh(const std::string& name);

  const std::string path_, self_;
  FileSeam* const files_;
  const Clock* const clock_;
  int temporaries_ = 0;
  // Of the lease that was seen last.
  int lease_incarnation_ = 0, lease_number_ = 0;
  std::string lease_;
  int64_t lease_changed_ns_ = 0;
  int renewals_ = 0;
};

}  // namespace hp
