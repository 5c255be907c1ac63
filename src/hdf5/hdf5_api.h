#pragma once

#include "hp/status.h"

#include <string>

#ifdef HP_WITH_HDF5
#include <hdf5.h>
#endif

namespace hp {

#ifdef HP_WITH_HDF5

/// The functions of libhdf5 that we call, found in the library when a file of it is first read or written: most jobs
/// have none, and the library brings thirty others with it, which programs need not load nor bundles carry. Not
/// thread-safe, as some builds of the library: Hdf5Lock (hdf5_handle.h).
struct Hdf5Api {
  decltype(&::H5open) open = nullptr;
  decltype(&::H5Eset_auto2) set_auto = nullptr;
  decltype(&::H5Fcreate) create_file = nullptr;
  decltype(&::H5Fopen) open_file = nullptr;
  decltype(&::H5Fclose) close_file = nullptr;
  decltype(&::H5Gcreate2) create_group = nullptr;
  decltype(&::H5Gopen2) open_group = nullptr;
  decltype(&::H5Gclose) close_group = nullptr;
  decltype(&::H5Gget_info) group_info = nullptr;
  decltype(&::H5Lget_name_by_idx) link_name = nullptr;
  decltype(&::H5Screate_simple) create_space = nullptr;
  decltype(&::H5Sclose) close_space = nullptr;
  decltype(&::H5Sselect_hyperslab) select = nullptr;
  decltype(&::H5Sget_simple_extent_ndims) rank = nullptr;
  decltype(&::H5Sget_simple_extent_dims) dims = nullptr;
  decltype(&::H5Sget_simple_extent_npoints) points = nullptr;
  decltype(&::H5Dcreate2) create_dataset = nullptr;
  decltype(&::H5Dopen2) open_dataset = nullptr;
  decltype(&::H5Dclose) close_dataset = nullptr;
  decltype(&::H5Dwrite) write = nullptr;
  decltype(&::H5Dread) read = nullptr;
  decltype(&::H5Dget_space) space_of = nullptr;
  decltype(&::H5Dget_type) type_of = nullptr;
  decltype(&::H5Tcopy) copy_type = nullptr;
  decltype(&::H5Tclose) close_type = nullptr;
  decltype(&::H5Tset_size) set_size = nullptr;
  decltype(&::H5Tget_size) size_of = nullptr;
  decltype(&::H5Tget_class) class_of = nullptr;
  decltype(&::H5Tis_variable_str) has_variable_size = nullptr;
  decltype(&::H5Pcreate) create_properties = nullptr;
  decltype(&::H5Pset_obj_track_times) track_times = nullptr;
  hid_t native_float = -1, native_double = -1, native_int = -1, c_string = -1;  ///< types
  hid_t untimed = -1;  ///< properties of a dataset without times: what is written twice has the same bytes
};

/// @return the library's functions, for the whole life of the process; kFailedPrecondition: this host does not have the
/// library, or another version. Any thread.
StatusOr<const Hdf5Api*> LoadHdf5();

#endif

/// Whether this program can read and write HDF5 files where the library is. @return as LoadHdf5, or
/// kFailedPrecondition: it was built without.
Status CheckHdf5();

}  // namespace hp
