// The replies of the four APIs. As Dialect::writer().
#pragma once

#include <memory>

#include "tools/api/dialect.h"

namespace sluice {

std::unique_ptr<ReplyWriter> chat_writer(const ApiRequest& request, const ReplyFacts& facts);
std::unique_ptr<ReplyWriter> completion_writer(const ApiRequest& request, const ReplyFacts& facts);
std::unique_ptr<ReplyWriter> responses_writer(const ApiRequest& request, const ReplyFacts& facts);
std::unique_ptr<ReplyWriter> anthropic_writer(const ApiRequest& request, const ReplyFacts& facts);

}  // namespace sluice
