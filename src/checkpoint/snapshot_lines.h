#pragma once

#include <optional>
#include <string>

namespace hp {

// What a node's log says of a snapshot: Caffe's words, by which hplaunch and other programs find its files.

/// Of a .caffemodel or .caffemodel.h5 that is about to be written.
std::string ModelLine(const std::string& path);
/// Of a .solverstate or .solverstate.h5 that is there: the snapshot's files are complete.
std::string StateLine(const std::string& path);

/// The manifest that completes the snapshot of which a line of a log is the ModelLine, whatever stands in front of it.
/// Nothing: another line.
std::optional<std::string> ManifestOfLine(const std::string& line);

}  // namespace hp
