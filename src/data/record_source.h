#pragma once

#include "data/dataset.h"
#include "data/order.h"
#include "hp/status.h"

#include <cstdint>
#include <memory>

namespace caffe {
class LayerParameter;
}

namespace hp {

// From a layer of the net that reads records to these and their order. Parameters of other types that it has beside its
// own say nothing, as in Caffe. Any thread.

/// Opens the database of a Data layer, or the list of an ImageData or HDF5Data layer.
/// @return errors as Dataset::Open, ImageListDataset::Open, Hdf5Dataset::Open.
StatusOr<std::unique_ptr<Dataset>> OpenDatasetOf(const caffe::LayerParameter& layer, const DatasetOptions& options);

/// The order in which the layer visits its records: its `shuffle` and, in training, `rand_skip`.
/// @param records > 0. @param seed the job's. @param train as Caffe's phase.
RecordOrder RecordOrderOf(const caffe::LayerParameter& layer, int64_t records, uint64_t seed, bool train);

}  // namespace hp
