#pragma once

#include "base/mutex.h"

#include "hdf5/hdf5_api.h"

#ifdef HP_WITH_HDF5

#include <utility>

namespace hp {

/// The library, for one thread at a time, since not every build of it is thread-safe: to be held by whoever calls it,
/// while it does. Handles may stay open between. The library's own error messages are switched off, which a build that
/// is thread-safe wants for each thread, and errno is 0. Not recursive: what is destroyed under it must not take it, as
/// datasets and files of rows do.
class Hdf5Lock {
 public:
  Hdf5Lock();
  Hdf5Lock(const Hdf5Lock&) = delete;
  Hdf5Lock& operator=(const Hdf5Lock&) = delete;
  /// LoadHdf5.
  const StatusOr<const Hdf5Api*>& api() const { return api_; }

 private:
  const MutexLock lock_;
  const StatusOr<const Hdf5Api*> api_;
};

/// Within an Hdf5Lock: lets go of the library for as long as somebody else's code runs, which may be slow, and may use
/// the library itself.
class WithoutHdf5 {
 public:
  WithoutHdf5();
  ~WithoutHdf5();
  WithoutHdf5(const WithoutHdf5&) = delete;
  WithoutHdf5& operator=(const WithoutHdf5&) = delete;
};

/// A file, dataset, space or type of the library's, closed at its end. Under an Hdf5Lock.
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
