// From an option's text to its value. For option_table.cpp alone.
#pragma once

#include <string>

#include "io/text.h"
#include "tools/options/numbers.h"
#include "tools/options/option_table.h"
#include "tools/options/user_text.h"

namespace sluice::option {

using Outcome = Result<void>;

inline const std::string& text_of(const Setting& setting) {
    return setting.values.back();
}

// Setters for members of Options, one template a kind.
template <auto member>
Outcome set_switch(Options& options, const Setting& setting) {
    auto value = parse_switch(setting.source, text_of(setting));
    if (!value) return tl::unexpected(value.error());
    options.*member = *value;
    return {};
}

template <auto member>
Outcome set_text(Options& options, const Setting& setting) {
    if (auto valid = check_utf8(setting.source, text_of(setting)); !valid) return valid;
    options.*member = text_of(setting);
    return {};
}

template <auto member>
Outcome set_name(Options& options, const Setting& setting) {
    if (text_of(setting).empty()) return fail(Code::usage, setting.source + ": an empty name");
    options.*member = text_of(setting);
    return {};
}

template <auto member>
Outcome set_list(Options& options, const Setting& setting) {
    options.*member = setting.values;
    return {};
}

Outcome set_drive_rate(Options& options, const Setting& setting);
Outcome set_model(Options& options, const Setting& setting);
Outcome set_mirror(Options& options, const Setting& setting);
Outcome set_revision(Options& options, const Setting& setting);
Outcome accept(Options& options, const Setting& setting);
Outcome set_predict(Options& options, const Setting& setting);
Outcome set_context(Options& options, const Setting& setting);
Outcome set_chunk(Options& options, const Setting& setting);
Outcome set_threads(Options& options, const Setting& setting);
Outcome set_depth(Options& options, const Setting& setting);
Outcome set_parts(Options& options, const Setting& setting);
Outcome set_in_flight(Options& options, const Setting& setting);
Outcome set_temperature(Options& options, const Setting& setting);
Outcome set_top_p(Options& options, const Setting& setting);
Outcome set_min_p(Options& options, const Setting& setting);
Outcome set_penalty(Options& options, const Setting& setting);
Outcome set_top_k(Options& options, const Setting& setting);
Outcome set_seed(Options& options, const Setting& setting);
Outcome set_stop(Options& options, const Setting& setting);
Outcome set_reasoning(Options& options, const Setting& setting);
Outcome set_effort(Options& options, const Setting& setting);
Outcome set_loop_guard(Options& options, const Setting& setting);
Outcome set_device(Options& options, const Setting& setting);
Outcome set_isa(Options& options, const Setting& setting);
Outcome set_io(Options& options, const Setting& setting);
Outcome set_ram(Options& options, const Setting& setting);
Outcome set_vram(Options& options, const Setting& setting);
Outcome set_launches(Options& options, const Setting& setting);
Outcome set_cpu_experts(Options& options, const Setting& setting);
Outcome set_link(Options& options, const Setting& setting);
Outcome set_vram_slots(Options& options, const Setting& setting);
Outcome set_skip_selftest(Options& options, const Setting& setting);
Outcome set_tune(Options& options, const Setting& setting);
Outcome set_no_calibrate(Options& options, const Setting& setting);
Outcome set_slots(Options& options, const Setting& setting);
Outcome set_policy(Options& options, const Setting& setting);
Outcome set_predictor(Options& options, const Setting& setting);
Outcome set_prefetch(Options& options, const Setting& setting);
Outcome set_index_keys(Options& options, const Setting& setting);
Outcome set_record_routes(Options& options, const Setting& setting);
Outcome set_color(Options& options, const Setting& setting);
Outcome set_log_level(Options& options, const Setting& setting);
Outcome set_only(Options& options, const Setting& setting);

}  // namespace sluice::option
