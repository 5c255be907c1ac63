#include "backend/cuda/nvjpeg_api.h"

#include "base/format.h"

#include <dlfcn.h>

#include <string>
#include <type_traits>
#include <utility>

namespace hp {
namespace {

constexpr char kNvjpegAdvice[] =
    "install NVIDIA's libnvjpeg of CUDA 12.1 or later (LD_LIBRARY_PATH names folders of libraries), or take "
    "jpeg_decoder: HOST";

/// The first that interpolates chroma; older ones may pass over what asks for it.
constexpr std::pair kLeastVersion(12, 1);

void* OpenNvjpeg(std::string* why) {
  for (const char* name : {"libnvjpeg.so.13", "libnvjpeg.so.12"}) {
    if (void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
    *why += (why->empty() ? "" : "; ") + std::string(dlerror());
  }
  return nullptr;
}

StatusOr<NvjpegApi> OpenNvjpegApi() {
  std::string why;
  void* const library = OpenNvjpeg(&why);
  if (library == nullptr) return FailedPrecondition("nvJPEG is missing here: %s; %s", why.c_str(), kNvjpegAdvice);
  const char* missing = nullptr;
  const auto find = [&](const char* name, auto* function) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(library, name));
    if (*function == nullptr && missing == nullptr) missing = name;
  };
  NvjpegApi api;
  find("nvjpegGetProperty", &api.get_property);
  find("nvjpegCreateEx", &api.create);
  find("nvjpegDestroy", &api.destroy);
  find("nvjpegJpegStateCreate", &api.create_state);
  find("nvjpegJpegStateDestroy", &api.destroy_state);
  find("nvjpegDecodeBatchedInitialize", &api.begin_batches);
  find("nvjpegDecodeBatched", &api.decode_batch);
  find("nvjpegDecode", &api.decode);
  if (missing != nullptr) return FailedPrecondition("nvJPEG here has no %s; %s", missing, kNvjpegAdvice);
  int major = 0, minor = 0;
  HP_RETURN_IF_ERROR(NvjpegStatus(api.get_property(MAJOR_VERSION, &major), "nvjpegGetProperty"));
  HP_RETURN_IF_ERROR(NvjpegStatus(api.get_property(MINOR_VERSION, &minor), "nvjpegGetProperty"));
  if (std::pair(major, minor) < kLeastVersion) {
    return FailedPrecondition("nvJPEG here is version %d.%d; %s", major, minor, kNvjpegAdvice);
  }
  return api;
}

const char* NameOf(NvjpegResult result) {
  switch (result) {
    case NvjpegResult::kSuccess:
      return "NVJPEG_STATUS_SUCCESS";
    case NvjpegResult::kNotInitialized:
      return "NVJPEG_STATUS_NOT_INITIALIZED";
    case NvjpegResult::kInvalidParameter:
      return "NVJPEG_STATUS_INVALID_PARAMETER";
    case NvjpegResult::kBadJpeg:
      return "NVJPEG_STATUS_BAD_JPEG";
    case NvjpegResult::kJpegNotSupported:
      return "NVJPEG_STATUS_JPEG_NOT_SUPPORTED";
    case NvjpegResult::kAllocatorFailure:
      return "NVJPEG_STATUS_ALLOCATOR_FAILURE";
    case NvjpegResult::kExecutionFailed:
      return "NVJPEG_STATUS_EXECUTION_FAILED";
    case NvjpegResult::kArchMismatch:
      return "NVJPEG_STATUS_ARCH_MISMATCH";
    case NvjpegResult::kInternalError:
      return "NVJPEG_STATUS_INTERNAL_ERROR";
    case NvjpegResult::kImplementationNotSupported:
      return "NVJPEG_STATUS_IMPLEMENTATION_NOT_SUPPORTED";
    case NvjpegResult::kIncompleteBitstream:
      return "NVJPEG_STATUS_INCOMPLETE_BITSTREAM";
  }
  return "an unknown status";
}

}  // namespace

StatusOr<const NvjpegApi*> LoadNvjpeg() {
  static const StatusOr<NvjpegApi> loaded = OpenNvjpegApi();
  HP_RETURN_IF_ERROR(loaded.status());
  return &*loaded;
}

Status NvjpegStatus(NvjpegResult result, const char* what) {
  switch (result) {
    case NvjpegResult::kSuccess:
      return OkStatus();
    case NvjpegResult::kBadJpeg:
    case NvjpegResult::kJpegNotSupported:
    case NvjpegResult::kIncompleteBitstream:
      return DataLoss("nvJPEG: %s: %s; jpeg_decoder: HOST decodes with libjpeg", what, NameOf(result));
    default:
      return InternalError("nvJPEG: %s: %s (%d)", what, NameOf(result), static_cast<int>(result));
  }
}

Status NvjpegStatusOfImage(NvjpegResult result, const char* what) {
  const bool in_decoding = result == NvjpegResult::kExecutionFailed || result == NvjpegResult::kInternalError;
  const Status status = NvjpegStatus(result, what);
  return in_decoding ? DataLoss("%s", status.message().c_str()) : status;
}

}  // namespace hp
