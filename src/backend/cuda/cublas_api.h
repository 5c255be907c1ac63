#pragma once

#include "hp/status.h"

#include <cublasLt.h>

namespace hp {

/// The functions of cuBLASLt that we call, found in the library when a GPU is first opened. Its load fixes 450,000
/// addresses up in 96 MB of memory of each process: 60 ms at the start and 20 ms at the end of a node on a CPU, which
/// never calls it. The three that initialise descriptions are what the header's own inline functions call.
struct CublasApi {
  decltype(&::cublasLtCreate) create = nullptr;
  decltype(&::cublasLtDestroy) destroy = nullptr;
  decltype(&::cublasLtGetStatusString) status_string = nullptr;
  decltype(&::cublasLtMatrixLayoutInit_internal) init_layout = nullptr;
  decltype(&::cublasLtMatmulDescInit_internal) init_product = nullptr;
  decltype(&::cublasLtMatmulPreferenceInit_internal) init_preference = nullptr;
  decltype(&::cublasLtMatmulDescSetAttribute) set_product = nullptr;
  decltype(&::cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
  decltype(&::cublasLtMatmulAlgoGetHeuristic) choose = nullptr;
  decltype(&::cublasLtMatmul) multiply = nullptr;
};

/// @return the library's functions, for the whole life of the process; kFailedPrecondition: the library is missing
/// here, or another version. Any thread.
StatusOr<const CublasApi*> LoadCublas();

}  // namespace hp
