#pragma once

#include "base/shape.h"
#include "hp/status.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace hp {

/// A new HDF5 file of float32 datasets with one row for each sample. It is written as "PATH.tmp" and renamed to PATH,
/// whatever is there, when it is complete; destruction without Finish removes it. One thread at a time.
class Hdf5RowsFile {
 public:
  struct Set {
    std::string name;
    Shape row;
  };
  /// @param rows of each set, all of which must be Put.
  /// @return kFailedPrecondition: CheckHdf5; kInvalidArgument: the file cannot be written.
  static StatusOr<std::unique_ptr<Hdf5RowsFile>> Create(const std::string& path, std::vector<Set> sets, int64_t rows);
  virtual ~Hdf5RowsFile() = default;

  /// @param set its index. @param values of whole rows, the first of which is `first_row`.
  /// @return kResourceExhausted: no disk space left; kInvalidArgument: another error of the disk.
  virtual Status Put(size_t set, int64_t first_row, std::span<const float> values) = 0;
  /// Once, as the last call. @return as Put.
  virtual Status Finish() = 0;
};

}  // namespace hp
