// Own copies of weights beside those of oneDNN, to the bit.
#include "backend/cpu/weights_reorder.h"

#include "test/unit/backend/op_test_util.h"

namespace hp::test {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

struct Case {
  memory::dims dims;
  Tag dense, packed;
  bool by_onednn = false;
  bool by_pairs = false;       // to bfloat16
  bool packs_squares = false;  // of float32
  bool unpacks_squares = false;
};

class WeightsReorderTest : public testing::TestWithParam<Case> {
 protected:
  static Values RunBoth(const memory::desc& from, const memory::desc& to, bool add, const Values& source,
                        Values* by_onednn) {
    onednn::Context context;
    Values own(to.get_size() / sizeof(float) + 1, 0.75f);
    *by_onednn = own;
    const onednn::WeightsReorder reorder(context, from, to, add);
    EXPECT_EQ(reorder.needed(), from != to);
    EXPECT_EQ(reorder.by_onednn(), GetParam().by_onednn);
    EXPECT_EQ(reorder.by_pairs(), GetParam().by_pairs && to.data_type() == memory::data_type::bf16);
    const bool packs = from.data.format_desc.blocking.inner_nblks == 0;
    EXPECT_EQ(reorder.by_squares(), to.data_type() == memory::data_type::f32 &&
                                        (packs ? GetParam().packs_squares : GetParam().unpacks_squares));
    reorder.Run(&context, source.data(), own.data(), add);
    onednn::Reorder(context, from, to, add).Run(&context, source.data(), by_onednn->data());
    return own;
  }
};

TEST_P(WeightsReorderTest, CopiesAsOneDnnDoes) {
  const Case& c = GetParam();
  const memory::desc dense(c.dims, memory::data_type::f32, c.dense);
  Values by_onednn;
  for (const auto type : {memory::data_type::f32, memory::data_type::bf16}) {
    const memory::desc packed(c.dims, type, c.packed);
    const Values values = RandomValues(static_cast<int64_t>(dense.get_size() / sizeof(float)), 1);
    EXPECT_EQ(RunBoth(dense, packed, false, values, &by_onednn), by_onednn) << "packed";
    if (type == memory::data_type::bf16) continue;
    EXPECT_EQ(RunBoth(dense, packed, true, values, &by_onednn), by_onednn) << "packed, added";
  }
  const memory::desc packed(c.dims, memory::data_type::f32, c.packed);
  const Values values = RandomValues(static_cast<int64_t>(packed.get_size() / sizeof(float)), 2);
  for (const bool add : {false, true}) {
    EXPECT_EQ(RunBoth(packed, dense, add, values, &by_onednn), by_onednn) << "unpacked, add " << add;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Formats, WeightsReorderTest,
    testing::Values(Case{{64, 32, 3, 3}, Tag::oihw, Tag::OIhw16i16o, false, false, true, true},
                    Case{{48, 96, 1, 1}, Tag::oihw, Tag::OIhw16o16i, false, false, true},
                    Case{{32, 48, 3, 3}, Tag::oihw, Tag::OIhw16o16i, false, false, true},
                    Case{{32, 32, 5, 3}, Tag::oihw, Tag::OIhw16o16i, false, false, true},
                    Case{{64, 32, 5, 5}, Tag::oihw, Tag::OIhw8i16o2i, false, true},
                    Case{{128, 512, 1, 1}, Tag::oihw, Tag::OIhw16i64o2i, false, true},
                    Case{{64, 64, 3, 3}, Tag::oihw, Tag::OIhw16i32o2i, false, true},
                    Case{{32, 48, 3, 2}, Tag::oihw, Tag::OIhw8o16i2o, false, true},
                    Case{{512, 64, 1, 1}, Tag::oihw, Tag::OIhw8o16i2o, false, true},
                    Case{{2, 32, 32, 3, 3}, Tag::goihw, Tag::gOIhw8i16o2i, false, true},
                    Case{{16, 16, 11, 11}, Tag::oihw, Tag::OIhw8i16o2i}, Case{{40, 17, 3, 1}, Tag::oihw, Tag::ohwi},
                    Case{{64, 64, 3, 3}, Tag::iohw, Tag::OIhw8o16i2o},
                    Case{{96, 3, 11, 11}, Tag::oihw, Tag::Ohwi16o, false, false, true, true},
                    Case{{2, 32, 48, 3, 3}, Tag::goihw, Tag::gOIhw16i16o, false, false, true, true},
                    Case{{2, 48, 32, 3, 3}, Tag::giohw, Tag::gOIhw16i16o},
                    Case{{32, 1, 1, 3, 3}, Tag::goihw, Tag::Goihw16g},
                    Case{{20, 7, 3, 2}, Tag::oihw, Tag::OIhw16i16o, true}));  // padded

}  // namespace
}  // namespace hp::test
