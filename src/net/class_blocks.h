#pragma once

#include "backend/op.h"
#include "hp/status.h"
#include "layers/op_factories.h"
#include "layers/traits/layer_traits.h"

#include <memory>
#include <vector>

namespace hp {

/// A loss or an accuracy of the classes that a block is of.
struct ClassReader {
  const LayerTraits* traits = nullptr;  ///< with a class_split()
  /// Whether only its numbers of the classes here are wanted (OpContext::kClasses); else the classes here are all that
  /// there are, and its statistic is.
  bool numbers_alone = false;
};

/// What MakeClassBlocks makes an op of.
struct ClassBlocks {
  const OpFactories& ops;      ///< used by MakeClassBlocks alone
  const OpContext& context;    ///< of `product`: its channels are the classes, its sample_room the classes of a block
  const LayerTraits& product;  ///< a layer with a sample_rate
  const std::vector<ClassReader>& readers;
  const std::vector<TensorDesc>& in;  ///< of `product`
};

/// An op for tests alone: the outputs of `readers`, from the inputs and parameters of `product`, whose own output it
/// has for one block of classes at a time, in scratch. So its memory does not grow with rows * classes. Results are
/// those of the layers one by one, up to rounding.
/// @return errors of the factories.
StatusOr<std::unique_ptr<Op>> MakeClassBlocks(const ClassBlocks& blocks);

}  // namespace hp
