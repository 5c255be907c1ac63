#include "proto/text.h"

#include "base/input_file.h"
#include "proto/check_net.h"
#include "proto/place.h"
#include "proto/text_error.h"
#include "proto/upgrade/upgrade.h"

#include "glog/logging.h"
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

namespace hp {
namespace {

using google::protobuf::TextFormat;

// Nets nest a handful of messages; the limit keeps a hostile file from exhausting the stack.
constexpr int kMaxNesting = 64;

/// Keeps the first error: the ones behind it mostly follow from it.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column, const std::string& message) override {
    if (!message_.empty()) return;
    line_ = line;
    column_ = column;
    message_ = message;
  }
  bool any() const { return !message_.empty(); }
  int line() const { return line_; }
  int column() const { return column_; }
  const std::string& message() const { return message_; }

 private:
  int line_ = 0, column_ = 0;
  std::string message_;
};

Status Parse(const std::string& text, const std::string& name, google::protobuf::Message* message,
             TextFormat::ParseInfoTree* locations) {
  TextFormat::Parser parser;
  FirstError error;
  parser.RecordErrorsTo(&error);
  parser.SetRecursionLimit(kMaxNesting);
  parser.WriteLocationsTo(locations);
  const bool ok = parser.ParseFromString(text, message);
  if (!ok || error.any()) {
    return ExplainTextError(text, name, *message->GetDescriptor(), error.line(), error.column(), error.message());
  }
  return OkStatus();
}

/// The line, from 1, where what became a layer stands.
int LineOf(const NetUpgrade::Origin& origin, const TextFormat::ParseInfoTree& locations) {
  using Origin = NetUpgrade::Origin;
  const char* const name = origin.field == Origin::kLayer    ? "layer"
                           : origin.field == Origin::kLayers ? "layers"
                                                             : "input";
  return locations.GetLocation(caffe::NetParameter::descriptor()->FindFieldByName(name), origin.index).line + 1;
}

}  // namespace

Status ParseTextProto(const std::string& text, const std::string& name, google::protobuf::Message* message) {
  return Parse(text, name, message, nullptr);
}

Status ReadTextProto(const std::string& path, google::protobuf::Message* message) {
  HP_ASSIGN_OR_RETURN(const std::string text, ReadInputFile(path));
  return Parse(text, path, message, nullptr);
}

StatusOr<caffe::NetParameter> ReadNet(const std::string& path) {
  HP_ASSIGN_OR_RETURN(const std::string text, ReadInputFile(path));
  caffe::NetParameter net;
  TextFormat::ParseInfoTree locations;
  HP_RETURN_IF_ERROR(Parse(text, path, &net, &locations));
  StatusOr<NetUpgrade> upgrade = UpgradeNet(&net);
  if (!upgrade.ok()) return AtFile(AtLayer(upgrade.status(), path), path);
  for (const std::string& form : upgrade->forms) LOG(INFO) << path << " has " << form << "; it is read as today's form";
  HP_RETURN_IF_ERROR(CheckNet(net, path, [&](int layer) { return LineOf(upgrade->origins[layer], locations); }));
  return net;
}

}  // namespace hp
