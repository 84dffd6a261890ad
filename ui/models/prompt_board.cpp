// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/prompt_board.h"

#include <condition_variable>
#include <list>
#include <mutex>

#include "ui/models/text_format.h"

namespace piper::ui {

struct PromptBoard::Waiting {
    Prompt prompt;
    const BoardPrompter* asker = nullptr;
    bool done = false;
    bool accepted = false;                            ///< of a host key
    std::optional<std::vector<std::string>> answers;  ///< of questions
};

struct PromptBoard::State {
    std::mutex mutex;
    std::condition_variable wake;
    std::list<Waiting> waiting;  ///< oldest first
    std::uint64_t next_id = 1;
    PromptBoard* board = nullptr;  ///< null once it has ended: nothing is asked any more

    /// Under the mutex.
    void tellBoard() const {
        if (board != nullptr) board->m_window.post([board = board] { Q_EMIT board->changed(); });
    }

    /// Ends what `chosen` holds for; unanswered means refused.
    template <class Chosen, class Answer>
    void settle(const Chosen& chosen, const Answer& answer) {
        const std::lock_guard held(mutex);
        for (Waiting& one : waiting) {
            if (one.done || !chosen(one)) continue;
            answer(one);
            one.done = true;
        }
        wake.notify_all();
        tellBoard();
    }
    template <class Chosen>
    void refuse(const Chosen& chosen) {
        settle(chosen, [](Waiting&) {});
    }
};

class PromptBoard::BoardPrompter final : public Prompter {
public:
    BoardPrompter(std::shared_ptr<State> state, QString session)
        : m_state(std::move(state)), m_session(std::move(session)) {}

    bool acceptHostKey(const HostKeyQuestion& question) override { return ask(question).accepted; }

    std::optional<std::vector<std::string>> answer(const SshQuestions& questions) override {
        return ask(questions).answers;
    }

    void close() override {
        {
            const std::lock_guard held(m_state->mutex);
            m_closed = true;
        }
        m_state->refuse([this](const Waiting& one) { return one.asker == this; });
    }

private:
    Waiting ask(std::variant<HostKeyQuestion, SshQuestions> question) {
        std::unique_lock lock(m_state->mutex);
        if (m_closed || m_state->board == nullptr) return {};
        const auto mine = m_state->waiting.insert(
            m_state->waiting.end(),
            Waiting{{m_state->next_id++, m_session, std::move(question)}, this, false, false, {}});
        m_state->tellBoard();
        m_state->wake.wait(lock, [&] { return mine->done; });
        Waiting out = std::move(*mine);
        m_state->waiting.erase(mine);
        return out;
    }

    std::shared_ptr<State> m_state;
    QString m_session;
    bool m_closed = false;  ///< under the mutex
};

PromptBoard::PromptBoard(QObject* parent) : QObject(parent), m_state(std::make_shared<State>()) {
    m_state->board = this;
}

PromptBoard::~PromptBoard() {
    {
        const std::lock_guard held(m_state->mutex);
        m_state->board = nullptr;
    }
    refuseAll();
}

std::shared_ptr<PromptBoard::Prompter> PromptBoard::prompterFor(const QString& session) {
    return std::make_shared<BoardPrompter>(m_state, session);
}

std::optional<Prompt> PromptBoard::current() const {
    const std::lock_guard held(m_state->mutex);
    for (const Waiting& one : m_state->waiting)
        if (!one.done) return one.prompt;
    return std::nullopt;
}

void PromptBoard::acceptKey(std::uint64_t id) {
    m_state->settle(
        [id](const Waiting& one) {
            return one.prompt.id == id &&
                   std::holds_alternative<HostKeyQuestion>(one.prompt.question);
        },
        [](Waiting& one) { one.accepted = true; });
}

void PromptBoard::answer(std::uint64_t id, std::vector<std::string> answers) {
    m_state->settle(
        [id](const Waiting& one) {
            return one.prompt.id == id && std::holds_alternative<SshQuestions>(one.prompt.question);
        },
        [&](Waiting& one) { one.answers = std::move(answers); });
}

void PromptBoard::refuse(std::uint64_t id) {
    m_state->refuse([id](const Waiting& one) { return one.prompt.id == id; });
}

void PromptBoard::refuseAll() {
    m_state->refuse([](const Waiting&) { return true; });
}

QString promptText(const Prompt& prompt) {
    if (const auto* key = std::get_if<HostKeyQuestion>(&prompt.question))
        return QStringLiteral("%1: host key of %2 is not known\n%3 %4")
            .arg(prompt.session, text(key->hop), text(key->key_type), text(key->fingerprint));
    const auto& asked = std::get<SshQuestions>(prompt.question);
    QString out = QStringLiteral("%1: %2 asks").arg(prompt.session, text(asked.hop));
    for (const std::string* line : {&asked.title, &asked.instruction})
        if (!line->empty()) out += u'\n' + text(*line);
    for (const SshQuestions::Question& question : asked.questions)
        out += QStringLiteral("\n%1%2").arg(
            text(question.text), question.echo ? QString() : QStringLiteral(" (hidden)"));
    return out;
}

}  // namespace piper::ui
