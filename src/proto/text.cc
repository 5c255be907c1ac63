#include "proto/text.h"

#include "base/input_file.h"
#include "base/words.h"
#include "proto/check_net.h"
#include "proto/infogain_matrix.h"
#include "proto/layer_names.h"
#include "proto/placed_text.h"
#include "proto/reshape_batch.h"
#include "proto/several_bottoms.h"
#include "proto/text_error.h"
#include "proto/upgrade/upgrade.h"

#include "glog/logging.h"
#include <google/protobuf/io/tokenizer.h>

namespace hp {
namespace {

using google::protobuf::TextFormat;

// Nets nest a handful of messages; the limit keeps a hostile file from exhausting the stack.
constexpr int kMaxNesting = 64;

/// Of UTF-8, which editors of Windows put in front of a text.
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

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
             TextFormat::ParseInfoTree* places) {
  TextFormat::Parser parser;
  FirstError error;
  parser.RecordErrorsTo(&error);
  parser.SetRecursionLimit(kMaxNesting);
  parser.WriteLocationsTo(places);
  const bool ok = parser.ParseFromString(text, message);
  if (!ok || error.any()) {
    return ExplainTextError(text, name, *message->GetDescriptor(), error.line(), error.column(), error.message());
  }
  return OkStatus();
}

}  // namespace

std::string PlaceOf(const std::string& path, const TextFormat::ParseInfoTree* places,
                    const google::protobuf::FieldDescriptor* field, int index) {
  // Line 0 is the first; -1: in a list, of which only the begin is known, or not in the text.
  const int line = places == nullptr ? -1 : places->GetLocation(field, index).line;
  return line < 0 ? path : path + ":" + std::to_string(line + 1);
}

PlaceOfOrigin PlacesIn(const std::string& path, const TextFormat::ParseInfoTree* places) {
  return [path, places](const NetUpgrade::Origin& origin) {
    using Origin = NetUpgrade::Origin;
    const int field = origin.field == Origin::kLayer    ? caffe::NetParameter::kLayerFieldNumber
                      : origin.field == Origin::kLayers ? caffe::NetParameter::kLayersFieldNumber
                                                        : caffe::NetParameter::kInputFieldNumber;
    return PlaceOf(path, places, caffe::NetParameter::descriptor()->FindFieldByNumber(field), origin.index);
  };
}

Status ParseTextProto(const std::string& text, const std::string& name, google::protobuf::Message* message) {
  return Parse(text, name, message, nullptr);
}

Status ReadTextProto(const std::string& path, google::protobuf::Message* message) {
  return ReadPlacedText(path, message, nullptr);
}

Status ReadPlacedText(const std::string& path, google::protobuf::Message* message, TextFormat::ParseInfoTree* places) {
  HP_ASSIGN_OR_RETURN(std::string text, ReadInputFile(path));
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  return Parse(text, path, message, places);
}

Status CompleteNet(const std::string& path, const TextFormat::ParseInfoTree* places, caffe::NetParameter* net) {
  const PlaceOfOrigin place_of = PlacesIn(path, places);
  HP_ASSIGN_OR_RETURN(const NetUpgrade upgrade, UpgradeNet(net, place_of));
  if (!upgrade.forms.empty()) {
    LOG(INFO) << path << " is read in the form of today's Caffe: it has " << Join(upgrade.forms, "; ");
  }
  for (int i = 0; i < net->layer_size(); ++i) {
    const std::string place = place_of(upgrade.origins[i]);
    if (net->layer(i).place_size() > 0) {
      return InvalidArgument("%s: unknown field \"place\" of layer \"%s\"", place.c_str(),
                             net->layer(i).name().c_str());
    }
    net->mutable_layer(i)->add_place(place);
  }
  KeepBatchOfReshapes(net);
  HP_RETURN_IF_ERROR(CheckNet(*net, path));
  NameLayersApart(net);
  for (const std::string& split : SplitSeveralBottoms(net)) LOG(INFO) << path << ": " << split;
  NameLayersApart(net);  // a layer may have the name of a part
  return ReadInfogainMatrices(net);
}

StatusOr<caffe::NetParameter> ReadNet(const std::string& path) {
  caffe::NetParameter net;
  TextFormat::ParseInfoTree places;
  HP_RETURN_IF_ERROR(ReadPlacedText(path, &net, &places));
  HP_RETURN_IF_ERROR(CompleteNet(path, &places, &net));
  return net;
}

StatusOr<caffe::NetParameter> ReadNetInState(const std::string& path, const std::optional<int>& level,
                                             const std::string& stages) {
  HP_ASSIGN_OR_RETURN(caffe::NetParameter net, ReadNet(path));
  if (level) net.mutable_state()->set_level(*level);
  for (const std::string& stage : SplitList(stages)) net.mutable_state()->add_stage(stage);
  NameLayersApart(&net);  // again: the state may have brought layers of one name together
  return net;
}

}  // namespace hp
