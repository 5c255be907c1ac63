#include "backend/cuda/cublas_api.h"

#include <dlfcn.h>

#include <string>

namespace hp {
namespace {

/// Where the program's own path leads, as in a bundle, or where it lay when the program was built.
void* OpenCublas(std::string* why) {
  for (const char* path : {HP_CUBLAS_SONAME, HP_CUBLAS_PATH}) {
    if (void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL)) return library;
    *why += (why->empty() ? "" : "; ") + std::string(dlerror());
  }
  return nullptr;
}

template <typename Function>
bool FindIn(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

StatusOr<CublasApi> OpenCublasApi() {
  std::string why;
  void* const library = OpenCublas(&why);
  if (library == nullptr) return FailedPrecondition("GPUs need cuBLAS, which is missing here: %s", why.c_str());
  CublasApi api;
  if (!FindIn(library, "cublasLtCreate", &api.create) || !FindIn(library, "cublasLtDestroy", &api.destroy) ||
      !FindIn(library, "cublasLtGetStatusString", &api.status_string) ||
      !FindIn(library, "cublasLtMatrixLayoutInit_internal", &api.init_layout) ||
      !FindIn(library, "cublasLtMatmulDescInit_internal", &api.init_product) ||
      !FindIn(library, "cublasLtMatmulPreferenceInit_internal", &api.init_preference) ||
      !FindIn(library, "cublasLtMatmulDescSetAttribute", &api.set_product) ||
      !FindIn(library, "cublasLtMatmulPreferenceSetAttribute", &api.set_preference) ||
      !FindIn(library, "cublasLtMatmulAlgoGetHeuristic", &api.choose) ||
      !FindIn(library, "cublasLtMatmul", &api.multiply)) {
    return FailedPrecondition("GPUs need another version of %s", HP_CUBLAS_SONAME);
  }
  return api;
}

}  // namespace

StatusOr<const CublasApi*> LoadCublas() {
  static const StatusOr<CublasApi> loaded = OpenCublasApi();
  HP_RETURN_IF_ERROR(loaded.status());
  return &*loaded;
}

}  // namespace hp
