#pragma once

#include "base/mutex.h"

#include "hdf5/hdf5_api.h"

#ifdef HP_WITH_HDF5

#include <utility>

namespace hp {

/// To be held by whoever calls the library, while it does: not every build of it is thread-safe. Handles may stay open
/// between calls.
Mutex* Hdf5Mutex();

/// LoadHdf5, with the library's opinions of this thread's errors kept off stderr, and errno 0. Under Hdf5Mutex, once
/// for each time that it is locked: a build that is thread-safe has a setting for each thread.
StatusOr<const Hdf5Api*> QuietHdf5();

/// A file, dataset, space or type of the library's, closed at its end. Under Hdf5Mutex.
class Hdf5Handle {
 public:
  /// @param id what an opening function returned; negative: it failed. @param close the function that ends it.
  Hdf5Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  Hdf5Handle(const Hdf5Handle&) = delete;
  ~Hdf5Handle() { Close(); }
  hid_t id() const { return id_; }
  bool ok() const { return id_ >= 0; }
  /// Ends it now. @return false: the library could not, for instance since the disk is full.
  bool Close() { return id_ < 0 || close_(std::exchange(id_, -1)) >= 0; }

 private:
  hid_t id_;
  herr_t (*const close_)(hid_t);
};

}  // namespace hp

#endif
