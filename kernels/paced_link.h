// A device behind a slower link: uploads beside compute count as done when a link of `bytes_s`
// would have finished them, one after another. For measuring what a machine with such a link would
// do.
//
// The backend underneath copies every byte at once. Only the marks are delayed, and the calling
// thread for compute that must follow uploads. Counters report the seconds of the slower link.
#pragma once

#include <memory>

#include "kernels/backend.h"

namespace sluice {

// bytes_s > 0.
std::unique_ptr<Backend> make_paced_link(std::unique_ptr<Backend> device, double bytes_s);

}  // namespace sluice
