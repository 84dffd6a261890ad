// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/rank_map_view.h"

#include <QComboBox>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QScrollArea>
#include <QVBoxLayout>
#include <algorithm>

#include "ui/models/phase_colours.h"
#include "ui/models/text_format.h"
#include "ui/views/theme.h"
#include "ui/views/widgets.h"

namespace piper::ui {
namespace {

constexpr int kLargestCell = 28, kSmallestCell = 5, kNumberedCell = 20;
constexpr int kPictureGap = 18, kBlockGap = 12, kHead = 40, kBlockTitle = 16;
constexpr int kNumberPixels = 10;

int rowsOf(const RankBlock& block) {
    return (static_cast<int>(block.ranks.size()) + block.columns - 1) / block.columns;
}

}  // namespace

RankMapView::RankMapView(QWidget* parent) : QWidget(parent) {
    setObjectName(QStringLiteral("ranks"));
    setAccessibleName(QStringLiteral("Ranks on nodes and in both grids"));
    setFocusPolicy(Qt::StrongFocus);
}

void RankMapView::setMap(std::optional<RankMap> map) {
    m_map = std::move(map);
    if (m_map && m_selected.value >= m_map->world()) m_selected = RankId(std::int32_t{0});
    place();
    mark();
}

void RankMapView::setDimension(std::string_view dimension) {
    m_dimension = dimension;
    mark();
}

void RankMapView::select(RankId rank) {
    if (!m_map || rank.value < 0 || rank.value >= m_map->world()) return;
    m_selected = rank;
    mark();
}

void RankMapView::mark() {
    m_marked.clear();
    QString words;
    if (m_map) {
        for (const RankId rank : m_map->group(m_selected, m_dimension)) m_marked.insert(rank);
        words = m_map->describe(m_selected, m_dimension);
    }
    setAccessibleDescription(words);
    Q_EMIT described(words);
    update();
}

int RankMapView::columnWidth() const {
    return (width() - 2 * kPictureGap) / 3;
}

const RankBlock& RankMapView::blockOf(const Placed& placed) const {
    return m_map->pictures()[placed.picture].blocks[placed.block];
}

int RankMapView::flow(std::size_t picture, int cell, std::vector<Placed>* out) const {
    const int left = static_cast<int>(picture) * (columnWidth() + kPictureGap);
    int x = 0, y = kHead, line = 0;
    const auto& blocks = m_map->pictures()[picture].blocks;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        const int title = fontMetrics().horizontalAdvance(blocks[i].title);
        const int wide = std::max(blocks[i].columns * cell, title);
        if (x > 0 && x + wide > columnWidth()) {
            x = 0;
            y += line + kBlockGap;
            line = 0;
        }
        if (out != nullptr) out->push_back({picture, i, QPoint(left + x, y + kBlockTitle), cell});
        line = std::max(line, kBlockTitle + rowsOf(blocks[i]) * cell);
        x += wide + kBlockGap;
    }
    return y + line;
}

/// Each picture with the largest cells with which it fits; the smallest ones are scrolled to.
void RankMapView::place() {
    m_placed.clear();
    int needed = 0;
    if (m_map) {
        for (std::size_t picture = 0; picture < m_map->pictures().size(); ++picture) {
            int widest = 1;
            for (const RankBlock& block : m_map->pictures()[picture].blocks)
                widest = std::max(widest, block.columns);
            int cell = std::clamp(columnWidth() / widest, 1, kLargestCell);
            const int room = parentWidget() != nullptr ? parentWidget()->height() : height();
            while (cell > kSmallestCell && flow(picture, cell, nullptr) > room) --cell;
            needed = std::max(needed, flow(picture, cell, &m_placed));
        }
    }
    setMinimumHeight(needed + 2);
}

void RankMapView::resizeEvent(QResizeEvent* event) {
    QWidget::resizeEvent(event);
    place();
}

void RankMapView::paintBlock(QPainter& painter, const Placed& placed) const {
    const RankBlock& block = blockOf(placed);
    const bool dark = isDark(palette());
    painter.setPen(palette().color(QPalette::PlaceholderText));
    painter.drawText(QRect(placed.at.x(), placed.at.y() - kBlockTitle, 400, kBlockTitle),
                     Qt::AlignLeft | Qt::AlignVCenter, block.title);
    const int gap = placed.cell > 8 ? 2 : 1;
    for (std::size_t i = 0; i < block.ranks.size(); ++i) {
        const RankId rank = block.ranks[i];
        const int column = static_cast<int>(i) % block.columns;
        const int row = static_cast<int>(i) / block.columns;
        const QRect cell(placed.at + QPoint(column, row) * placed.cell,
                         QSize(placed.cell - gap, placed.cell - gap));
        const auto stages = static_cast<double>(std::max<std::int64_t>(1, m_map->numStages() - 1));
        const bool chosen = rank == m_selected;
        const QColor fill =
            chosen ? warningColour(dark)
                   : heatColour(0.1 + 0.7 * static_cast<double>(m_map->stage(rank)) / stages, dark);
        painter.fillRect(cell, fill);
        if (m_marked.contains(rank)) {
            painter.setPen(QPen(warningColour(dark), gap));
            painter.drawRect(cell.adjusted(0, 0, -1, -1));
        }
        if (placed.cell < kNumberedCell) continue;
        painter.setPen(textOn(fill));
        painter.drawText(cell, Qt::AlignCenter, QString::number(rank.value));
    }
}

void RankMapView::paintEvent(QPaintEvent*) {
    if (!m_map) return;
    QPainter painter(this);
    for (std::size_t i = 0; i < m_map->pictures().size(); ++i) {
        const RankPicture& picture = m_map->pictures()[i];
        const int left = static_cast<int>(i) * (columnWidth() + kPictureGap);
        painter.setPen(palette().color(QPalette::WindowText));
        const auto line = [&](int y, const QString& words) {
            painter.drawText(QRect(left, y, columnWidth(), kHead / 2),
                             Qt::AlignLeft | Qt::AlignVCenter,
                             fontMetrics().elidedText(words, Qt::ElideRight, columnWidth()));
        };
        line(0, picture.title);
        painter.setPen(palette().color(QPalette::PlaceholderText));
        line(kHead / 2 - 3, picture.axes);
    }
    QFont small = font();
    small.setPixelSize(kNumberPixels);
    painter.setFont(small);
    for (const Placed& placed : m_placed) paintBlock(painter, placed);
    if (hasFocus()) {
        painter.setPen(QPen(palette().color(QPalette::Highlight), 1, Qt::DotLine));
        painter.drawRect(rect().adjusted(0, 0, -1, -1));
    }
}

QPoint RankMapView::cellOf(std::size_t picture, RankId rank) const {
    for (const Placed& placed : m_placed) {
        if (placed.picture != picture) continue;
        const RankBlock& block = blockOf(placed);
        const auto found = std::ranges::find(block.ranks, rank);
        if (found == block.ranks.end()) continue;
        const int i = static_cast<int>(found - block.ranks.begin());
        return placed.at + QPoint(i % block.columns, i / block.columns) * placed.cell +
               QPoint(placed.cell, placed.cell) / 2;
    }
    return {};
}

void RankMapView::mousePressEvent(QMouseEvent* event) {
    for (const Placed& placed : m_placed) {
        const QPoint away = event->position().toPoint() - placed.at;
        const RankBlock& block = blockOf(placed);
        const int column = away.x() / placed.cell, row = away.y() / placed.cell;
        const auto i = static_cast<std::size_t>(row * block.columns + column);
        if (away.x() < 0 || away.y() < 0 || column >= block.columns || i >= block.ranks.size())
            continue;
        select(block.ranks[i]);
        return;
    }
}

void RankMapView::keyPressEvent(QKeyEvent* event) {
    const int row = m_map ? m_map->pictures()[0].blocks.front().columns : 1;
    switch (event->key()) {
        case Qt::Key_Left:
            return select(RankId(m_selected.value - 1));
        case Qt::Key_Right:
            return select(RankId(m_selected.value + 1));
        case Qt::Key_Up:
            return select(RankId(m_selected.value - row));
        case Qt::Key_Down:
            return select(RankId(m_selected.value + row));
        default:
            QWidget::keyPressEvent(event);
    }
}

RankMapPanel::RankMapPanel(QWidget* parent)
    : QWidget(parent),
      m_dimension(new QComboBox(this)),
      m_view(new RankMapView),
      m_words(makeLabel({}, "faint", this)) {
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 6, 0, 0);
    layout->setSpacing(6);
    auto* line = new QHBoxLayout;
    m_dimension->setObjectName(QStringLiteral("ranks.dimension"));
    m_dimension->setAccessibleName(QStringLiteral("Group to mark"));
    for (const std::string_view dimension : RankMap::kDimensions)
        m_dimension->addItem(text(dimension).toUpper());
    m_dimension->setCurrentText(QStringLiteral("EP"));
    auto* name = new QLabel(QStringLiteral("Group to mark"), this);
    name->setBuddy(m_dimension);
    line->addWidget(name);
    line->addWidget(m_dimension);
    auto* hint = makeLabel(QStringLiteral("Colour: stage. A click or the arrows choose a rank."),
                           "faint", this);
    hint->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    line->addWidget(hint, 1);
    layout->addLayout(line);
    auto* scroll = new QScrollArea(this);
    scroll->setFrameShape(QFrame::NoFrame);
    scroll->setWidgetResizable(true);
    scroll->setWidget(m_view);
    scroll->setFocusPolicy(Qt::NoFocus);
    layout->addWidget(scroll, 1);
    m_words->setObjectName(QStringLiteral("ranks.words"));
    m_words->setWordWrap(true);
    layout->addWidget(m_words);
    connect(m_dimension, &QComboBox::currentIndexChanged, this, [this](int index) {
        m_view->setDimension(RankMap::kDimensions[static_cast<std::size_t>(index)]);
    });
    connect(m_view, &RankMapView::described, m_words, &QLabel::setText);
}

}  // namespace piper::ui
