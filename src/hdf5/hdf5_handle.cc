#include "hdf5/hdf5_handle.h"

#ifdef HP_WITH_HDF5

#include <cerrno>

namespace hp {

Mutex* Hdf5Mutex() {
  static Mutex* const mutex = new Mutex;
  return mutex;
}

StatusOr<const Hdf5Api*> QuietHdf5() {
  HP_ASSIGN_OR_RETURN(const Hdf5Api* api, LoadHdf5());
  api->set_auto(0, nullptr, nullptr);  // its opinion of errors on stderr; ours is in the Status
  errno = 0;
  return api;
}

}  // namespace hp

#endif
