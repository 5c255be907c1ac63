#include "backend/cpu/reorder.h"
#include "test/support/elements.h"
#include "test/unit/backend/op_cases.h"

#include <algorithm>
#include <cmath>
#include <cstring>

// Ops of the CPU on bfloat16, beside the same ops on float32 that read the same numbers.
namespace hp::test {
namespace {

class OnBFloat16 : public testing::TestWithParam<TypedCase> {};

bool Multiplies(const OpCase& c) { return std::strstr(c.name, "convolution") != nullptr; }

/// Ops that have loops of their own for it, which others' outputs do not show.
bool ReadsAndWritesIt(const std::string& name) {
  for (const char* op : {"max_",   "average", "lrn_across", "batch_norm", "scale_",      "bias_",        "prelu",
                         "concat", "slice",   "crop",       "tile",       "eltwise",     "split",        "flatten",
                         "relu",   "elu",     "absolute",   "linear",     "convolution", "deconvolution"}) {
    const bool from_an_input = name.find("input") != std::string::npos || name.find("of_units") != std::string::npos;
    if (name.starts_with(op) && !from_an_input) return true;
  }
  return false;
}

/// @param tolerance relative to the largest value.
void ExpectNearOfItsSize(Values got, Values want, float tolerance, const std::string& what) {
  float largest = 0;
  for (const float value : want) largest = std::max(largest, std::fabs(value));
  if (largest == 0) largest = 1;
  for (Values* values : {&got, &want}) {
    for (float& value : *values) value /= largest;
  }
  ExpectNear(got, want, tolerance, what);
}

TEST_P(OnBFloat16, ComputesWhatFloatsDo) {
  const TypedCase& c = GetParam();
  if (Multiplies(c.c) && !CpuMultipliesBFloat16()) GTEST_SKIP() << "no AVX512_BF16 here";
  const std::unique_ptr<Device> device = MakeHostDevice();
  const std::unique_ptr<Backend> backend = MakeCpuBackend(ElementType::kBFloat16), floats = MakeCpuBackend();
  OpBench got(device.get(), backend.get(), c.c, c.in(), c.element);
  OpBench want(device.get(), floats.get(), c.c, c.c.in, c.element);
  if (!c.first_is_float32 && ReadsAndWritesIt(c.c.name)) {
    EXPECT_EQ(got.output_element(), ElementType::kBFloat16);
  }
  for (const uint32_t seed : {1, 2}) {
    for (OpBench* bench : {&got, &want}) bench->Load(seed), bench->Call();
    const std::vector<Values> results = got.Results(), expected = want.Results();
    ASSERT_EQ(results.size(), expected.size());
    for (size_t i = 0; i < results.size(); ++i) {
      ExpectNearOfItsSize(results[i], expected[i], c.tolerance(), "result " + std::to_string(i));
    }
  }
}

std::vector<TypedCase> TypedCases() {
  std::vector<TypedCase> cases;
  for (const OpCase& c : OpCases()) {
    cases.push_back({c, ElementType::kBFloat16});
    if (c.in.size() > 1) cases.push_back({c, ElementType::kBFloat16, true});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Ops, OnBFloat16, testing::ValuesIn(TypedCases()),
                         [](const auto& info) { return info.param.name(); });

/// Layouts of the CPU alone, to and from each other in all types.
TEST(BFloat16, IsCopiedBetweenAllLayouts) {
  const Shape shape = {2, 32, 5, 3};
  const Values values = RandomValues(shape.count(), 1);
  for (const int64_t from_block : {1, 8, 16, 32}) {
    for (const int64_t to_block : {1, 8, 16, 32}) {
      for (const ElementType from : {ElementType::kFloat32, ElementType::kBFloat16}) {
        for (const ElementType to : {ElementType::kFloat32, ElementType::kBFloat16}) {
          const TensorDesc source{shape, from_block, from}, target{shape, to_block, to};
          Values in(values.size()), out(values.size());
          WriteTensor({source, in.data()}, values);
          CopyLayout(source, in.data(), target, out.data());
          Values want = values;
          for (float& value : want) value = Rounded(to, Rounded(from, value));
          EXPECT_EQ(ReadTensor({target, out.data()}), want) << from_block << " to " << to_block;
        }
      }
    }
  }
}

/// Readers' gradients are added in float32 before they are rounded: 1 + 2^-8 is a tie, and 1 + 2^-8 + 2^-8 is not.
TEST(BFloat16, SumsOfReadersAreRoundedOnce) {
  const std::unique_ptr<Backend> backend = MakeCpuBackend(ElementType::kBFloat16);
  const TensorDesc desc{{2, 16, 3, 1}, 16, ElementType::kBFloat16};
  Values large(desc.count()), small(desc.count()), sum(desc.count()), scratch(desc.count());
  WriteTensor({{desc.shape, 1}, large.data()}, Values(desc.count(), 1.0f));
  WriteTensor({{desc.shape, 1}, small.data()}, Values(desc.count(), 1.0f / 256));
  const auto op = backend->Export(3, ElementType::kFloat32, {desc}).value();
  ASSERT_LE(op->scratch_bytes(), scratch.size() * sizeof(float));
  const TensorDesc wire{desc.shape, 1};
  const Tensor d_out[] = {{wire, large.data()}, {wire, small.data()}, {wire, small.data()}};
  const Tensor d_in[] = {{desc, sum.data()}};
  OpArgs args;
  args.d_out = d_out, args.d_in = d_in, args.scratch = reinterpret_cast<std::byte*>(scratch.data());
  op->BackwardInput(args);
  EXPECT_EQ(ReadTensor(d_in[0]), Values(desc.count(), 1.0f + 1.0f / 128));
}

}  // namespace
}  // namespace hp::test
