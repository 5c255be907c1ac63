#pragma once

#include "hp/status.h"
#include "solvers/exchange/gloo_exchange.h"

#include <cstdint>
#include <memory>
#include <span>

namespace gloo {
class Context;
}  // namespace gloo

namespace hp {

/// Gloo's connections among the replicas, and the one collective that runs over them. The only class that calls Gloo;
/// it turns Gloo's exceptions into Status.
class GlooRing {
 public:
  /// Blocks until all replicas are connected; parameters and errors as ConnectGlooExchange's.
  static StatusOr<std::unique_ptr<GlooRing>> Connect(const GlooOptions& options, Rendezvous* rendezvous);

  /// Sums `values` (host memory) over all replicas, in place; blocks until it is done. One thread at a time; all
  /// replicas call it with the same sizes in the same order. Ring allreduce: each segment is added in one order of
  /// ranks and its sum passed round, so all replicas get the same bits in every run.
  /// @return kUnavailable: a replica is lost, or Close was called.
  Status AllReduce(std::span<float> values);
  /// Breaks the connections: a collective under way ends with an error, here and on the other replicas. Any thread.
  void Close();

 private:
  explicit GlooRing(std::shared_ptr<gloo::Context> context) : context_(std::move(context)) {}

  const std::shared_ptr<gloo::Context> context_;
  uint32_t next_tag_ = 0;
};

}  // namespace hp
