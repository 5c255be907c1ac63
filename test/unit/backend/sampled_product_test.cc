// Products of a sample of the classes beside their formulas in double, and beside the op of all classes.
#include "test/unit/backend/product_test_util.h"

#include <optional>

namespace hp::test {
namespace {

using Doubles = std::vector<double>;

const float kNaN = std::nanf("");
constexpr float kTolerance = 8e-5f;  // two sums of up to 2100 products, in different orders

/// What a product with the classes of one batch is to yield, and the gradient of each of their rows.
struct Reference {
  Doubles y, dx, dw;

  /// @param x [rows, columns]. @param w [classes, columns]. @param dy [rows, classes].
  Reference(const Values& x, const Values& w, const Values& dy, int64_t rows, bool normalize) {
    const int64_t columns = std::ssize(x) / rows, classes = std::ssize(w) / columns;
    const Doubles of_x = Inverse(x, columns, normalize), of_w = Inverse(w, columns, normalize);
    Doubles h(x.size()), g(w.size());
    for (int64_t n = 0; n < rows; ++n) {
      for (int64_t o = 0; o < classes; ++o) {
        double sum = 0;
        for (int64_t i = 0; i < columns; ++i) {
          const double a = of_x[n] * x[n * columns + i], b = of_w[o] * w[o * columns + i];
          sum += a * b;
          h[n * columns + i] += dy[n * classes + o] * b;
          g[o * columns + i] += dy[n * classes + o] * a;
        }
        y.push_back(sum);
      }
    }
    dx = normalize ? Back(x, of_x, h) : h;
    dw = normalize ? Back(w, of_w, g) : g;
  }

  static Doubles Inverse(const Values& rows, int64_t columns, bool normalize) {
    Doubles inverse;
    for (size_t begin = 0; begin < rows.size(); begin += columns) {
      double sum = 0;
      for (int64_t i = 0; i < columns; ++i) sum += double{rows[begin + i]} * rows[begin + i];
      inverse.push_back(normalize ? 1 / std::max(std::sqrt(sum), 1e-12) : 1);
    }
    return inverse;
  }
  static Doubles Back(const Values& rows, const Doubles& inverse, const Doubles& gradient) {
    const int64_t columns = std::ssize(rows) / std::ssize(inverse);
    Doubles back(gradient);
    for (int64_t row = 0; row < std::ssize(inverse); ++row) {
      const int64_t begin = row * columns, end = begin + columns;
      double along = 0;
      for (int64_t i = begin; i < end; ++i) along += inverse[row] * rows[i] * gradient[i];
      for (int64_t i = begin; i < end; ++i) back[i] = inverse[row] * (gradient[i] - along * inverse[row] * rows[i]);
    }
    return back;
  }
};

/// Every third class is drawn; of the others batch 0 has the first as a label, batch 1 the last.
UpdateSample TwoBatches(int64_t classes) {
  UpdateSample update;
  for (int64_t c = 1; c < classes; c += 3) update.classes.push_back(c);
  update.drawn = update.rows();
  update.count = 2;
  int64_t last = classes - 1;
  if (last % 3 == 1) --last;
  for (const int64_t label : {int64_t{0}, last}) {
    BatchSample batch{update.drawn, {update.classes.begin(), update.classes.begin() + update.drawn}, {}};
    for (int64_t row = 0; row < update.drawn; ++row) batch.gradient_rows.push_back(row);
    batch.classes.push_back(label);
    const auto known = std::find(update.classes.begin() + update.drawn, update.classes.end(), label);
    batch.gradient_rows.push_back(known - update.classes.begin());
    if (known == update.classes.end()) update.classes.push_back(label);
    update.batches.push_back(std::move(batch));
  }
  return update;
}

class SampledProductTest : public testing::TestWithParam<std::tuple<ProductCase, bool>> {
 protected:
  SampledProductTest()
      : case_(std::get<0>(GetParam())), normalize_(std::get<1>(GetParam())), update_(TwoBatches(case_.num_output)) {
    room_ = update_.rows() + 2;
  }

  /// An op for the case's rows, or for those of two batches one behind the other.
  void Make(int batches) {
    Backend::Descs descs = case_.Supported();
    for (TensorDesc& desc : descs) desc.shape = desc.shape.With(0, batches * case_.rows());
    auto op = UnderTest().backend->SampledProduct(
        {.num_output = case_.num_output, .room = room_, .normalize = normalize_}, descs);
    ASSERT_TRUE(op.ok()) << op.status();
    op_ = std::move(op).value();
    ASSERT_EQ(op_->outputs()[0], (TensorDesc{Shape{batches * case_.rows(), room_}, 1}));
    const Shape weights = {std::max(room_, case_.num_output), case_.columns()};
    runner_.emplace(op_.get(), descs, std::vector<Shape>{weights});
    weights_ = RandomValues(weights.count(), 20);
    runner_->SetParam(0, weights_);
    runner_->UseSample(&update_, 0);
  }
  /// Sets inputs and the output's gradient to those of batches [begin, end).
  void Set(int begin, int end) {
    for (size_t i = 0; i < case_.in.size(); ++i) {
      runner_->SetInput(static_cast<int>(i),
                        Joined(begin, end, [&](int b) { return InputOf(b, static_cast<int>(i)); }));
    }
    runner_->SetOutputGradient(0, Joined(begin, end, [&](int b) { return InRoom(b, OutputGradientOf(b), kNaN); }));
  }
  Values InputOf(int batch, int input) const {
    return RandomValues(case_.in[input].count(), static_cast<uint32_t>(100 * batch + input), -2, 2);
  }
  /// [rows, columns of the batch].
  Values OutputGradientOf(int batch) const {
    return RandomValues(case_.rows() * update_.batches[batch].columns(), static_cast<uint32_t>(batch + 50));
  }
  /// Rows of a batch's columns as rows of `room_`, with `rest` behind them.
  Values InRoom(int batch, const Values& rows, float rest) const {
    const int64_t columns = update_.batches[batch].columns();
    Values in_room;
    for (size_t begin = 0; begin < rows.size(); begin += columns) {
      in_room.insert(in_room.end(), rows.begin() + begin, rows.begin() + begin + columns);
      in_room.insert(in_room.end(), room_ - columns, rest);
    }
    return in_room;
  }
  template <typename Get>
  static Values Joined(int begin, int end, const Get& get) {
    Values joined;
    for (int batch = begin; batch < end; ++batch) {
      const Values of_batch = get(batch);
      joined.insert(joined.end(), of_batch.begin(), of_batch.end());
    }
    return joined;
  }
  Reference Wanted(int batch) const {
    Values w;
    for (const int64_t c : update_.batches[batch].classes) {
      w.insert(w.end(), weights_.begin() + c * case_.columns(), weights_.begin() + (c + 1) * case_.columns());
    }
    return {case_.SideBySide([&](int i) { return InputOf(batch, i); }), w, OutputGradientOf(batch), case_.rows(),
            normalize_};
  }
  /// The gradient of batches [0, end), [room, columns].
  Values WantedGradient(int end) const {
    const int64_t columns = case_.columns();
    Doubles sum(room_ * columns);
    for (int b = 0; b < end; ++b) {
      const Reference want = Wanted(b);
      for (int64_t c = 0; c < update_.batches[b].columns(); ++c) {
        const int64_t row = update_.batches[b].gradient_rows[c];
        for (int64_t i = 0; i < columns; ++i) sum[row * columns + i] += want.dw[c * columns + i];
      }
    }
    return {sum.begin(), sum.end()};
  }
  /// The first `room_` rows.
  Values Gradient() const {
    const Values all = runner_->ParamGradient(0);
    return {all.begin(), all.begin() + room_ * case_.columns()};
  }

  const ProductCase case_;
  const bool normalize_;
  UpdateSample update_;
  int64_t room_ = 0;
  Values weights_;
  std::unique_ptr<Op> op_;
  std::optional<OpRunner> runner_;
};

TEST_P(SampledProductTest, EachBatchIsItsFormula) {
  Make(1);
  for (int batch : {0, 1}) {
    const Reference want = Wanted(batch);
    Set(batch, batch + 1);
    runner_->UseSample(&update_, batch);
    runner_->Forward();
    Values got = InRoom(batch, {want.y.begin(), want.y.end()}, 0);
    const Values output = runner_->Output();
    for (size_t i = 0; i < got.size(); ++i) {
      const bool column = static_cast<int64_t>(i) % room_ < update_.batches[batch].columns();
      got[i] = column ? output[i] : 0;
    }
    ExpectNear(got, InRoom(batch, {want.y.begin(), want.y.end()}, 0), kTolerance, "output");
    runner_->BackwardInput();
    ExpectNear(case_.SideBySide([this](int i) { return runner_->InputGradient(i); }), {want.dx.begin(), want.dx.end()},
               kTolerance, "input's gradient");
  }
}

// Rows of the gradient that no class has are zero: an exchange adds them up, and norms count them.
TEST_P(SampledProductTest, BatchesAddUpInTheRowsOfTheUpdate) {
  Make(1);
  for (int batch : {0, 1}) {
    Set(batch, batch + 1);
    runner_->UseSample(&update_, batch);
    runner_->Forward();
    runner_->BackwardParams(/*accumulate=*/batch > 0);
    ExpectNear(Gradient(), WantedGradient(batch + 1), kTolerance, "weights' gradient");
  }
}

// A replica may have its first micro-batch in any batch of the update.
TEST_P(SampledProductTest, AnyBatchMayBeTheFirst) {
  Make(1);
  for (int batch : {1, 0}) {
    Set(batch, batch + 1);
    runner_->UseSample(&update_, batch);
    runner_->Forward();
    runner_->BackwardParams(/*accumulate=*/batch == 0);
  }
  ExpectNear(Gradient(), WantedGradient(2), kTolerance, "weights' gradient");
}

TEST_P(SampledProductTest, PiecesOfAWholeUpdate) {
  Make(2);
  ASSERT_TRUE(op_->has_params_rows());
  const int64_t columns = case_.columns(), rows = update_.rows();
  const Values all = WantedGradient(2);
  const Values want(all.begin(), all.begin() + rows * columns);
  Set(0, 2);
  runner_->Forward();
  WriteTensor(runner_->d_out()[0], Joined(0, 2, [&](int b) { return InRoom(b, OutputGradientOf(b), kNaN); }));
  Values first;
  for (int64_t step : {1, 5, 24, 1000}) {
    Values got(rows * columns, kNaN);
    runner_->Call([&](OpArgs args) {
      args.d_params = {};
      args.saved = nullptr;
      op_->BeginParamsRows(args);
      for (int64_t begin = 0; begin < rows; begin += step) {
        op_->BackwardParamsRows(args, begin, std::min(begin + step, rows), got.data() + begin * columns, nullptr);
      }
    });
    ExpectNear(got, want, kTolerance, "weights' gradient");
    if (step == 1) first = got;
    EXPECT_EQ(got, first) << step;
  }
}

TEST_P(SampledProductTest, OfAllClassesIsTheWholeProduct) {
  update_ = {};
  for (int64_t c = 0; c < case_.num_output; ++c) update_.classes.push_back(c);
  update_.drawn = update_.rows();
  update_.batches = {{update_.drawn, update_.classes, update_.classes}};
  room_ = case_.num_output;
  Make(1);
  auto whole = normalize_ ? UnderTest().backend->CosineProduct({.num_output = case_.num_output}, case_.Supported())
                          : UnderTest().backend->InnerProduct({.num_output = case_.num_output, .bias = false},
                                                              case_.Supported());
  ASSERT_TRUE(whole.ok()) << whole.status();
  OpRunner beside(whole->get(), case_.Supported(), {{case_.num_output, case_.columns()}});
  beside.SetParam(0, weights_);
  Set(0, 1);
  for (int i = 0; i < beside.inputs(); ++i) beside.SetInput(i, runner_->input(i));
  beside.SetOutputGradient(0, OutputGradientOf(0));
  for (OpRunner* runner : {&beside, &*runner_}) runner->Forward();
  ExpectNear(runner_->Output(), beside.Output(), kTolerance, "output");
  for (OpRunner* runner : {&beside, &*runner_}) {
    runner->BackwardInput();
    runner->BackwardParams();
  }
  for (int i = 0; i < beside.inputs(); ++i) {
    ExpectNear(runner_->InputGradient(i), beside.InputGradient(i), kTolerance, "input's gradient");
  }
  ExpectNear(runner_->ParamGradient(0), beside.ParamGradient(0), kTolerance, "weights' gradient");
}

TEST(BatchSample, FindsDrawnClassesAndLabels) {
  const BatchSample batch{3, {2, 5, 9, 0, 7}, {}};
  EXPECT_EQ(batch.columns(), 5);
  int64_t column = 0;
  for (const int64_t label : batch.classes) EXPECT_EQ(batch.ColumnOf(label), column++);
  for (const int64_t other : {-1, 1, 4, 8, 10}) EXPECT_EQ(batch.ColumnOf(other), -1);
}

std::string NameOfBoth(const testing::TestParamInfo<std::tuple<ProductCase, bool>>& info) {
  const testing::TestParamInfo<ProductCase> of_case(std::get<0>(info.param), info.index);
  return NameOf(of_case) + (std::get<1>(info.param) ? "_cosines" : "_logits");
}

INSTANTIATE_TEST_SUITE_P(Cases, SampledProductTest, testing::Combine(testing::ValuesIn(kProductCases), testing::Bool()),
                         NameOfBoth);

/// Several tiles, the last of them short, and threads that share them.
const ProductCase kTiles[] = {{"tiles", {{{3, 1100}, 1}}, 900}};
INSTANTIATE_TEST_SUITE_P(Tiles, SampledProductTest, testing::Combine(testing::ValuesIn(kTiles), testing::Bool()),
                         NameOfBoth);

}  // namespace
}  // namespace hp::test
