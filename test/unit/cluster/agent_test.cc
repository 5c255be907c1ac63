// An agent as a thread, with a pipe on each side. Its programs are the shell's, since they lie in a folder that it is
// told.
#include "tools/cluster/agent.h"

#include "base/pending_file.h"
#include "base/thread.h"
#include "tools/cluster/frames.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>

namespace hp {
namespace {

class AgentTest : public testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    ours_ = ends[0];
    const int theirs = ends[1];
    thread_ = Thread("agent", [this, theirs] { status_ = Agent(theirs, dup(theirs), "/bin").Run(); });
  }
  void TearDown() override { End(); }

  void End() {
    if (ours_ >= 0) close(ours_);
    ours_ = -1;
    thread_.Join();
  }
  void Send(const LaunchMessage& message) {
    const std::string frame = EncodeFrame(message);
    ASSERT_EQ(write(ours_, frame.data(), frame.size()), std::ssize(frame));
  }
  /// The next message that is no beat. Fails at the end of the stream.
  LaunchMessage Next() {
    char buffer[4096];
    while (messages_.empty()) {
      const ssize_t got = read(ours_, buffer, sizeof(buffer));
      if (got <= 0) {
        ADD_FAILURE() << "the agent has ended";
        return {};
      }
      EXPECT_TRUE(reader_
                      .Add({buffer, static_cast<size_t>(got)},
                           [this](const LaunchMessage& message) {
                             if (!message.has_beat()) messages_.push_back(message);
                           })
                      .ok());
    }
    LaunchMessage message = messages_.front();
    messages_.pop_front();
    return message;
  }
  void Start(int id, const std::string& program, const std::vector<std::string>& arguments,
             const std::string& token = "") {
    LaunchMessage message;
    message.mutable_start()->set_id(id);
    message.mutable_start()->set_program(program);
    for (const std::string& argument : arguments) message.mutable_start()->add_argument(argument);
    if (!token.empty()) message.mutable_start()->set_token(token);
    Send(message);
  }

  int ours_ = -1;
  Status status_;
  FrameReader reader_;
  std::deque<LaunchMessage> messages_;
  Thread thread_;
};

TEST_F(AgentTest, AProcessAndItsLines) {
  Start(7, "sh", {"-c", "echo out; echo error >&2; printf rest; exit 4"});
  for (const char* line : {"out", "error", "rest"}) {
    const LaunchMessage message = Next();
    EXPECT_EQ(message.output().id(), 7);
    EXPECT_EQ(message.output().line(), line);
  }
  const LaunchMessage end = Next();
  EXPECT_EQ(end.exit().id(), 7);
  EXPECT_EQ(end.exit().status(), 4);
}

TEST_F(AgentTest, ATokenIsAFileThatOthersCannotRead) {
  Start(1, "sh", {"-c", "cat /proc/self/fd/3; stat -L -c %a /proc/self/fd/3"}, "secret\n");
  EXPECT_EQ(Next().output().line(), "secret");
  EXPECT_EQ(Next().output().line(), "600");
  EXPECT_EQ(Next().exit().status(), 0);
}

TEST_F(AgentTest, Signals) {
  Start(1, "sh", {"-c", "trap 'echo caught; exit 5' USR1; echo ready; while :; do sleep 0.01; done"});
  EXPECT_EQ(Next().output().line(), "ready");
  LaunchMessage message;
  message.mutable_signal()->set_id(1);
  message.mutable_signal()->set_signal(SIGUSR1);
  Send(message);
  EXPECT_EQ(Next().output().line(), "caught");
  EXPECT_EQ(Next().exit().status(), 5);
  Send(message);  // to nobody
  Start(2, "sh", {"-c", "kill -KILL $$"});
  EXPECT_EQ(Next().exit().status(), 128 + SIGKILL);
}

TEST_F(AgentTest, AProgramThatIsNotThere) {
  Start(3, "no-such-program", {});
  const LaunchMessage end = Next();
  EXPECT_EQ(end.exit().id(), 3);
  EXPECT_EQ(end.exit().status(), 2);
  EXPECT_EQ(end.exit().error(), "/bin/no-such-program: No such file or directory");
}

TEST_F(AgentTest, FilesAreMovedLookedForAndRemoved) {
  const std::string from = testing::TempDir() + "hp-agent-" + std::to_string(getpid()), to = from + "-moved";
  ASSERT_TRUE(WriteWholeFile(from, "text").ok());
  const auto ask = [this](const std::string& old_name, const std::string& new_name) {
    LaunchMessage message;
    if (!old_name.empty()) message.mutable_move()->set_from(old_name);
    if (!new_name.empty()) message.mutable_move()->set_to(new_name);
    Send(message);
    return Next().file().answer();
  };
  EXPECT_EQ(ask("", to), FileAnswer::WANTED);
  EXPECT_EQ(ask(from, to), FileAnswer::THERE);
  EXPECT_EQ(ask("", to), FileAnswer::THERE);
  EXPECT_EQ(ask("", from), FileAnswer::WANTED);
  EXPECT_EQ(ask(to, ""), FileAnswer::WANTED);
  EXPECT_EQ(ask("", to), FileAnswer::WANTED);
  EXPECT_EQ(ask(to, ""), FileAnswer::WANTED);
  EXPECT_EQ(ask("/proc/version", ""), FileAnswer::FAILED);
}

TEST_F(AgentTest, TheEndOfItsInputEndsItsProcesses) {
  Start(1, "sh", {"-c", "echo $$; exec sleep 1000"});
  const pid_t pid = std::stoi(Next().output().line());
  EXPECT_EQ(kill(pid, 0), 0);
  End();
  EXPECT_NE(kill(pid, 0), 0) << "it was waited for";
  EXPECT_TRUE(status_.ok()) << status_;
}

TEST_F(AgentTest, RubbishEndsIt) {
  ASSERT_EQ(write(ours_, "rubbish!", 8), 8);
  thread_.Join();
  EXPECT_EQ(status_.code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace hp
