#pragma once

#include "solvers/exchange/exchange.h"

namespace hp {

/// The exchange of a single replica: its gradients are the sums already.
class LocalExchange : public Exchange {
 public:
  void Add(uint64_t, int, std::span<float>) override {}
  void FinishAsync(uint64_t, std::function<void(const Status&)> done) override { done(OkStatus()); }
  void Abort(const Status&) override {}
};

}  // namespace hp
