// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/prompt_dialog.h"

#include <QDialogButtonBox>
#include <QFontDatabase>
#include <QFormLayout>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QVBoxLayout>

#include "ui/models/text_format.h"
#include "ui/views/widgets.h"

namespace piper::ui {
namespace {

constexpr int kPromptWidth = 520;

/// Text of a host: shown as it is, never as markup.
QLabel* plainLabel(const QString& content, const char* role, QWidget* parent) {
    QLabel* label = makeLabel(content, role, parent);
    label->setTextFormat(Qt::PlainText);
    label->setWordWrap(true);
    label->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
    label->setFocusPolicy(Qt::NoFocus);
    return label;
}

}  // namespace

PromptDialog::PromptDialog(PromptBoard& board, Prompt prompt, QWidget* parent)
    : QDialog(parent), m_board(board), m_prompt(std::move(prompt)) {
    setObjectName(QStringLiteral("prompt"));
    setModal(true);
    setMinimumWidth(kPromptWidth);
    auto* layout = new QVBoxLayout(this);
    layout->setSpacing(kSpacing);
    const auto* key = std::get_if<HostKeyQuestion>(&m_prompt.question);
    setWindowTitle(key != nullptr
                       ? QStringLiteral("Unknown host key – session %1").arg(m_prompt.session)
                       : QStringLiteral("Log-in – session %1").arg(m_prompt.session));
    auto* buttons = new QDialogButtonBox(this);
    auto* yes = buttons->addButton(
        key != nullptr ? QStringLiteral("&Accept the key") : QStringLiteral("&Log in"),
        QDialogButtonBox::AcceptRole);
    auto* no = buttons->addButton(
        key != nullptr ? QStringLiteral("&Do not connect") : QStringLiteral("&Cancel"),
        QDialogButtonBox::RejectRole);
    yes->setObjectName(QStringLiteral("prompt.accept"));
    no->setObjectName(QStringLiteral("prompt.refuse"));
    if (key != nullptr)
        addHostKey(*layout, *key);
    else
        addQuestions(*layout, std::get<SshQuestions>(m_prompt.question));
    layout->addWidget(buttons);
    connect(buttons, &QDialogButtonBox::accepted, this, &PromptDialog::accept);
    connect(buttons, &QDialogButtonBox::rejected, this, &PromptDialog::reject);
    // A key is taken by decision, never by a stray Return.
    (key != nullptr ? no : yes)->setDefault(true);
    if (key != nullptr) no->setFocus();
}

void PromptDialog::addHostKey(QVBoxLayout& into, const HostKeyQuestion& key) {
    into.addWidget(
        plainLabel(QStringLiteral("Nobody here has seen the key of %1 yet.").arg(text(key.hop)),
                   "section", this));
    auto* fingerprint =
        plainLabel(text(key.key_type) + u'\n' + text(key.fingerprint), "plain", this);
    fingerprint->setObjectName(QStringLiteral("prompt.fingerprint"));
    fingerprint->setFont(QFontDatabase::systemFont(QFontDatabase::FixedFont));
    into.addWidget(fingerprint);
    into.addWidget(
        plainLabel(QStringLiteral("Compare the fingerprint with the one its administrator gives. "
                                  "An accepted key is written to known_hosts as %1.")
                       .arg(text(key.name)),
                   "faint", this));
}

void PromptDialog::addQuestions(QVBoxLayout& into, const SshQuestions& asked) {
    into.addWidget(plainLabel(QStringLiteral("%1 asks:").arg(text(asked.hop)), "section", this));
    for (const std::string* line : {&asked.title, &asked.instruction})
        if (!line->empty()) into.addWidget(plainLabel(text(*line), "plain", this));
    auto* form = new QFormLayout;
    form->setRowWrapPolicy(QFormLayout::WrapAllRows);
    for (const SshQuestions::Question& question : asked.questions) {
        auto* input = new QLineEdit(this);
        input->setObjectName(QStringLiteral("prompt.answer.%1").arg(m_inputs.size()));
        input->setEchoMode(question.echo ? QLineEdit::Normal : QLineEdit::Password);
        input->setAccessibleName(text(question.text));
        form->addRow(plainLabel(text(question.text), "plain", this), input);
        m_inputs.push_back(input);
    }
    into.addLayout(form);
    into.addWidget(
        plainLabel(QStringLiteral("Answers are used once and not stored."), "faint", this));
    if (!m_inputs.empty()) m_inputs.front()->setFocus();
}

void PromptDialog::accept() {
    if (std::holds_alternative<HostKeyQuestion>(m_prompt.question)) {
        m_board.acceptKey(m_prompt.id);
    } else {
        std::vector<std::string> answers;
        for (const QLineEdit* input : m_inputs) {
            QByteArray bytes = input->text().toUtf8();
            answers.emplace_back(bytes.constData(), static_cast<std::size_t>(bytes.size()));
            bytes.fill('\0');
        }
        m_board.answer(m_prompt.id, std::move(answers));
    }
    forgetInput();
    QDialog::accept();
}

void PromptDialog::reject() {
    m_board.refuse(m_prompt.id);
    forgetInput();
    QDialog::reject();
}

void PromptDialog::forgetInput() {
    for (QLineEdit* input : m_inputs) input->clear();
}

PromptPresenter::PromptPresenter(PromptBoard& board, QWidget& window)
    : QObject(&window), m_board(board), m_window(window) {
    connect(&board, &PromptBoard::changed, this, &PromptPresenter::take);
}

void PromptPresenter::take() {
    const std::optional<Prompt> prompt = m_board.current();
    if (m_dialog != nullptr) {
        if (prompt && prompt->id == m_dialog->promptId()) return;
        // Answered, or its session was closed.
        m_dialog->hide();
        m_dialog->deleteLater();
        m_dialog = nullptr;
    }
    if (!prompt) return;
    m_dialog = new PromptDialog(m_board, *prompt, &m_window);
    m_dialog->open();
}

}  // namespace piper::ui
