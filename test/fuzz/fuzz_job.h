#pragma once

#include "test/fuzz/fuzz.h"
#include "test/support/small_job.h"

#include <google/protobuf/stubs/logging.h>

// For the fuzz targets that need a job.
namespace hp::fuzz {

/// Protobuf's log about text that is not UTF-8.
inline const google::protobuf::LogSilencer quiet_protobuf;

}  // namespace hp::fuzz
