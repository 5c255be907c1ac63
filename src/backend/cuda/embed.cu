#include "backend/cuda/column_sums.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/reorder.h"
#include "backend/cuda/rows.h"
#include "backend/cuda/scratch.h"
#include "backend/embed_rule.h"
#include "backend/layout.h"

#include <cmath>

namespace hp::cuda {
namespace {

/// Reads a row of the table, and the bias where there is one; writes y.
struct LookUp {
  const float *indices, *table, *bias;
  int64_t rows, width;
  float* y;
  HP_HOST_DEVICE void operator()(int64_t at, uint32_t i) const {
    const int64_t row = EmbedRow(indices[at], rows);
    const float value = row < 0 ? NAN : table[row * width + i];
    y[at * width + i] = bias == nullptr || row < 0 ? value : value + bias[i];
  }
};

/// The elements that name one row of the table, as a list in their order: of each element the next one, or `count`; of
/// all but the first of a list -1 - next. What names no row is in the list of row 0.
struct LinkElements {
  const float* indices;
  int64_t rows, count;
  int32_t* next;
  HP_HOST_DEVICE int64_t RowOf(int64_t at) const {
    const int64_t row = EmbedRow(indices[at], rows);
    return row < 0 ? 0 : row;
  }
  HP_HOST_DEVICE void operator()(int64_t at) const {
    const int64_t row = RowOf(at);
    int64_t before = 0, behind = at + 1;
    while (before < at && RowOf(before) != row) ++before;
    while (behind < count && RowOf(behind) != row) ++behind;
    next[at] = static_cast<int32_t>(before == at ? behind : -1 - behind);
  }
};

/// Adds the gradients of a list to its row of the table; by the threads of the list's first element, so that no two
/// write one place.
struct AddRows {
  const float *indices, *d_y;
  const int32_t* next;
  int64_t rows, width, count;
  float* d_table;
  HP_HOST_DEVICE void operator()(int64_t at, uint32_t i) const {
    if (next[at] < 0) return;
    const int64_t row = EmbedRow(indices[at], rows);
    float* const to = d_table + (row < 0 ? 0 : row) * width + i;
    float sum = *to;
    for (int64_t each = at; each < count; each = next[each] < 0 ? -1 - next[each] : next[each]) {
      sum += EmbedRow(indices[each], rows) < 0 ? NAN : d_y[each * width + i];
    }
    *to = sum;
  }
};

/// Scratch: the elements, dense float32, where they are not; the lists; what sums of columns want.
class EmbedOp final : public Op {
 public:
  EmbedOp(const GpuContext& context, const EmbedDesc& desc, const TensorDesc& in)
      : context_(context),
        desc_(desc),
        in_(in),
        dense_{in.shape, 1},
        count_(in.count()),
        foreign_(!SameOrder(in, dense_) || in.element != ElementType::kFloat32) {
    std::vector<int64_t> dims = in.shape.dims();
    dims.push_back(desc.num_output);
    outputs_ = {{Shape(dims), 1}};
    ScratchPlan scratch;
    if (foreign_) scratch.Add(dense_.bytes());
    lists_at_ = scratch.Add(count_ * sizeof(int32_t));
    sums_at_ = scratch.Add(desc.bias ? ColumnSumsScratch(count_, desc.num_output) * sizeof(float) : 0);
    scratch_bytes_ = scratch.bytes();
  }

  void Forward(const OpArgs& args) override {
    const float* const bias = desc_.bias ? args.params[1].data : nullptr;
    ForEachInRows(context_.stream(), count_, desc_.num_output,
                  LookUp{Indices(args), args.params[0].data, bias, desc_.rows, desc_.num_output, args.out[0].floats()});
  }
  void BackwardInput(const OpArgs& args) override {
    if (args.d_in[0].data != nullptr) Sum(context_.stream(), in_, {}, args.d_in[0].data);
  }
  void BackwardParams(const OpArgs& args) override {
    const float *const indices = Indices(args), *const d_y = args.d_out[0].floats();
    const int64_t width = desc_.num_output;
    int32_t* const next = reinterpret_cast<int32_t*>(args.scratch + lists_at_);
    if (!args.accumulate) {
      Clear(context_.stream(), {args.d_params[0], static_cast<size_t>(desc_.rows * width)});
    }
    ForEach(context_.stream(), count_, LinkElements{indices, desc_.rows, count_, next});
    ForEachInRows(context_.stream(), count_, width,
                  AddRows{indices, d_y, next, desc_.rows, width, count_, args.d_params[0]});
    if (!desc_.bias) return;
    ColumnSums(context_.stream(), count_, width, ElementType::kFloat32, d_y, args.accumulate, args.d_params[1],
               ScratchFloats(args.scratch, sums_at_));
  }
  bool backward_reads_output() const override { return false; }

 private:
  const float* Indices(const OpArgs& args) const {
    if (!foreign_) return args.in[0].floats();
    CopyLayout(context_.stream(), in_, args.in[0].data, dense_, args.scratch);
    return reinterpret_cast<const float*>(args.scratch);
  }

  const GpuContext context_;
  const EmbedDesc desc_;
  const TensorDesc in_, dense_;
  const int64_t count_;
  const bool foreign_;
  size_t lists_at_ = 0, sums_at_ = 0;  // in the scratch
};

}  // namespace

StatusOr<Backend::OpPtr> CudaBackend::Embed(const EmbedDesc& desc, const Descs& in) {
  return OpPtr(std::make_unique<EmbedOp>(context_, desc, in[0]));
}

}  // namespace hp::cuda
