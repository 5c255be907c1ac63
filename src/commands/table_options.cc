#include "commands/table_options.h"

#include "base/words.h"

#include <gflags/gflags.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <variant>

namespace hp {
namespace {

constexpr long kMostNumber = 1 << 20;

using Field = std::variant<std::string TableOptions::*, int32_t TableOptions::*, bool TableOptions::*>;

struct TableFlag {
  const char* name;
  Field field;
  const char* help;
};

// In the order in which a command line shows them.
const TableFlag kFlags[] = {
    {"plan", &TableOptions::plan, "auto: choose the table for the highest throughput."},
    {"conv", &TableOptions::conv,
     "Number of nodes of the conv stage (replicas). N1,N2: the conv layers are cut in two stages on different nodes, "
     "the second of which begins at the first layer of --cut."},
    {"fc", &TableOptions::fc,
     "Number of nodes of the FC stage (shards). K1,K2: two FC stages on different nodes; 0: no FC stage."},
    {"ps", &TableOptions::ps,
     "Number of parameter servers, which the conv nodes send their gradients to and get new values from; 0: they sum "
     "their gradients among themselves."},
    {"staleness", &TableOptions::staleness,
     "Updates that a node may be ahead of the slowest: iteration t computes with the parameters of t - staleness "
     "updates, which changes what comes out. 0: synchronous."},
    {"precision", &TableOptions::precision,
     "How products are computed, which changes what comes out: FP32; BF16, with factors of 16 bits on GPUs and, of "
     "convolutions, on CPUs that have instructions for it; on GPUs TF32 and FP16 as well; AUTO: BF16 if all nodes can. "
     "Plans are made of times in float32, unless a "
     "profile has others (hproute --profile=FILE --precision=BF16)."},
    {"wire_precision", &TableOptions::wire_precision,
     "As what activations, their gradients and those of conv parameters cross between nodes: FP32, or BF16 in half as "
     "many bytes, which changes what comes out."},
    {"convolution_engines", &TableOptions::convolution_engines,
     "Which of cuDNN's engines compute convolutions on GPUs: HEURISTIC, those that cuDNN puts first; TIMED, the "
     "fastest, which are timed before training and kept beside the snapshots, so that the next start has the same "
     "bits."},
    {"jpeg_decoder", &TableOptions::jpeg_decoder,
     "Who decodes the JPEGs of records, which changes pixels by a few levels: HOST, or GPU, nvJPEG on the GPUs of the "
     "nodes that read them."},
    {"micro_batches", &TableOptions::micro_batches,
     "Micro-batches per replica and batch; 0: chosen automatically, at most 4."},
    {"cut", &TableOptions::cut,
     "Name of the first layer of each stage behind the first; empty: chosen by the InnerProduct layers."},
    {"split", &TableOptions::split,
     "How InnerProduct layers are divided over the shards: LAYER:BY,..., BY being OUTPUTS (as all others are), INPUTS "
     "(best behind one split by OUTPUTS: nothing is sent in between) or NONE."},
    {"beside", &TableOptions::beside,
     "FC shard i is a part of conv node i; shards beyond the conv nodes have nodes of their own."},
    {"side_classifiers", &TableOptions::side_classifiers,
     "The first FC stage also has the InnerProducts of side classifiers, such as GoogLeNet's, and their losses."},
    {"scattered", &TableOptions::scattered,
     "Send each FC shard a slice of what enters its stage, and let the shards gather it, instead of all to each."},
    {"shares", &TableOptions::shares,
     "Share of the batch of each conv node, such as 2,1: a host of twice the speed; empty: all alike."},
    {"batch_per_replica", &TableOptions::batch_per_replica,
     "batch_size of the training net is per replica, not the total of all replicas."},
    {"tls", &TableOptions::tls,
     "Encrypt what the nodes send to each other; each needs the job's token (hproute --new_token)."},
    {"job", &TableOptions::job, "Name of the job; tells two jobs with the same table apart."},
    {"sample", &TableOptions::sample,
     "Where a table is chosen, and the data is not on this host: CHANNELS,HEIGHT,WIDTH of a sample behind its "
     "transformation, such as 3,227,227, behind a slash the shape of its labels, if they are several, such as "
     "3,227,227/227,227, and behind a plus each further top of a row, such as 3,227,227+10+1; where tests have other "
     "ones, those of training and of each test, separated by colons."},
    {"profile", &TableOptions::profile,
     "Where a table is chosen: a file with times of the net's layers (hproute --profile), which replace counted "
     "operations."},
    {"exclude", &TableOptions::exclude,
     "Hosts to leave out, separated by commas: those that hpctl status or a log calls slow."},
};

/// The value as a flag's; empty: it is that of `defaults`.
std::string ValueText(const TableFlag& flag, const TableOptions& options, const TableOptions& defaults) {
  return std::visit(
      [&](auto field) -> std::string {
        const auto& value = options.*field;
        if (value == defaults.*field) return "";
        const std::string name = std::string(" --") + flag.name;
        if constexpr (std::is_same_v<decltype(field), bool TableOptions::*>) return value ? name : name + "=false";
        if constexpr (std::is_same_v<decltype(field), int32_t TableOptions::*>) {
          return name + "=" + std::to_string(value);
        }
        if constexpr (std::is_same_v<decltype(field), std::string TableOptions::*>) return name + "=" + value;
      },
      flag.field);
}

}  // namespace

std::string TableOptions::text() const {
  TableOptions shown;
  shown.conv = shown.fc = "";  // always said
  std::string text;
  for (const TableFlag& flag : kFlags) text += ValueText(flag, *this, shown);
  return text;
}

void RegisterTableFlags(const char* file, TableOptions* options, const std::map<std::string, const char*>& own,
                        const std::vector<std::string>& only) {
  // gflags keeps both pointers, and reads the second one for --help.
  static TableOptions defaults;
  defaults = *options;
  for (const TableFlag& flag : kFlags) {
    if (!only.empty() && std::find(only.begin(), only.end(), flag.name) == only.end()) continue;
    const auto told = own.find(flag.name);
    const char* const help = told == own.end() ? flag.help : told->second;
    std::visit(
        [&](auto field) { gflags::FlagRegisterer(flag.name, help, file, &(options->*field), &(defaults.*field)); },
        flag.field);
  }
}

const char* FirstGiven(const TableOptions& options, const std::vector<const char*>& names) {
  for (const char* name : names) {
    const auto* const flag =
        std::find_if(std::begin(kFlags), std::end(kFlags), [&](const TableFlag& f) { return !strcmp(f.name, name); });
    if (!ValueText(*flag, options, {}).empty()) return name;
  }
  return nullptr;
}

const char* FirstGivenBut(const TableOptions& options, const std::vector<const char*>& names) {
  std::vector<const char*> others;
  for (const TableFlag& flag : kFlags) {
    const auto is_flag = [&flag](const char* name) { return !strcmp(flag.name, name); };
    if (std::none_of(names.begin(), names.end(), is_flag)) others.push_back(flag.name);
  }
  return FirstGiven(options, others);
}

Status CheckTableOptions(const TableOptions& options) {
  if (options.plan.empty()) {
    const char* const lone = FirstGiven(options, {"sample", "profile"});
    if (lone == nullptr) return OkStatus();
    return InvalidArgument("--%s goes with --plan=auto: it is for a table that is chosen", lone);
  }
  if (options.plan != "auto") return InvalidArgument("--plan is \"%s\"; expected auto", options.plan.c_str());
  const char* const chosen =
      FirstGiven(options, {"ps", "micro_batches", "cut", "split", "beside", "side_classifiers", "scattered", "shares"});
  if (chosen != nullptr) return InvalidArgument("--%s does not go with --plan=auto, which chooses the table", chosen);
  if (options.staleness != 0) {
    return InvalidArgument("--staleness does not go with --plan=auto, which plans without it");
  }
  const char* const unplanned = FirstGiven(options, {"convolution_engines", "jpeg_decoder"});
  if (unplanned == nullptr) return OkStatus();
  return InvalidArgument(
      "--%s does not go with --plan=auto, which plans without it; the table that is chosen can say it", unplanned);
}

StatusOr<std::vector<int>> NumbersOfFlag(const char* flag, const std::string& text, const char* what) {
  std::vector<int> numbers;
  for (const std::string& item : SplitList(text)) {
    char* end = nullptr;
    const long number = std::strtol(item.c_str(), &end, 10);
    if (*end != '\0' || number < 0 || number > kMostNumber) {
      return InvalidArgument("--%s has \"%s\"; expected %s", flag, item.c_str(), what);
    }
    numbers.push_back(static_cast<int>(number));
  }
  return numbers;
}

StatusOr<RoutingTableConfig::Precision> PrecisionOf(const std::string& text) {
  RoutingTableConfig::Precision precision = RoutingTableConfig::FP32;
  if (RoutingTableConfig::Precision_Parse(text, &precision)) return precision;
  return InvalidArgument("--precision is \"%s\"; expected FP32, TF32, BF16, FP16 or AUTO", text.c_str());
}

StatusOr<RoutingTableConfig::Precision> WirePrecisionOf(const TableOptions& options) {
  RoutingTableConfig::Precision precision = RoutingTableConfig::FP32;
  const bool known = RoutingTableConfig::Precision_Parse(options.wire_precision, &precision);
  if (known && (precision == RoutingTableConfig::FP32 || precision == RoutingTableConfig::BF16)) return precision;
  return InvalidArgument("--wire_precision is \"%s\"; expected FP32 or BF16", options.wire_precision.c_str());
}

StatusOr<RoutingTableConfig::ConvolutionEngines> ConvolutionEnginesOf(const std::string& text) {
  RoutingTableConfig::ConvolutionEngines engines = RoutingTableConfig::HEURISTIC;
  if (RoutingTableConfig::ConvolutionEngines_Parse(text, &engines)) return engines;
  return InvalidArgument("--convolution_engines is \"%s\"; expected HEURISTIC or TIMED", text.c_str());
}

StatusOr<RoutingTableConfig::JpegDecoder> JpegDecoderOf(const std::string& text) {
  RoutingTableConfig::JpegDecoder decoder = RoutingTableConfig::HOST;
  if (RoutingTableConfig::JpegDecoder_Parse(text, &decoder)) return decoder;
  return InvalidArgument("--jpeg_decoder is \"%s\"; expected HOST or GPU", text.c_str());
}

StatusOr<TableRequest> RequestOfOptions(const TableOptions& options) {
  TableRequest request;
  HP_ASSIGN_OR_RETURN(request.conv, NumbersOfFlag("conv", options.conv, "a number of nodes"));
  HP_ASSIGN_OR_RETURN(request.fc, NumbersOfFlag("fc", options.fc, "a number of nodes"));
  if (request.fc.empty()) return InvalidArgument("--fc is empty; expected K, K1,K2 or 0");
  if (request.fc == std::vector<int>{0}) request.fc.clear();
  request.ps = options.ps;
  request.staleness = options.staleness;
  HP_ASSIGN_OR_RETURN(request.precision, PrecisionOf(options.precision));
  HP_ASSIGN_OR_RETURN(request.wire_precision, WirePrecisionOf(options));
  HP_ASSIGN_OR_RETURN(request.convolution_engines, ConvolutionEnginesOf(options.convolution_engines));
  HP_ASSIGN_OR_RETURN(request.jpeg_decoder, JpegDecoderOf(options.jpeg_decoder));
  request.micro_batches = options.micro_batches;
  request.cut = SplitList(options.cut);
  request.split = SplitList(options.split);
  request.beside = options.beside;
  request.side_classifiers = options.side_classifiers;
  request.scattered = options.scattered;
  request.per_replica = options.batch_per_replica;
  request.tls = options.tls;
  request.job = options.job;
  return request;
}

}  // namespace hp
