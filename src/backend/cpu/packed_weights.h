#pragma once

#include "backend/cpu/weights_reorder.h"
#include "backend/op.h"

#include <cstddef>
#include <string>

namespace hp::onednn {

/// The weights in the format of one primitive, repacked once for each version.
class PackedWeights {
 public:
  PackedWeights() = default;
  /// @param kind of the op: what the same blob means to another kind is another copy.
  PackedWeights(const std::string& kind, const Context& context, const dnnl::memory::desc& dense,
                const dnnl::memory::desc& wanted)
      : key_(kind + " " + FormatName(wanted)), wanted_(wanted), reorder_(context, dense, wanted) {}

  /// Of the copy; 0: the weights are read where they are.
  size_t bytes() const { return reorder_.needed() ? wanted_.get_size() : 0; }
  /// Whether both are the same copy.
  bool IsAs(const PackedWeights& other) const { return key_ == other.key_; }
  dnnl::memory Get(Context* context, const ParamView& param) const {
    if (!reorder_.needed()) return context->Memory(wanted_, param.data);
    std::byte* packed =
        param.packed->Get(key_, wanted_.get_size(), param.version,
                          [this, context, data = param.data](std::byte* to) { reorder_.Run(context, data, to); });
    return context->Memory(wanted_, packed);
  }

 private:
  std::string key_;
  dnnl::memory::desc wanted_;
  WeightsReorder reorder_;
};

}  // namespace hp::onednn
