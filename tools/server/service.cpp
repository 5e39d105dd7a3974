#include "tools/server/service.h"

#include <cstdio>
#include <ctime>

#include "io/format.h"
#include "io/text.h"
#include "tools/answer/json_writer.h"
#include "tools/server/answer_endpoint.h"
#include "tools/server/live.h"
#include "tools/server/model_endpoints.h"
#include "tools/server/page.h"

namespace sluice {

namespace {

constexpr int client_left = 499;
constexpr const char* retry_loading = "5";  // seconds

bool is_at(const Endpoint& endpoint, std::string_view path) {
    const bool below = endpoint.path.size() > 1 && endpoint.path.back() == '/';
    return below ? path.starts_with(endpoint.path) && path.size() > endpoint.path.size()
                 : path == endpoint.path;
}

// "2025-01-31 12:00:00", local time.
std::string time_text() {
    const std::time_t now = std::time(nullptr);
    std::tm parts = {};
    ::localtime_r(&now, &parts);
    char text[32];
    return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts)};
}

// What the client sent goes through printable(): a line stays a line. No key is in it.
std::string log_line(const Exchange& exchange, const Handled& handled, int status, double seconds,
                     bool with_ignored) {
    const HttpRequest& request = exchange.request();
    const auto shown = [](const std::string& text) {
        return text.empty() ? std::string("-") : printable(text);
    };
    std::string out = cat(time_text(), " ", exchange.connection().peer(), " ",
                          shown(request.method), " ", shown(request.path), " ", status);
    if (handled.answered) {
        out += cat(" ", handled.prompt_tokens, "+", handled.completion_tokens, " tokens");
        if (handled.cached_tokens > 0) out += cat(" (", handled.cached_tokens, " kept)");
    }
    out += formatted(" {:.2f} s", seconds);
    if (!handled.problem.empty()) out += cat("; ", printable(handled.problem));
    if (with_ignored && !handled.ignored.empty())
        out += cat("; ignored: ", printable(handled.ignored));
    return out + "\n";
}

void reply_result(Exchange& exchange, Result<std::string> body, const Dialect* dialect = nullptr) {
    if (!body)
        return reply_error(exchange, http_status(body.error().code), body.error().message, dialect);
    exchange.reply({200, std::move(*body)});
}

}  // namespace

Service::Service(ServiceOptions options, std::span<const ApiRoute> routes, RequestQueue& queue,
                 Monitor& monitor)
    : options_(std::move(options)), queue_(queue), monitor_(monitor) {
    add_endpoints(routes);
}

void Service::add_endpoints(std::span<const ApiRoute> routes) {
    const auto add = [&](const char* method, std::string path, bool needs_key, bool needs_model,
                         std::function<void(Exchange&, Handled&)> handle) {
        endpoints_.push_back(
            {method, std::move(path), needs_key, needs_model, nullptr, std::move(handle)});
    };
    const auto model = [this]() -> const ServedModel& { return *model_.load(); };
    const auto tokenizer = [model]() -> const Tokenizer& {
        return model().run->engine->tokenizer();
    };
    for (const ApiRoute& route : routes) {
        const AnswerEndpoint endpoint(*route.dialect, queue_, monitor_);
        add("POST", std::string(route.path), true, true,
            [=](Exchange& e, Handled& handled) { endpoint.handle(model(), e, handled); });
        endpoints_.back().dialect = route.dialect;
    }
    for (const CountRoute& route : count_routes()) {
        add("POST", std::string(route.path), true, true, [=](Exchange& e, Handled&) {
            reply_result(e, count_tokens(route, model(), e.request().body), route.dialect);
        });
        endpoints_.back().dialect = route.dialect;
    }
    add("GET", "/", false, false, [](Exchange& e, Handled&) { e.reply(page_reply()); });
    add("GET", "/health", false, false, [this](Exchange& e, Handled&) { health(e); });
    add("GET", "/v1/models", true, true, [=](Exchange& e, Handled&) {
        e.reply({200, models_json(model())});
    });
    add("GET", "/v1/models/", true, true, [=](Exchange& e, Handled&) {
        const std::string name =
            percent_decoded(std::string_view(e.request().path).substr(sizeof "/v1/models"));
        if (name != model().name) return reply_error(e, 404, "there is no such model", nullptr);
        e.reply({200, model_json(model())});
    });
    add("GET", "/metrics", true, false, [this](Exchange& e, Handled&) {
        const HttpServer* server = server_;
        e.reply({200, metrics_text(monitor_, queue_, server ? server->connections() : 0),
                 "text/plain; version=0.0.4; charset=utf-8"});
    });
    add("GET", "/live", true, true, [=, this](Exchange& e, Handled&) {
        e.reply({200, live_json(model(), monitor_.latest(), queue_)});
    });
    endpoints_.back().polled = true;
    add("GET", "/live/experts", true, true, [this](Exchange& e, Handled&) {
        e.reply({200, experts_json(monitor_.latest().experts)});
    });
    endpoints_.back().polled = true;
    add("POST", "/tokenize", true, true,
        [=](Exchange& e, Handled&) { reply_result(e, tokenize(model(), e.request().body)); });
    add("POST", "/detokenize", true, true,
        [=](Exchange& e, Handled&) { reply_result(e, detokenize(tokenizer(), e.request().body)); });
}

void Service::loading(double done) {
    load_done_ = done;
}
void Service::loaded(const ServedModel& model) {
    model_ = &model;
}
void Service::stopping() {
    stopping_ = true;
}
void Service::served_by(const HttpServer& server) {
    server_ = &server;
}

const Endpoint* Service::find(const HttpRequest& request, bool& other) const {
    const bool head = request.method == "HEAD";
    const std::string_view method = head ? std::string_view("GET") : request.method;
    for (const Endpoint& one : endpoints_) {
        if (!is_at(one, request.path)) continue;
        other = method != one.method;
        return &one;
    }
    return nullptr;
}

void Service::health(Exchange& exchange) const {
    JsonWriter json;
    json.begin_object();
    if (stopping_ || !model_.load()) {
        json.member("status", stopping_ ? "stopping" : "loading model");
        if (!stopping_) json.member("progress", load_done_.load());
        exchange.add_header("Retry-After", retry_loading);
        return exchange.reply({503, json.end_object().text()});
    }
    exchange.reply({200, json.member("status", "ok").end_object().text()});
}

// What a browser asks before it sends a request of another site's page. The names of headers that
// it wants to send are not repeated: "*" does not cover Authorization, so that is named.
void Service::preflight(Exchange& exchange) const {
    exchange.add_header("Access-Control-Allow-Methods", "GET, POST, OPTIONS");
    exchange.add_header("Access-Control-Allow-Headers",
                        "*, authorization, content-type, x-api-key, anthropic-version");
    exchange.add_header("Access-Control-Max-Age", "600");
    exchange.reply({204, {}, {}});
}

bool Service::admitted(Exchange& exchange, const Endpoint* endpoint, Handled& handled) const {
    const HttpRequest& request = exchange.request();
    const bool preflight = request.method == "OPTIONS";
    const Admission admission = admit(options_.access, request, exchange.connection().peer(),
                                      exchange.connection().local_address(),
                                      !preflight && (!endpoint || endpoint->needs_key));
    handled.client = admission.client;
    if (!admission.cors_origin.empty()) {
        exchange.add_header("Access-Control-Allow-Origin", admission.cors_origin);
        exchange.add_header("Vary", "Origin");
    }
    if (admission.refused == 0) return true;
    if (admission.refused == 401) exchange.add_header("WWW-Authenticate", "Bearer");
    reply_error(exchange, admission.refused, admission.problem,
                endpoint ? endpoint->dialect : nullptr);
    return false;
}

bool Service::available(Exchange& exchange, const Endpoint& endpoint) const {
    if (stopping_) {
        exchange.close_connection();
        reply_error(exchange, 503, "the server is shutting down", endpoint.dialect);
        return false;
    }
    if (!endpoint.needs_model || model_.load()) return true;
    exchange.add_header("Retry-After", retry_loading);
    const int percent = static_cast<int>(100 * load_done_);
    reply_error(exchange, 503, cat("loading the model: ", percent, " %"), endpoint.dialect);
    return false;
}

const Endpoint* Service::endpoint_for(Exchange& exchange, Handled& handled) const {
    exchange.add_header("X-Content-Type-Options", "nosniff");
    bool other_method = false;
    const Endpoint* endpoint = find(exchange.request(), other_method);
    if (!admitted(exchange, endpoint, handled)) return nullptr;
    if (exchange.request().method == "OPTIONS") return preflight(exchange), nullptr;
    if (!endpoint) {
        reply_error(exchange, 404, "there is no such address here", nullptr);
        return nullptr;
    }
    if (other_method) {
        const bool get = std::string_view(endpoint->method) == "GET";
        exchange.add_header("Allow", get ? "GET, HEAD, OPTIONS" : "POST, OPTIONS");
        reply_error(exchange, 405, cat("this address takes ", endpoint->method, " only"),
                    endpoint->dialect);
        return nullptr;
    }
    return available(exchange, *endpoint) ? endpoint : nullptr;
}

void Service::handle(Exchange& exchange) {
    const auto start = Clock::now();
    Handled handled;
    if (const Endpoint* endpoint = endpoint_for(exchange, handled)) {
        endpoint->handle(exchange, handled);
    }
    note_reply(exchange, handled, seconds_since(start));
}

bool Service::wants_body(Exchange& exchange) {
    Handled handled;
    if (endpoint_for(exchange, handled)) return true;
    note_reply(exchange, handled, 0);
    return false;
}

void Service::refuse(Exchange& exchange, int status, const std::string& problem) {
    bool other = false;
    const Endpoint* endpoint = find(exchange.request(), other);
    reply_error(exchange, status, problem, endpoint ? endpoint->dialect : nullptr);
    note_reply(exchange, {}, 0);
}

void Service::note_reply(const Exchange& exchange, const Handled& handled, double seconds) {
    const int status = handled.left || exchange.status() == 0 ? client_left : exchange.status();
    bool other = false;
    const Endpoint* endpoint = find(exchange.request(), other);
    monitor_.count_reply(endpoint ? endpoint->path : "other", status);
    const bool polled = endpoint && endpoint->polled && status == 200;
    if (!options_.log_requests || (polled && !options_.log_details)) return;
    std::fputs(log_line(exchange, handled, status, seconds, options_.log_details).c_str(), stderr);
}

}  // namespace sluice
