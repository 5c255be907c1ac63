#pragma once

#include "hp/status.h"
#include "transport/transport.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

// The two tables behind grants: those that an endpoint gave, by slot, and those that its peer gave it. A slot's number
// and generation together name one grant (RemoteGrant) and travel with everything that is said about it.
namespace hp {

/// A place of ours that a peer may write. The place belongs to the transport until the grant ends.
struct OpenGrant {
  PlaceTag tag;
  std::span<std::byte> place;
  size_t received = 0;  ///< bytes from its begin that are there; of carriers that receive in pieces
};

/// The grants that we gave one peer. A slot is used again only after its grant has ended, with another generation.
/// Not thread-safe: its endpoint's mutex guards it.
class GrantTable {
 public:
  /// Opens a grant in a free slot. @return what names it; kResourceExhausted: kMaxOpenGrants are open.
  StatusOr<RemoteGrant> Open(const PlaceTag& tag, std::span<std::byte> place);
  /// @return nullptr: the peer names a grant that is not open. Valid until the next Open or Close.
  OpenGrant* Find(RemoteGrant grant);
  /// Ends an open grant, which must be open: ask Find first where a peer says so. @return it; its slot is free.
  OpenGrant Close(RemoteGrant grant);
  /// Ends all open grants, in the order of their slots.
  std::vector<OpenGrant> CloseAll();

  /// The grant that is probably written next: writes mostly come in the order of the grants, so it is the one that was
  /// opened after the one that was closed last, or what Expect said. @return nothing: no telling.
  std::optional<RemoteGrant> Likely() const;
  /// `grant` is being written, so its rest is what Likely says.
  void Expect(RemoteGrant grant) { likely_ = grant.index; }

 private:
  struct Slot {
    OpenGrant grant;
    uint32_t generation = 0;
    bool open = false;
    uint32_t older = kNone, younger = kNone;  // the open grants in the order of Open
  };
  static constexpr uint32_t kNone = UINT32_MAX;

  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  size_t open_ = 0;
  uint32_t youngest_ = kNone;
  uint32_t likely_ = kNone;
};

/// Where a granted place lies, in the terms of what carries the bytes; of a carrier that needs none, all zero.
struct RemotePlace {
  uint64_t address = 0;  ///< RDMA: in the peer's memory; copies: offset in the region
  uint32_t key = 0;      ///< RDMA: rkey; copies: which region of the peer
  uint16_t parts = 1;    ///< RDMA: data queue pairs that a write goes over
};

/// The grants that a peer gave us and that we have not used yet. Not thread-safe, likewise.
class RemoteGrantTable {
 public:
  /// @return kInvalidArgument: the peer granted an open index again, or more than kMaxOpenGrants.
  Status Add(const PlaceTag& tag, RemoteGrant grant, uint64_t bytes, const RemotePlace& place = {});
  /// Uses `grant` up by a write of `bytes` bytes. @return where to; kInvalidArgument: it is not open, is for another
  /// tag, or is of another size, and stays as it was.
  StatusOr<RemotePlace> Use(RemoteGrant grant, const PlaceTag& tag, size_t bytes);
  /// Uses `grant` up without a write. @return kInvalidArgument: it is not open.
  Status Remove(RemoteGrant grant);

 private:
  struct Entry {
    PlaceTag tag;
    uint32_t generation = 0;
    uint64_t bytes = 0;
    RemotePlace place;
  };
  using Entries = std::unordered_map<uint32_t, Entry>;  // by index
  StatusOr<Entries::iterator> Find(RemoteGrant grant);

  Entries entries_;
};

}  // namespace hp
