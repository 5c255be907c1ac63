#pragma once

#include "proto/caffe.pb.h"

namespace hp {

/// No type keeps more.
constexpr int kMaxHistories = 2;

/// How many arrays of its size the solver's type keeps of each parameter that learns: its histories, from 1 on. Where
/// an array of a parameter is asked for by number, 0 stands for its values.
int HistoriesOf(const caffe::SolverParameter& solver);

}  // namespace hp
