#pragma once

#include "hp/status.h"
#include "transport/transport.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

// The messages between CopyTransports; transport/README.md has their bytes and order. Encode makes the body of a
// message, Decode... reads one, which comes from the peer and is not trusted: they return kInvalidArgument if it is too
// short or too long, and leave the rules about its values to the caller.
namespace hp {

/// Types of Transport::Send from here on belong to CopyTransport.
constexpr uint32_t kFirstCopyMessage = uint32_t{1} << 31;
/// The types.
enum class CopyMessage : uint32_t {
  kOffer = kFirstCopyMessage,
  kAnswer,
  kRegion,
  kGrant,
  kArrived,
  kCancel,
};

/// OFFER: the sender's device, and memory with which the receiver tries whether it can copy to it.
struct CopyOffer {
  std::string device;   ///< its name, "cuda:0"
  std::string handle;   ///< of kCopyProbeBytes of memory; empty: there is none
  std::string why_not;  ///< why there is none; empty if there is
};

/// REGION: memory of the sender in which it will grant places.
struct CopyRegion {
  uint32_t region = 0;  ///< its number; announced once for each connection
  uint64_t bytes = 0;   ///< its size
  std::string handle;   ///< for DeviceCopier::Open
};

/// GRANT: a place of the sender that the receiver may write once.
struct CopyGrant {
  RemoteGrant grant;    ///< without kCopyGrantBit
  PlaceTag tag;         ///< what the place is for
  uint32_t region = 0;  ///< of a REGION before
  uint64_t offset = 0;  ///< bytes from the region's start
  uint64_t bytes = 0;   ///< size of the place
};

std::vector<std::byte> Encode(const CopyOffer& offer);
std::vector<std::byte> Encode(const CopyRegion& region);
std::vector<std::byte> Encode(const CopyGrant& grant);
std::vector<std::byte> Encode(RemoteGrant grant);        ///< ARRIVED, CANCEL
std::vector<std::byte> Encode(const std::string& text);  ///< ANSWER

StatusOr<CopyOffer> DecodeOffer(std::span<const std::byte> bytes);
StatusOr<CopyRegion> DecodeRegion(std::span<const std::byte> bytes);
StatusOr<CopyGrant> DecodeGrant(std::span<const std::byte> bytes);
StatusOr<RemoteGrant> DecodeSlot(std::span<const std::byte> bytes);  ///< ARRIVED, CANCEL
std::string DecodeText(std::span<const std::byte> bytes);            ///< ANSWER; any bytes

}  // namespace hp
