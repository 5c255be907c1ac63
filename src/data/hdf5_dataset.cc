// The library is asked for one row at a time, by a hyperslab: files may be larger than memory, and a shuffled order
// visits all of them. Some files stay open, those that were used last.
#include "data/hdf5_dataset.h"

#include "base/format.h"
#include "base/hash.h"
#include "base/input_file.h"
#include "proto/caffe.pb.h"

#include "hdf5/hdf5_handle.h"
#include "hdf5/hdf5_rows.h"
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

namespace hp {

#ifdef HP_WITH_HDF5

namespace {

constexpr size_t kMostOpenFiles = 16;
constexpr int64_t kNumbersAtATime = 1 << 16;
constexpr std::string_view kBlanksOfHdf5List = " \t\r";

std::string RowText(const Shape& row) { return row.rank() == 0 ? "one number" : "[" + row.ToString() + "]"; }

constexpr char kSignature[] = "\x89HDF";

/// The files that a line names: one, whose name may have blanks, or several with blanks between them, as Caffe reads
/// it.
std::vector<std::string> FilesOfLine(std::string_view line) {
  std::vector<std::string> words;
  std::istringstream text{std::string(line)};
  for (std::string word; text >> word;) words.push_back(word);
  std::error_code error;
  const bool several =
      words.size() > 1 && !std::filesystem::exists(line, error) && std::filesystem::exists(words[0], error);
  if (!several && !words.empty()) words = {std::string(line)};
  return words;
}

}  // namespace

/// A dataset of an open file, or none. Under an Hdf5Lock, as all here.
class Hdf5Dataset::Rows {
 public:
  Rows(const Hdf5Api& api, hid_t file, const std::string& name)
      : api_(api), set_(file < 0 || name.empty() ? -1 : api.open_dataset(file, name.c_str(), 0), api.close_dataset) {
    const Hdf5Handle space(set_.ok() ? api.space_of(set_.id()) : -1, api.close_space);
    const int rank = space.ok() ? api.rank(space.id()) : 0;
    dims_.resize(static_cast<size_t>(std::max(rank, 0)));
    if (!dims_.empty()) api.dims(space.id(), dims_.data(), nullptr);
  }

  bool ok() const { return set_.ok(); }
  const std::vector<hsize_t>& dims() const { return dims_; }  ///< [rows, ...]; empty: a scalar
  /// Reads rows [first, first + count) as values of `type`. @return false: the library cannot.
  bool Read(int64_t first, int64_t count, hid_t type, void* out) const {
    return ReadHdf5Rows(api_, set_.id(), dims_, first, count, type, out);
  }
  std::string ShapeText() const {
    std::string text;
    for (const hsize_t dim : dims_) text += Format("%s%llu", text.empty() ? "" : " ", (unsigned long long)dim);
    return text;
  }

 private:
  const Hdf5Api& api_;
  const Hdf5Handle set_;
  std::vector<hsize_t> dims_;
};

class Hdf5Dataset::OpenFile {
 public:
  OpenFile(const Hdf5Api& api, size_t number, const std::string& path, const std::vector<Top>& tops)
      : api(api), number(number), file(api.open_file(path.c_str(), 0x0000u, 0), api.close_file) {  // H5F_ACC_RDONLY
    for (const Top& top : tops) sets.push_back(std::make_unique<Rows>(api, file.id(), top.name));
  }

  const Hdf5Api& api;
  const size_t number;  // in the list
  const Hdf5Handle file;
  std::vector<std::unique_ptr<Rows>> sets;  // by top
};

StatusOr<std::unique_ptr<Dataset>> Hdf5Dataset::Open(const std::string& list, const std::vector<std::string>& tops,
                                                     const DatasetOptions& options) {
  return Opened(OpenAll(list, tops), options);
}

Hdf5Dataset::Hdf5Dataset(const std::string& list, const std::vector<std::string>& tops) : DatumDataset(list) {
  for (const std::string& name : tops) tops_.push_back({name, {}, {}});
}

Hdf5Dataset::~Hdf5Dataset() {
  const Hdf5Lock lock;
  open_.clear();
}

StatusOr<std::unique_ptr<Dataset>> Hdf5Dataset::OpenAll(const std::string& list, const std::vector<std::string>& tops) {
  HP_RETURN_IF_ERROR(CheckHdf5());
  const StatusOr<std::string> read = ReadInputFile(list);
  if (!read.ok()) return read.status().Prepend("list of HDF5 files");
  if (read->starts_with(kSignature)) {
    return InvalidArgument("%s is an HDF5 file; expected a list of such files", list.c_str());
  }
  auto dataset = std::unique_ptr<Hdf5Dataset>(new Hdf5Dataset(list, tops));
  std::string_view rest = *read;
  for (int line = 1; !rest.empty(); ++line) {
    std::string_view path = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(path.size() + 1, rest.size()));
    path = path.substr(0, path.find_last_not_of(kBlanksOfHdf5List) + 1);
    path.remove_prefix(std::min(path.find_first_not_of(kBlanksOfHdf5List), path.size()));
    for (const std::string& file : FilesOfLine(path)) {
      HP_RETURN_IF_ERROR(dataset->AddFile({file, line, dataset->size_, {}}));
    }
  }
  if (dataset->files_.empty()) return InvalidArgument("list of HDF5 files %s has no lines", list.c_str());
  return std::unique_ptr<Dataset>(std::move(dataset));
}

Status Hdf5Dataset::AddFile(File file) {
  // What the library says of a missing file is no Status.
  const StatusOr<int> fd = OpenInputFile(file.path);
  if (!fd.ok()) return fd.status().Prepend(Format("%s:%d", source().c_str(), file.line));
  file.identity = IdentityOf(*fd).value_or(FileIdentity{});
  close(*fd);
  const Hdf5Lock lock;
  HP_ASSIGN_OR_RETURN(const Hdf5Api* api, lock.api());
  const OpenFile open(*api, files_.size(), file.path, tops_);
  if (!open.file.ok()) return DataLoss("%s: no HDF5 file, or a truncated one", Where(file).c_str());
  int64_t rows = 0;
  for (int top = 0; top < tops(); ++top) HP_RETURN_IF_ERROR(TakeTop(open, file, top, &rows));
  files_.push_back(std::move(file));
  size_ += rows;
  return OkStatus();
}

std::string Hdf5Dataset::NameOf(const File& file, int top) const {
  return Where(file) + ": dataset \"" + tops_[top].name + "\"";
}

// The first top says how many rows a file has.
StatusOr<Shape> Hdf5Dataset::RowShape(const Rows& set, const File& file, int top, int64_t* rows) const {
  const std::string name = NameOf(file, top);
  if (!set.ok()) return InvalidArgument("%s is not there; it is named as the layer's top %d", name.c_str(), top);
  const std::vector<hsize_t>& dims = set.dims();
  if (!dims.empty() && dims[0] > static_cast<hsize_t>(Shape::kMaxDim)) {
    return InvalidArgument("%s has %llu rows; expected at most %lld", name.c_str(),
                           static_cast<unsigned long long>(dims[0]), static_cast<long long>(Shape::kMaxDim));
  }
  const bool fits = !dims.empty() && dims.size() <= 4 && std::all_of(dims.begin(), dims.end(), [](hsize_t dim) {
    return dim >= 1 && dim <= static_cast<hsize_t>(Shape::kMaxDim);
  });
  if (!fits) {
    return InvalidArgument("%s has the shape [%s]; expected [rows] and up to three dims behind", name.c_str(),
                           set.ShapeText().c_str());
  }
  const auto own_rows = static_cast<int64_t>(dims[0]);
  if (top == 0) *rows = own_rows;
  if (own_rows != *rows) {
    return InvalidArgument("%s has the shape [%s]; expected [%lld] or [%lld, ...], as many rows as \"%s\"",
                           name.c_str(), set.ShapeText().c_str(), static_cast<long long>(*rows),
                           static_cast<long long>(*rows), tops_[0].name.c_str());
  }
  const Shape whole(std::vector<int64_t>(dims.begin(), dims.end()));
  const Shape row(std::vector<int64_t>(whole.dims().begin() + 1, whole.dims().end()));
  if (!row.InBounds() || row.count() > kMostDatumFloats)
    return InvalidArgument("%s: rows of [%s] are too large", name.c_str(), row.ToString().c_str());
  return row;
}

Status Hdf5Dataset::TakeTop(const OpenFile& open, const File& file, int top, int64_t* rows) {
  HP_ASSIGN_OR_RETURN(const Shape row, RowShape(*open.sets[top], file, top, rows));
  Shape& expected = tops_[top].shape;
  if (files_.empty()) expected = row;
  if (row != expected && !(row.count() == 1 && expected.count() == 1)) {
    return InvalidArgument("%s has rows of %s; expected %s, as in %s", NameOf(file, top).c_str(), RowText(row).c_str(),
                           RowText(expected).c_str(), files_[0].path.c_str());
  }
  return top > 0 && row.count() == 1 ? ReadNumbers(open, file, top, *rows) : OkStatus();
}

Status Hdf5Dataset::ReadNumbers(const OpenFile& open, const File& file, int top, int64_t rows) {
  std::vector<float> some;
  for (int64_t row = 0; row < rows; row += static_cast<int64_t>(some.size())) {
    some.resize(static_cast<size_t>(std::min(kNumbersAtATime, rows - row)));
    if (!open.sets[top]->Read(row, static_cast<int64_t>(some.size()), open.api.native_float, some.data()))
      return DataLoss("%s cannot be read: no numbers, or damaged", NameOf(file, top).c_str());
    std::vector<float>& numbers = tops_[top].numbers;
    numbers.insert(numbers.end(), some.begin(), some.end());
  }
  return OkStatus();
}

std::string Hdf5Dataset::Where(const File& file) const {
  return Format("%s:%d: %s", source().c_str(), file.line, Printable(file.path).c_str());
}

size_t Hdf5Dataset::FileOf(int64_t record) const {
  const auto after = std::upper_bound(files_.begin(), files_.end(), record,
                                      [](int64_t row, const File& file) { return row < file.first_row; });
  return static_cast<size_t>(after - files_.begin()) - 1;
}

std::string Hdf5Dataset::Describe(int64_t record) const {
  const File& file = files_[FileOf(record)];
  return Format("%s: row %lld", Where(file).c_str(), static_cast<long long>(record - file.first_row));
}

Status Hdf5Dataset::CheckFile(const File& file) const {
  if (IdentityOf(file.path) == file.identity) return OkStatus();
  return FailedPrecondition("%s was replaced or changed while it was being read", Where(file).c_str());
}

Status Hdf5Dataset::CheckUnchanged() {
  for (const File& file : files_) HP_RETURN_IF_ERROR(CheckFile(file));
  return OkStatus();
}

StatusOr<Hdf5Dataset::OpenFile*> Hdf5Dataset::Use(size_t file) {
  const auto found = std::find_if(open_.begin(), open_.end(), [&](const auto& open) { return open->number == file; });
  if (found != open_.end()) {
    std::rotate(found, found + 1, open_.end());
    return open_.back().get();
  }
  HP_RETURN_IF_ERROR(CheckFile(files_[file]));
  HP_ASSIGN_OR_RETURN(const Hdf5Api* api, LoadHdf5());
  if (open_.size() == kMostOpenFiles) open_.erase(open_.begin());
  auto open = std::make_unique<OpenFile>(*api, file, files_[file].path, tops_);
  if (!std::all_of(open->sets.begin(), open->sets.end(), [](const auto& set) { return set->ok(); }))
    return DataLoss("%s: cannot be opened again", Where(files_[file]).c_str());
  open_.push_back(std::move(open));
  return open_.back().get();
}

Status Hdf5Dataset::ReadDatum(int64_t record, caffe::Datum* datum) {
  const Shape& row = tops_[0].shape;
  datum->Clear();
  datum->set_channels(static_cast<int>(row.dim(0)));
  datum->set_height(static_cast<int>(row.dim(1)));
  datum->set_width(static_cast<int>(row.dim(2)));
  datum->mutable_float_data()->Resize(static_cast<int>(row.count()), 0);
  return ReadRow(record, 0, datum->mutable_float_data()->mutable_data());
}

uint64_t Hdf5Dataset::IndexHash() const {
  uint64_t hash = 0;
  for (const Top& top : tops_) {
    if (top.numbers.empty()) continue;
    hash =
        hash * 31 + HashBytes({reinterpret_cast<const char*>(top.numbers.data()), top.numbers.size() * sizeof(float)});
  }
  return hash;
}

Status Hdf5Dataset::ReadTop(int64_t record, int top, const caffe::Datum&, float* values) {
  if (top >= tops()) {
    *values = 0;
    return OkStatus();
  }
  if (tops_[top].shape.count() > 1) return ReadRow(record, top, values);
  *values = tops_[top].numbers[record];
  return OkStatus();
}

Status Hdf5Dataset::ReadRow(int64_t record, int top, float* out) {
  const size_t file = FileOf(record);
  const Hdf5Lock lock;
  HP_ASSIGN_OR_RETURN(const OpenFile* open, Use(file));
  if (open->sets[top]->Read(record - files_[file].first_row, 1, open->api.native_float, out)) return OkStatus();
  HP_RETURN_IF_ERROR(CheckFile(files_[file]));  // the cause, if there is one
  return DataLoss("%s: cannot be read: no numbers, or damaged", Describe(record).c_str());
}

#else

StatusOr<std::unique_ptr<Dataset>> Hdf5Dataset::Open(const std::string&, const std::vector<std::string>&,
                                                     const DatasetOptions& options) {
  return Opened(CheckHdf5(), options);
}

#endif

}  // namespace hp
