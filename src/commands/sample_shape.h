#pragma once

#include "base/sample_shape.h"
#include "hp/status.h"
#include "input/input.h"
#include "proto/caffe.pb.h"
#include "proto/phase.h"

#include <optional>
#include <string>
#include <vector>

namespace hp {

/// Shapes of a sample, by Phase: of training, and of the solver's tests.
using SampleShapes = std::vector<SampleShape>;

/// Opens the databases of the Data layers to learn them.
/// @param net unfiltered.
/// @return kNotFound: a database or mean file is not on this host; kInvalidArgument, kDataLoss: a fault of net or data,
/// or a phase that the solver runs has no Data layer.
StatusOr<SampleShapes> ReadSampleShapes(const caffe::SolverParameter& solver, const caffe::NetParameter& net,
                                        const InputOptions& inputs);

/// The same, or where `said`, such as "3,227,227", with labels of pixels "3,227,227/227,227", or with further tops
/// "3,227,227+10", is not empty, that shape in all phases, or of "3,8,8:3,9,9" each in its own: for hosts without the
/// data. @return also kInvalidArgument: another text. Names --sample, or the file and the line of the layer.
StatusOr<SampleShapes> SampleShapesOf(const std::string& said, const caffe::SolverParameter& solver,
                                      const caffe::NetParameter& net, const InputOptions& inputs);

/// The shape of one sample of a phase of `net`: `said`, if it is not empty, what its Input layers state, or its
/// databases. @param cache_dir DatasetOptions::cache_dir. Errors as SampleShapesOf's.
StatusOr<SampleShape> SampleShapeOfNet(const std::string& said, const caffe::NetParameter& net, Phase phase,
                                       const std::string& cache_dir);

}  // namespace hp
