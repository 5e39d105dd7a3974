// A device behind a slower link: uploads beside compute are done when a link of `bytes_s` would
// have brought them, one after another. For measuring what a machine with that link would do.
//
// Every byte is copied at once by the backend underneath; what is held back are the marks, and for
// compute that comes after uploads the calling thread. Counters tell the slower link's seconds.
#pragma once

#include <memory>

#include "kernels/backend.h"

namespace sluice {

// bytes_s > 0.
std::unique_ptr<Backend> make_paced_link(std::unique_ptr<Backend> device, double bytes_s);

}  // namespace sluice
