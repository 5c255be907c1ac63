#pragma once

#include "hp/status.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace hp {

struct ToolUsage {
  const char* name;      ///< "convert_mnist_data"
  const char* text;      ///< what --help says: purpose, command line, an example
  size_t min_arguments;  ///< beside the flags
  size_t max_arguments;
  const char* source = nullptr;  ///< file that defines its flags; null: `name`.cc
  /// Command of `caffe` that does the same: a first argument that says it is skipped, and so are flags of Caffe's other
  /// commands, since its program has all of them for each.
  const char* word = nullptr;
};

/// Whether a flag's number of threads is in [least, kMaxThreads]. @param flag its name.
/// @return kInvalidArgument: it is not; names the flag.
Status CheckThreads(const char* flag, int threads, int least);
/// @return kInvalidArgument: --max_bad_records is negative.
Status CheckMaxBadRecords(int64_t records);

/// Whether the user gave a flag a value.
bool IsGiven(const char* flag);
/// Its value, if so.
std::optional<int> IfGiven(const char* flag, int value);

/// Reads gflags, and answers --help on stdout. A wrong flag ends the process with status 2.
/// @return whether help was asked for, and there is nothing else to do.
bool ParseFlags(const ToolUsage& usage, int* argc, char*** argv);

/// Opens /dev/null in the place of a standard stream that is closed: else the next file that is opened would have its
/// number, and be written to. Before any other file is opened.
void OpenStandardStreams();

/// The log goes to stderr, with Caffe's prefix; with --log_dir (or GLOG_log_dir) to its files as well, as Caffe's
/// programs do, unless --logtostderr says otherwise. Ahead of ParseFlags.
void LogAsCaffe();

/// The main function of a small tool: parses gflags, answers --help (exit 0), logs to stderr, and turns what `body`
/// returns into one line on stderr and the exit status. A wrong command line exits 2, and so does a tool that runs out
/// of memory. SIGINT and SIGTERM end it as they end any program, as the first process of a container too (128 +
/// signal).
int ToolMain(int argc, char** argv, const ToolUsage& usage,
             const std::function<Status(const std::vector<std::string>& arguments)>& body);

}  // namespace hp
