// Depth first, in the order of keys. A page that points back to one above it, or two that point to one, end the walk at
// the second visit; a level below the last one, at the kind of its page.
#include "base/format.h"
#include "data/lmdb_format.h"
#include "data/lmdb_pages.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace hp {
namespace {

using lmdb_format::At;
using lmdb_format::NodeHeader;
using lmdb_format::PageHeader;

unsigned long long Printable(uint64_t number) { return number; }

// The pages in use, as runs: their memory is bounded by the tree, whatever numbers a damaged page names.
class PageSet {
 public:
  /// @return false: one of the pages is in it already.
  bool Insert(uint64_t first, uint64_t count) {
    const uint64_t end = first + count;
    auto next = runs_.upper_bound(first);
    if (next != runs_.end() && next->first < end) return false;
    auto run = next == runs_.begin() ? runs_.end() : std::prev(next);
    if (run != runs_.end() && run->second > first) return false;
    if (run == runs_.end() || run->second < first) run = runs_.emplace_hint(next, first, first);
    run->second = end;
    if (next != runs_.end() && next->first == end) {
      run->second = next->second;
      runs_.erase(next);
    }
    return true;
  }

 private:
  std::map<uint64_t, uint64_t> runs_;  // first page, one past the last; none touches another
};

struct LmdbNode {
  NodeHeader header;
  std::string_view key;
  size_t begin = 0, value = 0, end = 0;  // bytes of the page
};

class LmdbWalk {
 public:
  LmdbWalk(const LmdbFile& file, const LmdbMeta& meta, const std::function<void(std::string_view, Extent)>& record)
      : file_(file), meta_(meta), record_(record), levels_(meta.depth) {}

  Status Run() {
    if (meta_.depth > 0) HP_RETURN_IF_ERROR(Visit(meta_.root, 0));
    if (records_ == meta_.records) return OkStatus();
    return DataLoss("database %s is corrupt: its pages hold %llu records, its meta page says %llu", file_.name.c_str(),
                    Printable(records_), Printable(meta_.records));
  }

 private:
  struct Level {
    uint64_t number = 0;
    std::string bytes;
    std::vector<LmdbNode> nodes;
  };

  Status Corrupt(const Level& page, const std::string& why) const {
    return DataLoss("database %s is corrupt: page %llu: %s", file_.name.c_str(), Printable(page.number), why.c_str());
  }

  Status Visit(uint64_t number, int depth) {
    Level& page = levels_[depth];
    page.number = number;
    page.bytes.resize(meta_.page_bytes);
    HP_RETURN_IF_ERROR(Claim(number, 1));
    HP_RETURN_IF_ERROR(file_.read(number * meta_.page_bytes, page.bytes.size(), page.bytes.data()));
    const bool leaf = depth + 1 == meta_.depth;
    HP_RETURN_IF_ERROR(ParseNodes(leaf, &page));
    return leaf ? VisitLeaf(page) : VisitBranch(page, depth);
  }

  // Takes `count` pages into use.
  Status Claim(uint64_t first, uint64_t count) {
    if (first < lmdb_format::kMetaPages || first >= meta_.pages || count > meta_.pages - first) {
      return DataLoss(
          "database %s is corrupt: a page points to %llu pages from page %llu on, expected numbers in [2, %llu)",
          file_.name.c_str(), Printable(count), Printable(first), Printable(meta_.pages));
    }
    if ((first + count) * meta_.page_bytes > file_.bytes) {
      return DataLoss("database %s is truncated: it has %llu bytes, page %llu ends at byte %llu", file_.name.c_str(),
                      Printable(file_.bytes), Printable(first + count - 1),
                      Printable((first + count) * meta_.page_bytes));
    }
    if (used_.Insert(first, count)) return OkStatus();
    return DataLoss("database %s is corrupt: page %llu is used twice", file_.name.c_str(), Printable(first));
  }

  Status ParseNodes(bool leaf, Level* page) {
    const auto header = At<PageHeader>(page->bytes, 0);
    const uint16_t kind = leaf ? lmdb_format::kLeafPage : lmdb_format::kBranchPage;
    if (header.number != page->number || header.flags != kind) {
      return Corrupt(*page, Format("it has number %llu and flags 0x%x, expected 0x%x", Printable(header.number),
                                   header.flags, kind));
    }
    const size_t offsets = header.lower - sizeof(PageHeader);
    if (header.lower < sizeof(PageHeader) || offsets % 2 != 0 || header.lower > header.upper ||
        header.upper > page->bytes.size()) {
      return Corrupt(*page, Format("its free bytes are [%u, %u)", header.lower, header.upper));
    }
    const size_t count = offsets / 2, least = leaf ? 1 : 2;
    if (count < least) return Corrupt(*page, Format("it has %zu nodes, expected at least %zu", count, least));
    page->nodes.clear();
    for (size_t i = 0; i < count; ++i) HP_RETURN_IF_ERROR(ParseNode(leaf, header.upper, i, page));
    return CheckApart(*page);
  }

  Status ParseNode(bool leaf, size_t upper, size_t i, Level* page) const {
    const std::string_view bytes = page->bytes;
    LmdbNode node;
    node.begin = At<uint16_t>(bytes, sizeof(PageHeader) + 2 * i);
    if (node.begin < upper || node.begin % 2 != 0 || node.begin + sizeof(NodeHeader) > bytes.size()) {
      return Corrupt(*page, Format("node %zu begins at byte %zu, expected an even one in [%zu, %zu)", i, node.begin,
                                   upper, bytes.size()));
    }
    node.header = At<NodeHeader>(bytes, node.begin);
    node.value = node.begin + sizeof(NodeHeader) + node.header.key_bytes;
    node.end = node.value;
    if (leaf)
      node.end += node.header.flags == lmdb_format::kOverflowValue ? sizeof(uint64_t) : node.header.value_bytes();
    if (node.end > bytes.size()) {
      return Corrupt(
          *page, Format("node %zu at byte %zu ends %zu bytes after the page", i, node.begin, node.end - bytes.size()));
    }
    node.key = bytes.substr(node.begin + sizeof(NodeHeader), node.header.key_bytes);
    page->nodes.push_back(node);
    return OkStatus();
  }

  Status CheckApart(const Level& page) {
    spans_.clear();
    for (const LmdbNode& node : page.nodes) spans_.emplace_back(node.begin, node.end);
    std::sort(spans_.begin(), spans_.end());
    for (size_t i = 1; i < spans_.size(); ++i) {
      if (spans_[i].first < spans_[i - 1].second) {
        return Corrupt(page, Format("two nodes overlap at byte %zu", spans_[i].first));
      }
    }
    return OkStatus();
  }

  // The key of a node is the least of what is below it, but for the first node, whose key says nothing.
  Status VisitBranch(const Level& page, int depth) {
    for (size_t i = 0; i < page.nodes.size(); ++i) {
      const LmdbNode& node = page.nodes[i];
      if (i > 0) {
        if (node.key <= last_key_) return Corrupt(page, Format("the key of node %zu is not above those before it", i));
        least_key_ = node.key;
      }
      HP_RETURN_IF_ERROR(Visit(node.header.child(), depth + 1));
    }
    return OkStatus();
  }

  Status VisitLeaf(const Level& page) {
    for (size_t i = 0; i < page.nodes.size(); ++i) {
      const LmdbNode& node = page.nodes[i];
      // An empty key is below all others, and LMDB takes none.
      if (node.key <= last_key_ || node.key < least_key_) {
        return Corrupt(page, Format("the key of node %zu is not above those before it", i));
      }
      last_key_ = node.key;
      ++records_;
      HP_RETURN_IF_ERROR(VisitValue(page, i));
    }
    return OkStatus();
  }

  Status VisitValue(const Level& page, size_t i) {
    const LmdbNode& node = page.nodes[i];
    const uint64_t value_bytes = node.header.value_bytes();
    if ((node.header.flags & (lmdb_format::kSubDatabase | lmdb_format::kDuplicates)) != 0) {
      return InvalidArgument("database %s holds databases within it (page %llu, node %zu), which Caffe's never do",
                             file_.name.c_str(), Printable(page.number), i);
    }
    if ((node.header.flags & ~lmdb_format::kOverflowValue) != 0 || value_bytes > lmdb_format::kMaxValueBytes) {
      return Corrupt(page, Format("node %zu has flags 0x%x and a value of %llu bytes", i, node.header.flags,
                                  Printable(value_bytes)));
    }
    uint64_t offset = page.number * meta_.page_bytes + node.value;
    if (node.header.flags == lmdb_format::kOverflowValue) {
      const auto run = At<uint64_t>(page.bytes, node.value);
      HP_RETURN_IF_ERROR(Claim(run, lmdb_format::RunPages(value_bytes, meta_.page_bytes)));
      offset = run * meta_.page_bytes + sizeof(PageHeader);
    }
    record_(node.key, Extent{offset, value_bytes});
    return OkStatus();
  }

  const LmdbFile& file_;
  const LmdbMeta& meta_;
  const std::function<void(std::string_view, Extent)>& record_;
  std::vector<Level> levels_;  // the page that is being visited, and those above it
  PageSet used_;
  std::vector<std::pair<size_t, size_t>> spans_;  // of the nodes of one page
  std::string last_key_, least_key_;              // keys from now on are above the one, and not below the other
  uint64_t records_ = 0;
};

}  // namespace

Status WalkLmdb(const LmdbFile& file, const LmdbMeta& meta,
                const std::function<void(std::string_view key, Extent value)>& record) {
  return LmdbWalk(file, meta, record).Run();
}

}  // namespace hp
