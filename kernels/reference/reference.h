// The plain form of every operation: loops a reader can check against the text, sums in double.
// Never optimised. What a faster kernel is judged by; not used in a forward pass outside tests.
#pragma once

#include "kernels/ops.h"

namespace sluice::reference {

void run(const ActQuant& op);
void run(const RopeRequant& op);
void run(const RmsNorm& op);
void run(const LinearFp8& op);
void run(const LinearBf16& op);
void run(const GroupedOutput& op);
void run(const HyperMix& op);
void run(const HyperCollapse& op);
void run(const HyperExpand& op);
void run(const SparseAttention& op);
void run(const WindowStore& op);
void run(const CompressPool& op);
void run(const IndexTopk& op);
void run(const ScaleBf16& op);
void run(const EngramGather& op);
void run(const EngramGate& op);
void run(const Route& op);
void run(const Swiglu& op);
void run(const RoutedExpert& op);
void run(const Combine& op);

}  // namespace sluice::reference
