#pragma once

#include "proto/caffe.pb.h"

#include <cstdint>

namespace google::protobuf {
class Message;
}

namespace hp {

// 64-bit hashes (HashBytes) that the nodes of a job compare at the handshake and that snapshots save. They are hashes
// of the parsed message in a canonical serialization, so layout and comments of the text do not matter, and equal on
// all hosts with one version of the schema. A field that is set to its default counts as set.

/// The hash of all fields of `message`.
uint64_t HashMessage(const google::protobuf::Message& message);
/// The hash of a net without `source`, `root_folder` and `mean_file`, paths that may differ between hosts; nodes
/// compare fingerprints of their contents instead.
uint64_t NetHash(const caffe::NetParameter& net);
/// The hash of a solver without the fields that name or hold the net (compare NetHash), random_seed (compared
/// separately, since -1 agrees with any) and facts of one host: snapshot_prefix, solver_mode, device_id.
uint64_t SolverHash(const caffe::SolverParameter& solver);

}  // namespace hp
