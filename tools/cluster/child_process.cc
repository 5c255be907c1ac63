#include "tools/cluster/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace hp {
namespace {

constexpr int kKeptFd = 3;

/// Both ends, closed on destruction unless they were taken.
struct Pipe {
  ~Pipe() {
    for (const int fd : fds) {
      if (fd >= 0) close(fd);
    }
  }
  bool Open() { return pipe2(fds.data(), O_CLOEXEC) == 0; }
  int Take(int end) { return std::exchange(fds[end], -1); }
  std::array<int, 2> fds = {-1, -1};
};

struct ChildFds {
  int input, output, error, kept, failure;
};

// Between fork and exec: only what a signal handler may call.
[[noreturn]] void RunChild(char* const* command, const char* folder, const ChildFds& fds) {
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int number : {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD}) signal(number, SIG_DFL);
  dup2(fds.input, STDIN_FILENO);
  dup2(fds.output, STDOUT_FILENO);
  dup2(fds.error, STDERR_FILENO);
  // dup2 of a descriptor to itself would leave it to be closed by exec.
  if (fds.kept == kKeptFd)
    fcntl(kKeptFd, F_SETFD, 0);
  else if (fds.kept >= 0)
    dup2(fds.kept, kKeptFd);
  if (*folder == '\0' || chdir(folder) == 0) execvp(command[0], command);
  const int error = errno;
  if (write(fds.failure, &error, sizeof(error)) < 0) _exit(126);
  _exit(127);
}

}  // namespace

StatusOr<ChildProcess> StartChild(const ChildOptions& options) {
  Pipe input, output, error, failure;
  const bool opened =
      (!options.with_input || input.Open()) && output.Open() && (options.one_output || error.Open()) && failure.Open();
  // Beyond the numbers that the child gives them, or dup2 would overwrite one that is still needed.
  const int failure_fd = opened ? fcntl(failure.fds[1], F_DUPFD_CLOEXEC, kKeptFd + 1) : -1;
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  std::vector<char*> command;
  for (const std::string& word : options.command) command.push_back(const_cast<char*>(word.c_str()));
  command.push_back(nullptr);
  const pid_t pid = failure_fd < 0 || nothing < 0 ? -1 : fork();
  if (pid == 0) {
    RunChild(command.data(), options.folder.c_str(),
             {options.with_input ? input.fds[0] : nothing, output.fds[1],
              options.one_output ? output.fds[1] : error.fds[1], options.kept_fd, failure_fd});
  }
  const int fork_error = errno;
  if (nothing >= 0) close(nothing);
  if (failure_fd >= 0) close(failure_fd);
  if (pid < 0) return ResourceExhausted("%s: %s", command[0], std::strerror(fork_error));
  close(failure.Take(1));
  int reason = 0;
  ssize_t got = 0;
  while ((got = read(failure.fds[0], &reason, sizeof(reason))) < 0 && errno == EINTR) continue;
  if (got > 0) {
    waitpid(pid, nullptr, 0);
    return NotFound("%s: %s", command[0], std::strerror(reason));
  }
  return ChildProcess{pid, input.Take(1), output.Take(0), error.Take(0)};
}

int ExitOf(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

}  // namespace hp
