// The parser reports a position and a message in its own words. The text is tokenized again as the parser does; the
// token at the position, or the one before it, is the one that is wrong. Walking the tokens up to there with a stack of
// open messages gives the enclosing block and its descriptor, and with them the fields or enum values that would fit.
#include "proto/text_error.h"

#include "base/format.h"
#include "base/words.h"
#include "proto/caffe.pb.h"
#include "proto/caffe_types.h"
#include "proto/names.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <vector>

namespace hp {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::io::Tokenizer;

class IgnoreErrors : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int, google::protobuf::io::ColumnNumber, const std::string&) override {}
};

/// The tokens of a text file, as the parser saw them; the last one is the end of the file, with an empty text.
std::vector<Tokenizer::Token> Tokens(const std::string& text) {
  google::protobuf::io::ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
  IgnoreErrors ignore;
  Tokenizer tokenizer(&stream, &ignore);
  tokenizer.set_comment_style(Tokenizer::SH_COMMENT_STYLE);
  tokenizer.set_allow_f_after_float(true);
  tokenizer.set_require_space_after_number(false);
  std::vector<Tokenizer::Token> tokens;
  while (tokenizer.Next()) tokens.push_back(tokenizer.current());
  tokens.push_back(tokenizer.current());
  tokens.back().text.clear();
  return tokens;
}

/// An open message: its type (null: unknown), the field whose value is being read, and the token that opened it.
struct Frame {
  const Descriptor* type = nullptr;
  std::string field;
  size_t opened_at = 0;
};

/// The messages that enclose token `index`, outermost first.
std::vector<Frame> FramesAt(const std::vector<Tokenizer::Token>& tokens, size_t index, const Descriptor& root) {
  std::vector<Frame> frames{{&root, "", 0}};
  for (size_t i = 0; i < index; ++i) {
    const std::string& text = tokens[i].text;
    const std::string& next = tokens[std::min(i + 1, tokens.size() - 1)].text;
    if (tokens[i].type == Tokenizer::TYPE_IDENTIFIER && (next == ":" || next == "{" || next == "<" || next == "[")) {
      frames.back().field = text;
    } else if (text == "{" || text == "<") {
      const Descriptor* outer = frames.back().type;
      const FieldDescriptor* field = outer == nullptr ? nullptr : outer->FindFieldByName(frames.back().field);
      frames.push_back({field == nullptr ? nullptr : field->message_type(), "", i});
    } else if ((text == "}" || text == ">") && frames.size() > 1) {
      frames.pop_back();
    }
  }
  return frames;
}

/// The index of the token at a position; of the last one before it if there is none.
size_t TokenAt(const std::vector<Tokenizer::Token>& tokens, int line, int column) {
  size_t index = 0;
  while (index + 1 < tokens.size() &&
         std::pair(tokens[index + 1].line, tokens[index + 1].column) <= std::pair(line, column))
    ++index;
  return index;
}

std::string Position(const std::string& name, const Tokenizer::Token& token) {
  return Format("%s:%d:%d", name.c_str(), token.line + 1, token.column + 1);
}

std::string Found(const Tokenizer::Token& token) {
  if (token.text.empty()) return "the end of the file";
  const bool quoted = token.text[0] == '"' || token.text[0] == '\'';
  return quoted ? "the string " + token.text : "\"" + token.text + "\"";
}

/// The parser's word for what it wanted, for people.
std::string Wanted(const std::string& what) {
  if (what == "integer") return "a whole number";
  if (what == "double") return "a number";
  if (what == "string") return "a string in quotes";
  if (what == "identifier") return "a field name";
  if (what == "integer or identifier") return "a value's name without quotes";
  return what;
}

/// What stands between `prefix` and `suffix` in `message`; nothing if it does not have that form.
std::string Between(const std::string& message, const std::string& prefix, const std::string& suffix) {
  if (message.rfind(prefix, 0) != 0) return "";
  const size_t end = message.find(suffix, prefix.size());
  return end == std::string::npos ? "" : message.substr(prefix.size(), end - prefix.size());
}

std::vector<std::string> FieldNames(const Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
  std::erase(names, "place");  // of a layer: reading sets it
  return names;
}

/// What the message of `frame` says of itself in field `name`, without quotes; empty: nothing, or no string.
std::string StringIn(const Frame& frame, const std::string& name, const std::vector<Tokenizer::Token>& tokens) {
  int depth = 0;
  for (size_t i = frame.opened_at + 1; i + 2 < tokens.size() && depth >= 0; ++i) {
    const std::string& text = tokens[i].text;
    if (text == "{" || text == "<") ++depth;
    if (text == "}" || text == ">") --depth;
    if (depth != 0 || text != name || tokens[i + 1].text != ":") continue;
    if (tokens[i + 2].type != Tokenizer::TYPE_STRING) return "";
    std::string value;
    Tokenizer::ParseStringAppend(tokens[i + 2].text, &value);
    return value;
  }
  return "";
}

/// Of a layer. Nothing: its type is Caffe's, or says nothing.
std::string TypeOfFork(const std::string& type) {
  if (const ForkType* fork = FindForkType(type)) return DescribeForkType(*fork);
  if (type.empty() || FindCaffeType(type) != nullptr) return "";
  return DescribeStrangeType(type);
}

/// Of a field of a layer itself; likewise.
std::string FieldOfFork(const std::string& field, const std::string& type) {
  if (FindForkType(type) != nullptr) return TypeOfFork(type);
  const ForkType* fork = FindForkField(field);
  return fork != nullptr ? DescribeForkType(*fork) : TypeOfFork(type);
}

bool IsLayer(const Descriptor* type) {
  return type == caffe::LayerParameter::descriptor() || type == caffe::V1LayerParameter::descriptor();
}

/// Of a field within a layer's parameters: that the layer is a fork's, which may have added the field. Nothing: it is
/// in no layer, or as for TypeOfFork.
std::string LayerOfFork(const std::vector<Frame>& frames, const std::vector<Tokenizer::Token>& tokens) {
  const auto layer = std::find_if(frames.rbegin(), frames.rend(), [](const Frame& f) { return IsLayer(f.type); });
  if (layer == frames.rend()) return "";
  const std::string fork = TypeOfFork(StringIn(*layer, "type", tokens));
  if (fork.empty()) return "";
  const std::string name = StringIn(*layer, "name", tokens);
  return (name.empty() ? "" : Format(" in layer \"%s\"", Printable(name).c_str())) + ": " + fork;
}

std::string UnknownField(const std::string& name, const std::vector<Frame>& frames,
                         const std::vector<Tokenizer::Token>& tokens) {
  const Descriptor* type = frames.back().type;
  if (type == nullptr) return Format("unknown field \"%s\"", name.c_str());
  std::string field = Format("unknown field \"%s\"", name.c_str());
  if (IsLayer(type)) {
    const std::string layer = StringIn(frames.back(), "name", tokens);
    const std::string layer_type = StringIn(frames.back(), "type", tokens);
    if (!layer.empty()) field += Format(" of layer \"%s\"", Printable(layer).c_str());
    if (const std::string fork = FieldOfFork(name, layer_type); !fork.empty()) return field + ": " + fork;
    if (!layer_type.empty()) field += Format(" of type %s", layer_type.c_str());
  } else if (const std::string fork = LayerOfFork(frames, tokens); !fork.empty()) {
    return field + fork;
  }
  const std::string block = frames.size() > 1 ? "\"" + frames[frames.size() - 2].field + "\"" : type->name();
  const std::string nearest = NearestName(name, FieldNames(*type));
  if (!nearest.empty()) return field + " (did you mean \"" + nearest + "\"?); expected a field of " + block;
  return field + "; expected a field of " + block + ": " + Join(FieldNames(*type));
}

std::string UnknownValue(const std::string& value, const std::string& field_name, const std::vector<Frame>& frames) {
  std::string text = Format("unknown value \"%s\" of field \"%s\"", value.c_str(), field_name.c_str());
  const Descriptor* type = frames.back().type;
  const FieldDescriptor* field = type == nullptr ? nullptr : type->FindFieldByName(field_name);
  if (field == nullptr || field->enum_type() == nullptr) return text;
  std::vector<std::string> names;
  for (int i = 0; i < field->enum_type()->value_count(); ++i) names.push_back(field->enum_type()->value(i)->name());
  return text + "; expected one of " + Join(names);
}

/// What the parser wanted and found, at the token where it reported it; or its own words.
std::string Mismatch(const std::vector<Tokenizer::Token>& tokens, size_t index, const std::vector<Frame>& frames,
                     const std::string& message) {
  std::string wanted = Between(message, "Expected ", ", got: ");
  if (wanted.empty()) wanted = Between(message, "Expected ", ", found ");
  if (wanted.empty()) return message;
  const Tokenizer::Token& token = tokens[index];
  std::string text = "found " + Found(token) + "; expected " + Wanted(wanted);
  const std::string& field = frames.back().field;
  if (wanted == "identifier" && index > 0 && tokens[index - 1].text == "," && !field.empty()) {
    return text + Format(" behind the \",\" that ends field \"%s\"", field.c_str());
  }
  if (token.text.empty() && frames.size() > 1) {
    text += Format(" or the \"}\" that closes \"%s\" of line %d", frames[frames.size() - 2].field.c_str(),
                   tokens[frames.back().opened_at].line + 1);
  }
  return text;
}

}  // namespace

Status ExplainTextError(const std::string& text, const std::string& name, const Descriptor& root, int line, int column,
                        const std::string& message) {
  const std::vector<Tokenizer::Token> tokens = Tokens(text);
  const size_t here = TokenAt(tokens, line, column);
  // These are reported at the token behind the one that is meant.
  const size_t before = here > 0 ? here - 1 : 0;
  const auto at = [&](size_t index, const std::string& what) {
    return InvalidArgument("%s: %s", Position(name, tokens[index]).c_str(), what.c_str());
  };
  if (message.find("has no field named \"") != std::string::npos) {
    return at(before, UnknownField(tokens[before].text, FramesAt(tokens, before, root), tokens));
  }
  if (message.rfind("Unknown enumeration value of", 0) == 0) {
    const std::vector<Frame> frames = FramesAt(tokens, before, root);
    return at(before, UnknownValue(tokens[before].text, frames.back().field, frames));
  }
  if (const std::string field = Between(message, "Non-repeated field \"", "\""); !field.empty()) {
    return at(before, Format("field \"%s\" is set a second time; expected at most once", field.c_str()));
  }
  if (const std::string field = Between(message, "Invalid value for boolean field \"", "\""); !field.empty()) {
    return at(before, Format("found \"%s\" for field \"%s\"; expected true or false", tokens[before].text.c_str(),
                             field.c_str()));
  }
  if (message.rfind("Integer out of range", 0) == 0) {
    return at(here, Format("%s is out of range; expected a number that fits the field \"%s\"",
                           tokens[here].text.c_str(), FramesAt(tokens, here, root).back().field.c_str()));
  }
  const auto there = [&](const char* what) {
    return InvalidArgument("%s:%d:%d: %s", name.c_str(), line + 1, column + 1, what);
  };
  if (message.rfind("Unexpected end of string", 0) == 0 || message.rfind("String literals cannot cross", 0) == 0) {
    return there("a string in quotes has no end; expected its second quote on the same line");
  }
  if (message.rfind("Interpreting non ascii", 0) == 0) {
    return there("a character that is not ASCII; expected such characters in strings and comments alone");
  }
  if (message.rfind("Expected ", 0) == 0) {
    return at(here, Mismatch(tokens, here, FramesAt(tokens, here, root), message));
  }
  return there(message.c_str());
}

}  // namespace hp
