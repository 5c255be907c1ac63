#pragma once

#include "checkpoint/summed_file.h"
#include "checkpoint/weights.h"
#include "hp/status.h"
#include "proto/caffe.pb.h"

namespace hp {

/// What WriteCaffeModel puts into its file; neither synced nor committed.
Status WriteModelTo(const caffe::NetParameter& net, const BlobRefs& blobs, SummedFile* file);

}  // namespace hp
