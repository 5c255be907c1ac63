#include "rendezvous/entry.h"

#include "rendezvous/server_messages.h"
#include <gtest/gtest.h>

#include <functional>

namespace hp {
namespace {

JobKeys KeysOfTest(int key) {
  JobKeys keys;
  keys.node = true;
  keys.rendezvous[0] = static_cast<std::byte>(key);
  return keys;
}

NodeRecord Sound() {
  NodeRecord record;
  record.set_nonce(NewNonce());
  record.add_address("10.0.0.1");
  record.set_port(1);
  return record;
}

TEST(EntrySealTest, OpensWhatItSealed) {
  const EntrySeal with("run", KeysOfTest(1)), without("run", std::nullopt);
  EXPECT_EQ(*with.Open("node.1", with.Seal("node.1", "body")), "body");
  EXPECT_EQ(*without.Open("node.1", without.Seal("node.1", "body")), "body");
}

TEST(EntrySealTest, RefusesWhatIsNotOfThisRun) {
  const EntrySeal seal("run", KeysOfTest(1)), none("run", std::nullopt);
  const std::string entry = seal.Seal("table.1", "body");
  EXPECT_FALSE(EntrySeal("run", KeysOfTest(2)).Open("table.1", entry).ok()) << "another token";
  EXPECT_FALSE(EntrySeal("other", KeysOfTest(1)).Open("table.1", entry).ok()) << "another run";
  EXPECT_FALSE(seal.Open("table.2", entry).ok()) << "another entry";
  EXPECT_FALSE(seal.Open("table.1", none.Seal("table.1", "body")).ok()) << "no seal";
  EXPECT_FALSE(none.Open("table.1", entry).ok()) << "a seal, and no token here";
  for (size_t at = 0; at < entry.size(); ++at) {
    std::string changed = entry;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    const auto opened = seal.Open("table.1", changed);
    EXPECT_FALSE(opened.ok()) << "byte " << at;
  }
}

TEST(NodeRecordTest, RangesAreChecked) {
  EXPECT_TRUE(ParseNodeRecord(Sound().SerializeAsString()).ok());
  for (const int bits : {0, 24, 128}) {
    NodeRecord record = Sound();
    record.add_prefix_length(bits);
    EXPECT_TRUE(ParseNodeRecord(record.SerializeAsString()).ok()) << bits;
  }
  const std::vector<std::function<void(NodeRecord*)>> faults = {
      [](NodeRecord* record) { record->set_nonce("../../etc/passwd"); },
      [](NodeRecord* record) { record->set_nonce(std::string(32, 'A')); },
      [](NodeRecord* record) { record->clear_address(); },
      [](NodeRecord* record) { record->set_address(0, "a\nb"); },
      [](NodeRecord* record) { record->add_prefix_length(-1); },
      [](NodeRecord* record) { record->add_prefix_length(129); },
      [](NodeRecord* record) { record->mutable_prefix_length()->Resize(2, 24); },  // of one address
      [](NodeRecord* record) { record->set_port(65536); },
      [](NodeRecord* record) { record->set_port(0); },
      [](NodeRecord* record) { record->set_role("lead"); },
      [](NodeRecord* record) { record->set_device("cuda:"); },
      [](NodeRecord* record) { record->set_device("cuda:1000000"); },
      [](NodeRecord* record) { record->set_cores(0); },
      [](NodeRecord* record) { record->set_memory_mb(-1); },
      [](NodeRecord* record) { record->set_iteration(-1); },
      [](NodeRecord* record) { record->set_exit_status(256); },
      [](NodeRecord* record) { record->set_host_name(std::string(5000, 'a')); },
  };
  for (size_t i = 0; i < faults.size(); ++i) {
    NodeRecord record = Sound();
    faults[i](&record);
    EXPECT_EQ(ParseNodeRecord(record.SerializeAsString()).status().code(), StatusCode::kDataLoss) << "fault " << i;
  }
  EXPECT_FALSE(ParseNodeRecord("\xff").ok());
}

TEST(TableRecordTest, EachNodeHasASeatOfItsName) {
  TableRecord table;
  table.set_incarnation(1);
  table.set_writer(NewNonce());
  table.mutable_config()->add_node()->set_name("conv0");
  EXPECT_FALSE(ParseTableRecord(table.SerializeAsString()).ok()) << "a node without a seat";
  table.add_seat()->set_nonce(NewNonce());
  EXPECT_FALSE(ParseTableRecord(table.SerializeAsString()).ok()) << "a seat of another node";
  table.mutable_seat(0)->set_node("conv0");
  EXPECT_TRUE(ParseTableRecord(table.SerializeAsString()).ok());
  table.set_incarnation(0);
  EXPECT_FALSE(ParseTableRecord(table.SerializeAsString()).ok()) << "a table for whoever asks names seats";
}

TEST(ReadTellTest, RefusesOtherMessages) {
  const EntrySeal seal(kServerSealRun, KeysOfTest(1));
  const std::string sealed = seal.Seal("tell", Sound().SerializeAsString());
  const auto bytes = std::as_bytes(std::span(sealed));
  EXPECT_TRUE(ReadTell(seal, kTellMessage, bytes).ok());
  EXPECT_FALSE(ReadTell(seal, kAnswerMessage, bytes).ok());
  EXPECT_FALSE(ReadTell(seal, kTellMessage, bytes.first(bytes.size() - 1)).ok());
}

}  // namespace
}  // namespace hp
