// What an agent does on its host: files, ports, and how it is started.
#include "base/pending_file.h"
#include "tools/cluster/allocation.h"
#include "tools/cluster/file_transfer.h"
#include "tools/cluster/free_ports.h"
#include "tools/cluster/host_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

namespace hp {
namespace {

namespace fs = std::filesystem;

class TransferTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "hp-cluster-XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  static std::string Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string folder_;
};

TEST_F(TransferTest, AFileIsCopiedOnce) {
  const std::string content(3 << 20, 'x');  // in pieces; its last one is empty
  ASSERT_TRUE(WriteWholeFile(Path("a"), content).ok());
  StatusOr<FilePut> put = DescribeFile(Path("a"));
  ASSERT_TRUE(put.ok());
  put->set_path(Path("made/here/b"));
  FileReceiver receiver;
  StatusOr<bool> wanted = receiver.Begin(*put);
  ASSERT_TRUE(wanted.ok()) << wanted.status();
  EXPECT_TRUE(*wanted);
  StatusOr<std::unique_ptr<FileSender>> sender = FileSender::Open(Path("a"));
  ASSERT_TRUE(sender.ok());
  for (bool complete = false; !complete;) {
    EXPECT_FALSE(fs::exists(put->path()));
    const StatusOr<FileChunk> chunk = (*sender)->Next();
    ASSERT_TRUE(chunk.ok());
    const StatusOr<bool> added = receiver.Add(*chunk);
    ASSERT_TRUE(added.ok()) << added.status();
    EXPECT_EQ(*added, chunk->last());
    complete = *added;
  }
  EXPECT_EQ(Read(put->path()), content);
  wanted = receiver.Begin(*put);
  ASSERT_TRUE(wanted.ok());
  EXPECT_FALSE(*wanted) << "it is there";
  // As long, and not the same.
  ASSERT_TRUE(WriteWholeFile(put->path(), std::string(3 << 20, 'y')).ok());
  wanted = receiver.Begin(*put);
  ASSERT_TRUE(wanted.ok());
  EXPECT_TRUE(*wanted);
}

TEST_F(TransferTest, AFileThatIsNotWhatWasAnnounced) {
  FilePut put;
  put.set_path(Path("b"));
  put.set_bytes(3);
  put.set_xxh64(1);
  FileReceiver receiver;
  ASSERT_TRUE(receiver.Begin(put).ok());
  FileChunk chunk;
  chunk.set_data("abc");
  chunk.set_last(true);
  EXPECT_EQ(receiver.Add(chunk).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(receiver.Add(chunk).status().code(), StatusCode::kInternal) << "nothing was announced";
}

TEST_F(TransferTest, AFolderThatCannotBeMade) {
  ASSERT_TRUE(WriteWholeFile(Path("file"), "").ok());
  FilePut put;
  put.set_path(Path("file/below"));
  FileReceiver receiver;
  const Status begun = receiver.Begin(put).status();
  EXPECT_EQ(begun.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(begun.message(), testing::HasSubstr(Path("file"))) << begun;
}

/// Whether a program may listen on the port now. @param reuse whether it sets SO_REUSEADDR.
bool CanListen(int port, bool reuse) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = reuse;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool can = bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 && listen(fd, 1) == 0;
  close(fd);
  return can;
}

TEST(FreePortsTest, HeldForTheNodesAlone) {
  FreePorts ports;
  const StatusOr<std::vector<int>> taken = ports.Take(50);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(std::set<int>(taken->begin(), taken->end()).size(), 50u);
  for (const int port : *taken) {
    EXPECT_FALSE(CanListen(port, false)) << "another program, or another FreePorts";
    EXPECT_TRUE(CanListen(port, true)) << "as hpnode does";
  }
  ports.Release();
  EXPECT_TRUE(CanListen(taken->front(), false));
}

TEST(CommandOfAgentTest, HereAndElsewhere) {
  EXPECT_EQ(CommandOfAgent({}, "a", "/bin/hplaunch", "").words, (std::vector<std::string>{"/bin/hplaunch", "--agent"}));
  const AgentCommand there = CommandOfAgent({"ssh", "-F", "x"}, "a", "/it's here/hplaunch", "");
  EXPECT_EQ(there.words, (std::vector<std::string>{"ssh", "-F", "x", "-T", "-oBatchMode=yes", "-oConnectTimeout=10",
                                                   "a", "exec '/it'\\''s here/hplaunch' --agent"}));
  const AgentCommand bundled = CommandOfAgent({"ssh"}, "a", "/bin/hplaunch", "tarball");
  EXPECT_EQ(bundled.bundle, "tarball");
  EXPECT_THAT(bundled.words.back(), testing::HasSubstr("head -c 7 "));
}

TEST(CheckRestartsTest, NotWhereASchedulerRestarts) {
  for (const char* variable : {"SLURM_JOB_ID", "OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "KUBERNETES_SERVICE_HOST"}) {
    unsetenv(variable);
  }
  EXPECT_TRUE(CheckRestarts(0).ok());
  EXPECT_TRUE(CheckRestarts(3).ok());
  EXPECT_EQ(CheckRestarts(-1).code(), StatusCode::kInvalidArgument);
  setenv("PMIX_RANK", "0", 1);
  EXPECT_TRUE(CheckRestarts(0).ok());
  EXPECT_EQ(CheckRestarts(1).code(), StatusCode::kFailedPrecondition);
  unsetenv("PMIX_RANK");
}

}  // namespace
}  // namespace hp
