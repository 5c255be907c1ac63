#include "transport/connect/proof.h"

#include <gtest/gtest.h>

namespace hp {
namespace {

class ProofTest : public testing::Test {
 protected:
  static SecretKey Key(int byte) {
    SecretKey key;
    key.fill(static_cast<std::byte>(byte));
    return key;
  }
  /// Both have exchanged nonces.
  void Meet(Proof* a, Proof* b) {
    ASSERT_TRUE(a->SetPeerNonce(b->OwnNonce()).ok());
    ASSERT_TRUE(b->SetPeerNonce(a->OwnNonce()).ok());
  }

  const JobKeys token_{.node = true, .nodes = Key(1), .readers = Key(2), .controllers = Key(5)};
  const JobKeys other_{.node = true, .nodes = Key(3), .readers = Key(2)};
  const JobKeys reader_{.readers = Key(2)};
};

TEST_F(ProofTest, TwoNodesProveThemselves) {
  Proof dialer(&token_, {.rank = 2, .dialed = 1}), acceptor(&token_, {.rank = 1, .accepted = true});
  Meet(&dialer, &acceptor);
  EXPECT_EQ(*acceptor.Open(RecordKind::kHello, dialer.Seal(RecordKind::kHello, "hello")), "hello");
  EXPECT_FALSE(acceptor.peer_is_client());
  EXPECT_EQ(acceptor.peer_rank(), 2);
  EXPECT_EQ(*dialer.Open(RecordKind::kHello, acceptor.Seal(RecordKind::kHello, "answer")), "answer");
}

TEST_F(ProofTest, AReaderProvesAReaderAndNoNode) {
  Proof reader(&reader_, {.client = true, .dialed = 0}), acceptor(&token_, {.rank = 0, .accepted = true});
  Meet(&reader, &acceptor);
  const std::string sealed = reader.Seal(RecordKind::kHello, "hello");
  std::string as_node = sealed;
  as_node[0] = 1;
  EXPECT_FALSE(acceptor.Open(RecordKind::kHello, as_node).ok());
  ASSERT_TRUE(acceptor.Open(RecordKind::kHello, sealed).ok());
  EXPECT_TRUE(acceptor.peer_is_client());
  EXPECT_TRUE(reader.Open(RecordKind::kHello, acceptor.Seal(RecordKind::kHello, "answer")).ok());
}

TEST_F(ProofTest, WhoGivesOrdersHasAKeyOfItsOwn) {
  Proof controller(&token_, {.client = true, .control = true, .dialed = 0});
  Proof acceptor(&token_, {.rank = 0, .accepted = true});
  Meet(&controller, &acceptor);
  const std::string sealed = controller.Seal(RecordKind::kHello, "hello");
  ASSERT_TRUE(acceptor.Open(RecordKind::kHello, sealed).ok());
  EXPECT_TRUE(acceptor.peer_is_client() && acceptor.peer_is_controller());
  EXPECT_TRUE(controller.Open(RecordKind::kHello, acceptor.Seal(RecordKind::kHello, "answer")).ok());

  Proof reader(&reader_, {.client = true, .dialed = 0}), again(&token_, {.rank = 0, .accepted = true});
  Meet(&reader, &again);
  const std::string said = reader.Seal(RecordKind::kHello, "hello");
  std::string forged = said;
  forged[0] = 3;
  EXPECT_FALSE(again.Open(RecordKind::kHello, forged).ok()) << "a read key gives no orders";
  ASSERT_TRUE(again.Open(RecordKind::kHello, said).ok());
  EXPECT_FALSE(again.peer_is_controller());
}

TEST_F(ProofTest, NothingElseOpens) {
  Proof dialer(&token_, {.rank = 2, .dialed = 1}), acceptor(&token_, {.rank = 1, .accepted = true});
  Meet(&dialer, &acceptor);
  const std::string sealed = dialer.Seal(RecordKind::kHello, "hello");
  for (size_t i = 0; i < sealed.size(); ++i) {
    std::string changed = sealed;
    changed[i] = static_cast<char>(changed[i] ^ 4);
    EXPECT_FALSE(acceptor.Open(RecordKind::kHello, changed).ok()) << "byte " << i;
  }
  EXPECT_FALSE(acceptor.Open(RecordKind::kRefusal, sealed).ok()) << "another kind of record";
  EXPECT_FALSE(acceptor.Open(RecordKind::kHello, sealed.substr(0, 36)).ok());
  EXPECT_FALSE(acceptor.Open(RecordKind::kHello, "").ok());
  EXPECT_FALSE(dialer.Open(RecordKind::kHello, sealed).ok()) << "its own words";

  Proof again(&token_, {.rank = 1, .accepted = true});
  ASSERT_TRUE(again.SetPeerNonce(dialer.OwnNonce()).ok());
  EXPECT_FALSE(again.Open(RecordKind::kHello, sealed).ok()) << "replayed on another connection";
  Proof elsewhere(&token_, {.rank = 0, .accepted = true});
  EXPECT_FALSE(elsewhere.Open(RecordKind::kHello, sealed).ok()) << "no nonce came";
  EXPECT_TRUE(acceptor.Open(RecordKind::kHello, sealed).ok());
}

TEST_F(ProofTest, AnotherTokenOrAnotherNodeDoesNotOpen) {
  Proof stranger(&other_, {.rank = 2, .dialed = 1}), acceptor(&token_, {.rank = 1, .accepted = true});
  Meet(&stranger, &acceptor);
  EXPECT_FALSE(acceptor.Open(RecordKind::kHello, stranger.Seal(RecordKind::kHello, "hello")).ok());
  // Dialled as node 3, answered by node 1, which has the token too.
  Proof dialer(&token_, {.rank = 2, .dialed = 3}), other(&token_, {.rank = 1, .accepted = true});
  Meet(&dialer, &other);
  EXPECT_FALSE(other.Open(RecordKind::kHello, dialer.Seal(RecordKind::kHello, "hello")).ok());
}

}  // namespace
}  // namespace hp
