#pragma once

#include "data/index.h"
#include "hp/status.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

// Reads LMDB's files without liblmdb, which trusts every number in them and reads by memory map: a damaged page number
// or a file that shrinks ends its process by SIGSEGV or SIGBUS. Here every number is checked before it is used.
// lmdb_format.h describes the pages. All functions: any thread, if file.read may be called by any.
namespace hp {

/// The contents of a data.mdb, on a disk or in memory.
struct LmdbFile {
  std::string name;    ///< for messages
  uint64_t bytes = 0;  ///< its length
  /// Copies the `count` bytes from `offset` on to `to`. Only called for bytes in [0, LmdbFile::bytes).
  std::function<Status(uint64_t offset, size_t count, char* to)> read;
};

/// The state of a database after its last transaction, from its meta pages.
struct LmdbMeta {
  uint32_t page_bytes = 0;
  uint64_t pages = 0;        ///< numbers of pages in use are below it
  uint64_t transaction = 0;  ///< counts the changes of the database
  uint64_t records = 0;
  uint64_t root = 0;  ///< the page of the tree's root; only if depth > 0
  int depth = 0;      ///< levels of pages from the root to a leaf; 0: no records
};

/// Reads the meta pages and chooses between the two as liblmdb does.
/// @return kDataLoss: truncated, damaged or not an LMDB; kInvalidArgument: an LMDB of a kind that Caffe never writes.
StatusOr<LmdbMeta> ReadLmdbMeta(const LmdbFile& file);

/// Reads all branch and leaf pages once and checks each number in them: pages lie in the file, are of their kind and
/// used once; nodes lie in their page, apart from each other; keys ascend through the whole tree; there are as many
/// records as the meta page says. Calls `record` for each record in the order of keys; the key is valid during the
/// call. Where the value has a page run of its own, its place is checked, but its header only when it is read
/// (ReadLmdbRecord): on a disk that seeks, one header a record would take hours.
/// @return kDataLoss: a damaged page (named); kInvalidArgument: a database of a kind that Caffe never writes; errors of
/// file.read.
Status WalkLmdb(const LmdbFile& file, const LmdbMeta& meta,
                const std::function<void(std::string_view key, Extent value)>& record);

/// Copies a record's value to *bytes. Checks what stands in front of it, so that a file that changed after the walk is
/// found: length and key in a leaf page, number, kind and length of an overflow run.
/// @param key, value as WalkLmdb gave them for this file and `meta`.
/// @return kDataLoss: the page (named) holds something else; errors of file.read.
Status ReadLmdbRecord(const LmdbFile& file, const LmdbMeta& meta, std::string_view key, Extent value,
                      std::string* bytes);

}  // namespace hp
