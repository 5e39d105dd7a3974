#include "engine/text/token_constraint.h"

#include <utility>

namespace sluice {

ForcedPrefix::ForcedPrefix(std::vector<int32_t> ids, std::unique_ptr<TokenConstraint> then)
    : ids_(std::move(ids)), then_(std::move(then)) {}

bool ForcedPrefix::limits() const {
    return in_prefix() || (then_ && then_->limits());
}

void ForcedPrefix::allowed(TokenMask& mask) {
    if (in_prefix()) {
        mask.clear();
        mask.add(ids_[at_]);
    } else if (then_) {
        then_->allowed(mask);
    } else {
        mask.fill();
    }
}

void ForcedPrefix::accept(int32_t token) {
    if (in_prefix()) {
        ++at_;
    } else if (then_) {
        then_->accept(token);
    }
}

bool ForcedPrefix::complete() const {
    return !in_prefix() && then_ && then_->complete();
}

}  // namespace sluice
