#include "transport/copy/messages.h"

#include "base/format.h"
#include "transport/little_endian.h"

#include <algorithm>

namespace hp {
namespace {

constexpr size_t kMaxHandleBytes = 4096;
constexpr size_t kMaxTextBytes = 512;

/// For our log.
std::string TextOf(std::span<const std::byte> bytes) {
  return Printable({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, kMaxTextBytes);
}

class Writer {
 public:
  template <typename T>
  Writer& Number(T value) {
    bytes_.resize(bytes_.size() + sizeof(T));
    StoreLittle<T>(&bytes_[bytes_.size() - sizeof(T)], value);
    return *this;
  }
  Writer& Text(const std::string& text) {
    const auto* begin = reinterpret_cast<const std::byte*>(text.data());
    bytes_.insert(bytes_.end(), begin, begin + text.size());
    return *this;
  }
  std::vector<std::byte> Take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

/// Reads beyond the end give zeros and empty texts, and Finish says so.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <typename T>
  T Number() {
    const std::span<const std::byte> bytes = Next(sizeof(T));
    return bytes.empty() ? T{0} : LoadLittle<T>(bytes.data());
  }
  std::string Text(size_t bytes) { return TextOf(Next(bytes)); }
  std::string RestAsText() { return Text(rest_.size()); }
  std::string RestAsHandle() {
    const std::span<const std::byte> bytes = Next(rest_.size());
    if (bytes.size() > kMaxHandleBytes) too_long_ = true;
    return too_long_ ? "" : std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  Status Finish(const char* what) const {
    if (!short_ && !too_long_ && rest_.empty()) return OkStatus();
    return InvalidArgument("%s is too %s", what, short_ ? "short" : "long");
  }

 private:
  std::span<const std::byte> Next(size_t bytes) {
    if (bytes > rest_.size()) {
      short_ = true;
      return {};
    }
    const std::span<const std::byte> next = rest_.first(bytes);
    rest_ = rest_.subspan(bytes);
    return next;
  }

  std::span<const std::byte> rest_;
  bool short_ = false, too_long_ = false;
};

}  // namespace

std::vector<std::byte> Encode(const CopyOffer& offer) {
  const bool has_handle = !offer.handle.empty();
  return Writer()
      .Number(static_cast<uint32_t>(offer.device.size()))
      .Text(offer.device)
      .Number<uint8_t>(has_handle)
      .Text(has_handle ? offer.handle : offer.why_not)
      .Take();
}

StatusOr<CopyOffer> DecodeOffer(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  CopyOffer offer;
  offer.device = reader.Text(reader.Number<uint32_t>());
  const uint8_t has_handle = reader.Number<uint8_t>();
  if (has_handle != 0) {
    offer.handle = reader.RestAsHandle();
  } else {
    offer.why_not = reader.RestAsText();
  }
  HP_RETURN_IF_ERROR(reader.Finish("an OFFER"));
  if (has_handle > 1) return InvalidArgument("an OFFER of kind %d", has_handle);
  return offer;
}

std::vector<std::byte> Encode(const CopyRegion& region) {
  return Writer().Number(region.region).Number(region.bytes).Text(region.handle).Take();
}

StatusOr<CopyRegion> DecodeRegion(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  CopyRegion region;
  region.region = reader.Number<uint32_t>();
  region.bytes = reader.Number<uint64_t>();
  region.handle = reader.RestAsHandle();
  HP_RETURN_IF_ERROR(reader.Finish("a REGION"));
  return region;
}

std::vector<std::byte> Encode(const CopyGrant& grant) {
  return Writer()
      .Number(grant.grant.index)
      .Number(grant.grant.generation)
      .Number(grant.tag.msg_id)
      .Number(grant.tag.channel)
      .Number(grant.region)
      .Number(grant.offset)
      .Number(grant.bytes)
      .Take();
}

StatusOr<CopyGrant> DecodeGrant(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  CopyGrant grant;
  grant.grant.index = reader.Number<uint32_t>();
  grant.grant.generation = reader.Number<uint32_t>();
  grant.tag.msg_id = reader.Number<uint64_t>();
  grant.tag.channel = reader.Number<uint32_t>();
  grant.region = reader.Number<uint32_t>();
  grant.offset = reader.Number<uint64_t>();
  grant.bytes = reader.Number<uint64_t>();
  HP_RETURN_IF_ERROR(reader.Finish("a GRANT"));
  return grant;
}

std::vector<std::byte> Encode(RemoteGrant grant) {
  return Writer().Number(grant.index).Number(grant.generation).Take();
}

StatusOr<RemoteGrant> DecodeSlot(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  RemoteGrant grant;
  grant.index = reader.Number<uint32_t>();
  grant.generation = reader.Number<uint32_t>();
  HP_RETURN_IF_ERROR(reader.Finish("an ARRIVED or CANCEL"));
  return grant;
}

std::vector<std::byte> Encode(const std::string& text) { return Writer().Text(text).Take(); }

std::string DecodeText(std::span<const std::byte> bytes) { return TextOf(bytes); }

}  // namespace hp
