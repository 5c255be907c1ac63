// Who may go into a run folder, and what becomes of it. An open folder of this process stands for a live node: locks
// belong to open files.
#include "run_folder/shared_run_folder.h"

#include "test/support/failing_locks.h"

#include "run_folder/run_folder.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>
#include <vector>

namespace hp {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;

class SharedRunFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "hp-shared-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    run_ = folder_ + "/run";
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::unique_ptr<SharedRunFolder> Enter(const std::string& node, const RunStart& start) {
    auto entered = SharedRunFolder::Enter(run_, start, node);
    EXPECT_TRUE(entered.ok()) << entered.status();
    return entered.ok() ? *std::move(entered) : nullptr;
  }
  std::string Refusal(const std::string& node, const RunStart& start) {
    const auto entered = SharedRunFolder::Enter(run_, start, node);
    EXPECT_EQ(entered.status().code(), StatusCode::kFailedPrecondition);
    return entered.status().message();
  }
  std::vector<std::string> Record() {
    std::ifstream file(run_ + "/record.txt");
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

  const RunStart job_{"Slurm job 12", 0, 7};
  std::string folder_, run_;
};

TEST_F(SharedRunFolderTest, FilesOfSomebodysOwnAreNotReplaced) {
  fs::create_directory(run_);
  std::ofstream(run_ + "/solver.prototxt") << "# mine";
  const Status status = SharedRunFolder::Enter(run_, job_, "conv0").status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("/solver.prototxt is there, and no run wrote it"));
  EXPECT_FALSE(fs::exists(run_ + "/record.txt"));
  fs::remove(run_ + "/solver.prototxt");
  Enter("conv0", job_).reset();
  std::ofstream(run_ + "/solver.prototxt") << "# a run's";
  EXPECT_NE(Enter("conv0", job_), nullptr);
}

TEST_F(SharedRunFolderTest, AProcessOfAllNodesIsAJobByItself) {
  auto all = Enter(SharedRunFolder::kAllNodes, job_);
  EXPECT_THAT(Refusal("conv0", job_), HasSubstr("(node all on host "));
  all.reset();
  const auto conv0 = Enter("conv0", job_);
  EXPECT_THAT(Refusal(SharedRunFolder::kAllNodes, job_), HasSubstr("(node conv0 on host "));
}

TEST_F(SharedRunFolderTest, NodesOfOneStartShareIt) {
  const auto conv0 = Enter("conv0", job_), fc0 = Enter("fc0", job_);
  EXPECT_EQ(conv0->incarnation(), 1);
  EXPECT_EQ(fc0->incarnation(), 1);
  EXPECT_EQ(fc0->log_path(), run_ + "/logs/fc0.1.log");
  EXPECT_TRUE(fs::is_directory(run_ + "/snapshots"));
  EXPECT_TRUE(conv0->Record("begins").ok());
  EXPECT_TRUE(fc0->Record("ended with 0").ok());
  const auto record = Record();
  ASSERT_EQ(record.size(), 3u);
  EXPECT_THAT(record[0], MatchesRegex("....-..-.. ..:..:.. incarnation 1: Slurm job 12"));
  EXPECT_THAT(record[1], MatchesRegex("....-..-.. ..:..:.. conv0, incarnation 1: begins"));
  EXPECT_THAT(record[2], MatchesRegex("....-..-.. ..:..:.. fc0, incarnation 1: ended with 0"));
}

TEST_F(SharedRunFolderTest, ASecondLiveRunIsToldWhoHasIt) {
  const auto conv0 = Enter("conv0", job_);
  auto fc0 = Enter("fc0", job_);
  const std::string process = "process " + std::to_string(getpid());
  EXPECT_THAT(Refusal("conv0", {"Slurm job 13", 0, 7}),
              AllOf(HasSubstr(run_), HasSubstr("incarnation 1 of Slurm job 12"), HasSubstr("node conv0 on host "),
                    HasSubstr(process)));
  EXPECT_THAT(Refusal("conv1", {"Slurm job 12", 0, 8}), HasSubstr("Slurm job 12")) << "another table";
  EXPECT_THAT(Refusal("fc0", job_), HasSubstr("incarnation 1")) << "the same node";
  EXPECT_EQ(Enter("fc1", job_)->incarnation(), 1) << "a refusal changes nothing";
}

TEST_F(SharedRunFolderTest, AnyRunGoesOnInAFolderOfTheDead) {
  {
    const auto conv0 = Enter("conv0", job_), fc0 = Enter("fc0", job_);
    EXPECT_TRUE(fc0->Record("ended with 4").ok());
  }
  const auto again = Enter("conv0", {"Slurm job 13", 0, 9});
  EXPECT_EQ(again->incarnation(), 2);
  const auto record = Record();
  ASSERT_EQ(record.size(), 4u);
  EXPECT_THAT(record[2], HasSubstr("conv0, incarnation 1: ended without reporting a status"));
  EXPECT_THAT(record[3], HasSubstr("incarnation 2: Slurm job 13"));
}

TEST_F(SharedRunFolderTest, TheFirstNodeThatIsBackBeginsTheNextIncarnation) {
  auto conv0 = Enter("conv0", job_), fc0 = Enter("fc0", job_);
  fc0.reset();
  fc0 = Enter("fc0", job_);  // while conv0 still notices that it is lost
  EXPECT_EQ(fc0->incarnation(), 2);
  conv0.reset();
  conv0 = Enter("conv0", job_);
  EXPECT_EQ(conv0->incarnation(), 2);
}

TEST_F(SharedRunFolderTest, ALaterStartTakesItFromAnEarlierOneThatStillEnds) {
  const RunStart first{"run \"7\"", 1, 7}, second{"run \"7\"", 2, 8};
  const auto old_conv = Enter("conv0", first), old_fc = Enter("fc0", first);
  const auto conv0 = Enter("conv0", second), fc0 = Enter("fc0", second);
  EXPECT_EQ(conv0->incarnation(), 2);
  EXPECT_EQ(fc0->incarnation(), 2);
  EXPECT_EQ(Record().size(), 2u) << "those that live are not said to have ended";
  EXPECT_THAT(Refusal("conv1", first), HasSubstr("incarnation 2"));
}

TEST_F(SharedRunFolderTest, HplaunchAndNodesKeepEachOtherOut) {
  {
    const auto node = Enter("conv0", job_);
    EXPECT_EQ(RunFolder::Open(run_).status().code(), StatusCode::kFailedPrecondition);
  }
  {
    const auto launched = RunFolder::Open(run_);
    ASSERT_TRUE(launched.ok()) << launched.status();
    EXPECT_EQ((*launched)->BeginIncarnation(), 2) << "they count together";
    EXPECT_THAT(Refusal("conv0", job_), HasSubstr("an hplaunch runs there"));
  }
  EXPECT_EQ(Enter("conv0", job_)->incarnation(), 3);
}

TEST_F(SharedRunFolderTest, LinesOfManyNodesStayWhole) {
  constexpr int kNodes = 8, kLines = 50;
  std::vector<std::thread> nodes;
  for (int i = 0; i < kNodes; ++i) {
    nodes.emplace_back([this, i] {
      const auto folder = Enter("conv" + std::to_string(i), job_);
      for (int line = 0; line < kLines; ++line) EXPECT_TRUE(folder->Record("line " + std::string(200, 'x')).ok());
    });
  }
  for (std::thread& node : nodes) node.join();
  int whole = 0;
  for (const std::string& line : Record()) {
    if (line.find(": line ") == std::string::npos) continue;
    EXPECT_THAT(line, MatchesRegex("....-..-.. ..:..:.. conv., incarnation [0-9]+: line x+"));
    ++whole;
  }
  EXPECT_EQ(whole, kNodes * kLines);
}

TEST_F(SharedRunFolderTest, LinesThatWereCutOff) {
  const auto conv0 = Enter("conv0", job_);
  std::ofstream(run_ + "/record.txt", std::ios::app) << "2026-11-24 22:15:02 fc0, incarn";
  EXPECT_TRUE(conv0->Record("begins").ok());
  ASSERT_EQ(Record().size(), 3u);
  EXPECT_EQ(Record()[1], "2026-11-24 22:15:02 fc0, incarn");
  EXPECT_THAT(Record()[2], MatchesRegex("....-..-.. ..:..:.. conv0, incarnation 1: begins"));
  std::ofstream(run_ + "/run.lock", std::ios::app) << "node fc0";
  auto conv1 = Enter("conv1", job_);
  EXPECT_EQ(conv1->incarnation(), 1);
  conv1.reset();
  EXPECT_EQ(Enter("conv1", job_)->incarnation(), 2) << "it is known that it took part";
}

TEST_F(SharedRunFolderTest, ADiskWithoutLocks) {
  const test::FailingLocks failing(ENOLCK);
  EXPECT_THAT(Refusal("conv0", job_), HasSubstr("run/record.txt: cannot be locked (No locks available)"));
}

TEST_F(SharedRunFolderTest, LogsOfOldIncarnationsGo) {
  for (int i = 1; i <= 9; ++i) {
    const auto node = Enter("conv0", job_);
    ASSERT_EQ(node->incarnation(), i);
    std::ofstream(node->log_path()) << "line\n";
  }
  EXPECT_FALSE(fs::exists(run_ + "/logs/conv0.1.log"));
  EXPECT_TRUE(fs::exists(run_ + "/logs/conv0.2.log"));
}

TEST_F(SharedRunFolderTest, AFileInTheWay) {
  std::ofstream(run_) << "no folder";
  const auto entered = SharedRunFolder::Enter(run_, job_, "conv0");
  EXPECT_EQ(entered.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(entered.status().message(), HasSubstr(run_ + "/logs: the folder cannot be made"));
}

TEST_F(SharedRunFolderTest, ADamagedLockFileOfNobody) {
  Enter("conv0", job_).reset();
  std::ofstream(run_ + "/run.lock") << "run Slu";
  EXPECT_EQ(Enter("conv0", job_)->incarnation(), 2) << "record.txt counts";
}

}  // namespace
}  // namespace hp
