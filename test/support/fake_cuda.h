#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <vector>

/// CUDA's runtime, and what is asked of its driver, for GPUs that are not there: a program that is linked with
/// fake_cuda.cc instead of the runtime calls the functions there, as many as cuda_gpu.cc and driver.cc call. Memory is
/// the host's, and work is done when it is put into a stream, unless that is recorded. What the real one refuses is
/// refused; what it would quietly do wrong is written down: calls on a thread whose current device is another one, and
/// the use of what was given back. Any thread.
namespace hp::test::fake_cuda {

/// Forgets everything. @param gpus how many this host has, all within reach of each other.
void Reset(int gpus);
/// GPUs don't reach each other any more.
void Separate();
/// The next call of `function` does nothing but say `error`.
void FailNext(const std::string& function, cudaError_t error);
/// As if work of `ms` milliseconds had been done: time passes by this alone.
void Spend(double ms);
/// As if this thread had launched a kernel in vain.
void FailLaunch(cudaError_t error);

/// Calls that broke a rule of CUDA without an error, one line each.
std::vector<std::string> Misuses();
/// Streams, events, graphs and blocks of memory that have not been given back.
size_t Leaks();
/// How often `function` was called.
int Calls(const std::string& function);

struct Block {
  int device = 0;
  size_t bytes = 0;
  bool pooled = false, on_host = false;
  int imported = 0;  ///< how often it is open by IPC
};
/// The block that begins at `memory`; of no bytes: there is none.
Block BlockAt(const void* memory);

}  // namespace hp::test::fake_cuda
