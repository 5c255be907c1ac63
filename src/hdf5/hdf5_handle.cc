#include "hdf5/hdf5_handle.h"

#ifdef HP_WITH_HDF5

#include <cerrno>

namespace hp {
namespace {

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

}  // namespace

Hdf5Lock::Hdf5Lock() HP_NO_THREAD_SAFETY_ANALYSIS : lock_(Hdf5Mutex()), api_(QuietHdf5()) {}

WithoutHdf5::WithoutHdf5() HP_NO_THREAD_SAFETY_ANALYSIS { Hdf5Mutex()->Unlock(); }

WithoutHdf5::~WithoutHdf5() HP_NO_THREAD_SAFETY_ANALYSIS {
  Hdf5Mutex()->Lock();
  errno = 0;  // what the library says next is of its own
}

}  // namespace hp

#endif
