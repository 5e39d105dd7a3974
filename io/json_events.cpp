#include "io/json_events.h"

#include <exception>
#include <nlohmann/json.hpp>

#include "io/text.h"

namespace sluice {
namespace {

constexpr int depth_max = 128;

// Forwards the library's events to `events` and keeps the first refusal.
class Adapter final : public nlohmann::json::json_sax_t {
 public:
    explicit Adapter(JsonEvents& events) : events_(events) {}

    bool null() override { return go_on(events_.null()); }
    bool boolean(bool value) override { return go_on(events_.boolean(value)); }
    bool number_integer(number_integer_t value) override { return go_on(events_.negative(value)); }
    bool number_unsigned(number_unsigned_t value) override { return go_on(events_.whole(value)); }
    bool number_float(number_float_t value, const string_t&) override {
        return go_on(events_.fraction(value));
    }
    bool string(string_t& value) override { return go_on(events_.text(value)); }
    bool binary(binary_t&) override { return go_on("binary value"); }
    bool key(string_t& name) override { return go_on(events_.key(name)); }
    bool start_object(std::size_t) override { return deeper() && go_on(events_.begin_object()); }
    bool end_object() override {
        --depth_;
        return go_on(events_.end_object());
    }
    bool start_array(std::size_t) override { return deeper() && go_on(events_.begin_array()); }
    bool end_array() override {
        --depth_;
        return go_on(events_.end_array());
    }
    bool parse_error(std::size_t position, const std::string&,
                     const nlohmann::json::exception&) override {
        return go_on(cat("not valid JSON at byte ", position));
    }

    const std::string& refusal() const { return refusal_; }

 private:
    bool go_on(std::string refusal) {
        refusal_ = std::move(refusal);
        return refusal_.empty();
    }
    bool deeper() {
        ++depth_;
        return depth_ <= depth_max || go_on(cat("nested deeper than ", depth_max, " levels"));
    }

    JsonEvents& events_;
    std::string refusal_;
    int depth_ = 0;
};

}  // namespace

Result<void> parse_json_events(std::string_view json, JsonEvents& events) {
    Adapter adapter(events);
    try {
        if (nlohmann::json::sax_parse(json.begin(), json.end(), &adapter)) return {};
    } catch (const std::exception& problem) {
        return fail(Code::corrupt, cat("JSON reader: ", problem.what()));
    }
    return fail(Code::corrupt, adapter.refusal().empty() ? "not valid JSON" : adapter.refusal());
}

}  // namespace sluice
