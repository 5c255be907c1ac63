#include "solvers/param_store.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace hp {
namespace {

std::vector<StoredParam> Params() {
  return {
      {.layer = "conv1", .blob = 0, .whole = {3, 2, 5, 5}},
      {.layer = "conv1", .blob = 1, .whole = {3}, .lr_mult = 2, .decay_mult = 0},
      {.layer = "frozen", .blob = 0, .whole = {7, 3}, .lr_mult = 0},
      {.layer = "fc6", .blob = 0, .whole = {10, 33}, .block = {4, 7, 0, 33}, .keeps_gradient = false},
      {.layer = "fc6", .blob = 1, .whole = {10}, .block = {4, 7, 0, 1}},
  };
}

TEST(ParamStore, HoldsTheRowsThatAreHere) {
  const ParamStore store(Params());
  ASSERT_EQ(store.size(), 5);
  EXPECT_EQ(store.param(0).name(), "conv1.0");
  EXPECT_EQ(store.param(0).local(), Shape({3, 2, 5, 5}));
  EXPECT_EQ(store.param(3).local(), Shape({3, 33}));
  EXPECT_EQ(store.count(0), 150);
  EXPECT_EQ(store.count(3), 99);
  EXPECT_EQ(store.count(4), 3);
  EXPECT_EQ(store.Find("fc6", 1), 4);
  EXPECT_EQ(store.Find("fc6", 2), -1);
  EXPECT_EQ(store.Find("fc7", 0), -1);
}

TEST(ParamStore, EveryArrayIsItsOwnAlignedAndZero) {
  const ParamStore store(Params());
  std::vector<std::span<float>> all;
  for (int i = 0; i < store.size(); ++i) {
    for (std::span<float> array : {store.values(i), store.gradient(i), store.history(i, 1)}) {
      if (!array.empty()) all.push_back(array);
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(all[i].data()) % 64, 0u);
    for (float& value : all[i]) {
      EXPECT_EQ(value, 0) << "written before, as part of another array";
      value = static_cast<float>(i + 1);
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_THAT(all[i], testing::Each(static_cast<float>(i + 1)));
  }
}

TEST(ParamStore, KeepsNoArrayThatNobodyNeeds) {
  const ParamStore store(Params());
  EXPECT_TRUE(store.param(2).frozen());
  EXPECT_TRUE(store.gradient(2).empty());
  EXPECT_TRUE(store.history(2, 1).empty());
  EXPECT_TRUE(store.gradient(3).empty());
  EXPECT_EQ(store.history(3, 1).size(), 99u);
  EXPECT_EQ(store.gradient(4).size(), 3u);
  EXPECT_EQ(ParamStore::BytesFor(Params()), store.bytes());
  // Values, gradients and histories, each rounded up to 16 floats.
  EXPECT_EQ(store.bytes(), 4u * ((160 + 16 + 32 + 112 + 16) + (160 + 16 + 16) + (160 + 16 + 112 + 16)));
}

TEST(ParamStore, FillsTheSliceOfAShard) {
  ParamStore store(Params());
  std::vector<std::pair<std::string, Block>> calls;
  const Status filled = store.Fill([&](const StoredParam& param, float* out) {
    calls.emplace_back(param.name(), param.block);
    for (int64_t i = 0; i < param.block.count(); ++i) out[i] = static_cast<float>(i);
  });
  EXPECT_TRUE(filled.ok());
  EXPECT_THAT(calls,
              testing::ElementsAre(std::pair("conv1.0", Block{0, 3, 0, 50}), std::pair("conv1.1", Block{0, 3, 0, 1}),
                                   std::pair("frozen.0", Block{0, 7, 0, 3}), std::pair("fc6.0", Block{4, 7, 0, 33}),
                                   std::pair("fc6.1", Block{4, 7, 0, 1})));
  EXPECT_EQ(store.values(3)[0], 0);
  EXPECT_EQ(store.values(3)[98], 98);
}

TEST(ParamStore, PackedCopiesAreRemadeForANewVersion) {
  ParamStore store(Params());
  int fills = 0;
  const auto packed = [&] {
    const ParamView view = store.View(0);
    return *view.packed->Get("copy", sizeof(float), view.version, [&](std::byte* out) {
      memcpy(out, view.data, sizeof(float));
      ++fills;
    });
  };
  packed();
  packed();
  EXPECT_EQ(fills, 1);
  store.MarkUpdated(0);
  packed();
  EXPECT_EQ(fills, 2);
  EXPECT_EQ(store.View(0).data, store.values(0).data());
}

TEST(ParamStore, VersionsGoRound) {
  const std::unique_ptr<Device> host = MakeHostDevice();
  auto store = *ParamStore::Create(host.get(), Params(), {3, 5});
  EXPECT_EQ(store->latest(), 5);
  EXPECT_EQ(store->versions(), 3);
  ASSERT_TRUE(store->WriteValues(0, std::vector<float>(150, 1.0f)).ok());
  EXPECT_EQ(store->values(0, 5)[0], 1) << "what is filled first is version 5";
  for (const int64_t version : {6, 7}) {
    store->values(0, version)[0] = static_cast<float>(version);
    store->MarkUpdated(0, version);
  }
  EXPECT_EQ(store->latest(), 7);
  EXPECT_EQ(store->values(0)[0], 7);
  EXPECT_EQ(store->values(0, 5)[0], 1) << "kept";
  EXPECT_EQ(store->values(0, 8).data(), store->values(0, 5).data())
      << "of three, the fourth takes the place of the first";
  EXPECT_NE(store->values(0, 6).data(), store->values(0, 7).data());
  EXPECT_EQ(store->values(2, 5).data(), store->values(2, 6).data()) << "a frozen one has one version";
  const ParamView before = store->View(0, 6);
  store->MarkUpdated(0, 8);
  EXPECT_EQ(store->View(0, 6).version, before.version) << "its packed copies stay";
  EXPECT_NE(store->View(0, 6).packed, store->View(0, 7).packed);
  std::vector<float> read(150);
  ASSERT_TRUE(store->ReadValues(0, 6, read).ok());
  EXPECT_EQ(read[0], 6);
}

TEST(ParamStore, TypesWithTwoHistoriesHaveBothOfWhatLearns) {
  const std::vector<StoredParam> two = {{.layer = "a", .whole = {40}, .solver_keeps = 2},
                                        {.layer = "frozen", .whole = {40}, .lr_mult = 0, .solver_keeps = 2},
                                        {.layer = "served", .whole = {40}, .keeps_histories = false, .solver_keeps = 2},
                                        {.layer = "average", .whole = {40}, .average_keeps = 0.9f, .solver_keeps = 2}};
  ParamStore store(two);
  ASSERT_EQ(store.history(0, 1).size(), 40u);
  ASSERT_EQ(store.history(0, 2).size(), 40u);
  EXPECT_GE(store.history(0, 2).data(), store.history(0, 1).data() + 40);
  EXPECT_EQ(store.array(0, 0, 2).data(), store.history(0, 2).data());
  for (int i : {1, 2, 3}) {
    for (int number : {1, 2}) EXPECT_TRUE(store.history(i, number).empty()) << store.param(i).name();
  }
  EXPECT_EQ(store.bytes(), ParamStore::BytesFor(two));
  std::vector<StoredParam> one = two;
  one[0].solver_keeps = 1;
  EXPECT_EQ(ParamStore::BytesFor(two) - ParamStore::BytesFor(one), 48 * sizeof(float));
}

TEST(ParamStore, EachVersionTakesMemoryButNoHistory) {
  const std::vector<StoredParam> params = {{.layer = "a", .whole = {64}}, {.layer = "b", .whole = {32}, .lr_mult = 0}};
  const size_t once = ParamStore::BytesFor(params), thrice = ParamStore::BytesFor(params, 3);
  EXPECT_EQ(once, (64 * 3 + 32) * sizeof(float));
  EXPECT_EQ(thrice, once + 2 * 64 * sizeof(float));
  const std::vector<StoredParam> served = {{.layer = "a", .whole = {64}, .keeps_histories = false}};
  EXPECT_EQ(ParamStore::BytesFor(served), 64 * 2 * sizeof(float));
}

// What splits an InnerProduct by its inputs, unevenly, down to a shard with nothing of it.
TEST(ParamStore, HoldsAnyBlockDense) {
  ParamStore store({{.layer = "fc", .blob = 0, .whole = {4, 10}, .block = {0, 4, 7, 10}},
                    {.layer = "fc", .blob = 1, .whole = {4}, .block = {0, 0, 0, 1}},
                    {.layer = "fc8", .blob = 0, .whole = {6, 2, 3, 3}, .block = {1, 3, 0, 5}}});
  EXPECT_EQ(store.param(0).local(), Shape({4, 3}));
  EXPECT_EQ(store.param(1).local(), Shape({0}));
  EXPECT_EQ(store.param(2).local(), Shape({2, 5}));
  for (int i = 0; i < store.size(); ++i) {
    EXPECT_EQ(store.values(i).size(), static_cast<size_t>(store.param(i).block.count()));
    EXPECT_EQ(store.gradient(i).size(), store.values(i).size());
    EXPECT_EQ(store.history(i, 1).size(), store.values(i).size());
  }
  EXPECT_EQ(store.bytes(), ParamStore::BytesFor({store.param(0), store.param(1), store.param(2)}));
  EXPECT_EQ(store.bytes(), 4u * 3 * (16 + 0 + 16));
}

TEST(ParamStoreDeathTest, ABlockOutsideTheBlobIsABug) {
  EXPECT_DEATH(ParamStore({{.layer = "fc", .blob = 0, .whole = {10, 3}, .block = {4, 10, 1, 4}}}), "columns 1 to 4");
  EXPECT_DEATH(ParamStore({{.layer = "fc", .blob = 0, .whole = {10, 3}, .block = {4, 11, 0, 3}}}), "rows 4 to 11");
}

// Twice: what the system refuses, and what it is not even asked for.
TEST(ParamStore, MemoryThatCannotBeHadIsAStatus) {
  const std::unique_ptr<Device> host = MakeHostDevice();
  for (const int64_t rows : {int64_t{1} << 30, int64_t{1} << 31}) {
    const Shape whole = {rows, 1 << 15};
    const auto store = ParamStore::Create(
        host.get(), {{.layer = "fc", .blob = 0, .whole = whole, .block = Block::Whole(whole), .lr_mult = 0}});
    ASSERT_FALSE(store.ok()) << rows;
    EXPECT_EQ(store.status().code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(store.status().message(), testing::StartsWith("parameters: out of memory: cannot allocate "));
  }
}

TEST(PackedParams, AnUpdateWritesRowsOfCopiesThatHaveThem) {
  constexpr int64_t kRows = 2 * PackedParams::kRowsTogether;
  std::vector<float> values(kRows, 1);
  PackedParams packed;
  int whole = 0;
  const auto row_copy = [&](uint64_t version) {
    const auto fill_rows = [from = values.data()](std::byte* to, int64_t begin, int64_t end) {
      std::copy(from + begin, from + end, reinterpret_cast<float*>(to) + begin);
    };
    const auto fill = [&, fill_rows](std::byte* to) {
      ++whole;
      fill_rows(to, 0, kRows);
    };
    const std::byte* const copy = packed.Get("rows", kRows * sizeof(float), version, fill, fill_rows);
    const auto* const floats = reinterpret_cast<const float*>(copy);
    return std::vector<float>(floats, floats + kRows);
  };
  int others = 0;
  const auto other_copy = [&](uint64_t version) {
    packed.Get("other", sizeof(float), version, [&](std::byte*) { ++others; });
  };
  EXPECT_EQ(row_copy(1), values);
  other_copy(1);
  std::iota(values.begin(), values.end(), 2.0f);
  packed.RefillRows(kRows / 2, kRows);
  packed.RefillRows(0, kRows / 2);
  packed.MarkRefilled(2);
  EXPECT_EQ(row_copy(2), values);
  EXPECT_EQ(whole, 1) << "it was filled once more";
  other_copy(2);
  EXPECT_EQ(others, 2) << "a copy without rows counts as written";
  std::fill(values.begin(), values.end(), 3.0f);
  EXPECT_EQ(row_copy(3), values);
  EXPECT_EQ(whole, 2);
}

/// One copy is the update's, with its form; the others are filled when they are next wanted.
TEST(PackedParams, AnUpdateWritesOneWholeCopyThatHasAForm) {
  PackedParams packed;
  int fills[3] = {};
  std::byte* data[3] = {};
  const auto get = [&](uint64_t version) {
    const auto fill = [&fills](int copy) { return [&fills, copy](std::byte*) { ++fills[copy]; }; };
    data[0] = packed.Get("a, without", 8, version, fill(0));
    data[1] = packed.Get("b, with", 16, version, fill(1), {nullptr, ElementType::kBFloat16, 3, 4, 8});
    data[2] = packed.Get("c, with", 24, version, fill(2), {nullptr, ElementType::kFloat16});
  };
  EXPECT_EQ(packed.WrittenByUpdate(1).data, nullptr) << "there is none yet";
  get(1);
  const ValueCopy written = packed.WrittenByUpdate(2);
  EXPECT_EQ(written.data, data[1]);
  EXPECT_EQ(written.element, ElementType::kBFloat16);
  EXPECT_EQ(written.channels, 3);
  EXPECT_EQ(written.pixels, 4);
  EXPECT_EQ(written.pixel_stride, 8);
  get(2);
  EXPECT_THAT(fills, testing::ElementsAre(2, 1, 2));
  packed.Refresh(3);
  EXPECT_THAT(fills, testing::ElementsAre(3, 2, 3)) << "what no update has written";
}

TEST(PackedParams, ASpaceKeepsItsPlaceAndItsContents) {
  PackedParams packed;
  std::byte* const space = packed.Space("gradient", 8);
  EXPECT_EQ(space[7], std::byte{0});
  space[7] = std::byte{1};
  packed.Get("gradient", 4, 1, [](std::byte* copy) { copy[0] = std::byte{2}; });
  packed.Refresh(2);
  EXPECT_EQ(packed.Space("gradient", 8), space);
  EXPECT_EQ(space[7], std::byte{1});
  EXPECT_EQ(packed.bytes(), 12u);
}

}  // namespace
}  // namespace hp
