// A product, or cosines, of a sample of the classes. Rows of the weights that a sample has lie far apart: they are
// gathered a tile at a time, which is then multiplied while a cache holds it, so there is never a copy of all of them.
// Cosines multiply the gathered rows by their inverse norms, and features by theirs; the formulas of both halves of the
// backward pass stand in cosine_product.cc.
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/input_rows.h"
#include "backend/cpu/outer_product.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/row_norms.h"

#include "glog/logging.h"

#include <algorithm>

namespace hp {
namespace {

/// Weights of one tile: 1 MiB, but no fewer rows than a product wants.
constexpr int64_t kTileFloats = 262144, kLeastTileRows = 128;
/// Rows of the weights' gradient that are computed together, a multiple of OuterProductSum's tiles.
constexpr int64_t kGradientRows = 24;

/// Scratch, in this order: the inputs' copies; the features side by side, normalised or not; their inverse norms; their
/// gradient; a tile of weights; the tile's outputs, transposed.
class SampledProductOp final : public Op {
 public:
  SampledProductOp(const SampledProductDesc& desc, const Backend::Descs& in)
      : desc_(desc),
        inputs_(in),
        rows_(inputs_.rows()),
        columns_(inputs_.columns()),
        tile_rows_(std::min(desc.room, std::max(kLeastTileRows, kTileFloats / columns_))) {
    outputs_ = {{Shape{rows_, desc.room}, 1}};
    scratch_bytes_ = (inputs_.floats() + rows_ * (2 * columns_ + 1) + tile_rows_ * (columns_ + rows_)) * sizeof(float);
  }

  void Forward(const OpArgs& args) override {
    BringFeatures(args);
    ForTiles(args, [&](int64_t begin, int64_t count) {
      Gemm('N', 'T', count, rows_, columns_, Tile(args), columns_, Features(args), columns_, false, TileOutputs(args),
           rows_);
      ForItems(rows_, rows_ * count, [&](int64_t row) {
        float* const y = args.out[0].floats() + row * desc_.room + begin;
        for (int64_t c = 0; c < count; ++c) y[c] = TileOutputs(args)[c * rows_ + row];
      });
    });
  }

  void BackwardInput(const OpArgs& args) override {
    BringFeatures(args);
    float* const gradient = FeatureGradients(args);
    std::fill_n(gradient, rows_ * columns_, 0.0f);
    ForTiles(args, [&](int64_t begin, int64_t count) {
      Gemm('N', 'N', rows_, columns_, count, args.d_out[0].floats() + begin, desc_.room, Tile(args), columns_, true,
           gradient, columns_);
    });
    ForItems(rows_, rows_ * columns_, [&](int64_t row) {
      float* const of_row = gradient + row * columns_;
      if (desc_.normalize) {
        const float* const x = Features(args) + row * columns_;
        ProjectRow(x, static_cast<float>(RowDot(x, of_row, columns_)), FeatureNorms(args)[row], columns_, of_row);
      }
      for (size_t i = 0; i < inputs_.blocks().size(); ++i) {
        const InputRows::Block& block = inputs_.blocks()[i];
        if (args.d_in[i].data == nullptr) continue;
        std::copy_n(of_row + block.first, block.columns, inputs_.GradientRows(args, i) + row * block.columns);
      }
    });
    for (size_t i = 0; i < args.d_in.size(); ++i) {
      if (args.d_in[i].data != nullptr) inputs_.StoreGradient(args, i);
    }
  }

  /// Of one batch's rows. Its classes are the first rows of the gradient where nothing is there before: then it is the
  /// update's first batch.
  void BackwardParams(const OpArgs& args) override {
    BringFeatures(args);
    const BatchSample& sample = *args.sample;
    const int64_t pieces = (sample.drawn + kGradientRows - 1) / kGradientRows;
    const int64_t labels = sample.columns() - sample.drawn;
    if (!args.accumulate) std::fill_n(args.d_params[0] + sample.drawn * columns_, LabelFloats(sample.drawn), 0.0f);
    ForItems(pieces + labels, rows_ * sample.columns() * columns_, [&](int64_t i) {
      const int64_t first = i < pieces ? i * kGradientRows : sample.drawn + i - pieces;
      const int64_t count = i < pieces ? std::min(kGradientRows, sample.drawn - first) : 1;
      const Rows rows = {sample.classes.data() + first, count,
                         args.d_params[0] + sample.gradient_rows[first] * columns_};
      AddGradient(args, rows, args.accumulate, [&](bool add) {
        AddOuter(args, {0, rows_}, first, rows, add);
        return true;
      });
    });
  }

  bool has_params_rows() const override { return true; }
  void BeginParamsRows(const OpArgs& args) override { BringFeatures(args); }
  void BackwardParamsRows(const OpArgs& args, int64_t begin, int64_t end, float* d_weights, float*) const override {
    const UpdateSample& sample = *args.update_sample;
    int64_t count = 0;
    for (int64_t first = begin; first < end; first += count) {
      const bool drawn = first < sample.drawn;
      count = drawn ? std::min({kGradientRows, end - first, sample.drawn - first}) : 1;
      const Rows rows = {sample.classes.data() + first, count, d_weights + (first - begin) * columns_};
      AddGradient(args, rows, args.accumulate, [&](bool add) {
        if (!drawn) return AddLabel(args, rows, add);
        AddOuter(args, {0, rows_}, first, rows, add);
        return true;
      });
    }
  }

  bool backward_reads_output() const override { return false; }

 private:
  /// Rows of the weights, and where their gradients, neighbours, go.
  struct Rows {
    const int64_t* classes;
    int64_t count;
    float* gradient;
  };

  float* Features(const OpArgs& args) const { return reinterpret_cast<float*>(args.scratch) + inputs_.floats(); }
  float* FeatureNorms(const OpArgs& args) const { return Features(args) + rows_ * columns_; }
  float* FeatureGradients(const OpArgs& args) const { return FeatureNorms(args) + rows_; }
  float* Tile(const OpArgs& args) const { return FeatureGradients(args) + rows_ * columns_; }
  float* TileOutputs(const OpArgs& args) const { return Tile(args) + tile_rows_ * columns_; }
  const float* Weights(const OpArgs& args, int64_t class_index) const {
    return args.params[0].data + class_index * columns_;
  }
  int64_t LabelFloats(int64_t drawn) const { return (desc_.room - drawn) * columns_; }

  void BringFeatures(const OpArgs& args) const {
    CHECK(args.sample != nullptr || args.update_sample != nullptr) << "no sample of the classes";
    inputs_.Bring(args);
    ForItems(rows_, rows_ * columns_, [&](int64_t row) {
      float* const x = Features(args) + row * columns_;
      inputs_.CopyRow(args, row, x);
      if (!desc_.normalize) return;
      FeatureNorms(args)[row] = InverseNorm(x, columns_);
      ScaleRow(FeatureNorms(args)[row], columns_, x);
    });
  }

  /// Calls use(begin, count) for all columns of the batch, a few at a time, with their weights in Tile.
  template <typename Use>
  void ForTiles(const OpArgs& args, const Use& use) const {
    const BatchSample& sample = *args.sample;
    CHECK_LE(sample.columns(), desc_.room) << "classes of a batch";
    for (int64_t begin = 0; begin < sample.columns(); begin += tile_rows_) {
      const int64_t count = std::min(tile_rows_, sample.columns() - begin);
      ForItems(count, count * columns_, [&](int64_t c) {
        float* const w = Tile(args) + c * columns_;
        std::copy_n(Weights(args, sample.classes[begin + c]), columns_, w);
        if (desc_.normalize) ScaleRow(InverseNorm(w, columns_), columns_, w);
      });
      use(begin, count);
    }
  }

  /// Adds what rows [range.begin, range.end) of a column and its neighbours give.
  void AddOuter(const OpArgs& args, const Range& range, int64_t column, const Rows& rows, bool add) const {
    OuterProductSum(range.size(), rows.count, columns_, args.d_out[0].floats() + range.begin * desc_.room + column,
                    desc_.room, Features(args) + range.begin * columns_, columns_, rows.gradient, columns_, add);
  }

  /// The gradient of a label that was not drawn, over the batches that have it. @return false: none has.
  bool AddLabel(const OpArgs& args, const Rows& rows, bool add) const {
    const UpdateSample& sample = *args.update_sample;
    const int64_t of_batch = rows_ / sample.count;
    bool added = false;
    for (int64_t b = 0; b < std::ssize(sample.batches); ++b) {
      const int64_t column = sample.batches[b].ColumnOf(rows.classes[0]);
      if (column < 0) continue;
      AddOuter(args, {b * of_batch, (b + 1) * of_batch}, column, rows, add || added);
      added = true;
    }
    return added;
  }

  /// Calls add_products(add), which adds the products to rows.gradient or overwrites it, and with `normalize` brings
  /// them back through the weights' norms. What was there is kept as CosineProduct keeps it.
  template <typename AddProducts>
  void AddGradient(const OpArgs& args, const Rows& rows, bool add, const AddProducts& add_products) const {
    if (!desc_.normalize) {
      CHECK(add_products(add)) << "a row of the gradient that no batch has";
      return;
    }
    float inverse_norms[kGradientRows];
    double kept[kGradientRows] = {};
    for (int64_t o = 0; o < rows.count; ++o) {
      const float* const w = Weights(args, rows.classes[o]);
      inverse_norms[o] = InverseNorm(w, columns_);
      if (!add) continue;
      float* const before = rows.gradient + o * columns_;
      for (int64_t i = 0; i < columns_; ++i) before[i] /= inverse_norms[o];
      kept[o] = RowDot(w, before, columns_);
    }
    CHECK(add_products(add)) << "a row of the gradient that no batch has";
    for (int64_t o = 0; o < rows.count; ++o) {
      const float* const w = Weights(args, rows.classes[o]);
      float* const gradient = rows.gradient + o * columns_;
      const double square = static_cast<double>(inverse_norms[o]) * inverse_norms[o];
      const double along = (RowDot(w, gradient, columns_) - kept[o]) * square;
      ProjectRow(w, static_cast<float>(along), inverse_norms[o], columns_, gradient);
    }
  }

  const SampledProductDesc desc_;
  const InputRows inputs_;
  const int64_t rows_, columns_, tile_rows_;
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::SampledProduct(const SampledProductDesc& desc, const Descs& in) {
  return Backend::OpPtr(std::make_unique<SampledProductOp>(desc, in));
}

}  // namespace hp
