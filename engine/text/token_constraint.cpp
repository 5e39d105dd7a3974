#include "engine/text/token_constraint.h"

#include <algorithm>
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

bool EitherConstraint::limits() const {
    return std::all_of(open_.begin(), open_.end(), [](const auto& each) { return each->limits(); });
}

void EitherConstraint::allowed(TokenMask& mask) {
    open_.front()->allowed(mask);
    for (size_t i = 1; i < open_.size(); ++i) {
        open_[i]->allowed(one_);
        mask.add(one_);
    }
}

void EitherConstraint::accept(int32_t token) {
    const auto forbids = [&](const auto& each) {
        if (!each->limits()) return false;
        each->allowed(one_);
        return !one_.has(token);
    };
    if (open_.size() > 1) std::erase_if(open_, forbids);
    for (const auto& each : open_) each->accept(token);
}

bool EitherConstraint::complete() const {
    return std::all_of(open_.begin(), open_.end(),
                       [](const auto& each) { return each->complete(); });
}

}  // namespace sluice
