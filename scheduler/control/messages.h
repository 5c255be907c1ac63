#pragma once

#include <cstdint>

namespace hp {

/// Kinds of eager messages between nodes (Transport::Send). 1 to 9 are the membership's.
enum MessageType : uint32_t {
  kVerdictPartMessage = 10,  ///< VerdictPart, to rank 0
  kVerdictMessage = 11,      ///< Verdict, from rank 0
  kLabelsMessage = 12,       ///< LabelsMessage
  kStatisticsMessage = 13,   ///< StatisticsMessage, to the node that prints
  kRendezvousMessage = 14,   ///< RendezvousMessage, among replicas
  kPullRequest = 20,         ///< empty; a client asks rank 0 for the weights, or for the next chunk of them
  kPullChunk = 21,           ///< PullChunk, to a client
};

}  // namespace hp
