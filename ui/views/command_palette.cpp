// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/command_palette.h"

#include <QApplication>
#include <QKeyEvent>
#include <QLineEdit>
#include <QListView>
#include <QPainter>
#include <QStyledItemDelegate>
#include <QVBoxLayout>

#include "ui/views/widgets.h"

namespace piper::ui {
namespace {

constexpr int kWidth = 620, kRowHeight = 28, kMostRows = 14, kInset = 12, kSectionWidth = 92;

/// "Plan   Pin this plan   Ctrl+P": the letters found are bold, what is not possible is faint.
class CommandDelegate : public QStyledItemDelegate {
public:
    using QStyledItemDelegate::QStyledItemDelegate;

    [[nodiscard]] QSize sizeHint(const QStyleOptionViewItem&, const QModelIndex&) const override {
        return {kWidth - 2 * kInset, kRowHeight};
    }

    void paint(QPainter* painter, const QStyleOptionViewItem& option,
               const QModelIndex& index) const override {
        const QPalette& palette = option.palette;
        const bool selected = option.state & QStyle::State_Selected;
        if (selected) painter->fillRect(option.rect, palette.color(QPalette::Highlight));
        const bool possible = index.data(CommandPaletteModel::PossibleRole).toBool();
        const QColor strong = palette.color(selected ? QPalette::HighlightedText : QPalette::Text);
        const QColor faint = selected ? strong : palette.color(QPalette::PlaceholderText);
        QRect at = option.rect.adjusted(kInset, 0, -kInset, 0);
        painter->setPen(faint);
        const QString section = index.data(CommandPaletteModel::SectionRole).toString();
        const auto found = index.data(CommandPaletteModel::PositionsRole).value<QList<int>>();
        drawLetters(*painter, at.topLeft(), at.height(), section, found, 0, option.font);
        const QString keys = index.data(CommandPaletteModel::KeysRole).toString();
        painter->drawText(at, Qt::AlignRight | Qt::AlignVCenter, keys);
        painter->setPen(possible ? strong : faint);
        at.setLeft(at.left() + kSectionWidth);
        // The found places count from the start of "Section: Text".
        drawLetters(*painter, at.topLeft(), at.height(),
                    index.data(CommandPaletteModel::TextRole).toString(), found,
                    static_cast<int>(section.size()) + 2, option.font);
    }

private:
    static void drawLetters(QPainter& painter, QPoint at, int height, const QString& text,
                            const QList<int>& found, int first, const QFont& font) {
        QFont bold = font;
        bold.setBold(true);
        int x = at.x();
        for (qsizetype from = 0; from < text.size();) {
            const bool hit = found.contains(first + static_cast<int>(from));
            qsizetype to = from + 1;
            while (to < text.size() && found.contains(first + static_cast<int>(to)) == hit) ++to;
            const QString part = text.mid(from, to - from);
            painter.setFont(hit ? bold : font);
            painter.drawText(QRect(x, at.y(), kWidth, height), Qt::AlignVCenter, part);
            x += painter.fontMetrics().horizontalAdvance(part);
            from = to;
        }
        painter.setFont(font);
    }
};

}  // namespace

CommandPalette::CommandPalette(const ActionCatalogue& catalogue, QWidget* window)
    : QDialog(window, Qt::Dialog | Qt::FramelessWindowHint),
      m_model(catalogue),
      m_field(new QLineEdit(this)),
      m_list(new QListView(this)) {
    setObjectName(QStringLiteral("palette"));
    setWindowTitle(QStringLiteral("Commands"));
    setModal(true);
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(kInset / 2, kInset / 2, kInset / 2, kInset / 2);
    layout->setSpacing(kInset / 2);
    m_field->setObjectName(QStringLiteral("palette.field"));
    m_field->setPlaceholderText(QStringLiteral("Type what to do: search, pin, ep, dark …"));
    m_field->setAccessibleName(QStringLiteral("Command to look for"));
    m_field->installEventFilter(this);
    layout->addWidget(m_field);
    m_list->setModel(&m_model);
    m_list->setItemDelegate(new CommandDelegate(m_list));
    m_list->setObjectName(QStringLiteral("palette.list"));
    m_list->setAccessibleName(QStringLiteral("Commands found"));
    m_list->setUniformItemSizes(true);
    m_list->setFocusPolicy(Qt::NoFocus);
    m_list->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    m_list->setFrameShape(QFrame::NoFrame);
    m_list->setFixedHeight(kMostRows * kRowHeight);
    layout->addWidget(m_list);
    setFixedWidth(kWidth);
    connect(m_field, &QLineEdit::textChanged, this, &CommandPalette::filter);
    connect(m_list, &QListView::clicked, this,
            [this](const QModelIndex& index) { runRow(index.row()); });
    filter({});
}

void CommandPalette::filter(const QString& pattern) {
    m_model.setPattern(pattern);
    m_list->setCurrentIndex(m_model.index(0));
}

void CommandPalette::showEvent(QShowEvent* event) {
    QDialog::showEvent(event);
    const QWidget* window = parentWidget();
    move(window->mapToGlobal(QPoint((window->width() - width()) / 2, 60)));
    m_field->setFocus();
}

/// The list follows the arrows while the line keeps the focus.
bool CommandPalette::eventFilter(QObject* watched, QEvent* event) {
    if (watched != m_field || event->type() != QEvent::KeyPress)
        return QDialog::eventFilter(watched, event);
    switch (static_cast<QKeyEvent*>(event)->key()) {
        case Qt::Key_Up:
        case Qt::Key_Down:
        case Qt::Key_PageUp:
        case Qt::Key_PageDown:
            QApplication::sendEvent(m_list, event);
            return true;
        case Qt::Key_Return:
        case Qt::Key_Enter:
            runRow(m_list->currentIndex().row());
            return true;
        default:
            return false;
    }
}

void CommandPalette::runRow(int row) {
    if (!m_model.index(row).data(CommandPaletteModel::PossibleRole).toBool()) return;
    accept();  // what is done may open a dialog of its own
    m_model.run(row);
}

}  // namespace piper::ui
