#pragma once

#include "backend/cuda/library.h"
#include "backend/engine_choices.h"

#include <memory>

namespace hp {

/// MakeGpuLibrary (library.h) with convolutions of which each times cuDNN's engines once, takes the fastest, and keeps
/// which it was (EngineChooser). While a convolution is made that was not kept, nothing else may be in the compute
/// stream. @param engines must outlive the library. Errors as MakeGpuLibrary's.
StatusOr<std::unique_ptr<GpuLibrary>> MakeTimedGpuLibrary(Gpu* gpu, GpuMath math, EngineChoices* engines);

}  // namespace hp
