#include "tools/answer/loop_guard.h"

namespace sluice {

bool LoopGuard::push(int32_t token) {
    if (tokens_ <= 0) return false;
    seen_.push_back(token);
    int64_t last = static_cast<int64_t>(seen_.size()) - 1;
    bool loop = false;
    for (int64_t period = 1; period < static_cast<int64_t>(runs_.size()); ++period) {
        bool same = period <= last && seen_[last - period] == token;
        runs_[period] = same ? runs_[period] + 1 : 0;
        loop = loop || runs_[period] + period >= tokens_;
    }
    return loop;
}

}  // namespace sluice
