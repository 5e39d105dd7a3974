#include "tools/server/page.h"

#include "io/format.h"
#include "io/text.h"
#include "tools/answer/model_run.h"

namespace sluice {

namespace {

// Every `<tag>` gets the nonce.
void mark(std::string& page, std::string_view tag, const std::string& nonce) {
    const std::string plain = cat("<", tag, ">"), marked = cat("<", tag, " nonce=\"", nonce, "\">");
    for (size_t at = 0; (at = page.find(plain, at)) != page.npos; at += marked.size()) {
        page.replace(at, plain.size(), marked);
    }
}

}  // namespace

HttpReply page_reply() {
    const std::string nonce = formatted("{:016x}{:016x}", draw_seed(), draw_seed());
    std::string page(page_html());
    mark(page, "script", nonce);
    mark(page, "style", nonce);
    const std::string policy =
        cat("default-src 'none'; connect-src 'self'; img-src data:; script-src 'nonce-", nonce,
            "'; style-src 'nonce-", nonce,
            "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
    return {200,
            std::move(page),
            "text/html; charset=utf-8",
            {{"Content-Security-Policy", policy},
             {"Referrer-Policy", "no-referrer"},
             {"Cache-Control", "no-store"}}};
}

}  // namespace sluice
