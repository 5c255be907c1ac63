#pragma once

#include "hp/status.h"
#include "proto/caffe.pb.h"
#include "proto/upgrade/upgrade.h"

#include <google/protobuf/text_format.h>

#include <string>

namespace hp {

/// ReadTextProto (text.h), and where each field stands in the file.
Status ReadPlacedText(const std::string& path, google::protobuf::Message* message,
                      google::protobuf::TextFormat::ParseInfoTree* places);

/// "PATH:LINE" of a field; PATH alone where its line is not known. @param places of the message that has it; null:
/// unknown. @param index of a repeated field, else -1.
std::string PlaceOf(const std::string& path, const google::protobuf::TextFormat::ParseInfoTree* places,
                    const google::protobuf::FieldDescriptor* field, int index);

/// The places of a net's entries. @param path of the file. @param places of the net's fields, which must outlive the
/// result; null: their lines are unknown, and the file alone is their place.
PlaceOfOrigin PlacesIn(const std::string& path, const google::protobuf::TextFormat::ParseInfoTree* places);

/// Brings a net that was read from a file, or from a part of one, into today's form (UpgradeNet), says so in the log
/// where it had another, checks it (CheckNet), gives layers names of their own and one bottom where they need it
/// (NameLayersApart, SplitSeveralBottoms), and reads the files that it computes with (ReadInfogainMatrices). Each layer
/// says in its `place` where it stands, for AtLayer (place.h).
/// @param path of the file. @param places of the net's fields; null: unknown.
/// @return kInvalidArgument: the first fault, as "PATH:LINE: what; expected ...". kNotFound: no such file.
Status CompleteNet(const std::string& path, const google::protobuf::TextFormat::ParseInfoTree* places,
                   caffe::NetParameter* net);

}  // namespace hp
