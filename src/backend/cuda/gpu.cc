#include "backend/cuda/gpu.h"

#include "glog/logging.h"

namespace hp {

void Gpu::Fail(const Status& status) { LOG(FATAL) << name() << ": " << status; }

}  // namespace hp
