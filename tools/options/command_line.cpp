#include "tools/options/command_line.h"

#include <optional>

#include "io/text.h"
#include "tools/options/suggestions.h"

namespace sluice {

namespace {

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

// "-5" is a number, "-" is standard input.
bool looks_like_flag(std::string_view argument) {
    return argument.size() > 1 && argument[0] == '-' && !is_digit(argument[1]);
}

const OptionSpec* find_flag(Command command, std::string_view flag) {
    for (const OptionSpec& spec : option_table()) {
        if (!(spec.commands & bit(command))) continue;
        for (const std::string& name : spec.flags()) {
            if (name == flag) return &spec;
        }
    }
    return nullptr;
}

// Whether "gl" in "-ngl" can be the value of -n: the flag of another program must not become a bad
// value of ours.
bool can_be_attached(const OptionSpec& spec, std::string_view value) {
    if (std::string_view(spec.value_name) != "N") return true;
    return is_digit(value[0]) || value[0] == '+' || value[0] == '-' || value[0] == '=';
}

class Reader {
 public:
    Reader(Command command, const std::vector<std::string>& arguments)
        : command_(command), arguments_(arguments) {}

    Result<CommandLine> read() {
        while (at_ < arguments_.size()) {
            const std::string& argument = arguments_[at_++];
            if (words_only_ || !looks_like_flag(argument))
                line_.words.push_back(argument);
            else if (argument == "--")
                words_only_ = true;
            else if (argument[1] == '-')
                long_flag(argument);
            else
                short_flags(argument);
        }
        for (const auto& [spec, setting] : line_.flags) {
            if (spec->is(informative)) return std::move(line_);
        }
        if (error_) return tl::unexpected(std::move(*error_));
        return std::move(line_);
    }

 private:
    void long_flag(const std::string& argument) {
        const size_t equals = argument.find('=');
        const std::string flag = argument.substr(0, equals);
        const OptionSpec* spec = find_flag(command_, flag);
        if (!spec) return wrong(unknown_flag(flag, command_));
        if (equals != argument.npos) return add(*spec, argument.substr(equals + 1));
        if (spec->is_switch()) return add(*spec, "true");
        take_values(*spec);
    }

    // "-v", "-n5", "-n 5", "-vp TEXT".
    void short_flags(const std::string& argument) {
        for (size_t i = 1; i < argument.size(); ++i) {
            const OptionSpec* spec = find_flag(command_, std::string{'-', argument[i]});
            const std::string rest = argument.substr(i + 1);
            const bool fits =
                spec && (spec->is_switch() || rest.empty() || can_be_attached(*spec, rest));
            if (!fits) return wrong(unknown_flag(argument, command_));
            if (spec->is_switch()) {
                add(*spec, "true");
                continue;
            }
            return rest.empty() ? take_values(*spec) : add(*spec, rest);
        }
    }

    void take_values(const OptionSpec& spec) {
        if (at_ == arguments_.size()) {
            const std::string name = "--" + spec.name();
            return wrong(
                {Code::usage, cat(name, ": a value is missing: ", name, " ", spec.value_name,
                                  " (see ", help_command(command_), ")")});
        }
        add(spec, arguments_[at_++]);
        if (!spec.is(several)) return;
        while (at_ < arguments_.size() && !looks_like_flag(arguments_[at_]))
            add(spec, arguments_[at_++]);
    }

    void add(const OptionSpec& spec, std::string value) {
        Setting& setting = line_.flags[&spec];
        setting.source = "--" + spec.name();
        setting.values.push_back(std::move(value));
    }

    void wrong(Error error) {
        if (!error_) error_ = std::move(error);
    }

    Command command_;
    const std::vector<std::string>& arguments_;
    size_t at_ = 0;
    bool words_only_ = false;
    CommandLine line_;
    std::optional<Error> error_;
};

}  // namespace

Result<CommandLine> read_command_line(Command command, const std::vector<std::string>& arguments) {
    return Reader(command, arguments).read();
}

}  // namespace sluice
