#pragma once

#include "hp/status.h"
#include "proto/caffe.pb.h"

#include <optional>
#include <string>
#include <vector>

namespace google::protobuf {
class Message;
}

namespace hp {

// Reading protobuf text files (prototxt) with error messages for people. Any thread.

/// Reads a text-format file into `message`, which is cleared first; after an error its contents are undefined.
/// @return kInvalidArgument: the first fault, as "FILE:LINE:COLUMN: what; expected ...", with the nearest name for a
/// misspelt field, and a note for a field of Caffe's that is not supported; kNotFound: no such file.
Status ReadTextProto(const std::string& path, google::protobuf::Message* message);

/// The same for text in memory; `name` takes the place of FILE in messages.
Status ParseTextProto(const std::string& text, const std::string& name, google::protobuf::Message* message);

/// Reads a net and checks what holds for any net: there are layers, each has a type, and no layer has both include and
/// exclude rules. Layers of one name in one phase, or of none, get names of their own (NameLayersApart). Errors as
/// ReadTextProto's; they name file and line.
StatusOr<caffe::NetParameter> ReadNet(const std::string& path);
/// The same, in a state that flags say: `level`, if given, instead of the net's own, and `stages` (separated by
/// commas) beside its own. Layers have names of their own in that state.
StatusOr<caffe::NetParameter> ReadNetInState(const std::string& path, const std::optional<int>& level,
                                             const std::string& stages);

/// Reads a solver. Its `net` is looked for relative to the working directory, as in Caffe, and else beside the solver
/// file; the result's `net` is the path that was found. A `net_param` is checked as by ReadNet. Files of `weights`
/// are looked for likewise, and one that is in neither place stays as it is written.
/// @return kNotFound: no solver file, or no net file (names both places); kInvalidArgument: a fault in the text, no net
/// or two, or a state of the other phase.
StatusOr<caffe::SolverParameter> ReadSolver(const std::string& path);

/// The net of a solver from ReadSolver: its `net_param` if it has one, else read from the file `net`. Errors as
/// ReadNet's, and kInvalidArgument: its state has another phase than what the solver does with it.
StatusOr<caffe::NetParameter> NetOfSolver(const caffe::SolverParameter& solver);

/// The files that a solver's `weights` name, entry by entry, each a list with commas, as Caffe reads them.
std::vector<std::string> WeightsOf(const caffe::SolverParameter& solver);

/// The path `relative` in the folder of file `base`: "/a/b.prototxt" and "c" make "/a/c". An absolute path is returned
/// as it is.
std::string PathBeside(const std::string& base, const std::string& relative);

}  // namespace hp
