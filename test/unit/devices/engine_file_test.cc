#include "devices/engine_file.h"

#include "test/support/log_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

namespace hp::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

const EngineKey kForward = {"convolution of [2 3 5 5]; TF32", "NVIDIA H200", "cuDNN 9.10.2"};
const EngineKey kBackward = {"input gradient of convolution of [2 3 5 5]; TF32", "NVIDIA H200", "cuDNN 9.10.2"};
const EngineChoice kChoice = {.engine = 38, .knobs = {{2, 7}, {13, 64}, {14, 3}}};
const EngineChoice kOther = {.engine = 0, .knobs = {}};

class EngineFileTest : public testing::Test {
 protected:
  EngineFileTest() {
    std::string pattern = testing::TempDir() + "hp-engines-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    path_ = EngineFile::PathOf(folder_ + "/lenet", 3);
  }
  ~EngineFileTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<EngineFile> Open() const {
    auto file = EngineFile::Open(path_);
    EXPECT_TRUE(file.ok()) << file.status();
    return file.ok() ? *std::move(file) : nullptr;
  }
  void SaveBoth() const {
    const auto file = Open();
    file->Keep(kForward, kChoice, {.chosen_ms = 0.1, .heuristics_ms = 1.0 / 3});
    file->Keep(kBackward, kOther, {});
    ASSERT_TRUE(file->Save().ok());
  }
  std::string Text() const {
    std::ifstream in(path_);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void Write(const std::string& text) const { std::ofstream(path_) << text; }
  /// What Open says once the first `what` of the file is replaced.
  Status Damaged(const std::string& what, const std::string& by) const {
    SaveBoth();
    std::string text = Text();
    const size_t at = text.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    Write(text.replace(at, what.size(), by));
    const Status status = EngineFile::Open(path_).status();
    std::filesystem::remove(path_);
    return status;
  }

  std::string folder_, path_;
};

TEST_F(EngineFileTest, LiesBesideTheSnapshots) { EXPECT_EQ(path_, folder_ + "/lenet_engines_3.prototxt"); }

TEST_F(EngineFileTest, WhatIsKeptIsFoundByTheNextStart) {
  {
    const auto file = Open();
    EXPECT_FALSE(file->Find(kForward));
    file->Keep(kForward, kChoice, {.chosen_ms = 0.1, .heuristics_ms = 1.0 / 3});
    EXPECT_EQ(file->Find(kForward), kChoice);
    EXPECT_FALSE(std::filesystem::exists(path_)) << "not saved yet";
    file->Keep(kBackward, kOther, {});
    EXPECT_EQ(file->made(), 2);
    ASSERT_TRUE(file->Save().ok());
  }
  const std::string written = Text();
  EXPECT_THAT(written, HasSubstr("operation: \"convolution of [2 3 5 5]; TF32\""));
  EXPECT_THAT(written, HasSubstr("ms: 0.1\n"));
  const auto next = Open();
  EXPECT_EQ(next->Find(kForward), kChoice);
  EXPECT_EQ(next->Find(kBackward), kOther);
  EXPECT_EQ(next->made(), 0);
  std::filesystem::remove(path_);
  ASSERT_TRUE(next->Save().ok());
  EXPECT_FALSE(std::filesystem::exists(path_)) << "nothing new, nothing written";
  next->Keep(kForward, kChoice, {.chosen_ms = 0.1, .heuristics_ms = 1.0 / 3});
  ASSERT_TRUE(next->Save().ok());
  EXPECT_EQ(Text(), written);
}

/// A node that moves to another GPU and back finds its first choices again.
TEST_F(EngineFileTest, OtherGpusAndVersionsHaveEntriesOfTheirOwn) {
  SaveBoth();
  EngineKey elsewhere = kForward, upgraded = kForward;
  elsewhere.gpu = "NVIDIA A100";
  upgraded.library = "cuDNN 9.11.0";
  LogLines warnings(google::GLOG_WARNING);
  const auto file = Open();
  EXPECT_FALSE(file->Find({"a convolution that nobody knows", "NVIDIA A100", "cuDNN 9.10.2"}));
  EXPECT_THAT(warnings.With(path_), IsEmpty()) << "a new operation is no other GPU's";
  EXPECT_FALSE(file->Find(elsewhere));
  EXPECT_FALSE(file->Find(upgraded));
  EXPECT_THAT(warnings.With(path_ + ": its engines were chosen on NVIDIA H200 with cuDNN 9.10.2, and this is NVIDIA "
                                    "A100 with cuDNN 9.10.2: engines are timed again, and bits may change"),
              SizeIs(1))
      << "once";
  file->Keep(elsewhere, kOther, {});
  ASSERT_TRUE(file->Save().ok());
  EXPECT_EQ(Open()->Find(kForward), kChoice);
  EXPECT_EQ(Open()->Find(elsewhere), kOther);
}

TEST_F(EngineFileTest, ADamagedFileIsAnErrorWithItsLine) {
  const Status digit = Damaged("engine: 38", "engine: 39");
  EXPECT_EQ(ExitStatus(digit), 2);
  EXPECT_THAT(digit.message(), StartsWith(path_ + ":"));
  EXPECT_THAT(digit.message(), ContainsRegex(":[0-9]+: the file is damaged: xxh64 is not the sum of its entries"));
  const Status gone = Damaged("xxh64", "# xxh64");
  EXPECT_EQ(ExitStatus(gone), 2);
  EXPECT_THAT(gone.message(), StartsWith(path_ + ":1: the file is damaged: it ends before its sum"));
  const Status brace = Damaged("entry {", "entry { {");
  EXPECT_EQ(ExitStatus(brace), 2);
  EXPECT_THAT(brace.message(), StartsWith(path_ + ":3:"));
  const Status word = Damaged("engine: 38", "engine: many");
  EXPECT_EQ(ExitStatus(word), 2);
  EXPECT_THAT(word.message(), ContainsRegex(":[0-9]+:[0-9]+: "));
  Write("");
  EXPECT_EQ(ExitStatus(EngineFile::Open(path_).status()), 2);
}

/// A node without convolutions has nothing to keep, and needs no folder.
TEST_F(EngineFileTest, AFolderIsMissedWhereThereIsSomethingToKeep) {
  const auto file = EngineFile::Open(EngineFile::PathOf(folder_ + "/nowhere/lenet", 0));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE((*file)->Save().ok());
  (*file)->Keep(kForward, kChoice, {});
  const Status status = (*file)->Save();
  EXPECT_EQ(ExitStatus(status), 2);
  EXPECT_THAT(status.message(), HasSubstr("convolution_engines: TIMED: the choices can't be kept"));
  EXPECT_THAT(status.message(), HasSubstr("the folder " + folder_ + "/nowhere does not exist"));
}

}  // namespace
}  // namespace hp::test
