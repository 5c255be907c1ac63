#pragma once

#include "hp/status.h"
#include "net/pending_file.h"
#include "net/weights.h"
#include "proto/caffe.pb.h"

namespace hp {

/// What WriteCaffeModel puts into its file; neither synced nor committed.
Status WriteModelTo(const caffe::NetParameter& net, const BlobRefs& blobs, PendingFile* file);

}  // namespace hp
