#pragma once

#include "hp/status.h"
#include "scheduler/plan/table_maker.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace hp {

/// What a user says of a table that is to be made, as the flags of the same names say it. hproute, hpserver and hpnode
/// have all of them, hplaunch some. The files of the job and the hosts are each program's own.
struct TableOptions {
  std::string plan;           ///< "auto": the table is chosen; empty: made as the rest says
  std::string conv = "1";     ///< "N" or "N1,N2": replicas of each conv stage
  std::string fc = "1";       ///< "K" or "K1,K2": shards of each FC stage; "0": none
  int32_t ps = 0;             ///< parameter servers
  int32_t micro_batches = 0;  ///< 0: chosen
  std::string cut, split;     ///< lists, as TableRequest
  bool beside = false;        ///< as TableRequest, and so are those below
  bool side_classifiers = false, scattered = false;
  std::string shares;  ///< list; of whom each is, the program says
  bool batch_per_replica = false;
  int32_t staleness = 0;
  std::string precision = "FP32", wire_precision = "FP32", convolution_engines = "HEURISTIC";
  std::string jpeg_decoder = "HOST";
  bool tls = false;
  std::string job;
  std::string sample;   ///< "C,H,W", with `plan`; empty: of the database
  std::string profile;  ///< path, with `plan`; empty: none
  std::string exclude;  ///< list of hosts

  /// As on a command line: " --conv=2 --fc=1 --beside", with what differs from the defaults, and always --conv and
  /// --fc.
  std::string text() const;
};

/// Registers the flags with gflags, which is to come before it parses the command line.
/// @param file of the program (__FILE__): --help shows them among its own. @param options their values, and until the
/// command line is parsed their defaults; lives as long as the process.
/// @param own texts of --help, by name, that replace those that all programs share; live as long as the process.
/// @param only names of those to register; empty: all.
void RegisterTableFlags(const char* file, TableOptions* options, const std::map<std::string, const char*>& own = {},
                        const std::vector<std::string>& only = {});

/// The first of the flags `names` whose value is not that of TableOptions{}; null: none.
const char* FirstGiven(const TableOptions& options, const std::vector<const char*>& names);
/// The same of all flags but `names`.
const char* FirstGivenBut(const TableOptions& options, const std::vector<const char*>& names);

/// Checks which options go together: with a plan none that it chooses itself, and without one none that is for a plan.
/// @return kInvalidArgument: which does not.
Status CheckTableOptions(const TableOptions& options);

/// Reads a list of numbers. @param flag,what for the message: its name, and what each number is.
/// @return kInvalidArgument: an item is no number from 0 to 2^20.
StatusOr<std::vector<int>> NumbersOfFlag(const char* flag, const std::string& text, const char* what);

/// @param text the value of a flag `precision`. @return kInvalidArgument: no precision of a table.
StatusOr<RoutingTableConfig::Precision> PrecisionOf(const std::string& text);
/// @return kInvalidArgument: it is neither FP32 nor BF16.
StatusOr<RoutingTableConfig::Precision> WirePrecisionOf(const TableOptions& options);

/// @param text the value of a flag `convolution_engines`. @return kInvalidArgument: a table has no such field's value.
StatusOr<RoutingTableConfig::ConvolutionEngines> ConvolutionEnginesOf(const std::string& text);

/// The same of a flag `jpeg_decoder`.
StatusOr<RoutingTableConfig::JpegDecoder> JpegDecoderOf(const std::string& text);

/// The request for MakeTable that the options are: all but for solver, hosts, port and shares.
/// @return kInvalidArgument: a list has another form.
StatusOr<TableRequest> RequestOfOptions(const TableOptions& options);

}  // namespace hp
