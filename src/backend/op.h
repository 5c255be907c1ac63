#pragma once

#include "tensor/buffer.h"
#include "tensor/device.h"
#include "tensor/tensor.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace hp {

/// Reordered copies of one parameter, made once for each version and shared by all ops that want the same layout.
/// Executor thread only.
class PackedParams {
 public:
  using Fill = std::function<void(std::byte*)>;

  /// @param device where the copies are; null: in the host's memory.
  explicit PackedParams(Device* device = nullptr) : device_(device) {}

  /// @param key what the copy is ("bwd OIhw16o16i"); equal keys share one copy, at one address.
  /// @param fill writes `bytes` bytes; called when there is no copy of `version` yet, and kept for Refresh.
  std::byte* Get(const std::string& key, size_t bytes, uint64_t version, Fill fill);
  /// Makes copies of other versions anew: before work is repeated that does not ask for them again (Device::Repeat).
  void Refresh(uint64_t version);

 private:
  struct Copy {
    Buffer buffer;
    uint64_t version = 0;
    Fill fill;
  };
  Device* device_;
  std::map<std::string, Copy> copies_;
};

/// One parameter as an op reads it: dense, in Caffe's layout ([O, C/group, kH, kW], [num_output, K], [num_output]).
struct ParamView {
  const float* data = nullptr;
  uint64_t version = 0;            ///< grows with every update; what PackedParams is kept by
  PackedParams* packed = nullptr;  ///< never null while a job runs
};

/// What an op needs to know of where its rows stand in the training.
struct BatchContext {
  bool train = true;
  uint64_t first_sample = 0;  ///< index of row 0, counted from the start of training (of the test, in a test)
  /// The same where ops of a device find it: work that is repeated has this address, not the number. Labels, too, are
  /// in the device's memory then.
  const uint64_t* first_sample_on_device = nullptr;
  float loss_scale = 1;  ///< what losses multiply their gradients by, and nothing else: a power of two
  const float* loss_scale_on_device = nullptr;  ///< likewise
  int64_t global_rows = 0;                      ///< samples in the whole global batch (of one sub-batch with iter_size)
  std::span<const float> labels;                ///< [rows] labels of this op's own rows
  std::span<const float> batch_labels;          ///< [global_rows], only for ops whose needs_batch_labels() is true
};

/// The arguments of one call. Pointers of `in`, `out`, `d_in`, `d_out` are as the op's descs say; `in[i]` and `out[i]`
/// (and `d_in[i]`, `d_out[i]`) are the same memory where the layer works in place.
struct OpArgs {
  std::span<const Tensor> in, out;
  std::span<const Tensor> d_in;  ///< overwritten, never added to; data == nullptr: not wanted
  std::span<const Tensor> d_out;
  std::span<const ParamView> params;
  std::span<float* const> d_params;  ///< gradients in the layout of the parameters
  bool accumulate = false;           ///< BackwardParams adds to d_params instead of overwriting
  std::byte* saved = nullptr;        ///< saved_bytes(), kept from Forward to the last backward half of the same rows
  std::byte* scratch = nullptr;      ///< scratch_bytes(), free after each call
  const BatchContext* batch = nullptr;
};

/// One layer's arithmetic on one device, for fixed shapes. Made once, shared by all solvers of a node: it has no state
/// of its own that a call changes. Executor thread only; calls use all threads of the calling thread's OpenMP team and
/// give the same bits for the same team size.
class Op {
 public:
  virtual ~Op() = default;

  /// Shapes and layouts of the tops; the op chose the layouts.
  const std::vector<TensorDesc>& outputs() const { return outputs_; }
  size_t scratch_bytes() const { return scratch_bytes_; }
  size_t saved_bytes() const { return saved_bytes_; }
  /// What it keeps in PackedParams, which ops of the same parameters share.
  size_t packed_bytes() const { return packed_bytes_; }

  virtual void Forward(const OpArgs& args) = 0;
  /// The gradients of the inputs from those of the outputs.
  virtual void BackwardInput(const OpArgs& args) = 0;
  /// The gradients of the parameters; may run much later than BackwardInput, and for an InnerProduct over the rows of
  /// many micro-batches at once.
  virtual void BackwardParams(const OpArgs&) {}

  /// Whether the gradient of parameter 0 (and 1) can be had in pieces of a few output rows, so that a piece is still in
  /// the cache when the update reads it: BeginParamsRows once, then BackwardParamsRows for any ranges.
  virtual bool has_params_rows() const { return false; }
  /// Prepares the pieces of these `args`, in args.scratch, which must stay as it is until the last of them.
  virtual void BeginParamsRows(const OpArgs&);
  /// Overwrites `d_weights` [end - begin, K] and, if there is a bias, `d_bias` [end - begin] with the gradients of
  /// output rows [begin, end); adds to them if args.accumulate. args.d_params is not used. On the calling thread alone;
  /// any threads at the same time, with ranges that do not depend on their number or do: the bits are the same.
  virtual void BackwardParamsRows(const OpArgs&, int64_t begin, int64_t end, float* d_weights, float* d_bias) const;

  /// Whether BackwardInput or BackwardParams reads `in` / `out` (what the memory plan must keep).
  virtual bool backward_reads_input() const { return true; }
  virtual bool backward_reads_output() const { return true; }

 protected:
  std::vector<TensorDesc> outputs_;
  size_t scratch_bytes_ = 0;
  size_t saved_bytes_ = 0;
  size_t packed_bytes_ = 0;
};

}  // namespace hp
