#include "hdf5/hdf5_api.h"

#ifdef HP_WITH_HDF5
#include <dlfcn.h>
#endif

namespace hp {

#ifdef HP_WITH_HDF5

namespace {

template <typename Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

bool FindId(void* library, const char* name, hid_t* id) {
  const auto* const found = static_cast<const hid_t*>(dlsym(library, name));
  if (found != nullptr) *id = *found;
  return found != nullptr;
}

bool FindFunctions(void* library, Hdf5Api* api) {
  return Find(library, "H5open", &api->open) && Find(library, "H5Eset_auto2", &api->set_auto) &&
         Find(library, "H5Fcreate", &api->create_file) && Find(library, "H5Fopen", &api->open_file) &&
         Find(library, "H5Fclose", &api->close_file) && Find(library, "H5Gcreate2", &api->create_group) &&
         Find(library, "H5Gopen2", &api->open_group) && Find(library, "H5Gclose", &api->close_group) &&
         Find(library, "H5Gget_info", &api->group_info) && Find(library, "H5Lget_name_by_idx", &api->link_name) &&
         Find(library, "H5Screate_simple", &api->create_space) && Find(library, "H5Sclose", &api->close_space) &&
         Find(library, "H5Sselect_hyperslab", &api->select) &&
         Find(library, "H5Sget_simple_extent_ndims", &api->rank) &&
         Find(library, "H5Sget_simple_extent_dims", &api->dims) &&
         Find(library, "H5Sget_simple_extent_npoints", &api->points) &&
         Find(library, "H5Dcreate2", &api->create_dataset) && Find(library, "H5Dopen2", &api->open_dataset) &&
         Find(library, "H5Dclose", &api->close_dataset) && Find(library, "H5Dwrite", &api->write) &&
         Find(library, "H5Dread", &api->read) && Find(library, "H5Dget_space", &api->space_of) &&
         Find(library, "H5Dget_type", &api->type_of) && Find(library, "H5Tcopy", &api->copy_type) &&
         Find(library, "H5Tclose", &api->close_type) && Find(library, "H5Tset_size", &api->set_size) &&
         Find(library, "H5Tget_size", &api->size_of) && Find(library, "H5Tget_class", &api->class_of) &&
         Find(library, "H5Tis_variable_str", &api->has_variable_size) &&
         Find(library, "H5Pcreate", &api->create_properties) &&
         Find(library, "H5Pset_obj_track_times", &api->track_times);
}

bool MakeUntimed(void* library, Hdf5Api* api) {
  hid_t kind = -1;
  if (!FindId(library, "H5P_CLS_DATASET_CREATE_ID_g", &kind)) return false;
  api->untimed = api->create_properties(kind);
  return api->untimed >= 0 && api->track_times(api->untimed, false) >= 0;
}

// Types and kinds of properties are there once the library is open.
StatusOr<Hdf5Api> Load() {
  void* const library = dlopen(HP_HDF5_SONAME, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return FailedPrecondition("HDF5 files need a library that is missing here: %s", dlerror());
  Hdf5Api api;
  if (!FindFunctions(library, &api) || api.open() < 0 || !FindId(library, "H5T_NATIVE_FLOAT_g", &api.native_float) ||
      !FindId(library, "H5T_NATIVE_DOUBLE_g", &api.native_double) ||
      !FindId(library, "H5T_NATIVE_INT_g", &api.native_int) || !FindId(library, "H5T_C_S1_g", &api.c_string) ||
      !MakeUntimed(library, &api)) {
    return FailedPrecondition("HDF5 files need another version of %s", HP_HDF5_SONAME);
  }
  return api;
}

}  // namespace

StatusOr<const Hdf5Api*> LoadHdf5() {
  static const StatusOr<Hdf5Api> loaded = Load();
  HP_RETURN_IF_ERROR(loaded.status());
  return &*loaded;
}

Status CheckHdf5() { return LoadHdf5().status(); }

#else

Status CheckHdf5() { return FailedPrecondition("this program was built without HDF5"); }

#endif

}  // namespace hp
