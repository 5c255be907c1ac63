#pragma once

#include "backend/class_sample.h"
#include "backend/update.h"
#include "tensor/buffer.h"
#include "tensor/device.h"
#include "tensor/raw_images.h"
#include "tensor/tensor.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hp {

/// Copies of one parameter in other layouts or element types, made once for each version of its values and shared by
/// all ops that want the same. Owned by the parameter store, one for each parameter; ops only call Get. Executor thread
/// only.
class PackedParams {
 public:
  using Fill = std::function<void(std::byte*)>;
  /// Fills what the copy has of the values' rows [begin, end), on the calling thread.
  using FillRows = std::function<void(std::byte*, int64_t begin, int64_t end)>;
  /// Ranges of rows begin at its multiples, and all but the last end there.
  static constexpr int64_t kRowsTogether = 8;

  /// @param device whose memory the copies are in, which must outlive them; null: host memory.
  explicit PackedParams(Device* device = nullptr) : device_(device) {}

  /// The copy under `key` for `version` of the parameter; it stays valid, at one address, as long as this object.
  /// @param key names the layout ("conv 256x48x5x5 ... 16i16o"): equal keys mean equal contents and sizes.
  /// @param version ParamView::version. @param bytes throws std::bad_alloc if the device is out of memory, which ends
  /// the executor with a Status.
  /// @param fill writes the `bytes` bytes from the parameter's values, on a GPU by putting work into kCompute. Called
  /// when the copy is of another version or not there, and kept for Refresh: where Refresh is used (GPUs) it must not
  /// refer to the op, which may be gone by then.
  /// @param fill_rows the same in parts, for RefillRows; must not refer to the op. Null: there is none.
  std::byte* Get(const std::string& key, size_t bytes, uint64_t version, Fill fill, FillRows fill_rows = nullptr);
  /// The same for a copy that an update can write itself (WrittenByUpdate). @param form its `data` is not read.
  std::byte* Get(const std::string& key, size_t bytes, uint64_t version, Fill fill, const ValueCopy& form);
  /// The copy that an update of the values has to write (UpdatePart::copy): it counts as one of `version` from now on.
  /// Its `data` is null where there is none. Of several copies it is always the same one; Refresh fills the others.
  ValueCopy WrittenByUpdate(uint64_t version);
  /// Memory under a key of its own, zeroed when it is made, for what the ops that share the parameter keep there. Stays
  /// valid, at one address, as long as this object. Throws as Get.
  std::byte* Space(const std::string& key, size_t bytes);
  /// Writes rows [begin, end) of the values, which have just changed, to all copies that have a FillRows. On the
  /// calling thread; several may do so at once for different rows. Host memory only.
  void RefillRows(int64_t begin, int64_t end) const;
  /// After RefillRows of all rows: those copies are of `version`.
  void MarkRefilled(uint64_t version);
  /// Fills copies of other versions than `version` again. Call it before captured work is replayed
  /// (Device::RunCaptured), which reads the copies without calling Get.
  void Refresh(uint64_t version);
  /// Of all copies.
  size_t bytes() const;

 private:
  struct Copy {
    Buffer buffer;
    uint64_t version = 0;
    Fill fill;
    FillRows fill_rows;
    std::optional<ValueCopy> form;
  };
  /// Makes room. @return whether the contents are lost.
  bool Resize(Copy* copy, size_t bytes) const;
  Device* device_;
  std::map<std::string, Copy> copies_;
  std::map<std::string, Copy> spaces_;  // with buffers alone
};

/// One parameter as an op reads it: dense float32 in Caffe's layout ([O, C / group, kH, kW], [num_output, K],
/// [num_output]).
struct ParamView {
  const float* data = nullptr;     ///< in the device's memory; without staleness the same address for the whole job
  uint64_t version = 0;            ///< grows with every change of the values; for PackedParams::Get
  PackedParams* packed = nullptr;  ///< never null while a job runs
};

/// What an op needs to know about the micro-batch that its rows belong to. Kernels of a GPU read numbers that differ
/// between micro-batches from device memory at fixed addresses (`..._on_device`), because captured work is replayed
/// with the same arguments; the CPU's ops read the numbers themselves. On a GPU the labels are in device memory, too.
struct BatchContext {
  bool train = true;                                 ///< false in a test: dropout passes its input through
  uint64_t first_sample = 0;                         ///< index of row 0 since the start of training (or of the test)
  const uint64_t* first_sample_on_device = nullptr;  ///< the same for a GPU; null on the CPU
  float loss_scale = 1;                              ///< losses multiply their gradients by it; a power of two
  const float* loss_scale_on_device = nullptr;       ///< the same for a GPU; null on the CPU
  int64_t global_rows = 0;              ///< samples in the whole global batch (in one sub-batch with iter_size)
  int sub_batches = 1;                  ///< of an update (iter_size)
  std::span<const float> labels;        ///< of this op's rows: [rows], or [rows, ...] where a row has several
  std::span<const float> batch_labels;  ///< [global_rows], if needs_batch_labels(): labels, or counts where several
  std::span<const float> more_labels;   ///< [n, global_rows]: the same of other labels, that some layers count
  /// Sets the last two. @param numbers [1 + n, global_rows]; or empty.
  void SetBatchLabels(std::span<const float> numbers) {
    batch_labels = numbers.first(std::min(numbers.size(), static_cast<size_t>(global_rows)));
    more_labels = numbers.subspan(batch_labels.size());
  }
};

/// The arguments of one call, all in the memory of the op's device. Descs of `in` and `out` are those that the op was
/// made for and chose, and d_in[i], d_out[i] have them as well. Where the layer works in place in[0] and out[0] (and
/// d_in[0], d_out[0]) are the same memory. What the op declares not to read may be stale.
struct OpArgs {
  std::span<const Tensor> in, out;
  std::span<const Tensor> d_in;   ///< overwritten, never added to; data == nullptr: not wanted
  std::span<const Tensor> d_out;  ///< one for each output; Export has one for each reader
  std::span<const ParamView> params;
  std::span<float* const> d_params;  ///< gradients, as many and in the layout of `params`
  bool accumulate = false;           ///< BackwardParams adds to d_params instead of overwriting
  std::byte* saved = nullptr;        ///< saved_bytes(), kept from Forward to the last backward call for the same rows
  std::byte* scratch = nullptr;      ///< scratch_bytes(), contents lost after each call
  const BatchContext* batch = nullptr;  ///< not null
  /// Not null: what Forward reads in the place of in[0], which holds nothing (Op::reads_raw_images).
  const RawImages* raw_images = nullptr;
  /// The classes of a sampled product, for it and for the loss behind it: of the batch of these rows, and of the whole
  /// update. Null: the op computes all its classes.
  const BatchSample* sample = nullptr;
  const UpdateSample* update_sample = nullptr;
};

/// One layer's arithmetic on one device, for fixed shapes. Made once by a Backend, shared by all solvers of a node: a
/// call changes none of its state, only what the arguments point to. For each micro-batch: Forward, then BackwardInput
/// and BackwardParams in any order. Calls overwrite outputs and gradients.
///
/// Executor thread only. On the CPU a call uses all threads of the OpenMP team and gives the same bits for the same
/// team size; on a GPU it only puts work into Device::kCompute (the same work for the same arguments, so it can be
/// captured) and gives the same bits always. Calls report no errors: our own faults are CHECKs, a GPU's show up in
/// Device::Wait.
class Op {
 public:
  virtual ~Op() = default;

  /// Shapes, layouts and element types of the tops; the op chose layouts and types.
  const std::vector<TensorDesc>& outputs() const { return outputs_; }
  /// Bytes that OpArgs::scratch must have for any of the calls; ops of one node share one scratch area.
  size_t scratch_bytes() const { return scratch_bytes_; }
  /// Bytes that OpArgs::saved must have; each solver has its own.
  size_t saved_bytes() const { return saved_bytes_; }
  /// Bytes that it keeps in PackedParams for each version of its parameters, for the plan of memory. Ops of the same
  /// parameters share them.
  size_t packed_bytes() const { return packed_bytes_; }

  /// Computes `out` (and `saved`) from `in` and `params`.
  virtual void Forward(const OpArgs& args) = 0;
  /// Computes d_in from d_out, and from in, out, saved and params as far as the op reads them.
  virtual void BackwardInput(const OpArgs& args) = 0;
  /// Computes d_params from `in`, d_out and params, or adds to them (args.accumulate); they are complete after
  /// Backend::FinishGradients. May run much later than
  /// BackwardInput; for products also by an op of more rows, over the rows of all micro-batches of an update at once,
  /// without `saved`.
  virtual void BackwardParams(const OpArgs&) {}

  /// Whether the gradients of parameters 0 and 1 can be computed in pieces of a few output rows, so that a piece is
  /// still in the cache when the update reads it: BeginParamsRows once, then BackwardParamsRows for any ranges. The
  /// CPU's products can. If false, the other two CHECK-fail.
  virtual bool has_params_rows() const { return false; }
  /// Rows of a piece with which it is fastest: a multiple of PackedParams::kRowsTogether. 24 rows of fc6 of AlexNet are
  /// 0.9 MB.
  virtual int64_t piece_rows() const { return 24; }
  /// Prepares the pieces of these `args` in args.scratch, which must stay unmodified until the last of them.
  virtual void BeginParamsRows(const OpArgs&);
  /// Overwrites `d_weights` [end - begin, K] and, if there is a bias, `d_bias` [end - begin] with the gradients of
  /// output rows [begin, end), of a sampled product rows of args.update_sample; adds to them if args.accumulate.
  /// args.d_params is not used. Runs on the calling thread alone; several threads may call it at once. The bits do not
  /// depend on how the rows are divided.
  virtual void BackwardParamsRows(const OpArgs&, int64_t begin, int64_t end, float* d_weights, float* d_bias) const;

  // A plain ReLU in place on what this op writes, or reads, may be left to it, which saves a pass over memory. Called
  // before the first use and before the memory is planned; with `true` the op does it from then on, and that call of
  // the ReLU's must be left out. The bits are the same, but for the sign of zeros.

  /// Whether this op is one: it works in place, and its slope is 0.
  virtual bool is_plain_relu() const { return false; }
  /// For its Forward: this op's writes what the ReLU would make of output 0.
  virtual bool TakeReluBehind() { return false; }
  /// For its backward calls, after TakeReluBehind: d_out[0] is the gradient of the ReLU's output, which the first of
  /// them may overwrite by that of its input. That is BackwardInput, where the gradient of the input is wanted.
  virtual bool TakeReluGradientBehind() { return false; }
  /// For its BackwardInput: in[0] is the ReLU's output, which is read now, and d_in[0] is the gradient of its input.
  virtual bool TakeReluGradientBefore() { return false; }

  // A convolution of few groups may be computed group by group, on channels that lie in groups, each NHWC, of all
  // images: [groups][N, H, W, C / groups], which its neighbours then write and read. Descs remain as they are: what
  // lies in memory instead is known to the two ops alone. Called behind the calls above; the gradient lies likewise.

  /// In how many groups it would rather have input 0 and output 0. 1: as their descs say.
  virtual int64_t groups() const { return 1; }
  /// Input 0, or output 0, lies in so many groups from now on. @return false: it can't, and nothing has changed.
  virtual bool ReadGroups(int64_t groups) { return groups == 1; }
  virtual bool WriteGroups(int64_t groups) { return groups == 1; }

  /// Whether Forward can read raw images in the place of input 0, which are the net's own (OpArgs::raw_images):
  /// it makes a form of its own of them, so that nobody has to write floats for it. The backward pass does not read
  /// input 0.
  virtual bool reads_raw_images() const { return false; }

  /// Whether BackwardInput or BackwardParams reads `in` / `out`. Where false, the memory plan reuses the memory before
  /// the backward pass.
  virtual bool backward_reads_input() const { return true; }
  virtual bool backward_reads_output() const { return true; }

 protected:
  // Set by the constructors of derived classes, then constant.
  std::vector<TensorDesc> outputs_;
  size_t scratch_bytes_ = 0;
  size_t saved_bytes_ = 0;
  size_t packed_bytes_ = 0;
};

}  // namespace hp
