#include "hdf5/hdf5_rows.h"

#include "hdf5/hdf5_handle.h"

#ifdef HP_WITH_HDF5

#include <cerrno>
#include <cstring>

namespace hp {
namespace {

/// The rows as they lie in memory, and their selection in the dataset.
struct Slab {
  Slab(const Hdf5Api& api, hid_t set, const std::vector<hsize_t>& dims, int64_t first, int64_t count)
      : memory(Space(api, dims, count), api.close_space), selected(api.space_of(set), api.close_space) {
    std::vector<hsize_t> start(dims.size(), 0), extent = dims;
    start[0] = static_cast<hsize_t>(first);
    extent[0] = static_cast<hsize_t>(count);
    ok = memory.ok() && selected.ok() &&
         api.select(selected.id(), H5S_SELECT_SET, start.data(), nullptr, extent.data(), nullptr) >= 0;
  }
  static hid_t Space(const Hdf5Api& api, std::vector<hsize_t> dims, int64_t count) {
    dims[0] = static_cast<hsize_t>(count);
    return api.create_space(static_cast<int>(dims.size()), dims.data(), nullptr);
  }

  const Hdf5Handle memory, selected;
  bool ok = false;
};

}  // namespace

bool ReadHdf5Rows(const Hdf5Api& api, hid_t set, const std::vector<hsize_t>& dims, int64_t first, int64_t count,
                  hid_t type, void* out) {
  const Slab slab(api, set, dims, first, count);
  return slab.ok && api.read(set, type, slab.memory.id(), slab.selected.id(), 0, out) >= 0;
}

bool WriteHdf5Rows(const Hdf5Api& api, hid_t set, const std::vector<hsize_t>& dims, int64_t first, int64_t count,
                   const float* values) {
  const Slab slab(api, set, dims, first, count);
  return slab.ok && api.write(set, api.native_float, slab.memory.id(), slab.selected.id(), 0, values) >= 0;
}

Status Hdf5WriteError(const std::string& path) {
  if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)
    return ResourceExhausted("%s: cannot write: %s", path.c_str(), strerror(errno));
  return InvalidArgument("%s: cannot write: %s", path.c_str(), errno == 0 ? "HDF5 error" : strerror(errno));
}

}  // namespace hp

#endif
