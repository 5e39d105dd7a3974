#include "tools/simulate.h"

#include <algorithm>
#include <cstdio>

#include "cache/policy.h"
#include "cache/simulator.h"
#include "io/checkpoint/model_folder.h"
#include "io/format.h"
#include "io/text.h"
#include "tools/answer/report.h"
#include "tools/terminal/exit_code.h"
#include "tools/terminal/output.h"
#include "tools/terminal/signals.h"

namespace sluice {

namespace {

std::vector<uint32_t> slots_to_try(const Options& options, const RouteFileHeader& header) {
    if (!options.slot_counts.empty()) return options.slot_counts;
    auto all = static_cast<uint32_t>(header.layers * header.experts);
    std::vector<uint32_t> out;
    for (auto slots = static_cast<uint32_t>(header.layers * header.top_k); slots < all; slots *= 2)
        out.push_back(slots);
    out.push_back(all);
    return out;
}

struct Row {
    SimulateOptions options;
    CacheStats stats;
    std::string report;  // of the policy
};

Result<std::vector<Row>> simulate_all(const Options& options, const RouteFile& routes) {
    auto policies = options.policies;
    if (policies.empty()) {
        policies = policy_names();
        policies.push_back("belady");
    }
    auto predictors = options.predictors;
    uint32_t guesses = options.engine.prefetch.value_or(0);
    if (predictors.empty()) predictors = {guesses > 0 ? "router" : "none"};
    std::vector<Row> rows;
    for (uint32_t slots : slots_to_try(options, routes.header)) {
        for (const auto& policy : policies) {
            for (const auto& predictor : predictors) {
                if (interrupt_requested()) return fail(Code::interrupted, "interrupted");
                SimulateOptions one{policy, predictor, slots, guesses, options.engine.seed};
                std::string report;
                auto stats = simulate(routes, one, &report);
                if (!stats) return within(policy, stats.error());
                rows.push_back({one, *stats, std::move(report)});
            }
        }
    }
    return rows;
}

std::string table(const RouteFile& routes, const std::vector<Row>& rows) {
    uint64_t decoded = 0;
    for (const auto& token : routes.tokens) decoded += !token.prompt;
    std::string out = cat(routes.header.model, ": ", routes.header.layers, " layers x ",
                          routes.header.experts, " experts, top ", routes.header.top_k, "; ",
                          routes.tokens.size(), " tokens, ", decoded, " decoded\n",
                          "  slots  policy      predictor  hit rate  misses/token  MB/token  "
                          "prefetch used/wasted  guesses right\n");
    for (const auto& row : rows) {
        const CacheStats& s = row.stats;
        double misses = rate(static_cast<double>(s.misses), static_cast<double>(decoded));
        double bytes = misses * static_cast<double>(routes.header.expert_bytes) / 1e6;
        out += formatted(
            "{:7}  {:<10}  {:<9}  {:7.2f}%  {:12.2f}  {:8.2f}  {:10}/{:<9}  {:12.1f}%\n",
            row.options.slots, row.options.policy, row.options.predictor,
            100 * rate(static_cast<double>(s.hits), static_cast<double>(s.asked)), misses, bytes,
            s.prefetch_used, s.prefetch_wasted,
            100 * rate(static_cast<double>(s.guesses_right), static_cast<double>(s.guesses)));
    }
    return out;
}

void write_json(JsonWriter& json, const std::string& file, const RouteFile& routes,
                const std::vector<Row>& rows) {
    json.begin_object()
        .member("file", file)
        .member("model", routes.header.model)
        .member("tokens", routes.tokens.size())
        .key("runs")
        .begin_array();
    for (const auto& row : rows) {
        json.begin_object()
            .member("slots", row.options.slots)
            .member("policy", row.options.policy)
            .member("predictor", row.options.predictor)
            .member("prefetch", row.options.prefetch)
            .member("report", row.report)
            .key("cache");
        write_cache(json, row.stats);
        json.end_object();
    }
    json.end_array().end_object();
}

}  // namespace

int run_simulate(const Options& options) {
    install_signals(SecondPress::leaves);
    Output output(1);
    JsonWriter json;
    json.begin_array();
    for (const auto& file : options.route_files) {
        auto routes = read_route_file(file);
        if (!routes) return report_error(routes.error());
        if (routes->tokens.empty()) {
            return report_error(
                {Code::corrupt, cat(printable(file),
                                    ": contains no complete token; record again: sluice MODEL -p "
                                    "TEXT --record-routes ",
                                    shell_quoted(file))});
        }
        if (routes->cut) {
            std::fprintf(stderr,
                         "sluice: %s ends inside a token; replaying its %zu complete tokens\n",
                         printable(file).c_str(), routes->tokens.size());
        }
        auto rows = simulate_all(options, *routes);
        if (!rows) return report_error(rows.error());
        if (options.json) {
            write_json(json, file, *routes, *rows);
        } else if (auto done = output.write(table(*routes, *rows)); !done) {
            return report_error(done.error());
        }
    }
    if (options.json) {
        json.end_array();
        if (auto done = output.write(json.text() + "\n"); !done) return report_error(done.error());
    }
    return output.reader_gone() ? exit_reader_gone : exit_ok;
}

}  // namespace sluice
