#include "data/lmdb_pages.h"

#include "base/format.h"
#include "data/lmdb_format.h"

#include <bit>

namespace hp {
namespace {

using lmdb_format::At;
using lmdb_format::Meta;
using lmdb_format::NodeHeader;
using lmdb_format::PageHeader;

constexpr size_t kMetaBytes = sizeof(PageHeader) + sizeof(Meta);

unsigned long long Wide(uint64_t number) { return number; }  // for printf

Status NoLmdb(const LmdbFile& file, int page, const std::string& why) {
  return DataLoss("database %s is truncated or not an LMDB database: meta page %d %s", file.name.c_str(), page,
                  why.c_str());
}

StatusOr<Meta> ReadMetaPage(const LmdbFile& file, int page, uint64_t offset) {
  if (file.bytes < kMetaBytes || offset > file.bytes - kMetaBytes) {
    return NoLmdb(file, page, Format("is missing: the file has %llu bytes", Wide(file.bytes)));
  }
  std::string bytes(kMetaBytes, '\0');
  HP_RETURN_IF_ERROR(file.read(offset, bytes.size(), bytes.data()));
  const auto header = At<PageHeader>(bytes, 0);
  const auto meta = At<Meta>(bytes, sizeof(header));
  if (meta.magic != lmdb_format::kMagic) {
    return NoLmdb(file, page, Format("has the magic number 0x%08x, expected 0x%08x", meta.magic, lmdb_format::kMagic));
  }
  if (meta.version != lmdb_format::kVersion) {
    return InvalidArgument("database %s has version %u of LMDB's format, expected %u", file.name.c_str(), meta.version,
                           lmdb_format::kVersion);
  }
  if (header.number != static_cast<uint64_t>(page) || (header.flags & lmdb_format::kMetaPage) == 0) {
    return NoLmdb(file, page, Format("has number %llu and flags 0x%x", Wide(header.number), header.flags));
  }
  const uint32_t size = meta.free_pages.page_bytes;
  if (!std::has_single_bit(size) || size < lmdb_format::kMinPageBytes || size > lmdb_format::kMaxPageBytes) {
    return NoLmdb(file, page, Format("says that pages have %u bytes", size));
  }
  return meta;
}

Status CheckTree(const LmdbFile& file, int page, const Meta& meta) {
  if (meta.last_page < lmdb_format::kMetaPages - 1 || meta.last_page >= lmdb_format::kMaxPages) {
    return NoLmdb(file, page, Format("says that the last page is %llu", Wide(meta.last_page)));
  }
  const auto& tree = meta.main;
  if (tree.flags != 0) {
    return InvalidArgument(
        "database %s has duplicate keys or keys in an order of its own (flags 0x%x), which Caffe's databases never "
        "have",
        file.name.c_str(), tree.flags);
  }
  const bool empty = tree.root == lmdb_format::kNoPage;
  if (tree.depth > lmdb_format::kMaxDepth || empty != (tree.depth == 0) || empty != (tree.records == 0)) {
    return NoLmdb(file, page,
                  Format("says that %llu records are in a tree of depth %u from page %llu on", Wide(tree.records),
                         tree.depth, Wide(tree.root)));
  }
  return OkStatus();
}

// What has to stand in front of a record's value, and where. An overflow run begins with its header, and no value in a
// leaf page lies where that would end.
struct Front {
  uint64_t offset = 0;  // in the file
  size_t bytes = 0;
  bool run = false;
};

Front FrontOf(const LmdbMeta& meta, std::string_view key, Extent value) {
  const bool run = value.offset % meta.page_bytes == sizeof(PageHeader);
  const size_t bytes = run ? sizeof(PageHeader) : sizeof(NodeHeader) + key.size();
  return {value.offset - bytes, bytes, run};
}

bool Fits(const LmdbMeta& meta, const Front& front, std::string_view found, std::string_view key, Extent value) {
  if (front.run) {
    const auto header = At<PageHeader>(found, 0);
    return header.number == front.offset / meta.page_bytes && header.flags == lmdb_format::kOverflowPage &&
           header.run_pages() >= lmdb_format::RunPages(value.bytes, meta.page_bytes);
  }
  const auto node = At<NodeHeader>(found, 0);
  return node.flags == 0 && node.value_bytes() == value.bytes && node.key_bytes == key.size() &&
         found.substr(sizeof(node)) == key;
}

}  // namespace

StatusOr<LmdbMeta> ReadLmdbMeta(const LmdbFile& file) {
  HP_ASSIGN_OR_RETURN(const Meta first, ReadMetaPage(file, 0, 0));
  HP_ASSIGN_OR_RETURN(const Meta second, ReadMetaPage(file, 1, first.free_pages.page_bytes));
  if (second.free_pages.page_bytes != first.free_pages.page_bytes) {
    return NoLmdb(file, 1,
                  Format("says that pages have %u bytes, meta page 0 says %u", second.free_pages.page_bytes,
                         first.free_pages.page_bytes));
  }
  const int chosen = first.transaction < second.transaction ? 1 : 0;
  const Meta& meta = chosen == 1 ? second : first;
  HP_RETURN_IF_ERROR(CheckTree(file, chosen, meta));
  return LmdbMeta{.page_bytes = meta.free_pages.page_bytes,
                  .pages = meta.last_page + 1,
                  .transaction = meta.transaction,
                  .records = meta.main.records,
                  .root = meta.main.root,
                  .depth = meta.main.depth};
}

Status ReadLmdbRecord(const LmdbFile& file, const LmdbMeta& meta, std::string_view key, Extent value,
                      std::string* bytes) {
  const Front front = FrontOf(meta, key, value);
  if (value.offset < front.bytes || value.offset > file.bytes || value.bytes > file.bytes - value.offset) {
    return DataLoss("database %s has %llu bytes and no value of %llu at byte %llu", file.name.c_str(), Wide(file.bytes),
                    Wide(value.bytes), Wide(value.offset));
  }
  std::string found(front.bytes, '\0');
  HP_RETURN_IF_ERROR(file.read(front.offset, found.size(), found.data()));
  if (!Fits(meta, front, found, key, value)) {
    return DataLoss("database %s is corrupt: page %llu no longer holds a value of %llu bytes at byte %llu",
                    file.name.c_str(), Wide(front.offset / meta.page_bytes), Wide(value.bytes),
                    Wide(value.offset % meta.page_bytes));
  }
  bytes->resize(value.bytes);
  return value.bytes == 0 ? OkStatus() : file.read(value.offset, value.bytes, bytes->data());
}

}  // namespace hp
