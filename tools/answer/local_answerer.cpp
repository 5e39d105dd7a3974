#include "tools/answer/local_answerer.h"

#include <utility>

#include "tools/answer/cached_source.h"
#include "tools/answer/request.h"
#include "tools/terminal/show.h"
#include "tools/terminal/signals.h"

namespace sluice {

namespace {

class LocalAnswerer final : public Answerer {
 public:
    LocalAnswerer(ModelRun run, const Options& options, const Terminal& terminal,
                  bool predict_must_fit)
        : run_(std::move(run)),
          options_(options),
          progress_shown_(terminal.stderr_tty && !options.quiet),
          predict_must_fit_(predict_must_fit) {}

    void apply(const Options& options) override {
        options_ = options;
        apply_options(run_, options_);
    }
    const RunFacts& facts() const override { return run_.facts; }

    Result<Answer> answer(const std::vector<Message>& messages, uint64_t turn,
                          const PieceSink& sink) override {
        auto request = default_request(run_, options_);
        request.messages = messages;
        request.sampler.seed += turn;
        request.predict_must_fit = predict_must_fit_;
        auto prepared = prepare(run_, request);
        if (!prepared) return tl::unexpected(prepared.error());
        prepared->options.cancel = cancel_flag();
        const Tokenizer& tokenizer = run_.engine->tokenizer();
        PromptProgress progress(*run_.session, progress_shown_);
        CachedSource source(*run_.session, *run_.prompts, tokenizer, *run_.chat->tokens);
        return generate(source, tokenizer, run_.facts.end_tokens, prepared->ids, prepared->options,
                        [&](const AnswerStream::Piece& piece) {
                            progress.finish();
                            return sink(piece);
                        });
    }

    void forget() override { run_.session->reset(); }

    // A failing drive is reported by the answer that needs it.
    bool idle_work() override {
        const auto more = run_.session->warm_up();
        return more && *more;
    }

    Result<void> finish() override {
        (void)run_.session->remember_experts();
        return run_.session->keep_routes();
    }

 private:
    ModelRun run_;
    Options options_;
    const bool progress_shown_, predict_must_fit_;
};

}  // namespace

std::unique_ptr<Answerer> local_answerer(ModelRun run, const Options& options,
                                         const Terminal& terminal, bool predict_must_fit) {
    return std::make_unique<LocalAnswerer>(std::move(run), options, terminal, predict_must_fit);
}

}  // namespace sluice
