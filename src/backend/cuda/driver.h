#pragma once

#include "hp/status.h"

#include <cstddef>

// Functions of the CUDA driver's API that the runtime does not offer. They are looked up when they are called, not
// linked, so that a program with GPU support starts on hosts without a driver. Any thread.
namespace hp {

/// Whether memory of GPU `index` can be exported as a dma-buf.
bool DriverExportsDmaBuf(int index);

/// Exports `bytes` bytes of device memory at `memory`, both multiples of the host's page size, as a dma-buf; the caller
/// closes `*fd`.
/// @param pcie_mapping see Gpu::ExportDmaBuf. @return kFailedPrecondition: the driver can't.
Status DriverExportDmaBuf(const void* memory, size_t bytes, bool pcie_mapping, int* fd);

/// Start and size of the allocation that contains device memory `memory`; the current device is its device.
/// @return kInvalidArgument: not device memory; kFailedPrecondition: the driver has no such function.
Status DriverAllocationOf(const void* memory, const void** begin, size_t* bytes);

}  // namespace hp
