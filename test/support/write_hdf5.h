#pragma once

#include "hdf5/hdf5_handle.h"

#include <cstdint>
#include <string>
#include <vector>

namespace hp::test {

/// A dataset of a file to be written.
struct Hdf5Set {
  std::string name;
  std::string type;  ///< in the file: "float", "double" or "int"
  std::vector<int64_t> dims;
  std::vector<double> values;  ///< as many as `dims` say
};

/// Writes an HDF5 file. @return kFailedPrecondition: no HDF5 here; kInvalidArgument: the library cannot.
inline Status WriteHdf5(const std::string& path, const std::vector<Hdf5Set>& sets) {
#ifdef HP_WITH_HDF5
  const Hdf5Lock lock;
  HP_ASSIGN_OR_RETURN(const Hdf5Api* api, lock.api());
  Hdf5Handle file(api->create_file(path.c_str(), 0x0002u, 0, 0), api->close_file);
  for (const Hdf5Set& set : sets) {
    const std::vector<hsize_t> dims(set.dims.begin(), set.dims.end());
    const hid_t type = set.type == "int"      ? api->native_int
                       : set.type == "double" ? api->native_double
                                              : api->native_float;
    const Hdf5Handle space(api->create_space(static_cast<int>(dims.size()), dims.data(), nullptr), api->close_space);
    const Hdf5Handle dataset(api->create_dataset(file.id(), set.name.c_str(), type, space.id(), 0, 0, 0),
                             api->close_dataset);
    if (!dataset.ok() || api->write(dataset.id(), api->native_double, 0, 0, 0, set.values.data()) < 0)
      return InvalidArgument("%s: cannot write %s", path.c_str(), set.name.c_str());
  }
  return file.ok() && file.Close() ? OkStatus() : InvalidArgument("%s: cannot write", path.c_str());
#else
  (void)path, (void)sets;
  return CheckHdf5();
#endif
}

}  // namespace hp::test
