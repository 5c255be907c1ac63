#include "devices/engine_file.h"

#include "base/format.h"
#include "base/pending_file.h"
#include "proto/hash.h"
#include "proto/placed_text.h"

#include "glog/logging.h"
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <utility>

namespace hp {
namespace {

constexpr char kHead[] =
    "# Engines of cuDNN that were timed once and are used from then on, so that training keeps its bits.\n"
    "# hpnode writes and reads this file. Without it the next start times them again and may choose others.\n";

EngineKey KeyOf(const EngineEntry& entry) { return {entry.operation(), entry.gpu(), entry.library()}; }

uint64_t SumOf(EngineFileContents contents) {
  contents.clear_xxh64();
  return HashMessage(contents);
}

/// Whether the entries are those that were written: a digit that has changed still makes an engine.
Status CheckSum(const std::string& path, const EngineFileContents& contents,
                const google::protobuf::TextFormat::ParseInfoTree& places) {
  if (contents.has_xxh64() && contents.xxh64() == SumOf(contents)) return OkStatus();
  const auto* const field = contents.GetDescriptor()->FindFieldByNumber(EngineFileContents::kXxh64FieldNumber);
  const std::string place = contents.has_xxh64() ? PlaceOf(path, &places, field, -1) : path + ":1";
  return DataLoss(
      "%s: the file is damaged: %s; expected it as hpnode wrote it. Restore it, or remove it: then engines are timed "
      "again, and bits may change",
      place.c_str(), contents.has_xxh64() ? "xxh64 is not the sum of its entries" : "it ends before its sum, xxh64");
}

}  // namespace

std::string EngineFile::PathOf(const std::string& snapshot_prefix, Rank rank) {
  return Format("%s_engines_%d.prototxt", snapshot_prefix.c_str(), rank);
}

StatusOr<std::unique_ptr<EngineFile>> EngineFile::Open(const std::string& path) {
  EngineFileContents contents;
  google::protobuf::TextFormat::ParseInfoTree places;
  const Status read = ReadPlacedText(path, &contents, &places);
  std::map<EngineKey, EngineEntry> entries;
  if (read.code() != StatusCode::kNotFound) {
    HP_RETURN_IF_ERROR(read);
    HP_RETURN_IF_ERROR(CheckSum(path, contents, places));
    for (const EngineEntry& entry : contents.entry()) entries[KeyOf(entry)] = entry;
  }
  return std::unique_ptr<EngineFile>(new EngineFile(path, std::move(entries)));
}

std::optional<EngineChoice> EngineFile::Find(const EngineKey& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) {
    WarnOfOthers(key);
    return std::nullopt;
  }
  EngineChoice choice{.engine = found->second.engine(), .knobs = {}};
  for (const EngineKnob& knob : found->second.knob()) choice.knobs.emplace_back(knob.type(), knob.value());
  return choice;
}

void EngineFile::WarnOfOthers(const EngineKey& key) {
  if (warned_) return;
  const auto other = std::find_if(entries_.begin(), entries_.end(),
                                  [&key](const auto& entry) { return entry.first.operation == key.operation; });
  if (other == entries_.end()) return;
  warned_ = true;
  LOG(WARNING) << path_ << ": its engines were chosen on " << other->first.gpu << " with " << other->first.library
               << ", and this is " << key.gpu << " with " << key.library
               << ": engines are timed again, and bits may change";
}

void EngineFile::Keep(const EngineKey& key, const EngineChoice& choice, const EngineTimes& times) {
  EngineEntry& entry = entries_[key];
  entry.Clear();
  entry.set_operation(key.operation);
  entry.set_gpu(key.gpu);
  entry.set_library(key.library);
  entry.set_engine(choice.engine);
  for (const auto& [type, value] : choice.knobs) {
    EngineKnob* const knob = entry.add_knob();
    knob->set_type(type);
    knob->set_value(value);
  }
  if (times.chosen_ms > 0) entry.set_ms(times.chosen_ms);
  if (times.heuristics_ms > 0) entry.set_heuristics_ms(times.heuristics_ms);
  ++made_;
}

Status EngineFile::Save() const {
  if (made_ == 0) return OkStatus();
  EngineFileContents contents;
  for (const auto& [key, entry] : entries_) *contents.add_entry() = entry;
  contents.set_xxh64(SumOf(contents));
  std::string text;
  google::protobuf::TextFormat::PrintToString(contents, &text);
  return WriteWholeFile(path_, kHead + text).Prepend("convolution_engines: TIMED: the choices can't be kept");
}

}  // namespace hp
