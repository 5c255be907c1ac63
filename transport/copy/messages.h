#pragma once

#include "hp/status.h"
#include "transport/transport.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

// What CopyTransports say to each other; the bytes are in transport/README.md. Each Decode takes the body of a message,
// which may be anything. @return kInvalidArgument: it is too short or too long.
namespace hp {

/// Types of Transport::Send from here on are ours.
constexpr uint32_t kFirstCopyMessage = uint32_t{1} << 31;
enum class CopyMessage : uint32_t {
  kOffer = kFirstCopyMessage,
  kAnswer,
  kRegion,
  kGrant,
  kArrived,
  kCancel,
};

struct CopyOffer {
  std::string device;
  std::string handle;   ///< of memory to try; empty: there is none
  std::string why_not;  ///< then
};

struct CopyRegion {
  uint32_t region = 0;
  uint64_t bytes = 0;
  std::string handle;
};

struct CopyGrant {
  RemoteGrant grant;
  PlaceTag tag;
  uint32_t region = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

std::vector<std::byte> Encode(const CopyOffer& offer);
std::vector<std::byte> Encode(const CopyRegion& region);
std::vector<std::byte> Encode(const CopyGrant& grant);
std::vector<std::byte> Encode(RemoteGrant grant);
std::vector<std::byte> Encode(const std::string& text);

StatusOr<CopyOffer> DecodeOffer(std::span<const std::byte> bytes);
StatusOr<CopyRegion> DecodeRegion(std::span<const std::byte> bytes);
StatusOr<CopyGrant> DecodeGrant(std::span<const std::byte> bytes);
StatusOr<RemoteGrant> DecodeSlot(std::span<const std::byte> bytes);
std::string DecodeText(std::span<const std::byte> bytes);

}  // namespace hp
