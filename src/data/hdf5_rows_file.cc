// The library is held for one call at a time, since readers of other files use it meanwhile.
#include "data/hdf5_rows_file.h"

#include "hdf5/hdf5_handle.h"
#include "hdf5/hdf5_rows.h"
#include <unistd.h>

#include <cstdio>
#include <deque>
#include <optional>

namespace hp {

#ifdef HP_WITH_HDF5

namespace {

class RowsFile final : public Hdf5RowsFile {
 public:
  RowsFile(const Hdf5Api& api, const std::string& path, std::vector<Set> sets, int64_t rows)
      : api_(api), path_(path), temporary_(path + ".tmp"), sets_(std::move(sets)), rows_(rows) {}

  ~RowsFile() override {
    const Hdf5Lock lock;
    open_.clear();
    file_.reset();
    if (!finished_) unlink(temporary_.c_str());
  }

  /// Under an Hdf5Lock.
  Status Open() {
    file_.emplace(api_.create_file(temporary_.c_str(), 0x0002u, 0, 0), api_.close_file);  // H5F_ACC_TRUNC
    if (!file_->ok()) return Error();
    for (const Set& set : sets_) {
      const std::vector<hsize_t> dims = DimsOf(set);
      const Hdf5Handle space(api_.create_space(static_cast<int>(dims.size()), dims.data(), nullptr), api_.close_space);
      if (!space.ok()) return Error();
      open_.emplace_back(
          api_.create_dataset(file_->id(), set.name.c_str(), api_.native_float, space.id(), 0, api_.untimed, 0),
          api_.close_dataset);
      if (!open_.back().ok()) return Error();
    }
    return OkStatus();
  }

  Status Put(size_t set, int64_t first_row, std::span<const float> values) override {
    const int64_t count = std::ssize(values) / sets_[set].row.count();
    const Hdf5Lock lock;
    const std::vector<hsize_t> dims = DimsOf(sets_[set]);
    return WriteHdf5Rows(api_, open_[set].id(), dims, first_row, count, values.data()) ? OkStatus() : Error();
  }

  Status Finish() override {
    const Hdf5Lock lock;
    bool closed = true;
    for (Hdf5Handle& set : open_) closed &= set.Close();
    if (!closed || !file_->Close() || rename(temporary_.c_str(), path_.c_str()) != 0) return Error();
    finished_ = true;
    return OkStatus();
  }

 private:
  std::vector<hsize_t> DimsOf(const Set& set) const {
    std::vector<hsize_t> dims = {static_cast<hsize_t>(rows_)};
    dims.insert(dims.end(), set.row.dims().begin(), set.row.dims().end());
    return dims;
  }
  Status Error() const { return Hdf5WriteError(path_); }

  const Hdf5Api& api_;
  const std::string path_, temporary_;
  const std::vector<Set> sets_;
  const int64_t rows_;
  std::optional<Hdf5Handle> file_;
  std::deque<Hdf5Handle> open_;  // by set
  bool finished_ = false;
};

}  // namespace

StatusOr<std::unique_ptr<Hdf5RowsFile>> Hdf5RowsFile::Create(const std::string& path, std::vector<Set> sets,
                                                             int64_t rows) {
  std::unique_ptr<RowsFile> file;  // its end takes the lock
  const Hdf5Lock lock;
  HP_ASSIGN_OR_RETURN(const Hdf5Api* const api, lock.api());
  auto made = std::make_unique<RowsFile>(*api, path, std::move(sets), rows);
  const Status opened = made->Open();
  file = std::move(made);
  if (!opened.ok()) return opened;
  return std::unique_ptr<Hdf5RowsFile>(std::move(file));
}

#else

StatusOr<std::unique_ptr<Hdf5RowsFile>> Hdf5RowsFile::Create(const std::string&, std::vector<Set>, int64_t) {
  return CheckHdf5();
}

#endif

}  // namespace hp
