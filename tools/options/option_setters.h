// Turns the text of an option into its value. For option_table.cpp only.
//
// The setters of the table's rows are templates over the member they set and what it may hold:
// integer<&Options::top_k, 0, int32_max>. Those below them, without a template, read texts that
// have a form of their own. Errors are usage, and begin with the source of the text.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/text.h"
#include "tools/options/numbers.h"
#include "tools/options/option_table.h"
#include "tools/options/user_text.h"

namespace sluice::option {

using Outcome = Result<void>;

inline constexpr int64_t int32_max = std::numeric_limits<int32_t>::max();
inline constexpr double infinity = std::numeric_limits<double>::infinity();

inline const std::string& text_of(const Setting& setting) {
    return setting.values.back();
}

inline Outcome refuse(const Setting& setting, std::string_view why) {
    return fail(Code::usage, cat(setting.source, ": ", why));
}
// `"text" is not ` and what it has to be.
inline Outcome refuse_value(const Setting& setting, std::string_view wanted) {
    return refuse(setting, cat('"', printable(text_of(setting)), "\" is not ", wanted));
}

// A member of Options, or of a part of it.
template <class T>
T& member_of(Options& options, T Options::*member) {
    return options.*member;
}
template <class T>
T& member_of(Options& options, T EngineOptions::*member) {
    return options.engine.*member;
}
template <class T>
T& member_of(Options& options, T ServeOptions::*member) {
    return options.serve.*member;
}
template <class T>
T& member_of(Options& options, T ExpertTuning::*member) {
    options.engine.tuning_given = true;
    return options.engine.tuning.*member;
}

template <class T>
void store(T& target, auto value) {
    target = static_cast<T>(value);
}
template <class T>
void store(std::optional<T>& target, auto value) {
    target = static_cast<T>(value);
}

template <auto member>
Outcome on_off(Options& options, const Setting& setting) {
    auto value = parse_switch(setting.source, text_of(setting));
    if (!value) return tl::unexpected(value.error());
    member_of(options, member) = *value;
    return {};
}

template <auto member, int64_t low, int64_t high>
Outcome integer(Options& options, const Setting& setting) {
    auto value = parse_integer(setting.source, text_of(setting), low, high);
    if (!value) return tl::unexpected(value.error());
    store(member_of(options, member), *value);
    return {};
}

template <auto member, RealRange range>
Outcome real(Options& options, const Setting& setting) {
    auto value = parse_real(setting.source, text_of(setting), range);
    if (!value) return tl::unexpected(value.error());
    member_of(options, member) = *value;
    return {};
}

// Bytes, more than none: "7.3GiB".
template <auto member>
Outcome size(Options& options, const Setting& setting) {
    auto bytes = parse_size(text_of(setting));
    if (!bytes) return within(setting.source, bytes.error());
    if (*bytes == 0) return refuse(setting, "must be more than 0 bytes");
    member_of(options, member) = *bytes;
    return {};
}

template <auto member>
Outcome text(Options& options, const Setting& setting) {
    if (auto valid = check_utf8(setting.source, text_of(setting)); !valid) return valid;
    member_of(options, member) = text_of(setting);
    return {};
}

// A file, a folder, a model: not empty.
template <auto member>
Outcome name(Options& options, const Setting& setting) {
    if (text_of(setting).empty()) return refuse(setting, "the name is empty");
    member_of(options, member) = home_expanded(text_of(setting));
    return {};
}

template <auto member>
Outcome names(Options& options, const Setting& setting) {
    for (const std::string& value : setting.values) {
        if (value.empty()) return refuse(setting, "the name is empty");
    }
    auto& target = member_of(options, member) = setting.values;
    for (std::string& value : target) value = home_expanded(value);
    return {};
}

// A word, and the value that it stands for.
template <class T>
struct Word {
    std::string_view text;
    T value;
};

// "a, b or c".
std::string listed(const std::vector<std::string>& words);

template <auto member, const auto& words>
Outcome choice(Options& options, const Setting& setting) {
    std::vector<std::string> known;
    for (const auto& word : words) {
        if (text_of(setting) == word.text) {
            member_of(options, member) = word.value;
            return {};
        }
        known.emplace_back(word.text);
    }
    return refuse_value(setting, listed(known));
}

// A number, which may end in `unit`, or one of a few words.
template <auto member, int64_t low, int64_t high, const auto& words, char unit = '\0'>
Outcome integer_or(Options& options, const Setting& setting) {
    std::vector<std::string> known;
    for (const auto& word : words) {
        if (text_of(setting) == word.text) {
            member_of(options, member) = word.value;
            return {};
        }
        known.emplace_back(word.text);
    }
    std::string_view digits = text_of(setting);
    if (unit != '\0' && digits.ends_with(unit)) digits.remove_suffix(1);
    auto value = parse_integer(setting.source, digits, low, high);
    if (!value) {
        known.push_back(cat("a whole number from ", low, " to ", high));
        return refuse_value(setting, listed(known));
    }
    store(member_of(options, member), *value);
    return {};
}

// A row whose option was read before all others, or has no effect.
inline Outcome nothing(Options&, const Setting&) {
    return {};
}

template <Show show>
Outcome shows(Options& options, const Setting&) {
    options.show = show;
    return {};
}

Outcome mirrors(Options& options, const Setting& setting);
Outcome predict(Options& options, const Setting& setting);
Outcome seed(Options& options, const Setting& setting);
Outcome prompt_cache(Options& options, const Setting& setting);
Outcome stop(Options& options, const Setting& setting);
Outcome loop_guard(Options& options, const Setting& setting);
Outcome device(Options& options, const Setting& setting);
Outcome io_engine(Options& options, const Setting& setting);
Outcome launches(Options& options, const Setting& setting);
Outcome link_rate(Options& options, const Setting& setting);
Outcome drive_rate(Options& options, const Setting& setting);
Outcome tune(Options& options, const Setting& setting);
Outcome no_calibrate(Options& options, const Setting& setting);
Outcome cache_slots(Options& options, const Setting& setting);
Outcome cache_policy(Options& options, const Setting& setting);
Outcome predictor(Options& options, const Setting& setting);
Outcome header_max(Options& options, const Setting& setting);
Outcome attach(Options& options, const Setting& setting);
Outcome bench_parts(Options& options, const Setting& setting);

}  // namespace sluice::option
