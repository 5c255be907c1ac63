// A product, or cosines, of a sample of the classes, whose rows of the weights lie far apart: they are multiplied where
// they are (rows_product.h), so there is never a copy of them. Cosines multiply the outputs by the rows' inverse norms,
// and features by theirs; the formulas of both halves of the backward pass stand in cosine_product.cc.
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/feature_rows.h"
#include "backend/cpu/outer_product.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/row_norms.h"
#include "backend/cpu/rows_product.h"

#include "glog/logging.h"

#include <algorithm>

namespace hp {
namespace {

/// Rows of the weights' gradient that are computed together, a multiple of OuterProductSum's tiles.
constexpr int64_t kSampleRows = 24;

/// Saved: with `normalize` the inverse norms of the rows of the weights, by column. Scratch, in this order: the
/// features, and a copy of them, packed for the weights or for their gradient, or the gradient of the features.
class SampledProductOp final : public Op {
 public:
  SampledProductOp(const SampledProductDesc& desc, const Backend::Descs& in)
      : desc_(desc), features_(in, desc.normalize), rows_(features_.rows()), columns_(features_.columns()) {
    outputs_ = {{Shape{rows_, desc.room}, 1}};
    if (desc.normalize) saved_bytes_ = desc.room * sizeof(float);
    const int64_t packed = std::max(PackedFeatures(rows_, columns_), PackedColumns(rows_, columns_));
    scratch_bytes_ = (features_.floats() + packed) * sizeof(float);
  }

  void Forward(const OpArgs& args) override {
    BringFeatures(args);
    PackFeatures(rows_, columns_, features_.Rows(args), 0, PackedOrGradients(args));
    MultiplyRows(rows_, PackedOrGradients(args), SampledRows(args), SavedNorms(args), args.out[0].floats(), desc_.room);
  }

  void BackwardInput(const OpArgs& args) override {
    BringFeatures(args);
    float* const gradient = PackedOrGradients(args);
    SumRows(rows_, args.d_out[0].floats(), desc_.room, SampledRows(args), SavedNorms(args), gradient, columns_);
    features_.StoreGradients(args, gradient);
  }

  /// Of one batch's rows. Its classes are the first rows of the gradient where nothing is there before: then it is the
  /// update's first batch.
  void BackwardParams(const OpArgs& args) override {
    BeginParamsRows(args);
    const BatchSample& sample = *args.sample;
    const int64_t pieces = (sample.drawn + kSampleRows - 1) / kSampleRows;
    const int64_t labels = sample.columns() - sample.drawn;
    if (!args.accumulate) std::fill_n(args.d_params[0] + sample.drawn * columns_, LabelFloats(sample.drawn), 0.0f);
    ForItems(pieces + labels, rows_ * sample.columns() * columns_, [&](int64_t i) {
      const int64_t first = i < pieces ? i * kSampleRows : sample.drawn + i - pieces;
      const int64_t count = i < pieces ? std::min(kSampleRows, sample.drawn - first) : 1;
      const Rows rows = {sample.classes.data() + first, count,
                         args.d_params[0] + sample.gradient_rows[first] * columns_};
      AddGradient(args, rows, args.accumulate, [&](bool add) {
        AddOuter(args, {0, rows_}, first, rows, add);
        return true;
      });
    });
  }

  bool has_params_rows() const override { return true; }
  void BeginParamsRows(const OpArgs& args) override {
    BringFeatures(args);
    PackColumns(rows_, columns_, features_.Rows(args), PackedOrGradients(args));
  }
  void BackwardParamsRows(const OpArgs& args, int64_t begin, int64_t end, float* d_weights, float*) const override {
    const UpdateSample& sample = *args.update_sample;
    int64_t count = 0;
    for (int64_t first = begin; first < end; first += count) {
      const bool drawn = first < sample.drawn;
      count = drawn ? std::min({kSampleRows, end - first, sample.drawn - first}) : 1;
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

  float* PackedOrGradients(const OpArgs& args) const {
    return reinterpret_cast<float*>(args.scratch) + features_.floats();
  }
  float* SavedNorms(const OpArgs& args) const {
    return desc_.normalize ? reinterpret_cast<float*>(args.saved) : nullptr;
  }
  const float* Weights(const OpArgs& args, int64_t class_index) const {
    return args.params[0].data + class_index * columns_;
  }
  int64_t LabelFloats(int64_t drawn) const { return (desc_.room - drawn) * columns_; }

  void BringFeatures(const OpArgs& args) const {
    CHECK(args.sample != nullptr || args.update_sample != nullptr) << "no sample of the classes";
    features_.Bring(args);
  }

  /// Those of the columns of the batch.
  WeightRows SampledRows(const OpArgs& args) const {
    const BatchSample& sample = *args.sample;
    CHECK_LE(sample.columns(), desc_.room) << "classes of a batch";
    return {args.params[0].data, columns_, columns_, sample.classes.data(), sample.columns()};
  }

  /// Adds what rows [range.begin, range.end) of a column and its neighbours give.
  void AddOuter(const OpArgs& args, const Range& range, int64_t column, const Rows& rows, bool add) const {
    OuterProductSum({PackedOrGradients(args), rows_, columns_}, range, rows.count,
                    args.d_out[0].floats() + range.begin * desc_.room + column, desc_.room, rows.gradient, columns_,
                    add);
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
    float inverse_norms[kSampleRows];
    double kept[kSampleRows] = {};
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
  const FeatureRows features_;
  const int64_t rows_, columns_;
};

}  // namespace

StatusOr<Backend::OpPtr> CpuBackend::SampledProduct(const SampledProductDesc& desc, const Descs& in) {
  return Backend::OpPtr(std::make_unique<SampledProductOp>(desc, in));
}

}  // namespace hp
