#pragma once

#include <google/protobuf/message.h>

#include <string>

namespace hp {

/// The first field of a message, or of a message in it, that is NaN, or infinite where the text does not mean "no
/// bound" (ClipParameter): "param { lr_mult: nan }". Values of blobs are not looked at. Empty: there is none.
std::string NonFiniteField(const google::protobuf::Message& message);

}  // namespace hp
