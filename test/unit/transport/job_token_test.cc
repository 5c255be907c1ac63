// The job token and its keys, and what two sides of a connection prove by them.
#include "transport/connect/job_token.h"

#include "base/format.h"
#include "transport/connect/proof.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace hp {
namespace {

using testing::HasSubstr;

class JobTokenTest : public testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/hpnode-token-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::string Write(const std::string& name, const std::string& text, mode_t mode = 0600) const {
    std::ofstream(Path(name)) << text;
    chmod(Path(name).c_str(), mode);
    return Path(name);
  }
  std::string Fault(const std::string& path) const { return ReadJobKeys(path).status().message(); }

  std::string folder_;
};

TEST_F(JobTokenTest, ATokenIsReadBackAndLeadsToItsReadKey) {
  ASSERT_TRUE(WriteNewToken(Path("token")).ok());
  const auto token = ReadJobKeys(Path("token"));
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_TRUE(token->node);
  ASSERT_TRUE(WriteReadKey(*token, Path("key")).ok());
  const auto key = ReadJobKeys(Path("key"));
  ASSERT_TRUE(key.ok()) << key.status();
  EXPECT_FALSE(key->node);
  EXPECT_EQ(key->readers, token->readers);
  EXPECT_NE(token->nodes, token->readers);
  EXPECT_NE(key->nodes, token->nodes) << "a read key leads to no node's key";
  EXPECT_EQ(WriteNewToken(Path("token")).code(), StatusCode::kFailedPrecondition) << "never overwritten";
}

// Computed by Python's hmac: HKDF-SHA256 of a token of 32 bytes 0x07, salt "hpnode job token 1".
TEST_F(JobTokenTest, KeysAreThoseOfRfc5869) {
  std::string hex;
  for (int i = 0; i < 32; ++i) hex += "07";
  const auto keys = ReadJobKeys(Write("token", "hpnode token " + hex + "\n"));
  ASSERT_TRUE(keys.ok()) << keys.status();
  const auto as_hex = [](const SecretKey& key) {
    std::string text;
    for (std::byte byte : key) text += Format("%02x", std::to_integer<int>(byte));
    return text;
  };
  EXPECT_EQ(as_hex(keys->nodes), "62533bd3ab959f247b4e03682df2089f2f9e31b3dc2fc97bd6968cbcc9889392");
  EXPECT_EQ(as_hex(keys->readers), "415a3162aff035aa45566291ac7bdfa9de425f66881ac2cf0ec7a2af837e6921");
}

TEST_F(JobTokenTest, FilesThatOthersReachAreRefused) {
  ASSERT_TRUE(WriteNewToken(Path("token")).ok());
  for (const mode_t mode : {0604, 0602, 0620, 0666}) {
    chmod(Path("token").c_str(), mode);
    EXPECT_THAT(Fault(Path("token")), HasSubstr("chmod 600")) << std::oct << mode;
  }
  chmod(Path("token").c_str(), 0640);
  ASSERT_EQ(symlink("token", Path("link").c_str()), 0);
  EXPECT_TRUE(ReadJobKeys(Path("link")).ok());
}

TEST_F(JobTokenTest, WhatIsNoTokenIsRefused) {
  EXPECT_EQ(ReadJobKeys(Path("absent")).status().code(), StatusCode::kNotFound);
  EXPECT_THAT(Fault(folder_), HasSubstr("not a regular file"));
  for (const char* text :
       {"", "secret", "hpnode token ", "hpnode token 0707", "hpnode token zz", "hpnode read key 1"}) {
    EXPECT_THAT(Fault(Write("file", text)), HasSubstr("neither a token nor a read key")) << text;
  }
}

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

  const JobKeys token_{.node = true, .nodes = Key(1), .readers = Key(2)};
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
