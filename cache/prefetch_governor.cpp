#include "cache/prefetch_governor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "io/checkpoint/expert_reader.h"

namespace sluice {
namespace {

constexpr uint32_t guesses_max = PrefetchGovernor::guesses_max;
// In tokens.
constexpr uint32_t known_min = 4;       // without guesses, before anything else
constexpr uint32_t looks_min = 2;       // with guesses only judged, before any is prefetched
constexpr uint32_t trial_min = 3;       // before a trial is judged
constexpr uint32_t trial_max = 8;       // until a trial must have won
constexpr uint32_t refresh_every = 24;  // then one without guesses, to compare with
constexpr uint32_t judge_every = 8;     // then layers that prefetch nothing make guesses, too
constexpr uint32_t rest_min = 8;        // between two trials, doubled while nothing changes
constexpr uint32_t rest_won = 2;        // the same after the first trial that won
constexpr uint32_t rest_max = 1024;
constexpr uint32_t look_rest_max = 256;  // the same between tokens whose guesses are only judged
constexpr uint32_t memory = 8;           // over which a setting's gain is averaged
constexpr double price_tokens = 0.1;     // time for trials that a run starts with

// As shares.
constexpr double forgetting = 0.95;      // weight of an older token, for each newer one
constexpr double gain_min = 0.01;        // of a token's time, to make guesses worth it
constexpr double step_min = 0.005;       // the same for one guess more than now
constexpr double price_share = 0.003;    // of all time, for trials
constexpr double nearly = 0.9;           // of the largest promised gain
constexpr double precision_min = 0.1;    // of right guesses, to prefetch one of this rank
constexpr double precision_rate = 0.05;  // weight of the newest guess

// Moving mean and variance of something nearly constant.
struct Mean {
    uint32_t count = 0;
    double mean = 0, variance = 0;

    void add(double value, uint32_t over) {
        count = std::min(count + 1, over);
        const double step = value - mean;
        mean += step / count;
        variance += (step * (value - mean) - variance) / count;
    }
    double error() const { return std::sqrt(std::max(variance, 0.0) / std::max(count, 1u)); }
};

// Seconds of a token without guesses, as a line over what it has to read.
class Line {
 public:
    void add(double x, double y) {
        if (known()) {  // limits the weight of a single disturbance
            const double expected = at(x);
            y = std::clamp(y, expected / 2, expected * 2);
            residual_.add((y - expected) / expected, 32);
        }
        for (double* sum : {&w_, &x_, &y_, &xx_, &xy_}) *sum *= forgetting;
        w_ += 1, x_ += x, y_ += y, xx_ += x * x, xy_ += x * y;
        ++count_;
    }
    bool known() const { return count_ >= known_min; }
    double at(double x) const {
        const double mean_x = x_ / w_, mean_y = y_ / w_;
        const double spread = xx_ / w_ - mean_x * mean_x;
        if (spread <= 1e-6 * mean_x * mean_x) return mean_y;
        const double slope = std::max(0.0, (xy_ / w_ - mean_x * mean_y) / spread);
        return std::max(mean_y + slope * (x - mean_x), mean_y / 50);
    }
    // Whether no token seen so far had about so much to read.
    bool strange(double x) const {
        const double mean_x = x_ / w_;
        return x < mean_x / 2 || x > 2 * mean_x + 1;
    }
    double spread() const { return std::sqrt(std::max(residual_.variance, 0.0)); }

 private:
    double w_ = 0, x_ = 0, y_ = 0, xx_ = 0, xy_ = 0;
    uint64_t count_ = 0;
    Mean residual_;
};

}  // namespace

double idle_for_guesses(double seconds, std::span<const double> busy_s, double drives_per_layer) {
    double idle = 0;
    for (const double busy : busy_s) idle += std::max(0.0, seconds - busy);
    return std::min(seconds, idle / std::max(1.0, drives_per_layer));
}

struct PrefetchGovernor::Impl {
    enum class Mode { off, look, follow };

    Impl(int32_t layers, uint32_t most_guesses, double its_piece)
        : most(std::min(most_guesses, guesses_max)),
          piece(its_piece),
          precision(static_cast<size_t>(layers)) {}

    // Expected gain of prefetching the guess of this rank, in seconds. A right guess gains the part
    // of its read for which the drive was idle; a wrong one delays by what the drive has been given
    // beyond that.
    double worth(const Mean& right, uint32_t rank) const {
        const double hidden = std::clamp(idle.mean - rank * read.mean, 0.0, read.mean);
        if (hidden <= 0) return 0;
        const double beyond = prefetch_margin * idle.mean + piece * read.mean;
        const double lost = std::min(read.mean - hidden, beyond);
        return right.mean * hidden - (1 - right.mean) * lost;
    }
    uint32_t worthwhile(size_t layer, uint32_t limit) const {
        uint32_t count = 0;
        while (count < limit && precision[layer][count].mean >= precision_min &&
               worth(precision[layer][count], count) > 0) {
            ++count;
        }
        return count;
    }
    // Expected gain of prefetching up to `limit` guesses per layer, as a share of a token's time.
    double promised(uint32_t limit) const {
        double sum = 0;
        for (size_t layer = 0; layer < precision.size(); ++layer) {
            const uint32_t count = worthwhile(layer, limit);
            for (uint32_t rank = 0; rank < count; ++rank) {
                sum += worth(precision[layer][rank], rank);
            }
        }
        return std::min(sum, wait.mean) / std::max(seconds.mean, 1e-12);
    }

    // The fewest guesses per layer that promise nearly the largest gain.
    uint32_t promising() const {
        uint32_t count = 1;
        while (count < most && promised(count) < nearly * promised(most)) ++count;
        return count;
    }

    void measure(const Token& token);
    void judge();
    void judge_trial();
    void settle(uint32_t guesses);
    void end_trial(bool won);
    void plan();
    // Whether the trials so far and one more at `cost` seconds stay within their allowance.
    bool may_try(double cost = 0) const {
        return spent + cost <= price_share * total + price_tokens * seconds.mean;
    }
    // What a token with so many guesses is expected to lose, from the last time they were tried.
    double cost_of(uint32_t guesses) const {
        return std::max(0.0, -gain[guesses].mean) * seconds.mean;
    }

    const uint32_t most;
    const double piece;
    std::vector<std::array<Mean, guesses_max>> precision;  // [layers][rank]

    // Measured on tokens without guesses.
    Line line;
    Mean seconds, wait;  // per token
    Mean idle, read;     // per layer, per expert

    std::array<Mean, guesses_max + 1> gain;  // per setting, as shares of a token's time
    double spent = 0, total = 0;             // seconds: lost to guesses; of all tokens

    Mode mode = Mode::off;
    uint32_t active = 0;     // guesses per layer of the current token
    uint32_t setting = 0;    // the one that has proved itself
    uint32_t candidate = 0;  // on trial; equal to `setting`: no trial
    bool up = true;          // the next trial's direction
    uint32_t looks = 0, look_rested = 0, look_rest = rest_min;
    uint32_t rested = rest_min, rest = rest_min;
    uint64_t tokens = 0, times_off = 0;
    bool strange = false;  // the last token read far more or less than those without guesses
};

// A token without guesses shows what is normal, any other what its guesses gained.
void PrefetchGovernor::Impl::measure(const Token& token) {
    const auto misses = static_cast<double>(token.misses);
    total += token.seconds;
    strange = line.known() && line.strange(misses);
    if (mode == Mode::off) {
        line.add(misses, token.seconds);
        seconds.add(token.seconds, 32);
        wait.add(token.wait_s, 32);
        const double layers = static_cast<double>(precision.size());
        idle.add(std::max(0.0, token.idle_s) / layers, 32);
        if (misses > 0) read.add(token.read_s / misses, 32);
        return;
    }
    const double expected = line.at(misses);
    // Limited, so that an early gain does not pay for long losses.
    spent = std::max(spent + token.seconds - expected, -price_share * total);
    if (mode == Mode::follow && expected > 0) {
        const double share = (expected - token.seconds) / expected;
        gain[active].add(std::clamp(share, -1.0, 1.0), memory);
    }
}

void PrefetchGovernor::Impl::settle(uint32_t guesses) {
    if (guesses == 0 && setting > 0) ++times_off;
    setting = candidate = guesses;
    rested = 0;
}

void PrefetchGovernor::Impl::end_trial(bool won) {
    // After the first win the next trial comes soon.
    rest = !won ? std::clamp(2 * rest, rest_min, rest_max) : setting == 0 ? rest_won : rest_min;
    up = won ? up : !up;
    settle(won ? candidate : setting);
}

void PrefetchGovernor::Impl::judge_trial() {
    const Mean& tried = gain[candidate];
    // A loss larger than noise ends the trial at once.
    if (tried.mean < -gain_min - 2 * line.spread()) return end_trial(false);
    if (tried.count < trial_min && may_try()) return;
    const double unsure = 2 * std::hypot(tried.error(), line.spread() / std::sqrt(tried.count));
    double wanted = gain_min + unsure;
    if (setting > 0) wanted = gain[setting].mean + (candidate > setting ? step_min : -step_min / 2);
    if (tried.count >= trial_min && tried.mean > wanted) return end_trial(true);
    const bool hopeless = tried.mean + unsure < (setting > 0 ? wanted : gain_min);
    if (hopeless || tried.count >= trial_max || !may_try()) end_trial(false);
}

void PrefetchGovernor::Impl::judge() {
    if (mode != Mode::follow) return;
    if (candidate != setting && active == candidate) return judge_trial();
    const Mean& now = gain[setting];
    if (now.count >= trial_min && now.mean < gain_min / 2) {
        rest = rest_min;
        settle(0);
    }
}

// Decides what the next token does.
void PrefetchGovernor::Impl::plan() {
    mode = Mode::off;
    active = 0;
    if (most == 0 || !line.known()) return;
    ++rested, ++look_rested;
    if (candidate == setting && rested >= rest) {
        // One guess at first, in case of losses that nothing predicts.
        const uint32_t above = setting == 0 ? 1 : std::max(setting + 1, promising());
        uint32_t next = std::min(up || setting == 0 ? above : setting - 1, most);
        if (next == 0) next = std::min(above, most);
        if (next != setting && looks >= looks_min && may_try(cost_of(next)) &&
            promised(next) > (setting == 0 ? gain_min : 0)) {
            candidate = next;
            gain[next] = {};
        } else if (setting > 0) {
            up = !up;
            rested = 0;
        }
    }
    if (setting > 0 && (tokens % refresh_every == 0 || strange)) return;
    if (candidate > 0) {
        mode = Mode::follow;
        active = candidate;
    } else if ((looks < looks_min || look_rested >= look_rest) && may_try() &&
               wait.mean > gain_min * seconds.mean) {
        mode = Mode::look;
        if (++looks > looks_min) look_rest = std::min(2 * look_rest, look_rest_max);
        look_rested = 0;
    }
}

PrefetchGovernor::PrefetchGovernor(int32_t layers, uint32_t most, double piece)
    : impl_(std::make_unique<Impl>(layers, most, std::clamp(piece, 0.0, 1.0))) {}
PrefetchGovernor::~PrefetchGovernor() = default;

bool PrefetchGovernor::wants_guesses(int32_t layer) const {
    if (impl_->mode == Impl::Mode::off) return false;
    if (impl_->mode == Impl::Mode::look) return true;
    return guesses_for(layer) > 0 || impl_->tokens % judge_every == 0;
}

uint32_t PrefetchGovernor::guesses_for(int32_t layer) const {
    if (impl_->mode != Impl::Mode::follow) return 0;
    return impl_->worthwhile(static_cast<size_t>(layer), impl_->active);
}

void PrefetchGovernor::observed(int32_t layer, uint32_t guesses, uint32_t right) {
    auto& ranks = impl_->precision[static_cast<size_t>(layer)];
    for (uint32_t rank = 0; rank < std::min(guesses, guesses_max); ++rank) {
        ranks[rank].add(static_cast<double>(right >> rank & 1),
                        static_cast<uint32_t>(1 / precision_rate));
    }
}

void PrefetchGovernor::token_passed(const Token& token) {
    Impl& impl = *impl_;
    ++impl.tokens;
    impl.measure(token);
    impl.judge();
    impl.plan();
}

bool PrefetchGovernor::off() const {
    return impl_->setting == 0;
}

uint64_t PrefetchGovernor::switched_off() const {
    return impl_->times_off;
}

}  // namespace sluice
