#include "io/ring/ring_engine.h"

#include "io/ring/ring_paced.h"
#include "io/text.h"

namespace sluice {

namespace {

// Enough to copy as fast as a few drives deliver without occupying every core.
constexpr uint32_t paced_threads = 8;

}  // namespace

Result<RingChoice> make_ring_engine(const RingOptions& options) {
    if (options.depth < 1 || options.depth > 4096) {
        return fail(Code::usage, cat("reads in flight: must be 1 to 4096, not ", options.depth));
    }
    RingChoice choice;
    if (options.engine == IoEngine::automatic || options.engine == IoEngine::uring) {
        auto uring = make_uring_engine(options);
        if (uring) {
            choice.engine = std::move(*uring);
            return choice;
        }
        if (options.engine == IoEngine::uring) return tl::unexpected(std::move(uring).error());
        choice.cause = std::move(uring).error().message;
    }
    RingOptions pool = options;
    if (options.engine == IoEngine::paced && pool.threads == 0) pool.threads = paced_threads;
    auto threads = make_threads_engine(pool);
    if (!threads) return tl::unexpected(std::move(threads).error());
    choice.engine = std::move(*threads);
    if (options.engine == IoEngine::paced) {
        if (options.paces.empty()) return fail(Code::usage, "a paced drive needs a rate");
        choice.engine =
            std::make_unique<PacedEngine>(std::move(choice.engine), options.paces, options.depth);
    }
    return choice;
}

}  // namespace sluice
