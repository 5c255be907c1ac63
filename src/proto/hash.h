#pragma once

#include "proto/caffe.pb.h"

#include <cstdint>

namespace google::protobuf {
class Message;
}

namespace hp {

/// 64-bit hashes (HashBytes) that the nodes of a job compare at the handshake and that snapshots save. Equal on all
/// hosts for equal content: they are taken of the parsed message in canonical order, not of the text.

/// Of everything in `message`.
uint64_t HashMessage(const google::protobuf::Message& message);
/// Of a net without `source` and `mean_file`, which may differ from host to host (the fingerprints of their contents
/// stand in for them).
uint64_t NetHash(const caffe::NetParameter& net);
/// Of a solver without what names the net (its own hash stands in), the seed (compared apart, since -1 agrees with any)
/// and facts of one host: snapshot_prefix, solver_mode, device_id.
uint64_t SolverHash(const caffe::SolverParameter& solver);

}  // namespace hp
