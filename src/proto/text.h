#pragma once

#include "hp/status.h"
#include "proto/caffe.pb.h"

#include <string>

namespace google::protobuf {
class Message;
}

namespace hp {

/// Reads a text-format file into `message`, which is cleared first.
/// @return the file's first fault as "FILE:LINE:COLUMN: what; expected ..."; a field that Caffe has and hpnode has not
/// is called that, a misspelt one comes with the nearest name. kNotFound: no such file.
Status ReadTextProto(const std::string& path, google::protobuf::Message* message);

/// The same for text from elsewhere; `name` stands in for the file.
Status ParseTextProto(const std::string& text, const std::string& name, google::protobuf::Message* message);

/// Reads a whole file. @return kNotFound or kInvalidArgument, naming the path and the system's reason.
StatusOr<std::string> ReadFile(const std::string& path);

/// Reads a net and checks what holds for any net: there are layers, each has a name and a type, no name stands twice in
/// one phase, and no layer has both include and exclude rules. Faults name file and line.
StatusOr<caffe::NetParameter> ReadNet(const std::string& path);

/// Reads a solver. Its `net` comes back as the path of the file that was found: as it stands (from the working
/// directory, as Caffe has it), else beside the solver file.
/// @return kNotFound naming both places; kInvalidArgument if it names no net, or by a field that is not supported.
StatusOr<caffe::SolverParameter> ReadSolver(const std::string& path);

/// The net of a solver from ReadSolver: `net_param` if it has one, else the file `net`.
StatusOr<caffe::NetParameter> NetOfSolver(const caffe::SolverParameter& solver);

/// `relative` beside the file `base`: "/a/b.prototxt" + "c" = "/a/c". An absolute path stays.
std::string PathBeside(const std::string& base, const std::string& relative);

}  // namespace hp
