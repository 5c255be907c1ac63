#include "base/job_token.h"

#include "base/format.h"

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
  EXPECT_NE(token->controllers, token->readers);
  EXPECT_NE(key->controllers, token->controllers) << "a read key gives no orders";
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
  EXPECT_EQ(as_hex(keys->rendezvous), "6ad711013e7328e2951f534eb2c2bb6f207b5a39120fa927059fc093532608d2");
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

}  // namespace
}  // namespace hp
