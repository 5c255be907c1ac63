#pragma once

#include <cstdint>

namespace hp {

/// The `type` of eager messages between nodes (Transport::Send); payloads are the messages of src/proto/wire.proto. 1
/// to 9 belong to the membership protocol (MemberMessage). The nodes of a job run the same version of the protocol
/// (JobHandshake).
enum MessageType : uint32_t {
  kIterationReportMessage = 10,  ///< IterationReport, to rank 0
  kVerdictMessage = 11,          ///< Verdict, from rank 0
  kLabelsMessage = 12,           ///< LabelsMessage
  kStatisticsMessage = 13,       ///< StatisticsMessage, to the node that prints
  kRendezvousMessage = 14,       ///< RendezvousMessage, among replicas
  kSnapshotCopiedMessage = 15,   ///< SnapshotCopied, to rank 0
  kSnapshotPartMessage = 16,     ///< SnapshotPartWritten, to rank 0
  kPullRequest = 20,             ///< empty; a client asks rank 0 for the weights, or for the next chunk of them
  kPullChunk = 21,               ///< PullChunk, to a client
  kStatusRequest = 22,           ///< empty; a client asks rank 0 how the job is
  kStatusAnswer = 23,            ///< JobStatus, to a client
  kOrderRequest = 24,            ///< JobOrder, of a client that may give orders, to rank 0
  kOrderAnswer = 25,             ///< OrderAnswer, to that client
};

}  // namespace hp
