#pragma once

#include "hp/status.h"

#include <cstddef>

// What only the driver's own interface offers. Its functions are looked up when they are needed, so that a program
// with GPU support starts where there is no driver.
namespace hp {

/// Whether memory of GPU `index` can be exported as a dma-buf.
bool DriverExportsDmaBuf(int index);

/// A dma-buf of `bytes` bytes at `memory`, both multiples of the host's page size.
/// @param pcie_mapping see Gpu::ExportDmaBuf. @return kFailedPrecondition: the driver can't.
Status DriverExportDmaBuf(const void* memory, size_t bytes, bool pcie_mapping, int* fd);

/// The allocation that the device memory at `memory` lies in. @return kInvalidArgument: none.
Status DriverAllocationOf(const void* memory, const void** begin, size_t* bytes);

}  // namespace hp
