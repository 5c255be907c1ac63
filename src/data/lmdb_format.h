#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

/// The bytes of a data.mdb, as liblmdb 0.9 writes them on little-endian 64-bit hosts (the structs of its mdb.c). Pages
/// 0 and 1 are meta pages, each written by every second transaction; the one with the greater transaction counts. It
/// names the root of a B+ tree: branch pages of keys and page numbers, leaf pages of records. Both kinds hold the
/// offsets of their nodes after the header, up to `lower`, and the nodes from `upper` on to the end of the page. A
/// value that is too long for a leaf lies in an overflow run, pages in a row with one header.
namespace hp::lmdb_format {

constexpr uint32_t kMagic = 0xBEEFC0DE, kVersion = 1;
constexpr uint32_t kMinPageBytes = 512, kMaxPageBytes = 32768;  // powers of 2; that of the host that wrote the file
constexpr uint64_t kMetaPages = 2;
constexpr uint64_t kMaxPages = uint64_t{1} << 48;  // branch nodes have 48 bits for a page number
constexpr int kMaxDepth = 32;
constexpr uint64_t kNoPage = ~uint64_t{0};      // the root of an empty tree
constexpr uint64_t kMaxValueBytes = INT32_MAX;  // of a message of protobuf's, so of a Datum

enum PageFlags : uint16_t { kBranchPage = 1, kLeafPage = 2, kOverflowPage = 4, kMetaPage = 8 };
enum NodeFlags : uint16_t { kOverflowValue = 1, kSubDatabase = 2, kDuplicates = 4 };

struct PageHeader {
  uint64_t number;
  uint16_t unused, flags;
  uint16_t lower, upper;  // bytes of the page

  uint32_t run_pages() const { return lower | uint32_t{upper} << 16; }  // of an overflow run, instead of the two
};

struct NodeHeader {
  uint16_t low, high;
  uint16_t flags, key_bytes;  // the key follows, then on a leaf page the value or the page of its overflow run

  uint64_t value_bytes() const { return low | uint32_t{high} << 16; }                    // on a leaf page
  uint64_t child() const { return low | uint64_t{high} << 16 | uint64_t{flags} << 32; }  // on a branch page
};

struct Tree {
  uint32_t page_bytes;  // in the tree of free pages only
  uint16_t flags, depth;
  uint64_t branch_pages, leaf_pages, overflow_pages, records, root;
};

struct Meta {
  uint32_t magic, version;
  uint64_t address, map_bytes;
  Tree free_pages, main;
  uint64_t last_page, transaction;
};

static_assert(sizeof(PageHeader) == 16 && sizeof(NodeHeader) == 8 && sizeof(Meta) == 136);

/// @return the T at `offset`, of any alignment; it must lie within `bytes`.
template <typename T>
T At(std::string_view bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

/// Pages of the overflow run of a value.
inline uint64_t RunPages(uint64_t value_bytes, uint32_t page_bytes) {
  return (sizeof(PageHeader) + value_bytes + page_bytes - 1) / page_bytes;
}

}  // namespace hp::lmdb_format
