#include "solvers/param_store.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include <cstring>
#include <string>
#include <tuple>
#include <vector>

namespace hp {
namespace {

std::vector<StoredParam> Params() {
  return {
      {.layer = "conv1", .blob = 0, .whole = {3, 2, 5, 5}},
      {.layer = "conv1", .blob = 1, .whole = {3}, .lr_mult = 2, .decay_mult = 0},
      {.layer = "frozen", .blob = 0, .whole = {7, 3}, .lr_mult = 0},
      {.layer = "fc6", .blob = 0, .whole = {10, 33}, .begin_row = 4, .end_row = 7, .keeps_gradient = false},
      {.layer = "fc6", .blob = 1, .whole = {10}, .begin_row = 4, .end_row = 7},
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
    for (std::span<float> array : {store.values(i), store.gradient(i), store.history(i)}) {
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
  EXPECT_TRUE(store.history(2).empty());
  EXPECT_TRUE(store.gradient(3).empty());
  EXPECT_EQ(store.history(3).size(), 99u);
  EXPECT_EQ(store.gradient(4).size(), 3u);
  EXPECT_EQ(ParamStore::BytesFor(Params()), store.bytes());
  // Values, gradients and histories, each rounded up to 16 floats.
  EXPECT_EQ(store.bytes(), 4u * ((160 + 16 + 32 + 112 + 16) + (160 + 16 + 16) + (160 + 16 + 112 + 16)));
}

TEST(ParamStore, FillsTheSliceOfAShard) {
  ParamStore store(Params());
  std::vector<std::tuple<std::string, int64_t, int64_t>> calls;
  const Status filled = store.Fill([&](const StoredParam& param, int64_t begin, int64_t end, float* out) {
    calls.emplace_back(param.name(), begin, end);
    for (int64_t i = begin; i < end; ++i) out[i - begin] = static_cast<float>(i);
  });
  EXPECT_THAT(calls, testing::ElementsAre(std::tuple("conv1.0", 0, 150), std::tuple("conv1.1", 0, 3),
                                          std::tuple("frozen.0", 0, 21), std::tuple("fc6.0", 132, 231),
                                          std::tuple("fc6.1", 4, 7)));
  EXPECT_EQ(store.values(3)[0], 132);
  EXPECT_EQ(store.values(3)[98], 230);
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

TEST(ParamStoreDeathTest, RowsOutsideTheBlobAreABug) {
  EXPECT_DEATH(ParamStore({{.layer = "fc", .blob = 0, .whole = {10, 3}, .begin_row = 4, .end_row = 11}}),
               "rows 4 to 11");
}

}  // namespace
}  // namespace hp
