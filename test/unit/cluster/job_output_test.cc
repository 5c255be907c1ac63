// What is shown of a job, and logged. Standard output is a pipe that the test reads when it likes; a log may be one,
// too.
#include "tools/cluster/job_output.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>

namespace hp {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::chrono::seconds kPatience{120};

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// This process' threads that write to a terminal.
std::set<pid_t> TerminalThreads() {
  std::set<pid_t> threads;
  for (const auto& task : fs::directory_iterator("/proc/self/task")) {
    if (ReadFile(task.path().string() + "/comm") == "terminal\n") {
      threads.insert(std::stoi(task.path().filename().string()));
    }
  }
  return threads;
}

/// The reading end of a pipe of one page, which takes what it is told to.
class SlowReader {
 public:
  explicit SlowReader(int fd) : fd_(fd), room_(fcntl(fd, F_SETPIPE_SZ, getpagesize())) {}
  ~SlowReader() { Close(); }
  SlowReader(const SlowReader&) = delete;

  size_t room() const { return static_cast<size_t>(room_); }  ///< bytes that writers get rid of before they wait
  /// Waits until the pipe is full.
  void AwaitFull() const {
    pollfd reader = {fd_, POLLIN, 0};
    for (int bytes = 0; bytes < room_;) {
      poll(&reader, 1, -1);
      ioctl(fd_, FIONREAD, &bytes);
    }
  }
  /// Reads until what it read ends with `end`. @return all that it has read since the last call.
  std::string ReadUntil(const std::string& end) const {
    std::string text;
    char buffer[4096];
    pollfd reader = {fd_, POLLIN, 0};
    while (!text.ends_with(end) && poll(&reader, 1, -1) == 1) {
      const ssize_t got = read(fd_, buffer, sizeof(buffer));
      if (got <= 0) break;
      text.append(buffer, static_cast<size_t>(got));
    }
    return text;
  }
  /// Leaves it open for as long as this process lives.
  void Abandon() { fd_ = -1; }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
  const int room_;
};

class JobOutputTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "hp-output-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    signal(SIGPIPE, SIG_IGN);  // as hplaunch does
    fflush(stdout);
    stdout_ = dup(STDOUT_FILENO);
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[1]);
    terminal_ = std::make_unique<SlowReader>(ends[0]);
    others_ = TerminalThreads();
    output_ = std::make_unique<JobOutput>();
    output_->Begin({{"a", "conv0", Path("conv0.1.log")}, {"b", "fc0", Path("fc0.1.log")}});
  }
  void TearDown() override {
    End();
    fs::remove_all(folder_);
  }
  /// The output is destroyed, and standard output as before: a test that fails says so there.
  void End() {
    output_ = nullptr;
    if (stdout_ < 0) return;
    dup2(stdout_, STDOUT_FILENO);
    close(stdout_);
    stdout_ = -1;
  }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  /// Waits until a log has this many lines.
  void AwaitLogged(const std::string& name, int lines) const {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    for (int found = -1; found != lines;) {
      const std::string text = ReadFile(Path(name));
      found = static_cast<int>(std::count(text.begin(), text.end(), '\n'));
      if (std::chrono::steady_clock::now() > deadline) return;
      std::this_thread::yield();
    }
  }
  /// Adds `count` lines, of which the first is `first`, in two halves, lest they outrun the logs.
  void AddLines(int first, int count, int logged) {
    for (int i = 0; i < count; ++i) {
      if (i == count / 2) AwaitLogged("conv0.1.log", logged + i);
      output_->Add(0, std::to_string(first + i));
    }
  }

  std::string folder_;
  int stdout_ = -1;
  std::set<pid_t> others_;  // threads of earlier outputs, such as one that waits for good
  std::unique_ptr<SlowReader> terminal_;
  std::unique_ptr<JobOutput> output_;
};

TEST_F(JobOutputTest, HostAndNodeStandInFrontOfEachLineThatIsShown) {
  output_->Add(0, "one");
  output_->Add(1, "two");
  output_->Add(0, "");
  output_->Add(1, "[a conv0] four");
  const std::string shown = terminal_->ReadUntil("four\n");
  End();
  EXPECT_EQ(shown, "[a conv0] one\n[b fc0] two\n[a conv0] \n[b fc0] [a conv0] four\n");
  EXPECT_EQ(ReadFile(Path("conv0.1.log")), "one\n\n");
  EXPECT_EQ(ReadFile(Path("fc0.1.log")), "two\n[a conv0] four\n");
}

TEST_F(JobOutputTest, TheLastLinesOfEachNode) {
  output_->Add(1, "its only line");
  std::vector<std::string> expected;
  for (int i = 0; i < 25; ++i) {
    output_->Add(0, std::to_string(i));
    if (i >= 5) expected.push_back("[a conv0] " + std::to_string(i));
  }
  const std::vector<std::string> first = output_->LastLines(0), second = output_->LastLines(1);
  terminal_->ReadUntil("24\n");
  output_->Begin({{"c", "conv0", Path("conv0.2.log")}, {"b", "fc0", Path("fc0.2.log")}});
  const std::vector<std::string> before = output_->LastLines(0);
  output_->Add(0, "again");
  const std::vector<std::string> again = output_->LastLines(0);
  terminal_->ReadUntil("again\n");
  End();
  EXPECT_EQ(first, expected);
  EXPECT_EQ(first.size(), 20u);
  EXPECT_THAT(second, ElementsAre("[b fc0] its only line"));
  EXPECT_TRUE(before.empty()) << "those of another incarnation";
  EXPECT_THAT(again, ElementsAre("[c conv0] again"));
}

TEST_F(JobOutputTest, LogsOfEachIncarnation) {
  output_->Add(0, "first");
  output_->Begin({{"b", "fc0", Path("fc0.2.log")}, {"a", "conv0", Path("conv0.2.log")}});
  output_->Add(0, "second");
  output_->Add(1, "third");
  output_->Begin({{"a", "conv0", Path("conv0.1.log")}});  // hplaunch is started again in this folder
  output_->Add(0, "fourth");
  terminal_->ReadUntil("fourth\n");
  End();
  EXPECT_EQ(ReadFile(Path("conv0.1.log")), "first\nfourth\n");
  EXPECT_EQ(ReadFile(Path("fc0.2.log")), "second\n");
  EXPECT_EQ(ReadFile(Path("conv0.2.log")), "third\n");
}

TEST_F(JobOutputTest, AStoppedTerminalLosesLinesThatTheLogsHave) {
  const std::string first(terminal_->room() + 1, 'x');
  output_->Add(0, first);
  terminal_->AwaitFull();  // so its thread has the first line, and waits
  constexpr int kMost = static_cast<int>(JobOutput::kMostWaitingLines);
  AddLines(0, kMost + 3, 1);
  const std::vector<std::string> last = output_->LastLines(0);
  const std::string shown = terminal_->ReadUntil("] " + std::to_string(kMost - 1) + "\n");
  output_->Add(0, "again");
  const std::string again = terminal_->ReadUntil("again\n");
  End();
  std::string expected = "[a conv0] " + first + "\n(3 lines are left out: they are in the logs)\n",
              logged = first + "\n";
  for (int i = 0; i < kMost + 3; ++i) {
    if (i < kMost) expected += "[a conv0] " + std::to_string(i) + "\n";
    logged += std::to_string(i) + "\n";
  }
  EXPECT_TRUE(shown == expected) << shown.size() << " bytes instead of " << expected.size();
  EXPECT_EQ(again, "[a conv0] again\n");
  EXPECT_EQ(last.back(), "[a conv0] " + std::to_string(kMost + 2)) << "what is shown of a failure has them";
  EXPECT_TRUE(ReadFile(Path("conv0.1.log")) == logged + "again\n");
}

TEST_F(JobOutputTest, ATerminalThatIsStoppedForGoodHoldsTheEndUpForAWhileAlone) {
  output_->Add(0, std::string(terminal_->room() + 1, 'x'));
  terminal_->AwaitFull();
  output_->Add(1, "last");
  terminal_->Abandon();  // its thread waits for good
  End();
  EXPECT_EQ(ReadFile(Path("fc0.1.log")), "last\n");
}

TEST_F(JobOutputTest, ATerminalThatIsClosed) {
  terminal_->Close();
  output_->Add(0, "one");
  output_->Add(0, "two");
  End();
  EXPECT_EQ(ReadFile(Path("conv0.1.log")), "one\ntwo\n");
}

sem_t signalled;

TEST_F(JobOutputTest, SignalsLoseNoLine) {
  ASSERT_EQ(sem_init(&signalled, 0, 0), 0);
  struct sigaction action = {}, before = {};
  action.sa_handler = [](int) { sem_post(&signalled); };  // without SA_RESTART, as Boost.Asio has it
  sigaction(SIGUSR1, &action, &before);
  const std::string first(terminal_->room() - std::string("[a conv0] \n").size(), 'x');
  output_->Add(0, first);  // it fits, and the next one waits with all of its bytes
  output_->Add(0, "second");
  terminal_->AwaitFull();
  std::set<pid_t> threads = TerminalThreads();
  for (const pid_t other : others_) threads.erase(other);
  for (int i = 0; i < 1000; ++i) {
    syscall(SYS_tgkill, getpid(), *threads.begin(), SIGUSR1);
    while (sem_wait(&signalled) != 0) continue;
  }
  output_->Add(0, "third");
  const std::string shown = terminal_->ReadUntil("third\n");
  sigaction(SIGUSR1, &before, nullptr);
  End();
  EXPECT_EQ(shown.substr(shown.find('\n') + 1), "[a conv0] second\n[a conv0] third\n");
}

TEST_F(JobOutputTest, LinesThatASlowDiskDoesNotTakeAreCounted) {
  ASSERT_EQ(mkfifo(Path("slow.log").c_str(), 0600), 0);
  const SlowReader disk(open(Path("slow.log").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  terminal_->Close();
  output_->Begin({{"a", "conv0", Path("slow.log")}});
  const std::string first(disk.room() + 1, 'x');
  output_->Add(0, first);
  disk.AwaitFull();
  constexpr int kMost = static_cast<int>(JobOutput::kMostWaitingLines);
  for (int i = 0; i < kMost + 5; ++i) output_->Add(0, std::to_string(i));
  testing::internal::CaptureStderr();
  const std::string text = disk.ReadUntil("\n" + std::to_string(kMost - 1) + "\n");
  End();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("5 lines are missing in the logs in " + folder_ + ": "));
  std::string expected = first + "\n";
  for (int i = 0; i < kMost; ++i) expected += std::to_string(i) + "\n";
  EXPECT_TRUE(text == expected) << text.size() << " bytes instead of " << expected.size();
}

TEST_F(JobOutputTest, ALogThatCannotBeWrittenIsSaidOnce) {
  testing::internal::CaptureStderr();
  output_->Begin({{"a", "conv0", Path("none/conv0.1.log")}, {"b", "fc0", Path("fc0.1.log")}});
  for (const char* line : {"one", "two"}) {
    output_->Add(0, line);
    output_->Add(1, line);
  }
  const std::string shown = terminal_->ReadUntil("[b fc0] two\n");
  End();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(shown, "[a conv0] one\n[b fc0] one\n[a conv0] two\n[b fc0] two\n");
  EXPECT_EQ(ReadFile(Path("fc0.1.log")), "one\ntwo\n");
  const size_t at = said.find("a log lacks lines: " + Path("none/conv0.1.log") + ": No such file or directory\n");
  ASSERT_NE(at, std::string::npos) << said;
  EXPECT_EQ(said.find("a log lacks lines", at + 1), std::string::npos) << said;
}

}  // namespace
}  // namespace hp
