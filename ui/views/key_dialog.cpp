// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/key_dialog.h"

#include <QDialogButtonBox>
#include <QHeaderView>
#include <QKeyEvent>
#include <QLineEdit>
#include <QPushButton>
#include <QTableView>
#include <QVBoxLayout>

#include "ui/timeline/timeline_canvas.h"
#include "ui/views/widgets.h"

namespace piper::ui {
namespace {

constexpr QSize kSize(620, 620);

bool isModifier(int key) {
    return key == Qt::Key_Shift || key == Qt::Key_Control || key == Qt::Key_Alt ||
           key == Qt::Key_Meta || key == Qt::Key_AltGr || key == Qt::Key_unknown || key == 0;
}

}  // namespace

KeyDialog::KeyDialog(TimelineKeys& keys, QWidget* parent)
    : QDialog(parent),
      m_keys(keys),
      m_model(keys),
      m_table(makeTable(&m_model, this)),
      m_field(new QLineEdit(this)),
      m_note(makeLabel({}, "faint", this)) {
    setObjectName(QStringLiteral("keys"));
    setWindowTitle(QStringLiteral("Keys of the timeline"));
    resize(kSize);
    auto* layout = new QVBoxLayout(this);
    layout->setSpacing(kSpacing);
    m_table->setObjectName(QStringLiteral("keys.table"));
    m_table->setAccessibleName(QStringLiteral("What keys do on the timeline"));
    m_table->horizontalHeader()->setSectionResizeMode(0, QHeaderView::ResizeToContents);
    m_table->setTabKeyNavigation(false);
    m_table->selectRow(0);
    layout->addWidget(m_table, 1);
    auto* line = new QHBoxLayout;
    m_field->setObjectName(QStringLiteral("keys.field"));
    m_field->setReadOnly(true);
    m_field->setPlaceholderText(QStringLiteral("Press the new key here"));
    m_field->setAccessibleName(QStringLiteral("New key of the chosen row"));
    m_field->installEventFilter(this);
    auto* none = new QPushButton(QStringLiteral("&No key"), this);
    auto* first = new QPushButton(QStringLiteral("As at &first"), this);
    auto* all = new QPushButton(QStringLiteral("&All as at first"), this);
    for (QPushButton* button : {none, first, all}) button->setAutoDefault(false);
    line->addWidget(m_field, 1);
    line->addWidget(none);
    line->addWidget(first);
    line->addWidget(all);
    layout->addLayout(line);
    m_note->setObjectName(QStringLiteral("keys.note"));
    m_note->setWordWrap(true);
    layout->addWidget(m_note);
    auto* buttons = new QDialogButtonBox(QDialogButtonBox::Close, this);
    buttons->button(QDialogButtonBox::Close)->setAutoDefault(false);
    layout->addWidget(buttons);
    connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
    connect(none, &QPushButton::clicked, this, [this] { m_keys.clear(current()); });
    connect(first, &QPushButton::clicked, this, [this] { m_keys.reset(current()); });
    connect(all, &QPushButton::clicked, &m_keys, &TimelineKeys::resetAll);
    connect(m_table, &QTableView::activated, m_field, [this] { m_field->setFocus(); });
    say({});
}

TimelineCommand KeyDialog::current() const {
    return TimelineKeysModel::commandAt(std::max(0, m_table->currentIndex().row()));
}

void KeyDialog::say(const QString& message) {
    m_note->setText(message.isEmpty()
                        ? QStringLiteral("Choose a row, go to the field with Tab or Return and "
                                         "press the key. Bold: changed. Tab leaves the field.")
                        : message);
}

/// Tab and Shift+Tab leave the field; everything else is the new key.
bool KeyDialog::eventFilter(QObject* watched, QEvent* event) {
    if (watched != m_field) return QDialog::eventFilter(watched, event);
    if (event->type() == QEvent::ShortcutOverride) {
        event->accept();
        return true;
    }
    if (event->type() != QEvent::KeyPress) return false;
    const auto& press = *static_cast<QKeyEvent*>(event);
    if (press.key() == Qt::Key_Tab || press.key() == Qt::Key_Backtab) return false;
    if (isModifier(press.key())) return true;
    const QString fault = m_keys.bind(current(), TimelineCanvas::keyOf(press));
    m_field->setText(fault.isEmpty() ? m_keys.keysText(current()) : QString());
    say(fault);
    return true;
}

}  // namespace piper::ui
