#include "tools/serve.h"

#include <cstdio>
#include <ctime>
#include <thread>

#include "io/clock.h"
#include "io/text.h"
#include "tools/answer/cached_source.h"
#include "tools/answer/model_run.h"
#include "tools/api/dialect.h"
#include "tools/server/answer_loop.h"
#include "tools/server/service.h"
#include "tools/terminal/exit_code.h"
#include "tools/terminal/signals.h"

namespace sluice {

namespace {

constexpr std::chrono::milliseconds look_every{100};  // at signals
constexpr std::chrono::milliseconds warm_up_pause{1};
constexpr std::chrono::minutes remember_every{5};

Result<AccessRules> access_rules(const ServeOptions& serve) {
    AccessRules rules;
    rules.hosts.push_back(lower_case(serve.host));
    for (const std::string& host : serve.allowed_hosts) rules.hosts.push_back(lower_case(host));
    for (const std::string& origin : serve.origins) {
        if (origin != "*" && !origin.starts_with("http://") && !origin.starts_with("https://")) {
            return fail(Code::usage, cat("--cors ", printable(origin),
                                         ": an origin looks like https://example.org, or is *"));
        }
        if (printable(origin) != origin)
            return fail(Code::usage, "--cors: an origin has no such characters");
        rules.origins.push_back(origin);
    }
    for (const std::string& text : serve.api_keys) {
        auto keys = read_api_keys(text);
        if (!keys) return tl::unexpected(keys.error());
        rules.keys.insert(rules.keys.end(), keys->begin(), keys->end());
    }
    return rules;
}

HttpServerOptions http_options(const ServeOptions& serve) {
    HttpServerOptions out;
    out.limits.body_max = serve.body_max;
    out.limits.header_max = serve.header_max;
    out.connections_max = static_cast<size_t>(serve.connections);
    out.request_timeout = std::chrono::seconds(serve.request_timeout_s);
    out.write_timeout = std::chrono::seconds(serve.write_timeout_s);
    return out;
}

// Also with --quiet: with --port 0 nothing else says where it listens.
void announce(const Listener& listener, const ServeOptions& serve) {
    std::fprintf(stderr, "listening on %s\n",
                 http_url(printable(serve.host), listener.port()).c_str());
    if (!listener.loopback() && serve.api_keys.empty()) {
        std::fputs(
            "sluice: warning: other machines can reach this server, and it asks for no key; "
            "--api-key @FILE sets one\n",
            stderr);
    }
}

// Watches for signals, on a thread of its own: the engine's thread may be busy, or still loading.
class SignalWatch {
 public:
    SignalWatch(Service& service, RequestQueue& queue)
        : thread_([this, &service, &queue] {
              while (!over_) {
                  if (take_hang_up()) {
                      std::fputs(
                          "sluice: SIGHUP: nothing is reloaded; restart to change settings\n",
                          stderr);
                  }
                  if (interrupt_requested()) {
                      service.stopping();
                      queue.stop();
                  }
                  std::this_thread::sleep_for(look_every / 2);
              }
          }) {}
    ~SignalWatch() {
        over_ = true;
        thread_.join();
    }
    SignalWatch(const SignalWatch&) = delete;
    SignalWatch& operator=(const SignalWatch&) = delete;

 private:
    std::atomic<bool> over_{false};
    std::thread thread_;
};

AnswerLoopHooks watched_by(Monitor& monitor, Session& session) {
    return {[&](AnswerJob& job) {
                session.set_cancel(&job.cancelled());
                session.set_progress([&](double done) {
                    if (job.tokens == 0) job.prompt_done = done;
                    monitor.progress(session);
                });
                monitor.begin(session);
            },
            [&](AnswerJob& job) {
                if (job.tokens == 1) session.set_progress({});
                monitor.token(session);
            },
            [&](AnswerJob&, const Result<Answer>& answer) {
                session.set_progress({});
                session.set_cancel(cancel_flag());
                monitor.end(session, answer);
            }};
}

ServedModel served_model(const ModelRun& run, const Options& options) {
    return {&run, default_request(run, options), options.seed,
            options.serve.alias.empty() ? run.facts.model : options.serve.alias,
            std::time(nullptr)};
}

// Keeps the experts that are worth it: reads those of the last run while there is nothing to do,
// and remembers its own now and then.
class ExpertKeeper {
 public:
    explicit ExpertKeeper(Session& session) : session_(session) {}
    ~ExpertKeeper() { (void)session_.remember_experts(); }
    ExpertKeeper(const ExpertKeeper&) = delete;
    ExpertKeeper& operator=(const ExpertKeeper&) = delete;

    // Between requests. How long to wait for the next one: not long while there is more to read. A
    // failing drive is reported by the answer that needs it.
    std::chrono::milliseconds idle() {
        if (Clock::now() - remembered_ >= remember_every) {
            (void)session_.remember_experts();
            remembered_ = Clock::now();
        }
        const auto more = session_.warm_up();
        return more && *more ? warm_up_pause : look_every;
    }

 private:
    Session& session_;
    Clock::time_point remembered_ = Clock::now();
};

// Answers until a signal asks to end.
void answer_requests(ModelRun& run, RequestQueue& queue, Monitor& monitor) {
    monitor.begin(*run.session);
    CachedSource source(*run.session, *run.prompts, run.engine->tokenizer(), *run.chat->tokens);
    AnswerLoop loop(queue, source, run.engine->tokenizer(), run.facts.end_tokens,
                    watched_by(monitor, *run.session));
    ExpertKeeper keeper(*run.session);
    while (!interrupt_requested()) loop.step(keeper.idle());
}

}  // namespace

int run_serve(const Options& given, const Terminal& terminal) {
    const Options options = with_prompt_cache(given);
    install_signals(SecondPress::leaves, HangUp::noted);
    auto access = access_rules(options.serve);
    if (!access) return report_error(access.error());
    auto listener = Listener::open(options.serve.host, static_cast<uint16_t>(options.serve.port));
    if (!listener) return report_error(listener.error());
    announce(*listener, options.serve);

    RequestQueue queue(static_cast<size_t>(options.serve.queue));
    Monitor monitor;
    Service service({std::move(*access), !options.quiet, options.verbose}, api_routes(), queue,
                    monitor);
    std::unique_ptr<HttpServer> server =
        HttpServer::start(std::move(*listener), http_options(options.serve), service);
    service.served_by(*server);
    SignalWatch watch(service, queue);
    auto run = load_model(options, terminal, options.verbose, [&](uint64_t done, uint64_t all) {
        service.loading(all > 0 ? static_cast<double>(done) / static_cast<double>(all) : 0);
    });
    if (!run) return report_error(run.error());
    const ServedModel model = served_model(*run, options);
    service.loaded(model);
    if (!options.quiet) std::fprintf(stderr, "%s is ready\n", printable(model.name).c_str());
    answer_requests(*run, queue, monitor);
    service.stopping();
    queue.stop();
    server.reset();  // no thread of its uses the model from now on
    return report_error({Code::interrupted, {}});
}

}  // namespace sluice
