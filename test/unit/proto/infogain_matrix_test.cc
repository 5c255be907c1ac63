#include "proto/hash.h"
#include "proto/text.h"
#include "test/unit/proto/file_test.h"

#include <limits>

namespace hp {
namespace {

class InfogainMatrixTest : public test::FileTest {
 protected:
  /// The path of a file of these numbers.
  std::string Matrix(const std::string& name, const std::vector<float>& numbers, bool old = false) {
    caffe::BlobProto blob;
    if (old) {
      blob.set_num(1), blob.set_channels(1), blob.set_height(2), blob.set_width(static_cast<int>(numbers.size() / 2));
      for (const float number : numbers) blob.add_double_data(number);
    } else {
      blob.mutable_shape()->add_dim(static_cast<int64_t>(numbers.size()));
      for (const float number : numbers) blob.add_data(number);
    }
    return Write(name, blob.SerializeAsString());
  }
  static std::string Layer(const std::string& fields) {
    return "layer { name: 'ip' type: 'InnerProduct' }\nlayer { name: 'loss' type: 'InfogainLoss' infogain_loss_param "
           "{ " +
           fields + " } }";
  }
  StatusOr<caffe::NetParameter> Net(const std::string& fields) { return ReadNet(Write("n.prototxt", Layer(fields))); }
  /// What is said of such a net, without its place.
  std::string Error(const std::string& fields) {
    const std::string message = Net(fields).status().message(), place = folder_ + "/n.prototxt:2: layer \"loss\": ";
    EXPECT_EQ(message.substr(0, place.size()), place);
    return message.size() < place.size() ? message : message.substr(place.size());
  }
};

/// So nodes compare the numbers, not where their files are or how these have them.
TEST_F(InfogainMatrixTest, TheFileBecomesAPartOfTheNet) {
  const std::string file = Matrix("h", {1, 0.5f, -2, 3});
  const auto net = Net("source: '" + file + "'");
  ASSERT_TRUE(net.ok()) << net.status();
  const caffe::InfogainLossParameter& param = net->layer(1).infogain_loss_param();
  EXPECT_FALSE(param.has_source());
  EXPECT_EQ(param.matrix().ShortDebugString(), "data: 1 data: 0.5 data: -2 data: 3 shape { dim: 2 dim: 2 }");
  for (const std::string& same :
       {"source: '" + Matrix("elsewhere/old", {1, 0.5f, -2, 3}, true) + "'",
        std::string("matrix { data: 1 data: 0.5 data: -2 data: 3 }"), param.ShortDebugString()}) {
    const auto other = Net(same);
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_EQ(NetHash(*other), NetHash(*net)) << same;
  }
  const auto changed = Net("source: '" + Matrix("h", {1, 0.5f, -2, 4}) + "'");
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_NE(NetHash(*changed), NetHash(*net));
}

/// A phase without the layer needs none.
TEST_F(InfogainMatrixTest, AFileThatIsNotThereStaysNamed) {
  const std::string none = folder_ + "/none";
  const auto net = Net("source: '" + none + "'");
  ASSERT_TRUE(net.ok()) << net.status();
  EXPECT_EQ(net->layer(1).infogain_loss_param().source(), none);
  EXPECT_FALSE(net->layer(1).infogain_loss_param().has_matrix());
}

/// Nodes where it is there and such where it is not have one net; training reads none.
TEST_F(InfogainMatrixTest, OfATestAloneIsNoPartOfTheNetsHash) {
  const auto of_test = [this](const std::string& file) {
    const std::string text = Layer("source: '" + file + "'");
    return NetHash(*ReadNet(Write("t.prototxt", text.substr(0, text.size() - 1) + "include { phase: TEST } }")));
  };
  EXPECT_EQ(of_test(Matrix("h", {1, 0.5f, -2, 3})), of_test(folder_ + "/none"));
}

TEST_F(InfogainMatrixTest, FaultsNameTheLayerAndTheFile) {
  const std::string text = Write("text", "no message");
  const auto of = [](const std::string& file) { return "infogain_loss_param { source: \"" + file + "\" }"; };
  EXPECT_EQ(Error("source: '" + text + "'"), of(text) + " is truncated or not a binary BlobProto");
  const std::string six = Matrix("six", {1, 2, 3, 4, 5, 6}), empty = Write("empty", "");
  EXPECT_EQ(Error("source: '" + six + "'"),
            of(six) + " has 6 numbers; expected a matrix, as many rows as columns, one for each class");
  EXPECT_EQ(Error("source: '" + empty + "'"),
            of(empty) + " has 0 numbers; expected a matrix, as many rows as columns, one for each class");
  const std::string infinite = Matrix("infinite", {1, 2, std::numeric_limits<float>::infinity(), 4});
  EXPECT_EQ(Error("source: '" + infinite + "'"), of(infinite) + " has inf in row 1, column 0; expected finite numbers");
  EXPECT_EQ(Error("source: '" + six + "' matrix { data: 1 }"), of(six) + " has a matrix as well; expected one of them");
  EXPECT_EQ(Error("matrix { data: 1 shape { dim: 2 dim: 2 } }"),
            "infogain_loss_param { matrix } has a shape of 4 numbers, but 1 numbers");
}

}  // namespace
}  // namespace hp
