#pragma once

#include "checkpoint/summed_file.h"
#include "checkpoint/weights.h"
#include "hp/status.h"
#include "proto/caffe.pb.h"

namespace hp {

/// Writes what WriteCaffeModel puts into its file, for a caller that syncs and commits `file` itself.
/// @return kResourceExhausted: over protobuf's 2 GiB; nothing is written then. Errors of the disk are reported by
/// SummedFile::Sync.
Status WriteModelTo(const caffe::NetParameter& net, const BlobRefs& blobs, SummedFile* file);

}  // namespace hp
