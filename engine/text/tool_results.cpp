#include "engine/text/tool_results.h"

#include <algorithm>
#include <map>
#include <utility>

#include "io/text.h"

namespace sluice {

namespace {

class Orderer {
 public:
    explicit Orderer(const std::vector<Message>& messages)
        : messages_(messages), order_(messages.size()) {
        for (size_t i = 0; i < order_.size(); ++i) order_[i] = i;
    }

    Result<std::vector<size_t>> run() {
        for (size_t i = 0; i < messages_.size(); ++i) {
            const Message& message = messages_[i];
            if (!message.calls.empty() && message.role != Role::assistant)
                return refuse(i, "only assistant messages have tool calls");
            if (!message.call_id.empty() && message.role != Role::tool)
                return refuse(i, "only tool messages have a tool_call_id");
            const bool same_turn = message.role == Role::tool || message.role == Role::user;
            if (!same_turn) sort_turn();
            if (!message.calls.empty()) {
                if (auto fine = learn_calls(i); !fine) return tl::unexpected(fine.error());
            }
            if (!message.call_id.empty()) {
                if (auto fine = result(i); !fine) return tl::unexpected(fine.error());
            }
        }
        sort_turn();
        return std::move(order_);
    }

 private:
    struct Call {
        size_t rank;
        bool answered;
    };

    tl::unexpected<Error> refuse(size_t i, std::string why) const {
        return fail(Code::usage, cat(message_name(messages_, i), ": ", why));
    }

    Result<void> learn_calls(size_t i) {
        calls_.clear();
        for (const ToolCall& call : messages_[i].calls) {
            if (call.id.empty()) continue;
            if (!calls_.emplace(call.id, Call{calls_.size(), false}).second)
                return refuse(i, cat("two tool calls with the id '", printable(call.id), "'"));
        }
        return {};
    }

    Result<void> result(size_t i) {
        const std::string& id = messages_[i].call_id;
        const auto call = calls_.find(id);
        if (call == calls_.end())
            return refuse(i, cat("tool_call_id '", printable(id),
                                 "' is not that of a call in the assistant message before it"));
        if (std::exchange(call->second.answered, true))
            return refuse(i, cat("a second result for the call '", printable(id), "'"));
        turn_.emplace_back(call->second.rank, i);
        return {};
    }

    void sort_turn() {
        const auto results = std::exchange(turn_, {});
        auto sorted = results;
        std::sort(sorted.begin(), sorted.end());
        for (size_t i = 0; i < results.size(); ++i) order_[results[i].second] = sorted[i].second;
    }

    const std::vector<Message>& messages_;
    std::vector<size_t> order_;
    std::map<std::string, Call> calls_;            // of the last message with calls
    std::vector<std::pair<size_t, size_t>> turn_;  // rank and place of the results of this turn
};

}  // namespace

std::string message_name(const std::vector<Message>& messages, size_t index) {
    return cat("message ", index + 1, " (", role_name(messages[index].role), ")");
}

Result<std::vector<size_t>> order_results(const std::vector<Message>& messages) {
    return Orderer(messages).run();
}

}  // namespace sluice
