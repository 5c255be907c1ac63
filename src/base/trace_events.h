#pragma once

#include <cstdint>
#include <string>

namespace hp {

/// Events of a trace that chrome://tracing and ui.perfetto.dev open: objects of a JSON array, which may lack its end.
/// A process is a node, its threads are tracks below each other. Times in ns, from any moment on.
/// Source: "Trace Event Format" (the Chromium project).

/// What the process is called ("M", process_name).
std::string TraceProcess(int process, const std::string& name);
/// What one of its tracks is called ("M", thread_name); tracks are numbered from 1.
std::string TraceTrack(int process, int track, const std::string& name);
/// Something that takes time ("X").
std::string TraceSpan(int process, int track, const std::string& name, int64_t begin_ns, int64_t ns);
/// Something that happens at a moment ("i").
std::string TraceMoment(int process, int track, const std::string& name, int64_t at_ns);

}  // namespace hp
