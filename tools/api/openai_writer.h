// What the replies of /v1/chat/completions and /v1/completions have in common: the members around
// the choice, usage, and the end of a stream.
#pragma once

#include <string>
#include <string_view>

#include "tools/api/reply_parts.h"

namespace sluice {

class OpenAiWriter : public ReplyWriter {
 public:
    std::string end(const Answer& answer) override;
    std::string failed(int status, const Error& error) override;
    std::string keep_alive(int64_t queue_place, double prompt_done) override {
        return sse_comment(queue_place, prompt_done);
    }

 protected:
    OpenAiWriter(const ApiRequest& request, const ReplyFacts& facts, std::string_view id_prefix,
                 std::string_view chunk_object)
        : request_(request),
          facts_(facts),
          id_(reply_id(id_prefix, facts)),
          fingerprint_(fingerprint()),
          chunk_object_(chunk_object) {}

    // Chunks of a stream: open_chunk(), the members of the only choice, close_chunk(). The last
    // one has the answer that is complete.
    JsonWriter open_chunk() const;
    std::string close_chunk(JsonWriter& json, const Answer* complete = nullptr) const;
    // The members of a choice that adds nothing: {"delta":{},...}.
    virtual void write_no_text(JsonWriter& json) const = 0;

    // A whole reply: an open object with all members before "choices".
    JsonWriter open_reply(std::string_view object) const;

    const ApiRequest request_;
    const ReplyFacts facts_;

 private:
    const std::string id_, fingerprint_;
    const std::string_view chunk_object_;
};

}  // namespace sluice
