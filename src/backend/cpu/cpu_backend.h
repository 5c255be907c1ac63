#pragma once

#include "backend/backend.h"

namespace hp {

// What makes the CPU's ops, one function per layer kind; Backend (backend/backend.h) says what each computes. The op's
// layouts, saved and scratch sizes are fixed when it is made. Any thread; the op itself is for the executor thread.

StatusOr<Backend::OpPtr> MakeConvolution(const ConvolutionDesc& desc, const Backend::Descs& in);
StatusOr<Backend::OpPtr> MakePooling(const PoolingDesc& desc, const Backend::Descs& in);
StatusOr<Backend::OpPtr> MakeLrn(const LrnDesc& desc, const Backend::Descs& in);
StatusOr<Backend::OpPtr> MakeInnerProduct(const InnerProductDesc& desc, const Backend::Descs& in);

StatusOr<Backend::OpPtr> MakeActivation(const ActivationDesc& desc, const Backend::Descs& in);
StatusOr<Backend::OpPtr> MakeDropout(const DropoutDesc& desc, const Backend::Descs& in);
StatusOr<Backend::OpPtr> MakeSoftmax(int axis, const Backend::Descs& in);
StatusOr<Backend::OpPtr> MakeSoftmaxLoss(const SoftmaxLossDesc& desc, const Backend::Descs& in);
StatusOr<Backend::OpPtr> MakeAccuracy(const AccuracyDesc& desc, const Backend::Descs& in);
StatusOr<Backend::OpPtr> MakeFlatten(const Shape& out, const Backend::Descs& in);
StatusOr<Backend::OpPtr> MakeConcat(int axis, const Backend::Descs& in);
StatusOr<Backend::OpPtr> MakeEltwise(const EltwiseDesc& desc, const Backend::Descs& in);
StatusOr<Backend::OpPtr> MakeSplit(int ways, const Backend::Descs& in);
StatusOr<Backend::OpPtr> MakeExport(int parts, const Backend::Descs& in);

}  // namespace hp
