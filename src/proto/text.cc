#include "proto/text.h"

#include "base/input_file.h"
#include "proto/check_net.h"
#include "proto/text_error.h"

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
  if (Status status = RefuseOldLayers(text, name, *message->GetDescriptor()); !status.ok()) return status;
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
  HP_RETURN_IF_ERROR(CheckNet(net, path, [&locations](int layer) {
    const auto* field = caffe::NetParameter::descriptor()->FindFieldByName("layer");
    return locations.GetLocation(field, layer).line + 1;
  }));
  return net;
}

}  // namespace hp
