#pragma once

#include "hp/status.h"

#include "hdf5/hdf5_api.h"

#ifdef HP_WITH_HDF5

#include <cstdint>
#include <string>
#include <vector>

namespace hp {

// Some rows, along the first axis, of a dataset. Under an Hdf5Lock.

/// Reads rows [first, first + count) as values of `type`. @param dims of the dataset, at least one.
/// @return false: the library cannot.
bool ReadHdf5Rows(const Hdf5Api& api, hid_t set, const std::vector<hsize_t>& dims, int64_t first, int64_t count,
                  hid_t type, void* out);
/// Writes float32 values there, likewise.
bool WriteHdf5Rows(const Hdf5Api& api, hid_t set, const std::vector<hsize_t>& dims, int64_t first, int64_t count,
                   const float* values);

/// What to say of a file whose writing has just failed, by errno, which was 0 before.
/// @return kResourceExhausted: no space; kInvalidArgument: another error of the disk, or the library's.
Status Hdf5WriteError(const std::string& path);

}  // namespace hp

#endif
