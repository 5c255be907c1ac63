#include "backend/cuda/element.h"
#include "backend/cuda/kept_gradients.h"
#include "backend/cuda/parts.h"
#include "backend/cuda/value_place.h"

#include <algorithm>
#include <span>

namespace hp::cuda {
namespace {

constexpr int kMostKept = 48;  // of one launch

/// Writes `to` in order. What it reads in another order is a layer's weights, so small that the cache has the rest of a
/// line when its turn comes.
template <typename T>
struct FinishParts {
  struct Part {
    const T* from;
    float* to;
    ValuePlace place;
    bool add;
  };
  PackRuns<kMostKept> runs;
  Part parts[kMostKept];

  HP_HOST_DEVICE void operator()(int64_t item) const { runs.RunItem(item, *this); }
  template <int W>
  HP_HOST_DEVICE void Run(int of, int64_t i) const {
    const Part& part = parts[of];
    Pack<float, W> sum = {};
    if (part.place.in_order()) {
      sum = ReadPack<W>(part.from + i);
    } else {
      for (int w = 0; w < W; ++w) sum.of[w] = ToFloat(part.from[part.place(i + w)]);
    }
    if (part.add) {
      const Pack<float, W> before = LoadPack<W>(part.to + i);
      for (int w = 0; w < W; ++w) sum.of[w] = before.of[w] + sum.of[w];
    }
    StorePack(part.to + i, sum);
  }
};

template <typename T>
void FinishSome(const GpuStream& stream, std::span<const KeptGradient> gradients) {
  FinishParts<T> finish = {};
  static_assert(sizeof(finish) <= kMostArgumentBytes);
  for (size_t i = 0; i < gradients.size(); ++i) {
    const KeptGradient& gradient = gradients[i];
    finish.parts[i] = {static_cast<const T*>(gradient.from.data), gradient.to, ValuePlace(gradient.from, gradient.n),
                       gradient.add};
    finish.runs.Add(gradient.n, Packable({gradient.from.data, gradient.to}));
  }
  ForEach(stream, finish.runs.items(), finish);
}

}  // namespace

void KeptGradients::BeforeWriting(const void* memory) {
  const auto holds = [memory](const KeptGradient& gradient) { return gradient.from.data == memory; };
  if (std::any_of(kept_.begin(), kept_.end(), holds)) Finish();
}

void KeptGradients::Finish() {
  ForParts<kMostKept>(std::span<const KeptGradient>(kept_), [&](std::span<const KeptGradient> some) {
    const ElementType element = some[0].from.element;  // the library's
    WithElementType(element, [&](auto type) { FinishSome<typename decltype(type)::Type>(stream_, some); });
  });
  kept_.clear();
}

}  // namespace hp::cuda
