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

/// Gloo's connections among the replicas, and the one collective we run over them. The only place that sees Gloo: what
/// it throws leaves here as a Status.
class GlooRing {
 public:
  /// See ConnectGlooExchange.
  static StatusOr<std::unique_ptr<GlooRing>> Connect(const GlooOptions& options, Rendezvous* rendezvous);

  /// Sums `values` over all replicas, in place; blocks until that is done. One thread at a time, and all replicas in
  /// the same order. Ring: each segment goes through the ranks in one order, and its sum is passed round, so the bits
  /// are the same everywhere and every time.
  /// @return kUnavailable: a replica is lost, or Close.
  Status AllReduce(std::span<float> values);
  /// Cuts the connections: a collective under way ends with an error here and on the other replicas. Any thread.
  void Close();

 private:
  explicit GlooRing(std::shared_ptr<gloo::Context> context) : context_(std::move(context)) {}

  const std::shared_ptr<gloo::Context> context_;
  uint32_t next_tag_ = 0;
};

}  // namespace hp
