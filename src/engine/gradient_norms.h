#pragma once

#include "backend/backend.h"
#include "model/node_model.h"
#include "proto/wire.pb.h"
#include "solvers/param_store.h"
#include "tensor/device.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace hp {

/// The sums of squares of a node's gradients, for the norm; where rates go by norms (larc), those of the parameters'
/// values as well. Where nobody asks for a norm, only whether gradients are finite, which updates see: a sum is then 0
/// or a NaN. Only of groups that count on this node
/// (ParamGroupPlan::counts): others have equal gradients elsewhere, or none. Owned by Updater; executor thread, except
/// AddTo (as Compute::Collect) and OfWhole. A "param" is an index into the ParamStore.
class GradientNorms {
 public:
  struct Options {
    Device* device = nullptr;  ///< must outlive the norms, like all that these point to
    Backend* backend = nullptr;
    const ParamStore* params = nullptr;
  };
  /// Of one whole parameter, by all nodes together.
  struct Squares {
    double gradient = 0, values = 0;
  };

  /// @param model must outlive it. @return kResourceExhausted: the device, or the host for its side, is out of memory.
  static StatusOr<std::unique_ptr<GradientNorms>> Create(const NodeModel& model, const Options& options);
  /// Bytes that Create takes of a device's own memory: a double or two for each parameter of the node and clock.
  static size_t DeviceBytes(const NodeModel& model);

  /// Computes those of the groups' gradients, which are whole, and of their values before the update of `clock`. On a
  /// device with memory of its own it only puts work into kCompute and kCopyOut, and AddTo of the clock before may be
  /// still to come; that of the one before it has been.
  void Enqueue(int64_t clock, const std::vector<int>& groups);
  /// Where the update of `clock` notes that a gradient is not finite (UpdatePart::not_finite).
  double* Check(int64_t clock, int param);
  /// After the updates that got a Check of these parameters: fetches what they noted.
  void FetchChecks(int64_t clock, std::vector<int> params);
  /// Those of a gradient that was never in memory as a whole.
  void Set(int64_t clock, int param, double sum) { of(clock)[param] = sum; }
  /// Puts the sum over all gradients of the clock into `report`, without the loss scale, and the first layer that made
  /// it not finite, unless a loss was not; where rates go by norms, those of each parameter. Summed in the order of the
  /// groups, because the order of their updates depends on timing.
  void AddTo(int64_t clock, double loss_scale, IterationReport* report) const;
  /// What a verdict says of the parameters that this node has a part of, by param; of one that it does not name, zeros.
  /// Null: rates do not go by norms. Any thread.
  std::shared_ptr<const std::vector<Squares>> OfWhole(const Verdict& verdict) const;

 private:
  GradientNorms(const NodeModel& model, const Options& options) : model_(model), options_(options) {}
  /// Fetches the sums in these places, in ascending order, to the host.
  void Download(int64_t clock, const std::vector<int>& places);
  bool larc() const { return model_.job().solver().larc(); }
  /// A device computes those of a clock while those of the one before are on their way.
  static constexpr int64_t kDeviceClocks = 2;
  int64_t clocks() const { return options_.device->is_host() ? options_.params->versions() : kDeviceClocks; }
  /// [params] of gradients, and behind them, with larc, as many of values; of one of the clocks that may be under way.
  double* In(const Buffer& buffer, int64_t clock) const {
    const int64_t slot = clock % clocks();
    return reinterpret_cast<double*>(buffer.data()) + slot * options_.params->size() * (larc() ? 2 : 1);
  }
  double* of(int64_t clock) const { return In(host_, clock); }

  const NodeModel& model_;
  const Options options_;
  Buffer host_;    // of(clock), for each clock that may be under way
  Buffer device_;  // the same where the device computes it; none on the host's
  // With larc: by param its index among all of the net, in Caffe's order, and the other way; -1: not here.
  std::vector<int> whole_of_, param_of_;
};

}  // namespace hp
